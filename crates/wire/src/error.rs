//! Errors that a peer causes on a pipe.

use crate::frame::FrameHeaderError;
use crate::stream::PipeStream;
use crate::tunnel::TunnelError;

/// Why the bytes from a peer are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The header is not one that a frame may have.
    #[error(transparent)]
    Frame(#[from] FrameHeaderError),
    /// The input ends within a frame.
    #[error("the input ended within a frame, with {held} bytes of it")]
    CutShort {
        /// Bytes of the incomplete frame that arrived.
        held: usize,
    },
    /// The stream does not exist in this conversation.
    #[error("there is no stream {stream}")]
    UnknownStream {
        /// The number in the header.
        stream: u16,
    },
    /// The peer does not send this stream, or grants credit for a stream that it sends itself.
    #[error("the peer may not send this on {stream}")]
    WrongWay {
        /// The stream in the header.
        stream: PipeStream,
    },
    /// The peer sends bytes or a second end after the stream's end.
    #[error("{stream} goes on after its end")]
    AfterEnd {
        /// The stream that has ended.
        stream: PipeStream,
    },
    /// The peer sends more bytes than it was granted.
    #[error("{stream} is {excess} bytes over its credit")]
    BeyondCredit {
        /// The stream without enough credit.
        stream: PipeStream,
        /// How many bytes exceed the credit.
        excess: usize,
    },
    /// The peer sends more bytes than the stream may have in total.
    #[error("{stream} is longer than {cap} bytes")]
    BeyondCap {
        /// The stream that exceeds its cap.
        stream: PipeStream,
        /// The most bytes that the stream may have.
        cap: u64,
    },
    /// The peer grants 0 bytes, or more than it consumed.
    #[error("a grant of {grant} bytes for {stream} makes no sense")]
    BadGrant {
        /// The stream that the grant is for.
        stream: PipeStream,
        /// The number of bytes granted.
        grant: u32,
    },
    /// A frame of a tunnel is invalid.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
}
