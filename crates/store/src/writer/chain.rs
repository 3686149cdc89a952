//! The tip of a chain that this process owns: the next position, the earliest time, and the remaining budget.

use std::sync::Arc;

use jiff::Timestamp;
use ringfence_journal::{ChainTip, Event, EventKind, LeaseId, Record, RecordError, SessionId};
use rusqlite::{Connection, OptionalExtension as _};

use super::row::{hash_at, unsigned_at};
use crate::database::to_signed;

/// The journal budget in bytes of a session without one, which an earlier version opened.
pub(super) const MAX_SESSION_BYTES: u64 = 64 * 1024 * 1024;

/// The tip of a chain that this process owns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnedChain {
    pub(super) link: ChainTip,
    pub(super) lease: LeaseId,
    /// Whether commits of this session reach the disk before they are answered.
    pub(super) durable: bool,
    /// The time of the last record: no later record gets an earlier one, whatever the clock says.
    pub(super) at: Timestamp,
    /// Size of all its events in bytes.
    pub(super) bytes: u64,
    /// Size of the sealed recordings of its executions in bytes.
    pub(super) sealed: u64,
    /// The budget for events in bytes; no execution starts if recordings and events together exceed it.
    pub(super) limit: u64,
}

/// The terms on which a process owns a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainTerms {
    pub(super) lease: LeaseId,
    pub(super) durable: bool,
    /// The most bytes of its events.
    pub(super) limit: u64,
}

impl OwnedChain {
    /// The record that appends this event, and the chain after it. Final events are written even beyond the budget.
    pub(super) fn append(&self, event: &Event) -> Result<(Record, OwnedChain), RecordError> {
        let later;
        let event = if event.at < self.at {
            later = Event {
                at: self.at,
                ..event.clone()
            };
            &later
        } else {
            event
        };
        let record = self.link.next(event).map_err(|error| RecordError::Event {
            source: Arc::new(error),
        })?;
        let bytes = self.bytes.saturating_add(record.json.len() as u64);
        // A running execution is not stopped because of its recording, which has a limit of its own.
        let begins = matches!(event.kind, EventKind::ExecutionStarted { parent: None, .. });
        let sealed = if begins { self.sealed } else { 0 };
        if bytes.saturating_add(sealed) > self.limit && !event.kind.is_final() {
            return Err(RecordError::Budget {
                session: event.session,
                limit: self.limit,
            });
        }
        let chain = OwnedChain {
            link: record.tip(),
            at: event.at,
            bytes,
            ..*self
        };
        Ok((record, chain))
    }

    /// The chain after this many bytes of a recording were stored.
    pub(super) fn with_sealed(self, bytes: usize) -> OwnedChain {
        OwnedChain {
            sealed: self.sealed.saturating_add(bytes as u64),
            ..self
        }
    }

    /// Loads the tip of a chain and its sizes from the database.
    pub(super) fn load(
        connection: &Connection,
        session: SessionId,
        terms: ChainTerms,
    ) -> Result<OwnedChain, rusqlite::Error> {
        let last: Option<String> = connection
            .prepare_cached("SELECT json FROM events WHERE session = ? ORDER BY seq DESC LIMIT 1")?
            .query_row([session.to_string()], |row| row.get(0))
            .optional()?;
        let at = last.and_then(|json| Event::parse(&json).ok()).map(|event| event.at);
        let bytes = connection
            .prepare_cached("SELECT coalesce(sum(octet_length(json)), 0) FROM events WHERE session = ?")?
            .query_row([session.to_string()], |row| unsigned_at(row, 0))?;
        Ok(OwnedChain {
            link: last_record(connection, session)?,
            lease: terms.lease,
            durable: terms.durable,
            at: at.unwrap_or(Timestamp::MIN),
            bytes,
            sealed: sealed_bytes(connection, session)?,
            limit: terms.limit,
        })
    }
}

/// Size of the sealed recordings of a session's executions in bytes.
pub(super) fn sealed_bytes(connection: &Connection, session: SessionId) -> Result<u64, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT (SELECT coalesce(sum(octet_length(sealed)), 0) FROM events WHERE session = ?1)
                + (SELECT coalesce(sum(octet_length(sealed)), 0) FROM entries
                    WHERE execution IN (SELECT execution FROM recordings WHERE session = ?1))",
        )?
        .query_row([session.to_string()], |row| unsigned_at(row, 0))
}

/// The tip of a session's chain in the database.
pub(crate) fn last_record(connection: &Connection, session: SessionId) -> Result<ChainTip, rusqlite::Error> {
    let link = connection
        .prepare_cached("SELECT seq, hash FROM events WHERE session = ? ORDER BY seq DESC LIMIT 1")?
        .query_row([session.to_string()], |row| {
            Ok(ChainTip {
                session,
                seq: unsigned_at(row, 0)?,
                hash: hash_at(row, 1)?,
            })
        })
        .optional()?;
    Ok(link.unwrap_or_else(|| ChainTip::start(session)))
}

/// Stores the journal budget of a session.
pub(super) fn set_limit(connection: &Connection, session: SessionId, bytes: u64) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("UPDATE sessions SET journal_bytes = ? WHERE id = ?")?
        .execute((to_signed(bytes), session.to_string()))
        .map(drop)
}

#[cfg(test)]
mod tests;
