//! The chunked coding of a request's body, followed to its end: sizes are bare hexadecimal, lines end in CRLF, no extensions.

/// Digits of a chunk's size.
const DIGITS: u8 = 15;
/// Bytes of what follows the last chunk.
const TRAILERS: usize = 16 * 1024;

/// Where in the coding we are.
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
    /// A line behind the last chunk, with what was read of it.
    Trailer {
        length: usize,
        cr: bool,
    },
}

/// A body under way.
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

/// How a body goes on after some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    More,
    Over,
    /// It cannot be read in one way only.
    Bad,
}

impl Chunks {
    /// How many of these bytes belong to the body, and how it goes on after them.
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

    /// One byte that is not data.
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
                // A folded line would begin with a space.
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
