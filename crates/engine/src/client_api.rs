//! The client API of the engine: begin an execution, wait for it, cancel it, read what it left.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ringfence_journal::{ApprovalId, ExecutionId, ExecutionStatus, Principal, SessionId};
use ringfence_policy::RelPath;
use ringfence_sandbox::{JobLanguage, Stop, fixed_stdin};
use ringfence_store::{ApprovalQuery, ApprovalState, IdempotencyClaim, PromisedRun};
use tokio::sync::mpsc;

use crate::attempt::{ExecutionAttempt, RunContext};
use crate::engine::Engine;
use crate::error::OperationError;
use crate::execution::ExecutionReport;
use crate::refused_runs;
use crate::request::{ExecutionRequest, InputFile, InputSource, OutputDestination, ResultAudience};
use crate::resume::AdoptedRun;
use crate::run_request::{Assignment, RunRequest, ServeConfig};
use crate::runs::{
    AbortGuard, OutputFrom, RunArtifact, RunOutput, RunPlace, RunProgress, TrackedRun, WaitCondition, WaitError,
};
use crate::session::{ExecutionContext, OpenSession, SandboxSlot, SessionRef};
use crate::workspace::AssignError;
use crate::workspace_gc::{SweepBudget, move_to_trash, trash_folder};

/// How often the engine looks for idle sessions and old results.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

impl Engine {
    fn serve_config(&self) -> Result<&ServeConfig, OperationError> {
        self.config.serve.as_ref().ok_or(OperationError::Closed)
    }

    /// Begins an execution. A request that is refused has the refusal as its result. The id is recorded first, so that the execution is
    /// found again even if this process dies.
    pub async fn begin_run(self: &Arc<Self>, who: Principal, ask: RunRequest) -> Result<ExecutionId, OperationError> {
        let front = self.open_front()?;
        let place = self.runs.place(who)?;
        Box::pin(refused_runs::check_flood(self, front, who, &ask)).await?;
        let execution = ExecutionId::generate()?;
        let claim = IdempotencyClaim {
            principal: who,
            execution,
            key: None,
        };
        self.store.claim_idempotency_key(&self.lease, claim).await?;
        Box::pin(self.begin_run_with_id(execution, (who, place), ask)).await?;
        Ok(execution)
    }

    /// The serve configuration, as long as the engine takes requests.
    pub(crate) fn open_front(&self) -> Result<&ServeConfig, OperationError> {
        let front = self.serve_config()?;
        if self.is_closing() {
            return Err(OperationError::Closed);
        }
        Ok(front)
    }

    /// Begins a run whose id was promised before.
    pub(crate) async fn begin_run_with_id(
        self: &Arc<Self>,
        execution: ExecutionId,
        (who, place): (Principal, RunPlace),
        ask: RunRequest,
    ) -> Result<(), OperationError> {
        let front = self.open_front()?;
        let seat = Box::pin(self.assign_session(front, who, &ask)).await;
        let (mut session, seat) = match seat {
            Ok((policy, Assignment::OpenSession(open, base))) => {
                let session = open.execution_context(execution, policy, Arc::clone(&base));
                (session, Assignment::OpenSession(open, base))
            }
            Ok((policy, Assignment::OwnSession)) => (
                self.own_session_context(who, execution, policy)?,
                Assignment::OwnSession,
            ),
            Err(AssignError::Failed(error)) => return Err(error),
            Err(AssignError::Refused(refusal)) => {
                let session = self.own_session_context(who, execution, Arc::clone(&front.policy))?;
                return refused_runs::begin_refused(self, execution, (who, place), session, refusal);
            }
        };
        session.draft.clone_from(&ask.draft);
        let files = self.artifacts_folder(execution);
        let (run, stop) = self.runs.add(execution, session.read_context(), (who, place), files);
        let request = execution_request(&session, ask, &run);
        let stop = stop.with_timeout(request.timeout);
        self.spawn_run((run, stop), seat, session, request, ExecutionAttempt::first_attempt());
        Ok(())
    }

    /// Spawns the task that sees a run to its end.
    pub(crate) fn spawn_run(
        self: &Arc<Self>,
        (run, mut stop): (Arc<TrackedRun>, Stop),
        seat: Assignment,
        session: ExecutionContext,
        request: ExecutionRequest,
        attempt: ExecutionAttempt,
    ) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let ends = AbortGuard(run);
            let mut ear = RunOutput(Arc::clone(&ends.0));
            let mut company = RunContext {
                observer: &mut ear,
                stop: &mut stop,
                run: Some(&*ends.0),
            };
            let result = match seat {
                Assignment::OwnSession => {
                    Box::pin(engine.run_in_own_session(session, request, attempt, &mut company)).await
                }
                Assignment::OpenSession(open, _) => {
                    let ran =
                        Box::pin(engine.run_in_open_session(&open, session, request, attempt, &mut company)).await;
                    open.touch();
                    if matches!(ran, Err(OperationError::HandedOver)) {
                        // Another process resumes the session: it does not end here.
                        engine.sessions.remove(open.id);
                    } else if open.kept.is_some() && open.name.is_none() {
                        // Nobody can name this session again; its files stay for whoever has its id.
                        engine.close_or_log(open.id, "done").await;
                    }
                    ran
                }
            };
            match result {
                Err(OperationError::HandedOver) => {
                    engine.runs.remove(ends.0.id);
                    ends.0.finish(Err(Arc::new(OperationError::HandedOver)));
                }
                Ok(report) if report.status == ExecutionStatus::Refused => {
                    // It is recorded by now, and counts for the refusals that follow.
                    engine.runs.refused.spend(ends.0.principal(), Instant::now());
                    finish_refused(&engine, &ends.0, Ok(report));
                }
                result => engine.finish_run(&ends.0, result),
            }
        });
    }

    /// Finishes a run, and forgets old ones where too much is kept.
    pub(crate) fn finish_run(&self, run: &TrackedRun, result: Result<ExecutionReport, OperationError>) {
        run.finish(result.map(Arc::new).map_err(Arc::new));
        self.runs.record_end(run).iter().for_each(|run| self.discard_files(run));
    }

    /// Waits until an execution has ended, for `at_most` this long.
    pub async fn wait_for_run(
        self: &Arc<Self>,
        who: Principal,
        id: ExecutionId,
        at_most: Duration,
    ) -> Result<RunProgress, WaitError> {
        self.wait_for_run_until(who, id, at_most, WaitCondition::Finished, OutputFrom::LastRead)
            .await
    }

    /// Waits until an execution has ended or, on request, needs approvals; the caller chooses which output it gets.
    pub async fn wait_for_run_until(
        self: &Arc<Self>,
        who: Principal,
        id: ExecutionId,
        at_most: Duration,
        patience: WaitCondition,
        from: OutputFrom,
    ) -> Result<RunProgress, WaitError> {
        let run = match self.runs.find(who, id) {
            Some(run) => run,
            None => match Box::pin(self.adopt_run(who, id)).await? {
                AdoptedRun::Resumed(run) => run,
                AdoptedRun::AwaitsApproval(running) => return Ok(RunProgress::Running(*running)),
            },
        };
        let mut progress = run.wait(at_most, patience == WaitCondition::FinishedOrBlocked).await;
        if let RunProgress::Running(running) = &mut progress {
            let told = Box::pin(self.redacted_output(&run, from)).await?;
            (running.stdout, running.stderr) = (told.stdout, told.stderr);
            running.approvals = self.pending_approvals(id).await?;
            let standing = self.store.recording_status(id).await;
            let standing = standing.map_err(|error| WaitError::Journal(error.to_string()))?;
            let spoiled = standing.and_then(|standing| standing.spoiled);
            running.unrepeatable = running.unrepeatable.take().or(spoiled);
            let turn = self.sessions.current_execution(run.session).filter(|turn| *turn != id);
            running.waits_behind = turn.filter(|turn| self.runs.find_any(*turn).is_some());
        }
        Ok(progress)
    }

    /// The approval requests that an execution of `who` waits for.
    pub async fn pending_approval_ids(&self, who: Principal, id: ExecutionId) -> Result<Vec<ApprovalId>, WaitError> {
        let pending = ApprovalQuery {
            principal: Some(who),
            execution: Some(id),
            state: Some(ApprovalState::Pending),
            ..ApprovalQuery::default()
        };
        let pending = self.store.list_approvals(pending).await;
        let pending = pending.map_err(|error| WaitError::Journal(error.to_string()))?;
        Ok(pending.iter().map(|approval| approval.question.id).collect())
    }

    /// Cancels an execution; its end comes through waiting.
    pub async fn cancel_run(self: &Arc<Self>, who: Principal, id: ExecutionId) -> Result<(), WaitError> {
        let run = match self.runs.find(who, id) {
            Some(run) => run,
            None => self.adopt_to_cancel(who, id).await?,
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
            return Err(self.missing_run_error(who, id).await);
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
                        let shown = self.render_file(&run.read_context(), bytes).await;
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

    /// Why this process has no result of an execution, according to the store.
    pub(crate) async fn missing_run_error(&self, who: Principal, id: ExecutionId) -> WaitError {
        let unread = |error: ringfence_store::QueryError| WaitError::Journal(error.to_string());
        // Read first: the promise is deleted as soon as the execution exists.
        let promise = match self.store.promise(id).await {
            Ok(promise) => promise.filter(|promise| promise.principal == who),
            Err(error) => return unread(error),
        };
        let found = match (self.store.execution(id).await, promise) {
            (Ok(Some(found)), _) => found,
            (Ok(None), Some(promise)) => return self.never_started(id, promise),
            (Ok(None), None) => return WaitError::Unknown(id),
            (Err(error), _) => return unread(error),
        };
        match self.store.session(found.session).await {
            Ok(Some(session)) if session.principal == who => WaitError::Forgotten {
                id,
                status: found.status,
            },
            Ok(_) => WaitError::Unknown(id),
            Err(error) => unread(error),
        }
    }

    /// Why a promised execution has not started and is not in this process.
    fn never_started(&self, id: ExecutionId, promise: PromisedRun) -> WaitError {
        let is_anothers = promise.lease != self.lease.id() && self.store.lives(promise.lease);
        match promise.status {
            None if is_anothers => WaitError::Elsewhere(id),
            status => WaitError::Forgotten {
                id,
                status: status.unwrap_or(ExecutionStatus::Lost),
            },
        }
    }

    /// Ends a session of `who` and everything that runs in it. False: there is no such session here.
    pub async fn end_session(&self, who: Principal, id: SessionId) -> Result<bool, OperationError> {
        if self.sessions.find(who, &SessionRef::Id(id)).is_none() {
            return Ok(false);
        }
        self.close_open_session(id, "ended on request").await?;
        Ok(true)
    }

    /// Closes an open session and records its end.
    pub(crate) async fn close_open_session(&self, id: SessionId, reason: &str) -> Result<(), OperationError> {
        let Some(open) = self.sessions.remove(id) else {
            return Ok(());
        };
        self.runs.active(Some(id)).iter().for_each(|run| run.cancel());
        let place = std::mem::replace(&mut *open.sandbox.lock().await, SandboxSlot::Closed);
        open.set_idle_admission(None);
        if open.kept.is_some() {
            return self.park_closed_session(&open, place).await;
        }
        match place {
            SandboxSlot::Unopened | SandboxSlot::Closed => Ok(()),
            SandboxSlot::Empty | SandboxSlot::Suspended(_) => self.close_session((id, &open.folders), reason).await,
            SandboxSlot::Ready(sandbox) => {
                let (gone, written) = tokio::join!(sandbox.end(), self.close_session((id, &open.folders), reason));
                gone?;
                written
            }
        }
    }

    /// Parks a closed session whose files stay.
    async fn park_closed_session(&self, open: &OpenSession, place: SandboxSlot) -> Result<(), OperationError> {
        match place {
            SandboxSlot::Unopened | SandboxSlot::Closed => Ok(()),
            SandboxSlot::Empty | SandboxSlot::Suspended(_) => self.park_session(open).await,
            SandboxSlot::Ready(sandbox) => {
                let gone = sandbox.end().await;
                self.park_session(open).await?;
                Ok(gone?)
            }
        }
    }

    /// Takes no more requests, lets runs end until `patience` is over, cancels the rest, and closes every session.
    pub async fn drain(&self, patience: Duration) {
        self.stop_accepting();
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
        for id in self.sessions.ids() {
            self.close_or_log(id, "the server ended").await;
        }
        self.runs
            .forget_older_than(Duration::ZERO)
            .iter()
            .for_each(|run| self.discard_files(run));
        if let Err(error) = self.empty_trash(SweepBudget::MINUTE.entries).await {
            tracing::warn!(
                error = error.chain(),
                "what is kept no longer is removed at the next start"
            );
        }
    }

    /// Spawns the maintenance task: it closes idle and stopped sessions and keeps sandboxes warm, for as long as the engine exists.
    pub(crate) fn spawn_maintenance(
        engine: &Arc<Engine>,
        front: &ServeConfig,
        stopped: Option<mpsc::UnboundedReceiver<SessionId>>,
    ) {
        let (idle, warm) = (front.idle, front.warm);
        let engine: Weak<Engine> = Arc::downgrade(engine);
        let ready = Weak::clone(&engine);
        tokio::spawn(async move {
            let Some(engine) = ready.upgrade() else { return };
            if let Err(error) = engine.prewarm(JobLanguage::TypeScript, warm).await {
                tracing::warn!(%error, "no sandbox could be made ready ahead of time");
            }
        });
        let Some(mut stopped) = stopped else { return };
        tokio::spawn(async move {
            loop {
                let asked = tokio::time::timeout(SWEEP_INTERVAL.min(idle / 2), stopped.recv()).await;
                let Some(engine) = engine.upgrade() else { return };
                if let Ok(Some(id)) = asked {
                    engine.close_or_log(id, "stopped").await;
                }
                for id in engine.sessions.idle_ids(idle) {
                    // A direct call has no sandbox and may wait for an approval.
                    if !engine.runs.active(Some(id)).is_empty() {
                        continue;
                    }
                    engine.close_or_log(id, "idle").await;
                }
                engine
                    .runs
                    .forget_older_than(idle)
                    .iter()
                    .for_each(|run| engine.discard_files(run));
            }
        });
    }

    async fn close_or_log(&self, id: SessionId, reason: &str) {
        if let Err(error) = self.close_open_session(id, reason).await {
            tracing::error!(%error, session = %id, "the end of a session could not be written down");
        }
    }

    /// Moves the files that an execution left out of the way. The program decides how many there are, so they are removed in the
    /// background.
    fn discard_files(&self, run: &TrackedRun) {
        if !run.files.exists() {
            return;
        }
        match move_to_trash(&run.files, &trash_folder(&self.config.home)) {
            Ok(()) => self.release_folder(&run.files),
            Err(error) => {
                tracing::warn!(folder = %run.files.display(), %error, "files of an execution could not be removed");
            }
        }
    }
}

/// Finishes a run that was refused before it started: it keeps its answer, neither its policy nor its request.
pub(crate) fn finish_refused(engine: &Engine, run: &TrackedRun, result: Result<ExecutionReport, OperationError>) {
    if let Some(front) = &engine.config.serve {
        run.forget_request(&front.policy);
    }
    engine.finish_run(run, result);
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
        client: ask.trace.as_ref().map(crate::run_request::ClientTrace::to_client),
        reader: ResultAudience::Client,
        session: None,
    }
}
