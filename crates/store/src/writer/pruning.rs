//! Removes records that were kept long enough. The heads of their sessions stay, and a record says which sessions went.

use ringfence_journal::{Event, Kind, PrunedSession, SessionId};
use rusqlite::{Connection, params};

use super::keeping;
use super::row::{number, parsed};
use crate::database::signed;
use crate::prune::{Prune, Pruned};

/// Sessions that are removed in one commit: others wait for it.
const AT_ONCE: i64 = 100;
/// Bytes of records that are removed in one commit, and those of the session that goes beyond.
const BYTES_AT_ONCE: u64 = 64 << 20;

/// Sessions that are over, keep no files and were last used long enough ago; and those that consist of one record. An id begins with
/// the time at which it was made, so no younger one is looked at.
const OLD: &str = "SELECT e.session,
        (SELECT count(*) FROM events r WHERE r.session = e.session),
        (SELECT sum(octet_length(json)) FROM events r WHERE r.session = e.session)
     FROM events e LEFT JOIN sessions s ON s.id = e.session
     WHERE e.seq = 1 AND e.session < ?1
       AND CASE WHEN s.id IS NULL
         THEN json_extract(e.json, '$.kind') IN ('refused', 'swept')
         ELSE s.state <> 'open' AND s.lease IS NULL AND s.used < ?2
           AND NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.session = s.id) END
     ORDER BY e.session LIMIT ?3";

/// Removes the oldest; answers the event that says so, for which there must be a record in the same commit. Nothing where nothing is
/// old enough.
pub(super) fn remove(connection: &Connection, what: Prune) -> Result<Option<(Event, Pruned)>, rusqlite::Error> {
    let Prune { before, by, record } = what;
    let mut old = connection.prepare_cached(OLD)?;
    let bound = (SessionId::first_at(before).to_string(), format!("{before:.6}"), AT_ONCE);
    let mut sessions = Vec::new();
    let mut pruned = Pruned::default();
    for row in old.query_map(bound, |row| Ok((parsed(row, 0)?, number(row, 1)?, number(row, 2)?)))? {
        let (session, records, bytes): (SessionId, u64, u64) = row?;
        sessions.push(PrunedSession { session, records });
        pruned.sessions += 1;
        pruned.records += records;
        pruned.bytes += bytes;
        if pruned.bytes >= BYTES_AT_ONCE {
            break;
        }
    }
    if sessions.is_empty() {
        return Ok(None);
    }
    pruned.more = signed(pruned.sessions) == AT_ONCE || pruned.bytes >= BYTES_AT_ONCE;
    for PrunedSession { session, .. } in &sessions {
        remove_session(connection, *session, record)?;
    }
    connection
        .prepare_cached("DELETE FROM policies WHERE digest NOT IN (SELECT policy_digest FROM sessions)")?
        .execute([])?;
    let kind = Kind::JournalPruned {
        before,
        sessions,
        records: pruned.records,
        bytes: pruned.bytes,
        by,
    };
    Ok(Some((Event::host(record, None, kind), pruned)))
}

fn remove_session(connection: &Connection, session: SessionId, record: SessionId) -> Result<(), rusqlite::Error> {
    let name = session.to_string();
    // It is not open, so whatever it kept may go.
    let _ = keeping::forget(connection, session)?;
    for sql in [
        "DELETE FROM events WHERE session = ?",
        "DELETE FROM executions WHERE session = ?",
        "DELETE FROM stops WHERE session = ?",
        "DELETE FROM sessions WHERE id = ?",
    ] {
        connection.prepare_cached(sql)?.execute([&name])?;
    }
    connection
        .prepare_cached("INSERT OR REPLACE INTO pruned (session, record) VALUES (?, ?)")?
        .execute(params![name, record.to_string()])
        .map(drop)
}
