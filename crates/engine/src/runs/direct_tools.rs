//! Upstream tools called one by one, for models that do not write code: on the same call path and under the same policy.

use std::sync::Arc;

use ringfence_gateway::{CallLog, Pass, PassConfig, PassError};
use ringfence_journal::{
    CleanText, ContentHash, EventKind, ExecutionId, ExecutionStatus, Principal, RecordedLimits, SessionId,
};
use ringfence_sandbox::Stop;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::OperationError;
use crate::refusal::RunRefusal;
use crate::report::{self, ErrorReport, ExecutionReport};
use crate::request::ResultAudience;
use crate::runs::ClientRuns;
use crate::runs::registry::AbortGuard;
use crate::runs::request::{ClientTrace, ServeConfig};
use crate::sessions::context::ExecutionContext;
use crate::sessions::open_session::{OpenSession, SandboxSlot, SessionRef};

/// The name of the session of a principal's direct calls. No request can use this name.
const SESSION_NAME: &str = "direct:";

/// A direct call of one tool.
#[derive(Debug, Clone)]
pub struct DirectToolCall {
    /// The tool's full name, `server.tool`.
    pub tool: String,
    /// The arguments of the call, as JSON.
    pub arguments: Value,
    /// The client's own identifiers for this call.
    pub trace: Option<ClientTrace>,
}

impl ClientRuns {
    /// Begins a direct call; its result is an execution like any other.
    pub fn begin_direct_call(
        self: &Arc<Self>,
        who: Principal,
        call: DirectToolCall,
    ) -> Result<ExecutionId, OperationError> {
        let front = self.open_front()?;
        let place = self.runs.place(who)?;
        let execution = ExecutionId::generate()?;
        let open = self.direct_session(front, who);
        let open = match open {
            Ok(open) => open,
            Err(refusal) => {
                let session = self
                    .sessions
                    .own_session_context(who, execution, Arc::clone(&front.policy))?;
                self.tasks.begin_refused(execution, (who, place), session, refusal)?;
                return Ok(execution);
            }
        };
        let policy = open.rules.policy();
        let session = open.execution_context(execution, Arc::clone(&policy), policy);
        let files = self.records.data.artifacts(execution);
        let (run, mut stop) = self.runs.add(execution, session.read_context(), (who, place), files);
        let runs = Arc::clone(self);
        tokio::spawn(async move {
            let ends = AbortGuard(run);
            let result = runs.run_direct_call(&open, &session, &call, &mut stop).await;
            runs.tasks.finish_run(&ends.0, result);
        });
        Ok(execution)
    }

    fn direct_session(&self, front: &ServeConfig, who: Principal) -> Result<Arc<OpenSession>, RunRefusal> {
        if let Some(open) = self.sessions.open.find(who, &SessionRef::Name(SESSION_NAME.to_owned())) {
            return Ok(open);
        }
        let id = SessionId::generate().map_err(|error| RunRefusal {
            code: "start.entropy",
            message: error.to_string(),
            rule: "sessions".to_owned(),
            hint: None,
        })?;
        // Direct calls have no files to keep.
        let opening = self
            .sessions
            .prepare_open_session(id, Arc::clone(&front.policy), None, false)?;
        self.sessions
            .open
            .add(who, Some(SESSION_NAME), opening, self.sessions.tenants.new_session(who))
    }

    async fn run_direct_call(
        &self,
        open: &OpenSession,
        session: &ExecutionContext,
        call: &DirectToolCall,
        stop: &mut Stop,
    ) -> Result<ExecutionReport, OperationError> {
        {
            // A direct call needs neither a sandbox nor a turn, only a session in the journal.
            let mut place = open.sandbox.lock().await;
            if matches!(*place, SandboxSlot::Unopened) {
                self.records.open_session(session).await?;
                *place = SandboxSlot::Empty;
            }
        }
        open.touch();
        let body = call.arguments.to_string();
        let started = EventKind::ExecutionStarted {
            language: CleanText::clean("tool"),
            program: Some(CleanText::clean(&call.tool)),
            code: ContentHash::digest(body.as_bytes()),
            bytes: body.len() as u64,
            files: Vec::new(),
            limits: RecordedLimits::default(),
            client: call.trace.as_ref().map(ClientTrace::to_client),
            parent: None,
        };
        self.records.record_event(session, started).await?;
        let answered = self.call_direct_tool(session, &call.tool, &body, stop).await?;
        self.records
            .record_event(session, report::ended_event(session, &answered, None))
            .await?;
        open.touch();
        Ok(answered)
    }

    async fn call_direct_tool(
        &self,
        session: &ExecutionContext,
        tool: &str,
        body: &str,
        stop: &mut Stop,
    ) -> Result<ExecutionReport, OperationError> {
        let Some(gateway) = self.tools.tool_gateway() else {
            return Ok(report::direct_call_report(session, Err(no_tools())));
        };
        let (server, name) = tool.split_once('.').unwrap_or((tool, ""));
        let pass = Pass::new(PassConfig {
            gateway: Arc::clone(gateway),
            policy: Arc::clone(&session.policy),
            recorder: Arc::clone(&self.records.store),
            session: session.id,
            execution: session.execution,
            parent: None,
            history: Arc::clone(&session.history),
            // A single call is never run again.
            call_log: Arc::new(CallLog::off()),
            approvals: self.approvals.broker(session, tool).into_approval_port(),
            redactor: Arc::clone(&session.redactor),
        });
        let call = pass.call(1, server, name, body, &[]);
        tokio::pin!(call);
        let answered = tokio::select! {
            answered = &mut call => answered,
            () = stop.cancelled() => {
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
            Err(PassError::Refused(told)) => Err(ErrorReport {
                code: told.code,
                message: told.message,
                hint: told.hint,
                rule: told.rule,
            }),
            Err(PassError::Unrecorded(error)) => return Err(error.into()),
            // A direct call has nothing to repeat and no sandbox to release.
            Err(PassError::Diverged(_) | PassError::Released) => return Err(OperationError::Abandoned),
        };
        let mut execution = report::direct_call_report(session, answered);
        report::add_calls(&mut execution, &pass.close().await?);
        if execution.status == ExecutionStatus::Failed && stop.is_cancelled() {
            execution.status = ExecutionStatus::Cancelled;
        }
        let shown = self
            .renderer
            .render_report(session, &pass.policy(), ResultAudience::Client, execution)
            .await?;
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
