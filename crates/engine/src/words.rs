//! A program's output: kept for the result, shown live to whoever listens.

use ringfence_sandbox::{Output, Words};

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
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) live: &'a mut dyn Live,
}

impl<'a> Kept<'a> {
    pub(crate) fn new(live: &'a mut dyn Live) -> Kept<'a> {
        Kept {
            stdout: Vec::new(),
            stderr: Vec::new(),
            live,
        }
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
}
