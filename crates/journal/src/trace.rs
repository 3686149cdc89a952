//! Builds trace spans from events: one span per run and one per tool call.
//!
//! The parent of a run is the position that its client reports (W3C `traceparent`). Span ids are derived from journal ids, so the same
//! events always give the same spans.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    CallOutcome, CleanText, ClientClaims, ContentHash, Event, EventKind, ExecutionId, ExecutionStatus, SessionId,
};

/// The most runs whose end is still awaited; beyond that, the oldest run is dropped.
const MAX_OPEN_RUNS: usize = 10_000;
/// The most calls of one run whose end is still awaited; beyond that, the call with the lowest number is dropped.
const MAX_OPEN_CALLS: usize = 1_000;

/// One timed operation of a trace: a run or a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSpan {
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
    pub attributes: Vec<(&'static str, SpanAttribute)>,
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
pub enum SpanAttribute {
    /// A text value, such as an id or a status.
    Text(String),
    /// A number; counts above `i64::MAX` are clamped.
    Number(i64),
}

impl SpanAttribute {
    fn text(text: &(impl ToString + ?Sized)) -> SpanAttribute {
        SpanAttribute::Text(text.to_string())
    }

    fn count(number: u64) -> SpanAttribute {
        SpanAttribute::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// The position of a run in its client's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TraceParent {
    trace: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

impl TraceParent {
    /// Parses a `traceparent` header; `None` if it is not valid.
    fn parse(text: &str) -> Option<TraceParent> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = crate::chain::parse_hex(version)?;
        // Version 0 has four parts; later ones may have more.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let [flags]: [u8; 1] = crate::chain::parse_hex(flags)?;
        let parent = TraceParent {
            trace: crate::chain::parse_hex(trace)?,
            span: crate::chain::parse_hex(span)?,
            sampled: flags & 1 == 1,
        };
        (parent.trace != [0; 16] && parent.span != [0; 8]).then_some(parent)
    }
}

/// A run whose end has not been seen yet.
#[derive(Debug)]
struct OpenRun {
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    /// The client's trace is not sampled, so no span is built.
    unwanted: bool,
    began: Timestamp,
    language: CleanText,
    client: Option<ClientClaims>,
    calls: BTreeMap<u64, (Timestamp, CleanText)>,
}

/// Builds spans from events, in the order in which they occur.
#[derive(Debug, Default)]
pub struct SpanBuilder {
    open: BTreeMap<ExecutionId, OpenRun>,
}

impl SpanBuilder {
    /// Processes an event and returns the span that it ends, if it ends one.
    pub fn add(&mut self, event: &Event) -> Option<TraceSpan> {
        let id = event.execution?;
        match &event.kind {
            EventKind::ExecutionStarted { language, client, .. } => {
                self.begin_run(id, event.at, language, client.as_ref());
                None
            }
            EventKind::CallStarted { number, rule, .. } => {
                let open = self.open.get_mut(&id)?;
                open.calls.insert(*number, (event.at, rule.clone()));
                if open.calls.len() > MAX_OPEN_CALLS {
                    open.calls.pop_first();
                }
                None
            }
            EventKind::CallEnded { .. } => self.open.get_mut(&id)?.finish_call(id, event),
            EventKind::ExecutionEnded { .. } => self.end_run(id, event),
            EventKind::SessionOpened { .. }
            | EventKind::Output { .. }
            | EventKind::Violation { .. }
            | EventKind::LimitHit { .. }
            | EventKind::Refused { .. }
            | EventKind::StopRequested { .. }
            | EventKind::Swept { .. }
            | EventKind::FilesOut { .. }
            | EventKind::ServerUsed { .. }
            | EventKind::CallRefused { .. }
            | EventKind::ApprovalAsked { .. }
            | EventKind::ApprovalAnswered { .. }
            | EventKind::ExecutionSuspended { .. }
            | EventKind::ExecutionResumed { .. }
            | EventKind::DataHidden { .. }
            | EventKind::DataRevealed { .. }
            | EventKind::AliasRevealed { .. }
            | EventKind::DataCapped { .. }
            | EventKind::ToolDrifted { .. }
            | EventKind::EgressStarted { .. }
            | EventKind::EgressEnded { .. }
            | EventKind::EgressRefused { .. }
            | EventKind::CredentialUsed { .. }
            | EventKind::CredentialMisused { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::WorkspaceOpened { .. }
            | EventKind::WorkspaceRemoved { .. }
            | EventKind::Repeated { .. }
            | EventKind::LossAccepted { .. }
            | EventKind::JournalPruned { .. }
            | EventKind::SessionClosed { .. } => None,
        }
    }

    fn end_run(&mut self, id: ExecutionId, event: &Event) -> Option<TraceSpan> {
        let EventKind::ExecutionEnded {
            status,
            exit_code,
            error,
            usage,
            policy,
            ..
        } = &event.kind
        else {
            return None;
        };
        let open = self.open.remove(&id)?;
        let mut span = open.finish_run(id, event.session, event.at)?;
        span.attributes.extend([
            ("ringfence.status", SpanAttribute::text(status.name())),
            ("ringfence.policy.digest", SpanAttribute::text(policy)),
            ("ringfence.cpu_ms", SpanAttribute::count(usage.cpu_ms)),
        ]);
        let exit = exit_code.map(|code| ("process.exit.code", SpanAttribute::Number(code.into())));
        span.attributes.extend(exit);
        if *status != ExecutionStatus::Completed {
            let text = error
                .as_ref()
                .map_or_else(|| status.name().to_owned(), CleanText::to_string);
            span.error = Some(text);
        }
        Some(span)
    }

    fn begin_run(&mut self, id: ExecutionId, at: Timestamp, language: &CleanText, client: Option<&ClientClaims>) {
        let parent = client.and_then(|client| TraceParent::parse(client.traceparent.as_ref()?.as_str()));
        let (trace, span) = derive_ids(&id.to_string());
        let open = OpenRun {
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
        if self.open.len() > MAX_OPEN_RUNS {
            self.open.pop_first();
        }
    }
}

impl OpenRun {
    fn finish_run(self, id: ExecutionId, session: SessionId, ended: Timestamp) -> Option<TraceSpan> {
        if self.unwanted {
            return None;
        }
        let mut attributes = vec![
            ("ringfence.execution_id", SpanAttribute::text(&id)),
            ("ringfence.session_id", SpanAttribute::text(&session)),
            ("ringfence.language", SpanAttribute::text(&self.language)),
        ];
        if let Some(client) = &self.client {
            let of = |name, text: &Option<CleanText>| text.as_ref().map(|text| (name, SpanAttribute::text(text)));
            attributes.extend(of("ringfence.client", &client.name));
            attributes.extend(of("gen_ai.tool.call.id", &client.call));
        }
        Some(TraceSpan {
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

    fn finish_call(&mut self, id: ExecutionId, event: &Event) -> Option<TraceSpan> {
        let EventKind::CallEnded {
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
                .map_or_else(|| outcome.name().to_owned(), CleanText::to_string)
        };
        Some(TraceSpan {
            trace: self.trace,
            id: derive_ids(&format!("{id}/{number}")).1,
            parent: Some(self.id),
            name: format!("execute_tool {tool}"),
            kind: SpanKind::Client,
            began,
            ended: event.at,
            attributes: vec![
                ("gen_ai.operation.name", SpanAttribute::text("execute_tool")),
                ("gen_ai.tool.name", SpanAttribute::text(tool)),
                ("ringfence.execution_id", SpanAttribute::text(&id)),
                ("ringfence.call.number", SpanAttribute::count(*number)),
                ("ringfence.call.outcome", SpanAttribute::text(outcome.name())),
                ("ringfence.call.rule", SpanAttribute::text(&rule)),
                ("ringfence.call.result_bytes", SpanAttribute::count(*bytes)),
            ],
            error: (*outcome != CallOutcome::Ok).then(failed),
        })
    }
}

/// The trace id and span id derived from a name. All zeros is as unlikely as any other digest.
fn derive_ids(name: &str) -> ([u8; 16], [u8; 8]) {
    let digest = ContentHash::digest(name.as_bytes());
    let (mut trace, mut span) = ([0; 16], [0; 8]);
    for (to, from) in trace.iter_mut().chain(&mut span).zip(digest.as_bytes()) {
        *to = *from;
    }
    (trace, span)
}

#[cfg(test)]
mod tests;
