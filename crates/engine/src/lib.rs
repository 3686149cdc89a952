//! The use cases: open a session, run code in it, stop it, sweep after dead processes.
//!
//! This is the orchestration layer: it calls policy, sandbox, journal and store in order. It has no algorithm of its own, and knows neither
//! MCP, HTTP and terminals above it nor SQL and system calls below it. Read `execution.rs` first.
#![forbid(unsafe_code)]

pub mod approvals;
mod cancel;
mod closing;
mod config;
mod data_folder;
mod engine;
mod error;
mod execution;
mod host_work;
mod network;
mod outcome;
mod output;
mod promote;
mod recorded_request;
mod records;
mod redact;
mod refusal;
mod replay;
mod report;
mod request;
mod runs;
mod sandboxed_server;
mod sandboxes;
mod sessions;
mod sinks;
mod skills;
pub mod storage;
mod sweep;
mod tools;
mod typecheck;
mod workspaces;

pub use approvals::notifier::ApprovalEvent;
pub use runs::request::{ClientTrace, RunRequest, ServeConfig};

pub use approvals::Approvals;
pub use approvals::standing_rules;
pub use config::{EngineConfig, EngineOpenError};
pub use engine::Engine;
pub use error::OperationError;
pub use output::{OutputObserver, ProgramStream};
pub use promote::{PersonalDataMode, PromoteError, PromotedSkill, SkillPromotion, promote_run};
pub use recorded_request::RecordedRequestError;
pub use redact::{FullOutput, fair_shares};
pub use refusal::RunRefusal;
pub use replay::{ComparedDecision, ReplayDifference, ReplayError, ReplayReport, ReplayedCall};
pub use report::{CallReport, ErrorReport, ExecutionAnswer, ExecutionReport, FileReport, TokenReport, ViolationReport};
pub use request::{ExecutionRequest, InputFile, InputSource, OutputDestination, ResultAudience};
pub use ringfence_check::{CheckerTools, TypeErrorLocation};
pub use ringfence_sandbox::{BudgetLimits, BudgetOverrides, JobLanguage, PoolCounts, RunProgram, is_hard_by_nature};
pub use ringfence_store::SkillLanguage;
pub use runs::ClientRuns;
pub use runs::direct_tools::DirectToolCall;
pub use runs::follow::{RunEvent, RunFollower};
pub use runs::idempotency::IdempotentRun;
pub use runs::output_buffer::{OutputCursor, OutputCursorError};
pub use runs::registry::{OutputFrom, RunArtifact, RunProgress, RunResult, RunningExecution, WaitCondition, WaitError};
pub use sandboxes::{Sandboxes, gateway_rules};
pub use sessions::Sessions;
pub use sessions::rules::{ActiveRules, RulesChangeError};
pub use sinks::AuditSinkConfig;
pub use skills::manage::Skills;
pub use skills::manage::{NewSkill, NewSkillScope, SkillDetail, SkillProgram, SkillView, for_bash};
pub use skills::schema::{SchemaError, check_schemas};
pub use tools::discover::{DiscoverError, ToolDiscovery, policy_notes, tool_offers};
pub use tools::past_calls::{PastCall, session_calls};
pub use tools::{DirectTool, Tools};
pub use workspaces::Workspaces;
