//! Appends: records that only extend their chains, with their replay entries, in one statement that is a commit of its own.

use std::collections::HashMap;

use ringfence_journal::{LeaseId, Record, RecordError, RecordPosition, SessionId};
use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::{Connection, Params, params_from_iter};

use super::batch::{INSERT_RECORD, queue_reply, record_values};
use super::chain::OwnedChain;
use super::command::RecordingChange;
use super::sealing::{SealedChange, SealedChanges, SealedPiece};
use super::{CommitCallback, WriterCommand, projection};

/// The most rows of a statement that is cached for reuse.
const MAX_CACHED_ROWS: usize = 8;
const INSERT_WITH_PIECE: &str = "INSERT INTO events (session, seq, prev, json, hash, execution, piece, total, sealed)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The records of a commit that writes nothing else.
pub(super) struct AppendBatch {
    pub(super) records: Vec<Record>,
    /// The new tips of their chains.
    pub(super) changed: HashMap<SessionId, OwnedChain>,
}

impl AppendBatch {
    /// The records of `commands`, if each command only appends to a chain that this process owns.
    pub(super) fn from_commands(
        commands: &[WriterCommand],
        sealed: &SealedChanges,
        owned: &HashMap<SessionId, OwnedChain>,
    ) -> Option<AppendBatch> {
        if sealed
            .iter()
            .flatten()
            .any(|sealed| sealed.as_ref().map_or(true, |sealed| sealed.key.is_some()))
        {
            return None;
        }
        let mut plain = AppendBatch {
            records: Vec::with_capacity(commands.len()),
            changed: HashMap::new(),
        };
        for (number, command) in commands.iter().enumerate() {
            let WriterCommand::Record { event, change, .. } = command else {
                return None;
            };
            let elsewhere = |change: &RecordingChange| !matches!(change, RecordingChange::Keep { session, .. } if *session == event.session);
            if change.as_deref().is_some_and(elsewhere) {
                return None;
            }
            if event.kind.is_signed() || projection::changes_tables(event) {
                return None;
            }
            let chain = plain
                .changed
                .get(&event.session)
                .or_else(|| owned.get(&event.session))?;
            let (record, next) = chain.append(event).ok()?;
            let beside = sealed.get(number).and_then(|sealed| piece(sealed.as_ref()));
            let next = next.with_sealed(beside.map_or(0, |piece| piece.sealed.len()));
            plain.changed.insert(event.session, next);
            plain.records.push(record);
        }
        Some(plain)
    }

    /// Whether this process still owns all the chains that they extend.
    pub(super) fn is_owned(&self, owned: &HashMap<SessionId, OwnedChain>) -> bool {
        self.changed.keys().all(|session| owned.contains_key(session))
    }

    /// The lease of all records; `None` if they belong to more than one.
    pub(super) fn lease(&self) -> Option<LeaseId> {
        let mut leases = self.changed.values().map(|chain| chain.lease);
        let first = leases.next()?;
        leases.all(|lease| lease == first).then_some(first)
    }

    /// Each record with its sealed piece, if it has one.
    pub(super) fn rows<'a>(
        &'a self,
        sealed: &'a SealedChanges,
    ) -> impl Iterator<Item = (&'a Record, Option<&'a SealedPiece>)> {
        let beside = sealed.iter().map(|sealed| piece(sealed.as_ref()));
        self.records.iter().zip(beside.chain(std::iter::repeat(None)))
    }

    /// Commits all records or none: outside a transaction, a statement starts as `BEGIN IMMEDIATE` does.
    pub(super) fn insert(&self, connection: &Connection, sealed: &SealedChanges) -> Result<(), rusqlite::Error> {
        let more = self.records.len().saturating_sub(1);
        if pieces(sealed).next().is_none() {
            let statement = format!("{INSERT_RECORD}{}", ", (?, ?, ?, ?, ?)".repeat(more));
            let values = params_from_iter(self.records.iter().flat_map(record_values));
            return self.execute(connection, &statement, values);
        }
        let statement = format!("{INSERT_WITH_PIECE}{}", ", (?, ?, ?, ?, ?, ?, ?, ?, ?)".repeat(more));
        let rows = self.rows(sealed);
        let values = rows.flat_map(|(record, piece)| record_values(record).into_iter().chain(piece_values(piece)));
        self.execute(connection, &statement, params_from_iter(values))
    }

    fn execute(&self, connection: &Connection, sql: &str, values: impl Params) -> Result<(), rusqlite::Error> {
        if self.records.len() <= MAX_CACHED_ROWS {
            connection.prepare_cached(sql)?.execute(values).map(drop)
        } else {
            connection.prepare(sql)?.execute(values).map(drop)
        }
    }

    /// Queues the replies to `commands`, in the order of these records.
    pub(super) fn queue_replies(&self, commands: Vec<WriterCommand>, answers: &mut Vec<CommitCallback>) {
        for (command, record) in commands.into_iter().zip(&self.records) {
            if let WriterCommand::Record { reply, .. } = command {
                let recorded = RecordPosition {
                    seq: record.seq,
                    hash: record.hash,
                };
                queue_reply(reply, Ok(recorded), answers);
            }
        }
    }
}

/// The pieces that are inserted with the records.
pub(super) fn pieces(sealed: &SealedChanges) -> impl Iterator<Item = &SealedPiece> {
    sealed.iter().filter_map(|sealed| piece(sealed.as_ref()))
}

fn piece(sealed: Option<&Result<SealedChange, RecordError>>) -> Option<&SealedPiece> {
    sealed?.as_ref().ok()?.piece.as_ref()
}

/// The column values of a piece, beside those of its record.
fn piece_values(piece: Option<&SealedPiece>) -> [ToSqlOutput<'_>; 4] {
    match piece {
        Some(piece) => [
            piece.execution.to_string().into(),
            piece.n.into(),
            piece.total.into(),
            piece.sealed.as_slice().into(),
        ],
        None => [const { ToSqlOutput::Owned(Value::Null) }; 4],
    }
}
