//! Creates the call log entries of an execution, for the journal to store.

use std::time::Duration;

use ringfence_journal::{ApprovalId, CallOutcome, Entry, EntryKind, Hash};

use super::entry::{self, AnswerParts, Body, Piece, Stage};
use super::{Asking, Mode, State, Tape, What};
use crate::refusal::Told;

/// Most bytes of one answer that are kept.
const MOST_ANSWER: usize = 16 * 1024 * 1024;
/// Most bytes of one execution that are kept.
const MOST: u64 = 64 * 1024 * 1024;
/// Most bytes of arguments that are kept for calls that were never sent. Beyond it only their digests are kept, so
/// that a program that is refused again and again writes only as much as a person can read.
const MAX_UNSENT: u64 = 1024 * 1024;
/// Arguments up to this size are kept even beyond the limit, because a digest would save little.
const SHORT: usize = 256;

impl Tape {
    /// Returns the trace since the last entry, to store when the program has ended or gives up its sandbox.
    pub fn rest(&self) -> Vec<Entry> {
        self.traced(0, &mut self.state())
    }

    /// Returns the entries of a lookup of tools with its answer, to store before the program gets it.
    pub fn answered(&self, number: u32, what: What<&str>, body: &str, answer: Result<&str, &Told>) -> Vec<Entry> {
        let asking = Asking {
            number,
            what,
            name: None,
            hints: None,
            body,
        };
        let parts = AnswerParts {
            outcome: if answer.is_ok() {
                CallOutcome::Ok
            } else {
                CallOutcome::Failed
            },
            forbidden: false,
            duration: Duration::ZERO,
            rule: None,
            answer,
        };
        self.settled(&asking, &parts)
    }

    /// Returns the entries to store with the start of a call.
    pub(crate) fn started(&self, asking: &Asking<'_>) -> Vec<Entry> {
        self.call(asking, Stage::Started)
    }

    /// Returns the entries to store with an approval request.
    pub(crate) fn asked(&self, asking: &Asking<'_>, id: ApprovalId) -> Vec<Entry> {
        self.call(asking, Stage::Asked(id))
    }

    /// Returns the entries of a call that is answered without being sent.
    pub(crate) fn settled(&self, asking: &Asking<'_>, answer: &AnswerParts<'_>) -> Vec<Entry> {
        let mut entries = self.call(asking, Stage::Settled);
        entries.extend(self.ended(asking.number, answer));
        entries
    }

    /// Returns the entry to store with the end of a call.
    pub(crate) fn ended(&self, number: u32, answer: &AnswerParts<'_>) -> Option<Entry> {
        if self.mode != Mode::Live {
            return None;
        }
        let length = answer.answer.map_or_else(|told| told.message.len(), str::len);
        let fits = self.state().fits(length, MOST_ANSWER);
        Some(Entry {
            number,
            kind: EntryKind::Answer,
            bytes: entry::answer(answer, fits),
        })
    }

    fn call(&self, asking: &Asking<'_>, stage: Stage) -> Vec<Entry> {
        if self.mode != Mode::Live {
            return Vec::new();
        }
        let mut kept = self.state();
        let body = kept.body(asking.body, stage);
        let mut entries = self.traced(asking.number, &mut kept);
        drop(kept);
        entries.push(Entry {
            number: asking.number,
            kind: EntryKind::Call,
            bytes: entry::call(stage, asking, &body),
        });
        entries
    }

    fn traced(&self, number: u32, state: &mut State) -> Vec<Entry> {
        if self.mode != Mode::Live || state.trace.is_empty() {
            return Vec::new();
        }
        let piece = Piece {
            run: state.run,
            start: state.start,
            at: state.at,
            bytes: std::mem::take(&mut state.trace),
        };
        state.at += piece.bytes.len() as u64;
        if !state.fits(piece.bytes.len(), usize::MAX) {
            return Vec::new();
        }
        vec![Entry {
            number,
            kind: EntryKind::Trace,
            bytes: entry::trace(&piece),
        }]
    }
}

impl State {
    /// Decides how the arguments of a call are kept.
    fn body<'a>(&mut self, body: &'a str, stage: Stage) -> Body<'a> {
        if stage == Stage::Settled {
            self.unsent = self.unsent.saturating_add(body.len() as u64);
            if self.unsent > MAX_UNSENT && body.len() > SHORT {
                return Body::Digest(Hash::of(body.as_bytes()));
            }
        }
        if self.fits(body.len(), usize::MAX) {
            Body::Text(body)
        } else {
            Body::Spoiled
        }
    }

    /// Whether this much more can be kept; after the first failure nothing more is kept.
    fn fits(&mut self, length: usize, most: usize) -> bool {
        let all = self.kept.saturating_add(length as u64);
        self.spoiled |= length > most || all > MOST;
        if !self.spoiled {
            self.kept = all;
        }
        !self.spoiled
    }
}
