//! Approval requests and their answers, for every surface that shows them or takes an answer: the command line, the API, a client's form.
//!
//! Answering needs only the store, not an engine: the process that runs the execution is notified of the answer.

pub(crate) mod broker;
pub(crate) mod notifier;
pub mod standing_rules;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use ringfence_journal::{
    ApprovalId, ApprovalScope, ApprovalVia, AskReason, CleanText, ContentHash, ExecutionId, Principal, RecordError,
    SessionId,
};
use ringfence_policy::{Approver, Policy};
use ringfence_store::{AnswerOutcome, ApprovalGrounds, ApprovalQuestion, ApprovalResponse, Store};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;

use crate::approvals::broker::{ApprovalBroker, ProgramSource};
use crate::approvals::notifier::{ApprovalEvent, ApprovalNotifier};
use crate::approvals::standing_rules::StandingRulesFile;
use crate::recorded_request::RecordedRequest;
use crate::sessions::context::ExecutionContext;

pub use ringfence_store::{ApprovalQuery, ApprovalState, QueryError, StoredApproval};

/// What executions and people need for approvals.
pub struct Approvals {
    pub(crate) store: Arc<Store>,
    pub(crate) notifier: ApprovalNotifier,
    pub(crate) standing_rules: StandingRulesFile,
}

impl fmt::Debug for Approvals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Approvals").finish_non_exhaustive()
    }
}

impl Approvals {
    pub(crate) fn new(store: &Arc<Store>, notifier: ApprovalNotifier, home: &Path) -> Approvals {
        Approvals {
            store: Arc::clone(store),
            notifier,
            standing_rules: StandingRulesFile::new(home),
        }
    }

    /// Subscribes to approval events from now on. A slow listener misses some, and the receiver reports it.
    pub fn events(&self) -> broadcast::Receiver<ApprovalEvent> {
        self.notifier.subscribe()
    }

    /// The approval broker of an execution.
    pub(crate) fn broker(&self, session: &ExecutionContext, program: &str) -> ApprovalBroker {
        ApprovalBroker {
            store: Arc::clone(&self.store),
            notifier: self.notifier.clone(),
            session: session.id,
            execution: session.execution,
            principal: session.principal,
            program: program.to_owned(),
            code: ProgramSource::default(),
            standing_rules: self.standing_rules.clone(),
        }
    }
}

/// An approval request that an execution waits for, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingApproval {
    /// The id of the request in the inbox.
    pub id: ApprovalId,
    /// The number of the call that waits.
    pub number: u32,
    /// The tool's full name.
    pub tool: String,
    /// The rule that requires an approval.
    pub rule: String,
    /// Whether a rule, a changed tool or an unknown outcome requires the approval.
    pub why: AskReason,
    /// When the request expires; a call without an answer by then is refused.
    #[serde(serialize_with = "ringfence_journal::fixed_time")]
    pub expires: Timestamp,
}

impl PendingApproval {
    pub(crate) fn from_approval(approval: &StoredApproval) -> PendingApproval {
        PendingApproval::from_question(&approval.question)
    }

    pub(crate) fn from_question(question: &ApprovalQuestion) -> PendingApproval {
        PendingApproval {
            id: question.id,
            number: question.number,
            tool: question.tool.clone(),
            rule: question.rule.clone(),
            why: question.why,
            expires: question.expires,
        }
    }
}

/// An approval request with everything that a person should see, and its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApprovalView {
    /// The id of the request in the inbox.
    pub id: ApprovalId,
    /// Whether the request is pending, answered, expired or withdrawn.
    pub state: ApprovalState,
    /// The session of the execution that asks.
    pub session_id: SessionId,
    /// The execution that makes the call.
    pub execution_id: ExecutionId,
    /// The principal that owns the session.
    pub principal: Principal,
    /// The name of the program that runs; for a direct call, that of the tool.
    pub program: String,
    /// Digest of the program's code; none where it is unknown.
    pub code: Option<String>,
    /// The code itself; only where a single request is looked up with its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ProgramText>,
    /// The number of the call that waits.
    pub number: u32,
    /// The tool's full name.
    pub tool: String,
    /// The arguments of the call, as JSON.
    pub arguments: Value,
    /// The same arguments with aliases in place of personal data: what a client's form shows.
    #[serde(skip)]
    pub masked: Option<Value>,
    /// The rule that requires an approval.
    pub rule: String,
    /// Whether a rule, a changed tool or an unknown outcome requires the approval.
    pub why: AskReason,
    /// Digest of what is shown: an answer can name the request that it was given for.
    pub shown: String,
    /// When the request was made.
    #[serde(serialize_with = "ringfence_journal::fixed_time")]
    pub asked: Timestamp,
    /// When the request expires; a call without an answer by then is refused.
    #[serde(serialize_with = "ringfence_journal::fixed_time")]
    pub expires: Timestamp,
    /// The answer; none while nobody has answered.
    pub answer: Option<AnswerView>,
}

/// The text of a program, as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramText {
    /// Its lines; characters that hide or reorder others are escaped.
    pub text: String,
    /// Whether the text is only the beginning of the program.
    pub is_cut: bool,
}

/// Bytes of a program that a person sees at most.
const MAX_SOURCE_BYTES: usize = 64 * 1024;

/// The beginning of a program, up to what a person sees of it.
pub(crate) fn source_head(source: &str) -> &str {
    let ends = (0..=MAX_SOURCE_BYTES.min(source.len())).rev();
    let end = ends.into_iter().find(|end| source.is_char_boundary(*end));
    source.get(..end.unwrap_or(0)).unwrap_or_default()
}

impl ProgramText {
    /// Takes the source, or its head where only that is stored.
    fn from_source(source: &str, digest: Option<ContentHash>) -> ProgramText {
        let head = source_head(source);
        let mut text = String::with_capacity(head.len());
        for line in head.split_inclusive(['\n', '\t']) {
            let plain = line.trim_end_matches(['\n', '\t', '\r']);
            text.extend(CleanText::pieces(plain).iter().map(CleanText::as_str));
            text.extend(line.chars().next_back().filter(|last| matches!(last, '\n' | '\t')));
        }
        ProgramText {
            text,
            is_cut: digest.is_some_and(|digest| digest != ContentHash::digest(head.as_bytes())),
        }
    }
}

/// The answer that a person gave to an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnswerView {
    /// Whether the call is approved.
    pub approve: bool,
    /// How long an approval holds.
    pub scope: ApprovalScope,
    /// The principal that answered.
    pub by: Principal,
    /// The channel that the answer came through.
    pub via: ApprovalVia,
    /// When the answer was stored.
    #[serde(serialize_with = "ringfence_journal::fixed_time")]
    pub at: Timestamp,
    /// A note for the program; none where the person wrote nothing.
    pub note: Option<String>,
}

impl From<StoredApproval> for ApprovalView {
    fn from(approval: StoredApproval) -> ApprovalView {
        let question = approval.question;
        let read = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
        let (arguments, masked) = (read(question.arguments), question.masked.map(read));
        ApprovalView {
            id: question.id,
            state: approval.state,
            session_id: question.session,
            execution_id: question.execution,
            principal: question.principal,
            program: question.program,
            code: question.grounds.code.map(|code| code.to_string()),
            source: None,
            number: question.number,
            tool: question.tool,
            arguments,
            masked,
            rule: question.rule,
            why: question.why,
            shown: question.shown.to_string(),
            asked: question.asked,
            expires: question.expires,
            answer: approval.answer.map(|(answer, at)| AnswerView {
                approve: answer.approve,
                scope: answer.scope,
                by: answer.by,
                via: answer.via,
                at,
                note: answer.note,
            }),
        }
    }
}

/// An answer to an approval request, as a person submits it.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerSubmission {
    /// Whether the call is approved.
    pub approve: bool,
    /// How long an approval holds.
    pub scope: ApprovalScope,
    /// Digest of the request that the answer is for; where it is none, the answer is for the request as it is now.
    pub shown: Option<ContentHash>,
    /// The principal that answers.
    pub by: Principal,
    /// The channel that the answer comes through.
    pub via: ApprovalVia,
    /// A note for the program; none where the person writes nothing.
    pub note: Option<String>,
}

/// The result of a submitted answer.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerReceipt {
    /// The approval request after the answer.
    pub approval: ApprovalView,
    /// Whether the same answer was given before.
    pub already_answered: bool,
}

/// Why an answer is not accepted.
#[derive(Debug)]
pub enum AnswerError {
    /// There is no such approval request.
    Unknown(ApprovalId),
    /// The request already has a different answer.
    Conflict(Box<ApprovalView>),
    /// The request expired before the answer came.
    Expired(ApprovalId),
    /// The request was withdrawn: the call would no longer do what was asked.
    Withdrawn(ApprovalId),
    /// The session or the execution has ended.
    Ended(ApprovalId),
    /// The answer was given for something other than what is asked.
    Changed(ApprovalId),
    /// The policy accepts no answers through this channel.
    ViaNotAllowed(ApprovalVia),
    /// A rule is not enough: a policy above the session's also asks, or forbids the call.
    Ceiling(String),
    /// The request is about this one call, so no rule can answer it.
    OnlyOnce(AskReason),
    /// The answer cannot be written as a rule.
    Rule(String),
    /// Another writer keeps the rules locked for too long.
    Busy,
    /// The rules file cannot be read or written.
    File(std::io::Error),
    /// The answer is stored, but its rule could not be written.
    RuleNotWritten(std::io::Error),
    /// The store could not be read.
    Read(QueryError),
    /// The answer could not be recorded, so it does not count.
    Record(RecordError),
}

impl AnswerError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            AnswerError::Unknown(_) => "approval.unknown",
            AnswerError::Conflict(_) => "approval.conflict",
            AnswerError::Expired(_) => "approval.expired",
            AnswerError::Withdrawn(_) => "approval.withdrawn",
            AnswerError::Ended(_) => "approval.ended",
            AnswerError::Changed(_) => "approval.changed",
            AnswerError::ViaNotAllowed(_) => "approval.way",
            AnswerError::Ceiling(_) => "approval.ceiling",
            AnswerError::OnlyOnce(_) => "approval.once",
            AnswerError::Rule(_) => "approval.rule",
            AnswerError::Busy => "approval.busy",
            AnswerError::File(_) => "approval.file",
            AnswerError::RuleNotWritten(_) => "approval.unplaced",
            AnswerError::Read(_) => "store.read",
            AnswerError::Record(error) => error.code(),
        }
    }

    /// What to do about it; none where nothing helps.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            AnswerError::Unknown(_) => Some("`ringfence approvals list` shows what waits"),
            AnswerError::Conflict(_) => Some("the first answer stands; stop the session if it must not go on"),
            AnswerError::Expired(_) => Some("the call was denied; the program can make it again"),
            AnswerError::Withdrawn(_) | AnswerError::Ended(_) => Some("nothing waits for this answer any more"),
            AnswerError::Changed(_) => Some("look at it again: `ringfence approvals show ID`"),
            AnswerError::ViaNotAllowed(_) => Some("`approvals.by` of the session's policy says who may answer"),
            AnswerError::Ceiling(_) => {
                Some("approve it once or for the session; the operator's `ceiling` says what is asked")
            }
            AnswerError::OnlyOnce(AskReason::Drift) => {
                Some("approve it once, or accept the tool as it is now with `ringfence tools accept`")
            }
            AnswerError::OnlyOnce(AskReason::Unknown | AskReason::Rule) => {
                Some("approve it once, which makes the call again")
            }
            AnswerError::Rule(_) => Some("approve it once or for the session, or say other conditions"),
            AnswerError::Busy => Some("nothing was answered; try again"),
            AnswerError::File(_) => Some("nothing was answered; look at `rules.yaml` in the data folder"),
            AnswerError::RuleNotWritten(_) => Some("look at `rules.yaml` in the data folder, then say the same again"),
            AnswerError::Read(_) => None,
            AnswerError::Record(error) => error.hint(),
        }
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerError::Unknown(id) => write!(f, "there is no question `{id}`"),
            AnswerError::Conflict(shown) => {
                let said = match &shown.answer {
                    Some(said) if said.approve => format!("approved ({}) by {}", said.scope.name(), said.by),
                    Some(said) => format!("denied by {}", said.by),
                    None => shown.state.name().to_owned(),
                };
                write!(f, "question `{}` was {said} already", shown.id)
            }
            AnswerError::Expired(id) => write!(f, "the answer to `{id}` came too late: nobody answered in time"),
            AnswerError::Withdrawn(id) => write!(f, "question `{id}` was withdrawn"),
            AnswerError::Ended(id) => write!(f, "what asked `{id}` is over"),
            AnswerError::Changed(id) => write!(f, "question `{id}` is not what the answer was given for"),
            AnswerError::ViaNotAllowed(via) => write!(f, "the policy takes no answer from {}", via_name(*via)),
            AnswerError::Ceiling(rule) => write!(f, "a rule would not do: `{rule}` stays above it"),
            AnswerError::OnlyOnce(AskReason::Drift) => {
                write!(
                    f,
                    "a tool that changed is not answered for good: the next change is another question"
                )
            }
            AnswerError::OnlyOnce(AskReason::Unknown | AskReason::Rule) => {
                write!(
                    f,
                    "a call of which nobody knows whether it was done is not answered for good"
                )
            }
            AnswerError::Rule(why) => write!(f, "this cannot be answered for good: {why}"),
            AnswerError::Busy => write!(f, "another process is writing the answers given for good"),
            AnswerError::File(error) => write!(f, "the answers given for good cannot be kept: {error}"),
            AnswerError::RuleNotWritten(error) => {
                write!(
                    f,
                    "the call is approved, but the rule for calls like it is not written: {error}"
                )
            }
            AnswerError::Read(error) => error.fmt(f),
            AnswerError::Record(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AnswerError {}

fn via_name(via: ApprovalVia) -> &'static str {
    match via {
        ApprovalVia::Cli | ApprovalVia::Api => "the inbox",
        ApprovalVia::Client => "the client that made the call",
    }
}

/// Lists approval requests, newest first, a page at a time.
pub async fn list_approvals(store: &Store, which: ApprovalQuery) -> Result<Vec<ApprovalView>, QueryError> {
    let found = store.list_approvals(which).await?;
    Ok(found.into_iter().map(ApprovalView::from).collect())
}

/// Finds one approval request, without the program's code.
pub async fn find_approval(store: &Store, id: ApprovalId) -> Result<Option<ApprovalView>, QueryError> {
    Ok(store.approval(id).await?.map(ApprovalView::from))
}

/// Finds one approval request, with the code of the program that asks.
pub async fn find_approval_with_code(store: &Store, id: ApprovalId) -> Result<Option<ApprovalView>, QueryError> {
    let Some(approval) = store.approval(id).await? else {
        return Ok(None);
    };
    let ApprovalGrounds { code, source, .. } = approval.question.grounds.clone();
    let source = match source {
        Some(source) => Some(source),
        None => recorded_source(store, approval.question.execution).await?,
    };
    Ok(Some(ApprovalView {
        source: source.map(|source| ProgramText::from_source(&source, code)),
        ..ApprovalView::from(approval)
    }))
}

/// The code of an execution; none where no recording holds it.
async fn recorded_source(store: &Store, execution: ExecutionId) -> Result<Option<String>, QueryError> {
    let kept = match store.recording(execution).await {
        Ok(kept) => kept,
        // The key of the recording was deleted, so nobody can read it.
        Err(QueryError::Sealed { .. }) => None,
        Err(error) => return Err(error),
    };
    let script = kept.and_then(|kept| RecordedRequest::from_bytes(&kept.request).ok());
    Ok(script.and_then(|(script, _)| script.program().source().map(str::to_owned)))
}

/// Answers an approval request. Of two different answers at once, the first counts; the second gets a conflict.
pub async fn answer_approval(
    store: &Store,
    id: ApprovalId,
    say: AnswerSubmission,
) -> Result<AnswerReceipt, AnswerError> {
    let found = store.approval(id).await.map_err(AnswerError::Read)?;
    let found = found.ok_or(AnswerError::Unknown(id))?;
    check_via(store, &found, say.via).await?;
    let shown = say.shown.unwrap_or(found.question.shown);
    let answer = ApprovalResponse {
        approve: say.approve,
        scope: say.scope,
        by: say.by,
        via: say.via,
        note: say.note,
    };
    let again = match store
        .answer_question(id, shown, answer)
        .await
        .map_err(AnswerError::Record)?
    {
        AnswerOutcome::Accepted => false,
        AnswerOutcome::AlreadyAnswered => true,
        AnswerOutcome::Conflict(approval) => {
            return Err(AnswerError::Conflict(Box::new(ApprovalView::from(*approval))));
        }
        AnswerOutcome::Expired => return Err(AnswerError::Expired(id)),
        AnswerOutcome::Withdrawn => return Err(AnswerError::Withdrawn(id)),
        AnswerOutcome::Ended => return Err(AnswerError::Ended(id)),
        AnswerOutcome::Changed => return Err(AnswerError::Changed(id)),
        AnswerOutcome::Unknown => return Err(AnswerError::Unknown(id)),
    };
    let approval = store.approval(id).await.map_err(AnswerError::Read)?;
    let approval = approval.map(ApprovalView::from).ok_or(AnswerError::Unknown(id))?;
    Ok(AnswerReceipt {
        approval,
        already_answered: again,
    })
}

/// Refuses an answer through a channel that the policy of the request does not accept.
async fn check_via(store: &Store, approval: &StoredApproval, via: ApprovalVia) -> Result<(), AnswerError> {
    if policy_accepts(&policy_of_question(store, &approval.question).await?, via) {
        Ok(())
    } else {
        Err(AnswerError::ViaNotAllowed(via))
    }
}

/// Whether the policy of a request accepts answers through this channel.
pub async fn accepts_via(store: &Store, id: ApprovalId, via: ApprovalVia) -> Result<bool, AnswerError> {
    match store.approval(id).await.map_err(AnswerError::Read)? {
        Some(approval) => Ok(policy_accepts(
            &policy_of_question(store, &approval.question).await?,
            via,
        )),
        None => Ok(false),
    }
}

fn policy_accepts(policy: &Policy, via: ApprovalVia) -> bool {
    let by = policy.approvals().and_then(|approvals| approvals.by.as_ref());
    let wanted = match via {
        ApprovalVia::Cli | ApprovalVia::Api => Approver::Inbox,
        ApprovalVia::Client => Approver::Client,
    };
    // A policy without `by` accepts the inbox and nothing else.
    match by {
        Some(by) if !by.is_empty() => by.contains(&wanted),
        _ => wanted == Approver::Inbox,
    }
}

/// The policy of an approval request; that of its session where the request's is not stored.
pub(crate) async fn policy_of_question(store: &Store, question: &ApprovalQuestion) -> Result<Policy, AnswerError> {
    if let Some(digest) = &question.grounds.policy
        && let Some(policy) = stored_policy(store, digest).await?
    {
        return Ok(policy);
    }
    let policy = session_policy(store, question.session).await?;
    policy.ok_or(AnswerError::Ended(question.id))
}

/// The policy that a session runs under; none where the session is unknown.
pub(crate) async fn session_policy(store: &Store, session: SessionId) -> Result<Option<Policy>, AnswerError> {
    let Some(row) = store.session(session).await.map_err(AnswerError::Read)? else {
        return Ok(None);
    };
    stored_policy(store, &row.policy_digest).await
}

/// A stored policy, by its digest.
pub(crate) async fn stored_policy(store: &Store, digest: &str) -> Result<Option<Policy>, AnswerError> {
    let json = store.policy(digest).await.map_err(AnswerError::Read)?;
    let json = json.and_then(|json| serde_json::from_str(&json).ok());
    Ok(json.as_ref().and_then(Policy::restore))
}
