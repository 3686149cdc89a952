//! Writes which run a client's key began.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::batch::Step;
use crate::claim::{Claim, Claimed};

/// How long a key is remembered.
const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// Keys of a principal that are remembered.
const MOST: i64 = 10_000;

pub(super) fn claim(connection: &Connection, claim: &Claim) -> Step<Claimed> {
    let now = Timestamp::now();
    let principal = claim.principal.to_string();
    connection
        .prepare_cached("DELETE FROM claims WHERE created < ?")?
        .execute([(now - KEPT).as_millisecond()])?;
    let found = connection
        .prepare_cached("SELECT execution, asked FROM claims WHERE principal = ? AND key = ?")?
        .query_row(params![principal, claim.key], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .optional()?;
    // A row that is not one of ours is replaced, as one that is not there.
    let found = found.and_then(|(execution, asked)| Some((execution.parse().ok()?, asked)));
    if let Some((execution, asked)) = found {
        let is_same = asked == claim.asked.as_bytes();
        return Ok(Ok(if is_same {
            Claimed::Before(execution)
        } else {
            Claimed::Otherwise(execution)
        }));
    }
    connection
        .prepare_cached("REPLACE INTO claims (principal, key, asked, execution, created) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![
            principal,
            claim.key,
            claim.asked.as_bytes(),
            claim.execution.to_string(),
            now.as_millisecond()
        ])?;
    let oldest = "DELETE FROM claims WHERE principal = ?1 AND key IN \
                  (SELECT key FROM claims WHERE principal = ?1 ORDER BY created DESC LIMIT -1 OFFSET ?2)";
    let count: i64 = connection
        .prepare_cached("SELECT count(*) FROM claims WHERE principal = ?")?
        .query_row([&principal], |row| row.get(0))?;
    if count > MOST {
        connection
            .prepare_cached(oldest)?
            .execute(params![principal, MOST - MOST / 10])?;
    }
    Ok(Ok(Claimed::Now))
}
