//! The use cases: open a session, run code in it, stop it, sweep after dead processes.
//!
//! This is the orchestration layer: it calls policy, sandbox, journal and store in order. It has no algorithm of its own, and knows neither
//! MCP, HTTP and terminals above it nor SQL and system calls below it. Read [`run`] first.
#![forbid(unsafe_code)]

pub mod approvals;
mod ask;
mod asker;
mod attempt;
mod bells;
mod direct;
mod discover;
mod door;
mod durable;
mod engine;
mod error;
mod execution;
mod follow;
mod front;
mod guest;
mod host_work;
pub mod kept;
mod network;
mod once;
mod outcome;
mod printed;
mod promote;
mod recalled;
mod record;
mod refusal;
mod replay;
mod report;
mod request;
mod resume;
mod reveal;
mod rules;
pub mod run;
mod runs;
mod script;
mod session;
mod shown;
mod sinks;
mod skills;
pub mod standing;
mod stay;
mod sweep;
mod switch;
mod tidy;
mod told;
mod typed;
mod words;
mod workspace;

pub use ask::{Ask, Front, Trace};
pub use bells::Word;

pub use direct::{DirectTool, ToolCall};
pub use discover::{Discover, DiscoverError, notes, offers};
pub use engine::{Engine, OpenError, Settings};
pub use error::RunError;
pub use execution::{CallReport, ErrorReport, Execution, FileReport, TokenReport, ViolationReport};
pub use follow::{Followed, Follower};
pub use once::Once;
pub use printed::{OutputCursor, OutputCursorError};
pub use promote::{Personal, PromoteError, Promoted, Promotion, promote};
pub use recalled::{PastCall, calls_of};
pub use refusal::Refusal;
pub use replay::{Decided, Difference, ReplayError, Replayed, ReplayedCall};
pub use report::ExecutionAnswer;
pub use request::{Input, Out, Program, Reader, RunCode, Source};
pub use ringfence_check::{Location, Tools};
pub use ringfence_sandbox::{BudgetLimits, BudgetOverrides, Language, PoolCounts, is_hard_by_nature};
pub use ringfence_store::SkillLanguage;
pub use rules::{ChangeError, Changed};
pub use runs::{Ending, OutputFrom, Part, Patience, Progress, Running, WaitError};
pub use script::ScriptError;
pub use shown::{Whole, shares};
pub use sinks::Sink;
pub use skills::kept::{NewScope, NewSkill, SkillProgram, SkillView, SkillWhole, for_bash};
pub use skills::schema::{SchemaError, check_schemas};
pub use words::{Live, Stream};
