//! Stores journals, sessions, leases, skills and access tokens in one data folder that several processes share.
//!
//! Each process has one writer. It takes the queued commands, gives each event its number and hash, commits once and replies to all
//! callers. Only the process whose lease owns a session writes its chain; the chain of heads is appended inside the transaction that holds
//! the database's write lock, so neither chain can fork.
//!
//! This crate knows nothing about the meaning of a policy, about sandboxes or about clients.
#![forbid(unsafe_code)]

mod ahead;
mod alias;
mod approval;
mod audit;
mod check;
mod claim;
mod database;
mod execution;
mod home;
mod lease;
mod loss;
mod open;
mod prune;
mod recording;
mod retention;
mod seal;
mod session;
mod sink;
mod skill;
mod stop;
mod sweep;
mod token;
mod wake;
mod workspace;
mod writer;

pub use claim::{Claim, Claimed, Key, Promise};
pub use execution::Executions;
pub use home::close_to_others;
pub use loss::{Accepted, Loss, accept_loss, check_journal_gone};
pub use open::{OpenError, Store};
pub use session::{AdoptError, Execution, IdKind, LastRun, Opening, Session, Sessions};

pub use approval::{Answer, Answered, Approval, ApprovalState, Approvals, Grounds, Question};
pub use prune::{PruneError, Pruned, ago};
pub use recording::{Kept, Recording, RecordingState, Standing};
pub use retention::Retention;
pub use wake::{Wake, Wakes};
pub use workspace::{Keeping, Workspace};

pub use lease::{DeadLease, Holder, Lease, LeaseError, Resource};
pub use stop::{Owner, Stop, Stops, Target};
pub use sweep::{Removed, SweepError};
pub use token::{AccessToken, Scope, Secret, TokenError};

pub use skill::{
    Damaged, MAX_DESCRIPTION, Quota, RequiredTool, Skill, SkillBody, SkillError, SkillExtra, SkillLanguage, SkillMeta,
    SkillName, SkillParcel, SkillScope, Skills, Survey,
};

pub use ahead::{MergeError, set_aside};
pub use audit::{Contents, ExportError, Numbered, Tail};
pub use database::ReadError;
pub use seal::SealError;
pub use sink::{Missed, Remote, Sink, SinkError};
