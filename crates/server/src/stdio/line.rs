//! Reads one line at a time, with bounded memory.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The most bytes of a line, enough for a message with files.
pub(super) const LONGEST: usize = 16 * 1024 * 1024;

/// The bytes at each end of a line that is too long, in which its id is searched.
const EDGE: usize = 4096;

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A complete line, without its newline.
    Whole(Vec<u8>),
    /// The two ends of a line that was too long.
    TooLong {
        /// The first bytes of the line.
        head: Vec<u8>,
        /// The last bytes of the line.
        tail: Vec<u8>,
    },
    /// The stream has ended.
    End,
}

/// The lines of a stream. A dropped [`Lines::next`] loses nothing; the next call continues.
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

    /// The next line; an incomplete last line is dropped.
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
