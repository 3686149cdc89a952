//! One line at a time, never more than a bound of it in memory.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The most bytes of a line: a message with files in it fits, a flood does not.
pub(super) const LONGEST: usize = 16 * 1024 * 1024;

/// How much of either end of a line that is too long is looked at for its id.
const EDGE: usize = 4096;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A whole line, without its end.
    Whole(Vec<u8>),
    /// A line that was too long, both ends of it.
    TooLong {
        /// How it began.
        head: Vec<u8>,
        /// How it ended.
        tail: Vec<u8>,
    },
    /// Nothing more comes.
    End,
}

/// Lines of a stream. [`Lines::next`] may be dropped at any time and asked again: nothing is lost.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    kept: Vec<u8>,
    tail: Vec<u8>,
    too_long: bool,
    longest: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(from: R, longest: usize) -> Lines<R> {
        Lines {
            from,
            kept: Vec::new(),
            tail: Vec::new(),
            too_long: false,
            longest,
        }
    }

    /// The next line; what follows the last newline is none.
    pub(super) async fn next(&mut self) -> std::io::Result<Line> {
        loop {
            let piece = self.from.fill_buf().await?;
            if piece.is_empty() {
                return Ok(Line::End);
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let (text, used) = match end {
                Some(end) => (piece.get(..end).unwrap_or_default(), end + 1),
                None => (piece, piece.len()),
            };
            if !self.too_long && self.kept.len() + text.len() > self.longest {
                self.too_long = true;
                self.kept.truncate(EDGE);
                self.kept.shrink_to_fit();
            }
            if self.too_long {
                self.tail.extend_from_slice(text);
                let over = self.tail.len().saturating_sub(EDGE);
                self.tail.drain(..over);
            } else {
                self.kept.extend_from_slice(text);
            }
            self.from.consume(used);
            if end.is_some() {
                return Ok(self.finish());
            }
        }
    }

    fn finish(&mut self) -> Line {
        let kept = std::mem::take(&mut self.kept);
        if std::mem::take(&mut self.too_long) {
            return Line::TooLong {
                head: kept,
                tail: std::mem::take(&mut self.tail),
            };
        }
        Line::Whole(kept)
    }
}

#[cfg(test)]
mod tests;
