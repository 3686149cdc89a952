//! Sessions: opening one, going on with one, and looking at them without reading the journal.

use std::collections::HashMap;

use jiff::Timestamp;
use ringfence_journal::{
    Enforcement, Event, ExecutionId, Kind, LeaseId, PolicyRef, Principal, RecordError, Recorded, SessionId,
    SessionState, Status, Text,
};
use serde::Serialize;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::database::{self, ReadError};
use crate::workspace::{Keeping, Workspace, workspace};
use crate::writer::Command;
use crate::{Lease, Store};

/// The most sessions that one question answers with.
const PAGE: u32 = 1000;

/// What a session begins with.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Its id, new.
    pub session: SessionId,
    /// Who owns it.
    pub principal: Principal,
    /// The policy in force.
    pub policy: PolicyRef,
    /// The policy as JSON, kept by its digest.
    pub policy_json: String,
    /// What the sandbox is made of.
    pub backend: Text,
    /// What holds each rule.
    pub enforcement: Vec<Enforcement>,
    /// Whether each commit of this session reaches the disk before it is answered.
    pub durable: bool,
    /// How many bytes of events it may write; the ends of what was begun still follow then.
    pub journal_bytes: u64,
    /// The host user that the session's programs run as, if it has one of its own.
    pub uid: Option<u32>,
    /// The files that it keeps beyond its process, if it does.
    pub keeping: Option<Keeping>,
}

impl Opening {
    pub(crate) fn event(&self) -> Event {
        Event::host(
            self.session,
            None,
            Kind::SessionOpened {
                policy: self.policy.clone(),
                principal: self.principal,
                backend: self.backend.clone(),
                enforcement: self.enforcement.clone(),
            },
        )
    }
}

/// Why a session cannot be gone on with.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AdoptError {
    /// There is none of this id.
    #[error("there is no session `{session}`")]
    Unknown {
        /// The id.
        session: SessionId,
    },
    /// It is over.
    #[error("session `{session}` is closed")]
    Closed {
        /// The session.
        session: SessionId,
    },
    /// A process has it.
    #[error("session `{session}` belongs to another process")]
    Owned {
        /// The session.
        session: SessionId,
    },
    /// Nobody has it, but something in it waits for a person.
    #[error("execution `{execution}` of session `{session}` waits for a person")]
    Unfinished {
        /// The session.
        session: SessionId,
        /// The execution.
        execution: ExecutionId,
    },
    /// The execution was not recorded.
    #[error("execution `{execution}` was not recorded: it cannot go on")]
    NoRecording {
        /// The execution.
        execution: ExecutionId,
    },
    /// The execution cannot be run again.
    #[error("execution `{execution}` cannot go on: {why}")]
    Unrepeatable {
        /// The execution.
        execution: ExecutionId,
        /// Why not.
        why: String,
    },
    /// The store failed.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A session, without its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Who owns it.
    pub principal: Principal,
    /// Name of the policy in force.
    pub policy_name: String,
    /// Digest of the policy in force.
    pub policy_digest: String,
    /// What the sandbox is made of.
    pub backend: String,
    /// Where it stands.
    pub state: SessionState,
    /// The lease of the process that has it.
    pub lease: Option<LeaseId>,
    /// The host user that its programs run as.
    pub uid: Option<u32>,
    /// When it was opened.
    pub created: Timestamp,
    /// When an execution last started or ended in it.
    pub used: Timestamp,
    /// How many executions it had.
    pub executions: u64,
    /// The files that it keeps beyond its process.
    pub workspace: Option<Workspace>,
}

/// An execution, without its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// Its session.
    pub session: SessionId,
    /// The language, or `program`.
    pub language: String,
    /// Where it stands.
    pub status: Status,
    /// When it started.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
}

/// The run of a session that began last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastRun {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The file or program, as whoever began it calls it.
    pub program: Option<String>,
    /// The language, or `program`.
    pub language: String,
    /// Where it stands.
    pub status: Status,
}

/// What an id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdKind {
    /// A session: `s_`.
    Session,
    /// An execution: `x_`.
    Execution,
    /// A question to a person: `a_`.
    Approval,
}

impl IdKind {
    /// What ids of this kind begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            IdKind::Session => "s_",
            IdKind::Execution => "x_",
            IdKind::Approval => "a_",
        }
    }
}

/// Which sessions to list, newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sessions {
    /// Only those that stand here.
    pub state: Option<SessionState>,
    /// Only those of this principal.
    pub principal: Option<Principal>,
    /// Only those older than this: the last of the page before.
    pub before: Option<SessionId>,
    /// At most so many; a page has at most 1,000.
    pub limit: Option<u32>,
}

pub(crate) const SESSION: &str =
    "SELECT id, sessions.principal, uid, policy_name, policy_digest, backend, state, lease, created, used,
    (SELECT count(*) FROM executions WHERE executions.session = sessions.id) AS executions,
    name, keep, bytes, files, taken FROM sessions LEFT JOIN workspaces ON workspaces.session = sessions.id ";

impl Store {
    /// Writes the session's first event and its row; the session belongs to the lease.
    pub async fn open_session(&self, lease: &Lease, opening: Opening) -> Result<Recorded, RecordError> {
        let (opening, lease) = (Box::new(opening), self.under(lease));
        self.send(|reply| Command::Open { opening, lease, reply }).await
    }

    /// Goes on with an open session that no process has.
    pub async fn adopt_session(&self, lease: &Lease, session: SessionId) -> Result<(), AdoptError> {
        let to = self.under(lease);
        self.send(|reply| Command::Adopt {
            session,
            from: None,
            to,
            reply,
        })
        .await
    }

    /// Leaves an open session to whoever goes on with it next.
    pub async fn release_session(&self, session: SessionId) -> Result<(), RecordError> {
        self.send(|reply| Command::Release { session, reply }).await
    }

    /// Keeps a policy that is about to be in force, to be found by its digest.
    pub async fn keep_policy(&self, policy: PolicyRef, json: String) -> Result<(), RecordError> {
        self.send(|reply| Command::Keep { policy, json, reply }).await
    }

    /// One session.
    pub async fn session(&self, id: SessionId) -> Result<Option<Session>, ReadError> {
        let mut reader = self.reader().await?;
        let row = sqlx::query(sqlx::AssertSqlSafe(format!("{SESSION} WHERE id = ?")))
            .bind(id.to_string())
            .fetch_optional(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        row.as_ref().map(session).transpose()
    }

    /// A page of sessions, newest first.
    pub async fn sessions(&self, which: Sessions) -> Result<Vec<Session>, ReadError> {
        let mut reader = self.reader().await?;
        let sql = format!(
            "{SESSION} WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR sessions.principal = ?2)
             AND (?3 IS NULL OR id < ?3) ORDER BY id DESC LIMIT ?4"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(which.state.map(SessionState::name))
            .bind(which.principal.map(|principal| principal.to_string()))
            .bind(which.before.map(|before| before.to_string()))
            .bind(i64::from(which.limit.unwrap_or(PAGE).min(PAGE)))
            .fetch_all(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        rows.iter().map(session).collect()
    }

    /// The run that began last in each of these sessions that had any; skills that it called are not meant.
    pub async fn last_runs(&self, of: &[SessionId]) -> Result<HashMap<SessionId, LastRun>, ReadError> {
        let of: Vec<String> = of.iter().map(ToString::to_string).collect();
        let mut reader = self.reader().await?;
        let rows = sqlx::query(
            "SELECT e.id, e.session, e.language, e.status, e.started, e.ended,
                 (SELECT json_extract(v.json, '$.program') FROM events v
                  WHERE v.session = e.session AND v.json LIKE '%execution_started%'
                      AND json_extract(v.json, '$.execution') = e.id AND json_extract(v.json, '$.kind') = 'execution_started'
                  ORDER BY v.seq DESC LIMIT 1) AS program
             FROM json_each(?) wanted JOIN executions e
                 ON e.id = (SELECT max(id) FROM executions WHERE session = wanted.value AND parent IS NULL)",
        )
        .bind(serde_json::Value::from(of).to_string())
        .fetch_all(reader.connection()?)
        .await
        .map_err(ReadError::Database)?;
        let last = |row: &SqliteRow| {
            let run = execution(row)?;
            let program = row.try_get("program").map_err(|_| ReadError::Row {
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

    /// The executions of a session, in order.
    pub async fn executions(&self, id: SessionId) -> Result<Vec<Execution>, ReadError> {
        let mut reader = self.reader().await?;
        let rows = sqlx::query(
            "SELECT id, session, language, status, started, ended FROM executions WHERE session = ? ORDER BY id",
        )
        .bind(id.to_string())
        .fetch_all(reader.connection()?)
        .await
        .map_err(ReadError::Database)?;
        rows.iter().map(execution).collect()
    }

    /// One execution.
    pub async fn execution(&self, id: ExecutionId) -> Result<Option<Execution>, ReadError> {
        let mut reader = self.reader().await?;
        let row = sqlx::query("SELECT id, session, language, status, started, ended FROM executions WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        row.as_ref().map(execution).transpose()
    }

    /// The first ids of a kind that begin like this, newest first.
    pub async fn ids_starting_with(&self, kind: IdKind, beginning: &str, limit: u32) -> Result<Vec<String>, ReadError> {
        let query = match kind {
            IdKind::Session => "SELECT id FROM sessions WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id DESC LIMIT ?2",
            IdKind::Execution => {
                "SELECT id FROM executions WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id DESC LIMIT ?2"
            }
            IdKind::Approval => "SELECT id FROM approvals WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id DESC LIMIT ?2",
        };
        let mut reader = self.reader().await?;
        sqlx::query_scalar(query)
            .bind(beginning)
            .bind(limit)
            .fetch_all(reader.connection()?)
            .await
            .map_err(ReadError::Database)
    }

    /// A policy that a session ran under, as JSON.
    pub async fn policy(&self, digest: &str) -> Result<Option<String>, ReadError> {
        let mut reader = self.reader().await?;
        sqlx::query_scalar("SELECT json FROM policies WHERE digest = ?")
            .bind(digest)
            .fetch_optional(reader.connection()?)
            .await
            .map_err(ReadError::Database)
    }
}

pub(crate) fn session(row: &SqliteRow) -> Result<Session, ReadError> {
    const TABLE: &str = "sessions";
    let damaged = |column| ReadError::Row { table: TABLE, column };
    let state = match row.try_get("state") {
        Ok("open") => SessionState::Open,
        Ok("closed") => SessionState::Closed,
        Ok("lost") => SessionState::Lost,
        _ => return Err(damaged("state")),
    };
    let lease: Option<&str> = row.try_get("lease").map_err(|_| damaged("lease"))?;
    let uid: Option<i64> = row.try_get("uid").map_err(|_| damaged("uid"))?;
    let used = database::parsed(row, TABLE, "used")?;
    Ok(Session {
        id: database::parsed(row, TABLE, "id")?,
        principal: database::parsed(row, TABLE, "principal")?,
        policy_name: database::parsed(row, TABLE, "policy_name")?,
        policy_digest: database::parsed(row, TABLE, "policy_digest")?,
        backend: database::parsed(row, TABLE, "backend")?,
        state,
        lease: lease.map(str::parse).transpose().map_err(|_| damaged("lease"))?,
        uid: uid.map(u32::try_from).transpose().map_err(|_| damaged("uid"))?,
        created: database::parsed(row, TABLE, "created")?,
        used,
        executions: database::number(row, TABLE, "executions")?,
        workspace: workspace(row, used)?,
    })
}

pub(crate) fn execution(row: &SqliteRow) -> Result<Execution, ReadError> {
    const TABLE: &str = "executions";
    let damaged = |column| ReadError::Row { table: TABLE, column };
    let status: &str = row.try_get("status").map_err(|_| damaged("status"))?;
    let ended: Option<&str> = row.try_get("ended").map_err(|_| damaged("ended"))?;
    Ok(Execution {
        id: database::parsed(row, TABLE, "id")?,
        session: database::parsed(row, TABLE, "session")?,
        language: database::parsed(row, TABLE, "language")?,
        status: serde_json::from_value(status.into()).map_err(|_| damaged("status"))?,
        started: database::parsed(row, TABLE, "started")?,
        ended: ended.map(str::parse).transpose().map_err(|_| damaged("ended"))?,
    })
}
