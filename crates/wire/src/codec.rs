//! Encoding and decoding of messages. A message has exactly one encoding, and a decoded message fits a fixed memory budget.

use postcard::ser_flavors::{Flavor, Size};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::MAX_BODY_BYTES;
use crate::frame::{FrameHeader, FrameKind, HEADER_BYTES, MAX_PAYLOAD};
use crate::job::{MAX_ARGUMENTS_BYTES, PROTOCOL_VERSION};
use crate::stream::SOURCE_CAP;
use crate::trace::TRACE_CAP;

/// The most memory that a decoded message may take, all strings and lists included.
pub(crate) const MAX_DECODED_BYTES: usize = 256 * 1024;

/// A message that travels in one control frame.
pub trait ControlMessage: Serialize + DeserializeOwned {
    /// The most memory that the items of its lists take themselves; the frame bounds the bytes of its texts.
    const MAX_LIST_MEMORY: usize;

    /// Checks the constraints that the types do not express, before sending and after decoding.
    fn check(&self) -> Result<(), InvalidMessage>;
}

/// A well-formed message that its receiver must not act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMessage {
    /// The peer speaks another version.
    #[error("protocol version {theirs}, and this side speaks {PROTOCOL_VERSION}")]
    Version {
        /// The version in the message.
        theirs: u16,
    },
    /// A program job without a program.
    #[error("no program is named")]
    NoProgram,
    /// A code job in a language that has no code.
    #[error("`program` is not a language that code can be written in")]
    NoCode,
    /// The arguments are longer in total than a job may carry.
    #[error("the arguments have {bytes} bytes together, more than {MAX_ARGUMENTS_BYTES}")]
    Arguments {
        /// Their total length, without separators.
        bytes: usize,
    },
    /// The program text is longer than the source stream may carry.
    #[error("the program text has {bytes} bytes, more than {SOURCE_CAP}")]
    Source {
        /// The announced length of the program text.
        bytes: u64,
    },
    /// The input is longer than a body may be.
    #[error("the input has {bytes} bytes, more than {MAX_BODY_BYTES}")]
    Input {
        /// The announced length of the input.
        bytes: u64,
    },
    /// The trace is longer than an execution may have.
    #[error("the trace has {bytes} bytes, more than {TRACE_CAP}")]
    Trace {
        /// The announced length of the trace.
        bytes: u64,
    },
    /// The trace message has no bytes.
    #[error("an empty piece of a trace")]
    NoTrace,
    /// The body is longer than a body may be, or is streamed although it fits its message.
    #[error("a body of {bytes} bytes cannot travel so")]
    Body {
        /// The length of the body.
        bytes: usize,
    },
    /// The path is too long, or has a part that is empty, `.`, `..` or not plain text.
    #[error("the path of a file is not one below the workspace")]
    Path,
    /// The media type is not a lower-case `type/subtype` without parameters.
    #[error("what a file is said to be is no media type")]
    MediaType,
    /// The number is not a tunnel's.
    #[error("there can be no tunnel {number}")]
    Tunnel {
        /// The stream number in the message.
        number: u16,
    },
    /// The job has a network, but runs on the JavaScript engine, which has none.
    #[error("an engine has no network")]
    Network,
    /// A text has a NUL byte, so it cannot be passed to a program.
    #[error("a NUL byte in an argument, a path or the environment")]
    Nul,
    /// An environment name that is empty or holds `=`.
    #[error("an environment name is empty or contains `=`")]
    EnvironmentName,
}

/// Why a message cannot be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message does not fit one frame.
    #[error("the message does not fit a frame of {MAX_PAYLOAD} bytes")]
    TooLarge,
    /// The bytes do not have the shape of the type, or a text or list exceeds its maximum length.
    #[error("malformed message")]
    Malformed(#[source] postcard::Error),
    /// The payload goes on after the message.
    #[error("{bytes} bytes follow the message")]
    Trailing {
        /// How many bytes follow it.
        bytes: usize,
    },
    /// A number uses more bytes than it needs.
    #[error("the message is not in its one encoding")]
    NotCanonical,
    /// The message is well-formed but breaks a constraint.
    #[error(transparent)]
    Unfit(#[from] InvalidMessage),
}

/// Decodes the message in a control frame's payload.
pub fn decode<M: ControlMessage>(payload: &[u8]) -> Result<M, MessageError> {
    const {
        assert!(
            size_of::<M>() + M::MAX_LIST_MEMORY + MAX_PAYLOAD <= MAX_DECODED_BYTES,
            "a message could decode to more than the budget"
        );
    }
    if payload.len() > MAX_PAYLOAD {
        return Err(MessageError::TooLarge);
    }
    let (message, rest) = postcard::take_from_bytes::<M>(payload).map_err(MessageError::Malformed)?;
    if !rest.is_empty() {
        return Err(MessageError::Trailing { bytes: rest.len() });
    }
    let size = postcard::serialize_with_flavor(&message, Size::default()).map_err(MessageError::Malformed)?;
    if size != payload.len() {
        return Err(MessageError::NotCanonical);
    }
    message.check()?;
    Ok(message)
}

/// Appends the message to `into` as one whole control frame. On an error `into` stays as it was.
pub fn encode_frame<M: ControlMessage>(message: &M, into: &mut Vec<u8>) -> Result<(), MessageError> {
    message.check()?;
    let start = into.len();
    into.extend_from_slice(&[0; HEADER_BYTES]);
    let payload = PayloadWriter {
        bytes: into,
        start: start + HEADER_BYTES,
    };
    let header = postcard::serialize_with_flavor(message, payload)
        .map_err(|error| {
            if error == postcard::Error::SerializeBufferFull {
                MessageError::TooLarge
            } else {
                MessageError::Malformed(error)
            }
        })
        .and_then(|length| FrameHeader::new(FrameKind::Control, 0, length).map_err(|_| MessageError::TooLarge));
    match header {
        Ok(header) => {
            into[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
            Ok(())
        }
        Err(error) => {
            into.truncate(start);
            Err(error)
        }
    }
}

/// The end of a buffer that grows by at most one payload.
struct PayloadWriter<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
}

impl Flavor for PayloadWriter<'_> {
    type Output = u32;

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        if self.bytes.len() - self.start + data.len() > MAX_PAYLOAD {
            return Err(postcard::Error::SerializeBufferFull);
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.try_extend(&[data])
    }

    fn finalize(self) -> postcard::Result<u32> {
        u32::try_from(self.bytes.len() - self.start).map_err(|_| postcard::Error::SerializeBufferFull)
    }
}

#[cfg(test)]
mod tests;
