//! Questions to people: asked by the process that has the execution, answered by anybody who may, once.
//!
//! The row is the truth: whoever changes it from `pending` has answered. Datagrams only wake the processes that wait.

use jiff::Timestamp;
use ringfence_journal::{
    ApprovalAnswer, ApprovalId, ApprovalScope, ApprovalVia, AskReason, Entry, Event, ExecutionId, Hash, Principal,
    RecordError, Recorded, SessionId,
};
use ringfence_policy::Hints;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::Store;
use crate::database::{self, ReadError};
use crate::recording::{moment, nanoseconds};
use crate::seal::{Place, SealError, Seals};
use crate::stop;
use crate::writer::{Change, Command};

/// The most questions that one page has.
const PAGE: u32 = 1000;

/// A question to a person about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its id, new.
    pub id: ApprovalId,
    /// Who owns the session.
    pub principal: Principal,
    /// The session, which this process has.
    pub session: SessionId,
    /// The execution.
    pub execution: ExecutionId,
    /// The call's number in it.
    pub number: u32,
    /// The program that calls, as the person is shown it.
    pub program: String,
    /// The tool's full name.
    pub tool: String,
    /// The rule that wants a person.
    pub rule: String,
    /// Why.
    pub why: AskReason,
    /// The arguments, as the person may see them.
    pub arguments: String,
    /// The same with aliases in place of personal data, where there are any: for who may not see it.
    pub masked: Option<String>,
    /// Digest of all that the person is shown and the answer is bound to.
    pub shown: Hash,
    /// When it was asked.
    pub asked: Timestamp,
    /// When no answer means no.
    pub expires: Timestamp,
    /// What it rests on.
    pub grounds: Grounds,
}

/// What a question rests on. What is not known helps nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grounds {
    /// Digest of the policy that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What the tool's server says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<Hints>,
    /// What a yes for the whole session is given to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grantee: Option<String>,
    /// Digest of the code that calls, where there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Hash>,
    /// The code itself, where no recording has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether it is a yes.
    pub approve: bool,
    /// For how long a yes holds.
    pub scope: ApprovalScope,
    /// Who says so.
    pub by: Principal,
    /// By which way.
    pub via: ApprovalVia,
    /// What else they said.
    pub note: Option<String>,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// It is the answer.
    Taken,
    /// The same was answered before, by whomever.
    Again,
    /// Something else was answered before.
    Conflict(Box<Approval>),
    /// It came too late.
    Expired,
    /// What was asked is not what would happen any more.
    Withdrawn,
    /// The session or the execution is over.
    Ended,
    /// It was given for something else than what is asked.
    Changed,
    /// There is no such question.
    Unknown,
}

/// Where a question stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody answered yet.
    Pending,
    /// Yes.
    Approved,
    /// No.
    Denied,
    /// Nobody answered in time.
    Expired,
    /// It is not asked any more.
    Withdrawn,
}

impl ApprovalState {
    /// The name under which it is kept, such as `pending`.
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

/// A question, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// What was asked.
    pub question: Question,
    /// Where it stands now; one that nobody answered in time is expired even if nobody noted that yet.
    pub state: ApprovalState,
    /// The answer, where somebody gave one, and when.
    pub answer: Option<(Answer, Timestamp)>,
}

/// Which questions to list, newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Approvals {
    /// Only those in sessions of this principal.
    pub principal: Option<Principal>,
    /// Only those in this session.
    pub session: Option<SessionId>,
    /// Only those of this execution.
    pub execution: Option<ExecutionId>,
    /// Only those that stand here.
    pub state: Option<ApprovalState>,
    /// Only those older than this: the last of the page before.
    pub before: Option<ApprovalId>,
    /// At most so many; a page has at most 1,000.
    pub limit: Option<u32>,
}

/// What of a question only people may see.
#[derive(Serialize, Deserialize)]
pub(crate) struct Shown {
    program: String,
    arguments: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    masked: Option<String>,
    #[serde(default)]
    grounds: Grounds,
}

impl Question {
    pub(crate) fn secret(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Shown {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            masked: self.masked.clone(),
            grounds: self.grounds.clone(),
        })
    }
}

impl Store {
    /// Writes that a call waits for a person, the question itself, and what the execution met until then, in one commit.
    pub async fn ask(&self, event: Event, question: Question, entries: Vec<Entry>) -> Result<Recorded, RecordError> {
        let question = Box::new(question);
        self.record_with(event, Change::Ask { question, entries }).await
    }

    /// Answers a question that was shown as `shown`, and wakes whoever waits for it.
    pub async fn answer(&self, id: ApprovalId, shown: Hash, answer: Answer) -> Result<Answered, RecordError> {
        let said = Box::new(answer);
        let told = self.send(|reply| Command::Answer { id, shown, said, reply }).await?;
        match told {
            Told::Taken => {
                let run = self.home.run();
                // The answer stands; whoever is not told finds it by looking.
                let sent = tokio::task::spawn_blocking(move || stop::tell_all(&run)).await;
                if let Ok(Err(error)) = sent {
                    tracing::warn!(%error, %id, "nobody could be told of an answer");
                }
                Ok(Answered::Taken)
            }
            Told::Again => Ok(Answered::Again),
            Told::Expired => Ok(Answered::Expired),
            Told::Withdrawn => Ok(Answered::Withdrawn),
            Told::Ended => Ok(Answered::Ended),
            Told::Changed => Ok(Answered::Changed),
            Told::Unknown => Ok(Answered::Unknown),
            Told::Conflict => match self.approval(id).await {
                Ok(Some(approval)) => Ok(Answered::Conflict(Box::new(approval))),
                Ok(None) => Ok(Answered::Unknown),
                Err(error) => Err(RecordError::Keep {
                    source: std::sync::Arc::new(error),
                }),
            },
        }
    }

    /// Settles a question without a person. Says where it stands then: somebody may have answered first.
    pub async fn settle(&self, id: ApprovalId, answer: ApprovalAnswer) -> Result<Option<ApprovalState>, RecordError> {
        let state = ApprovalState::from(answer);
        self.send(|reply| Command::Settle { id, state, reply }).await
    }

    /// One question.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, ReadError> {
        let mut reader = self.reader().await?;
        let sql = format!("{SELECT} WHERE a.id = ?2");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(nanoseconds(Timestamp::now()))
            .bind(id.to_string())
            .fetch_optional(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        row.as_ref().map(|row| approval(&self.seals, row)).transpose()
    }

    /// All questions that an execution waits for.
    pub async fn pending(&self, execution: ExecutionId) -> Result<Vec<ApprovalId>, ReadError> {
        let mut reader = self.reader().await?;
        let sql = "SELECT id FROM approvals WHERE execution = ? AND state = 'pending' AND expires > ?";
        let rows = sqlx::query(sql)
            .bind(execution.to_string())
            .bind(nanoseconds(Timestamp::now()))
            .fetch_all(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        rows.iter().map(|row| database::parsed(row, TABLE, "id")).collect()
    }

    /// A page of questions, newest first.
    pub async fn approvals(&self, which: Approvals) -> Result<Vec<Approval>, ReadError> {
        // What expired without being noted stands under `pending`.
        let state = match which.state {
            None => "",
            Some(ApprovalState::Pending) => "AND a.state = 'pending' AND a.expires > ?1",
            Some(ApprovalState::Expired) => "AND (a.state = 'expired' OR (a.state = 'pending' AND a.expires <= ?1))",
            Some(ApprovalState::Approved) => "AND a.state = 'approved'",
            Some(ApprovalState::Denied) => "AND a.state = 'denied'",
            Some(ApprovalState::Withdrawn) => "AND a.state = 'withdrawn'",
        };
        let session = which.session.map_or("", |_| "AND a.session = ?2");
        // Each by its own index.
        let execution = which.execution.map_or("AND ?4 IS NULL", |_| "AND a.execution = ?4");
        let sql = format!(
            "{SELECT} WHERE (?3 IS NULL OR a.principal = ?3) AND (?5 IS NULL OR a.id < ?5)
                {execution} {session} {state} ORDER BY a.id DESC LIMIT ?6"
        );
        let mut reader = self.reader().await?;
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(nanoseconds(Timestamp::now()))
            .bind(which.session.map(|session| session.to_string()))
            .bind(which.principal.map(|principal| principal.to_string()))
            .bind(which.execution.map(|execution| execution.to_string()))
            .bind(which.before.map(|before| before.to_string()))
            .bind(i64::from(which.limit.unwrap_or(PAGE).min(PAGE)))
            .fetch_all(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        drop(reader);
        rows.iter().map(|row| approval(&self.seals, row)).collect()
    }
}

/// What the writer made of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Taken,
    Again,
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

fn approval(seals: &Seals, row: &SqliteRow) -> Result<Approval, ReadError> {
    let damaged = |column| ReadError::Row { table: TABLE, column };
    let id: ApprovalId = database::parsed(row, TABLE, "id")?;
    let session: SessionId = database::parsed(row, TABLE, "session")?;
    let name = id.to_string();
    let sealed = |place: Place<'_>| {
        let what = place.to_string();
        move |source| ReadError::Sealed { what, source }
    };
    let place = Place::Question(&name);
    let key: Option<&[u8]> = row.try_get("key").map_err(|_| damaged("key"))?;
    let key = key
        .ok_or(SealError::Deleted { session })
        .and_then(|key| seals.unwrap(session, key))
        .map_err(sealed(place))?;
    let bytes: &[u8] = row.try_get("sealed").map_err(|_| damaged("sealed"))?;
    let secret = key.open(place, bytes).map_err(sealed(place))?;
    let shown: Shown = serde_json::from_slice(&secret).map_err(|_| damaged("sealed"))?;
    let note: Option<&[u8]> = row.try_get("note").map_err(|_| damaged("note"))?;
    let place = Place::Note(&name);
    let note = note
        .map(|note| {
            let note = key.open(place, note).map_err(sealed(place))?;
            String::from_utf8(note.to_vec()).map_err(|_| damaged("note"))
        })
        .transpose()?;
    let question = Question {
        id,
        session,
        principal: database::parsed(row, TABLE, "principal")?,
        execution: database::parsed(row, TABLE, "execution")?,
        number: u32::try_from(database::number(row, TABLE, "number")?).map_err(|_| damaged("number"))?,
        program: shown.program,
        tool: database::parsed(row, TABLE, "tool")?,
        rule: database::parsed(row, TABLE, "rule")?,
        why: word(row, "why")?.ok_or_else(|| damaged("why"))?,
        arguments: shown.arguments,
        masked: shown.masked,
        shown: database::digest(row, TABLE, "shown")?,
        asked: time(row, "asked")?.ok_or_else(|| damaged("asked"))?,
        expires: time(row, "expires")?.ok_or_else(|| damaged("expires"))?,
        grounds: shown.grounds,
    };
    let state = word(row, "state")?.ok_or_else(|| damaged("state"))?;
    let answer = match (time(row, "answered")?, state) {
        (Some(at), ApprovalState::Approved | ApprovalState::Denied) => {
            let answer = Answer {
                approve: state == ApprovalState::Approved,
                scope: word(row, "scope")?.ok_or_else(|| damaged("scope"))?,
                by: database::parsed(row, TABLE, "by")?,
                via: word(row, "via")?.ok_or_else(|| damaged("via"))?,
                note,
            };
            Some((answer, at))
        }
        _ => None,
    };
    Ok(Approval {
        question,
        state,
        answer,
    })
}

fn time(row: &SqliteRow, column: &'static str) -> Result<Option<Timestamp>, ReadError> {
    let at: Option<i64> = row
        .try_get(column)
        .map_err(|_| ReadError::Row { table: TABLE, column })?;
    Ok(at.map(moment))
}

/// One of a closed set of words, as it is written in the journal.
fn word<T: serde::de::DeserializeOwned>(row: &SqliteRow, column: &'static str) -> Result<Option<T>, ReadError> {
    let damaged = || ReadError::Row { table: TABLE, column };
    let text: Option<&str> = row.try_get(column).map_err(|_| damaged())?;
    text.map(|text| serde_json::from_value(text.into()).map_err(|_| damaged()))
        .transpose()
}
