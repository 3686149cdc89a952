//! Removes old records. The heads of their sessions stay, and a record names the removed sessions.

use ringfence_journal::{Event, EventKind, PrunedSession, SessionId};
use rusqlite::{Connection, params};

use super::recordings;
use super::row::{text_at, unsigned_at};
use crate::database::to_signed;
use crate::prune::{PruneRequest, PruneSummary};

/// The most sessions removed in one commit, because other writers wait for it.
const MAX_SESSIONS: i64 = 100;
/// Records removed in one commit, in bytes; the session that crosses the limit is still removed.
const MAX_BYTES: u64 = 64 << 20;

/// Closed sessions without a workspace that were last used before the limit, and standalone sessions of one record. An id starts with its
/// creation time, so no younger session is read.
const SELECT_OLD: &str = "SELECT e.session,
        (SELECT count(*) FROM events r WHERE r.session = e.session),
        (SELECT sum(octet_length(json)) FROM events r WHERE r.session = e.session)
     FROM events e LEFT JOIN sessions s ON s.id = e.session
     WHERE e.seq = 1 AND e.session < ?1
       AND CASE WHEN s.id IS NULL
         THEN json_extract(e.json, '$.kind') IN ('refused', 'swept')
         ELSE s.state <> 'open' AND s.lease IS NULL AND s.used < ?2
           AND NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.session = s.id) END
     ORDER BY e.session LIMIT ?3";

/// Removes the oldest sessions; returns the event that documents it, which must be recorded in the same commit. `None` if nothing is old
/// enough.
pub(super) fn remove_oldest(
    connection: &Connection,
    what: PruneRequest,
) -> Result<Option<(Event, PruneSummary)>, rusqlite::Error> {
    let PruneRequest { before, by, record } = what;
    let mut old = connection.prepare_cached(SELECT_OLD)?;
    let bound = (
        SessionId::first_at(before).to_string(),
        format!("{before:.6}"),
        MAX_SESSIONS,
    );
    let mut sessions = Vec::new();
    let mut pruned = PruneSummary::default();
    for row in old.query_map(bound, |row| {
        Ok((text_at(row, 0)?, unsigned_at(row, 1)?, unsigned_at(row, 2)?))
    })? {
        let (session, records, bytes): (SessionId, u64, u64) = row?;
        sessions.push(PrunedSession { session, records });
        pruned.sessions += 1;
        pruned.records += records;
        pruned.bytes += bytes;
        if pruned.bytes >= MAX_BYTES {
            break;
        }
    }
    if sessions.is_empty() {
        return Ok(None);
    }
    pruned.more = to_signed(pruned.sessions) == MAX_SESSIONS || pruned.bytes >= MAX_BYTES;
    for PrunedSession { session, .. } in &sessions {
        remove_session(connection, *session, record)?;
    }
    connection
        .prepare_cached("DELETE FROM policies WHERE digest NOT IN (SELECT digest FROM session_policies)")?
        .execute([])?;
    let kind = EventKind::JournalPruned {
        before,
        sessions,
        records: pruned.records,
        bytes: pruned.bytes,
        by,
    };
    Ok(Some((Event::from_host(record, None, kind), pruned)))
}

fn remove_session(connection: &Connection, session: SessionId, record: SessionId) -> Result<(), rusqlite::Error> {
    let name = session.to_string();
    // The session is not open, so its recordings may be deleted.
    let _ = recordings::forget_session(connection, session)?;
    for sql in [
        "DELETE FROM events WHERE session = ?",
        "DELETE FROM executions WHERE session = ?",
        "DELETE FROM stops WHERE session = ?",
        "DELETE FROM session_policies WHERE session = ?",
        "DELETE FROM sessions WHERE id = ?",
    ] {
        connection.prepare_cached(sql)?.execute([&name])?;
    }
    connection
        .prepare_cached("INSERT OR REPLACE INTO pruned (session, record) VALUES (?, ?)")?
        .execute(params![name, record.to_string()])
        .map(drop)
}
