//! A program's output: kept for the result, shown live to whoever listens.

use ringfence_sandbox::{Output, Violation, Words};
use tokio::sync::mpsc;

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

/// Output as it is kept. The sandbox never hands over more than the policy's limit.
pub(crate) struct Kept<'a> {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    live: &'a mut dyn Live,
    /// What was tried, on its way to the journal.
    tried: mpsc::UnboundedSender<Violation>,
}

impl<'a> Kept<'a> {
    /// Kept output, and what is tried while it comes. The sandbox lists so few attempts that they need no bound here.
    pub(crate) fn new(live: &'a mut dyn Live) -> (Kept<'a>, mpsc::UnboundedReceiver<Violation>) {
        let (tried, attempts) = mpsc::unbounded_channel();
        let kept = Kept {
            stdout: Vec::new(),
            stderr: Vec::new(),
            live,
            tried,
        };
        (kept, attempts)
    }

    /// What was printed; nothing more will be tried.
    pub(crate) fn finish(self) -> (Vec<u8>, Vec<u8>) {
        (self.stdout, self.stderr)
    }
}

impl Words for Kept<'_> {
    fn take(&mut self, output: Output, bytes: &[u8]) {
        let (stream, kept) = match output {
            Output::Stdout => (Stream::Stdout, &mut self.stdout),
            Output::Stderr => (Stream::Stderr, &mut self.stderr),
        };
        kept.extend_from_slice(bytes);
        self.live.see(stream, bytes);
    }

    fn tried(&mut self, violation: &Violation) {
        // Nobody writes them down only when the journal failed, which ends the run anyway.
        let _ = self.tried.send(violation.clone());
    }
}
