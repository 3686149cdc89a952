//! Executions, from a request to a report. Read this file first: it finds the session that an execution runs in.
//!
//! From here [`attempts`] repeats attempts until the execution ends, [`sandbox_source`] gets a sandbox for each, [`attempt`] runs one,
//! [`call_dispatch`] answers the program's calls meanwhile, and [`ending`] brings files out and makes the report.
//!
//! A policy that cannot be enforced is refused; every event is recorded before it happens; whatever the program does, its sandbox ends, its
//! output is cut to the limit, and the report says what enforces each rule.

pub(crate) mod attempt;
pub(crate) mod attempts;
pub(crate) mod call_dispatch;
pub(crate) mod ending;
pub(crate) mod sandbox_source;

use std::sync::Arc;

use ringfence_journal::{ExecutionId, RecordError, SessionId};
use ringfence_sandbox::Stop;

use self::attempt::ActiveExecution;
use self::sandbox_source::SandboxSource;
use crate::approvals::Approvals;
use crate::cancel::{CancelSwitch, CancelSwitches};
use crate::closing::ClosingSignal;
use crate::config::EngineConfig;
use crate::engine::lock;
use crate::error::OperationError;
use crate::output::OutputObserver;
use crate::records::SessionRecords;
use crate::redact::ResultRenderer;
use crate::refusal::RunRefusal;
use crate::report::ExecutionReport;
use crate::request::ExecutionRequest;
use crate::runs::registry::RunRegistry;
use crate::sandboxes::Sandboxes;
use crate::sessions::Sessions;
use crate::sessions::context::ExecutionContext;
use crate::sessions::open_session::OpenSession;
use crate::skills::nested::NestedPermits;
use crate::tools::Tools;
use crate::typecheck::TypeChecks;
use crate::workspaces::{AssignError, DiskFolders, Workspaces, keeps_files};

/// Runs executions, each from its request to its report.
pub(crate) struct Executions {
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) records: Arc<SessionRecords>,
    pub(crate) sandboxes: Arc<Sandboxes>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) renderer: Arc<ResultRenderer>,
    pub(crate) type_checks: Arc<TypeChecks>,
    pub(crate) runs: Arc<RunRegistry>,
    pub(crate) nested_permits: NestedPermits,
    pub(crate) cancel_switches: CancelSwitches,
    pub(crate) closing: ClosingSignal,
}

impl Executions {
    pub(crate) fn new(
        sessions: &Arc<Sessions>,
        approvals: &Arc<Approvals>,
        tools: &Arc<Tools>,
        cancel_switches: CancelSwitches,
    ) -> Executions {
        let renderer = Arc::new(ResultRenderer::new(&sessions.records));
        let sandboxes = Arc::clone(&sessions.sandboxes);
        Executions {
            config: Arc::clone(&sessions.config),
            records: Arc::clone(&sessions.records),
            workspaces: Arc::clone(&sessions.workspaces),
            type_checks: Arc::new(TypeChecks::new(tools, &sandboxes.backend, &renderer)),
            runs: Arc::clone(&sessions.runs),
            nested_permits: NestedPermits::default(),
            closing: sandboxes.closing.clone(),
            sessions: Arc::clone(sessions),
            approvals: Arc::clone(approvals),
            tools: Arc::clone(tools),
            sandboxes,
            renderer,
            cancel_switches,
        }
    }

    /// Runs `request` to its end, in a session of its own or in the one that it names, and shows output to `live` as it comes.
    pub(crate) async fn run(
        &self,
        request: ExecutionRequest,
        live: &mut dyn OutputObserver,
    ) -> Result<ExecutionReport, OperationError> {
        if request.session.is_some() || keeps_files(&request.policy) {
            return Box::pin(self.run_in_kept_session(request, live)).await;
        }
        let ids = (SessionId::generate()?, ExecutionId::generate()?);
        let (_switch, stop) = self.cancel_switch(ids.0);
        let mut stop = stop.with_timeout(request.timeout);
        let (principal, policy) = (self.config.principal, Arc::clone(&request.policy));
        let session = ExecutionContext {
            history: Arc::new(self.sessions.tenants.new_session(principal)),
            ..ExecutionContext::new(ids, principal, policy, self.records.data.scratch(ids.0))
        };
        self.run_in_own_session(ActiveExecution::new(session, request, live, &mut stop))
            .await
    }

    /// Runs an execution in a session of its own to its end, through as many sandboxes as it takes.
    pub(crate) async fn run_in_own_session(
        &self,
        mut execution: ActiveExecution<'_>,
    ) -> Result<ExecutionReport, OperationError> {
        let (session, request) = (&mut execution.session, &execution.request);
        if let Some(refusal) = RunRefusal::check_program(&session.policy, &request.program) {
            return self.refuse_in_own_session(execution.session, refusal).await;
        }
        let folders = DiskFolders::scratch_only(&session.folders);
        let spec = match self.sandboxes.spec(&session.policy, folders, request.require_hard) {
            Ok(spec) => spec,
            Err(refusal) => return self.refuse_in_own_session(execution.session, refusal).await,
        };
        session.enforcement = self.sandboxes.enforcement(&spec, &session.policy);
        if execution.attempt.is_first() {
            let found = Box::pin(self.type_checks.type_errors(session, &request.program)).await;
            if !found.is_empty() {
                self.records.open_session(session).await?;
                let report = self.type_checks.refuse_ill_typed(session, request, found).await?;
                self.records
                    .close_session((session.id, &session.folders), "done")
                    .await?;
                return Ok(report);
            }
        }
        let ran = Box::pin(self.run_attempts(&mut execution, &mut SandboxSource::Own(spec))).await;
        if let Err(error) = &ran
            && !matches!(error, OperationError::HandedOver)
        {
            self.close_failed_session(&execution, error).await?;
        }
        ran
    }

    /// Records that a session ends because its execution failed.
    async fn close_failed_session(
        &self,
        execution: &ActiveExecution<'_>,
        error: &OperationError,
    ) -> Result<(), OperationError> {
        let session = &execution.session;
        // An audit sink that refused the record also refuses the end, and has said why.
        let refused = matches!(error, OperationError::Record(RecordError::Sink { .. }));
        if execution.attempt.is_first() && !refused {
            self.records.open_session(session).await?;
        }
        let reason = format!("failed: {error}");
        let closed = self
            .records
            .close_session((session.id, &session.folders), &reason)
            .await;
        if refused { Ok(()) } else { closed }
    }

    /// Runs a command's request in a session that keeps its files.
    async fn run_in_kept_session(
        &self,
        request: ExecutionRequest,
        live: &mut dyn OutputObserver,
    ) -> Result<ExecutionReport, OperationError> {
        let execution = ExecutionId::generate()?;
        let (who, policy) = (self.config.principal, Arc::clone(&request.policy));
        let open = match Box::pin(self.sessions.command_session(who, &request)).await {
            Ok(open) => open,
            Err(AssignError::Failed(error)) => return Err(error),
            Err(AssignError::Refused(refusal)) => {
                let id = SessionId::generate()?;
                let session = ExecutionContext::new((id, execution), who, policy, self.records.data.scratch(id));
                return self.refuse_in_own_session(session, refusal).await;
            }
        };
        let (_switch, stop) = self.cancel_switch(open.id);
        let mut stop = stop.with_timeout(request.timeout);
        // A command's policy comes from its user, and nobody changes it meanwhile.
        let session = ExecutionContext {
            rules: None,
            ..open.execution_context(execution, Arc::clone(&policy), policy)
        };
        let execution = ActiveExecution::new(session, request, live, &mut stop);
        let ran = Box::pin(self.run_in_open_session(&open, execution)).await;
        if matches!(ran, Err(OperationError::HandedOver)) {
            self.sessions.open.remove(open.id);
            return ran;
        }
        let closed = self.sessions.close_open_session(open.id, "done").await;
        let report = ran?;
        closed?;
        Ok(report)
    }

    /// Runs an execution in the sandbox of an open session, once it has the turn.
    pub(crate) async fn run_in_open_session(
        &self,
        open: &OpenSession,
        mut execution: ActiveExecution<'_>,
    ) -> Result<ExecutionReport, OperationError> {
        let mut turn = tokio::select! {
            biased;
            () = execution.stop.cancelled() => return self.finish_cancelled(&execution, None).await,
            turn = open.turn() => turn,
        };
        open.set_current_execution(execution.session.execution);
        if let Some(refusal) = self.sessions.open_if_new(&mut turn, &execution.session).await? {
            let session = execution.session.into_own_session()?;
            return self.refuse_in_own_session(session, refusal).await;
        }
        let (session, request) = (&execution.session, &execution.request);
        if let Some(refusal) = RunRefusal::check_program(&session.policy, &request.program) {
            return self.records.refuse_turn(session, refusal).await;
        }
        if execution.attempt.is_first() {
            let found = Box::pin(self.type_checks.type_errors(session, &request.program)).await;
            if !found.is_empty() {
                return self.type_checks.refuse_ill_typed(session, request, found).await;
            }
        }
        self.run_attempts(&mut execution, &mut SandboxSource::Session(turn))
            .await
    }

    /// A cancel switch for what runs in `session`; other processes can trigger it too.
    pub(crate) fn cancel_switch(&self, session: SessionId) -> (CancelSwitch, Stop) {
        let (sender, stop) = Stop::new();
        (CancelSwitch::register(&self.cancel_switches, session, sender), stop)
    }

    /// Cancels everything that runs in this process.
    pub(crate) fn cancel_all(&self) {
        for switch in lock(&self.cancel_switches).values() {
            switch.send_replace(true);
        }
        self.runs.active(None).iter().for_each(|run| run.cancel());
    }
}
