//! The eight bytes before every payload. Bytes that break the rules of their frame kind never become a [`FrameHeader`].

/// Bytes of a header: length `u32`, stream `u16`, kind `u8`, zero `u8`, all little-endian.
pub const HEADER_BYTES: usize = 8;

/// The most bytes a frame may carry after its header.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// [`MAX_PAYLOAD`] in the type of the header field.
const MAX_LENGTH: u32 = 64 * 1024;

/// The payload length of a credit frame, which holds one `u32`.
const CREDIT_LENGTH: u32 = 4;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// One encoded message, on stream 0.
    Control = 0,
    /// Bytes of a stream.
    Data = 1,
    /// No more bytes will follow on a stream.
    End = 2,
    /// The receiver of a stream grants the sender more bytes.
    Credit = 3,
    /// The sender has finished with a tunnel: it sends nothing more about it.
    Close = 4,
}

/// Why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameHeaderError {
    /// The payload would be longer than [`MAX_PAYLOAD`].
    #[error("a frame of {length} bytes is larger than {MAX_PAYLOAD}")]
    Oversized {
        /// The length in the header.
        length: u32,
    },
    /// The kind is none of [`FrameKind`].
    #[error("unknown frame kind {kind}")]
    UnknownKind {
        /// The byte in the kind field.
        kind: u8,
    },
    /// The last byte is not zero.
    #[error("the reserved byte of a frame is {value} instead of 0")]
    Reserved {
        /// The byte in the reserved field.
        value: u8,
    },
    /// The frame is a control frame outside stream 0, or another frame on it.
    #[error("a {kind:?} frame may not travel on stream {stream}")]
    WrongLane {
        /// The kind that the stream does not match.
        kind: FrameKind,
        /// The stream in the header.
        stream: u16,
    },
    /// The length is not one that the kind allows.
    #[error("a {kind:?} frame cannot have {length} bytes")]
    WrongLength {
        /// The kind that the length does not match.
        kind: FrameKind,
        /// The length in the header.
        length: u32,
    },
}

/// A header that follows the rules of its frame kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    length: u32,
    stream: u16,
    kind: FrameKind,
}

impl FrameHeader {
    /// Makes a header for a payload of `length` bytes, under the same rules as [`FrameHeader::parse`].
    pub fn new(kind: FrameKind, stream: u16, length: u32) -> Result<Self, FrameHeaderError> {
        if length > MAX_LENGTH {
            return Err(FrameHeaderError::Oversized { length });
        }
        if (kind == FrameKind::Control) != (stream == 0) {
            return Err(FrameHeaderError::WrongLane { kind, stream });
        }
        let fits = match kind {
            FrameKind::Control | FrameKind::Data => length > 0,
            FrameKind::End | FrameKind::Close => length == 0,
            FrameKind::Credit => length == CREDIT_LENGTH,
        };
        if fits {
            Ok(Self { length, stream, kind })
        } else {
            Err(FrameHeaderError::WrongLength { kind, length })
        }
    }

    /// Makes a header whose values the caller knows to be valid.
    pub(crate) fn new_unchecked(stream: u16, kind: FrameKind, length: u32) -> Self {
        Self { length, stream, kind }
    }

    /// Parses the eight bytes before a payload and checks them.
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Self, FrameHeaderError> {
        let [a, b, c, d, low, high, kind, reserved] = bytes;
        let kind = match kind {
            0 => FrameKind::Control,
            1 => FrameKind::Data,
            2 => FrameKind::End,
            3 => FrameKind::Credit,
            4 => FrameKind::Close,
            kind => return Err(FrameHeaderError::UnknownKind { kind }),
        };
        if reserved != 0 {
            return Err(FrameHeaderError::Reserved { value: reserved });
        }
        Self::new(kind, u16::from_le_bytes([low, high]), u32::from_le_bytes([a, b, c, d]))
    }

    /// Encodes the header as the eight bytes before the payload.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [a, b, c, d] = self.length.to_le_bytes();
        let [low, high] = self.stream.to_le_bytes();
        [a, b, c, d, low, high, self.kind as u8, 0]
    }

    /// The length of the payload in bytes.
    pub fn length(self) -> usize {
        self.length as usize
    }

    /// The stream's number; 0 for control.
    pub fn stream(self) -> u16 {
        self.stream
    }

    /// What the frame carries.
    pub fn kind(self) -> FrameKind {
        self.kind
    }
}

#[cfg(test)]
mod tests;
