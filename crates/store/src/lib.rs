//! Stores journals, sessions, leases, skills and access tokens in one data folder that several processes share.
//!
//! Each process has one writer. It takes the queued commands, gives each event its number and hash, commits once and replies to all
//! callers. Only the process whose lease owns a session writes its chain; the chain of heads is appended inside the transaction that holds
//! the database's write lock, so neither chain can fork.
//!
//! This crate knows nothing about the meaning of a policy, about sandboxes or about clients.
#![forbid(unsafe_code)]

mod alias;
mod approval;
mod audit;
mod database;
mod execution;
mod home;
mod idempotency;
mod lease;
mod loss;
mod open;
mod prune;
mod query;
mod recording;
mod retention;
mod seal;
mod session;
mod sink;
mod skill;
mod stop;
mod sweep;
mod token;
mod verify;
mod wake;
mod workspace;
mod write_ahead;
mod writer;

pub use execution::ExecutionQuery;
pub use home::restrict_permissions;
pub use idempotency::{IdempotencyClaim, IdempotencyKey, IdempotencyOutcome, PromisedRun};
pub use loss::{JournalLoss, LossAcceptance, accept_loss, check_journal_gone};
pub use open::{OpenStoreError, Store};
pub use session::{AdoptError, IdKind, LastRun, NewSession, Session, SessionQuery, StoredExecution};

pub use approval::{
    AnswerOutcome, ApprovalGrounds, ApprovalQuery, ApprovalQuestion, ApprovalResponse, ApprovalState, StoredApproval,
};
pub use prune::{PruneError, PruneSummary, retention_cutoff};
pub use recording::{NewRecording, RecordingState, RecordingStatus, StoredRecording};
pub use retention::RecordingRetention;
pub use wake::{WakeEvent, WakeListener};
pub use workspace::{NewWorkspace, StoredWorkspace};

pub use lease::{DeadLease, Lease, LeaseError, LeaseHolder, LeasedResource};
pub use stop::{StopListener, StopOwner, StopRequest, StopTarget};
pub use sweep::{RemovedResources, SweepError};
pub use token::{AccessScope, AccessToken, TokenError, TokenSecret};

pub use skill::{
    DamagedSkill, MAX_DESCRIPTION, RequiredTool, Skill, SkillArchive, SkillBody, SkillError, SkillExtra, SkillLanguage,
    SkillMeta, SkillName, SkillQuota, SkillRepository, SkillScope, SkillSurvey,
};

pub use audit::{ExportContents, ExportError, JournalTail, NumberedRecord};
pub use database::QueryError;
pub use seal::SealError;
pub use sink::{MissedRecords, RemoteSink, SinkConfig, SinkError};
pub use write_ahead::{MergeError, rejected_files};
