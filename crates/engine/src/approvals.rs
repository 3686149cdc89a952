//! Questions to people and their answers, for whoever shows and gives them: the command line, the API, a client's own form.
//!
//! Answering needs no engine, only the store: whoever has the execution hears of it.

use std::fmt;

use jiff::Timestamp;
use ringfence_journal::{
    ApprovalId, ApprovalScope, ApprovalVia, AskReason, ExecutionId, Hash, Principal, RecordError, SessionId, Text,
};
use ringfence_policy::{Approver, Policy};
use ringfence_store::{Answer, Answered, Grounds, Question, Store};
pub use ringfence_store::{Approval, ApprovalState, Approvals, ReadError};
use serde::Serialize;
use serde_json::Value;

use crate::script::Script;

/// A question that an execution waits for, in few words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inquiry {
    /// What it is called in the inbox.
    pub id: ApprovalId,
    /// The call that waits.
    pub number: u32,
    /// The tool's full name.
    pub tool: String,
    /// The rule that wants a person.
    pub rule: String,
    /// Why.
    pub why: AskReason,
    /// When no answer means no.
    pub expires: Timestamp,
}

impl Inquiry {
    pub(crate) fn of(approval: &Approval) -> Inquiry {
        Inquiry::asked(&approval.question)
    }

    pub(crate) fn asked(question: &Question) -> Inquiry {
        Inquiry {
            id: question.id,
            number: question.number,
            tool: question.tool.clone(),
            rule: question.rule.clone(),
            why: question.why,
            expires: question.expires,
        }
    }
}

/// A question with all that a person should see, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// What it is called in the inbox.
    pub id: ApprovalId,
    /// Where it stands.
    pub state: ApprovalState,
    /// The session.
    pub session_id: SessionId,
    /// The execution.
    pub execution_id: ExecutionId,
    /// Who owns the session.
    pub principal: Principal,
    /// What it runs.
    pub program: String,
    /// Digest of the code that it runs, where that is known.
    pub code: Option<String>,
    /// The code itself, where one question is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ProgramText>,
    /// The call that waits.
    pub number: u32,
    /// The tool's full name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// The same with aliases in place of personal data: what a client's form shows.
    #[serde(skip)]
    pub masked: Option<Value>,
    /// The rule that wants a person.
    pub rule: String,
    /// Why.
    pub why: AskReason,
    /// Digest of all this: an answer may name what it was given for.
    pub shown: String,
    /// When it was asked.
    pub asked: Timestamp,
    /// When no answer means no.
    pub expires: Timestamp,
    /// What somebody answered.
    pub answer: Option<Said>,
}

/// The text of a program, for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramText {
    /// Its lines; characters that hide or reorder others are escaped.
    pub text: String,
    /// Whether there is more of it.
    pub is_cut: bool,
}

/// Bytes of a program that a person is shown.
const MOST_SOURCE: usize = 64 * 1024;

/// The beginning of a program: as much as is shown of it.
pub(crate) fn head(source: &str) -> &str {
    let ends = (0..=MOST_SOURCE.min(source.len())).rev();
    let end = ends.into_iter().find(|end| source.is_char_boundary(*end));
    source.get(..end.unwrap_or(0)).unwrap_or_default()
}

impl ProgramText {
    /// Of the source, or of its head where only that is kept.
    fn of(source: &str, digest: Option<Hash>) -> ProgramText {
        let head = head(source);
        let mut text = String::with_capacity(head.len());
        for line in head.split_inclusive(['\n', '\t']) {
            let plain = line.trim_end_matches(['\n', '\t', '\r']);
            text.extend(Text::pieces(plain).iter().map(Text::as_str));
            text.extend(line.chars().next_back().filter(|last| matches!(last, '\n' | '\t')));
        }
        ProgramText {
            text,
            is_cut: digest.is_some_and(|digest| digest != Hash::of(head.as_bytes())),
        }
    }
}

/// What somebody answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// Whether it is a yes.
    pub approve: bool,
    /// For how long a yes holds.
    pub scope: ApprovalScope,
    /// Who says so.
    pub by: Principal,
    /// By which way.
    pub via: ApprovalVia,
    /// When.
    pub at: Timestamp,
    /// What else they said.
    pub note: Option<String>,
}

impl From<Approval> for Shown {
    fn from(approval: Approval) -> Shown {
        let question = approval.question;
        let read = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
        let (arguments, masked) = (read(question.arguments), question.masked.map(read));
        Shown {
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
            answer: approval.answer.map(|(answer, at)| Said {
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

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Say {
    /// Whether it is a yes.
    pub approve: bool,
    /// For how long a yes holds.
    pub scope: ApprovalScope,
    /// What it was given for; what is asked now, where nothing is said.
    pub shown: Option<Hash>,
    /// Who says so.
    pub by: Principal,
    /// By which way.
    pub via: ApprovalVia,
    /// What else they say.
    pub note: Option<String>,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The question as it stands now.
    pub approval: Shown,
    /// The same was answered before.
    pub again: bool,
}

/// Why an answer does not count.
#[derive(Debug)]
pub enum AnswerError {
    /// There is no such question.
    Unknown(ApprovalId),
    /// Something else was answered before.
    Conflict(Box<Shown>),
    /// It came too late.
    Expired(ApprovalId),
    /// What was asked is not what would happen any more.
    Withdrawn(ApprovalId),
    /// The session or the execution is over.
    Ended(ApprovalId),
    /// It was given for something else than what is asked.
    Changed(ApprovalId),
    /// The policy lets nobody answer this way.
    Way(ApprovalVia),
    /// A rule would not be enough: what is above the policy asks as well, or forbids it.
    Ceiling(String),
    /// It is asked for this once, whatever the rules say.
    Once(AskReason),
    /// It cannot be a rule.
    Rule(String),
    /// Somebody else writes the rules, and does not end.
    Busy,
    /// The rules cannot be read or written.
    File(std::io::Error),
    /// It is answered, and the rule could not be written.
    Unplaced(std::io::Error),
    /// The store could not be asked.
    Read(ReadError),
    /// It could not be written down, so it does not count.
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
            AnswerError::Way(_) => "approval.way",
            AnswerError::Ceiling(_) => "approval.ceiling",
            AnswerError::Once(_) => "approval.once",
            AnswerError::Rule(_) => "approval.rule",
            AnswerError::Busy => "approval.busy",
            AnswerError::File(_) => "approval.file",
            AnswerError::Unplaced(_) => "approval.unplaced",
            AnswerError::Read(_) => "store.read",
            AnswerError::Record(error) => error.code(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            AnswerError::Unknown(_) => Some("`ringfence approvals list` shows what waits"),
            AnswerError::Conflict(_) => Some("the first answer stands; stop the session if it must not go on"),
            AnswerError::Expired(_) => Some("the call was denied; the program can make it again"),
            AnswerError::Withdrawn(_) | AnswerError::Ended(_) => Some("nothing waits for this answer any more"),
            AnswerError::Changed(_) => Some("look at it again: `ringfence approvals show ID`"),
            AnswerError::Way(_) => Some("`approvals.by` of the session's policy says who may answer"),
            AnswerError::Ceiling(_) => {
                Some("approve it once or for the session; the operator's `ceiling` says what is asked")
            }
            AnswerError::Once(AskReason::Drift) => {
                Some("approve it once, or accept the tool as it is now with `ringfence tools accept`")
            }
            AnswerError::Once(AskReason::Unknown | AskReason::Rule) => {
                Some("approve it once, which makes the call again")
            }
            AnswerError::Rule(_) => Some("approve it once or for the session, or say other conditions"),
            AnswerError::Busy => Some("nothing was answered; try again"),
            AnswerError::File(_) => Some("nothing was answered; look at `rules.yaml` in the data folder"),
            AnswerError::Unplaced(_) => Some("look at `rules.yaml` in the data folder, then say the same again"),
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
            AnswerError::Way(via) => write!(f, "the policy takes no answer from {}", way(*via)),
            AnswerError::Ceiling(rule) => write!(f, "a rule would not do: `{rule}` stays above it"),
            AnswerError::Once(AskReason::Drift) => {
                write!(
                    f,
                    "a tool that changed is not answered for good: the next change is another question"
                )
            }
            AnswerError::Once(AskReason::Unknown | AskReason::Rule) => {
                write!(
                    f,
                    "a call of which nobody knows whether it was done is not answered for good"
                )
            }
            AnswerError::Rule(why) => write!(f, "this cannot be answered for good: {why}"),
            AnswerError::Busy => write!(f, "another process is writing the answers given for good"),
            AnswerError::File(error) => write!(f, "the answers given for good cannot be kept: {error}"),
            AnswerError::Unplaced(error) => {
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

fn way(via: ApprovalVia) -> &'static str {
    match via {
        ApprovalVia::Cli | ApprovalVia::Api => "the inbox",
        ApprovalVia::Client => "the client that made the call",
    }
}

/// A page of questions, newest first.
pub async fn list(store: &Store, which: Approvals) -> Result<Vec<Shown>, ReadError> {
    let found = store.approvals(which).await?;
    Ok(found.into_iter().map(Shown::from).collect())
}

/// One question.
pub async fn show(store: &Store, id: ApprovalId) -> Result<Option<Shown>, ReadError> {
    Ok(store.approval(id).await?.map(Shown::from))
}

/// One question, with the code that asks.
pub async fn look(store: &Store, id: ApprovalId) -> Result<Option<Shown>, ReadError> {
    let Some(approval) = store.approval(id).await? else {
        return Ok(None);
    };
    let Grounds { code, source, .. } = approval.question.grounds.clone();
    let source = match source {
        Some(source) => Some(source),
        None => recorded(store, approval.question.execution).await?,
    };
    Ok(Some(Shown {
        source: source.map(|source| ProgramText::of(&source, code)),
        ..Shown::from(approval)
    }))
}

/// The code of an execution, as far as it is kept.
async fn recorded(store: &Store, execution: ExecutionId) -> Result<Option<String>, ReadError> {
    let kept = match store.recording(execution).await {
        Ok(kept) => kept,
        // Its key is gone, and so is what it sealed.
        Err(ReadError::Sealed { .. }) => None,
        Err(error) => return Err(error),
    };
    let script = kept.and_then(|kept| Script::read(&kept.request).ok());
    Ok(script.and_then(|(script, _)| script.program().source().map(str::to_owned)))
}

/// Answers a question. Of two who answer at once, one does; the other is told.
pub async fn answer(store: &Store, id: ApprovalId, say: Say) -> Result<Settled, AnswerError> {
    let found = store.approval(id).await.map_err(AnswerError::Read)?;
    let found = found.ok_or(AnswerError::Unknown(id))?;
    may_answer(store, &found, say.via).await?;
    let shown = say.shown.unwrap_or(found.question.shown);
    let answer = Answer {
        approve: say.approve,
        scope: say.scope,
        by: say.by,
        via: say.via,
        note: say.note,
    };
    let again = match store.answer(id, shown, answer).await.map_err(AnswerError::Record)? {
        Answered::Taken => false,
        Answered::Again => true,
        Answered::Conflict(approval) => return Err(AnswerError::Conflict(Box::new(Shown::from(*approval)))),
        Answered::Expired => return Err(AnswerError::Expired(id)),
        Answered::Withdrawn => return Err(AnswerError::Withdrawn(id)),
        Answered::Ended => return Err(AnswerError::Ended(id)),
        Answered::Changed => return Err(AnswerError::Changed(id)),
        Answered::Unknown => return Err(AnswerError::Unknown(id)),
    };
    let approval = store.approval(id).await.map_err(AnswerError::Read)?;
    let approval = approval.map(Shown::from).ok_or(AnswerError::Unknown(id))?;
    Ok(Settled { approval, again })
}

/// Whether the policy that asked takes an answer that comes this way.
async fn may_answer(store: &Store, approval: &Approval, via: ApprovalVia) -> Result<(), AnswerError> {
    if accepts(&asking_policy(store, &approval.question).await?, via) {
        Ok(())
    } else {
        Err(AnswerError::Way(via))
    }
}

/// Whether the policy that asked a question takes answers that come this way.
pub async fn takes(store: &Store, id: ApprovalId, via: ApprovalVia) -> Result<bool, AnswerError> {
    match store.approval(id).await.map_err(AnswerError::Read)? {
        Some(approval) => Ok(accepts(&asking_policy(store, &approval.question).await?, via)),
        None => Ok(false),
    }
}

fn accepts(policy: &Policy, via: ApprovalVia) -> bool {
    let by = policy.approvals().and_then(|approvals| approvals.by.as_ref());
    let wanted = match via {
        ApprovalVia::Cli | ApprovalVia::Api => Approver::Inbox,
        ApprovalVia::Client => Approver::Client,
    };
    // A policy that says nothing has an inbox, and nothing else.
    match by {
        Some(by) if !by.is_empty() => by.contains(&wanted),
        _ => wanted == Approver::Inbox,
    }
}

/// The policy that asked, or that of its session where it is not kept.
pub(crate) async fn asking_policy(store: &Store, question: &Question) -> Result<Policy, AnswerError> {
    if let Some(digest) = &question.grounds.policy
        && let Some(policy) = kept_policy(store, digest).await?
    {
        return Ok(policy);
    }
    let policy = policy_of(store, question.session).await?;
    policy.ok_or(AnswerError::Ended(question.id))
}

/// The policy that a session runs under.
pub(crate) async fn policy_of(store: &Store, session: SessionId) -> Result<Option<Policy>, AnswerError> {
    let Some(row) = store.session(session).await.map_err(AnswerError::Read)? else {
        return Ok(None);
    };
    kept_policy(store, &row.policy_digest).await
}

/// A policy that was in force once, by its digest.
pub(crate) async fn kept_policy(store: &Store, digest: &str) -> Result<Option<Policy>, AnswerError> {
    let json = store.policy(digest).await.map_err(AnswerError::Read)?;
    let json = json.and_then(|json| serde_json::from_str(&json).ok());
    Ok(json.as_ref().and_then(Policy::restore))
}
