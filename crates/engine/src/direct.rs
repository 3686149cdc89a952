//! Upstream tools called one by one, for models that do not write code: on the same call path and under the same policy.

use std::sync::Arc;

use ringfence_catalog::Definition;
use ringfence_gateway::{Pass, Stopped, Tape, Terms};
use ringfence_journal::{ExecutionId, Hash, Kind, Limits, Principal, SessionId, Status, Text};
use ringfence_policy::ToolPattern;
use ringfence_sandbox::Stop;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::ask::{Front, Trace};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::{ErrorReport, Execution};
use crate::refusal::Refusal;
use crate::report;
use crate::request::Reader;
use crate::runs::Ends;
use crate::session::{Called, Open, Place, Session};

/// The name of the session of a principal's direct calls. No request can use this name.
const NAME: &str = "direct:";

/// A tool that clients can call directly.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectTool {
    /// The tool's full name, `server.tool`.
    pub name: String,
    /// The definition that its server gives.
    pub definition: Definition,
}

/// A direct call of one tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The tool's full name, `server.tool`.
    pub tool: String,
    /// The arguments of the call, as JSON.
    pub arguments: Value,
    /// The client's own identifiers for this call.
    pub trace: Option<Trace>,
}

impl Engine {
    /// The tools that match these patterns and that the policy shows.
    pub async fn direct_tools(&self, patterns: &[ToolPattern]) -> Vec<DirectTool> {
        let (Some(gateway), Some(front)) = (self.gateway(), &self.settings.front) else {
            return Vec::new();
        };
        let known = gateway.known().await;
        let tools = known.catalog.tools().iter();
        let chosen = tools.filter(|tool| patterns.iter().any(|pattern| pattern.matches(&tool.name)));
        chosen
            .filter(|tool| front.policy.shows(&tool.name, tool.hints()))
            .map(|tool| DirectTool {
                name: tool.name.as_str().to_owned(),
                definition: tool.definition.clone(),
            })
            .collect()
    }

    /// Begins a direct call; its result is an execution like any other.
    pub fn begin_call(self: &Arc<Self>, who: Principal, call: ToolCall) -> Result<ExecutionId, RunError> {
        let front = self.open_front()?;
        let place = self.runs.place(who)?;
        let execution = ExecutionId::generate()?;
        let open = self.direct_session(front, who);
        let session = match &open {
            Ok(open) => {
                let policy = open.rules.policy();
                open.session(execution, Arc::clone(&policy), policy)
            }
            Err(_) => self.alone(who, execution, Arc::clone(&front.policy))?,
        };
        let files = self.artifacts(execution);
        let (run, mut stop) = self.runs.add(execution, session.through(), (who, place), files);
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let ends = Ends(run);
            let result = match open {
                Ok(open) => engine.call(&open, &session, &call, &mut stop).await,
                Err(refusal) => engine.refuse(session, refusal).await,
            };
            engine.over(&ends.0, result);
        });
        Ok(execution)
    }

    fn direct_session(&self, front: &Front, who: Principal) -> Result<Arc<Open>, Refusal> {
        if let Some(open) = self.sessions.find(who, &Called::Name(NAME.to_owned())) {
            return Ok(open);
        }
        let id = SessionId::generate().map_err(|error| Refusal {
            code: "start.entropy",
            message: error.to_string(),
            rule: "sessions".to_owned(),
            hint: None,
        })?;
        // Direct calls have no files to keep.
        let opening = self.opening(id, Arc::clone(&front.policy), None, false)?;
        self.sessions.add(who, Some(NAME), opening, self.tenants.past(who))
    }

    async fn call(
        &self,
        open: &Open,
        session: &Session,
        call: &ToolCall,
        stop: &mut Stop,
    ) -> Result<Execution, RunError> {
        {
            // A direct call needs neither a sandbox nor a turn, only a session in the journal.
            let mut place = open.place.lock().await;
            if matches!(*place, Place::New) {
                self.open_session(session).await?;
                *place = Place::Bare;
            }
        }
        open.touch();
        let body = call.arguments.to_string();
        let started = Kind::ExecutionStarted {
            language: Text::clean("tool"),
            program: Some(Text::clean(&call.tool)),
            code: Hash::of(body.as_bytes()),
            bytes: body.len() as u64,
            files: Vec::new(),
            limits: Limits::default(),
            client: call.trace.as_ref().map(Trace::client),
            parent: None,
        };
        self.record(session, started).await?;
        let answered = self.answer(session, &call.tool, &body, stop).await?;
        self.record(session, report::ended(session, &answered, None)).await?;
        open.touch();
        Ok(answered)
    }

    async fn answer(&self, session: &Session, tool: &str, body: &str, stop: &mut Stop) -> Result<Execution, RunError> {
        let Some(gateway) = self.gateway() else {
            return Ok(report::called(session, Err(no_tools())));
        };
        let (server, name) = tool.split_once('.').unwrap_or((tool, ""));
        let pass = Pass::new(Terms {
            gateway: Arc::clone(gateway),
            policy: Arc::clone(&session.policy),
            recorder: Arc::clone(&self.store),
            session: session.id,
            execution: session.execution,
            parent: None,
            past: Arc::clone(&session.past),
            // A single call is never run again.
            tape: Arc::new(Tape::off()),
            desk: self.asker(session, tool).desk(),
            screen: Arc::clone(&session.screen),
        });
        let call = pass.call(1, server, name, body, &[]);
        tokio::pin!(call);
        let answered = tokio::select! {
            answered = &mut call => answered,
            () = stop.pulled() => {
                pass.cancel();
                call.await
            }
        };
        let answered = match answered {
            Ok(text) => RawValue::from_string(text).map_err(|error| ErrorReport {
                code: "tool.result".to_owned(),
                message: error.to_string(),
                hint: None,
                rule: None,
            }),
            Err(Stopped::Refused(told)) => Err(ErrorReport {
                code: told.code,
                message: told.message,
                hint: told.hint,
                rule: told.rule,
            }),
            Err(Stopped::Unrecorded(error)) => return Err(error.into()),
            // A direct call has nothing to repeat and no sandbox to release.
            Err(Stopped::Diverged(_) | Stopped::Released) => return Err(RunError::Abandoned),
        };
        let mut execution = report::called(session, answered);
        report::add_calls(&mut execution, &pass.close().await?);
        if execution.status == Status::Failed && stop.is_pulled() {
            execution.status = Status::Cancelled;
        }
        let shown = self.shown(session, &pass.policy(), Reader::Client, execution).await?;
        Ok(shown.0)
    }
}

fn no_tools() -> ErrorReport {
    ErrorReport {
        code: "tools.none".to_owned(),
        message: "there are no tools: no tool server is configured".to_owned(),
        hint: Some("tool servers are named in `ringfence.yaml`".to_owned()),
        rule: None,
    }
}
