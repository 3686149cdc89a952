//! Approval questions in a commit: under the write lock, the first to find a question pending settles it.

use jiff::Timestamp;
use ringfence_journal::{ApprovalAnswer, ApprovalId, Event, ExecutionId, Hash, Kind, Origin, RecordError};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;

use super::batch::{Batch, Step};
use super::command::KeepError;
use super::project::run;
use super::row::{digest, maybe, maybe_word, number, parsed};
use super::sealing::Sealed;
use crate::approval::{Answer, ApprovalState, Question, Told};
use crate::database::Trouble;
use crate::recording::nanoseconds;

/// Inserts a new question in state `pending`.
pub(super) fn ask(
    connection: &Connection,
    question: &Question,
    sealed: &[u8],
) -> Result<Result<(), RecordError>, rusqlite::Error> {
    let asked = run(
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
            word(question.why)?,
            question.shown.as_bytes(),
            sealed,
            nanoseconds(question.asked),
            nanoseconds(question.expires)
        ],
    );
    match asked {
        Ok(()) => Ok(Ok(())),
        Err(error) if Trouble::of_write(&error) == Trouble::Taken => Ok(Err(KeepError::Asked.into())),
        Err(error) => Err(error),
    }
}

/// A value of a closed set, in the spelling of the journal.
fn word(value: impl Serialize) -> Result<String, rusqlite::Error> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        Ok(other) => Err(rusqlite::Error::ToSqlConversionFailure(
            format!("`{other}` is not a word").into(),
        )),
        Err(error) => Err(rusqlite::Error::ToSqlConversionFailure(error.into())),
    }
}

/// The state of a question that an answer depends on.
struct Open {
    execution: ExecutionId,
    shown: Hash,
    expires: i64,
    state: String,
    scope: Option<String>,
    /// Whether the session is closed or the execution has ended.
    over: bool,
}

fn find(connection: &Connection, id: ApprovalId) -> Result<Option<Open>, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT a.execution, a.shown, a.expires, a.state, a.scope,
                NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = a.session AND s.state = 'open')
                OR EXISTS (SELECT 1 FROM executions e WHERE e.id = a.execution AND e.ended IS NOT NULL)
             FROM approvals a WHERE a.id = ?",
        )?
        .query_row([id.to_string()], |row| {
            Ok(Open {
                execution: parsed(row, 0)?,
                shown: digest(row, 1)?,
                expires: row.get(2)?,
                state: row.get(3)?,
                scope: row.get(4)?,
                over: row.get(5)?,
            })
        })
        .optional()
}

impl Batch<'_> {
    /// Records the answers in an execution or session that no event mentions yet, before the event that ends it. No execution will use
    /// them, but the journal shows who answered.
    pub(super) fn hear(&mut self, event: &Event) -> Step<()> {
        let unheard = match (&event.kind, event.execution) {
            _ if event.origin != Origin::Host => return Ok(Ok(())),
            (Kind::ExecutionEnded { .. }, Some(execution)) => {
                unheard(self.connection, "execution", execution.to_string())?
            }
            (Kind::Swept { .. } | Kind::SessionClosed { .. }, _) => {
                unheard(self.connection, "session", event.session.to_string())?
            }
            _ => return Ok(Ok(())),
        };
        for (execution, kind) in unheard {
            let Some(chain) = self.chain(event.session) else {
                break;
            };
            if let Err(error) = self.append(chain, &Event::host(event.session, Some(execution), kind))? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}

/// Answers that no event mentions yet, where `column` equals `value`, in the order in which they were given.
fn unheard(
    connection: &Connection,
    column: &'static str,
    value: String,
) -> Result<Vec<(ExecutionId, Kind)>, rusqlite::Error> {
    let sql = format!(
        "SELECT id, execution, number, state, scope, by, via FROM approvals
         WHERE {column} = ? AND noted = 0 AND state IN ('approved', 'denied') ORDER BY answered"
    );
    let mut unheard = connection.prepare_cached(&sql)?;
    let rows = unheard.query_map([value], |row| {
        let is_yes = row.get::<_, String>(3)? == ApprovalState::Approved.name();
        let kind = Kind::ApprovalAnswered {
            id: parsed(row, 0)?,
            number: number(row, 2)?,
            answer: if is_yes {
                ApprovalAnswer::Approved
            } else {
                ApprovalAnswer::Denied
            },
            scope: maybe_word(row, 4)?.filter(|_| is_yes),
            by: maybe(row, 5)?,
            via: maybe_word(row, 6)?,
        };
        Ok((parsed(row, 1)?, kind))
    })?;
    rows.collect()
}

/// Accepts an answer with its sealed note, or returns why not.
pub(super) fn take(
    connection: &Connection,
    id: ApprovalId,
    shown: Hash,
    said: &Answer,
    note: Option<Result<Sealed, RecordError>>,
) -> Result<Result<Told, RecordError>, rusqlite::Error> {
    match note.transpose() {
        Ok(note) => {
            let note = note.as_ref().and_then(|note| note.body.as_deref());
            answer(connection, id, shown, said, note).map(Ok)
        }
        Err(error) => Ok(Err(error)),
    }
}

fn answer(
    connection: &Connection,
    id: ApprovalId,
    shown: Hash,
    answer: &Answer,
    note: Option<&[u8]>,
) -> Result<Told, rusqlite::Error> {
    let Some(open) = find(connection, id)? else {
        return Ok(Told::Unknown);
    };
    let now = nanoseconds(Timestamp::now());
    let scope = word(answer.scope)?;
    let said = if answer.approve {
        ApprovalState::Approved
    } else {
        ApprovalState::Denied
    };
    match open.state.as_str() {
        "approved" | "denied" => {
            // The scope of a denial makes no difference.
            let same = open.state == said.name() && (!answer.approve || open.scope.as_ref() == Some(&scope));
            return Ok(if same { Told::Again } else { Told::Conflict });
        }
        "expired" => return Ok(Told::Expired),
        "pending" if open.expires <= now => return Ok(Told::Expired),
        _ if open.over => return Ok(Told::Ended),
        "pending" if open.shown != shown => return Ok(Told::Changed),
        "pending" => {}
        _ => return Ok(Told::Withdrawn),
    }
    run(
        connection,
        "UPDATE approvals SET state = ?, scope = ?, by = ?, via = ?, note = ?, answered = ? WHERE id = ? AND state = 'pending'",
        params![
            said.name(),
            scope,
            answer.by.to_string(),
            word(answer.via)?,
            note,
            now,
            id.to_string()
        ],
    )?;
    run(
        connection,
        "INSERT INTO answers (approval, execution, session) SELECT id, execution, session FROM approvals WHERE id = ?",
        params![id.to_string()],
    )?;
    wake(connection, open.execution)?;
    Ok(Told::Taken)
}

/// Settles a question without a person, unless it is settled already; returns its state.
pub(super) fn settle(
    connection: &Connection,
    id: ApprovalId,
    state: ApprovalState,
) -> Result<Option<ApprovalState>, rusqlite::Error> {
    let Some(open) = find(connection, id)? else {
        return Ok(None);
    };
    if state == ApprovalState::Withdrawn {
        // No execution waits for it any more. An answer is marked as heard once an event mentions it.
        let sql = "UPDATE approvals SET noted = 1 WHERE id = ? AND state NOT IN ('approved', 'denied')";
        run(connection, sql, params![id.to_string()])?;
    }
    Ok(Some(match open.state.as_str() {
        "approved" => ApprovalState::Approved,
        "denied" => ApprovalState::Denied,
        "expired" => ApprovalState::Expired,
        "withdrawn" => ApprovalState::Withdrawn,
        _ => {
            let sql = "UPDATE approvals SET state = ? WHERE id = ? AND state = 'pending'";
            run(connection, sql, params![state.name(), id.to_string()])?;
            wake(connection, open.execution)?;
            state
        }
    }))
}

/// Makes a waiting execution due at once.
fn wake(connection: &Connection, execution: ExecutionId) -> Result<(), rusqlite::Error> {
    let sql = "UPDATE recordings SET due = 0 WHERE execution = ? AND state IN ('waiting', 'interrupted')";
    run(connection, sql, params![execution.to_string()])
}

/// Marks the answer as heard by its execution.
pub(super) fn note(connection: &Connection, id: ApprovalId) -> Result<(), rusqlite::Error> {
    run(
        connection,
        "UPDATE approvals SET noted = 1 WHERE id = ?",
        params![id.to_string()],
    )
}

/// Withdraws the questions where `column` equals `value`: nobody waits for their answers any more.
pub(super) fn withdraw(connection: &Connection, column: &'static str, value: &str) -> Result<(), rusqlite::Error> {
    let sql = format!(
        "UPDATE approvals SET noted = 1, state = CASE
            WHEN state <> 'pending' THEN state WHEN expires <= ?2 THEN 'expired' ELSE 'withdrawn' END
         WHERE {column} = ?1 AND noted = 0"
    );
    run(connection, &sql, params![value, nanoseconds(Timestamp::now())])
}
