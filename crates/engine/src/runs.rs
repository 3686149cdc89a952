//! The client API of the engine: begin an execution, wait for it, cancel it, read what it left.

pub(crate) mod direct_tools;
pub(crate) mod follow;
pub(crate) mod idempotency;
pub(crate) mod output_buffer;
pub(crate) mod refused;
pub(crate) mod registry;
pub(crate) mod request;
pub(crate) mod resumption;
pub(crate) mod tasks;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ringfence_journal::{ApprovalId, ExecutionId, Principal, SessionId};
use ringfence_policy::RelPath;
use ringfence_sandbox::{JobLanguage, fixed_stdin};
use ringfence_store::IdempotencyClaim;
use tokio::sync::mpsc;

use crate::approvals::Approvals;
use crate::closing::ClosingSignal;
use crate::config::EngineConfig;
use crate::error::OperationError;
use crate::execution::Executions;
use crate::execution::attempt::ExecutionAttempt;
use crate::records::SessionRecords;
use crate::redact::ResultRenderer;
use crate::request::{ExecutionRequest, InputFile, InputSource, OutputDestination, ResultAudience};
use crate::runs::idempotency::IdempotencyLocks;
use crate::runs::registry::{
    OutputFrom, RunArtifact, RunPlace, RunProgress, RunRegistry, TrackedRun, WaitCondition, WaitError,
};
use crate::runs::request::{Assignment, RunRequest, ServeConfig};
use crate::runs::resumption::{AdoptedRun, Resumption};
use crate::runs::tasks::{RunStart, RunTasks};
use crate::sandboxes::Sandboxes;
use crate::sessions::Sessions;
use crate::sessions::context::ExecutionContext;
use crate::tools::Tools;
use crate::workspaces::gc::SweepBudget;
use crate::workspaces::{AssignError, Workspaces};

/// How often the engine looks for idle sessions and old results.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The runs of clients: begin one, wait for it, follow it, cancel it, read what it left.
pub struct ClientRuns {
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) tasks: Arc<RunTasks>,
    pub(crate) resumption: Arc<Resumption>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) sandboxes: Arc<Sandboxes>,
    pub(crate) records: Arc<SessionRecords>,
    pub(crate) renderer: Arc<ResultRenderer>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) runs: Arc<RunRegistry>,
    pub(crate) idempotency_locks: IdempotencyLocks,
    pub(crate) closing: ClosingSignal,
}

impl fmt::Debug for ClientRuns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientRuns").finish_non_exhaustive()
    }
}

impl ClientRuns {
    pub(crate) fn new(executions: &Arc<Executions>) -> ClientRuns {
        let tasks = Arc::new(RunTasks::new(executions));
        ClientRuns {
            config: Arc::clone(&tasks.config),
            resumption: Arc::new(Resumption::new(&tasks)),
            sessions: Arc::clone(&tasks.sessions),
            workspaces: Arc::clone(&executions.workspaces),
            sandboxes: Arc::clone(&executions.sandboxes),
            records: Arc::clone(&tasks.records),
            renderer: Arc::clone(&executions.renderer),
            tools: Arc::clone(&executions.tools),
            approvals: Arc::clone(&executions.approvals),
            runs: Arc::clone(&tasks.runs),
            idempotency_locks: IdempotencyLocks::default(),
            closing: executions.closing.clone(),
            tasks,
        }
    }

    fn serve_config(&self) -> Result<&ServeConfig, OperationError> {
        self.config.serve.as_ref().ok_or(OperationError::Closed)
    }

    /// Begins an execution. A request that is refused has the refusal as its result. The id is recorded first, so that the execution is
    /// found again even if this process dies.
    pub async fn begin(self: &Arc<Self>, who: Principal, ask: RunRequest) -> Result<ExecutionId, OperationError> {
        let front = self.open_front()?;
        let place = self.runs.place(who)?;
        Box::pin(self.check_flood(front, who, &ask)).await?;
        let execution = ExecutionId::generate()?;
        let claim = IdempotencyClaim {
            principal: who,
            execution,
            key: None,
        };
        self.records
            .store
            .claim_idempotency_key(&self.records.lease, claim)
            .await?;
        Box::pin(self.begin_with_id(execution, (who, place), ask)).await?;
        Ok(execution)
    }

    /// The serve configuration, as long as the engine takes requests.
    pub(crate) fn open_front(&self) -> Result<&ServeConfig, OperationError> {
        let front = self.serve_config()?;
        if self.closing.is_closed() {
            return Err(OperationError::Closed);
        }
        Ok(front)
    }

    /// Begins a run whose id was promised before.
    pub(crate) async fn begin_with_id(
        self: &Arc<Self>,
        execution: ExecutionId,
        (who, place): (Principal, RunPlace),
        ask: RunRequest,
    ) -> Result<(), OperationError> {
        let front = self.open_front()?;
        let seat = Box::pin(self.sessions.assign_session(front, who, &ask)).await;
        let (mut session, seat) = match seat {
            Ok((policy, Assignment::OpenSession(open, base))) => {
                let session = open.execution_context(execution, policy, Arc::clone(&base));
                (session, Assignment::OpenSession(open, base))
            }
            Ok((policy, Assignment::OwnSession)) => (
                self.sessions.own_session_context(who, execution, policy)?,
                Assignment::OwnSession,
            ),
            Err(AssignError::Failed(error)) => return Err(error),
            Err(AssignError::Refused(refusal)) => {
                let session = self
                    .sessions
                    .own_session_context(who, execution, Arc::clone(&front.policy))?;
                return self.tasks.begin_refused(execution, (who, place), session, refusal);
            }
        };
        session.draft.clone_from(&ask.draft);
        let files = self.records.data.artifacts(execution);
        let (run, stop) = self.runs.add(execution, session.read_context(), (who, place), files);
        let request = execution_request(&session, ask, &run);
        let stop = stop.with_timeout(request.timeout);
        self.tasks.spawn_run(RunStart {
            run,
            stop,
            assignment: seat,
            session,
            request,
            attempt: ExecutionAttempt::first_attempt(),
        });
        Ok(())
    }

    /// Waits until an execution has ended, for `at_most` this long.
    pub async fn wait(
        self: &Arc<Self>,
        who: Principal,
        id: ExecutionId,
        at_most: Duration,
    ) -> Result<RunProgress, WaitError> {
        self.wait_until(who, id, at_most, WaitCondition::Finished, OutputFrom::LastRead)
            .await
    }

    /// Waits until an execution has ended or, on request, needs approvals; the caller chooses which output it gets.
    pub async fn wait_until(
        self: &Arc<Self>,
        who: Principal,
        id: ExecutionId,
        at_most: Duration,
        patience: WaitCondition,
        from: OutputFrom,
    ) -> Result<RunProgress, WaitError> {
        let run = match self.runs.find(who, id) {
            Some(run) => run,
            None => match Box::pin(self.resumption.adopt_run(who, id)).await? {
                AdoptedRun::Resumed(run) => run,
                AdoptedRun::AwaitsApproval(running) => return Ok(RunProgress::Running(*running)),
            },
        };
        let mut progress = run.wait(at_most, patience == WaitCondition::FinishedOrBlocked).await;
        if let RunProgress::Running(running) = &mut progress {
            let told = Box::pin(self.renderer.redacted_output(&run, from)).await?;
            (running.stdout, running.stderr) = (told.stdout, told.stderr);
            running.approvals = self.records.pending_approvals(id).await?;
            let standing = self.records.store.recording_status(id).await;
            let standing = standing.map_err(|error| WaitError::Journal(error.to_string()))?;
            let spoiled = standing.and_then(|standing| standing.spoiled);
            running.unrepeatable = running.unrepeatable.take().or(spoiled);
            let turn = self
                .sessions
                .open
                .current_execution(run.session)
                .filter(|turn| *turn != id);
            running.waits_behind = turn.filter(|turn| self.runs.find_any(*turn).is_some());
        }
        Ok(progress)
    }

    /// The approval requests that an execution of `who` waits for.
    pub async fn pending_approval_ids(&self, who: Principal, id: ExecutionId) -> Result<Vec<ApprovalId>, WaitError> {
        self.records.pending_approval_ids(who, id).await
    }

    /// Cancels an execution; its end comes through waiting.
    pub async fn cancel(self: &Arc<Self>, who: Principal, id: ExecutionId) -> Result<(), WaitError> {
        let run = match self.runs.find(who, id) {
            Some(run) => run,
            None => self.resumption.adopt_to_cancel(who, id).await?,
        };
        run.cancel();
        Ok(())
    }

    /// Reads a part of what an execution left, while its result is kept; none where there is no such part.
    pub async fn read_artifact(
        &self,
        who: Principal,
        id: ExecutionId,
        part: RunArtifact,
    ) -> Result<Option<Vec<u8>>, WaitError> {
        let Some(run) = self.runs.find(who, id) else {
            return Err(self.records.missing_run_error(who, id).await);
        };
        let RunProgress::Ended(Ok(execution)) = run.wait(Duration::ZERO, false).await else {
            return Ok(None);
        };
        let whole = execution.whole.as_deref().cloned().unwrap_or_default();
        Ok(match part {
            RunArtifact::Stdout => Some(whole.stdout.unwrap_or_else(|| execution.stdout.clone()).into_bytes()),
            RunArtifact::Stderr => Some(whole.stderr.unwrap_or_else(|| execution.stderr.clone()).into_bytes()),
            RunArtifact::Value => {
                let shown = || execution.value.as_ref().map(|value| value.get().to_owned());
                whole.value.or_else(shown).map(String::into_bytes)
            }
            RunArtifact::File(path) => {
                let path = run.files.join(path.as_str());
                match tokio::task::spawn_blocking(move || std::fs::read(path)).await {
                    Ok(Ok(bytes)) => {
                        let shown = self.renderer.render_file(&run.read_context(), bytes).await;
                        let shown = shown.map_err(|error| WaitError::Journal(error.to_string()))?;
                        Some(shown.map_err(WaitError::Withheld)?)
                    }
                    // The path names a folder, or goes through a file: there is no such file, which is no fault of the engine.
                    Ok(Err(error))
                        if matches!(
                            error.kind(),
                            std::io::ErrorKind::NotFound
                                | std::io::ErrorKind::IsADirectory
                                | std::io::ErrorKind::NotADirectory
                        ) =>
                    {
                        None
                    }
                    Ok(Err(error)) => return Err(WaitError::Journal(error.to_string())),
                    Err(error) => return Err(WaitError::Journal(error.to_string())),
                }
            }
        })
    }

    /// The media type that the program gave an emitted file; none where it gave none.
    pub async fn artifact_media_type(&self, who: Principal, id: ExecutionId, path: &RelPath) -> Option<String> {
        let run = self.runs.find(who, id)?;
        let RunProgress::Ended(Ok(execution)) = run.wait(Duration::ZERO, false).await else {
            return None;
        };
        let file = execution.files.iter().find(|file| file.path == path.as_str())?;
        file.media_type.clone()
    }

    /// Takes no more requests, lets runs end until `patience` is over, cancels the rest, and closes every session.
    pub async fn drain(&self, patience: Duration) {
        self.closing.close();
        let all = async {
            for run in self.runs.active(None) {
                run.wait_until_over().await;
            }
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            let under_way = self.runs.active(None);
            for run in &under_way {
                run.cancel();
            }
            for run in under_way {
                run.wait_until_over().await;
            }
        }
        for id in self.sessions.open.ids() {
            self.sessions.close_or_log(id, "the server ended").await;
        }
        self.runs
            .forget_older_than(Duration::ZERO)
            .iter()
            .for_each(|run| self.records.discard_files(run));
        if let Err(error) = self.workspaces.empty_trash(SweepBudget::MINUTE.entries).await {
            tracing::warn!(
                error = error.chain(),
                "what is kept no longer is removed at the next start"
            );
        }
    }

    /// Spawns the maintenance task: it closes idle and stopped sessions and keeps sandboxes warm, for as long as the engine exists.
    pub(crate) fn spawn_maintenance(
        self: &Arc<Self>,
        front: &ServeConfig,
        stopped: Option<mpsc::UnboundedReceiver<SessionId>>,
    ) {
        let (idle, warm) = (front.idle, front.warm);
        let (ready, maintained): (Weak<Sandboxes>, Weak<ClientRuns>) =
            (Arc::downgrade(&self.sandboxes), Arc::downgrade(self));
        tokio::spawn(async move {
            let Some(sandboxes) = ready.upgrade() else { return };
            if let Err(error) = sandboxes.prewarm(JobLanguage::TypeScript, warm).await {
                tracing::warn!(%error, "no sandbox could be made ready ahead of time");
            }
        });
        let Some(mut stopped) = stopped else { return };
        tokio::spawn(async move {
            loop {
                let asked = tokio::time::timeout(SWEEP_INTERVAL.min(idle / 2), stopped.recv()).await;
                let Some(runs) = maintained.upgrade() else { return };
                if let Ok(Some(id)) = asked {
                    runs.sessions.close_or_log(id, "stopped").await;
                }
                for id in runs.sessions.open.idle_ids(idle) {
                    // A direct call has no sandbox and may wait for an approval.
                    if !runs.runs.active(Some(id)).is_empty() {
                        continue;
                    }
                    runs.sessions.close_or_log(id, "idle").await;
                }
                runs.runs
                    .forget_older_than(idle)
                    .iter()
                    .for_each(|run| runs.records.discard_files(run));
            }
        });
    }
}

fn execution_request(session: &ExecutionContext, ask: RunRequest, run: &TrackedRun) -> ExecutionRequest {
    let input = |(name, bytes)| InputFile {
        from: InputSource::Bytes(bytes),
        name,
    };
    ExecutionRequest {
        policy: Arc::clone(&session.policy),
        program: ask.program,
        args: ask.args,
        files: ask.files.into_iter().map(input).collect(),
        stdin: ask.stdin.map(fixed_stdin),
        out: OutputDestination::Artifacts(run.files.clone()),
        require_hard: false,
        timeout: ask.timeout,
        client: ask.trace.as_ref().map(crate::runs::request::ClientTrace::to_client),
        reader: ResultAudience::Client,
        session: None,
    }
}
