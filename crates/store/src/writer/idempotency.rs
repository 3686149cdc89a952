//! Promises and idempotency keys in a commit.

use jiff::{SignedDuration, Timestamp};
use ringfence_journal::{ExecutionId, ExecutionStatus, LeaseId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::batch::CommandResult;
use super::projection::execute_cached;
use crate::idempotency::{IdempotencyClaim, IdempotencyKey, IdempotencyOutcome};

/// How long a promise or a key is kept.
const KEY_RETENTION: SignedDuration = SignedDuration::from_hours(24);
/// The most keys of a principal, and the most of its promised runs that never started.
const MAX_PER_PRINCIPAL: i64 = 10_000;

pub(super) fn claim_key(
    connection: &Connection,
    claim: &IdempotencyClaim,
    lease: LeaseId,
) -> CommandResult<IdempotencyOutcome> {
    let now = Timestamp::now();
    let old = (now - KEY_RETENTION).as_millisecond();
    execute_cached(connection, "DELETE FROM promises WHERE created < ?", [old])?;
    if let Some(key) = &claim.key
        && let Some(earlier) = keyed(connection, claim, key, now)?
    {
        return Ok(Ok(earlier));
    }
    execute_cached(
        connection,
        "INSERT INTO promises (execution, principal, lease, created) VALUES (?, ?, ?, ?)",
        params![
            claim.execution.to_string(),
            claim.principal.to_string(),
            lease.to_string(),
            now.as_millisecond()
        ],
    )?;
    Ok(Ok(IdempotencyOutcome::New))
}

/// Gives a key to the run of a claim, unless an earlier run has it: then returns that outcome.
fn keyed(
    connection: &Connection,
    claim: &IdempotencyClaim,
    key: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<IdempotencyOutcome>, rusqlite::Error> {
    let principal = claim.principal.to_string();
    let old = (now - KEY_RETENTION).as_millisecond();
    execute_cached(connection, "DELETE FROM claims WHERE created < ?", [old])?;
    let found = connection
        .prepare_cached("SELECT execution, asked FROM claims WHERE principal = ? AND key = ?")?
        .query_row(params![principal, key.name], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .optional()?;
    // A row that does not parse is replaced as if it were missing.
    let found = found.and_then(|(execution, asked)| Some((execution.parse().ok()?, asked)));
    if let Some((execution, asked)) = found {
        let is_same = asked == key.asked.as_bytes();
        return Ok(Some(if is_same {
            IdempotencyOutcome::SameRequest(execution)
        } else {
            IdempotencyOutcome::OtherRequest(execution)
        }));
    }
    execute_cached(
        connection,
        "REPLACE INTO claims (principal, key, asked, execution, created) VALUES (?, ?, ?, ?, ?)",
        params![
            principal,
            key.name,
            key.asked.as_bytes(),
            claim.execution.to_string(),
            now.as_millisecond()
        ],
    )?;
    let count = "SELECT count(*) FROM claims WHERE principal = ?";
    let oldest = "DELETE FROM claims WHERE principal = ?1 AND key IN \
                  (SELECT key FROM claims WHERE principal = ?1 ORDER BY created DESC LIMIT -1 OFFSET ?2)";
    forget_oldest(connection, &principal, count, oldest)?;
    Ok(None)
}

/// Moves a promise to another lease; `false` if it has changed meanwhile.
pub(super) fn reclaim(
    connection: &Connection,
    execution: ExecutionId,
    from: LeaseId,
    to: LeaseId,
) -> Result<bool, rusqlite::Error> {
    let changed = connection
        .prepare_cached("UPDATE promises SET lease = ? WHERE execution = ? AND lease = ? AND status IS NULL")?
        .execute([to.to_string(), execution.to_string(), from.to_string()])?;
    Ok(changed > 0)
}

/// Deletes a promise whose run has started.
pub(super) fn delete_promise(connection: &Connection, execution: ExecutionId) -> Result<(), rusqlite::Error> {
    execute_cached(
        connection,
        "DELETE FROM promises WHERE execution = ?",
        [execution.to_string()],
    )
}

/// Notes that a promised run never starts, with its final status.
pub(super) fn refused(connection: &Connection, execution: ExecutionId, code: &str) -> Result<(), rusqlite::Error> {
    let status = match code {
        "cancelled" => ExecutionStatus::Cancelled,
        "limit.wall" => ExecutionStatus::TimedOut,
        _ => ExecutionStatus::Refused,
    };
    let principal: Option<String> = connection
        .prepare_cached("UPDATE promises SET status = ? WHERE execution = ? RETURNING principal")?
        .query_row(params![status.name(), execution.to_string()], |row| row.get(0))
        .optional()?;
    let Some(principal) = principal else { return Ok(()) };
    let count = "SELECT count(*) FROM promises WHERE principal = ?";
    let oldest = "DELETE FROM promises WHERE execution IN (SELECT execution FROM promises \
                  WHERE principal = ?1 AND status IS NOT NULL ORDER BY created DESC LIMIT -1 OFFSET ?2)";
    forget_oldest(connection, &principal, count, oldest)
}

/// Deletes the oldest rows of a principal that has too many: a tenth at once, so that not every new row pays for it.
fn forget_oldest(connection: &Connection, principal: &str, count: &str, oldest: &str) -> Result<(), rusqlite::Error> {
    let count: i64 = connection
        .prepare_cached(count)?
        .query_row([principal], |row| row.get(0))?;
    if count > MAX_PER_PRINCIPAL {
        let kept = MAX_PER_PRINCIPAL - MAX_PER_PRINCIPAL / 10;
        execute_cached(connection, oldest, params![principal, kept])?;
    }
    Ok(())
}
