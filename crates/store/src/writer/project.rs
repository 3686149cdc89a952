//! Projections: updates the tables that are derived from events, inside the same commit.

use ringfence_journal::{Event, ExecutionId, Kind, LeaseId, Origin, PolicyRef, Principal, SessionId, Status};
use rusqlite::{Connection, Params, params};

use super::row::{maybe, parsed};
use super::{asking, claiming, keeping, working};
use crate::session::Opening;
use crate::stop::Target;

/// Inserts the row of a new session, and its policy.
pub(super) fn open(
    connection: &Connection,
    opening: &Opening,
    lease: LeaseId,
    event: &Event,
) -> Result<(), rusqlite::Error> {
    let Opening {
        session,
        principal,
        policy,
        backend,
        ..
    } = opening;
    keep(connection, *session, policy, &opening.policy_json)?;
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
        Some(keeping) => working::begin(connection, (*session, *principal), keeping, &at),
        None => Ok(()),
    }
}

/// Whether an event changes any table but its own. Claims of the sandbox change nothing.
pub(super) fn changes(event: &Event) -> bool {
    let changes = match event.kind {
        Kind::ExecutionStarted { .. }
        | Kind::ExecutionEnded { .. }
        | Kind::ExecutionSuspended { .. }
        | Kind::ExecutionResumed { .. }
        | Kind::ApprovalAnswered { .. }
        | Kind::PolicyChanged { .. }
        | Kind::Refused { .. }
        | Kind::Swept { .. }
        | Kind::SessionClosed { .. } => true,
        Kind::SessionOpened { .. }
        | Kind::Output { .. }
        | Kind::Violation { .. }
        | Kind::LimitHit { .. }
        | Kind::StopRequested { .. }
        | Kind::FilesOut { .. }
        | Kind::ServerUsed { .. }
        | Kind::CallStarted { .. }
        | Kind::CallEnded { .. }
        | Kind::CallRefused { .. }
        | Kind::ApprovalAsked { .. }
        | Kind::DataHidden { .. }
        | Kind::DataRevealed { .. }
        | Kind::AliasRevealed { .. }
        | Kind::DataCapped { .. }
        | Kind::ToolDrifted { .. }
        | Kind::EgressStarted { .. }
        | Kind::EgressEnded { .. }
        | Kind::EgressRefused { .. }
        | Kind::CredentialUsed { .. }
        | Kind::CredentialMisused { .. }
        | Kind::WorkspaceOpened { .. }
        | Kind::WorkspaceRemoved { .. }
        | Kind::Repeated { .. }
        | Kind::LossAccepted { .. }
        | Kind::JournalPruned { .. } => false,
    };
    changes && event.origin == Origin::Host
}

/// Applies an event to the derived tables.
pub(super) fn apply(connection: &Connection, event: &Event) -> Result<(), rusqlite::Error> {
    if !changes(event) {
        return Ok(());
    }
    let (session, at) = (event.session.to_string(), event.at.to_string());
    match &event.kind {
        Kind::ExecutionStarted { language, parent, .. } => {
            let Some(execution) = event.execution else {
                return Ok(());
            };
            begin(connection, (execution, *parent), (&session, &at), language.as_str())
        }
        Kind::ExecutionEnded { status, .. } => {
            let Some(execution) = event.execution else {
                return Ok(());
            };
            run(
                connection,
                "UPDATE executions SET status = ?, ended = ? WHERE id = ? AND session = ?",
                params![status.name(), at, execution.to_string(), session],
            )?;
            keeping::over(connection, execution)?;
            used(connection, &session, &at)
        }
        Kind::ExecutionSuspended { .. } => stand(connection, event, Status::WaitingApproval),
        Kind::ExecutionResumed { .. } => stand(connection, event, Status::Running),
        Kind::ApprovalAnswered { id, .. } => asking::note(connection, *id),
        Kind::PolicyChanged { policy, .. } => ruled(connection, &session, policy),
        Kind::Refused { code, .. } => match event.execution {
            Some(execution) => claiming::refused(connection, execution, code.as_str()),
            None => Ok(()),
        },
        Kind::Swept { .. } => end(connection, &session, &at, "lost"),
        Kind::SessionClosed { .. } => {
            end(connection, &session, &at, "closed")?;
            run(
                connection,
                "UPDATE sessions SET lease = NULL WHERE id = ?",
                params![session],
            )?;
            run(connection, "DELETE FROM stops WHERE session = ?", params![session])
        }
        Kind::SessionOpened { .. }
        | Kind::Output { .. }
        | Kind::Violation { .. }
        | Kind::LimitHit { .. }
        | Kind::StopRequested { .. }
        | Kind::FilesOut { .. }
        | Kind::ServerUsed { .. }
        | Kind::CallStarted { .. }
        | Kind::CallEnded { .. }
        | Kind::CallRefused { .. }
        | Kind::ApprovalAsked { .. }
        | Kind::DataHidden { .. }
        | Kind::DataRevealed { .. }
        | Kind::AliasRevealed { .. }
        | Kind::DataCapped { .. }
        | Kind::ToolDrifted { .. }
        | Kind::EgressStarted { .. }
        | Kind::EgressEnded { .. }
        | Kind::EgressRefused { .. }
        | Kind::CredentialUsed { .. }
        | Kind::CredentialMisused { .. }
        | Kind::WorkspaceOpened { .. }
        | Kind::WorkspaceRemoved { .. }
        | Kind::Repeated { .. }
        | Kind::LossAccepted { .. }
        | Kind::JournalPruned { .. } => Ok(()),
    }
}

/// Inserts the row of an execution that starts.
fn begin(
    connection: &Connection,
    (execution, parent): (ExecutionId, Option<ExecutionId>),
    (session, at): (&str, &str),
    language: &str,
) -> Result<(), rusqlite::Error> {
    let parent = parent.map(|parent| parent.to_string());
    run(
        connection,
        "INSERT INTO executions (id, session, language, status, started, parent) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT DO NOTHING",
        params![
            execution.to_string(),
            session,
            language,
            Status::Running.name(),
            at,
            parent
        ],
    )?;
    claiming::kept(connection, execution)?;
    used(connection, session, at)
}

/// Updates the policy of a session.
fn ruled(connection: &Connection, session: &str, policy: &PolicyRef) -> Result<(), rusqlite::Error> {
    run(
        connection,
        "UPDATE sessions SET policy_name = ?, policy_digest = ? WHERE id = ?",
        params![policy.name.as_str(), policy.digest.as_str(), session],
    )
}

/// Updates the status of an execution that has not ended.
fn stand(connection: &Connection, event: &Event, status: Status) -> Result<(), rusqlite::Error> {
    let Some(execution) = event.execution else {
        return Ok(());
    };
    let (session, at) = (event.session.to_string(), event.at.to_string());
    run(
        connection,
        "UPDATE executions SET status = ? WHERE id = ? AND session = ? AND ended IS NULL",
        params![status.name(), execution.to_string(), session],
    )?;
    used(connection, &session, &at)
}

/// Runs a statement from the cache of prepared statements.
pub(super) fn run(connection: &Connection, statement: &str, values: impl Params) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(statement)?.execute(values).map(drop)
}

fn used(connection: &Connection, session: &str, at: &str) -> Result<(), rusqlite::Error> {
    run(
        connection,
        "UPDATE sessions SET used = ? WHERE id = ?",
        params![at, session],
    )
}

/// Closes a session; executions still in progress become lost, because their end was never recorded.
fn end(connection: &Connection, session: &str, at: &str, state: &'static str) -> Result<(), rusqlite::Error> {
    run(
        connection,
        "UPDATE sessions SET state = ?, used = ? WHERE id = ? AND state = 'open'",
        params![state, at, session],
    )?;
    run(
        connection,
        "UPDATE executions SET status = 'lost', ended = ? WHERE session = ? AND ended IS NULL",
        params![at, session],
    )?;
    working::over(connection, session)?;
    keeping::session_over(connection, session)
}

/// Inserts a stop request for each open session of the target, and returns their owners.
pub(super) fn stop(
    connection: &Connection,
    target: Target,
    by: Principal,
) -> Result<Vec<(SessionId, Option<LeaseId>)>, rusqlite::Error> {
    let only = match target {
        Target::Session(session) => Some(session.to_string()),
        Target::All => None,
    };
    let mut meant =
        connection.prepare_cached("SELECT id, lease FROM sessions WHERE (?1 IS NULL OR id = ?1) AND state = 'open'")?;
    let found: Vec<(SessionId, Option<LeaseId>)> = meant
        .query_map([only], |row| Ok((parsed(row, 0)?, maybe(row, 1)?)))?
        .collect::<Result<_, _>>()?;
    let now = jiff::Timestamp::now().to_string();
    for (session, _) in &found {
        run(
            connection,
            "INSERT INTO stops (session, principal, at) VALUES (?, ?, ?)",
            params![session.to_string(), by.to_string(), now],
        )?;
    }
    Ok(found)
}

/// Stores a policy of a session under its digest.
pub(super) fn keep(
    connection: &Connection,
    session: SessionId,
    policy: &PolicyRef,
    json: &str,
) -> Result<(), rusqlite::Error> {
    let digest = policy.digest.as_str();
    run(
        connection,
        "INSERT INTO policies (digest, name, json) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        params![digest, policy.name.as_str(), json],
    )?;
    run(
        connection,
        "INSERT INTO session_policies (session, digest) VALUES (?, ?) ON CONFLICT DO NOTHING",
        params![session.to_string(), digest],
    )
}
