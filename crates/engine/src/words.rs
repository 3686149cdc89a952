//! Captures a program's output for the result, and shows it to an observer as it comes.

use std::sync::Arc;

use ringfence_gateway::Screen;
use ringfence_sandbox::{Output, Violation, Words};
use tokio::sync::mpsc;

use crate::attempt::Unrepeatable;

/// One of the two outputs of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The standard output of the program.
    Stdout,
    /// The standard error of the program.
    Stderr,
}

/// Observes output while a program runs.
pub trait Live: Send {
    /// Gets the next bytes of an output.
    fn see(&mut self, stream: Stream, bytes: &[u8]);
}

/// Observes nothing and drops the output.
impl Live for () {
    fn see(&mut self, _: Stream, _: &[u8]) {}
}

/// How much of an execution's output was shown: a repeated execution prints it again, and it is not shown again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    stdout: usize,
    stderr: usize,
}

/// An event that a program causes beside its output.
#[derive(Debug)]
pub(crate) enum Noted {
    /// The program tried something and was refused.
    Tried(Violation),
    /// The program cannot be run again.
    Unrepeatable(String),
}

/// The brackets around an alias.
const OPEN: &[u8] = "‹".as_bytes();
const CLOSE: &[u8] = "›".as_bytes();
/// Bytes of the longest alias.
const LONGEST: usize = 32;

/// Replaces aliases by values in an output for its owner, as it comes.
struct Own {
    screen: Arc<Screen>,
    /// Bytes that wait for the rest of an alias, or for the redactor to be free.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Own {
    fn waiting(&mut self, stream: Stream) -> &mut Vec<u8> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// The bytes that can be shown now, with aliases replaced.
    fn take(&mut self, stream: Stream, bytes: &[u8], is_all: bool) -> Vec<u8> {
        let waiting = self.waiting(stream);
        waiting.extend_from_slice(bytes);
        let end = if is_all { waiting.len() } else { safe(waiting) };
        let now = waiting.get(..end).unwrap_or_default().to_vec();
        let shown = match revealed(&self.screen, &now) {
            Some(shown) => shown,
            // These bytes are shown with the next ones.
            None if !is_all => return Vec::new(),
            None => now,
        };
        self.waiting(stream).drain(..end);
        shown
    }
}

/// Replaces aliases by values between bytes of any encoding, even where a character is cut. None where the redactor is busy.
fn revealed(screen: &Screen, bytes: &[u8]) -> Option<Vec<u8>> {
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
fn safe(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(LONGEST);
    let tail = bytes.get(from..).unwrap_or_default();
    let last = |part: &[u8]| tail.windows(part.len()).rposition(|window| window == part);
    match (last(OPEN), last(CLOSE)) {
        (Some(open), close) if close.is_none_or(|close| close < open) => from + open,
        // Only a part of the opening bracket may be there.
        _ => {
            let part = |length: &usize| OPEN.get(..*length).is_some_and(|part| tail.ends_with(part));
            bytes.len() - (1..OPEN.len()).rev().find(part).unwrap_or(0)
        }
    }
}

/// Captures an output. The sandbox never hands over more than the policy's limit.
pub(crate) struct Kept<'a> {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    live: &'a mut dyn Live,
    seen: Seen,
    own: Option<Own>,
    /// Receives the program's other events, which a task records.
    noted: mpsc::UnboundedSender<Noted>,
    unrepeatable: Unrepeatable,
}

impl<'a> Kept<'a> {
    /// A capture, and the receiver of the events. The sandbox reports so few of them that the channel needs no bound. With a redactor, the
    /// observer sees values in place of aliases.
    pub(crate) fn new(
        live: &'a mut dyn Live,
        seen: Seen,
        own: Option<Arc<Screen>>,
    ) -> (Kept<'a>, mpsc::UnboundedReceiver<Noted>) {
        let (noted, happened) = mpsc::unbounded_channel();
        let kept = Kept {
            stdout: Vec::new(),
            stderr: Vec::new(),
            live,
            seen,
            own: own.map(|screen| Own {
                screen,
                stdout: Vec::new(),
                stderr: Vec::new(),
            }),
            noted,
            unrepeatable: Unrepeatable::default(),
        };
        (kept, happened)
    }

    /// Also reports to `unrepeatable` when the program cannot be run again.
    pub(crate) fn telling(self, unrepeatable: Unrepeatable) -> Kept<'a> {
        Kept { unrepeatable, ..self }
    }

    /// How much was shown so far.
    pub(crate) fn seen(&self) -> Seen {
        Seen {
            stdout: self.seen.stdout.max(self.stdout.len()),
            stderr: self.seen.stderr.max(self.stderr.len()),
        }
    }

    /// The captured outputs; there are no events after this.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        if let Some(own) = &mut self.own {
            for stream in [Stream::Stdout, Stream::Stderr] {
                let rest = own.take(stream, &[], true);
                if !rest.is_empty() {
                    self.live.see(stream, &rest);
                }
            }
        }
        (self.stdout, self.stderr)
    }
}

impl Words for Kept<'_> {
    fn take(&mut self, output: Output, bytes: &[u8]) {
        let (stream, kept, seen) = match output {
            Output::Stdout => (Stream::Stdout, &mut self.stdout, self.seen.stdout),
            Output::Stderr => (Stream::Stderr, &mut self.stderr, self.seen.stderr),
        };
        let again = seen.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(bytes);
        let new = bytes.get(again..).unwrap_or_default();
        match &mut self.own {
            _ if new.is_empty() => {}
            None => self.live.see(stream, new),
            Some(own) => {
                let shown = own.take(stream, new, false);
                if !shown.is_empty() {
                    self.live.see(stream, &shown);
                }
            }
        }
    }

    fn tried(&mut self, violation: &Violation) {
        // The receiver is gone only when the journal failed, which ends the run anyway.
        let _ = self.noted.send(Noted::Tried(violation.clone()));
    }

    fn unrepeatable(&mut self, why: &str) {
        self.unrepeatable.tell(why);
        // The receiver may be gone, as above.
        let _ = self.noted.send(Noted::Unrepeatable(why.to_owned()));
    }
}

#[cfg(test)]
mod tests;
