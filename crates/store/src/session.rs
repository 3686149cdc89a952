//! Sessions: opens, adopts and lists them without reading the journal.

use std::collections::HashMap;

use jiff::Timestamp;
use ringfence_journal::{
    CleanText, Enforcement, Event, EventKind, ExecutionId, ExecutionStatus, LeaseId, PolicyRef, Principal, RecordError,
    RecordPosition, SessionId, SessionState,
};
use serde::Serialize;

use crate::database::{self, QueryError};
use crate::query::{QueryRow, query};
use crate::workspace::{NewWorkspace, StoredWorkspace, workspace_from_row};
use crate::writer::WriterCommand;
use crate::{Lease, Store};

/// The most sessions on one page.
const MAX_PAGE_SIZE: u32 = 1000;

/// The properties of a new session.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The id of the session, newly generated.
    pub session: SessionId,
    /// The principal who owns the session.
    pub principal: Principal,
    /// The policy in force at the start.
    pub policy: PolicyRef,
    /// The policy as JSON, stored under its digest.
    pub policy_json: String,
    /// The backend that provides the sandbox.
    pub backend: CleanText,
    /// How each rule is enforced.
    pub enforcement: Vec<Enforcement>,
    /// Whether each commit of this session reaches the disk before it is answered.
    pub durable: bool,
    /// The most bytes of events that it may write; events that end something are still written beyond that.
    pub journal_bytes: u64,
    /// The host user for the session's programs; `None` without one of its own.
    pub uid: Option<u32>,
    /// The workspace that it keeps beyond its process; `None` without one.
    pub keeping: Option<NewWorkspace>,
}

impl NewSession {
    pub(crate) fn opening_event(&self) -> Event {
        Event::from_host(
            self.session,
            None,
            EventKind::SessionOpened {
                policy: self.policy.clone(),
                principal: self.principal,
                backend: self.backend.clone(),
                enforcement: self.enforcement.clone(),
            },
        )
    }
}

/// Why a session cannot be adopted or an execution cannot be resumed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AdoptError {
    /// No session has this id.
    #[error("there is no session `{session}`")]
    Unknown {
        /// The id that was requested.
        session: SessionId,
    },
    /// The session is closed.
    #[error("session `{session}` is closed")]
    Closed {
        /// The session that is closed.
        session: SessionId,
    },
    /// Another process owns the session.
    #[error("session `{session}` belongs to another process")]
    Owned {
        /// The session that is owned.
        session: SessionId,
    },
    /// No process owns the session, but an execution in it waits for a person.
    #[error("execution `{execution}` of session `{session}` waits for a person")]
    Unfinished {
        /// The session that cannot be adopted.
        session: SessionId,
        /// The execution that waits.
        execution: ExecutionId,
    },
    /// The execution was not recorded.
    #[error("execution `{execution}` was not recorded: it cannot go on")]
    NoRecording {
        /// The execution without a recording.
        execution: ExecutionId,
    },
    /// The execution cannot be run again.
    #[error("execution `{execution}` cannot go on: {why}")]
    Unrepeatable {
        /// The execution that cannot be resumed.
        execution: ExecutionId,
        /// Why it cannot be run again.
        why: String,
    },
    /// The writer returned an error.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A session, without its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Session {
    /// The id of the session.
    pub id: SessionId,
    /// The principal who owns the session.
    pub principal: Principal,
    /// Name of the policy in force.
    pub policy_name: String,
    /// Digest of the policy in force.
    pub policy_digest: String,
    /// The backend that provides the sandbox.
    pub backend: String,
    /// Whether the session is open, closed or lost.
    pub state: SessionState,
    /// The lease of the owning process; `None` if no process owns it.
    pub lease: Option<LeaseId>,
    /// The host user for its programs; `None` without one of its own.
    pub uid: Option<u32>,
    /// When it was opened.
    pub created: Timestamp,
    /// When an execution last started or ended in it.
    pub used: Timestamp,
    /// How many executions it has had.
    pub executions: u64,
    /// The workspace that it keeps beyond its process; `None` without one.
    pub workspace: Option<StoredWorkspace>,
}

/// An execution, without its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredExecution {
    /// The id of the execution.
    pub id: ExecutionId,
    /// The session that it belongs to.
    pub session: SessionId,
    /// The language, or `program` for any other.
    pub language: String,
    /// The current or final status.
    pub status: ExecutionStatus,
    /// Time of its `execution_started` event.
    pub started: Timestamp,
    /// Time of its end; `None` while it is in progress.
    pub ended: Option<Timestamp>,
}

/// The newest run of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastRun {
    /// The id of the execution.
    pub execution_id: ExecutionId,
    /// The name of the file or program, as the caller gave it.
    pub program: Option<String>,
    /// The language, or `program` for any other.
    pub language: String,
    /// The current or final status.
    pub status: ExecutionStatus,
}

/// The kind of object that an id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdKind {
    /// A session, with the prefix `s_`.
    Session,
    /// An execution, with the prefix `x_`.
    Execution,
    /// An approval question, with the prefix `a_`.
    Approval,
}

impl IdKind {
    /// The table whose rows have ids of this kind.
    fn table(self) -> &'static str {
        match self {
            IdKind::Session => "sessions",
            IdKind::Execution => "executions",
            IdKind::Approval => "approvals",
        }
    }

    /// The prefix of ids of this kind.
    pub fn prefix(self) -> &'static str {
        match self {
            IdKind::Session => "s_",
            IdKind::Execution => "x_",
            IdKind::Approval => "a_",
        }
    }
}

/// Selects the sessions to list, newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionQuery {
    /// Only sessions in this state.
    pub state: Option<SessionState>,
    /// Only sessions of this principal.
    pub principal: Option<Principal>,
    /// Only sessions older than this one, the last of the previous page.
    pub before: Option<SessionId>,
    /// The most sessions to return; a page has at most 1,000.
    pub limit: Option<u32>,
}

pub(crate) const SELECT_SESSION: &str =
    "SELECT id, sessions.principal, uid, policy_name, policy_digest, backend, state, lease, created, used,
    (SELECT count(*) FROM executions WHERE executions.session = sessions.id) AS executions,
    name, keep, bytes, files, taken FROM sessions LEFT JOIN workspaces ON workspaces.session = sessions.id ";

impl Store {
    /// Writes the session's first event and its row; the session belongs to the lease.
    pub async fn open_session(&self, lease: &Lease, opening: NewSession) -> Result<RecordPosition, RecordError> {
        let (opening, lease) = (Box::new(opening), self.note_lease(lease));
        self.send(|reply| WriterCommand::Open { opening, lease, reply }).await
    }

    /// Adopts an open session that no process owns.
    pub async fn adopt_session(&self, lease: &Lease, session: SessionId) -> Result<(), AdoptError> {
        let to = self.note_lease(lease);
        self.send(|reply| WriterCommand::Adopt {
            session,
            from: None,
            to,
            reply,
        })
        .await
    }

    /// Releases an open session, so that another process can adopt it.
    pub async fn release_session(&self, session: SessionId) -> Result<(), RecordError> {
        self.send(|reply| WriterCommand::Release { session, reply }).await
    }

    /// Stores a policy that is about to be in force in a session under its digest; it stays as long as the session does.
    pub async fn keep_policy(&self, session: SessionId, policy: PolicyRef, json: String) -> Result<(), RecordError> {
        let keep = |reply| WriterCommand::KeepPolicy {
            session,
            policy,
            json,
            reply,
        };
        self.send(keep).await
    }

    /// Reads one session; `None` if no session has this id.
    pub async fn session(&self, id: SessionId) -> Result<Option<Session>, QueryError> {
        let reader = self.reader().await;
        let row = query(format!("{SELECT_SESSION} WHERE id = ?"))
            .bind(id.to_string())
            .fetch_optional(&reader)
            .await?;
        row.as_ref().map(session_from_row).transpose()
    }

    /// A page of sessions, newest first.
    pub async fn list_sessions(&self, which: SessionQuery) -> Result<Vec<Session>, QueryError> {
        let reader = self.reader().await;
        let sql = format!(
            "{SELECT_SESSION} WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR sessions.principal = ?2)
             AND (?3 IS NULL OR id < ?3) ORDER BY id DESC LIMIT ?4"
        );
        let rows = query(sql)
            .bind(which.state.map(|state| state.name().to_owned()))
            .bind(which.principal.map(|principal| principal.to_string()))
            .bind(which.before.map(|before| before.to_string()))
            .bind(i64::from(which.limit.unwrap_or(MAX_PAGE_SIZE).min(MAX_PAGE_SIZE)))
            .fetch_all(&reader)
            .await?;
        rows.iter().map(session_from_row).collect()
    }

    /// The newest run of each of these sessions that has any; skills that a run called do not count.
    pub async fn last_runs(&self, of: &[SessionId]) -> Result<HashMap<SessionId, LastRun>, QueryError> {
        let of: Vec<String> = of.iter().map(ToString::to_string).collect();
        let reader = self.reader().await;
        let rows = query(
            "SELECT e.id, e.session, e.language, e.status, e.started, e.ended,
                 (SELECT json_extract(v.json, '$.program') FROM events v
                  WHERE v.session = e.session AND v.json LIKE '%execution_started%'
                      AND json_extract(v.json, '$.execution') = e.id AND json_extract(v.json, '$.kind') = 'execution_started'
                  ORDER BY v.seq DESC LIMIT 1) AS program
             FROM json_each(?) wanted JOIN executions e
                 ON e.id = (SELECT max(id) FROM executions WHERE session = wanted.value AND parent IS NULL)",
        )
        .bind(serde_json::Value::from(of).to_string())
        .fetch_all(&reader)
.await?;
        let last = |row: &QueryRow| {
            let run = execution_from_row(row)?;
            let program = row.get("program").map_err(|_| QueryError::Row {
                table: "events",
                column: "json",
            })?;
            let last = LastRun {
                execution_id: run.id,
                program,
                language: run.language,
                status: run.status,
            };
            Ok((run.session, last))
        };
        rows.iter().map(last).collect()
    }

    /// The executions of a session, oldest first.
    pub async fn session_executions(&self, id: SessionId) -> Result<Vec<StoredExecution>, QueryError> {
        let reader = self.reader().await;
        let rows =
            query("SELECT id, session, language, status, started, ended FROM executions WHERE session = ? ORDER BY id")
                .bind(id.to_string())
                .fetch_all(&reader)
                .await?;
        rows.iter().map(execution_from_row).collect()
    }

    /// Reads one execution; `None` if no execution has this id.
    pub async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, QueryError> {
        let reader = self.reader().await;
        let row = query("SELECT id, session, language, status, started, ended FROM executions WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&reader)
            .await?;
        row.as_ref().map(execution_from_row).transpose()
    }

    /// The newest ids of a kind that start with `beginning`, newest first.
    pub async fn ids_starting_with(
        &self,
        kind: IdKind,
        beginning: &str,
        limit: u32,
    ) -> Result<Vec<String>, QueryError> {
        let table = kind.table();
        let sql = format!("SELECT id FROM {table} WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id DESC LIMIT ?2");
        let reader = self.reader().await;
        let rows = query(sql)
            .bind(beginning.to_owned())
            .bind(limit)
            .fetch_all(&reader)
            .await?;
        rows.iter()
            .map(|row| database::parse_column(row, table, "id"))
            .collect()
    }

    /// A policy that a session ran under, as JSON; `None` if no policy has this digest.
    pub async fn policy(&self, digest: &str) -> Result<Option<String>, QueryError> {
        let reader = self.reader().await;
        query("SELECT json FROM policies WHERE digest = ?")
            .bind(digest.to_owned())
            .fetch_scalar(&reader)
            .await
    }
}

pub(crate) fn session_from_row(row: &QueryRow) -> Result<Session, QueryError> {
    const TABLE: &str = "sessions";
    let damaged = |column| QueryError::Row { table: TABLE, column };
    let state = match row.get("state") {
        Ok("open") => SessionState::Open,
        Ok("closed") => SessionState::Closed,
        Ok("lost") => SessionState::Lost,
        _ => return Err(damaged("state")),
    };
    let lease: Option<&str> = row.get("lease").map_err(|_| damaged("lease"))?;
    let uid: Option<i64> = row.get("uid").map_err(|_| damaged("uid"))?;
    let used = database::parse_column(row, TABLE, "used")?;
    Ok(Session {
        id: database::parse_column(row, TABLE, "id")?,
        principal: database::parse_column(row, TABLE, "principal")?,
        policy_name: database::parse_column(row, TABLE, "policy_name")?,
        policy_digest: database::parse_column(row, TABLE, "policy_digest")?,
        backend: database::parse_column(row, TABLE, "backend")?,
        state,
        lease: lease.map(str::parse).transpose().map_err(|_| damaged("lease"))?,
        uid: uid.map(u32::try_from).transpose().map_err(|_| damaged("uid"))?,
        created: database::parse_column(row, TABLE, "created")?,
        used,
        executions: database::unsigned_column(row, TABLE, "executions")?,
        workspace: workspace_from_row(row, used)?,
    })
}

pub(crate) fn execution_from_row(row: &QueryRow) -> Result<StoredExecution, QueryError> {
    const TABLE: &str = "executions";
    let damaged = |column| QueryError::Row { table: TABLE, column };
    let status: &str = row.get("status").map_err(|_| damaged("status"))?;
    let ended: Option<&str> = row.get("ended").map_err(|_| damaged("ended"))?;
    Ok(StoredExecution {
        id: database::parse_column(row, TABLE, "id")?,
        session: database::parse_column(row, TABLE, "session")?,
        language: database::parse_column(row, TABLE, "language")?,
        status: serde_json::from_value(status.into()).map_err(|_| damaged("status"))?,
        started: database::parse_column(row, TABLE, "started")?,
        ended: ended.map(str::parse).transpose().map_err(|_| damaged("ended"))?,
    })
}
