//! What an execution that goes on has printed: every reader has its own place in it, so that none takes anything from another.

use std::fmt;
use std::str::FromStr;

use crate::words::Stream;

/// How far a reader has read what an execution printed: bytes of each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputCursor {
    stdout: usize,
    stderr: usize,
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

/// What was printed after a place: all of it from the beginning, and where what is new begins.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) text: String,
    pub(crate) from: usize,
}

/// What one look at the output shows, and from where to look next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) stdout: News,
    pub(crate) stderr: News,
    pub(crate) next: OutputCursor,
}

/// Everything that an execution printed so far.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// What was told to those who ask for what is new.
    told: OutputCursor,
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

    pub(crate) fn after(&self, cursor: OutputCursor) -> Look {
        let (stdout, out) = self.news(&self.stdout, cursor.stdout);
        let (stderr, err) = self.news(&self.stderr, cursor.stderr);
        let next = OutputCursor {
            stdout: out,
            stderr: err,
        };
        Look { stdout, stderr, next }
    }

    /// What nobody asked for yet.
    pub(crate) fn untold(&mut self) -> Look {
        let look = self.after(self.told);
        self.told = look.next;
        look
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
        }
    }

    /// Whole lines only, until it is over: half a line may be half of what must not be seen.
    fn news(&self, bytes: &[u8], told: usize) -> (News, usize) {
        let line = || bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end = if self.is_over { bytes.len() } else { line() };
        if end <= told {
            return (News::default(), told);
        }
        let lossy = |end: usize| String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
        let (text, from) = (lossy(end).into_owned(), lossy(told).len());
        (News { text, from }, end)
    }
}

#[cfg(test)]
mod tests;
