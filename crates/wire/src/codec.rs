//! Messages to bytes and back. A message has exactly one encoding, and what decodes fits a fixed budget of memory.

use postcard::ser_flavors::{Flavor, Size};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::BODY_CAP;
use crate::frame::{HEADER, Header, Kind, MAX_PAYLOAD};
use crate::job::{ARGUMENTS_MAX, VERSION};
use crate::stream::SOURCE_CAP;
use crate::trace::TRACE_CAP;

/// The most memory a decoded message may take, all strings and lists included.
pub(crate) const DECODED_MAX: usize = 256 * 1024;

/// What travels in one control frame.
pub trait Message: Serialize + DeserializeOwned {
    /// The most memory of its lists' own items; the bytes of its texts are bounded by the frame.
    const LISTS: usize;

    /// What the types alone do not promise. Asked before sending and after decoding.
    fn check(&self) -> Result<(), Unfit>;
}

/// A message that is well-formed and still must not be acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The peer speaks another version.
    #[error("protocol version {theirs}, and this side speaks {VERSION}")]
    Version {
        /// What the message says.
        theirs: u16,
    },
    /// A program job without a program.
    #[error("no program is named")]
    NoProgram,
    /// A code job in a language that has no code.
    #[error("`program` is not a language that code can be written in")]
    NoCode,
    /// Arguments longer together than a job may carry.
    #[error("the arguments have {bytes} bytes together, more than {ARGUMENTS_MAX}")]
    Arguments {
        /// Their length.
        bytes: usize,
    },
    /// More program text than the source stream may carry.
    #[error("the program text has {bytes} bytes, more than {SOURCE_CAP}")]
    Source {
        /// Its length.
        bytes: u64,
    },
    /// More input than a call may carry.
    #[error("the input has {bytes} bytes, more than {BODY_CAP}")]
    Input {
        /// Its length.
        bytes: u64,
    },
    /// More trace than an execution may have.
    #[error("the trace has {bytes} bytes, more than {TRACE_CAP}")]
    Trace {
        /// Its length.
        bytes: u64,
    },
    /// A piece of a trace that holds nothing.
    #[error("an empty piece of a trace")]
    NoTrace,
    /// A body longer than one may be, or streamed although it would fit its message.
    #[error("a body of {bytes} bytes cannot travel so")]
    Body {
        /// Its length.
        bytes: usize,
    },
    /// A path that is not one below the workspace.
    #[error("the path of a file is not one below the workspace")]
    Path,
    /// A media type that is none.
    #[error("what a file is said to be is no media type")]
    MediaType,
    /// A number that no tunnel has.
    #[error("there can be no tunnel {number}")]
    Tunnel {
        /// The number.
        number: u16,
    },
    /// Something of the network for an engine, which has none.
    #[error("an engine has no network")]
    Network,
    /// A text that no program can be given.
    #[error("a NUL byte in an argument, a path or the environment")]
    Nul,
    /// An environment name that is empty or holds `=`.
    #[error("an environment name is empty or contains `=`")]
    EnvironmentName,
}

/// Why a message was not encoded or not decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It does not fit one frame.
    #[error("the message does not fit a frame of {MAX_PAYLOAD} bytes")]
    TooLarge,
    /// It does not have the shape of its type, or a text or list is longer than it may be.
    #[error("malformed message")]
    Malformed(#[source] postcard::Error),
    /// Bytes follow the message.
    #[error("{bytes} bytes follow the message")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// A number is spelt longer than it need be.
    #[error("the message is not in its one encoding")]
    NotCanonical,
    /// It is well-formed and refused.
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

/// The message in a control frame's payload.
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

/// Appends the message to `into` as one whole control frame. On an error `into` is as it was.
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
