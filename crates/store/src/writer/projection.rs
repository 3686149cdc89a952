//! Projections: updates the tables that are derived from events, inside the same commit.

use ringfence_journal::{
    Event, EventKind, EventOrigin, ExecutionId, ExecutionStatus, LeaseId, PolicyRef, Principal, SessionId,
};
use rusqlite::{Connection, Params, params};

use super::row::{optional_text_at, text_at};
use super::{approvals, idempotency, recordings, workspaces};
use crate::session::NewSession;
use crate::stop::StopTarget;

/// Inserts the row of a new session, and its policy.
pub(super) fn insert_session(
    connection: &Connection,
    opening: &NewSession,
    lease: LeaseId,
    event: &Event,
) -> Result<(), rusqlite::Error> {
    let NewSession {
        session,
        principal,
        policy,
        backend,
        ..
    } = opening;
    keep_policy(connection, *session, policy, &opening.policy_json)?;
    let at = event.at.to_string();
    connection
        .prepare_cached(
            "INSERT INTO sessions (id, principal, uid, policy_name, policy_digest, backend, durable, state, lease, created, used)
             VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?, ?, ?)",
        )?
        .execute(params![
            session.to_string(),
            principal.to_string(),
            opening.uid,
            policy.name.as_str(),
            policy.digest.as_str(),
            backend.as_str(),
            opening.durable,
            lease.to_string(),
            at,
            at
        ])?;
    match &opening.keeping {
        Some(keeping) => workspaces::insert_workspace(connection, *session, *principal, keeping, &at),
        None => Ok(()),
    }
}

/// Whether an event changes any table but its own. Claims of the sandbox change nothing.
pub(super) fn changes_tables(event: &Event) -> bool {
    let changes = match event.kind {
        EventKind::ExecutionStarted { .. }
        | EventKind::ExecutionEnded { .. }
        | EventKind::ExecutionSuspended { .. }
        | EventKind::ExecutionResumed { .. }
        | EventKind::ApprovalAnswered { .. }
        | EventKind::PolicyChanged { .. }
        | EventKind::Refused { .. }
        | EventKind::Swept { .. }
        | EventKind::SessionClosed { .. } => true,
        EventKind::SessionOpened { .. }
        | EventKind::Output { .. }
        | EventKind::Violation { .. }
        | EventKind::LimitHit { .. }
        | EventKind::StopRequested { .. }
        | EventKind::FilesOut { .. }
        | EventKind::ServerUsed { .. }
        | EventKind::CallStarted { .. }
        | EventKind::CallEnded { .. }
        | EventKind::CallRefused { .. }
        | EventKind::ApprovalAsked { .. }
        | EventKind::DataHidden { .. }
        | EventKind::DataRevealed { .. }
        | EventKind::AliasRevealed { .. }
        | EventKind::DataCapped { .. }
        | EventKind::ToolDrifted { .. }
        | EventKind::EgressStarted { .. }
        | EventKind::EgressEnded { .. }
        | EventKind::EgressRefused { .. }
        | EventKind::CredentialUsed { .. }
        | EventKind::CredentialMisused { .. }
        | EventKind::WorkspaceOpened { .. }
        | EventKind::WorkspaceRemoved { .. }
        | EventKind::Repeated { .. }
        | EventKind::LossAccepted { .. }
        | EventKind::JournalPruned { .. } => false,
    };
    changes && event.origin == EventOrigin::Host
}

/// Applies an event to the derived tables.
pub(super) fn apply_event(connection: &Connection, event: &Event) -> Result<(), rusqlite::Error> {
    if !changes_tables(event) {
        return Ok(());
    }
    let (session, at) = (event.session.to_string(), event.at.to_string());
    match &event.kind {
        EventKind::ExecutionStarted { language, parent, .. } => {
            insert_execution(connection, event, *parent, language.as_str())
        }
        EventKind::ExecutionEnded { status, .. } => {
            let Some(execution) = event.execution else {
                return Ok(());
            };
            execute_cached(
                connection,
                "UPDATE executions SET status = ?, ended = ? WHERE id = ? AND session = ?",
                params![status.name(), at, execution.to_string(), session],
            )?;
            recordings::end_execution(connection, execution)?;
            touch_session(connection, &session, &at)
        }
        EventKind::ExecutionSuspended { .. } => set_status(connection, event, ExecutionStatus::WaitingApproval),
        EventKind::ExecutionResumed { .. } => set_status(connection, event, ExecutionStatus::Running),
        EventKind::ApprovalAnswered { id, .. } => approvals::mark_answer_heard(connection, *id),
        EventKind::PolicyChanged { policy, .. } => set_session_policy(connection, &session, policy),
        EventKind::Refused { code, .. } => match event.execution {
            Some(execution) => idempotency::refused(connection, execution, code.as_str()),
            None => Ok(()),
        },
        EventKind::Swept { .. } => close_session(connection, &session, &at, "lost"),
        EventKind::SessionClosed { .. } => {
            close_session(connection, &session, &at, "closed")?;
            execute_cached(
                connection,
                "UPDATE sessions SET lease = NULL WHERE id = ?",
                params![session],
            )?;
            execute_cached(connection, "DELETE FROM stops WHERE session = ?", params![session])
        }
        EventKind::SessionOpened { .. }
        | EventKind::Output { .. }
        | EventKind::Violation { .. }
        | EventKind::LimitHit { .. }
        | EventKind::StopRequested { .. }
        | EventKind::FilesOut { .. }
        | EventKind::ServerUsed { .. }
        | EventKind::CallStarted { .. }
        | EventKind::CallEnded { .. }
        | EventKind::CallRefused { .. }
        | EventKind::ApprovalAsked { .. }
        | EventKind::DataHidden { .. }
        | EventKind::DataRevealed { .. }
        | EventKind::AliasRevealed { .. }
        | EventKind::DataCapped { .. }
        | EventKind::ToolDrifted { .. }
        | EventKind::EgressStarted { .. }
        | EventKind::EgressEnded { .. }
        | EventKind::EgressRefused { .. }
        | EventKind::CredentialUsed { .. }
        | EventKind::CredentialMisused { .. }
        | EventKind::WorkspaceOpened { .. }
        | EventKind::WorkspaceRemoved { .. }
        | EventKind::Repeated { .. }
        | EventKind::LossAccepted { .. }
        | EventKind::JournalPruned { .. } => Ok(()),
    }
}

/// Inserts the row of an execution that starts.
fn insert_execution(
    connection: &Connection,
    event: &Event,
    parent: Option<ExecutionId>,
    language: &str,
) -> Result<(), rusqlite::Error> {
    let Some(execution) = event.execution else {
        return Ok(());
    };
    let (session, at) = (event.session.to_string(), event.at.to_string());
    execute_cached(
        connection,
        "INSERT INTO executions (id, session, language, status, started, parent) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT DO NOTHING",
        params![
            execution.to_string(),
            session,
            language,
            ExecutionStatus::Running.name(),
            at,
            parent.map(|parent| parent.to_string())
        ],
    )?;
    idempotency::delete_promise(connection, execution)?;
    touch_session(connection, &session, &at)
}

/// Updates the policy of a session.
fn set_session_policy(connection: &Connection, session: &str, policy: &PolicyRef) -> Result<(), rusqlite::Error> {
    execute_cached(
        connection,
        "UPDATE sessions SET policy_name = ?, policy_digest = ? WHERE id = ?",
        params![policy.name.as_str(), policy.digest.as_str(), session],
    )
}

/// Updates the status of an execution that has not ended.
fn set_status(connection: &Connection, event: &Event, status: ExecutionStatus) -> Result<(), rusqlite::Error> {
    let Some(execution) = event.execution else {
        return Ok(());
    };
    let (session, at) = (event.session.to_string(), event.at.to_string());
    execute_cached(
        connection,
        "UPDATE executions SET status = ? WHERE id = ? AND session = ? AND ended IS NULL",
        params![status.name(), execution.to_string(), session],
    )?;
    touch_session(connection, &session, &at)
}

/// Runs a statement from the cache of prepared statements.
pub(super) fn execute_cached(
    connection: &Connection,
    statement: &str,
    values: impl Params,
) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(statement)?.execute(values).map(drop)
}

fn touch_session(connection: &Connection, session: &str, at: &str) -> Result<(), rusqlite::Error> {
    execute_cached(
        connection,
        "UPDATE sessions SET used = ? WHERE id = ?",
        params![at, session],
    )
}

/// Closes a session; executions still in progress become lost, because their end was never recorded.
fn close_session(connection: &Connection, session: &str, at: &str, state: &'static str) -> Result<(), rusqlite::Error> {
    execute_cached(
        connection,
        "UPDATE sessions SET state = ?, used = ? WHERE id = ? AND state = 'open'",
        params![state, at, session],
    )?;
    execute_cached(
        connection,
        "UPDATE executions SET status = 'lost', ended = ? WHERE session = ? AND ended IS NULL",
        params![at, session],
    )?;
    workspaces::delete_workspace(connection, session)?;
    recordings::end_session(connection, session)
}

/// Inserts a stop request for each open session of the target, and returns their owners.
pub(super) fn insert_stops(
    connection: &Connection,
    target: StopTarget,
    by: Principal,
) -> Result<Vec<(SessionId, Option<LeaseId>)>, rusqlite::Error> {
    let only = match target {
        StopTarget::Session(session) => Some(session.to_string()),
        StopTarget::All => None,
    };
    let mut meant =
        connection.prepare_cached("SELECT id, lease FROM sessions WHERE (?1 IS NULL OR id = ?1) AND state = 'open'")?;
    let found: Vec<(SessionId, Option<LeaseId>)> = meant
        .query_map([only], |row| Ok((text_at(row, 0)?, optional_text_at(row, 1)?)))?
        .collect::<Result<_, _>>()?;
    let now = jiff::Timestamp::now().to_string();
    for (session, _) in &found {
        execute_cached(
            connection,
            "INSERT INTO stops (session, principal, at) VALUES (?, ?, ?)",
            params![session.to_string(), by.to_string(), now],
        )?;
    }
    Ok(found)
}

/// Stores a policy of a session under its digest.
pub(super) fn keep_policy(
    connection: &Connection,
    session: SessionId,
    policy: &PolicyRef,
    json: &str,
) -> Result<(), rusqlite::Error> {
    let digest = policy.digest.as_str();
    execute_cached(
        connection,
        "INSERT INTO policies (digest, name, json) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        params![digest, policy.name.as_str(), json],
    )?;
    execute_cached(
        connection,
        "INSERT INTO session_policies (session, digest) VALUES (?, ?) ON CONFLICT DO NOTHING",
        params![session.to_string(), digest],
    )
}
