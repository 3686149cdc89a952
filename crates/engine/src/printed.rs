//! What an execution that goes on has printed: every reader has its own place in it, so that none takes anything from another.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::told::Told;
use crate::words::Stream;

/// How far a reader has read what an execution printed: bytes of each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputCursor {
    stdout: usize,
    stderr: usize,
}

impl OutputCursor {
    pub(crate) fn of(self, stream: Stream) -> usize {
        match stream {
            Stream::Stdout => self.stdout,
            Stream::Stderr => self.stderr,
        }
    }

    /// Moves on to a place, and never back.
    pub(crate) fn advance(&mut self, stream: Stream, to: usize) {
        let place = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        *place = to.max(*place);
    }

    /// Whether more was printed than up to here.
    pub(crate) fn is_before(self, other: OutputCursor) -> bool {
        self.stdout < other.stdout || self.stderr < other.stderr
    }
}

impl fmt::Display for OutputCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.stdout, self.stderr)
    }
}

/// Not what a cursor is written as.
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

/// Everything that an execution printed so far.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// What of it was cleaned.
    told: Arc<tokio::sync::Mutex<Told>>,
    /// Those who still read when it ends.
    followers: usize,
    is_over: bool,
}

impl Printed {
    pub(crate) fn add(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(bytes),
            Stream::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }

    /// How far it can be told.
    pub(crate) fn end_of(&self) -> OutputCursor {
        OutputCursor {
            stdout: self.tellable(&self.stdout),
            stderr: self.tellable(&self.stderr),
        }
    }

    /// What was printed from one place to another, as far as it can be told.
    pub(crate) fn between(&self, stream: Stream, from: usize, to: usize) -> Vec<u8> {
        let bytes = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        bytes
            .get(from..to.min(self.tellable(bytes)))
            .unwrap_or_default()
            .to_vec()
    }

    /// What of it was cleaned, for whoever tells it.
    pub(crate) fn told(&self) -> Arc<tokio::sync::Mutex<Told>> {
        Arc::clone(&self.told)
    }

    /// Nothing more is printed: what nobody reads is forgotten.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        self.forget();
    }

    pub(crate) fn follow(&mut self) {
        self.followers += 1;
    }

    pub(crate) fn leave(&mut self) {
        self.followers = self.followers.saturating_sub(1);
        self.forget();
    }

    fn forget(&mut self) {
        if self.is_over && self.followers == 0 {
            self.stdout = Vec::new();
            self.stderr = Vec::new();
            self.told = Arc::default();
        }
    }

    /// Whole lines only, until it is over: half a line may be half of what must not be seen.
    fn tellable(&self, bytes: &[u8]) -> usize {
        if self.is_over {
            return bytes.len();
        }
        bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }
}

#[cfg(test)]
mod tests;
