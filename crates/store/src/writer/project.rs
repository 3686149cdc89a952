//! Keeps the tables that are views over events in step, inside the same commit.

use ringfence_journal::{Event, Kind, LeaseId, Origin, Principal, SessionId, Status};
use sqlx::{Row as _, SqliteConnection};

use crate::session::Opening;
use crate::stop::Target;

/// The row of a session that opens, and its policy.
pub(super) async fn open(
    connection: &mut SqliteConnection,
    opening: &Opening,
    lease: LeaseId,
    event: &Event,
) -> Result<(), sqlx::Error> {
    let Opening {
        session,
        principal,
        policy,
        backend,
        ..
    } = opening;
    sqlx::query("INSERT INTO policies (digest, name, json) VALUES (?, ?, ?) ON CONFLICT DO NOTHING")
        .bind(policy.digest.as_str())
        .bind(policy.name.as_str())
        .bind(opening.policy_json.as_str())
        .execute(&mut *connection)
        .await?;
    let at = event.at.to_string();
    sqlx::query(
        "INSERT INTO sessions (id, principal, uid, policy_name, policy_digest, backend, durable, state, lease, created, used)
         VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?, ?, ?)",
    )
    .bind(session.to_string())
    .bind(principal.to_string())
    .bind(opening.uid.map(i64::from))
    .bind(policy.name.as_str())
    .bind(policy.digest.as_str())
    .bind(backend.as_str())
    .bind(i64::from(opening.durable))
    .bind(lease.to_string())
    .bind(at.as_str())
    .bind(at.as_str())
    .execute(connection)
    .await
    .map(drop)
}

/// Whether an event changes any table but its own. Claims of the sandbox change nothing.
pub(super) fn changes(event: &Event) -> bool {
    let changes = match event.kind {
        Kind::ExecutionStarted { .. }
        | Kind::ExecutionEnded { .. }
        | Kind::Swept { .. }
        | Kind::SessionClosed { .. } => true,
        Kind::SessionOpened { .. }
        | Kind::Output { .. }
        | Kind::Violation { .. }
        | Kind::LimitHit { .. }
        | Kind::Refused { .. }
        | Kind::StopRequested { .. }
        | Kind::FilesOut { .. }
        | Kind::ServerUsed { .. }
        | Kind::CallStarted { .. }
        | Kind::CallEnded { .. }
        | Kind::CallRefused { .. }
        | Kind::ToolDrifted { .. } => false,
    };
    changes && event.origin == Origin::Host
}

/// What an event changes in the tables.
pub(super) async fn apply(connection: &mut SqliteConnection, event: &Event) -> Result<(), sqlx::Error> {
    if !changes(event) {
        return Ok(());
    }
    match &event.kind {
        Kind::ExecutionStarted { language, .. } => {
            let Some(execution) = event.execution else {
                return Ok(());
            };
            sqlx::query(
                "INSERT INTO executions (id, session, language, status, started) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            )
            .bind(execution.to_string())
            .bind(event.session.to_string())
            .bind(language.as_str())
            .bind(Status::Running.name())
            .bind(event.at.to_string())
            .execute(&mut *connection)
            .await?;
            used(connection, event).await
        }
        Kind::ExecutionEnded { status, .. } => {
            let Some(execution) = event.execution else {
                return Ok(());
            };
            sqlx::query("UPDATE executions SET status = ?, ended = ? WHERE id = ? AND session = ?")
                .bind(status.name())
                .bind(event.at.to_string())
                .bind(execution.to_string())
                .bind(event.session.to_string())
                .execute(&mut *connection)
                .await?;
            used(connection, event).await
        }
        Kind::Swept { .. } => end(connection, event, "lost").await,
        Kind::SessionClosed { .. } => {
            end(connection, event, "closed").await?;
            sqlx::query("UPDATE sessions SET lease = NULL WHERE id = ?")
                .bind(event.session.to_string())
                .execute(&mut *connection)
                .await?;
            sqlx::query("DELETE FROM stops WHERE session = ?")
                .bind(event.session.to_string())
                .execute(connection)
                .await
                .map(drop)
        }
        Kind::SessionOpened { .. }
        | Kind::Output { .. }
        | Kind::Violation { .. }
        | Kind::LimitHit { .. }
        | Kind::Refused { .. }
        | Kind::StopRequested { .. }
        | Kind::FilesOut { .. }
        | Kind::ServerUsed { .. }
        | Kind::CallStarted { .. }
        | Kind::CallEnded { .. }
        | Kind::CallRefused { .. }
        | Kind::ToolDrifted { .. } => Ok(()),
    }
}

async fn used(connection: &mut SqliteConnection, event: &Event) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE sessions SET used = ? WHERE id = ?")
        .bind(event.at.to_string())
        .bind(event.session.to_string())
        .execute(connection)
        .await
        .map(drop)
}

/// The session is over; what was under way in it was never seen to end.
async fn end(connection: &mut SqliteConnection, event: &Event, state: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE sessions SET state = ?, used = ? WHERE id = ? AND state = 'open'")
        .bind(state)
        .bind(event.at.to_string())
        .bind(event.session.to_string())
        .execute(&mut *connection)
        .await?;
    sqlx::query("UPDATE executions SET status = 'lost', ended = ? WHERE session = ? AND ended IS NULL")
        .bind(event.at.to_string())
        .bind(event.session.to_string())
        .execute(connection)
        .await
        .map(drop)
}

/// Writes a wish to stop for each open session that is meant, and says who owns it.
pub(super) async fn stop(
    connection: &mut SqliteConnection,
    target: Target,
    by: Principal,
) -> Result<Vec<(SessionId, Option<LeaseId>)>, sqlx::Error> {
    let rows = match target {
        Target::Session(session) => {
            sqlx::query("SELECT id, lease FROM sessions WHERE id = ? AND state = 'open'")
                .bind(session.to_string())
                .fetch_all(&mut *connection)
                .await?
        }
        Target::All => {
            sqlx::query("SELECT id, lease FROM sessions WHERE state = 'open'")
                .fetch_all(&mut *connection)
                .await?
        }
    };
    let now = jiff::Timestamp::now().to_string();
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let damaged = |error| sqlx::Error::Decode(Box::new(error));
        let session: SessionId = row.try_get::<&str, _>("id")?.parse().map_err(damaged)?;
        let lease: Option<LeaseId> = row
            .try_get::<Option<&str>, _>("lease")?
            .map(str::parse)
            .transpose()
            .map_err(damaged)?;
        sqlx::query("INSERT INTO stops (session, principal, at) VALUES (?, ?, ?)")
            .bind(session.to_string())
            .bind(by.to_string())
            .bind(now.as_str())
            .execute(&mut *connection)
            .await?;
        found.push((session, lease));
    }
    Ok(found)
}
