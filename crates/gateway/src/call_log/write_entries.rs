//! Creates the call log entries of an execution, for the journal to store.

use std::time::Duration;

use ringfence_journal::{ApprovalId, CallOutcome, ContentHash, ReplayEntry, ReplayEntryKind};

use super::entry::{self, AnswerParts, CallStage, EntryArguments, TracePiece};
use super::{ActiveCall, CallKind, CallLog, CallLogMode, CallLogState};
use crate::refusal::CallErrorBody;

/// Most bytes of one answer that are kept.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Most bytes of one execution that are kept.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;
/// Most bytes of arguments that are kept for calls that were never sent. Beyond it only their digests are kept, so
/// that a program that is refused again and again writes only as much as a person can read.
const MAX_UNSENT_BYTES: u64 = 1024 * 1024;
/// Arguments up to this size are kept even beyond the limit, because a digest would save little.
const MAX_SHORT_ARGUMENTS: usize = 256;

impl CallLog {
    /// Returns the trace since the last entry, to store when the program has ended or gives up its sandbox.
    pub fn remaining_trace(&self) -> Vec<ReplayEntry> {
        self.trace_entries(0, &mut self.state())
    }

    /// Returns the entries of a lookup of tools with its answer, to store before the program gets it.
    pub fn lookup_entries(
        &self,
        number: u32,
        what: CallKind<&str>,
        body: &str,
        answer: Result<&str, &CallErrorBody>,
    ) -> Vec<ReplayEntry> {
        let asking = ActiveCall {
            number,
            kind: what,
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
        self.settled_entries(&asking, &parts)
    }

    /// Returns the entries to store with the start of a call.
    pub(crate) fn start_entries(&self, asking: &ActiveCall<'_>) -> Vec<ReplayEntry> {
        self.call_entries(asking, CallStage::Started)
    }

    /// Returns the entries to store with an approval request.
    pub(crate) fn approval_entries(&self, asking: &ActiveCall<'_>, id: ApprovalId) -> Vec<ReplayEntry> {
        self.call_entries(asking, CallStage::Asked(id))
    }

    /// Returns the entries of a call that is answered without being sent.
    pub(crate) fn settled_entries(&self, asking: &ActiveCall<'_>, answer: &AnswerParts<'_>) -> Vec<ReplayEntry> {
        let mut entries = self.call_entries(asking, CallStage::Settled);
        entries.extend(self.end_entry(asking.number, answer));
        entries
    }

    /// Returns the entry to store with the end of a call.
    pub(crate) fn end_entry(&self, number: u32, answer: &AnswerParts<'_>) -> Option<ReplayEntry> {
        if self.mode != CallLogMode::Live {
            return None;
        }
        let length = answer.answer.map_or_else(|told| told.message.len(), str::len);
        let fits = self.state().reserve_bytes(length, MAX_ANSWER_BYTES);
        Some(ReplayEntry {
            number,
            kind: ReplayEntryKind::Answer,
            bytes: entry::encode_answer(answer, fits),
        })
    }

    fn call_entries(&self, asking: &ActiveCall<'_>, stage: CallStage) -> Vec<ReplayEntry> {
        if self.mode != CallLogMode::Live {
            return Vec::new();
        }
        let mut kept = self.state();
        let body = kept.keep_arguments(asking.body, stage);
        let mut entries = self.trace_entries(asking.number, &mut kept);
        drop(kept);
        entries.push(ReplayEntry {
            number: asking.number,
            kind: ReplayEntryKind::Call,
            bytes: entry::encode_call(stage, asking, &body),
        });
        entries
    }

    fn trace_entries(&self, number: u32, state: &mut CallLogState) -> Vec<ReplayEntry> {
        if self.mode != CallLogMode::Live || state.trace.is_empty() {
            return Vec::new();
        }
        let piece = TracePiece {
            run: state.run,
            start: state.start,
            at: state.at,
            bytes: std::mem::take(&mut state.trace),
        };
        state.at += piece.bytes.len() as u64;
        if !state.reserve_bytes(piece.bytes.len(), usize::MAX) {
            return Vec::new();
        }
        vec![ReplayEntry {
            number,
            kind: ReplayEntryKind::Trace,
            bytes: entry::encode_trace(&piece),
        }]
    }
}

impl CallLogState {
    /// Decides how the arguments of a call are kept.
    fn keep_arguments<'a>(&mut self, body: &'a str, stage: CallStage) -> EntryArguments<'a> {
        if stage == CallStage::Settled {
            self.unsent = self.unsent.saturating_add(body.len() as u64);
            if self.unsent > MAX_UNSENT_BYTES && body.len() > MAX_SHORT_ARGUMENTS {
                return EntryArguments::Digest(ContentHash::digest(body.as_bytes()));
            }
        }
        if self.reserve_bytes(body.len(), usize::MAX) {
            EntryArguments::Text(body)
        } else {
            EntryArguments::Omitted
        }
    }

    /// Whether this much more can be kept; after the first failure nothing more is kept.
    fn reserve_bytes(&mut self, length: usize, most: usize) -> bool {
        let all = self.kept.saturating_add(length as u64);
        self.spoiled |= length > most || all > MAX_KEPT_BYTES;
        if !self.spoiled {
            self.kept = all;
        }
        !self.spoiled
    }
}
