//! The framing of the Language Server Protocol: a length, an empty line, JSON. Input from a checker is untrusted until it
//! is parsed here.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The maximum length of a message in bytes; a longer one breaks the conversation.
const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// The maximum length in bytes of a request from the checker, which only asks for a few settings.
const MAX_REQUEST_BYTES: usize = 64 << 10;
/// The maximum length of a header in bytes; a header has two short lines.
const MAX_HEADER_BYTES: usize = 1024;

/// A violation of the protocol, after which nothing more is read from the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LspFrameError {
    #[error("a header that is none")]
    Header,
    #[error("a message of more than {MAX_MESSAGE_BYTES} bytes")]
    TooLong,
    #[error("a message that is not what the protocol says")]
    Message,
}

/// The messages of a checker that matter here; notifications are ignored.
#[derive(Debug)]
pub(crate) enum LspIncoming {
    /// A response to the request with this number.
    Answer { number: u64, result: Option<Box<RawValue>> },
    /// A request of the checker; `items` is the number of settings it asks for.
    Request { id: Value, method: String, items: usize },
}

#[derive(Deserialize)]
struct LspMessage<'a> {
    id: Option<Value>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    result: Option<Box<RawValue>>,
}

#[derive(Deserialize, Default)]
struct LspParams {
    #[serde(default)]
    items: Vec<serde::de::IgnoredAny>,
}

/// Assembles messages from pieces of a byte stream.
#[derive(Debug, Default)]
pub(crate) struct LspDecoder {
    buffer: Vec<u8>,
    /// The lengths of the current header and its message, once the header is complete.
    expected: Option<(usize, usize)>,
}

impl LspDecoder {
    /// Adds a piece of input and passes every complete message to `take`.
    pub(crate) fn push(&mut self, bytes: &[u8], take: &mut dyn FnMut(LspIncoming)) -> Result<(), LspFrameError> {
        self.buffer.extend_from_slice(bytes);
        loop {
            let Some((header, length)) = self.header()? else {
                return Ok(());
            };
            let Some(body) = self.buffer.get(header..header + length) else {
                return Ok(());
            };
            if let Some(incoming) = parse_message(body)? {
                take(incoming);
            }
            self.buffer.drain(..header + length);
            self.expected = None;
        }
    }

    fn header(&mut self) -> Result<Option<(usize, usize)>, LspFrameError> {
        if self.expected.is_none() {
            let end = self
                .buffer
                .windows(4)
                .take(MAX_HEADER_BYTES)
                .position(|four| four == b"\r\n\r\n");
            let Some(end) = end else {
                return if self.buffer.len() > MAX_HEADER_BYTES {
                    Err(LspFrameError::Header)
                } else {
                    Ok(None)
                };
            };
            let length = content_length(self.buffer.get(..end).unwrap_or_default())?;
            self.expected = Some((end + 4, length));
        }
        Ok(self.expected)
    }
}

fn content_length(header: &[u8]) -> Result<usize, LspFrameError> {
    let header = std::str::from_utf8(header).map_err(|_| LspFrameError::Header)?;
    let mut found = None;
    for line in header.split("\r\n") {
        let (name, value) = line.split_once(':').ok_or(LspFrameError::Header)?;
        if name.eq_ignore_ascii_case("content-length") {
            let value = value.trim();
            let plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            if !plain || found.is_some() {
                return Err(LspFrameError::Header);
            }
            found = Some(value.parse().map_err(|_| LspFrameError::TooLong)?);
        }
    }
    match found {
        Some(length) if length > MAX_MESSAGE_BYTES => Err(LspFrameError::TooLong),
        Some(length) => Ok(length),
        None => Err(LspFrameError::Header),
    }
}

fn parse_message(body: &[u8]) -> Result<Option<LspIncoming>, LspFrameError> {
    let message: LspMessage<'_> = serde_json::from_slice(body).map_err(|_| LspFrameError::Message)?;
    match (message.method, message.id) {
        (Some(method), Some(id)) => {
            if body.len() > MAX_REQUEST_BYTES {
                return Err(LspFrameError::TooLong);
            }
            let params: LspParams = message
                .params
                .and_then(|params| serde_json::from_str(params.get()).ok())
                .unwrap_or_default();
            let items = params.items.len();
            Ok(Some(LspIncoming::Request { id, method, items }))
        }
        (None, Some(id)) => {
            let number = id.as_u64().ok_or(LspFrameError::Message)?;
            let result = message.result;
            Ok(Some(LspIncoming::Answer { number, result }))
        }
        (Some(_), None) => Ok(None),
        (None, None) => Err(LspFrameError::Message),
    }
}

fn encode_frame(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Encodes a request, which the checker answers under the same number.
pub(crate) fn encode_request(number: u64, method: &str, params: &Value) -> Vec<u8> {
    encode_frame(&json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params }))
}

/// Encodes a notification, which the checker does not answer.
pub(crate) fn encode_notification(method: &str, params: &Value) -> Vec<u8> {
    encode_frame(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// Encodes the answer to a request of the checker: null for everything, so that its defaults apply.
pub(crate) fn encode_empty_answer(id: &Value, method: &str, items: usize) -> Vec<u8> {
    let result = if method == "workspace/configuration" {
        Value::Array(vec![Value::Null; items])
    } else {
        Value::Null
    };
    encode_frame(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

#[cfg(test)]
mod tests;
