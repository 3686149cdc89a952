//! The use cases: open a session, run code in it, stop it, sweep after dead processes.
//!
//! This is the orchestration layer: it calls policy, sandbox, journal and store in order. It has no algorithm of its own, and knows neither
//! MCP, HTTP and terminals above it nor SQL and system calls below it. Read [`run`] first.
#![forbid(unsafe_code)]

mod approval_broker;
mod approval_notifier;
pub mod approvals;
mod attempt;
mod call_dispatch;
mod cancel;
mod client_api;
mod direct_tools;
mod discover;
mod durable;
mod engine;
mod error;
mod execution;
mod follow;
mod host_work;
mod idempotency;
mod network;
mod outcome;
mod output;
mod output_buffer;
mod past_calls;
mod promote;
mod record;
mod recorded_request;
mod redact;
mod redacted_output;
mod refusal;
mod refused_runs;
mod replay;
mod report;
mod request;
mod resume;
mod reveal;
mod rules;
pub mod run;
mod run_request;
mod runs;
mod sandboxed_server;
mod session;
mod session_refusals;
mod session_run;
mod sinks;
mod skills;
pub mod standing_rules;
pub mod storage;
mod sweep;
mod typecheck;
mod workspace;
mod workspace_gc;

pub use approval_notifier::ApprovalEvent;
pub use run_request::{ClientTrace, RunRequest, ServeConfig};

pub use direct_tools::{DirectTool, DirectToolCall};
pub use discover::{DiscoverError, ToolDiscovery, policy_notes, tool_offers};
pub use engine::{Engine, EngineConfig, EngineOpenError};
pub use error::OperationError;
pub use execution::{CallReport, ErrorReport, ExecutionReport, FileReport, TokenReport, ViolationReport};
pub use follow::{RunEvent, RunFollower};
pub use idempotency::IdempotentRun;
pub use output::{OutputObserver, ProgramStream};
pub use output_buffer::{OutputCursor, OutputCursorError};
pub use past_calls::{PastCall, session_calls};
pub use promote::{PersonalDataMode, PromoteError, PromotedSkill, SkillPromotion, promote_run};
pub use recorded_request::RecordedRequestError;
pub use redact::{FullOutput, fair_shares};
pub use refusal::RunRefusal;
pub use replay::{ComparedDecision, ReplayDifference, ReplayError, ReplayReport, ReplayedCall};
pub use report::ExecutionAnswer;
pub use request::{ExecutionRequest, InputFile, InputSource, OutputDestination, ResultAudience, RunProgram};
pub use ringfence_check::{CheckerTools, TypeErrorLocation};
pub use ringfence_sandbox::{BudgetLimits, BudgetOverrides, JobLanguage, PoolCounts, is_hard_by_nature};
pub use ringfence_store::SkillLanguage;
pub use rules::{ActiveRules, RulesChangeError};
pub use runs::{OutputFrom, RunArtifact, RunProgress, RunResult, RunningExecution, WaitCondition, WaitError};
pub use sinks::AuditSinkConfig;
pub use skills::manage::{NewSkill, NewSkillScope, SkillDetail, SkillProgram, SkillView, for_bash};
pub use skills::schema::{SchemaError, check_schemas};
