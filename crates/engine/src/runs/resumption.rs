//! Resumes executions without a process: those that were suspended when theirs ended, and those whose process died.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use jiff::Timestamp;
use ringfence_gateway::{Redactor, SessionHistory};
use ringfence_journal::{ExecutionId, ExecutionStatus, LeaseId, Principal, SessionId};
use ringfence_policy::{Ceiling, Policy};
use ringfence_store::{AdoptError, RecordingRetention, RecordingState};

use crate::approvals::Approvals;
use crate::approvals::broker::{record_error, time_until};
use crate::closing::ClosingSignal;
use crate::config::EngineConfig;
use crate::error::OperationError;
use crate::recorded_request::RecordedRequest;
use crate::records::SessionRecords;
use crate::request::{ExecutionRequest, InputFile, OutputDestination, ResultAudience};
use crate::runs::registry::{RunRegistry, RunningExecution, TrackedRun, WaitError};
use crate::runs::request::{Assignment, ceiling_refusal, request_policy};
use crate::runs::tasks::{RunStart, RunTasks};
use crate::sandboxes::Sandboxes;
use crate::sessions::Sessions;
use crate::sessions::context::ExecutionContext;
use crate::sessions::open_session::{OpenSession, OpenSessionParts, SandboxSlot};
use crate::sweep;
use crate::workspaces::gc::SweepBudget;
use crate::workspaces::{DiskFolders, Workspaces};

/// Ready executions that one poll resumes at most.
const MAX_CONCURRENT_RESUMES: u32 = 64;
/// How often ready executions are looked for, even without a notification.
const READY_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// How long this process waits for another one that sweeps.
const SWEPT: Duration = Duration::from_secs(5);

/// How often an execution is looked up again when another process adopts or releases it in between.
const LOOKS: usize = 3;

/// How often abandoned recordings are swept.
const RECORDING_SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// The policies that an execution resumes under.
struct ResumePolicies {
    /// The policy of its session.
    base: Arc<Policy>,
    /// The policy of the execution itself.
    policy: Arc<Policy>,
}

/// What is known of an open session from before, where one of its executions resumes.
struct ResumedSession<'a> {
    name: Option<&'a str>,
    generation: u64,
    redactor: Arc<Redactor>,
    history: SessionHistory,
    /// The files that the execution began with.
    files: Vec<InputFile>,
}

/// An execution of another process that a client asked for.
pub(crate) enum AdoptedRun {
    /// The execution runs in this process now.
    Resumed(Arc<TrackedRun>),
    /// The execution is suspended and waits for approvals.
    AwaitsApproval(Box<RunningExecution>),
}

/// Where an execution was found.
enum Found {
    /// The execution runs here, or waits for approvals.
    Taken(AdoptedRun),
    /// The process that had the execution is gone.
    Orphan(LeaseId),
    /// Another process changed its state meanwhile.
    Changed,
}

/// Resumes executions that have no process.
pub(crate) struct Resumption {
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) tasks: Arc<RunTasks>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) sandboxes: Arc<Sandboxes>,
    pub(crate) records: Arc<SessionRecords>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) runs: Arc<RunRegistry>,
    /// Held while this process adopts an execution that had no process.
    pub(crate) adopting: tokio::sync::Mutex<()>,
    pub(crate) closing: ClosingSignal,
}

impl Resumption {
    pub(crate) fn new(tasks: &Arc<RunTasks>) -> Resumption {
        let executions = &tasks.executions;
        Resumption {
            config: Arc::clone(&tasks.config),
            sessions: Arc::clone(&tasks.sessions),
            workspaces: Arc::clone(&executions.workspaces),
            sandboxes: Arc::clone(&executions.sandboxes),
            records: Arc::clone(&tasks.records),
            approvals: Arc::clone(&executions.approvals),
            runs: Arc::clone(&tasks.runs),
            adopting: tokio::sync::Mutex::default(),
            closing: executions.closing.clone(),
            tasks: Arc::clone(tasks),
        }
    }

    /// Spawns the task that resumes suspended executions without a process as soon as they are ready, for as long as the engine exists.
    pub(crate) fn spawn_resume_loop(self: &Arc<Self>, idle: Duration) {
        let (notifier, resumption): (_, Weak<Resumption>) = (self.approvals.notifier.clone(), Arc::downgrade(self));
        tokio::spawn(async move {
            let born = Instant::now();
            let mut swept: Option<Instant> = None;
            loop {
                let wait = {
                    let Some(resumption) = resumption.upgrade() else { return };
                    if resumption.closing.is_closed() {
                        return;
                    }
                    let wait = resumption.resume_ready().await;
                    if swept.is_none_or(|swept| swept.elapsed() > RECORDING_SWEEP_INTERVAL) {
                        // Clients get the time to ask for an interrupted execution first.
                        resumption.sweep_recordings(idle, born.elapsed() > idle).await;
                        swept = Some(Instant::now());
                    }
                    wait
                };
                tokio::select! {
                    () = notifier.unclaimed_answer() => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
        });
    }

    /// Resumes all executions that are ready; returns the time until the next look.
    async fn resume_ready(self: &Arc<Self>) -> Duration {
        let ready = match self
            .records
            .store
            .ready_executions(Timestamp::now(), MAX_CONCURRENT_RESUMES)
            .await
        {
            Ok(ready) => ready,
            Err(error) => {
                tracing::error!(%error, "cannot look for executions that may go on");
                return READY_POLL_INTERVAL;
            }
        };
        let mut is_stuck = false;
        for (execution, _) in ready {
            if let Some(run) = self.runs.find_any(execution) {
                // The task that waits for it here looks again, in case it missed the notification.
                run.request_resume();
                is_stuck = true;
                continue;
            }
            if self.closing.is_closed() {
                return READY_POLL_INTERVAL;
            }
            match self.resume_execution(execution).await {
                Ok(_) => {}
                Err(OperationError::Adopt(_)) => is_stuck = true,
                Err(error) if error.is_transient() => {
                    is_stuck = true;
                    tracing::warn!(%execution, error = error.chain(), "an execution cannot go on now, and is tried again");
                }
                Err(error) => {
                    is_stuck = true;
                    tracing::error!(%execution, error = error.chain(), "an execution cannot go on");
                }
            }
        }
        match self.records.store.next_due_time().await {
            Ok(Some(due)) if !is_stuck => time_until(due).clamp(Duration::from_millis(1), READY_POLL_INTERVAL),
            Ok(_) | Err(_) => READY_POLL_INTERVAL,
        }
    }

    /// Ends interrupted executions that nobody asked for, and deletes recordings that are too old or too large.
    pub(crate) async fn sweep_recordings(&self, idle: Duration, ends: bool) {
        if let Err(error) = sweep::sweep_dead_processes(&self.records.store).await {
            tracing::warn!(%error, "what a neighbour left could not be swept");
        }
        self.workspaces.sweep_workspaces(SweepBudget::MINUTE).await;
        if let Err(error) = self
            .records
            .store
            .trim_recordings(RecordingRetention::for_server(), Timestamp::now())
            .await
        {
            tracing::warn!(%error, "what past executions kept could not be trimmed");
        }
        if let Some(front) = &self.config.serve {
            sweep::prune_records(&self.records.store, front.policy.audit().keep).await;
        }
        if !ends {
            return;
        }
        let interrupted = match self.records.store.interrupted_executions(MAX_CONCURRENT_RESUMES).await {
            Ok(interrupted) => interrupted,
            Err(error) => return tracing::warn!(%error, "cannot look for executions that were interrupted"),
        };
        for (execution, session) in interrupted {
            if let Err(error) = self.abandon_recording(execution, session, idle).await {
                tracing::warn!(%execution, error = error.chain(), "an execution that was interrupted could not be ended");
            }
        }
    }

    async fn abandon_recording(
        &self,
        execution: ExecutionId,
        session: SessionId,
        idle: Duration,
    ) -> Result<(), OperationError> {
        let row = self.records.store.session(session).await.map_err(record_error)?;
        let is_old = row.is_some_and(|row| Timestamp::now().duration_since(row.used).unsigned_abs() > idle);
        if !is_old {
            return Ok(());
        }
        match self.records.store.resume(&self.records.lease, execution).await {
            Ok(()) => self.workspaces.mark_lost(execution, &OperationError::Abandoned).await,
            // Another process resumed it, or its session also waits for approvals.
            Err(_) => Ok(()),
        }
    }

    /// Resumes an execution that has no process.
    pub(crate) async fn resume_execution(
        self: &Arc<Self>,
        execution: ExecutionId,
    ) -> Result<Arc<TrackedRun>, OperationError> {
        // Clients that look the execution up meanwhile wait until it is here.
        let _taking = self.adopting.lock().await;
        self.resume_alone(execution).await
    }

    /// Resumes an execution while the caller holds the lock.
    async fn resume_alone(self: &Arc<Self>, execution: ExecutionId) -> Result<Arc<TrackedRun>, OperationError> {
        let standing = self
            .records
            .store
            .recording_status(execution)
            .await
            .map_err(record_error)?;
        let session = standing.ok_or(OperationError::NotRecorded)?.session;
        self.records.store.resume(&self.records.lease, execution).await?;
        match self.adopt_and_run(execution).await {
            Ok(run) => Ok(run),
            Err(error) if error.is_transient() => {
                self.release_adopted(session).await;
                Err(error)
            }
            Err(error) => {
                self.workspaces.mark_lost(execution, &error).await?;
                Err(error)
            }
        }
    }

    /// Releases an adopted session to the next process, as soon as that can be recorded.
    async fn release_adopted(self: &Arc<Self>, session: SessionId) {
        let Err(error) = self.records.store.leave_unfinished(&self.records.lease, session).await else {
            return;
        };
        tracing::warn!(%session, %error, "what cannot go on now is left to the next in a while");
        let records = Arc::downgrade(&self.records);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(READY_POLL_INTERVAL).await;
                let Some(records) = records.upgrade() else { return };
                if records.store.leave_unfinished(&records.lease, session).await.is_ok() {
                    return;
                }
            }
        });
    }

    async fn adopt_and_run(self: &Arc<Self>, execution: ExecutionId) -> Result<Arc<TrackedRun>, OperationError> {
        let kept = self.records.store.recording(execution).await.map_err(record_error)?;
        let kept = kept.ok_or(OperationError::NotRecorded)?;
        let (script, _) = RecordedRequest::from_bytes(&kept.request)?;
        let id = kept.standing.session;
        let row = self.records.store.session(id).await.map_err(record_error)?;
        let row = row.ok_or(OperationError::NotRecorded)?;
        let ResumePolicies { base, policy } = self.current_rules(&script, &row.policy_digest).await?;
        let (past, generation) = self.sessions.load_session_history((id, row.principal), &policy).await?;
        let screen = self.records.load_redactor(id).await?;
        let session = ExecutionContext {
            redactor: Arc::clone(&screen),
            draft: script.draft.clone(),
            base: Arc::clone(&base),
            ..ExecutionContext::new(
                (id, execution),
                row.principal,
                Arc::clone(&policy),
                self.records.data.scratch(id),
            )
        };
        let (attempt, files) = self.records.load_next_attempt(execution).await?;
        let artifacts = self.records.data.artifacts(execution);
        let request = resumed_request(&script, &policy, files, artifacts.clone());
        let (seat, session) = match kept.standing.stays {
            None if row.workspace.is_none() => {
                let rules = Some(self.sessions.register_rules(id, policy, generation));
                let past = Arc::new(past);
                (
                    Assignment::OwnSession,
                    ExecutionContext {
                        history: past,
                        rules,
                        ..session
                    },
                )
            }
            name => {
                let resumed = ResumedSession {
                    name: name.as_deref(),
                    generation,
                    redactor: screen,
                    history: past,
                    files: request.files.clone(),
                };
                let open = self.resume_open_session(&row, &base, resumed)?;
                let in_it = open.execution_context(execution, policy, Arc::clone(&base));
                let draft = session.draft;
                (Assignment::OpenSession(open, base), ExecutionContext { draft, ..in_it })
            }
        };
        let through = session.read_context();
        let (run, stop) = self.runs.add_resumed(execution, through, row.principal, artifacts);
        let passed = Timestamp::now().duration_since(execution.created()).unsigned_abs();
        let stop = stop.with_timeout(script.timeout().map(|timeout| timeout.saturating_sub(passed)));
        self.tasks.spawn_run(RunStart {
            run: Arc::clone(&run),
            stop,
            assignment: seat,
            session,
            request,
            attempt,
        });
        Ok(run)
    }

    /// Adds the open session that an execution resumes in, as it was when its process ended.
    fn resume_open_session(
        &self,
        row: &ringfence_store::Session,
        base: &Arc<Policy>,
        resumed: ResumedSession<'_>,
    ) -> Result<Arc<OpenSession>, OperationError> {
        let kept = row
            .workspace
            .is_some()
            .then(|| self.workspaces.retained_workspace(row, base));
        let kept = kept.transpose().map_err(OperationError::Refused)?;
        let folders = self.records.data.scratch(row.id);
        let disk = DiskFolders {
            folders: &folders,
            kept: kept.as_ref(),
        };
        let spec = self.sandboxes.spec(base, disk, false);
        let spec = spec.map_err(OperationError::Refused)?;
        let rules = self
            .sessions
            .register_rules(row.id, Arc::clone(base), resumed.generation);
        let opening = OpenSessionParts {
            id: row.id,
            enforcement: self.sandboxes.enforcement(&spec, base),
            rules,
            spec,
            folders,
            redactor: resumed.redactor,
            kept,
            sandbox: SandboxSlot::Suspended(resumed.files),
        };
        let open = &self.sessions.open;
        Ok(open.add_resumed(row.principal, resumed.name, opening, resumed.history))
    }

    /// The policies of an execution that resumes: those that it began with, or those that replaced them, but never more than the operator
    /// allows by now.
    async fn current_rules(&self, script: &RecordedRequest, digest: &str) -> Result<ResumePolicies, OperationError> {
        let base = self.records.load_policy(digest).await?;
        let policy = if digest == script.base {
            self.records.load_policy(&script.policy).await?
        } else {
            let own = request_policy(&Ceiling::from_policy(&base), &base, script.draft.as_ref());
            own.unwrap_or_else(|_| Arc::clone(&base))
        };
        if let Some(front) = self.config.serve.as_ref().filter(|_| script.is_asked) {
            for rules in [&base, &policy] {
                let allowed = rules.to_draft().under(&front.ceiling);
                allowed.map_err(|error| OperationError::Refused(ceiling_refusal(&error)))?;
            }
        }
        Ok(ResumePolicies { base, policy })
    }

    /// Adopts an execution that a client asks for and that is not here, if its process died and it can resume.
    pub(crate) fn adopt_run(
        self: &Arc<Self>,
        who: Principal,
        id: ExecutionId,
    ) -> BoxFuture<'_, Result<AdoptedRun, WaitError>> {
        Box::pin(self.find_and_adopt(who, id))
    }

    async fn find_and_adopt(self: &Arc<Self>, who: Principal, id: ExecutionId) -> Result<AdoptedRun, WaitError> {
        for _ in 0..LOOKS {
            match self.look_for(who, id).await? {
                Found::Taken(taken) => return Ok(taken),
                Found::Changed => {}
                Found::Orphan(lease) => {
                    // Another process sweeps it and has not yet recorded that it can resume; this one waits only for a limited time.
                    let swept = tokio::time::timeout(SWEPT, self.records.store.swept_by_others(lease)).await;
                    tracing::debug!(%lease, in_time = swept.is_ok(), "an execution has no process");
                    if let Err(error) = sweep::sweep_dead_processes(&self.records.store).await {
                        tracing::warn!(%error, "what a neighbour left could not be swept");
                    }
                }
            }
        }
        Err(WaitError::Elsewhere(id))
    }

    /// Where an execution is: in this process, in the store, or in another process. The lock keeps it from moving between the first two
    /// during the lookup.
    async fn look_for(self: &Arc<Self>, who: Principal, id: ExecutionId) -> Result<Found, WaitError> {
        let unread = |error: ringfence_store::QueryError| WaitError::Journal(error.to_string());
        let _taking = self.adopting.lock().await;
        if let Some(run) = self.runs.find(who, id) {
            return Ok(Found::Taken(AdoptedRun::Resumed(run)));
        }
        let Some(standing) = self.records.store.recording_status(id).await.map_err(unread)? else {
            return Err(self.records.missing_run_error(who, id).await);
        };
        let row = self.records.store.session(standing.session).await.map_err(unread)?;
        let Some(row) = row.filter(|row| row.principal == who) else {
            return Err(WaitError::Unknown(id));
        };
        match (standing.state, standing.spoiled) {
            (RecordingState::Over, _) => Err(self.records.missing_run_error(who, id).await),
            (_, Some(why)) => Err(WaitError::NotResumable { id, why }),
            (RecordingState::Running, None) => self.owned(id, &row).await,
            (RecordingState::Waiting, None) => {
                Ok(Found::Taken(AdoptedRun::AwaitsApproval(Box::new(RunningExecution {
                    execution_id: id,
                    session_id: standing.session,
                    status: ExecutionStatus::WaitingApproval,
                    stdout: String::new(),
                    stderr: String::new(),
                    elapsed_ms: u64::try_from(Timestamp::now().duration_since(id.created()).as_millis()).unwrap_or(0),
                    approvals: self.records.pending_approvals(id).await?,
                    unrepeatable: None,
                    waits_behind: None,
                }))))
            }
            (RecordingState::Interrupted, None) => match self.resume_alone(id).await {
                Ok(run) => Ok(Found::Taken(AdoptedRun::Resumed(run))),
                // Another process adopted it first.
                Err(OperationError::Adopt(AdoptError::Owned { .. })) => Ok(Found::Changed),
                Err(error) => Err(resume_error(id, &error)),
            },
        }
    }

    /// An execution that a process has, and that this one does not track.
    async fn owned(&self, id: ExecutionId, row: &ringfence_store::Session) -> Result<Found, WaitError> {
        match row.lease {
            Some(lease) if lease == self.records.lease.id() => {
                if !self.runs.active(Some(row.id)).is_empty() {
                    // A nested skill execution: clients see it through its caller.
                    return Err(WaitError::Elsewhere(id));
                }
                // It could not resume, and that could not be recorded yet.
                match self.records.store.leave_unfinished(&self.records.lease, row.id).await {
                    Ok(_) => Ok(Found::Changed),
                    Err(error) => Err(WaitError::Journal(error.to_string())),
                }
            }
            Some(lease) if !self.records.store.lives(lease) => Ok(Found::Orphan(lease)),
            Some(_) => Err(WaitError::Elsewhere(id)),
            // It ended or was released after its recording was read.
            None => Ok(Found::Changed),
        }
    }

    /// Adopts an execution that has no process, in order to cancel it.
    pub(crate) async fn adopt_to_cancel(
        self: &Arc<Self>,
        who: Principal,
        id: ExecutionId,
    ) -> Result<Arc<TrackedRun>, WaitError> {
        for _ in 0..LOOKS {
            match self.adopt_run(who, id).await? {
                AdoptedRun::Resumed(run) => return Ok(run),
                AdoptedRun::AwaitsApproval(_) => match self.resume_execution(id).await {
                    Ok(run) => return Ok(run),
                    // It runs here by now, or another process has it.
                    Err(OperationError::Adopt(AdoptError::Owned { .. } | AdoptError::Closed { .. })) => {}
                    Err(error) => return Err(resume_error(id, &error)),
                },
            }
        }
        Err(WaitError::Elsewhere(id))
    }
}

/// The request as it was recorded, with the files that its next attempt begins with.
fn resumed_request(
    script: &RecordedRequest,
    policy: &Arc<Policy>,
    files: Vec<InputFile>,
    artifacts: PathBuf,
) -> ExecutionRequest {
    ExecutionRequest {
        args: script.args.clone(),
        files,
        out: OutputDestination::Artifacts(artifacts),
        require_hard: script.require_hard,
        timeout: script.timeout(),
        client: script.client.clone(),
        reader: ResultAudience::Client,
        policy: Arc::clone(policy),
        ..ExecutionRequest::new((**policy).clone(), script.program())
    }
}

/// Why an execution does not resume, for good or for now.
fn resume_error(id: ExecutionId, error: &OperationError) -> WaitError {
    let why = error.chain();
    if error.is_transient() {
        WaitError::Journal(why)
    } else {
        WaitError::NotResumable { id, why }
    }
}
