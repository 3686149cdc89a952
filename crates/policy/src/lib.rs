//! Policies as data: what a session may do. This crate makes every policy decision.
//!
//! A [`Draft`] is a requested policy: a file, a preset, or part of a request. Drafts are layered, measured against a [`Ceiling`],
//! and become a [`Policy`], which answers every query with a [`Decision`] that names its rule. Hosts, paths and names have types
//! that exist only in canonical form.
//!
//! The crate has no access to files, networks or clocks, and does not know who asks: it takes text and returns decisions.
#![forbid(unsafe_code)]

mod bounds;
mod capabilities;
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
mod parse;
mod past_calls;
mod policy;
mod preset;
mod restore;
mod schema;
mod standing_rules;
mod static_eval;

mod data;
mod net;
mod tools;

mod address;
mod glob;
mod host;
mod invisible;
mod path;
mod pattern;
mod segments;
#[cfg(test)]
mod testdata;
mod text;
mod units;
mod url;

pub use bounds::{MAX_ENV_BYTES, MAX_ENV_VARIABLES, MAX_INPUT_FILES, MIN_OPEN_FILES, OutOfBounds, check_input_files};
pub use capabilities::{Capability, SupportedCapabilities, UnsupportedKey};
pub use ceiling::{Ceiling, CeilingExcess, DraftRejection};
pub use decide::{Decision, RuleEffect, RuleRef};
pub use diff::{ChangeDirection, ChangeTopic, PolicyChange, diff};
pub use draft::{
    AllowedPrograms, ApprovalsDraft, Approver, AuditDraft, Draft, FileAccess, FsDraft, JournalOutput, MountCleanup,
    MountDraft, PolicyExample, ProcDraft,
};
pub use example::FailedExample;
pub use explain::{ExplainQuery, Explanation};
pub use learn::{AttemptedAction, LearnError, LearnNote, LearnedDraft, ObservedAttempt, learn};
pub use parse::{MAX_DOCUMENT_BYTES, ParseError, WriteError};
pub use past_calls::{PastCallDecision, RedactedCall};
pub use policy::{AuditPolicy, FsPolicy, Mount, Policy, ProgramLimits};
pub use preset::{DenyPreset, NetPreset, preset_text, presets};
pub use schema::schema;
pub use standing_rules::{StandingRule, StandingRules, standing_rules_schema};
pub use static_eval::{
    ApplicableRate, ApprovalRequirement, ConditionalRule, PiiTreatment, RateScope, StaticEvaluation,
};

pub use data::{
    CustomPiiCheck, CustomPiiKind, DataDraft, DataRules, PiiDraft, PiiInside, PiiKind, PiiMode, PiiNames, ReturnDraft,
    SecretMode,
};
pub use net::{
    DenyEntry, HostRequest, HostRule, HttpMethod, NetDraft, NetLimits, NetLimitsDraft, Scheme, TlsInspection,
};
pub use tools::{
    ArgumentCondition, CallHistory, ConditionFolder, FullMatchRegex, FullMatchRegexError, ToolHint, ToolHints,
    ToolLimitScope, ToolLimitsDraft, ToolRule, ToolsDraft,
};

pub use address::AddressKind;
pub use glob::{Glob, GlobError, GlobSet, GlobState};
pub use host::{Host, HostError, HostName, HostPattern};
pub use invisible::{escape_invisible, is_invisible};
pub use path::{GuestPath, PathError, RelPath};
pub use pattern::{NameError, SKILLS_SERVER, ToolName, ToolPattern};
pub use units::{ByteSize, CpuCount, Period, Rate, RateWindow, UnitError};
pub use url::{UrlPath, UrlPathError, UrlPathPattern};
