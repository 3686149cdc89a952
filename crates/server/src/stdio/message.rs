//! Parses a line into a message, or explains why it is not one.

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, NumberOrString, RequestId};
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;

use crate::json_limits::{MAX_JSON_VALUES, has_too_many_values};

/// The result of parsing a line.
#[derive(Debug)]
pub(super) enum ParsedMessage {
    /// A valid request, notification or response.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// A line without a message that needs no answer.
    Nothing,
    /// An invalid message, with the error to return and its id, if known.
    Invalid(ErrorData, Option<RequestId>),
}

/// Parses one line into a message.
pub(super) fn parse_message(line: &[u8]) -> ParsedMessage {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if line.is_empty() {
        return ParsedMessage::Nothing;
    }
    if has_too_many_values(line) {
        let message = format!("a message of more than {MAX_JSON_VALUES} values is not read");
        return ParsedMessage::Invalid(ErrorData::invalid_request(message, None), id_from_edges(line, line));
    }
    match serde_json::from_slice(line) {
        Ok(message) => ParsedMessage::Message(Box::new(message)),
        Err(_) => explain_invalid(line),
    }
}

/// The error for a line that was too long to read.
pub(super) fn too_long(head: &[u8], tail: &[u8], longest: usize) -> (ErrorData, Option<RequestId>) {
    let message = format!("a message of more than {longest} bytes is not read; send large files in parts");
    (ErrorData::invalid_request(message, None), id_from_edges(head, tail))
}

/// The error for a line that is not a message.
fn explain_invalid(line: &[u8]) -> ParsedMessage {
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let error = ErrorData::new(ErrorCode::PARSE_ERROR, format!("not JSON: {error}"), None);
            return ParsedMessage::Invalid(error, None);
        }
    };
    let Value::Object(fields) = &value else {
        let message = "a message is one JSON-RPC object; batches are not part of the protocol";
        return ParsedMessage::Invalid(ErrorData::invalid_request(message, None), None);
    };
    if fields.contains_key("method") && !fields.contains_key("id") {
        // An unknown notification, which the protocol leaves unanswered.
        return ParsedMessage::Nothing;
    }
    let id = fields.get("id").and_then(request_id);
    let message = "not a JSON-RPC 2.0 message: `jsonrpc`, `method` and an `id` that is a string or a number are needed";
    ParsedMessage::Invalid(ErrorData::invalid_request(message, None), id)
}

fn request_id(value: &Value) -> Option<RequestId> {
    serde_json::from_value::<NumberOrString>(value.clone()).ok()
}

/// Finds the id of a message whose ends alone are known: clients write it first or last.
fn id_from_edges(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    const KEY: &[u8] = b"\"id\":";
    let params = find_bytes(head, b"\"params\"").unwrap_or(head.len());
    let first = find_bytes(head, KEY).filter(|at| *at < params);
    let last = || tail.windows(KEY.len()).rposition(|part| part == KEY);
    let after = match first {
        Some(at) => head.get(at + KEY.len()..)?,
        None => tail.get(last()? + KEY.len()..)?,
    };
    let value = serde_json::Deserializer::from_slice(after)
        .into_iter::<Value>()
        .next()?
        .ok()?;
    request_id(&value)
}

fn find_bytes(within: &[u8], what: &[u8]) -> Option<usize> {
    within.windows(what.len()).position(|part| part == what)
}

#[cfg(test)]
mod tests;
