//! Captures a program's output for the result, and shows it to an observer as it comes.

use std::sync::Arc;

use ringfence_gateway::Redactor;
use ringfence_sandbox::{OutputSink, StandardStream, Violation};
use tokio::sync::mpsc;

use crate::execution::attempt::UnrepeatableReason;

/// One of the two outputs of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramStream {
    /// The standard output of the program.
    Stdout,
    /// The standard error of the program.
    Stderr,
}

/// Observes output while a program runs.
pub trait OutputObserver: Send + Sync {
    /// Gets the next bytes of an output.
    fn on_output(&mut self, stream: ProgramStream, bytes: &[u8]);
}

/// Observes nothing and drops the output.
impl OutputObserver for () {
    fn on_output(&mut self, _: ProgramStream, _: &[u8]) {}
}

/// How much of an execution's output was shown: a repeated execution prints it again, and it is not shown again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ShownBytes {
    stdout: usize,
    stderr: usize,
}

/// An event that a program causes beside its output.
#[derive(Debug)]
pub(crate) enum ProgramNote {
    /// The program tried something and was refused.
    Violation(Violation),
    /// The program cannot be run again.
    Unrepeatable(String),
}

/// The brackets around an alias.
const ALIAS_OPEN: &[u8] = "‹".as_bytes();
const ALIAS_CLOSE: &[u8] = "›".as_bytes();
/// Bytes of the longest alias.
const MAX_ALIAS_BYTES: usize = 32;

/// Replaces aliases by values in an output for its owner, as it comes.
struct AliasRevealer {
    screen: Arc<Redactor>,
    /// Bytes that wait for the rest of an alias, or for the redactor to be free.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl AliasRevealer {
    fn buffer(&mut self, stream: ProgramStream) -> &mut Vec<u8> {
        match stream {
            ProgramStream::Stdout => &mut self.stdout,
            ProgramStream::Stderr => &mut self.stderr,
        }
    }

    /// The bytes that can be shown now, with aliases replaced.
    fn reveal_ready(&mut self, stream: ProgramStream, bytes: &[u8], is_all: bool) -> Vec<u8> {
        let waiting = self.buffer(stream);
        waiting.extend_from_slice(bytes);
        let end = if is_all { waiting.len() } else { safe_prefix(waiting) };
        let now = waiting.get(..end).unwrap_or_default().to_vec();
        let shown = match reveal_aliases(&self.screen, &now) {
            Some(shown) => shown,
            // These bytes are shown with the next ones.
            None if !is_all => return Vec::new(),
            None => now,
        };
        self.buffer(stream).drain(..end);
        shown
    }
}

/// Replaces aliases by values between bytes of any encoding, even where a character is cut. None where the redactor is busy.
fn reveal_aliases(screen: &Redactor, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut shown = Vec::with_capacity(bytes.len());
    for part in bytes.utf8_chunks() {
        let text = part.valid();
        if text.contains('‹') {
            shown.extend_from_slice(screen.try_reveal(text)?.as_bytes());
        } else {
            shown.extend_from_slice(text.as_bytes());
        }
        shown.extend_from_slice(part.invalid());
    }
    Some(shown)
}

/// The length of the prefix that does not end within an alias.
fn safe_prefix(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(MAX_ALIAS_BYTES);
    let tail = bytes.get(from..).unwrap_or_default();
    let last = |part: &[u8]| tail.windows(part.len()).rposition(|window| window == part);
    match (last(ALIAS_OPEN), last(ALIAS_CLOSE)) {
        (Some(open), close) if close.is_none_or(|close| close < open) => from + open,
        // Only a part of the opening bracket may be there.
        _ => {
            let part = |length: &usize| ALIAS_OPEN.get(..*length).is_some_and(|part| tail.ends_with(part));
            bytes.len() - (1..ALIAS_OPEN.len()).rev().find(part).unwrap_or(0)
        }
    }
}

/// Captures an output. The sandbox never hands over more than the policy's limit.
pub(crate) struct OutputCapture<'a> {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    observer: &'a mut dyn OutputObserver,
    shown: ShownBytes,
    revealer: Option<AliasRevealer>,
    /// Receives the program's other events, which a task records.
    notes: mpsc::UnboundedSender<ProgramNote>,
    unrepeatable: UnrepeatableReason,
}

impl<'a> OutputCapture<'a> {
    /// A capture, and the receiver of the events. The sandbox reports so few of them that the channel needs no bound. With a redactor, the
    /// observer sees values in place of aliases.
    pub(crate) fn new(
        live: &'a mut dyn OutputObserver,
        seen: ShownBytes,
        own: Option<Arc<Redactor>>,
    ) -> (OutputCapture<'a>, mpsc::UnboundedReceiver<ProgramNote>) {
        let (noted, happened) = mpsc::unbounded_channel();
        let kept = OutputCapture {
            stdout: Vec::new(),
            stderr: Vec::new(),
            observer: live,
            shown: seen,
            revealer: own.map(|screen| AliasRevealer {
                screen,
                stdout: Vec::new(),
                stderr: Vec::new(),
            }),
            notes: noted,
            unrepeatable: UnrepeatableReason::default(),
        };
        (kept, happened)
    }

    /// Also reports to `unrepeatable` when the program cannot be run again.
    pub(crate) fn with_unrepeatable(self, unrepeatable: UnrepeatableReason) -> OutputCapture<'a> {
        OutputCapture { unrepeatable, ..self }
    }

    /// How much was shown so far.
    pub(crate) fn shown(&self) -> ShownBytes {
        ShownBytes {
            stdout: self.shown.stdout.max(self.stdout.len()),
            stderr: self.shown.stderr.max(self.stderr.len()),
        }
    }

    /// The captured outputs; there are no events after this.
    pub(crate) fn into_output(mut self) -> (Vec<u8>, Vec<u8>) {
        if let Some(own) = &mut self.revealer {
            for stream in [ProgramStream::Stdout, ProgramStream::Stderr] {
                let rest = own.reveal_ready(stream, &[], true);
                if !rest.is_empty() {
                    self.observer.on_output(stream, &rest);
                }
            }
        }
        (self.stdout, self.stderr)
    }
}

impl OutputSink for OutputCapture<'_> {
    fn on_output(&mut self, output: StandardStream, bytes: &[u8]) {
        let (stream, kept, seen) = match output {
            StandardStream::Stdout => (ProgramStream::Stdout, &mut self.stdout, self.shown.stdout),
            StandardStream::Stderr => (ProgramStream::Stderr, &mut self.stderr, self.shown.stderr),
        };
        let again = seen.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(bytes);
        let new = bytes.get(again..).unwrap_or_default();
        match &mut self.revealer {
            _ if new.is_empty() => {}
            None => self.observer.on_output(stream, new),
            Some(own) => {
                let shown = own.reveal_ready(stream, new, false);
                if !shown.is_empty() {
                    self.observer.on_output(stream, &shown);
                }
            }
        }
    }

    fn on_violation(&mut self, violation: &Violation) {
        // The receiver is gone only when the journal failed, which ends the run anyway.
        let _ = self.notes.send(ProgramNote::Violation(violation.clone()));
    }

    fn on_unrepeatable(&mut self, why: &str) {
        self.unrepeatable.set(why);
        // The receiver may be gone, as above.
        let _ = self.notes.send(ProgramNote::Unrepeatable(why.to_owned()));
    }
}

#[cfg(test)]
mod tests;
