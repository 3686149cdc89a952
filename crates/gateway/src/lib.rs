//! The gateway: the only path from a sandbox to tools and the network. It checks each tool call, decides it by the
//! policy, limits and records it, and then forwards it with credentials that the sandbox never sees.
//!
//! This crate does not know sandboxes, the wire protocol or the front ends.
#![forbid(unsafe_code)]

mod approval_port;
mod audit_sink;
mod builtin_server;
mod call_log;
mod call_result;
mod connection;
mod credential;
mod egress;
mod elicitation;
mod error;
mod error_text;
mod gateway;
mod http;
mod json_tree;
mod oauth;
mod otlp;
mod pass;
mod redactor;
mod refusal;
mod server_cache;
mod servers;
mod spawner;
mod upstreams;
mod vault;

pub use approval_port::{ApprovalOutcome, ApprovalPort, ApprovalRequest};
pub use audit_sink::{AuditSink, AuditSinkError};
pub use builtin_server::{BuiltinAnswer, BuiltinCall, BuiltinServer};
pub use call_log::{CallKind, CallLog, CallLogError, LoggedAnswer, LoggedArguments, LoggedCall, ReplayDivergence};
pub use call_result::{CallResult, ResultContent};
pub use connection::UpstreamOptions;
pub use credential::{
    Credential, CredentialError, CredentialSource, Credentials, CredentialsError, EnvironmentLookup, HostUse,
    SecretString, ServerUse,
};
pub use egress::fuzz;
pub use egress::{DnsResolver, Egress, EgressReport, EgressSettings, ProxyLocation, RefusedEgress, TrustRoots};
pub use elicitation::{ElicitationAnswer, ElicitationHandler, ElicitationRequest};
pub use error::{ServerError, UpstreamCallError};
pub use gateway::{Gateway, ObservedTypes, SearchableCatalog};
pub use json_tree::{MAX_TREE, TreeMemory, TreePermit, TreeTooLarge};
pub use oauth::{OAuthError, login};
pub use otlp::{OtlpError, OtlpExporter};
pub use pass::{
    CallsMade, CompletedCall, Pass, PassConfig, PassError, SessionHistory, Tenants, UnlistedCalls, WaitingCalls,
};
pub use redactor::{Redacted, RedactionError, RedactionRules, Redactor};
pub use refusal::{CallErrorBody, RequestRefusal};
pub use server_cache::{PinComparison, PinError, ProtocolEra, ServerCache, ServerCacheError};
pub use servers::{
    ConfiguredServer, DocumentContent, OAuthClient, OpenApiDocument, OpenApiInterface, RemoteAuth, RemoteServer,
    ServerKind, ServerNotice, ServerProblem, Servers, ServersError, StdioPlacement, StdioServer,
};
pub use spawner::{SpawnError, SpawnRequest, SpawnedServer, Spawner};
pub use upstreams::{CatalogSnapshot, ServerEvent, ServerStatus, UpstreamHealth, Upstreams};
pub use vault::{Vault, VaultError};
