//! The output buffer of a running execution: each reader has a cursor of its own, so none takes output from another.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::output::ProgramStream;
use crate::redact::run_output::RedactedOutputs;

/// How far a reader has read an execution's output, in bytes of each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputCursor {
    stdout: usize,
    stderr: usize,
}

impl OutputCursor {
    pub(crate) fn offset_of(self, stream: ProgramStream) -> usize {
        match stream {
            ProgramStream::Stdout => self.stdout,
            ProgramStream::Stderr => self.stderr,
        }
    }

    /// Advances the cursor of a stream, never backwards.
    pub(crate) fn advance(&mut self, stream: ProgramStream, to: usize) {
        let place = match stream {
            ProgramStream::Stdout => &mut self.stdout,
            ProgramStream::Stderr => &mut self.stderr,
        };
        *place = to.max(*place);
    }

    /// Whether the other cursor is further in any stream.
    pub(crate) fn is_before(self, other: OutputCursor) -> bool {
        self.stdout < other.stdout || self.stderr < other.stderr
    }
}

impl fmt::Display for OutputCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.stdout, self.stderr)
    }
}

/// The text is not a cursor of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a place in what a run printed")]
pub struct OutputCursorError;

impl FromStr for OutputCursor {
    type Err = OutputCursorError;

    fn from_str(text: &str) -> Result<OutputCursor, OutputCursorError> {
        let (stdout, stderr) = text.split_once('-').ok_or(OutputCursorError)?;
        let read = |text: &str| text.parse().map_err(|_| OutputCursorError);
        Ok(OutputCursor {
            stdout: read(stdout)?,
            stderr: read(stderr)?,
        })
    }
}

/// Everything that an execution has printed so far.
#[derive(Debug, Default)]
pub(crate) struct OutputBuffer {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// The part of the output that is cleaned for readers.
    delivered: Arc<tokio::sync::Mutex<RedactedOutputs>>,
    /// Subscribers that keep the output after the end.
    followers: usize,
    is_over: bool,
}

impl OutputBuffer {
    pub(crate) fn append(&mut self, stream: ProgramStream, bytes: &[u8]) {
        match stream {
            ProgramStream::Stdout => self.stdout.extend_from_slice(bytes),
            ProgramStream::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }

    /// The end of what readers may get.
    pub(crate) fn end_of(&self) -> OutputCursor {
        OutputCursor {
            stdout: self.tellable(&self.stdout),
            stderr: self.tellable(&self.stderr),
        }
    }

    /// The output between two positions, as far as readers may get it.
    pub(crate) fn between(&self, stream: ProgramStream, from: usize, to: usize) -> Vec<u8> {
        let bytes = match stream {
            ProgramStream::Stdout => &self.stdout,
            ProgramStream::Stderr => &self.stderr,
        };
        bytes
            .get(from..to.min(self.tellable(bytes)))
            .unwrap_or_default()
            .to_vec()
    }

    /// The cleaned part of the output, shared between readers.
    pub(crate) fn redacted(&self) -> Arc<tokio::sync::Mutex<RedactedOutputs>> {
        Arc::clone(&self.delivered)
    }

    /// Marks the end of the output, and clears it if nobody reads.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        self.clear_if_unread();
    }

    pub(crate) fn add_follower(&mut self) {
        self.followers += 1;
    }

    pub(crate) fn remove_follower(&mut self) {
        self.followers = self.followers.saturating_sub(1);
        self.clear_if_unread();
    }

    fn clear_if_unread(&mut self) {
        if self.is_over && self.followers == 0 {
            self.stdout = Vec::new();
            self.stderr = Vec::new();
            self.delivered = Arc::default();
        }
    }

    /// Whole lines only until the end: half a line may be half of a value that must not be shown.
    fn tellable(&self, bytes: &[u8]) -> usize {
        if self.is_over {
            return bytes.len();
        }
        bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }
}

#[cfg(test)]
mod tests;
