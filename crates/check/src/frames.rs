//! The framing of the language server protocol: a length, an empty line, JSON. What a checker says is hostile until parsed here.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A message longer than this ends the conversation.
const LONGEST: usize = 8 << 20;
/// A request of the server's own is small: it asks for a setting.
const LONGEST_REQUEST: usize = 64 << 10;
/// A header is two short lines.
const LONGEST_HEADER: usize = 1024;

/// What breaks a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a header that is none")]
    Header,
    #[error("a message of more than {LONGEST} bytes")]
    TooLong,
    #[error("a message that is not what the protocol says")]
    Message,
}

/// What a checker may say that matters here. Notifications do not.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// An answer to the request of this number.
    Answer { number: u64, result: Option<Box<RawValue>> },
    /// It wants to know something.
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

/// Puts messages together from pieces.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: Vec<u8>,
    /// Length of the header and of the message that is being waited for.
    expected: Option<(usize, usize)>,
}

impl Decoder {
    /// Takes a piece and hands every message that is complete to `take`.
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

/// A question that wants an answer.
pub(crate) fn request(number: u64, method: &str, params: &Value) -> Vec<u8> {
    frame(&json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params }))
}

/// Something the checker is told.
pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    frame(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// The answer to a request of the checker's: nothing is set, everything is as it is by default.
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
