//! A program's calls to the outside, and their responses. A short body travels in its message; a longer one follows on
//! a separate stream, in the order of the messages that announce it.

use serde::{Deserialize, Serialize};

use crate::bounded::{BoundedBytes, BoundedText};
use crate::codec::InvalidMessage;
use crate::frame::MAX_PAYLOAD;
use crate::trace::MAX_INLINE_TRACE;

/// The most bytes in the body of a call or of a response.
pub const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// The most bytes in a body that travels in its message.
pub const MAX_INLINE_BODY: usize = 32 * 1024;

/// The most open calls of one execution.
pub const MAX_OPEN_CALLS: usize = 4096;

const MAX_SERVER_NAME: usize = 256;
const MAX_TOOL_NAME: usize = 1024;
const MAX_CODE: usize = 64;
const MAX_MESSAGE: usize = 8 * 1024;
const MAX_RULE: usize = 1024;
const MAX_HINT: usize = 2048;

// A message whose fields are within their bounds must always fit a frame.
const _: () = {
    const fn text(bytes: usize) -> usize {
        3 + bytes
    }
    const CALL: usize =
        1 + 5 + 1 + text(MAX_SERVER_NAME) + text(MAX_TOOL_NAME) + 1 + text(MAX_INLINE_BODY) + text(MAX_INLINE_TRACE);
    const RETURN: usize =
        1 + 5 + 1 + text(MAX_CODE) + text(MAX_MESSAGE) + 1 + text(MAX_RULE) + 1 + text(MAX_HINT) + 1 + 5;
    assert!(
        CALL <= MAX_PAYLOAD && RETURN <= MAX_PAYLOAD,
        "a call could be too large to send"
    );
};

/// A call that a program makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRequest {
    /// The call's number; numbers count up from 1, so none is used twice.
    pub number: u32,
    /// The tool or the operation that the program calls.
    pub ask: CallTarget,
    /// The arguments as JSON text.
    pub body: CallBody,
    /// The end of the trace since the previous call. What exceeds the bound goes ahead as
    /// [`FromChild::Trace`](crate::FromChild::Trace).
    pub trace: BoundedBytes<MAX_INLINE_TRACE>,
}

/// The tool or the operation that a call is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallTarget {
    /// A call of one tool on one server.
    Tool {
        /// The server's name, as programs write it.
        server: BoundedText<MAX_SERVER_NAME>,
        /// The tool's name on that server.
        tool: BoundedText<MAX_TOOL_NAME>,
    },
    /// A search for tools that serve an intent.
    Search,
    /// A request for the descriptions of tools.
    Describe,
    /// A list of the tools that there are.
    List,
    /// A network request; the response holds the whole reply.
    Fetch,
}

/// Where the bytes of a body are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallBody {
    /// The body itself, as text in this message.
    Inline(BoundedText<MAX_INLINE_BODY>),
    /// The body follows on the stream, after the bodies announced before it.
    Streamed {
        /// The body's length, which is more than fits the message.
        bytes: u32,
    },
}

/// The response to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResponse {
    /// The number of the call that this answers.
    pub number: u32,
    /// The result as JSON text, or the failure.
    pub answer: CallReply,
}

/// The result of a call, or its failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallReply {
    /// The result as JSON text.
    Result(CallBody),
    /// The call failed or was refused, and has no result.
    Refused(CallFailure),
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailure {
    /// A stable code for programs to compare, such as `tool.unknown`.
    pub code: BoundedText<MAX_CODE>,
    /// The failure as a sentence for people.
    pub message: BoundedText<MAX_MESSAGE>,
    /// The policy rule that refused the call; `None` if the cause was not a rule.
    pub rule: Option<BoundedText<MAX_RULE>>,
    /// Advice on how to avoid the failure.
    pub hint: Option<BoundedText<MAX_HINT>>,
    /// Milliseconds from now until a retry makes sense.
    pub retry_after_ms: Option<u32>,
}

impl CallResponse {
    pub(crate) fn check(&self) -> Result<(), InvalidMessage> {
        match &self.answer {
            CallReply::Result(body) => body.check(),
            CallReply::Refused(_) => Ok(()),
        }
    }
}

impl CallBody {
    /// Splits a text into the body of a message and the bytes that must follow on the stream.
    pub fn from_text(text: String) -> Result<(CallBody, Vec<u8>), InvalidMessage> {
        if text.len() > MAX_BODY_BYTES {
            return Err(InvalidMessage::Body { bytes: text.len() });
        }
        if text.len() <= MAX_INLINE_BODY {
            let text = BoundedText::new(text).map_err(|long| InvalidMessage::Body { bytes: long.length })?;
            return Ok((CallBody::Inline(text), Vec::new()));
        }
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Ok((CallBody::Streamed { bytes }, text.into_bytes()))
    }

    pub(crate) fn check(&self) -> Result<(), InvalidMessage> {
        match *self {
            CallBody::Inline(_) => Ok(()),
            CallBody::Streamed { bytes } => {
                let bytes = bytes as usize;
                if bytes > MAX_INLINE_BODY && bytes <= MAX_BODY_BYTES {
                    Ok(())
                } else {
                    Err(InvalidMessage::Body { bytes })
                }
            }
        }
    }
}
