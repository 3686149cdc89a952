//! Follows the chunked coding of a request body to its end: sizes are bare hexadecimal, lines end in CRLF, extensions
//! are refused.

/// Most hexadecimal digits of a chunk size.
const DIGITS: u8 = 15;
/// Most bytes of the trailers behind the last chunk.
const TRAILERS: usize = 16 * 1024;

/// A position in the chunked coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
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
pub(super) struct Chunks {
    at: At,
    trailers: usize,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks { at: START, trailers: 0 }
    }
}

const START: At = At::Size { value: 0, digits: 0 };

/// Where the body stands after some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    More,
    Over,
    /// The coding is invalid or ambiguous.
    Bad,
}

impl Chunks {
    /// Returns how many of these bytes belong to the body, and where the body stands after them.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, Next) {
        let mut read = 0;
        while let Some(byte) = bytes.get(read) {
            if let At::Data(left) = self.at {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - read);
                read += length;
                let left = left - length as u64;
                self.at = if left == 0 { At::DataEnd } else { At::Data(left) };
                continue;
            }
            match self.step(*byte) {
                Next::More => read += 1,
                Next::Over => return (read + 1, Next::Over),
                Next::Bad => return (read, Next::Bad),
            }
        }
        (read, Next::More)
    }

    /// Scans one byte outside of chunk data.
    fn step(&mut self, byte: u8) -> Next {
        self.at = match (self.at, byte) {
            (At::Size { value, digits }, byte) if byte.is_ascii_hexdigit() && digits < DIGITS => At::Size {
                value: value * 16 + u64::from(char::from(byte).to_digit(16).unwrap_or_default()),
                digits: digits + 1,
            },
            (At::Size { value, digits: 1.. }, b'\r') => At::SizeEnd(value),
            (At::SizeEnd(0), b'\n') => At::Trailer { length: 0, cr: false },
            (At::SizeEnd(size), b'\n') => At::Data(size),
            (At::DataEnd, b'\r') => At::DataEndLf,
            (At::DataEndLf, b'\n') => START,
            (At::Trailer { length, cr: false }, b'\r') => At::Trailer { length, cr: true },
            (At::Trailer { length: 0, cr: true }, b'\n') => return Next::Over,
            (At::Trailer { cr: true, .. }, b'\n') => At::Trailer { length: 0, cr: false },
            (At::Trailer { length, cr: false }, b' '..=b'~' | b'\t' | 0x80..) if self.trailers < TRAILERS => {
                // A folded line begins with a space.
                if length == 0 && matches!(byte, b' ' | b'\t') {
                    return Next::Bad;
                }
                self.trailers += 1;
                At::Trailer {
                    length: length + 1,
                    cr: false,
                }
            }
            _ => return Next::Bad,
        };
        Next::More
    }
}

#[cfg(test)]
mod tests;
