//! The call log of an execution, from which it can be run again: each call by its number, with its arguments and its
//! answer, and the trace of everything else that reached the program.
//!
//! A program that is run again gets the answers in the call log; its tools are not called again. It must make the
//! same calls; otherwise the replay stops with an error.

mod entry;
mod keep;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{ApprovalId, CallOutcome, Entry, EntryKind, Hash};
use ringfence_policy::Hints;

use crate::refusal::Told;
pub(crate) use entry::AnswerParts;
use entry::{Piece, Stage};

/// The name of network requests among calls; tool names always contain a server.
pub(crate) const FETCH: &str = "fetch";

/// The kind of a call, by the names that the program used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<T> {
    /// A call of one tool of one server.
    Tool {
        /// The server as the program named it.
        server: T,
        /// The tool as the program named it.
        tool: T,
    },
    /// A search for tools that serve an intent.
    Search,
    /// A request for the descriptions of tools.
    Describe,
    /// A request for the list of tools.
    List,
    /// A request to the network.
    Fetch,
}

impl What<String> {
    fn borrowed(&self) -> What<&str> {
        match self {
            What::Tool { server, tool } => What::Tool { server, tool },
            What::Search => What::Search,
            What::Describe => What::Describe,
            What::List => What::List,
            What::Fetch => What::Fetch,
        }
    }
}

impl<T: AsRef<str>> What<T> {
    /// Describes the call for messages.
    fn words(&self) -> String {
        match self {
            What::Tool { server, tool } => format!("`{}.{}`", server.as_ref(), tool.as_ref()),
            What::Search => "`search`".to_owned(),
            What::Describe => "`describe`".to_owned(),
            What::List => "`list`".to_owned(),
            What::Fetch => "`fetch`".to_owned(),
        }
    }
}

/// A call in the call log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taped {
    /// The kind of the call, with its names.
    pub what: What<String>,
    /// The full name of the tool, if it was found.
    pub name: Option<String>,
    /// The server's hints about the tool at the time.
    pub hints: Option<Hints>,
    /// The arguments, or their digest.
    pub arguments: TapedArguments,
    /// The call may have been sent: only its answer shows what happened.
    pub started: bool,
    /// The approval request that it waits for.
    pub approval: Option<ApprovalId>,
    /// Whether an approval was ever requested for it.
    pub asked: bool,
    /// The answer that the program got.
    pub answered: Option<Answered>,
}

/// The arguments of a call, as far as they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapedArguments {
    /// The arguments as JSON text.
    Text(String),
    /// The digest alone: the call was not sent, and too many such bytes were kept already.
    Digest(Hash),
}

impl TapedArguments {
    /// Returns the JSON text, if it is kept.
    pub fn text(&self) -> Option<&str> {
        match self {
            TapedArguments::Text(text) => Some(text),
            TapedArguments::Digest(_) => None,
        }
    }

    fn are(&self, body: &str) -> bool {
        match self {
            TapedArguments::Text(text) => text == body,
            TapedArguments::Digest(digest) => *digest == Hash::of(body.as_bytes()),
        }
    }

    fn agree_with(&self, other: &TapedArguments) -> bool {
        match (self, other) {
            (TapedArguments::Digest(one), TapedArguments::Digest(other)) => one == other,
            (arguments, TapedArguments::Text(body)) | (TapedArguments::Text(body), arguments) => arguments.are(body),
        }
    }
}

/// An answer in the call log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// How the call ended.
    pub outcome: CallOutcome,
    /// Whether the policy refused it.
    pub forbidden: bool,
    /// How long the call took.
    pub duration: Duration,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
    /// The result as JSON text, or the error that the program got.
    pub answer: Result<String, Told>,
}

/// The call log of one execution.
#[derive(Debug)]
pub struct Tape {
    mode: Mode,
    calls: HashMap<u32, Taped>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The log keeps nothing.
    Off,
    /// Calls that are not in the log are made and kept.
    Live,
    /// Calls that are not in the log are not made.
    Only,
}

#[derive(Debug, Default)]
struct State {
    /// The trace since the last entry.
    trace: Vec<u8>,
    /// The position where it begins, the position where this run began, and the index of this run.
    at: u64,
    start: u64,
    run: u64,
    /// Bytes of all entries together.
    kept: u64,
    /// Bytes of arguments that were never sent.
    unsent: u64,
    spoiled: bool,
}

/// Why a call log cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// Another version wrote the entries.
    #[error("what the execution kept is of version {0}, which is not known here")]
    Version(u8),
    /// The entries are damaged.
    #[error("what the execution kept is damaged: {0} cannot be read")]
    Damaged(&'static str),
    /// Entries were left out when the log was written.
    #[error("the execution cannot be run again: it had more than 64 MiB, or one answer of more than 16 MiB, to keep")]
    TooLarge,
}

impl TapeError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            TapeError::Version(_) => "replay.version",
            TapeError::Damaged(_) => "replay.damaged",
            TapeError::TooLarge => TOO_LARGE,
        }
    }
}

const TOO_LARGE: &str = "replay.too_large";

/// A replayed program makes another call than before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the program does not repeat itself at call {number}: {message}")]
pub struct Diverged {
    /// The number of the call that differs.
    pub number: u32,
    /// The difference, in words.
    pub message: String,
}

/// The state of a call in the call log.
#[derive(Debug)]
pub(crate) enum Known<'a> {
    /// The log does not have the call.
    New,
    /// The log has its answer.
    Answered(&'a Answered),
    /// It waits for an approval.
    Asked(ApprovalId),
    /// It may have been sent and its effect is unknown; an approval request may be open already.
    Unknown(Option<ApprovalId>),
}

/// A call that is being made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) number: u32,
    pub(crate) what: What<&'a str>,
    /// The tool's full name, once it is found.
    pub(crate) name: Option<&'a str>,
    /// The server's hints about the tool.
    pub(crate) hints: Option<Hints>,
    pub(crate) body: &'a str,
}

impl Tape {
    /// Creates a log that keeps nothing, for an execution that is never run again.
    pub fn off() -> Tape {
        Tape::of(Mode::Off)
    }

    /// Creates the log of a new execution.
    pub fn new() -> Tape {
        Tape::of(Mode::Live)
    }

    fn of(mode: Mode) -> Tape {
        Tape {
            mode,
            calls: HashMap::new(),
            state: Mutex::default(),
        }
    }

    /// Reads the entries of an execution, in the order of their commits. Also returns the trace for its next run, up
    /// to the first gap.
    pub fn read(entries: impl IntoIterator<Item = Entry>) -> Result<(Tape, Vec<u8>), TapeError> {
        let mut tape = Tape::new();
        let mut pieces = Vec::new();
        let mut kept = 0_u64;
        for Entry { number, kind, bytes } in entries {
            kept = kept.saturating_add(bytes.len() as u64);
            match kind {
                EntryKind::Call => tape.take_call(number, entry::read_call(bytes)?)?,
                EntryKind::Answer => tape.take_answer(number, entry::read_answer(bytes)?)?,
                EntryKind::Trace => pieces.push(entry::read_trace(&bytes)?),
            }
        }
        let run = pieces.iter().map(|piece| piece.run).max();
        let trace = joined(pieces);
        let length = trace.len() as u64;
        *tape.state.get_mut().unwrap_or_else(PoisonError::into_inner) = State {
            at: length,
            start: length,
            run: run.map_or(0, |run| run.saturating_add(1)),
            kept,
            ..State::default()
        };
        Ok((tape, trace))
    }

    /// Turns the log into one for replay only: calls that are not in it are not made.
    #[must_use]
    pub fn only(mut self) -> Tape {
        self.mode = Mode::Only;
        self
    }

    fn take_call(&mut self, number: u32, call: entry::Call) -> Result<(), TapeError> {
        if call.spoiled {
            return Err(TapeError::TooLarge);
        }
        let taped = self.calls.entry(number).or_insert_with(|| call.taped.clone());
        if taped.what != call.taped.what || !taped.arguments.agree_with(&call.taped.arguments) {
            return Err(TapeError::Damaged("a call that is there twice"));
        }
        taped.name = call.taped.name.or_else(|| taped.name.take());
        taped.hints = call.taped.hints.or(taped.hints);
        match call.stage {
            Stage::Started => (taped.started, taped.approval) = (true, None),
            Stage::Asked(id) => (taped.approval, taped.asked) = (Some(id), true),
            Stage::Settled => taped.approval = None,
        }
        Ok(())
    }

    fn take_answer(&mut self, number: u32, answer: entry::Answer) -> Result<(), TapeError> {
        let entry::Answer::Kept(answered) = answer else {
            return Err(TapeError::TooLarge);
        };
        let taped = self
            .calls
            .get_mut(&number)
            .ok_or(TapeError::Damaged("the call of an answer"))?;
        taped.answered = Some(answered);
        Ok(())
    }

    /// Returns the calls of the log, by number.
    pub fn calls(&self) -> Vec<(u32, &Taped)> {
        let mut calls: Vec<(u32, &Taped)> = self.calls.iter().map(|(number, taped)| (*number, taped)).collect();
        calls.sort_by_key(|(number, _)| *number);
        calls
    }

    /// Returns the name of a call, if it has one.
    pub(crate) fn named(&self, number: u32) -> Option<String> {
        let taped = self.calls.get(&number)?;
        taped.name.clone().or_else(|| match &taped.what {
            What::Tool { server, tool } => Some(format!("{server}.{tool}")),
            What::Fetch => Some(FETCH.to_owned()),
            What::Search | What::Describe | What::List => None,
        })
    }

    /// Returns how many calls have an answer.
    pub fn known(&self) -> usize {
        self.calls.values().filter(|taped| taped.answered.is_some()).count()
    }

    /// Returns how many calls were in flight, so that their effect is unknown.
    pub fn unknown(&self) -> usize {
        let unknown = |taped: &&Taped| taped.started && taped.answered.is_none();
        self.calls.values().filter(unknown).count()
    }

    /// Returns the code of why the execution cannot be run again, if it cannot.
    pub fn spoiled(&self) -> Option<&'static str> {
        self.state().spoiled.then_some(TOO_LARGE)
    }

    /// Appends to the trace. Must be called in the program's order, before a call is passed on.
    pub fn heard(&self, trace: &[u8]) {
        if self.mode == Mode::Live && !trace.is_empty() {
            self.state().trace.extend_from_slice(trace);
        }
    }

    /// Checks that a call is the one that was made under its number before, if there was one.
    pub fn compare(&self, number: u32, what: What<&str>, body: &str) -> Result<(), Diverged> {
        self.find(number, what, body).map(drop)
    }

    /// Returns the answer to a lookup of tools, if the program got one before.
    pub fn answer(&self, number: u32, what: What<&str>, body: &str) -> Result<Option<&Result<String, Told>>, Diverged> {
        Ok(match self.find(number, what, body)? {
            Known::Answered(answered) => Some(&answered.answer),
            Known::New | Known::Asked(_) | Known::Unknown(_) => None,
        })
    }

    /// Whether a call of this number was made before.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.calls.contains_key(&number)
    }

    /// Returns the state of a call, which must be the one that was made under its number.
    pub(crate) fn find(&self, number: u32, what: What<&str>, body: &str) -> Result<Known<'_>, Diverged> {
        let diverged = |message: String| Err(Diverged { number, message });
        let Some(taped) = self.calls.get(&number) else {
            return match self.mode {
                Mode::Only => diverged(format!("it asks for {}, which was not asked before", what.words())),
                Mode::Off | Mode::Live => Ok(Known::New),
            };
        };
        if taped.what.borrowed() != what {
            return diverged(format!(
                "it asked for {} and now asks for {}",
                taped.what.words(),
                what.words()
            ));
        }
        if !taped.arguments.are(body) {
            return diverged(format!("it asks for {} with other arguments than before", what.words()));
        }
        Ok(match (&taped.answered, taped.approval) {
            (Some(answered), _) => Known::Answered(answered),
            (None, _) if self.mode == Mode::Only => {
                return diverged(format!("the run ended before {} was answered", what.words()));
            }
            (None, approval) if taped.started => Known::Unknown(approval),
            (None, Some(approval)) => Known::Asked(approval),
            (None, None) => Known::New,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Tape {
    fn default() -> Tape {
        Tape::new()
    }
}

/// Joins the pieces in their order, up to the first gap. Where a run diverged, its pieces replace those of earlier
/// runs.
fn joined(mut pieces: Vec<Piece>) -> Vec<u8> {
    pieces.sort_by_key(|piece| (piece.run, piece.at));
    let (mut trace, mut run) = (Vec::new(), None);
    for piece in pieces {
        if run != Some(piece.run) {
            run = Some(piece.run);
            trace.truncate(usize::try_from(piece.start).unwrap_or(usize::MAX));
        }
        if piece.at == trace.len() as u64 {
            trace.extend_from_slice(&piece.bytes);
        }
    }
    trace
}

#[cfg(test)]
mod tests;
