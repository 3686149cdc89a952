//! The tasks that see the runs of clients to their end.

use std::sync::Arc;
use std::time::Instant;

use ringfence_journal::{ExecutionId, ExecutionStatus, Principal};
use ringfence_sandbox::Stop;

use crate::config::EngineConfig;
use crate::error::OperationError;
use crate::execution::Executions;
use crate::execution::attempt::{ActiveExecution, ExecutionAttempt};
use crate::records::SessionRecords;
use crate::refusal::RunRefusal;
use crate::report::ExecutionReport;
use crate::request::ExecutionRequest;
use crate::runs::registry::{AbortGuard, RunOutput, RunPlace, RunRegistry, TrackedRun};
use crate::runs::request::Assignment;
use crate::sessions::Sessions;
use crate::sessions::context::ExecutionContext;

/// The tasks that see the runs of clients to their end.
pub(crate) struct RunTasks {
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) executions: Arc<Executions>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) records: Arc<SessionRecords>,
    pub(crate) runs: Arc<RunRegistry>,
}

/// A run that is about to start or to resume.
pub(crate) struct RunStart {
    pub(crate) run: Arc<TrackedRun>,
    pub(crate) stop: Stop,
    pub(crate) assignment: Assignment,
    pub(crate) session: ExecutionContext,
    pub(crate) request: ExecutionRequest,
    pub(crate) attempt: ExecutionAttempt,
}

impl RunTasks {
    pub(crate) fn new(executions: &Arc<Executions>) -> RunTasks {
        RunTasks {
            config: Arc::clone(&executions.config),
            sessions: Arc::clone(&executions.sessions),
            records: Arc::clone(&executions.records),
            runs: Arc::clone(&executions.runs),
            executions: Arc::clone(executions),
        }
    }

    /// Spawns the task that sees a run to its end.
    pub(crate) fn spawn_run(self: &Arc<Self>, start: RunStart) {
        let tasks = Arc::clone(self);
        tokio::spawn(async move {
            let ends = AbortGuard(start.run);
            let (mut output, mut stop) = (RunOutput(Arc::clone(&ends.0)), start.stop);
            let execution = ActiveExecution {
                session: start.session,
                request: start.request,
                attempt: start.attempt,
                observer: &mut output,
                stop: &mut stop,
                run: Some(&*ends.0),
            };
            let result = match start.assignment {
                Assignment::OwnSession => Box::pin(tasks.executions.run_in_own_session(execution)).await,
                Assignment::OpenSession(open, _) => {
                    let ran = Box::pin(tasks.executions.run_in_open_session(&open, execution)).await;
                    open.touch();
                    if matches!(ran, Err(OperationError::HandedOver)) {
                        // Another process resumes the session: it does not end here.
                        tasks.sessions.open.remove(open.id);
                    } else if open.kept.is_some() && open.name.is_none() {
                        // Nobody can name this session again; its files stay for whoever has its id.
                        tasks.sessions.close_or_log(open.id, "done").await;
                    }
                    ran
                }
            };
            match result {
                Err(OperationError::HandedOver) => {
                    tasks.runs.remove(ends.0.id);
                    ends.0.finish(Err(Arc::new(OperationError::HandedOver)));
                }
                Ok(report) if report.status == ExecutionStatus::Refused => {
                    // It is recorded by now, and counts for the refusals that follow.
                    tasks.runs.refused.spend(ends.0.principal(), Instant::now());
                    tasks.finish_refused(&ends.0, Ok(report));
                }
                result => tasks.finish_run(&ends.0, result),
            }
        });
    }

    /// Finishes a run, and forgets old ones where too much is kept.
    pub(crate) fn finish_run(&self, run: &TrackedRun, result: Result<ExecutionReport, OperationError>) {
        run.finish(result.map(Arc::new).map_err(Arc::new));
        self.runs
            .record_end(run)
            .iter()
            .for_each(|run| self.records.discard_files(run));
    }

    /// Finishes a run that was refused before it started: it keeps its answer, neither its policy nor its request.
    pub(crate) fn finish_refused(&self, run: &TrackedRun, result: Result<ExecutionReport, OperationError>) {
        if let Some(front) = &self.config.serve {
            run.forget_request(&front.policy);
        }
        self.finish_run(run, result);
    }

    /// Begins a run that is refused: it keeps its answer, and nothing of its request.
    pub(crate) fn begin_refused(
        self: &Arc<Self>,
        execution: ExecutionId,
        (who, place): (Principal, RunPlace),
        session: ExecutionContext,
        refusal: RunRefusal,
    ) -> Result<(), OperationError> {
        if !self.runs.refused.spend(who, Instant::now()) {
            return Err(self.runs.refused.count_unrecorded(who));
        }
        let files = self.records.data.artifacts(execution);
        let (run, _) = self.runs.add(execution, session.read_context(), (who, place), files);
        let tasks = Arc::clone(self);
        tokio::spawn(async move {
            let ends = AbortGuard(run);
            let result = tasks
                .executions
                .refuse_in_own_session(session, refusal.shortened())
                .await;
            tasks.finish_refused(&ends.0, result);
        });
        Ok(())
    }
}
