//! Approval questions in a commit: under the write lock, the first to find a question pending settles it.

use jiff::Timestamp;
use ringfence_journal::{
    ApprovalAnswer, ApprovalId, ContentHash, Event, EventKind, EventOrigin, ExecutionId, RecordError,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;

use super::batch::{CommandResult, CommitBatch};
use super::command::RecordingError;
use super::projection::execute_cached;
use super::row::{hash_at, optional_text_at, optional_word_at, text_at, unsigned_at};
use super::sealing::SealedChange;
use crate::approval::{AnswerStatus, ApprovalQuestion, ApprovalResponse, ApprovalState};
use crate::database::SqliteErrorClass;
use crate::recording::to_nanoseconds;

/// Inserts a new question in state `pending`.
pub(super) fn insert_question(
    connection: &Connection,
    question: &ApprovalQuestion,
    sealed: &[u8],
) -> Result<Result<(), RecordError>, rusqlite::Error> {
    let asked = execute_cached(
        connection,
        "INSERT INTO approvals (id, principal, session, execution, number, tool, rule, why, shown, sealed, asked, expires,
            state, noted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', 0)",
        params![
            question.id.to_string(),
            question.principal.to_string(),
            question.session.to_string(),
            question.execution.to_string(),
            question.number,
            question.tool,
            question.rule,
            journal_word(question.why)?,
            question.shown.as_bytes(),
            sealed,
            to_nanoseconds(question.asked),
            to_nanoseconds(question.expires)
        ],
    );
    match asked {
        Ok(()) => Ok(Ok(())),
        Err(error) if SqliteErrorClass::from_rusqlite(&error) == SqliteErrorClass::ConstraintViolated => {
            Ok(Err(RecordingError::AlreadyAsked.into()))
        }
        Err(error) => Err(error),
    }
}

/// A value of a closed set, in the spelling of the journal.
fn journal_word(value: impl Serialize) -> Result<String, rusqlite::Error> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        Ok(other) => Err(rusqlite::Error::ToSqlConversionFailure(
            format!("`{other}` is not a word").into(),
        )),
        Err(error) => Err(rusqlite::Error::ToSqlConversionFailure(error.into())),
    }
}

/// The state of a question that an answer depends on.
struct OpenQuestion {
    execution: ExecutionId,
    shown: ContentHash,
    expires: i64,
    state: String,
    scope: Option<String>,
    /// Whether the session is closed or the execution has ended.
    over: bool,
}

fn find_question(connection: &Connection, id: ApprovalId) -> Result<Option<OpenQuestion>, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT a.execution, a.shown, a.expires, a.state, a.scope,
                NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = a.session AND s.state = 'open')
                OR EXISTS (SELECT 1 FROM executions e WHERE e.id = a.execution AND e.ended IS NOT NULL)
             FROM approvals a WHERE a.id = ?",
        )?
        .query_row([id.to_string()], |row| {
            Ok(OpenQuestion {
                execution: text_at(row, 0)?,
                shown: hash_at(row, 1)?,
                expires: row.get(2)?,
                state: row.get(3)?,
                scope: row.get(4)?,
                over: row.get(5)?,
            })
        })
        .optional()
}

impl CommitBatch<'_> {
    /// Records the answers in an execution or session that no event mentions yet, before the event that ends it. No execution will use
    /// them, but the journal shows who answered.
    pub(super) fn record_unheard_answers(&mut self, event: &Event) -> CommandResult<()> {
        let unheard = match (&event.kind, event.execution) {
            _ if event.origin != EventOrigin::Host => return Ok(Ok(())),
            (EventKind::ExecutionEnded { .. }, Some(execution)) => {
                unheard_answers(self.connection, "execution", execution.to_string())?
            }
            (EventKind::Swept { .. } | EventKind::SessionClosed { .. }, _) => {
                unheard_answers(self.connection, "session", event.session.to_string())?
            }
            _ => return Ok(Ok(())),
        };
        for (execution, kind) in unheard {
            let Some(chain) = self.chain(event.session) else {
                break;
            };
            if let Err(error) = self.append(chain, &Event::from_host(event.session, Some(execution), kind))? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}

/// Answers that no event mentions yet, where `column` equals `value`, in the order in which they were given.
fn unheard_answers(
    connection: &Connection,
    column: &'static str,
    value: String,
) -> Result<Vec<(ExecutionId, EventKind)>, rusqlite::Error> {
    let sql = format!(
        "SELECT id, execution, number, state, scope, by, via FROM approvals
         WHERE {column} = ? AND noted = 0 AND state IN ('approved', 'denied') ORDER BY answered"
    );
    let mut unheard = connection.prepare_cached(&sql)?;
    let rows = unheard.query_map([value], |row| {
        let is_yes = row.get::<_, String>(3)? == ApprovalState::Approved.name();
        let kind = EventKind::ApprovalAnswered {
            id: text_at(row, 0)?,
            number: unsigned_at(row, 2)?,
            answer: if is_yes {
                ApprovalAnswer::Approved
            } else {
                ApprovalAnswer::Denied
            },
            scope: optional_word_at(row, 4)?.filter(|_| is_yes),
            by: optional_text_at(row, 5)?,
            via: optional_word_at(row, 6)?,
        };
        Ok((text_at(row, 1)?, kind))
    })?;
    rows.collect()
}

/// Accepts an answer with its sealed note, or returns why not.
pub(super) fn accept_answer(
    connection: &Connection,
    id: ApprovalId,
    shown: ContentHash,
    said: &ApprovalResponse,
    note: Option<Result<SealedChange, RecordError>>,
) -> Result<Result<AnswerStatus, RecordError>, rusqlite::Error> {
    match note.transpose() {
        Ok(note) => {
            let note = note.as_ref().and_then(|note| note.body.as_deref());
            apply_answer(connection, id, shown, said, note).map(Ok)
        }
        Err(error) => Ok(Err(error)),
    }
}

fn apply_answer(
    connection: &Connection,
    id: ApprovalId,
    shown: ContentHash,
    answer: &ApprovalResponse,
    note: Option<&[u8]>,
) -> Result<AnswerStatus, rusqlite::Error> {
    let Some(open) = find_question(connection, id)? else {
        return Ok(AnswerStatus::Unknown);
    };
    let now = to_nanoseconds(Timestamp::now());
    let scope = journal_word(answer.scope)?;
    let said = if answer.approve {
        ApprovalState::Approved
    } else {
        ApprovalState::Denied
    };
    match open.state.as_str() {
        "approved" | "denied" => {
            // The scope of a denial makes no difference.
            let same = open.state == said.name() && (!answer.approve || open.scope.as_ref() == Some(&scope));
            return Ok(if same {
                AnswerStatus::AlreadyAnswered
            } else {
                AnswerStatus::Conflict
            });
        }
        "expired" => return Ok(AnswerStatus::Expired),
        "pending" if open.expires <= now => return Ok(AnswerStatus::Expired),
        _ if open.over => return Ok(AnswerStatus::Ended),
        "pending" if open.shown != shown => return Ok(AnswerStatus::Changed),
        "pending" => {}
        _ => return Ok(AnswerStatus::Withdrawn),
    }
    execute_cached(
        connection,
        "UPDATE approvals SET state = ?, scope = ?, by = ?, via = ?, note = ?, answered = ? WHERE id = ? AND state = 'pending'",
        params![
            said.name(),
            scope,
            answer.by.to_string(),
            journal_word(answer.via)?,
            note,
            now,
            id.to_string()
        ],
    )?;
    execute_cached(
        connection,
        "INSERT INTO answers (approval, execution, session) SELECT id, execution, session FROM approvals WHERE id = ?",
        params![id.to_string()],
    )?;
    wake_execution(connection, open.execution)?;
    Ok(AnswerStatus::Accepted)
}

/// Settles a question without a person, unless it is settled already; returns its state.
pub(super) fn settle_question(
    connection: &Connection,
    id: ApprovalId,
    state: ApprovalState,
) -> Result<Option<ApprovalState>, rusqlite::Error> {
    let Some(open) = find_question(connection, id)? else {
        return Ok(None);
    };
    if state == ApprovalState::Withdrawn {
        // No execution waits for it any more. An answer is marked as heard once an event mentions it.
        let sql = "UPDATE approvals SET noted = 1 WHERE id = ? AND state NOT IN ('approved', 'denied')";
        execute_cached(connection, sql, params![id.to_string()])?;
    }
    Ok(Some(match open.state.as_str() {
        "approved" => ApprovalState::Approved,
        "denied" => ApprovalState::Denied,
        "expired" => ApprovalState::Expired,
        "withdrawn" => ApprovalState::Withdrawn,
        _ => {
            let sql = "UPDATE approvals SET state = ? WHERE id = ? AND state = 'pending'";
            execute_cached(connection, sql, params![state.name(), id.to_string()])?;
            wake_execution(connection, open.execution)?;
            state
        }
    }))
}

/// Makes a waiting execution due at once.
fn wake_execution(connection: &Connection, execution: ExecutionId) -> Result<(), rusqlite::Error> {
    let sql = "UPDATE recordings SET due = 0 WHERE execution = ? AND state IN ('waiting', 'interrupted')";
    execute_cached(connection, sql, params![execution.to_string()])
}

/// Marks the answer as heard by its execution.
pub(super) fn mark_answer_heard(connection: &Connection, id: ApprovalId) -> Result<(), rusqlite::Error> {
    execute_cached(
        connection,
        "UPDATE approvals SET noted = 1 WHERE id = ?",
        params![id.to_string()],
    )
}

/// Withdraws the questions where `column` equals `value`: nobody waits for their answers any more.
pub(super) fn withdraw_questions(
    connection: &Connection,
    column: &'static str,
    value: &str,
) -> Result<(), rusqlite::Error> {
    let sql = format!(
        "UPDATE approvals SET noted = 1, state = CASE
            WHEN state <> 'pending' THEN state WHEN expires <= ?2 THEN 'expired' ELSE 'withdrawn' END
         WHERE {column} = ?1 AND noted = 0"
    );
    execute_cached(connection, &sql, params![value, to_nanoseconds(Timestamp::now())])
}
