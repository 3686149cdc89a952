//! What a peer can do wrong on a pipe.

use crate::frame::FrameError;
use crate::stream::Stream;
use crate::tunnel::TunnelError;

/// What a peer did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A header that no frame may have.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The bytes ended within a frame.
    #[error("the input ended within a frame, with {held} bytes of it")]
    CutShort {
        /// Bytes of the frame that did come.
        held: usize,
    },
    /// A stream that does not exist.
    #[error("there is no stream {stream}")]
    UnknownStream {
        /// The number in the header.
        stream: u16,
    },
    /// A stream that this peer does not send, or credit for one that it does.
    #[error("the peer may not send this on {stream}")]
    WrongWay {
        /// The stream.
        stream: Stream,
    },
    /// Bytes or a second end after a stream's end.
    #[error("{stream} goes on after its end")]
    AfterEnd {
        /// The stream.
        stream: Stream,
    },
    /// More bytes than were granted.
    #[error("{stream} is {excess} bytes over its credit")]
    BeyondCredit {
        /// The stream.
        stream: Stream,
        /// How many too many.
        excess: usize,
    },
    /// More bytes than the stream may have in all.
    #[error("{stream} is longer than {cap} bytes")]
    BeyondCap {
        /// The stream.
        stream: Stream,
        /// What it may have.
        cap: u64,
    },
    /// A grant of nothing, or of more than was ever consumed.
    #[error("a grant of {grant} bytes for {stream} makes no sense")]
    BadGrant {
        /// The stream.
        stream: Stream,
        /// The grant.
        grant: u32,
    },
    /// Something wrong with a tunnel.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
}
