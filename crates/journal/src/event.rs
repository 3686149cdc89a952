//! The events: a closed set. Each states what happened, when, in which session, and who observed it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{CleanText, ExecutionId, SessionId};

mod calls;
mod kind;
mod parts;

pub use kind::EventKind;
pub use parts::{
    ApprovalAnswer, ApprovalScope, ApprovalVia, AskReason, CallOutcome, ClientClaims, DetectionCount, EgressTarget,
    EnforcedBy, Enforcement, ExecutionStatus, FileIn, FileOut, LossCause, OutputHead, OutputStream, PolicyRef,
    PrunedSession, RecordedLimits, ResourceUsage, ServerPlace, TruncationFlags, fixed_time, time_text,
};

/// The version of the event form that this program writes and reads.
const EVENT_VERSION: u64 = 1;

/// The most bytes of canonical JSON that one event may take.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// Files named in one `files_out` event, so that it stays far below [`MAX_EVENT_BYTES`].
const MAX_FILES_PER_EVENT: usize = 100;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When it happened, to the microsecond.
    pub at: Timestamp,
    /// The session whose chain it belongs to.
    pub session: SessionId,
    /// The execution it concerns, if it concerns one.
    pub execution: Option<ExecutionId>,
    /// Whether the host observed the event or the sandbox claims it.
    pub origin: EventOrigin,
    /// What happened, with the fields of that kind.
    pub kind: EventKind,
}

/// Who states that an event happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventOrigin {
    /// The host observed it. Verification and views rely only on these.
    Host,
    /// The worker reported it about itself: a claim.
    Sandbox,
}

/// The text is not an event that this program could have written.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// It was written by a newer program, or its version was changed.
    #[error("unknown event version `{0}`")]
    Version(String),
    /// A field is missing, unknown or of the wrong form.
    #[error("not an event")]
    Form(#[source] serde_json::Error),
    /// The same event has one canonical text, and this is not it.
    #[error("not the canonical text of its event")]
    NotCanonical,
    /// The canonical JSON exceeds [`MAX_EVENT_BYTES`].
    #[error("event of {bytes} bytes is over the limit of {limit}", limit = MAX_EVENT_BYTES)]
    TooLarge {
        /// Its size as canonical JSON.
        bytes: usize,
    },
}

impl Event {
    /// An event that the host sees now.
    pub fn from_host(session: SessionId, execution: Option<ExecutionId>, kind: EventKind) -> Event {
        Event {
            at: now(),
            session,
            execution,
            origin: EventOrigin::Host,
            kind,
        }
    }

    /// An event that the sandbox claims now.
    pub fn from_sandbox(session: SessionId, execution: Option<ExecutionId>, kind: EventKind) -> Event {
        Event {
            at: now(),
            session,
            execution,
            origin: EventOrigin::Sandbox,
            kind,
        }
    }

    /// The one text of this event: canonical JSON (RFC 8785).
    pub fn canonical(&self) -> Result<String, EventError> {
        let text = calls::canonical(self)
            .unwrap_or_else(|| serde_json_canonicalizer::to_string(self))
            .map_err(EventError::Form)?;
        if text.len() > MAX_EVENT_BYTES {
            return Err(EventError::TooLarge { bytes: text.len() });
        }
        Ok(text)
    }

    /// Reads back what [`Event::canonical`] wrote, and nothing else.
    pub fn parse(text: &str) -> Result<Event, EventError> {
        if text.len() > MAX_EVENT_BYTES {
            return Err(EventError::TooLarge { bytes: text.len() });
        }
        let mut fields: Map<String, Value> = serde_json::from_str(text).map_err(EventError::Form)?;
        match fields.remove("v") {
            Some(Value::Number(version)) if version.as_u64() == Some(EVENT_VERSION) => {}
            other => {
                return Err(EventError::Version(other.map_or_else(
                    || "none".to_owned(),
                    |value| CleanText::clean(&value.to_string()).to_string(),
                )));
            }
        }
        let event = Event {
            at: take_field(&mut fields, "at")?,
            session: take_field(&mut fields, "session")?,
            execution: take_field(&mut fields, "execution")?,
            origin: take_field(&mut fields, "origin")?,
            kind: serde_json::from_value(Value::Object(fields)).map_err(EventError::Form)?,
        };
        // A duplicate key or another spelling of a time or number changes the text: one event has one text.
        if event.canonical()? == text || event.with_short_times()? == text {
            Ok(event)
        } else {
            Err(EventError::NotCanonical)
        }
    }

    /// The text as earlier versions wrote it: fractions of a second without trailing zeros.
    fn with_short_times(&self) -> Result<String, EventError> {
        let mut value = serde_json::to_value(self).map_err(EventError::Form)?;
        for (name, field) in value.as_object_mut().into_iter().flatten() {
            if !TIME_FIELDS.contains(&name.as_str()) {
                continue;
            }
            if let Some(time) = field.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
                *field = time.to_string().into();
            }
        }
        serde_json_canonicalizer::to_string(&value).map_err(EventError::Form)
    }
}

/// The fields of events that hold a time.
const TIME_FIELDS: [&str; 5] = ["at", "before", "expires", "since", "until"];

fn take_field<T: serde::de::DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Result<T, EventError> {
    serde_json::from_value(fields.remove(name).unwrap_or(Value::Null)).map_err(EventError::Form)
}

/// Now, to the microsecond.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct FlatEvent<'a> {
            v: u64,
            #[serde(serialize_with = "parts::fixed_time")]
            at: Timestamp,
            session: SessionId,
            execution: Option<ExecutionId>,
            origin: EventOrigin,
            #[serde(flatten)]
            kind: &'a EventKind,
        }
        FlatEvent {
            v: EVENT_VERSION,
            at: self.at,
            session: self.session,
            execution: self.execution,
            origin: self.origin,
            kind: &self.kind,
        }
        .serialize(serializer)
    }
}

/// Splits the list of files over as many `files_out` events as needed.
pub fn files_out_events(files: &[FileOut]) -> impl Iterator<Item = EventKind> + '_ {
    files
        .chunks(MAX_FILES_PER_EVENT)
        .map(|files| EventKind::FilesOut { files: files.to_vec() })
}

/// Splits the output of one stream over as many `output` events as needed.
pub fn output_events(stream: OutputStream, printed: &[u8]) -> impl Iterator<Item = EventKind> {
    let pieces = CleanText::pieces(&String::from_utf8_lossy(printed));
    (1..)
        .zip(pieces)
        .map(move |(number, text)| EventKind::Output { stream, number, text })
}

#[cfg(test)]
mod tests;
