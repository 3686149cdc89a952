//! The call log of an execution, from which it can be run again: each call by its number, with its arguments and its
//! answer, and the trace of everything else that reached the program.
//!
//! A program that is run again gets the answers in the call log; its tools are not called again. It must make the
//! same calls; otherwise the replay stops with an error.

mod entry;
mod write_entries;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{ApprovalId, CallOutcome, ContentHash, ReplayEntry, ReplayEntryKind};
use ringfence_policy::ToolHints;

use crate::refusal::CallErrorBody;
pub(crate) use entry::AnswerParts;
use entry::{CallStage, TracePiece};

/// The name of network requests among calls; tool names always contain a server.
pub(crate) const FETCH_NAME: &str = "fetch";

/// The kind of a call, by the names that the program used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind<T> {
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

impl CallKind<String> {
    fn as_borrowed(&self) -> CallKind<&str> {
        match self {
            CallKind::Tool { server, tool } => CallKind::Tool { server, tool },
            CallKind::Search => CallKind::Search,
            CallKind::Describe => CallKind::Describe,
            CallKind::List => CallKind::List,
            CallKind::Fetch => CallKind::Fetch,
        }
    }
}

impl<T: AsRef<str>> CallKind<T> {
    /// Describes the call for messages.
    fn describe(&self) -> String {
        match self {
            CallKind::Tool { server, tool } => format!("`{}.{}`", server.as_ref(), tool.as_ref()),
            CallKind::Search => "`search`".to_owned(),
            CallKind::Describe => "`describe`".to_owned(),
            CallKind::List => "`list`".to_owned(),
            CallKind::Fetch => "`fetch`".to_owned(),
        }
    }
}

/// A call in the call log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedCall {
    /// The kind of the call, with its names.
    pub kind: CallKind<String>,
    /// The full name of the tool, if it was found.
    pub name: Option<String>,
    /// The server's hints about the tool at the time.
    pub hints: Option<ToolHints>,
    /// The arguments, or their digest.
    pub arguments: LoggedArguments,
    /// The call may have been sent: only its answer shows what happened.
    pub started: bool,
    /// The approval request that it waits for.
    pub approval: Option<ApprovalId>,
    /// Whether an approval was ever requested for it.
    pub asked: bool,
    /// The answer that the program got.
    pub answer: Option<LoggedAnswer>,
}

/// The arguments of a call, as far as they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedArguments {
    /// The arguments as JSON text.
    Text(String),
    /// The digest alone: the call was not sent, and too many such bytes were kept already.
    Digest(ContentHash),
}

impl LoggedArguments {
    /// Returns the JSON text, if it is kept.
    pub fn text(&self) -> Option<&str> {
        match self {
            LoggedArguments::Text(text) => Some(text),
            LoggedArguments::Digest(_) => None,
        }
    }

    fn matches_body(&self, body: &str) -> bool {
        match self {
            LoggedArguments::Text(text) => text == body,
            LoggedArguments::Digest(digest) => *digest == ContentHash::digest(body.as_bytes()),
        }
    }

    fn agrees_with(&self, other: &LoggedArguments) -> bool {
        match (self, other) {
            (LoggedArguments::Digest(one), LoggedArguments::Digest(other)) => one == other,
            (arguments, LoggedArguments::Text(body)) | (LoggedArguments::Text(body), arguments) => {
                arguments.matches_body(body)
            }
        }
    }
}

/// An answer in the call log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedAnswer {
    /// How the call ended.
    pub outcome: CallOutcome,
    /// Whether the policy refused it.
    pub forbidden: bool,
    /// How long the call took.
    pub duration: Duration,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
    /// The result as JSON text, or the error that the program got.
    pub answer: Result<String, CallErrorBody>,
}

/// The call log of one execution.
#[derive(Debug)]
pub struct CallLog {
    mode: CallLogMode,
    calls: HashMap<u32, LoggedCall>,
    state: Mutex<CallLogState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallLogMode {
    /// The log keeps nothing.
    Off,
    /// Calls that are not in the log are made and kept.
    Live,
    /// Calls that are not in the log are not made.
    Only,
}

#[derive(Debug, Default)]
struct CallLogState {
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
pub enum CallLogError {
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

impl CallLogError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            CallLogError::Version(_) => "replay.version",
            CallLogError::Damaged(_) => "replay.damaged",
            CallLogError::TooLarge => TOO_LARGE,
        }
    }
}

const TOO_LARGE: &str = "replay.too_large";

/// A replayed program makes another call than before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the program does not repeat itself at call {number}: {message}")]
pub struct ReplayDivergence {
    /// The number of the call that differs.
    pub number: u32,
    /// The difference, in words.
    pub message: String,
}

/// The state of a call in the call log.
#[derive(Debug)]
pub(crate) enum LoggedState<'a> {
    /// The log does not have the call.
    New,
    /// The log has its answer.
    Answered(&'a LoggedAnswer),
    /// It waits for an approval.
    Asked(ApprovalId),
    /// It may have been sent and its effect is unknown; an approval request may be open already.
    Unknown(Option<ApprovalId>),
}

/// A call that is being made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActiveCall<'a> {
    pub(crate) number: u32,
    pub(crate) kind: CallKind<&'a str>,
    /// The tool's full name, once it is found.
    pub(crate) name: Option<&'a str>,
    /// The server's hints about the tool.
    pub(crate) hints: Option<ToolHints>,
    pub(crate) body: &'a str,
}

impl CallLog {
    /// Creates a log that keeps nothing, for an execution that is never run again.
    pub fn off() -> CallLog {
        CallLog::with_mode(CallLogMode::Off)
    }

    /// Creates the log of a new execution.
    pub fn new() -> CallLog {
        CallLog::with_mode(CallLogMode::Live)
    }

    fn with_mode(mode: CallLogMode) -> CallLog {
        CallLog {
            mode,
            calls: HashMap::new(),
            state: Mutex::default(),
        }
    }

    /// Reads the entries of an execution, in the order of their commits. Also returns the trace for its next run, up
    /// to the first gap.
    pub fn from_entries(entries: impl IntoIterator<Item = ReplayEntry>) -> Result<(CallLog, Vec<u8>), CallLogError> {
        let mut tape = CallLog::new();
        let mut pieces = Vec::new();
        let mut kept = 0_u64;
        for ReplayEntry { number, kind, bytes } in entries {
            kept = kept.saturating_add(bytes.len() as u64);
            match kind {
                ReplayEntryKind::Call => tape.apply_call(number, entry::decode_call(bytes)?)?,
                ReplayEntryKind::Answer => tape.apply_answer(number, entry::decode_answer(bytes)?)?,
                ReplayEntryKind::Trace => pieces.push(entry::decode_trace(&bytes)?),
            }
        }
        let run = pieces.iter().map(|piece| piece.run).max();
        let trace = join_pieces(pieces);
        let length = trace.len() as u64;
        *tape.state.get_mut().unwrap_or_else(PoisonError::into_inner) = CallLogState {
            at: length,
            start: length,
            run: run.map_or(0, |run| run.saturating_add(1)),
            kept,
            ..CallLogState::default()
        };
        Ok((tape, trace))
    }

    /// Turns the log into one for replay only: calls that are not in it are not made.
    #[must_use]
    pub fn replay_only(mut self) -> CallLog {
        self.mode = CallLogMode::Only;
        self
    }

    fn apply_call(&mut self, number: u32, call: entry::CallEntry) -> Result<(), CallLogError> {
        if call.spoiled {
            return Err(CallLogError::TooLarge);
        }
        let taped = self.calls.entry(number).or_insert_with(|| call.taped.clone());
        if taped.kind != call.taped.kind || !taped.arguments.agrees_with(&call.taped.arguments) {
            return Err(CallLogError::Damaged("a call that is there twice"));
        }
        taped.name = call.taped.name.or_else(|| taped.name.take());
        taped.hints = call.taped.hints.or(taped.hints);
        match call.stage {
            CallStage::Started => (taped.started, taped.approval) = (true, None),
            CallStage::Asked(id) => (taped.approval, taped.asked) = (Some(id), true),
            CallStage::Settled => taped.approval = None,
        }
        Ok(())
    }

    fn apply_answer(&mut self, number: u32, answer: entry::AnswerEntry) -> Result<(), CallLogError> {
        let entry::AnswerEntry::Kept(answered) = answer else {
            return Err(CallLogError::TooLarge);
        };
        let taped = self
            .calls
            .get_mut(&number)
            .ok_or(CallLogError::Damaged("the call of an answer"))?;
        taped.answer = Some(answered);
        Ok(())
    }

    /// Returns the calls of the log, by number.
    pub fn calls(&self) -> Vec<(u32, &LoggedCall)> {
        let mut calls: Vec<(u32, &LoggedCall)> = self.calls.iter().map(|(number, taped)| (*number, taped)).collect();
        calls.sort_by_key(|(number, _)| *number);
        calls
    }

    /// Returns the name of a call, if it has one.
    pub(crate) fn call_name(&self, number: u32) -> Option<String> {
        let taped = self.calls.get(&number)?;
        taped.name.clone().or_else(|| match &taped.kind {
            CallKind::Tool { server, tool } => Some(format!("{server}.{tool}")),
            CallKind::Fetch => Some(FETCH_NAME.to_owned()),
            CallKind::Search | CallKind::Describe | CallKind::List => None,
        })
    }

    /// Returns how many calls have an answer.
    pub fn answered_count(&self) -> usize {
        self.calls.values().filter(|taped| taped.answer.is_some()).count()
    }

    /// Returns how many calls were in flight, so that their effect is unknown.
    pub fn unknown_count(&self) -> usize {
        let unknown = |taped: &&LoggedCall| taped.started && taped.answer.is_none();
        self.calls.values().filter(unknown).count()
    }

    /// Returns the code of why the execution cannot be run again, if it cannot.
    pub fn unrepeatable_code(&self) -> Option<&'static str> {
        self.state().spoiled.then_some(TOO_LARGE)
    }

    /// Appends to the trace. Must be called in the program's order, before a call is passed on.
    pub fn append_trace(&self, trace: &[u8]) {
        if self.mode == CallLogMode::Live && !trace.is_empty() {
            self.state().trace.extend_from_slice(trace);
        }
    }

    /// Checks that a call is the one that was made under its number before, if there was one.
    pub fn check_repeats(&self, number: u32, what: CallKind<&str>, body: &str) -> Result<(), ReplayDivergence> {
        self.find_call(number, what, body).map(drop)
    }

    /// Returns the answer to a lookup of tools, if the program got one before.
    pub fn lookup_answer(
        &self,
        number: u32,
        what: CallKind<&str>,
        body: &str,
    ) -> Result<Option<&Result<String, CallErrorBody>>, ReplayDivergence> {
        Ok(match self.find_call(number, what, body)? {
            LoggedState::Answered(answered) => Some(&answered.answer),
            LoggedState::New | LoggedState::Asked(_) | LoggedState::Unknown(_) => None,
        })
    }

    /// Whether a call of this number was made before.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.calls.contains_key(&number)
    }

    /// Returns the state of a call, which must be the one that was made under its number.
    pub(crate) fn find_call(
        &self,
        number: u32,
        what: CallKind<&str>,
        body: &str,
    ) -> Result<LoggedState<'_>, ReplayDivergence> {
        let diverged = |message: String| Err(ReplayDivergence { number, message });
        let Some(taped) = self.calls.get(&number) else {
            return match self.mode {
                CallLogMode::Only => diverged(format!("it asks for {}, which was not asked before", what.describe())),
                CallLogMode::Off | CallLogMode::Live => Ok(LoggedState::New),
            };
        };
        if taped.kind.as_borrowed() != what {
            return diverged(format!(
                "it asked for {} and now asks for {}",
                taped.kind.describe(),
                what.describe()
            ));
        }
        if !taped.arguments.matches_body(body) {
            return diverged(format!(
                "it asks for {} with other arguments than before",
                what.describe()
            ));
        }
        Ok(match (&taped.answer, taped.approval) {
            (Some(answered), _) => LoggedState::Answered(answered),
            (None, _) if self.mode == CallLogMode::Only => {
                return diverged(format!("the run ended before {} was answered", what.describe()));
            }
            (None, approval) if taped.started => LoggedState::Unknown(approval),
            (None, Some(approval)) => LoggedState::Asked(approval),
            (None, None) => LoggedState::New,
        })
    }

    fn state(&self) -> MutexGuard<'_, CallLogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for CallLog {
    fn default() -> CallLog {
        CallLog::new()
    }
}

/// Joins the pieces in their order, up to the first gap. Where a run diverged, its pieces replace those of earlier
/// runs.
fn join_pieces(mut pieces: Vec<TracePiece>) -> Vec<u8> {
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
