//! Approval questions: the process that has the execution asks, and anybody who may answers once.
//!
//! The row is authoritative: the one who changes it from `pending` has answered. Datagrams only wake the waiting processes.

use jiff::Timestamp;
use ringfence_journal::{
    ApprovalAnswer, ApprovalId, ApprovalScope, ApprovalVia, AskReason, ContentHash, Event, ExecutionId, Principal,
    RecordError, RecordPosition, ReplayEntry, SessionId,
};
use ringfence_policy::ToolHints;
use serde::{Deserialize, Serialize};

use crate::Store;
use crate::database::{self, QueryError};
use crate::query::{QueryRow, query};
use crate::recording::{from_nanoseconds, to_nanoseconds};
use crate::seal::{SealContext, SealError, SealKeyring};
use crate::stop;
use crate::writer::{RecordingChange, WriterCommand};

/// The most questions on one page.
const MAX_PAGE_SIZE: u32 = 1000;

/// An approval question about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalQuestion {
    /// The id of the question, newly generated.
    pub id: ApprovalId,
    /// The principal who owns the session.
    pub principal: Principal,
    /// The session, which this process owns.
    pub session: SessionId,
    /// The execution that makes the call.
    pub execution: ExecutionId,
    /// The number of the call in its execution.
    pub number: u32,
    /// The calling program, as the person sees it.
    pub program: String,
    /// The tool's full name.
    pub tool: String,
    /// The rule that requires an approval.
    pub rule: String,
    /// The reason why an approval is needed.
    pub why: AskReason,
    /// The call's arguments, as the person may see them.
    pub arguments: String,
    /// The arguments with aliases in place of personal data, if there are any: for people who may not see the data.
    pub masked: Option<String>,
    /// Digest of everything that the person sees and that the answer is bound to.
    pub shown: ContentHash,
    /// When the question was asked.
    pub asked: Timestamp,
    /// When the question expires; no answer until then means no.
    pub expires: Timestamp,
    /// The context of the question.
    pub grounds: ApprovalGrounds,
}

/// The context of an approval question. An unknown field is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGrounds {
    /// Digest of the policy that requires the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The hints of the tool's server about the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<ToolHints>,
    /// The grantee of an approval for the whole session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grantee: Option<String>,
    /// Digest of the calling code, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ContentHash>,
    /// The code itself, if no recording holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The answer of a person to an approval question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalResponse {
    /// Whether the call is approved.
    pub approve: bool,
    /// How long an approval holds.
    pub scope: ApprovalScope,
    /// The principal who answers.
    pub by: Principal,
    /// The channel through which the answer came.
    pub via: ApprovalVia,
    /// A note for the program, if the person left one.
    pub note: Option<String>,
}

/// The outcome of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The answer was accepted.
    Accepted,
    /// The question already has the same answer, from anybody.
    AlreadyAnswered,
    /// The question already has another answer.
    Conflict(Box<StoredApproval>),
    /// The question expired before the answer came.
    Expired,
    /// The question is obsolete: the call would differ from it.
    Withdrawn,
    /// The session or the execution has ended.
    Ended,
    /// The answer is bound to something else than the question shows.
    Changed,
    /// No question has this id.
    Unknown,
}

/// The state of an approval question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// The question waits for an answer.
    Pending,
    /// Somebody approved the call.
    Approved,
    /// Somebody denied the call.
    Denied,
    /// The question expired without an answer.
    Expired,
    /// The question is no longer asked.
    Withdrawn,
}

impl ApprovalState {
    /// The name under which the state is stored, such as `pending`.
    pub fn name(self) -> &'static str {
        match self {
            ApprovalState::Pending => "pending",
            ApprovalState::Approved => "approved",
            ApprovalState::Denied => "denied",
            ApprovalState::Expired => "expired",
            ApprovalState::Withdrawn => "withdrawn",
        }
    }
}

impl From<ApprovalAnswer> for ApprovalState {
    fn from(answer: ApprovalAnswer) -> ApprovalState {
        match answer {
            ApprovalAnswer::Approved => ApprovalState::Approved,
            ApprovalAnswer::Denied => ApprovalState::Denied,
            ApprovalAnswer::Expired => ApprovalState::Expired,
            ApprovalAnswer::Withdrawn => ApprovalState::Withdrawn,
        }
    }
}

/// An approval question with its state and answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredApproval {
    /// The question as it was asked.
    pub question: ApprovalQuestion,
    /// The current state; an overdue question is expired even if no process has recorded that yet.
    pub state: ApprovalState,
    /// The answer and its time, if a person gave one.
    pub answer: Option<(ApprovalResponse, Timestamp)>,
}

/// Selects the questions to list, newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApprovalQuery {
    /// Only questions in sessions of this principal.
    pub principal: Option<Principal>,
    /// Only questions in this session.
    pub session: Option<SessionId>,
    /// Only questions of this execution.
    pub execution: Option<ExecutionId>,
    /// Only questions in this state.
    pub state: Option<ApprovalState>,
    /// Only questions older than this one, the last of the previous page.
    pub before: Option<ApprovalId>,
    /// The most questions to return; a page has at most 1,000.
    pub limit: Option<u32>,
}

/// The part of a question that is sealed, because only people may see it.
#[derive(Serialize, Deserialize)]
pub(crate) struct SealedQuestion {
    program: String,
    arguments: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    masked: Option<String>,
    #[serde(default)]
    grounds: ApprovalGrounds,
}

impl ApprovalQuestion {
    pub(crate) fn secret_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&SealedQuestion {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            masked: self.masked.clone(),
            grounds: self.grounds.clone(),
        })
    }
}

impl Store {
    /// Records in one commit that a call waits for an approval, the question, and the replay entries up to then.
    pub async fn record_question(
        &self,
        event: Event,
        question: ApprovalQuestion,
        entries: Vec<ReplayEntry>,
    ) -> Result<RecordPosition, RecordError> {
        let question = Box::new(question);
        self.record_with_change(event, RecordingChange::Ask { question, entries })
            .await
    }

    /// Answers the question that was displayed with digest `shown`, and wakes the processes that wait for it.
    pub async fn answer_question(
        &self,
        id: ApprovalId,
        shown: ContentHash,
        answer: ApprovalResponse,
    ) -> Result<AnswerOutcome, RecordError> {
        let said = Box::new(answer);
        let told = self
            .send(|reply| WriterCommand::Answer { id, shown, said, reply })
            .await?;
        match told {
            AnswerStatus::Accepted => {
                let run = self.home.run_folder();
                // The answer is committed; a process that misses the datagram finds it at its next read.
                let sent = tokio::task::spawn_blocking(move || stop::notify_all(&run)).await;
                if let Ok(Err(error)) = sent {
                    tracing::warn!(%error, %id, "nobody could be told of an answer");
                }
                Ok(AnswerOutcome::Accepted)
            }
            AnswerStatus::AlreadyAnswered => Ok(AnswerOutcome::AlreadyAnswered),
            AnswerStatus::Expired => Ok(AnswerOutcome::Expired),
            AnswerStatus::Withdrawn => Ok(AnswerOutcome::Withdrawn),
            AnswerStatus::Ended => Ok(AnswerOutcome::Ended),
            AnswerStatus::Changed => Ok(AnswerOutcome::Changed),
            AnswerStatus::Unknown => Ok(AnswerOutcome::Unknown),
            AnswerStatus::Conflict => match self.approval(id).await {
                Ok(Some(approval)) => Ok(AnswerOutcome::Conflict(Box::new(approval))),
                Ok(None) => Ok(AnswerOutcome::Unknown),
                Err(error) => Err(RecordError::Keep {
                    source: std::sync::Arc::new(error),
                }),
            },
        }
    }

    /// Settles a question without a person. Returns the state after that: somebody may have answered first.
    pub async fn settle_question(
        &self,
        id: ApprovalId,
        answer: ApprovalAnswer,
    ) -> Result<Option<ApprovalState>, RecordError> {
        let state = ApprovalState::from(answer);
        self.send(|reply| WriterCommand::Settle { id, state, reply }).await
    }

    /// Reads one question; `None` if no question has this id.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<StoredApproval>, QueryError> {
        let reader = self.reader().await;
        let sql = format!("{SELECT} WHERE a.id = ?2");
        let row = query(sql)
            .bind(to_nanoseconds(Timestamp::now()))
            .bind(id.to_string())
            .fetch_optional(&reader)
            .await?;
        row.as_ref().map(|row| approval_from_row(&self.seals, row)).transpose()
    }

    /// All questions that an execution waits for and that have not expired.
    pub async fn pending_approvals(&self, execution: ExecutionId) -> Result<Vec<ApprovalId>, QueryError> {
        let reader = self.reader().await;
        let sql = "SELECT id FROM approvals WHERE execution = ? AND state = 'pending' AND expires > ?";
        let rows = query(sql)
            .bind(execution.to_string())
            .bind(to_nanoseconds(Timestamp::now()))
            .fetch_all(&reader)
            .await?;
        rows.iter()
            .map(|row| database::parse_column(row, TABLE, "id"))
            .collect()
    }

    /// A page of questions, newest first.
    pub async fn list_approvals(&self, which: ApprovalQuery) -> Result<Vec<StoredApproval>, QueryError> {
        // An overdue question that no process has marked as expired still has the state `pending`.
        let state = match which.state {
            None => "",
            Some(ApprovalState::Pending) => "AND a.state = 'pending' AND a.expires > ?1",
            Some(ApprovalState::Expired) => "AND (a.state = 'expired' OR (a.state = 'pending' AND a.expires <= ?1))",
            Some(ApprovalState::Approved) => "AND a.state = 'approved'",
            Some(ApprovalState::Denied) => "AND a.state = 'denied'",
            Some(ApprovalState::Withdrawn) => "AND a.state = 'withdrawn'",
        };
        let session = which.session.map_or("", |_| "AND a.session = ?2");
        // Each filter uses its own index.
        let execution = which.execution.map_or("AND ?4 IS NULL", |_| "AND a.execution = ?4");
        let sql = format!(
            "{SELECT} WHERE (?3 IS NULL OR a.principal = ?3) AND (?5 IS NULL OR a.id < ?5)
                {execution} {session} {state} ORDER BY a.id DESC LIMIT ?6"
        );
        let reader = self.reader().await;
        let rows = query(sql)
            .bind(to_nanoseconds(Timestamp::now()))
            .bind(which.session.map(|session| session.to_string()))
            .bind(which.principal.map(|principal| principal.to_string()))
            .bind(which.execution.map(|execution| execution.to_string()))
            .bind(which.before.map(|before| before.to_string()))
            .bind(i64::from(which.limit.unwrap_or(MAX_PAGE_SIZE).min(MAX_PAGE_SIZE)))
            .fetch_all(&reader)
            .await?;
        drop(reader);
        rows.iter().map(|row| approval_from_row(&self.seals, row)).collect()
    }
}

/// The writer's result for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerStatus {
    Accepted,
    AlreadyAnswered,
    Conflict,
    Expired,
    Withdrawn,
    Ended,
    Changed,
    Unknown,
}

const TABLE: &str = "approvals";

const SELECT: &str =
    "SELECT a.id, a.principal, a.session, a.execution, a.number, a.tool, a.rule, a.why, a.shown, a.sealed,
    a.asked, a.expires, CASE WHEN a.state = 'pending' AND a.expires <= ?1 THEN 'expired' ELSE a.state END AS state,
    a.scope, a.by, a.via, a.note, a.answered, k.sealed AS key
    FROM approvals a LEFT JOIN keys k ON k.session = a.session";

fn approval_from_row(seals: &SealKeyring, row: &QueryRow) -> Result<StoredApproval, QueryError> {
    let damaged = |column| QueryError::Row { table: TABLE, column };
    let id: ApprovalId = database::parse_column(row, TABLE, "id")?;
    let session: SessionId = database::parse_column(row, TABLE, "session")?;
    let name = id.to_string();
    let sealed = |place: SealContext<'_>| {
        let what = place.to_string();
        move |source| QueryError::Sealed { what, source }
    };
    let place = SealContext::Question(&name);
    let key: Option<&[u8]> = row.get("key").map_err(|_| damaged("key"))?;
    let key = key
        .ok_or(SealError::Deleted { session })
        .and_then(|key| seals.unwrap_session_key(session, key))
        .map_err(sealed(place))?;
    let bytes: &[u8] = row.get("sealed").map_err(|_| damaged("sealed"))?;
    let secret = key.unseal(place, bytes).map_err(sealed(place))?;
    let shown: SealedQuestion = serde_json::from_slice(&secret).map_err(|_| damaged("sealed"))?;
    let note: Option<&[u8]> = row.get("note").map_err(|_| damaged("note"))?;
    let place = SealContext::Note(&name);
    let note = note
        .map(|note| {
            let note = key.unseal(place, note).map_err(sealed(place))?;
            String::from_utf8(note.to_vec()).map_err(|_| damaged("note"))
        })
        .transpose()?;
    let question = ApprovalQuestion {
        id,
        session,
        principal: database::parse_column(row, TABLE, "principal")?,
        execution: database::parse_column(row, TABLE, "execution")?,
        number: u32::try_from(database::unsigned_column(row, TABLE, "number")?).map_err(|_| damaged("number"))?,
        program: shown.program,
        tool: database::parse_column(row, TABLE, "tool")?,
        rule: database::parse_column(row, TABLE, "rule")?,
        why: optional_word_column(row, "why")?.ok_or_else(|| damaged("why"))?,
        arguments: shown.arguments,
        masked: shown.masked,
        shown: database::hash_column(row, TABLE, "shown")?,
        asked: optional_time_column(row, "asked")?.ok_or_else(|| damaged("asked"))?,
        expires: optional_time_column(row, "expires")?.ok_or_else(|| damaged("expires"))?,
        grounds: shown.grounds,
    };
    let state = optional_word_column(row, "state")?.ok_or_else(|| damaged("state"))?;
    let answer = match (optional_time_column(row, "answered")?, state) {
        (Some(at), ApprovalState::Approved | ApprovalState::Denied) => {
            let answer = ApprovalResponse {
                approve: state == ApprovalState::Approved,
                scope: optional_word_column(row, "scope")?.ok_or_else(|| damaged("scope"))?,
                by: database::parse_column(row, TABLE, "by")?,
                via: optional_word_column(row, "via")?.ok_or_else(|| damaged("via"))?,
                note,
            };
            Some((answer, at))
        }
        _ => None,
    };
    Ok(StoredApproval {
        question,
        state,
        answer,
    })
}

fn optional_time_column(row: &QueryRow, column: &'static str) -> Result<Option<Timestamp>, QueryError> {
    let at: Option<i64> = row.get(column).map_err(|_| QueryError::Row { table: TABLE, column })?;
    Ok(at.map(from_nanoseconds))
}

/// One of a closed set of words, in the spelling of the journal.
fn optional_word_column<T: serde::de::DeserializeOwned>(
    row: &QueryRow,
    column: &'static str,
) -> Result<Option<T>, QueryError> {
    let damaged = || QueryError::Row { table: TABLE, column };
    let text: Option<&str> = row.get(column).map_err(|_| damaged())?;
    text.map(|text| serde_json::from_value(text.into()).map_err(|_| damaged()))
        .transpose()
}
