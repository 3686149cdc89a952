//! Spans: what happened as a tracing system wants it. A view over events: one span per run and per tool call.
//!
//! A run's parent is where its client said that it stands (W3C `traceparent`). Ids follow from ours, so that the same
//! events always give the same spans.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{CallOutcome, Client, Event, ExecutionId, Hash, Kind, SessionId, Status, Text};

/// Runs that are remembered until they end; one that never does is forgotten when too many came after it.
const MOST_OPEN: usize = 10_000;
/// Calls of one run that are remembered until they end.
const MOST_CALLS: usize = 1_000;

/// Something that took time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace: [u8; 16],
    /// Its id.
    pub id: [u8; 8],
    /// What it happened in.
    pub parent: Option<[u8; 8]>,
    /// What it was.
    pub name: String,
    /// Which way it went.
    pub kind: SpanKind,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// What more is known of it.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// The stable code of what went wrong, if something did.
    pub error: Option<String>,
}

/// Which way a span went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Somebody asked us.
    Server,
    /// We asked somebody.
    Client,
}

/// What is known of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A number.
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

/// Where a run stands in its client's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parent {
    trace: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

impl Parent {
    /// Reads a `traceparent`; what is not one is none.
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

/// A run that goes on.
#[derive(Debug)]
struct Open {
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    /// The client's trace is kept by nobody: neither is this.
    unwanted: bool,
    began: Timestamp,
    language: Text,
    client: Option<Client>,
    calls: BTreeMap<u64, (Timestamp, Text)>,
}

/// Makes spans of events, as they come.
#[derive(Debug, Default)]
pub struct Spans {
    open: BTreeMap<ExecutionId, Open>,
}

impl Spans {
    /// Takes an event, and gives the span that it ends.
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

/// The ids that follow from a name of ours. Neither is ever all zeros, as far as anybody will see.
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
