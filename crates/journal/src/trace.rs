//! Builds trace spans from events: one span per run and one per tool call.
//!
//! The parent of a run is the position that its client reports (W3C `traceparent`). Span ids are derived from journal ids, so the same
//! events always give the same spans.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{CallOutcome, Client, Event, ExecutionId, Hash, Kind, SessionId, Status, Text};

/// The most runs whose end is still awaited; beyond that, the oldest run is dropped.
const MOST_OPEN: usize = 10_000;
/// The most calls of one run whose end is still awaited; beyond that, the call with the lowest number is dropped.
const MOST_CALLS: usize = 1_000;

/// One timed operation of a trace: a run or a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace: [u8; 16],
    /// The span's own id, derived from the id of the run or call.
    pub id: [u8; 8],
    /// The span that contains it; `None` for a run whose client reports no trace.
    pub parent: Option<[u8; 8]>,
    /// The span name, such as `run python` or `execute_tool files.read`.
    pub name: String,
    /// Whether the operation serves a request or makes one.
    pub kind: SpanKind,
    /// When the operation began.
    pub began: Timestamp,
    /// When the operation ended.
    pub ended: Timestamp,
    /// Attributes, as pairs of key and value.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// The stable code of the error, if the operation failed.
    pub error: Option<String>,
}

/// The role of this program in the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A client requested the operation: a run.
    Server,
    /// This program called another one: a tool call.
    Client,
}

/// The value of a span attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// A text value, such as an id or a status.
    Text(String),
    /// A number; counts above `i64::MAX` are clamped.
    Number(i64),
}

impl Attribute {
    fn text(text: &(impl ToString + ?Sized)) -> Attribute {
        Attribute::Text(text.to_string())
    }

    fn count(number: u64) -> Attribute {
        Attribute::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// The position of a run in its client's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parent {
    trace: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

impl Parent {
    /// Parses a `traceparent` header; `None` if it is not valid.
    fn parse(text: &str) -> Option<Parent> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = crate::chain::unhex(version)?;
        // Version 0 has four parts; later ones may have more.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let [flags]: [u8; 1] = crate::chain::unhex(flags)?;
        let parent = Parent {
            trace: crate::chain::unhex(trace)?,
            span: crate::chain::unhex(span)?,
            sampled: flags & 1 == 1,
        };
        (parent.trace != [0; 16] && parent.span != [0; 8]).then_some(parent)
    }
}

/// A run whose end has not been seen yet.
#[derive(Debug)]
struct Open {
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    /// The client's trace is not sampled, so no span is built.
    unwanted: bool,
    began: Timestamp,
    language: Text,
    client: Option<Client>,
    calls: BTreeMap<u64, (Timestamp, Text)>,
}

/// Builds spans from events, in the order in which they occur.
#[derive(Debug, Default)]
pub struct Spans {
    open: BTreeMap<ExecutionId, Open>,
}

impl Spans {
    /// Processes an event and returns the span that it ends, if it ends one.
    pub fn add(&mut self, event: &Event) -> Option<Span> {
        let id = event.execution?;
        match &event.kind {
            Kind::ExecutionStarted { language, client, .. } => {
                self.begin(id, event.at, language, client.as_ref());
                None
            }
            Kind::CallStarted { number, rule, .. } => {
                let open = self.open.get_mut(&id)?;
                open.calls.insert(*number, (event.at, rule.clone()));
                if open.calls.len() > MOST_CALLS {
                    open.calls.pop_first();
                }
                None
            }
            Kind::CallEnded { .. } => self.open.get_mut(&id)?.call(id, event),
            Kind::ExecutionEnded {
                status,
                exit_code,
                error,
                usage,
                policy,
                ..
            } => {
                let open = self.open.remove(&id)?;
                let mut span = open.run(id, event.session, event.at)?;
                span.attributes.extend([
                    ("ringfence.status", Attribute::text(status.name())),
                    ("ringfence.policy.digest", Attribute::text(policy)),
                    ("ringfence.cpu_ms", Attribute::count(usage.cpu_ms)),
                ]);
                let exit = exit_code.map(|code| ("process.exit.code", Attribute::Number(code.into())));
                span.attributes.extend(exit);
                if *status != Status::Completed {
                    span.error = Some(error.as_ref().map_or_else(|| status.name().to_owned(), Text::to_string));
                }
                Some(span)
            }
            Kind::SessionOpened { .. }
            | Kind::Output { .. }
            | Kind::Violation { .. }
            | Kind::LimitHit { .. }
            | Kind::Refused { .. }
            | Kind::StopRequested { .. }
            | Kind::Swept { .. }
            | Kind::FilesOut { .. }
            | Kind::ServerUsed { .. }
            | Kind::CallRefused { .. }
            | Kind::ApprovalAsked { .. }
            | Kind::ApprovalAnswered { .. }
            | Kind::ExecutionSuspended { .. }
            | Kind::ExecutionResumed { .. }
            | Kind::DataHidden { .. }
            | Kind::DataRevealed { .. }
            | Kind::AliasRevealed { .. }
            | Kind::DataCapped { .. }
            | Kind::ToolDrifted { .. }
            | Kind::EgressStarted { .. }
            | Kind::EgressEnded { .. }
            | Kind::EgressRefused { .. }
            | Kind::CredentialUsed { .. }
            | Kind::CredentialMisused { .. }
            | Kind::PolicyChanged { .. }
            | Kind::WorkspaceOpened { .. }
            | Kind::WorkspaceRemoved { .. }
            | Kind::Repeated { .. }
            | Kind::LossAccepted { .. }
            | Kind::JournalPruned { .. }
            | Kind::SessionClosed { .. } => None,
        }
    }

    fn begin(&mut self, id: ExecutionId, at: Timestamp, language: &Text, client: Option<&Client>) {
        let parent = client.and_then(|client| Parent::parse(client.traceparent.as_ref()?.as_str()));
        let (trace, span) = ids(&id.to_string());
        let open = Open {
            trace: parent.map_or(trace, |parent| parent.trace),
            id: span,
            parent: parent.map(|parent| parent.span),
            unwanted: parent.is_some_and(|parent| !parent.sampled),
            began: at,
            language: language.clone(),
            client: client.cloned(),
            calls: BTreeMap::new(),
        };
        self.open.insert(id, open);
        if self.open.len() > MOST_OPEN {
            self.open.pop_first();
        }
    }
}

impl Open {
    fn run(self, id: ExecutionId, session: SessionId, ended: Timestamp) -> Option<Span> {
        if self.unwanted {
            return None;
        }
        let mut attributes = vec![
            ("ringfence.execution_id", Attribute::text(&id)),
            ("ringfence.session_id", Attribute::text(&session)),
            ("ringfence.language", Attribute::text(&self.language)),
        ];
        if let Some(client) = &self.client {
            let of = |name, text: &Option<Text>| text.as_ref().map(|text| (name, Attribute::text(text)));
            attributes.extend(of("ringfence.client", &client.name));
            attributes.extend(of("gen_ai.tool.call.id", &client.call));
        }
        Some(Span {
            trace: self.trace,
            id: self.id,
            parent: self.parent,
            name: format!("run {}", self.language),
            kind: SpanKind::Server,
            began: self.began,
            ended,
            attributes,
            error: None,
        })
    }

    fn call(&mut self, id: ExecutionId, event: &Event) -> Option<Span> {
        let Kind::CallEnded {
            number,
            tool,
            outcome,
            error,
            bytes,
            ..
        } = &event.kind
        else {
            return None;
        };
        let (began, rule) = self.calls.remove(number)?;
        if self.unwanted {
            return None;
        }
        let failed = || {
            error
                .as_ref()
                .map_or_else(|| outcome.name().to_owned(), Text::to_string)
        };
        Some(Span {
            trace: self.trace,
            id: ids(&format!("{id}/{number}")).1,
            parent: Some(self.id),
            name: format!("execute_tool {tool}"),
            kind: SpanKind::Client,
            began,
            ended: event.at,
            attributes: vec![
                ("gen_ai.operation.name", Attribute::text("execute_tool")),
                ("gen_ai.tool.name", Attribute::text(tool)),
                ("ringfence.execution_id", Attribute::text(&id)),
                ("ringfence.call.number", Attribute::count(*number)),
                ("ringfence.call.outcome", Attribute::text(outcome.name())),
                ("ringfence.call.rule", Attribute::text(&rule)),
                ("ringfence.call.result_bytes", Attribute::count(*bytes)),
            ],
            error: (*outcome != CallOutcome::Ok).then(failed),
        })
    }
}

/// The trace id and span id derived from a name. All zeros is as unlikely as any other digest.
fn ids(name: &str) -> ([u8; 16], [u8; 8]) {
    let digest = Hash::of(name.as_bytes());
    let (mut trace, mut span) = ([0; 16], [0; 8]);
    for (to, from) in trace.iter_mut().chain(&mut span).zip(digest.as_bytes()) {
        *to = *from;
    }
    (trace, span)
}

#[cfg(test)]
mod tests;
