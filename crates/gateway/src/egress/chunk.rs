//! Follows the chunked coding of a request body to its end: sizes are bare hexadecimal, lines end in CRLF, extensions
//! are refused.

/// Most hexadecimal digits of a chunk size.
const MAX_SIZE_DIGITS: u8 = 15;
/// Most bytes of the trailers behind the last chunk.
const MAX_TRAILER_BYTES: usize = 16 * 1024;

/// A position in the chunked coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkPosition {
    Size {
        value: u64,
        digits: u8,
    },
    SizeEnd(u64),
    Data(u64),
    DataEnd,
    DataEndLf,
    /// In a line behind the last chunk, with the bytes read so far.
    Trailer {
        length: usize,
        cr: bool,
    },
}

/// Scans the chunks of one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkScanner {
    at: ChunkPosition,
    trailers: usize,
}

impl Default for ChunkScanner {
    fn default() -> ChunkScanner {
        ChunkScanner {
            at: INITIAL_POSITION,
            trailers: 0,
        }
    }
}

const INITIAL_POSITION: ChunkPosition = ChunkPosition::Size { value: 0, digits: 0 };

/// Where the body stands after some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanProgress {
    More,
    Complete,
    /// The coding is invalid or ambiguous.
    Invalid,
}

impl ChunkScanner {
    /// Returns how many of these bytes belong to the body, and where the body stands after them.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> (usize, ScanProgress) {
        let mut read = 0;
        while let Some(byte) = bytes.get(read) {
            if let ChunkPosition::Data(left) = self.at {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - read);
                read += length;
                let left = left - length as u64;
                self.at = if left == 0 {
                    ChunkPosition::DataEnd
                } else {
                    ChunkPosition::Data(left)
                };
                continue;
            }
            match self.scan_byte(*byte) {
                ScanProgress::More => read += 1,
                ScanProgress::Complete => return (read + 1, ScanProgress::Complete),
                ScanProgress::Invalid => return (read, ScanProgress::Invalid),
            }
        }
        (read, ScanProgress::More)
    }

    /// Scans one byte outside of chunk data.
    fn scan_byte(&mut self, byte: u8) -> ScanProgress {
        self.at = match (self.at, byte) {
            (ChunkPosition::Size { value, digits }, byte) if byte.is_ascii_hexdigit() && digits < MAX_SIZE_DIGITS => {
                ChunkPosition::Size {
                    value: value * 16 + u64::from(char::from(byte).to_digit(16).unwrap_or_default()),
                    digits: digits + 1,
                }
            }
            (ChunkPosition::Size { value, digits: 1.. }, b'\r') => ChunkPosition::SizeEnd(value),
            (ChunkPosition::SizeEnd(0), b'\n') => ChunkPosition::Trailer { length: 0, cr: false },
            (ChunkPosition::SizeEnd(size), b'\n') => ChunkPosition::Data(size),
            (ChunkPosition::DataEnd, b'\r') => ChunkPosition::DataEndLf,
            (ChunkPosition::DataEndLf, b'\n') => INITIAL_POSITION,
            (ChunkPosition::Trailer { length, cr: false }, b'\r') => ChunkPosition::Trailer { length, cr: true },
            (ChunkPosition::Trailer { length: 0, cr: true }, b'\n') => return ScanProgress::Complete,
            (ChunkPosition::Trailer { cr: true, .. }, b'\n') => ChunkPosition::Trailer { length: 0, cr: false },
            (ChunkPosition::Trailer { length, cr: false }, b' '..=b'~' | b'\t' | 0x80..)
                if self.trailers < MAX_TRAILER_BYTES =>
            {
                // A folded line begins with a space.
                if length == 0 && matches!(byte, b' ' | b'\t') {
                    return ScanProgress::Invalid;
                }
                self.trailers += 1;
                ChunkPosition::Trailer {
                    length: length + 1,
                    cr: false,
                }
            }
            _ => return ScanProgress::Invalid,
        };
        ScanProgress::More
    }
}

#[cfg(test)]
mod tests;
