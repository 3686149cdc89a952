//! The framing of the Language Server Protocol: a length, an empty line, JSON. Input from a checker is untrusted until it
//! is parsed here.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The maximum length of a message in bytes; a longer one breaks the conversation.
const LONGEST: usize = 8 << 20;
/// The maximum length in bytes of a request from the checker, which only asks for a few settings.
const LONGEST_REQUEST: usize = 64 << 10;
/// The maximum length of a header in bytes; a header has two short lines.
const LONGEST_HEADER: usize = 1024;

/// A violation of the protocol, after which nothing more is read from the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a header that is none")]
    Header,
    #[error("a message of more than {LONGEST} bytes")]
    TooLong,
    #[error("a message that is not what the protocol says")]
    Message,
}

/// The messages of a checker that matter here; notifications are ignored.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A response to the request with this number.
    Answer { number: u64, result: Option<Box<RawValue>> },
    /// A request of the checker; `items` is the number of settings it asks for.
    Request { id: Value, method: String, items: usize },
}

#[derive(Deserialize)]
struct Message<'a> {
    id: Option<Value>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    result: Option<Box<RawValue>>,
}

#[derive(Deserialize, Default)]
struct Params {
    #[serde(default)]
    items: Vec<serde::de::IgnoredAny>,
}

/// Assembles messages from pieces of a byte stream.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: Vec<u8>,
    /// The lengths of the current header and its message, once the header is complete.
    expected: Option<(usize, usize)>,
}

impl Decoder {
    /// Adds a piece of input and passes every complete message to `take`.
    pub(crate) fn push(&mut self, bytes: &[u8], take: &mut dyn FnMut(Incoming)) -> Result<(), FrameError> {
        self.buffer.extend_from_slice(bytes);
        loop {
            let Some((header, length)) = self.header()? else {
                return Ok(());
            };
            let Some(body) = self.buffer.get(header..header + length) else {
                return Ok(());
            };
            if let Some(incoming) = parse(body)? {
                take(incoming);
            }
            self.buffer.drain(..header + length);
            self.expected = None;
        }
    }

    fn header(&mut self) -> Result<Option<(usize, usize)>, FrameError> {
        if self.expected.is_none() {
            let end = self
                .buffer
                .windows(4)
                .take(LONGEST_HEADER)
                .position(|four| four == b"\r\n\r\n");
            let Some(end) = end else {
                return if self.buffer.len() > LONGEST_HEADER {
                    Err(FrameError::Header)
                } else {
                    Ok(None)
                };
            };
            let length = length(self.buffer.get(..end).unwrap_or_default())?;
            self.expected = Some((end + 4, length));
        }
        Ok(self.expected)
    }
}

fn length(header: &[u8]) -> Result<usize, FrameError> {
    let header = std::str::from_utf8(header).map_err(|_| FrameError::Header)?;
    let mut found = None;
    for line in header.split("\r\n") {
        let (name, value) = line.split_once(':').ok_or(FrameError::Header)?;
        if name.eq_ignore_ascii_case("content-length") {
            let value = value.trim();
            let plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            if !plain || found.is_some() {
                return Err(FrameError::Header);
            }
            found = Some(value.parse().map_err(|_| FrameError::TooLong)?);
        }
    }
    match found {
        Some(length) if length > LONGEST => Err(FrameError::TooLong),
        Some(length) => Ok(length),
        None => Err(FrameError::Header),
    }
}

fn parse(body: &[u8]) -> Result<Option<Incoming>, FrameError> {
    let message: Message<'_> = serde_json::from_slice(body).map_err(|_| FrameError::Message)?;
    match (message.method, message.id) {
        (Some(method), Some(id)) => {
            if body.len() > LONGEST_REQUEST {
                return Err(FrameError::TooLong);
            }
            let params: Params = message
                .params
                .and_then(|params| serde_json::from_str(params.get()).ok())
                .unwrap_or_default();
            let items = params.items.len();
            Ok(Some(Incoming::Request { id, method, items }))
        }
        (None, Some(id)) => {
            let number = id.as_u64().ok_or(FrameError::Message)?;
            let result = message.result;
            Ok(Some(Incoming::Answer { number, result }))
        }
        (Some(_), None) => Ok(None),
        (None, None) => Err(FrameError::Message),
    }
}

fn frame(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Encodes a request, which the checker answers under the same number.
pub(crate) fn request(number: u64, method: &str, params: &Value) -> Vec<u8> {
    frame(&json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params }))
}

/// Encodes a notification, which the checker does not answer.
pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    frame(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// Encodes the answer to a request of the checker: null for everything, so that its defaults apply.
pub(crate) fn nothing(id: &Value, method: &str, items: usize) -> Vec<u8> {
    let result = if method == "workspace/configuration" {
        Value::Array(vec![Value::Null; items])
    } else {
        Value::Null
    };
    frame(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

#[cfg(test)]
mod tests;
