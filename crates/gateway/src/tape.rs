//! What is known of an execution's calls, so that it can be run again: each call by its number, with its arguments and its
//! answer, and the trace of everything else that reached the program.
//!
//! A program that is run again is given the answers that are on the tape; nothing is called for them. It must ask the same, or
//! it does not repeat itself and goes no further.

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

/// How a request to the network is called among calls: no tool has a name without its server.
pub(crate) const FETCH: &str = "fetch";

/// What a call is for, by the program's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<T> {
    /// One tool of one server.
    Tool {
        /// The server.
        server: T,
        /// The tool.
        tool: T,
    },
    /// Which tools serve an intent.
    Search,
    /// What tools are like.
    Describe,
    /// Which tools there are.
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
    /// For messages.
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

/// A call as it was made once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taped {
    /// What it was for.
    pub what: What<String>,
    /// The full name of the tool, where there was one.
    pub name: Option<String>,
    /// What the tool's server said of it then.
    pub hints: Option<Hints>,
    /// Its arguments.
    pub arguments: TapedArguments,
    /// It was sent, perhaps: what became of it is only known by its answer.
    pub started: bool,
    /// The question to a person that it waits for.
    pub approval: Option<ApprovalId>,
    /// Whether a person was ever asked for it.
    pub asked: bool,
    /// What the program was answered.
    pub answered: Option<Answered>,
}

/// The arguments of a call, as far as they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapedArguments {
    /// As JSON text.
    Text(String),
    /// Only by their digest: the call was not sent, and there were many bytes of those.
    Digest(Hash),
}

impl TapedArguments {
    /// The JSON text, where it is kept.
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

/// An answer as it was given once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// How the call went.
    pub outcome: CallOutcome,
    /// Whether the policy refused it.
    pub forbidden: bool,
    /// How long it took.
    pub duration: Duration,
    /// The rule that decided.
    pub rule: Option<String>,
    /// The result as JSON text, or what the program was told instead.
    pub answer: Result<String, Told>,
}

/// The tape of one execution.
#[derive(Debug)]
pub struct Tape {
    mode: Mode,
    calls: HashMap<u32, Taped>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nothing is kept.
    Off,
    /// What is not on the tape happens, and is kept.
    Live,
    /// What is not on the tape does not happen.
    Only,
}

#[derive(Debug, Default)]
struct State {
    /// The trace that no entry holds yet.
    trace: Vec<u8>,
    /// Where it begins, where this run began, and which run it is.
    at: u64,
    start: u64,
    run: u64,
    /// Bytes of all entries.
    kept: u64,
    /// Bytes of arguments that were never sent.
    unsent: u64,
    spoiled: bool,
}

/// Why a tape cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// It was written by another version.
    #[error("what the execution kept is of version {0}, which is not known here")]
    Version(u8),
    /// It is not what was written.
    #[error("what the execution kept is damaged: {0} cannot be read")]
    Damaged(&'static str),
    /// Something was left out when it was written.
    #[error("the execution cannot be run again: it had more than 64 MiB, or one answer of more than 16 MiB, to keep")]
    TooLarge,
}

impl TapeError {
    /// A stable name.
    pub fn code(&self) -> &'static str {
        match self {
            TapeError::Version(_) => "replay.version",
            TapeError::Damaged(_) => "replay.damaged",
            TapeError::TooLarge => TOO_LARGE,
        }
    }
}

const TOO_LARGE: &str = "replay.too_large";

/// A program that is run again asks something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the program does not repeat itself at call {number}: {message}")]
pub struct Diverged {
    /// The call.
    pub number: u32,
    /// What is different.
    pub message: String,
}

/// What the tape has of a call.
#[derive(Debug)]
pub(crate) enum Known<'a> {
    /// Nothing.
    New,
    /// Its answer.
    Answered(&'a Answered),
    /// It waits for a person.
    Asked(ApprovalId),
    /// It was sent, perhaps, and nobody knows what it did; a person may be asked already.
    Unknown(Option<ApprovalId>),
}

/// A call to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) number: u32,
    pub(crate) what: What<&'a str>,
    /// The tool's full name, once it is found.
    pub(crate) name: Option<&'a str>,
    /// What its server says of it.
    pub(crate) hints: Option<Hints>,
    pub(crate) body: &'a str,
}

impl Tape {
    /// For an execution that is never run again: nothing is kept.
    pub fn off() -> Tape {
        Tape::of(Mode::Off)
    }

    /// For an execution that begins.
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

    /// What an execution kept, in the order of its commits, and the trace with which it is run again: as far as it has no gap.
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

    /// The same for looking back: what is not on it does not happen.
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

    /// The calls on it, by number.
    pub fn calls(&self) -> Vec<(u32, &Taped)> {
        let mut calls: Vec<(u32, &Taped)> = self.calls.iter().map(|(number, taped)| (*number, taped)).collect();
        calls.sort_by_key(|(number, _)| *number);
        calls
    }

    /// What a call was named.
    pub(crate) fn named(&self, number: u32) -> Option<String> {
        let taped = self.calls.get(&number)?;
        taped.name.clone().or_else(|| match &taped.what {
            What::Tool { server, tool } => Some(format!("{server}.{tool}")),
            What::Fetch => Some(FETCH.to_owned()),
            What::Search | What::Describe | What::List => None,
        })
    }

    /// How many of its calls have an answer.
    pub fn known(&self) -> usize {
        self.calls.values().filter(|taped| taped.answered.is_some()).count()
    }

    /// How many of its calls were under way: nobody knows what they did.
    pub fn unknown(&self) -> usize {
        let unknown = |taped: &&Taped| taped.started && taped.answered.is_none();
        self.calls.values().filter(unknown).count()
    }

    /// Why the execution cannot be run again: the code.
    pub fn spoiled(&self) -> Option<&'static str> {
        self.state().spoiled.then_some(TOO_LARGE)
    }

    /// More of the trace. To be told in the program's order, so before a call is handed on to anybody.
    pub fn heard(&self, trace: &[u8]) {
        if self.mode == Mode::Live && !trace.is_empty() {
            self.state().trace.extend_from_slice(trace);
        }
    }

    /// Whether a call is the one that was made under its number before, if there was one.
    pub fn compare(&self, number: u32, what: What<&str>, body: &str) -> Result<(), Diverged> {
        self.find(number, what, body).map(drop)
    }

    /// The answer to a question about tools, if the program had one before.
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

    /// What is known of a call; it must be the one that was made under its number.
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

/// Pieces in their order, up to the first that is missing. Where a run went its own way, an earlier one is void.
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
