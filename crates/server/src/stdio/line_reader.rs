//! Reads one line at a time, with bounded memory.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The most bytes of a line, enough for a message with files.
pub(super) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The bytes at each end of a line that is too long, in which its id is searched.
const EDGE_BYTES: usize = 4096;

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputLine {
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

/// The lines of a stream. A dropped [`BoundedLines::next_line`] loses nothing; the next call continues.
#[derive(Debug)]
pub(super) struct BoundedLines<R> {
    from: R,
    buffered: Vec<u8>,
    tail: Vec<u8>,
    too_long: bool,
    max_bytes: usize,
}

impl<R: AsyncBufRead + Unpin> BoundedLines<R> {
    pub(super) fn new(from: R, max_bytes: usize) -> BoundedLines<R> {
        BoundedLines {
            from,
            buffered: Vec::new(),
            tail: Vec::new(),
            too_long: false,
            max_bytes,
        }
    }

    /// The next line; an incomplete last line is dropped.
    pub(super) async fn next_line(&mut self) -> std::io::Result<InputLine> {
        loop {
            let piece = self.from.fill_buf().await?;
            if piece.is_empty() {
                return Ok(InputLine::End);
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let (text, used) = match end {
                Some(end) => (piece.get(..end).unwrap_or_default(), end + 1),
                None => (piece, piece.len()),
            };
            if !self.too_long && self.buffered.len() + text.len() > self.max_bytes {
                self.too_long = true;
                self.buffered.truncate(EDGE_BYTES);
                self.buffered.shrink_to_fit();
            }
            if self.too_long {
                self.tail.extend_from_slice(text);
                let over = self.tail.len().saturating_sub(EDGE_BYTES);
                self.tail.drain(..over);
            } else {
                self.buffered.extend_from_slice(text);
            }
            self.from.consume(used);
            if end.is_some() {
                return Ok(self.take_line());
            }
        }
    }

    fn take_line(&mut self) -> InputLine {
        let kept = std::mem::take(&mut self.buffered);
        if std::mem::take(&mut self.too_long) {
            return InputLine::TooLong {
                head: kept,
                tail: std::mem::take(&mut self.tail),
            };
        }
        InputLine::Whole(kept)
    }
}

#[cfg(test)]
mod tests;
