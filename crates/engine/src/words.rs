//! A program's output: kept for the result, shown live to whoever listens.

use std::sync::Arc;

use ringfence_gateway::Screen;
use ringfence_sandbox::{Output, Violation, Words};
use tokio::sync::mpsc;

use crate::attempt::Unrepeatable;

/// Which of a program's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Somebody who sees output while a program runs.
pub trait Live: Send {
    /// Sees some of it.
    fn see(&mut self, stream: Stream, bytes: &[u8]);
}

/// Nobody.
impl Live for () {
    fn see(&mut self, _: Stream, _: &[u8]) {}
}

/// How much of an execution's output was shown: what it prints again is not shown again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    stdout: usize,
    stderr: usize,
}

/// What happens beside a program's output.
#[derive(Debug)]
pub(crate) enum Noted {
    /// It tried something and was refused.
    Tried(Violation),
    /// It cannot be run again.
    Unrepeatable(String),
}

/// How an alias begins and ends.
const OPEN: &[u8] = "‹".as_bytes();
const CLOSE: &[u8] = "›".as_bytes();
/// The longest alias.
const LONGEST: usize = 32;

/// The owner's view of an output while it comes: values in place of their aliases.
struct Own {
    screen: Arc<Screen>,
    /// What waits: for the rest of an alias, or for somebody who looks just now.
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

    /// What can be shown now.
    fn take(&mut self, stream: Stream, bytes: &[u8], is_all: bool) -> Vec<u8> {
        let waiting = self.waiting(stream);
        waiting.extend_from_slice(bytes);
        let end = if is_all { waiting.len() } else { safe(waiting) };
        let now = waiting.get(..end).unwrap_or_default().to_vec();
        let shown = match revealed(&self.screen, &now) {
            Some(shown) => shown,
            // Shown with what comes next.
            None if !is_all => return Vec::new(),
            None => now,
        };
        self.waiting(stream).drain(..end);
        shown
    }
}

/// Values in place of aliases, whatever else is between them: a letter may be cut, or of another coding. Nothing where somebody else
/// looks just now.
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

/// Up to where no alias is cut.
fn safe(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(LONGEST);
    let tail = bytes.get(from..).unwrap_or_default();
    let last = |part: &[u8]| tail.windows(part.len()).rposition(|window| window == part);
    match (last(OPEN), last(CLOSE)) {
        (Some(open), close) if close.is_none_or(|close| close < open) => from + open,
        // Of the bracket itself only a part may be there.
        _ => {
            let part = |length: &usize| OPEN.get(..*length).is_some_and(|part| tail.ends_with(part));
            bytes.len() - (1..OPEN.len()).rev().find(part).unwrap_or(0)
        }
    }
}

/// Output as it is kept. The sandbox never hands over more than the policy's limit.
pub(crate) struct Kept<'a> {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    live: &'a mut dyn Live,
    seen: Seen,
    own: Option<Own>,
    /// What happened beside its output, on its way to be written down.
    noted: mpsc::UnboundedSender<Noted>,
    unrepeatable: Unrepeatable,
}

impl<'a> Kept<'a> {
    /// Kept output, and what happens while it comes. The sandbox tells of so little that it needs no bound here. With a screen,
    /// who sees it sees values in place of aliases.
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

    /// The same, where somebody waits to hear that the program cannot be run again.
    pub(crate) fn telling(self, unrepeatable: Unrepeatable) -> Kept<'a> {
        Kept { unrepeatable, ..self }
    }

    /// How much was shown until now.
    pub(crate) fn seen(&self) -> Seen {
        Seen {
            stdout: self.seen.stdout.max(self.stdout.len()),
            stderr: self.seen.stderr.max(self.stderr.len()),
        }
    }

    /// What was printed; nothing more will be tried.
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
        // Nobody writes them down only when the journal failed, which ends the run anyway.
        let _ = self.noted.send(Noted::Tried(violation.clone()));
    }

    fn unrepeatable(&mut self, why: &str) {
        self.unrepeatable.tell(why);
        // As above.
        let _ = self.noted.send(Noted::Unrepeatable(why.to_owned()));
    }
}

#[cfg(test)]
mod tests;
