//! Policies as data: what a session may do. This crate makes every policy decision.
//!
//! A [`Draft`] is a requested policy: a file, a preset, or part of a request. Drafts are layered, measured against a [`Ceiling`],
//! and become a [`Policy`], which answers every query with a [`Decision`] that names its rule. Hosts, paths and names have types
//! that exist only in canonical form.
//!
//! The crate has no access to files, networks or clocks, and does not know who asks: it takes text and returns decisions.
#![forbid(unsafe_code)]

mod bounds;
mod built;
mod ceiling;
mod decide;
mod diff;
mod draft;
mod example;
mod explain;
pub mod fuzz;
mod layer;
mod learn;
mod measure;
mod node;
mod outlook;
mod parse;
mod policy;
mod preset;
mod recalled;
mod restore;
mod schema;
mod standing;

mod data;
mod net;
mod tools;

mod address;
mod glob;
mod host;
mod path;
mod pattern;
mod segments;
#[cfg(test)]
mod testdata;
mod text;
mod units;
mod unseen;
mod url;

pub use bounds::{MAX_ENV_BYTES, MAX_ENV_VARIABLES, MAX_INPUT_FILES, MIN_OPEN_FILES, OutOfBounds, check_input_files};
pub use built::{Built, Mechanism, Unbuilt};
pub use ceiling::{Ceiling, Excess, TooMuch};
pub use decide::{Decision, Rule, Verdict};
pub use diff::{Change, Direction, Topic, diff};
pub use draft::{
    Access, AllowedPrograms, ApprovalsDraft, Approver, AuditDraft, Clean, Draft, Example, FsDraft, JournalOutput,
    MountDraft, ProcDraft,
};
pub use example::FailedExample;
pub use explain::{Explanation, Question};
pub use learn::{Attempt, Learnt, NotLearnt, Note, Tried, learn};
pub use outlook::{Approval, Outlook, PiiAhead, RateAhead, RateOf, RuleAhead};
pub use parse::{MAX_DOCUMENT, ParseError, WriteError};
pub use policy::{Audit, Fs, Limits, Mount, Policy};
pub use preset::{DenyPreset, NetPreset, preset_text, presets};
pub use recalled::{Called, Judged};
pub use schema::schema;
pub use standing::{StandingRule, StandingRules, standing_schema};

pub use data::{
    DataDraft, DataRules, OwnCheck, OwnKind, PiiDraft, PiiInside, PiiKind, PiiMode, PiiNames, ReturnDraft, Secrets,
};
pub use net::{DenyEntry, HostRequest, HostRule, Inspect, Method, NetDraft, NetLimits, NetLimitsDraft, Scheme};
pub use tools::{
    Condition, Expression, ExpressionError, Folder, Hint, Hints, History, LimitOf, ToolLimitsDraft, ToolRule,
    ToolsDraft,
};

pub use address::AddressKind;
pub use glob::{Glob, GlobError, GlobSet, GlobState};
pub use host::{Host, HostError, HostName, HostPattern};
pub use path::{GuestPath, PathError, RelPath};
pub use pattern::{NameError, SKILLS, ToolName, ToolPattern};
pub use units::{Bytes, Cpus, Per, Period, Rate, UnitError};
pub use unseen::{is_unseen, visible};
pub use url::{UrlPath, UrlPathError, UrlPathPattern};
