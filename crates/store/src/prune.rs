//! Retention of the journal. Old records are removed in whole sessions; signed heads stay, and a record names what was removed.

use jiff::{SignedDuration, Timestamp};
use ringfence_journal::{
    ChainHead, Event, EventKind, Principal, PrunedSession, PublicKey, Record, RecordError, SessionId, SignedHead,
};

use crate::database::QueryError;
use crate::query::{ReadConnection, query};
use crate::writer::WriterCommand;
use crate::{Store, audit, verify};

/// A request to remove old records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PruneRequest {
    pub(crate) before: Timestamp,
    pub(crate) by: Principal,
    /// The session whose only record documents the removal.
    pub(crate) record: SessionId,
}

/// The result of a pruning step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneSummary {
    /// Number of removed sessions.
    pub sessions: u64,
    /// Number of removed records.
    pub records: u64,
    /// Size of their events in bytes.
    pub bytes: u64,
    /// Whether more may be left to remove.
    pub more: bool,
}

/// Why a pruning step failed.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// The system gave no random bytes for an id.
    #[error("cannot make an id")]
    Entropy(#[from] ringfence_journal::NoEntropy),
    /// The event could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// The time that lies this far in the past.
pub fn retention_cutoff(keep: std::time::Duration) -> Timestamp {
    let keep = SignedDuration::try_from(keep).unwrap_or(SignedDuration::MAX);
    Timestamp::now().saturating_sub(keep).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl Store {
    /// Removes up to a hundred closed sessions that were last used before this time, and older sessions of a single record. Records about
    /// the journal itself stay for ever.
    pub async fn prune(&self, before: Timestamp, by: Principal) -> Result<PruneSummary, PruneError> {
        let record = SessionId::generate()?;
        let what = PruneRequest { before, by, record };
        Ok(self.send(|reply| WriterCommand::Prune { what, reply }).await?)
    }
}

/// How many records of a session were removed, according to a signed record; `None` if no such record exists.
pub(crate) async fn pruned_record_count(
    connection: &ReadConnection,
    key: PublicKey,
    session: SessionId,
) -> Result<Option<u64>, QueryError> {
    let row = query(
        "SELECT e.session, e.seq, e.prev, e.json, e.hash FROM pruned p JOIN events e ON e.session = p.record AND e.seq = 1
         WHERE p.session = ?",
    )
    .bind(session.to_string())
    .fetch_optional(connection)
.await?;
    let Some(row) = row else { return Ok(None) };
    let record = audit::record_from_row(&row)?;
    let heads = verify::session_heads(connection, record.session).await?;
    if !heads.iter().any(|signed| head_covers_record(signed, &record, key)) {
        return Ok(None);
    }
    let Ok(Event {
        kind: EventKind::JournalPruned { sessions, .. },
        ..
    }) = record.event()
    else {
        return Ok(None);
    };
    let listed = sessions
        .into_iter()
        .find(|listed: &PrunedSession| listed.session == session);
    Ok(listed.map(|listed| listed.records))
}

/// Whether a head signed with this key covers the record.
fn head_covers_record(signed: &SignedHead, record: &Record, key: PublicKey) -> bool {
    let ChainHead {
        session,
        seq,
        record: hash,
        ..
    } = signed.head;
    let genuine = record.follows(ringfence_journal::ChainTip::start(record.session));
    genuine && (session, seq, hash) == (record.session, record.seq, record.hash) && key.has_signed(signed)
}

/// The number of the last record of a session that a head names; 0 without heads.
pub(crate) async fn last_signed_record(connection: &ReadConnection, session: SessionId) -> Result<u64, QueryError> {
    let row = query("SELECT coalesce(max(seq), 0) AS seq FROM heads WHERE session = ?")
        .bind(session.to_string())
        .fetch_one(connection)
        .await?;
    let seq: i64 = row.get("seq").map_err(|_| QueryError::Row {
        table: "heads",
        column: "seq",
    })?;
    Ok(u64::try_from(seq).unwrap_or(0))
}
