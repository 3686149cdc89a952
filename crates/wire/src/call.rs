//! A program's calls to the outside, and their responses. A short body travels in its message; a longer one follows on
//! a separate stream, in the order of the messages that announce it.

use serde::{Deserialize, Serialize};

use crate::bounded::{Bytes, Text};
use crate::codec::Unfit;
use crate::frame::MAX_PAYLOAD;
use crate::trace::TRACE_INLINE;

/// The most bytes in the body of a call or of a response.
pub const BODY_CAP: usize = 16 * 1024 * 1024;

/// The most bytes in a body that travels in its message.
pub const INLINE_MAX: usize = 32 * 1024;

/// The most open calls of one execution.
pub const CALLS_MAX: usize = 4096;

const SERVER: usize = 256;
const TOOL: usize = 1024;
const CODE: usize = 64;
const MESSAGE: usize = 8 * 1024;
const RULE: usize = 1024;
const HINT: usize = 2048;

// A message whose fields are within their bounds must always fit a frame.
const _: () = {
    const fn text(bytes: usize) -> usize {
        3 + bytes
    }
    const CALL: usize = 1 + 5 + 1 + text(SERVER) + text(TOOL) + 1 + text(INLINE_MAX) + text(TRACE_INLINE);
    const RETURN: usize = 1 + 5 + 1 + text(CODE) + text(MESSAGE) + 1 + text(RULE) + 1 + text(HINT) + 1 + 5;
    assert!(
        CALL <= MAX_PAYLOAD && RETURN <= MAX_PAYLOAD,
        "a call could be too large to send"
    );
};

/// A call that a program makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The call's number; numbers count up from 1, so none is used twice.
    pub number: u32,
    /// The tool or the operation that the program calls.
    pub ask: Ask,
    /// The arguments as JSON text.
    pub body: Body,
    /// The end of the trace since the previous call. What exceeds the bound goes ahead as
    /// [`FromChild::Trace`](crate::FromChild::Trace).
    pub trace: Bytes<TRACE_INLINE>,
}

/// The tool or the operation that a call is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// A call of one tool on one server.
    Tool {
        /// The server's name, as programs write it.
        server: Text<SERVER>,
        /// The tool's name on that server.
        tool: Text<TOOL>,
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
pub enum Body {
    /// The body itself, as text in this message.
    Inline(Text<INLINE_MAX>),
    /// The body follows on the stream, after the bodies announced before it.
    Streamed {
        /// The body's length, which is more than fits the message.
        bytes: u32,
    },
}

/// The response to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The number of the call that this answers.
    pub number: u32,
    /// The result as JSON text, or the failure.
    pub answer: Answer,
}

/// The result of a call, or its failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The result as JSON text.
    Result(Body),
    /// The call failed or was refused, and has no result.
    Refused(Refusal),
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// A stable code for programs to compare, such as `tool.unknown`.
    pub code: Text<CODE>,
    /// The failure as a sentence for people.
    pub message: Text<MESSAGE>,
    /// The policy rule that refused the call; `None` if the cause was not a rule.
    pub rule: Option<Text<RULE>>,
    /// Advice on how to avoid the failure.
    pub hint: Option<Text<HINT>>,
    /// Milliseconds from now until a retry makes sense.
    pub retry_after_ms: Option<u32>,
}

impl Return {
    pub(crate) fn check(&self) -> Result<(), Unfit> {
        match &self.answer {
            Answer::Result(body) => body.check(),
            Answer::Refused(_) => Ok(()),
        }
    }
}

impl Body {
    /// Splits a text into the body of a message and the bytes that must follow on the stream.
    pub fn of(text: String) -> Result<(Body, Vec<u8>), Unfit> {
        if text.len() > BODY_CAP {
            return Err(Unfit::Body { bytes: text.len() });
        }
        if text.len() <= INLINE_MAX {
            let text = Text::new(text).map_err(|long| Unfit::Body { bytes: long.length })?;
            return Ok((Body::Inline(text), Vec::new()));
        }
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Ok((Body::Streamed { bytes }, text.into_bytes()))
    }

    pub(crate) fn check(&self) -> Result<(), Unfit> {
        match *self {
            Body::Inline(_) => Ok(()),
            Body::Streamed { bytes } => {
                let bytes = bytes as usize;
                if bytes > INLINE_MAX && bytes <= BODY_CAP {
                    Ok(())
                } else {
                    Err(Unfit::Body { bytes })
                }
            }
        }
    }
}
