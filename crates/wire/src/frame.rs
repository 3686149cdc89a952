//! The eight bytes before every payload. A header that does not say exactly what its kind allows never becomes a [`Header`].

/// Bytes of a header: length `u32`, stream `u16`, kind `u8`, zero `u8`, all little-endian.
pub const HEADER: usize = 8;

/// The most bytes a frame may carry after its header.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// [`MAX_PAYLOAD`] as it stands in a header.
const MAX_LENGTH: u32 = 64 * 1024;

/// The payload of a credit frame: one `u32`.
const CREDIT_LENGTH: u32 = 4;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// One encoded message, on stream 0.
    Control = 0,
    /// Bytes of a stream.
    Data = 1,
    /// No more bytes will follow on a stream.
    End = 2,
    /// The receiver of a stream allows so many more bytes.
    Credit = 3,
    /// The sender says no more of a tunnel.
    Close = 4,
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The payload would be longer than [`MAX_PAYLOAD`].
    #[error("a frame of {length} bytes is larger than {MAX_PAYLOAD}")]
    Oversized {
        /// The length the header claims.
        length: u32,
    },
    /// The kind is none of [`Kind`].
    #[error("unknown frame kind {kind}")]
    UnknownKind {
        /// The byte that stood there.
        kind: u8,
    },
    /// The last byte is not zero.
    #[error("the reserved byte of a frame is {value} instead of 0")]
    Reserved {
        /// The byte that stood there.
        value: u8,
    },
    /// Control outside stream 0, or anything else on it.
    #[error("a {kind:?} frame may not travel on stream {stream}")]
    WrongLane {
        /// The frame's kind.
        kind: Kind,
        /// The stream it claims.
        stream: u16,
    },
    /// The length is not one this kind can have.
    #[error("a {kind:?} frame cannot have {length} bytes")]
    WrongLength {
        /// The frame's kind.
        kind: Kind,
        /// The length it claims.
        length: u32,
    },
}

/// A header that has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    length: u32,
    stream: u16,
    kind: Kind,
}

impl Header {
    /// A header for a payload of `length` bytes; refused as [`Header::read`] would refuse it.
    pub fn new(kind: Kind, stream: u16, length: u32) -> Result<Self, FrameError> {
        if length > MAX_LENGTH {
            return Err(FrameError::Oversized { length });
        }
        if (kind == Kind::Control) != (stream == 0) {
            return Err(FrameError::WrongLane { kind, stream });
        }
        let fits = match kind {
            Kind::Control | Kind::Data => length > 0,
            Kind::End | Kind::Close => length == 0,
            Kind::Credit => length == CREDIT_LENGTH,
        };
        if fits {
            Ok(Self { length, stream, kind })
        } else {
            Err(FrameError::WrongLength { kind, length })
        }
    }

    /// A header for a frame that is right by construction.
    pub(crate) fn on(stream: u16, kind: Kind, length: u32) -> Self {
        Self { length, stream, kind }
    }

    /// Parses what stands before a payload.
    pub fn read(bytes: [u8; HEADER]) -> Result<Self, FrameError> {
        let [a, b, c, d, low, high, kind, reserved] = bytes;
        let kind = match kind {
            0 => Kind::Control,
            1 => Kind::Data,
            2 => Kind::End,
            3 => Kind::Credit,
            4 => Kind::Close,
            kind => return Err(FrameError::UnknownKind { kind }),
        };
        if reserved != 0 {
            return Err(FrameError::Reserved { value: reserved });
        }
        Self::new(kind, u16::from_le_bytes([low, high]), u32::from_le_bytes([a, b, c, d]))
    }

    /// The bytes that go before the payload.
    pub fn write(self) -> [u8; HEADER] {
        let [a, b, c, d] = self.length.to_le_bytes();
        let [low, high] = self.stream.to_le_bytes();
        [a, b, c, d, low, high, self.kind as u8, 0]
    }

    /// Bytes of the payload.
    pub fn length(self) -> usize {
        self.length as usize
    }

    /// The stream's number; 0 for control.
    pub fn stream(self) -> u16 {
        self.stream
    }

    /// What the payload is.
    pub fn kind(self) -> Kind {
        self.kind
    }
}

#[cfg(test)]
mod tests;
