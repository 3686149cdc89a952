//! The gateway: the only path from a sandbox to tools and the network. It checks each tool call, decides it by the
//! policy, limits and records it, and then forwards it with credentials that the sandbox never sees.
//!
//! This crate does not know sandboxes, the wire protocol or the front ends.
#![forbid(unsafe_code)]

mod answer;
mod connect;
mod conversation;
mod credential;
mod desk;
mod ear;
mod egress;
mod error;
mod gateway;
mod http;
mod keep;
mod lines;
mod link;
mod oauth;
mod openapi;
mod otlp;
mod outlet;
mod own;
mod pass;
mod person;
mod plain_words;
mod process;
mod refusal;
mod screen;
mod servers;
mod spawner;
mod talk;
mod tape;
mod tree;
mod upstream;
mod upstreams;
mod vault;

pub use answer::{CallResult, Content};
pub use credential::{
    Credential, CredentialError, Credentials, CredentialsError, Environment, HostUse, Secret, ServerUse, Written,
};
pub use desk::{Desk, Petition, Ruling};
pub use egress::fuzz;
pub use egress::{Barred, Crossed, Egress, EgressSettings, Resolver, Roots, Whereabouts};
pub use error::{CallError, ServerError};
pub use gateway::{Gateway, Indexed, Learnt};
pub use keep::{Era, Keep, KeepError, PinError, Pinned};
pub use oauth::{OAuthError, login};
pub use otlp::{Otlp, OtlpError};
pub use outlet::{AuditSink, AuditSinkError};
pub use own::{Own, OwnAnswer, OwnCall};
pub use pass::{CallsMade, Made, MoreCalls, Pass, Past, Stopped, Tenants, Terms, Waiting};
pub use person::{Answer, Person, Question};
pub use refusal::{Refusal, Told};
pub use screen::{Screen, ScreenError, Seen, Sight};
pub use servers::{
    Auth, Document, Interface, Notice, OAuthClient, Place, Problem, Program, Remote, Server, Servers, ServersError,
    Source,
};
pub use spawner::{Spawn, SpawnError, Spawned, Spawner};
pub use tape::{Answered, Diverged, Tape, TapeError, Taped, TapedArguments, What};
pub use tree::{MAX_TREE, TooLarge, TreeMemory, TreePermit};
pub use upstream::Condition;
pub use upstreams::{Happened, Known, Options, Status, Upstreams};
pub use vault::{Vault, VaultError};
