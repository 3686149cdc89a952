//! What an execution keeps of its calls, as entries for whoever writes them down.

use std::time::Duration;

use ringfence_journal::{ApprovalId, CallOutcome, Entry, EntryKind, Hash};

use super::entry::{self, AnswerParts, Body, Piece, Stage};
use super::{Asking, Mode, State, Tape, What};
use crate::refusal::Told;

/// Bytes of one answer that are kept.
const MOST_ANSWER: usize = 16 * 1024 * 1024;
/// Bytes of one execution that are kept.
const MOST: u64 = 64 * 1024 * 1024;
/// Bytes of arguments that are kept of calls that were never sent. Beyond, each is kept by its digest: a program that is refused
/// again and again writes only what a person could read.
const MAX_UNSENT: u64 = 1024 * 1024;
/// Arguments that are not shorter by their digest.
const SHORT: usize = 256;

impl Tape {
    /// The trace that no entry holds yet, to be kept when the program has ended or gives up its sandbox.
    pub fn rest(&self) -> Vec<Entry> {
        self.traced(0, &mut self.state())
    }

    /// What to keep of a question about tools and its answer, before the program has it.
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

    /// What to keep with the start of a call.
    pub(crate) fn started(&self, asking: &Asking<'_>) -> Vec<Entry> {
        self.call(asking, Stage::Started)
    }

    /// What to keep with a question to a person.
    pub(crate) fn asked(&self, asking: &Asking<'_>, id: ApprovalId) -> Vec<Entry> {
        self.call(asking, Stage::Asked(id))
    }

    /// What to keep of a call that is answered without being sent.
    pub(crate) fn settled(&self, asking: &Asking<'_>, answer: &AnswerParts<'_>) -> Vec<Entry> {
        let mut entries = self.call(asking, Stage::Settled);
        entries.extend(self.ended(asking.number, answer));
        entries
    }

    /// What to keep with the end of a call.
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
    /// How the arguments of a call are kept.
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

    /// Whether so much more is kept; once something is not, nothing more is.
    fn fits(&mut self, length: usize, most: usize) -> bool {
        let all = self.kept.saturating_add(length as u64);
        self.spoiled |= length > most || all > MOST;
        if !self.spoiled {
            self.kept = all;
        }
        !self.spoiled
    }
}
