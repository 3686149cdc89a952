//! Encoding and decoding of messages. A message has exactly one encoding, and a decoded message fits a fixed memory budget.

use postcard::ser_flavors::{Flavor, Size};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::BODY_CAP;
use crate::frame::{HEADER, Header, Kind, MAX_PAYLOAD};
use crate::job::{ARGUMENTS_MAX, VERSION};
use crate::stream::SOURCE_CAP;
use crate::trace::TRACE_CAP;

/// The most memory that a decoded message may take, all strings and lists included.
pub(crate) const DECODED_MAX: usize = 256 * 1024;

/// A message that travels in one control frame.
pub trait Message: Serialize + DeserializeOwned {
    /// The most memory that the items of its lists take themselves; the frame bounds the bytes of its texts.
    const LISTS: usize;

    /// Checks the constraints that the types do not express, before sending and after decoding.
    fn check(&self) -> Result<(), Unfit>;
}

/// A well-formed message that its receiver must not act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The peer speaks another version.
    #[error("protocol version {theirs}, and this side speaks {VERSION}")]
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
    #[error("the arguments have {bytes} bytes together, more than {ARGUMENTS_MAX}")]
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
    #[error("the input has {bytes} bytes, more than {BODY_CAP}")]
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
    Unfit(#[from] Unfit),
}

/// Decodes the message in a control frame's payload.
pub fn decode<M: Message>(payload: &[u8]) -> Result<M, MessageError> {
    const {
        assert!(
            size_of::<M>() + M::LISTS + MAX_PAYLOAD <= DECODED_MAX,
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
pub fn encode_frame<M: Message>(message: &M, into: &mut Vec<u8>) -> Result<(), MessageError> {
    message.check()?;
    let start = into.len();
    into.extend_from_slice(&[0; HEADER]);
    let payload = Payload {
        bytes: into,
        start: start + HEADER,
    };
    let header = postcard::serialize_with_flavor(message, payload)
        .map_err(|error| {
            if error == postcard::Error::SerializeBufferFull {
                MessageError::TooLarge
            } else {
                MessageError::Malformed(error)
            }
        })
        .and_then(|length| Header::new(Kind::Control, 0, length).map_err(|_| MessageError::TooLarge));
    match header {
        Ok(header) => {
            into[start..start + HEADER].copy_from_slice(&header.write());
            Ok(())
        }
        Err(error) => {
            into.truncate(start);
            Err(error)
        }
    }
}

/// The end of a buffer that grows by at most one payload.
struct Payload<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
}

impl Flavor for Payload<'_> {
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
