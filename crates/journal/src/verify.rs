//! Verifies the chains in one pass, with memory that does not grow with the journal.
//!
//! A session verification names the first broken record and its fault. The report also lists what the chains cannot prove.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::chain::record_hash;
use crate::head::{ChainHead, HeadMark, HeadState, PublicKey, SignedHead};
use crate::{ChainTip, Event, EventError, EventKind, LossCause, Principal, Record, SessionId};

/// The most broken sessions that a report lists; the rest are only counted.
const MAX_NAMED_SESSIONS: usize = 100;
/// The most accepted losses that a report lists.
const MAX_NAMED_LOSSES: usize = 10;

/// The fault of a broken record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum ChainFault {
    /// Records are missing before this one.
    #[error("record {expected} is missing")]
    Gap {
        /// The first missing number.
        expected: u64,
    },
    /// It does not link to the record before it.
    #[error("it does not follow from the record before it")]
    Link,
    /// Its content does not match its hash: something in it was changed.
    #[error("its content does not match its hash")]
    Hash,
    /// Its event has a version that this program does not know.
    #[error("its event has the unknown version `{version}`")]
    Version {
        /// The version it claims.
        version: String,
    },
    /// Its event is not one that this program writes.
    #[error("its event cannot be read: {reason}")]
    Event {
        /// Why the event does not parse.
        reason: String,
    },
    /// Its event belongs to another session.
    #[error("its event belongs to session `{session}`")]
    OtherSession {
        /// The session that the event names.
        session: SessionId,
    },
    /// The session was closed before it.
    #[error("it follows after the session was closed")]
    AfterClose,
    /// It was moved in the order of all records: listings would omit it or show it elsewhere.
    #[error("it was moved: its place in the journal is not after the record before it")]
    Moved,
    /// A signed head names another hash for it.
    #[error("signed head {head} says it had another hash")]
    NotAsSigned {
        /// The number of the head.
        head: u64,
    },
    /// It is missing: a signed head names this or a later record.
    #[error("it is missing: signed head {head} says that the session had {seq} records")]
    Cut {
        /// The number of the head.
        head: u64,
        /// How many records the session had when the head was signed.
        seq: u64,
    },
}

/// The fault of a broken head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum HeadFault {
    /// Heads before this one are missing.
    #[error("head {expected} is missing")]
    Gap {
        /// The first missing number.
        expected: u64,
    },
    /// It does not link to the head before it.
    #[error("it does not follow from the head before it")]
    Link,
    /// It was not signed with this key, or was changed afterwards.
    #[error("its signature is wrong")]
    Signature,
    /// The mark beside the key names another head with this number.
    #[error("the mark beside the key remembers another head of this number")]
    NotAsMarked,
    /// The mark beside the key names a later head than the last one found.
    #[error("it is missing: the mark beside the key remembers {marked} heads")]
    Cut {
        /// The number of the head in the mark.
        marked: u64,
    },
}

/// The result of verifying one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionVerification {
    /// The session that was verified.
    pub session: SessionId,
    /// How many of its records were read.
    pub records: u64,
    /// Records up to the last signed head; truncation of later ones would not be noticed.
    pub signed: u64,
    /// Whether a signed head closes the session: no record can follow.
    pub closed: bool,
    /// Records that were pruned, according to a signed record; 0 if none.
    #[serde(skip_serializing_if = "is_zero")]
    pub pruned: u64,
    /// The first broken record and its fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<BrokenLink<ChainFault>>,
    /// The accepted loss that this session records, if it records one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_loss: Option<AcceptedLoss>,
}

/// A loss of records that was accepted, according to a signed record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcceptedLoss {
    /// The session that records it.
    pub session: SessionId,
    /// When it was accepted.
    pub at: Timestamp,
    /// The number of the head in the mark, if there was a mark.
    pub marked: Option<u64>,
    /// The number of the last head found at that time.
    pub found: u64,
    /// Why writing went on.
    pub cause: LossCause,
    /// Who accepted it, or the owner of the process that noticed it.
    pub by: Principal,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl SessionVerification {
    /// The result for a session whose records were pruned, according to a signed record.
    pub fn pruned(session: SessionId, records: u64) -> SessionVerification {
        SessionVerification {
            session,
            records: 0,
            signed: 0,
            closed: true,
            pruned: records,
            broken: None,
            accepted_loss: None,
        }
    }
}

/// The first broken link of a chain, with its fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenLink<F> {
    /// Its number in the chain of the session or of the heads.
    pub number: u64,
    /// What is wrong with it.
    #[serde(flatten)]
    pub fault: F,
}

/// Verifies the chain of one session, record by record.
#[derive(Debug)]
pub struct ChainVerifier {
    last: ChainTip,
    signed: u64,
    closed: bool,
    records: u64,
    broken: Option<BrokenLink<ChainFault>>,
    accepted_loss: Option<AcceptedLoss>,
}

impl ChainVerifier {
    /// Starts before the session's first record.
    pub fn new(session: SessionId) -> ChainVerifier {
        ChainVerifier {
            last: ChainTip::start(session),
            signed: 0,
            closed: false,
            records: 0,
            broken: None,
            accepted_loss: None,
        }
    }

    /// Adds the next record, in order of number.
    pub fn add_record(&mut self, record: &Record) {
        self.records += 1;
        if self.broken.is_some() {
            return;
        }
        let expected = self.last.seq + 1;
        match self.find_fault(record, expected) {
            None => self.last = record.tip(),
            Some(fault @ ChainFault::Gap { .. }) => self.break_at(expected, fault),
            Some(fault) => self.break_at(record.seq, fault),
        }
    }

    fn find_fault(&mut self, record: &Record, expected: u64) -> Option<ChainFault> {
        if record.seq != expected {
            return Some(ChainFault::Gap { expected });
        }
        if record.prev != self.last.hash {
            return Some(ChainFault::Link);
        }
        if record.hash != record_hash(record.prev, record.seq, &record.json) {
            return Some(ChainFault::Hash);
        }
        if self.closed {
            return Some(ChainFault::AfterClose);
        }
        match record.event() {
            Err(EventError::Version(version)) => Some(ChainFault::Version { version }),
            Err(error) => Some(ChainFault::Event {
                reason: error.to_string(),
            }),
            Ok(Event { session, .. }) if session != self.last.session => Some(ChainFault::OtherSession { session }),
            Ok(Event { kind, at, session, .. }) => {
                self.closed = matches!(kind, EventKind::SessionClosed { .. });
                if let EventKind::LossAccepted {
                    marked,
                    found,
                    cause,
                    by,
                } = kind
                {
                    self.accepted_loss = Some(AcceptedLoss {
                        session,
                        at,
                        marked,
                        found,
                        cause,
                        by,
                    });
                }
                None
            }
        }
    }

    /// Reports that the last record added is out of place in the order of all records.
    pub fn mark_moved(&mut self, seq: u64) {
        if self.broken.is_none() {
            self.break_at(seq, ChainFault::Moved);
        }
    }

    /// Adds a signed head of this session, in order of the record that it names. A head that names a record not yet added must follow that
    /// record, or come last before [`ChainVerifier::finish`].
    pub fn add_signed_head(&mut self, head: &ChainHead) {
        if self.broken.is_some() {
            return;
        }
        if head.seq > self.last.seq {
            let fault = ChainFault::Cut {
                head: head.n,
                seq: head.seq,
            };
            self.break_at(self.last.seq + 1, fault);
        } else if head.seq == self.last.seq && head.record == self.last.hash {
            self.signed = head.seq;
            self.closed |= head.state == HeadState::Closed;
        } else {
            self.break_at(head.seq, ChainFault::NotAsSigned { head: head.n });
        }
    }

    fn break_at(&mut self, number: u64, fault: ChainFault) {
        self.broken = Some(BrokenLink { number, fault });
    }

    /// Ends the check and returns the session's result.
    pub fn finish(self) -> SessionVerification {
        SessionVerification {
            session: self.last.session,
            records: self.records,
            signed: self.signed,
            closed: self.closed && self.signed == self.last.seq,
            pruned: 0,
            accepted_loss: self.accepted_loss.filter(|_| self.broken.is_none() && self.signed > 0),
            broken: self.broken,
        }
    }
}

/// Verifies the chain of heads, head by head.
#[derive(Debug)]
pub struct HeadVerifier {
    key: PublicKey,
    mark: Option<HeadMark>,
    last: HeadMark,
    heads: u64,
    broken: Option<BrokenLink<HeadFault>>,
}

impl HeadVerifier {
    /// Starts before the first head. Without a mark, truncation of the newest heads cannot be detected.
    pub fn new(key: PublicKey, mark: Option<HeadMark>) -> HeadVerifier {
        HeadVerifier {
            key,
            mark,
            last: HeadMark::start(),
            heads: 0,
            broken: None,
        }
    }

    /// Adds the next head, in order of number.
    pub fn add_head(&mut self, signed: &SignedHead) {
        self.heads += 1;
        if self.broken.is_some() {
            return;
        }
        let expected = self.last.n + 1;
        let ChainHead { n, prev, .. } = signed.head;
        let here = HeadMark::after(&signed.head);
        let fault = if n != expected {
            self.broken = Some(BrokenLink {
                number: expected,
                fault: HeadFault::Gap { expected },
            });
            return;
        } else if !self.key.has_signed(signed) {
            HeadFault::Signature
        } else if prev != self.last.hash {
            HeadFault::Link
        } else if self.mark.is_some_and(|mark| mark.n == n && mark != here) {
            HeadFault::NotAsMarked
        } else {
            self.last = here;
            return;
        };
        self.broken = Some(BrokenLink { number: n, fault });
    }

    /// Ends the check and writes its result to the report.
    pub fn finish(mut self, report: &mut VerificationReport) {
        let marked = self.mark.map_or(0, |mark| mark.n);
        if self.broken.is_none() && marked > self.last.n {
            let number = self.last.n + 1;
            self.broken = Some(BrokenLink {
                number,
                fault: HeadFault::Cut { marked },
            });
        }
        report.heads = self.heads;
        report.broken_head = self.broken;
        report.marked = self.mark.is_some();
    }
}

/// The result of verifying the whole journal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct VerificationReport {
    /// How many sessions were verified, without pruned ones.
    pub sessions: u64,
    /// How many records were verified.
    pub records: u64,
    /// How many signed heads were verified.
    pub heads: u64,
    /// Sessions with a broken record.
    pub broken_sessions: u64,
    /// The first of the broken sessions, up to a fixed number.
    pub broken: Vec<SessionVerification>,
    /// The first broken head and what is wrong with it.
    pub broken_head: Option<BrokenLink<HeadFault>>,
    /// Records after the last signed head of their session.
    pub unsigned_records: u64,
    /// Sessions with records after their last signed head.
    pub unsigned_sessions: u64,
    /// Whether a mark was found beside the key.
    pub marked: bool,
    /// Sessions whose records were pruned, according to signed records.
    pub pruned_sessions: u64,
    /// How many records those pruned sessions had.
    pub pruned_records: u64,
    /// Accepted losses of records, according to signed records.
    pub accepted_losses: u64,
    /// The latest of them, in order of time, up to a fixed number.
    pub losses: Vec<AcceptedLoss>,
}

impl VerificationReport {
    /// Counts the result of one session.
    pub fn add_session(&mut self, verdict: SessionVerification) {
        if verdict.pruned > 0 && verdict.broken.is_none() {
            self.pruned_sessions += 1;
            self.pruned_records += verdict.pruned;
            return;
        }
        self.sessions += 1;
        self.records += verdict.records;
        if let Some(loss) = &verdict.accepted_loss {
            self.accepted_losses += 1;
            let place = self.losses.partition_point(|known| known.at <= loss.at);
            self.losses.insert(place, loss.clone());
            if self.losses.len() > MAX_NAMED_LOSSES {
                self.losses.remove(0);
            }
        }
        if verdict.broken.is_some() {
            self.broken_sessions += 1;
            if self.broken.len() < MAX_NAMED_SESSIONS {
                self.broken.push(verdict);
            }
        } else if verdict.records > verdict.signed {
            self.unsigned_sessions += 1;
            self.unsigned_records += verdict.records - verdict.signed;
        }
    }

    /// Whether no record and no head is broken.
    pub fn is_ok(&self) -> bool {
        self.broken_sessions == 0 && self.broken_head.is_none()
    }

    /// Describes what the chains cannot prove, one sentence part per limitation.
    pub fn limitations(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.unsigned_records > 0 {
            words.push(format!(
                "{} in {} after the last signed head: whether more followed and were cut off",
                count(self.unsigned_records, "record"),
                count(self.unsigned_sessions, "session")
            ));
        }
        if !self.marked {
            words.push(
                "the mark beside the key is missing: whether the newest heads and sessions were cut off".to_owned(),
            );
        }
        words.push("whether somebody who could read the signing key wrote the journal anew".to_owned());
        words.push("whether a session that never reached a signed head was removed whole".to_owned());
        words.push("whether events of origin `sandbox` are true: they are claims".to_owned());
        words
    }
}

/// Verifies records and heads that are all in memory, such as an export read back. They may come in any order.
pub fn verify_journal(
    records: &[Record],
    heads: &[SignedHead],
    key: PublicKey,
    mark: Option<HeadMark>,
) -> VerificationReport {
    let mut report = VerificationReport::default();
    let mut sorted: Vec<&SignedHead> = heads.iter().collect();
    sorted.sort_by_key(|signed| signed.head.n);
    let mut check = HeadVerifier::new(key, mark);
    for signed in sorted {
        check.add_head(signed);
    }
    check.finish(&mut report);

    let mut sessions: BTreeMap<SessionId, (Vec<&Record>, Vec<&ChainHead>)> = BTreeMap::new();
    for record in records {
        sessions.entry(record.session).or_default().0.push(record);
    }
    for signed in heads {
        sessions.entry(signed.head.session).or_default().1.push(&signed.head);
    }
    for (session, (mut records, mut heads)) in sessions {
        records.sort_by_key(|record| record.seq);
        heads.sort_by_key(|head| head.seq);
        let mut check = ChainVerifier::new(session);
        let mut heads = heads.into_iter().peekable();
        for record in records {
            check.add_record(record);
            while let Some(head) = heads.next_if(|head| head.seq <= record.seq) {
                check.add_signed_head(head);
            }
        }
        heads.for_each(|head| check.add_signed_head(head));
        report.add_session(check.finish());
    }
    report
}

/// Formats a count with its noun: `1 record`, `2 records`.
fn count(number: u64, one: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {one}s")
    }
}

#[cfg(test)]
mod tests;
