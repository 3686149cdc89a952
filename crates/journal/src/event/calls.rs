//! Fast canonical encoding of call events. They are most of a busy journal and a caller waits for each record, so their fields are written
//! in canonical order directly, without a sort.

use jiff::Timestamp;
use serde::Serialize;

use super::{EVENT_VERSION, Event, EventKind, EventOrigin, parts};
use crate::{CallOutcome, CleanText, ContentHash, ExecutionId, SessionId};

/// The fields of a [`EventKind::CallStarted`] event in canonical order.
#[derive(Serialize)]
struct CallStartedFields<'a> {
    arguments: ContentHash,
    #[serde(serialize_with = "parts::fixed_time")]
    at: Timestamp,
    #[serde(serialize_with = "parts::safe")]
    bytes: u64,
    execution: Option<ExecutionId>,
    kind: &'static str,
    #[serde(serialize_with = "parts::safe")]
    number: u64,
    origin: EventOrigin,
    rule: &'a CleanText,
    session: SessionId,
    tool: &'a CleanText,
    v: u64,
}

/// The fields of a [`EventKind::CallEnded`] event in canonical order.
#[derive(Serialize)]
struct CallEndedFields<'a> {
    #[serde(serialize_with = "parts::fixed_time")]
    at: Timestamp,
    #[serde(serialize_with = "parts::safe")]
    bytes: u64,
    #[serde(serialize_with = "parts::safe")]
    duration_ms: u64,
    error: Option<&'a CleanText>,
    execution: Option<ExecutionId>,
    kind: &'static str,
    #[serde(serialize_with = "parts::safe")]
    number: u64,
    origin: EventOrigin,
    outcome: CallOutcome,
    result: Option<ContentHash>,
    session: SessionId,
    tool: &'a CleanText,
    v: u64,
}

/// The canonical text of a `call_started` or `call_ended` event; `None` for any other kind.
pub(super) fn canonical(event: &Event) -> Option<Result<String, serde_json::Error>> {
    let Event {
        at,
        session,
        execution,
        origin,
        ref kind,
    } = *event;
    let name = kind.name();
    if let EventKind::CallStarted {
        number,
        tool,
        rule,
        arguments,
        bytes,
    } = kind
    {
        return Some(serde_json::to_string(&CallStartedFields {
            arguments: *arguments,
            at,
            bytes: *bytes,
            execution,
            kind: name,
            number: *number,
            origin,
            rule,
            session,
            tool,
            v: EVENT_VERSION,
        }));
    }
    if let EventKind::CallEnded {
        number,
        tool,
        outcome,
        error,
        duration_ms,
        result,
        bytes,
    } = kind
    {
        return Some(serde_json::to_string(&CallEndedFields {
            at,
            bytes: *bytes,
            duration_ms: *duration_ms,
            error: error.as_ref(),
            execution,
            kind: name,
            number: *number,
            origin,
            outcome: *outcome,
            result: *result,
            session,
            tool,
            v: EVENT_VERSION,
        }));
    }
    None
}
