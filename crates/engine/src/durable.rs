//! Durable executions: what is recorded of them, how they suspend while people decide, and how they resume.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ringfence_gateway::CallLog;
use ringfence_journal::{Event, EventKind, ExecutionStatus, Principal, Recorder as _};
use ringfence_sandbox::{Admission, BudgetRequest, ReplayState, Spec, Stop};
use ringfence_store::NewRecording;
use serde::{Deserialize, Serialize};

use crate::approval_broker::{ApprovalBroker, ProgramSource, record_error, time_until};
use crate::attempt::{AttemptKind, ExecutionAttempt, RunContext, UnrepeatableReason};
use crate::engine::Engine;
use crate::error::OperationError;
use crate::execution::ExecutionReport;
use crate::output::ShownBytes;
use crate::recorded_request::{self, RecordedRequest, RecordedRequestError, RequestSettings};
use crate::refusal::RunRefusal;
use crate::report;
use crate::request::{ExecutionRequest, InputFile, InputSource, RunProgram};
use crate::runs::TrackedRun;
use crate::session::ExecutionContext;

/// The longest wait before a retry after a transient error.
const MAX_BACKOFF: Duration = Duration::from_mins(1);

/// How an execution ended, to compare with when it is run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutcomeDigest {
    pub(crate) status: ExecutionStatus,
    pub(crate) exit_code: i32,
    pub(crate) error: Option<String>,
    /// The blake3 digest of the value's JSON text; the outputs below are digests too.
    pub(crate) value: Option<String>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl OutcomeDigest {
    pub(crate) fn from_report(execution: &ExecutionReport) -> OutcomeDigest {
        let hash = |text: &str| ringfence_journal::ContentHash::digest(text.as_bytes()).to_string();
        OutcomeDigest {
            status: execution.status,
            exit_code: execution.exit_code,
            error: execution.error.as_ref().map(|error| error.code.clone()),
            value: execution.value.as_ref().map(|value| hash(value.get())),
            stdout: hash(&execution.stdout),
            stderr: hash(&execution.stderr),
        }
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, RecordedRequestError> {
        serde_json::to_vec(self).map_err(|_| RecordedRequestError::Unreadable("its end is not JSON"))
    }
}

impl Engine {
    /// Records that an execution starts, together with the request that runs it again where that can be stored.
    pub(crate) async fn record_started(
        &self,
        session: &ExecutionContext,
        request: &ExecutionRequest,
        attempt: &mut ExecutionAttempt,
        there: Result<&BTreeMap<String, Vec<u8>>, &'static str>,
    ) -> Result<(), OperationError> {
        let event = Event::from_host(
            session.id,
            Some(session.execution),
            report::started_event(session, request),
        );
        let (script, again) = match there.and_then(|there| build_recorded_request(session, request, there)) {
            Ok(kept) => kept,
            Err(why) => {
                attempt.unrepeatable.set(why);
                self.store.record(event).await?;
                return Ok(());
            }
        };
        let recording = NewRecording {
            execution: session.execution,
            session: session.id,
            request: script,
            stays: session.name.clone(),
        };
        if session.policy.digest() != session.base.digest() {
            // The session has a policy of its own; the execution needs this one to resume.
            let json = session.policy.to_json().to_string();
            self.store
                .keep_policy(session.id, session.policy_ref.clone(), json)
                .await?;
        }
        self.store.record_start_with_recording(event, recording).await?;
        attempt.replay = Some(again);
        attempt.tape = Arc::new(CallLog::new());
        Ok(())
    }

    /// Records that an execution resumes.
    pub(crate) async fn record_resumed(
        &self,
        session: &ExecutionContext,
        attempt: &mut ExecutionAttempt,
    ) -> Result<(), OperationError> {
        let kind = EventKind::ExecutionResumed {
            known: attempt.tape.answered_count() as u64,
            unknown: attempt.tape.unknown_count() as u64,
        };
        self.record_event(session, kind).await?;
        attempt.kind = AttemptKind::Resumed;
        Ok(())
    }

    /// Records that an execution suspends and has released its sandbox.
    pub(crate) async fn record_suspended(
        &self,
        session: &ExecutionContext,
        attempt: &ExecutionAttempt,
        due: Option<u64>,
        waiting: usize,
    ) -> Result<(), OperationError> {
        let pending = self
            .store
            .pending_approvals(session.execution)
            .await
            .map_err(record_error)?;
        // Some call was answered just now, so the execution is due at once.
        let until = if pending.len() < waiting {
            Some(Timestamp::now())
        } else {
            due.and_then(timestamp_from_ticks)
        };
        let kind = EventKind::ExecutionSuspended {
            waiting: waiting as u64,
            until,
        };
        let event = Event::from_host(session.id, Some(session.execution), kind);
        // The session stays with this process: another one resumes it only when this one is gone.
        self.store.suspend(event, until, attempt.tape.remaining_trace()).await?;
        Ok(())
    }

    /// Waits without a sandbox until an execution can resume; none if it is cancelled first.
    pub(crate) async fn wait_until_resumable(
        &self,
        session: &ExecutionContext,
        company: &mut RunContext<'_>,
    ) -> Result<Option<(ExecutionAttempt, Vec<InputFile>)>, OperationError> {
        if let Some(run) = company.run {
            run.mark_suspended();
        }
        let (mut claim, mut tries) = (ResumeClaim::Unclaimed, RetryBackoff::default());
        loop {
            match self.try_resume(session, company, &mut claim).await {
                Err(error) if error.is_transient() => {
                    if !self.backoff(session, &mut tries, &error, company).await? {
                        return Ok(None);
                    }
                }
                called => return called,
            }
        }
    }

    /// Waits the same way, but returns transient errors.
    async fn try_resume(
        &self,
        session: &ExecutionContext,
        company: &mut RunContext<'_>,
        claim: &mut ResumeClaim,
    ) -> Result<Option<(ExecutionAttempt, Vec<InputFile>)>, OperationError> {
        let execution = session.execution;
        while *claim == ResumeClaim::Unclaimed {
            let pending = self.store.pending_approvals(execution).await.map_err(record_error)?;
            let bell = self.approval_notifier.register(pending);
            let standing = self.store.recording_status(execution).await.map_err(record_error)?;
            let due = standing.and_then(|standing| standing.due);
            if due.is_none_or(|due| due <= Timestamp::now()) {
                self.store.resume(&self.lease, execution).await?;
                *claim = ResumeClaim::Owned;
                break;
            }
            tokio::select! {
                biased;
                () = company.stop.cancelled() => return Ok(None),
                () = self.wait_until_closing() => {
                    self.store.release_session(session.id).await?;
                    return Err(OperationError::HandedOver);
                }
                () = bell.notified() => {}
                () = wait_for_resume_request(company.run) => {}
                () = tokio::time::sleep(due.map_or(Duration::ZERO, time_until)) => {}
            }
        }
        self.load_next_attempt(session).await.map(Some)
    }

    /// Backs off after a transient error, longer each time; false if the execution is cancelled meanwhile.
    pub(crate) async fn backoff(
        &self,
        session: &ExecutionContext,
        tries: &mut RetryBackoff,
        error: &OperationError,
        company: &mut RunContext<'_>,
    ) -> Result<bool, OperationError> {
        let wait = tries.next_delay();
        tracing::warn!(
            execution = %session.execution,
            error = error.chain(),
            again = wait.as_secs(),
            "an execution cannot go on now, and is tried again"
        );
        tokio::select! {
            biased;
            () = company.stop.cancelled() => Ok(false),
            () = self.wait_until_closing() => {
                self.store.leave_unfinished(&self.lease, session.id).await?;
                Err(OperationError::HandedOver)
            }
            () = tokio::time::sleep(wait) => Ok(true),
        }
    }

    /// The next attempt of an execution that resumes, with the files that it started with.
    pub(crate) async fn load_next_attempt(
        &self,
        session: &ExecutionContext,
    ) -> Result<(ExecutionAttempt, Vec<InputFile>), OperationError> {
        let kept = self.store.recording(session.execution).await.map_err(record_error)?;
        let kept = kept.ok_or(OperationError::NotRecorded)?;
        let (script, files) = RecordedRequest::from_bytes(&kept.request)?;
        let (tape, trace) = CallLog::from_entries(kept.entries)?;
        let attempt = ExecutionAttempt {
            replay: Some(ReplayState {
                seed: script.seed,
                clock: script.clock,
                trace,
            }),
            tape: Arc::new(tape),
            kind: AttemptKind::Waiting,
            shown: ShownBytes::default(),
            unrepeatable: UnrepeatableReason::default(),
        };
        Ok((attempt, files))
    }

    /// Acquires a permit to run, unless the request is cancelled first. An execution that started before retries without end; a new one is
    /// refused when the budget has no capacity for too long.
    pub(crate) async fn acquire_permit(
        &self,
        session: &ExecutionContext,
        spec: &Spec,
        attempt: &ExecutionAttempt,
        company: &mut RunContext<'_>,
    ) -> Result<RunPermit, OperationError> {
        let wanted = BudgetRequest {
            who: session.principal,
            memory: spec.promised_memory(),
            depth: session.depth,
        };
        let mut tries = RetryBackoff::default();
        loop {
            let run = company.run;
            let turn = async {
                if let Some(run) = run {
                    run.acquire_slot().await;
                }
                self.budget.admit(wanted).await
            };
            let refusal = tokio::select! {
                biased;
                () = company.stop.cancelled() => return Ok(RunPermit::Cancelled),
                turn = turn => match turn {
                    Ok(turn) => return Ok(RunPermit::Granted(turn)),
                    Err(error) => report::budget_refusal(&error),
                },
            };
            if attempt.is_first() {
                return Ok(RunPermit::NoCapacity(refusal));
            }
            let error = OperationError::Refused(refusal);
            if !self.backoff(session, &mut tries, &error, company).await? {
                return Ok(RunPermit::Cancelled);
            }
        }
    }

    /// Finishes an execution that was cancelled, or ran out of time, while it had no sandbox.
    pub(crate) async fn finish_cancelled(
        &self,
        session: &ExecutionContext,
        attempt: &ExecutionAttempt,
        stop: &Stop,
        closed: Option<&str>,
    ) -> Result<ExecutionReport, OperationError> {
        if attempt.is_first() {
            return self.finish_unstarted(session, stop).await;
        }
        let execution = report::stopped_report(session, stop);
        let event = Event::from_host(
            session.id,
            Some(session.execution),
            report::ended_event(session, &execution, None),
        );
        self.store
            .record_end_with_outcome(
                event,
                OutcomeDigest::from_report(&execution).to_bytes()?,
                attempt.tape.remaining_trace(),
            )
            .await?;
        if let Some(reason) = closed {
            self.close_session((session.id, &session.folders), reason).await?;
        }
        Ok(execution)
    }

    /// The approval broker of an execution.
    pub(crate) fn approval_broker(&self, session: &ExecutionContext, program: &str) -> ApprovalBroker {
        ApprovalBroker {
            store: Arc::clone(&self.store),
            notifier: self.approval_notifier.clone(),
            session: session.id,
            execution: session.execution,
            principal: session.principal,
            program: program.to_owned(),
            code: ProgramSource::default(),
            standing_rules: self.standing_rules.clone(),
        }
    }
}

/// Whether an execution may run now.
#[derive(Debug)]
pub(crate) enum RunPermit {
    /// Granted, for as long as the permit is held.
    Granted(Admission<Principal>),
    /// The execution was cancelled first.
    Cancelled,
    /// The machine had no capacity.
    NoCapacity(RunRefusal),
}

/// Whether this process has claimed a suspended execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResumeClaim {
    Unclaimed,
    Owned,
}

/// Counts the retries after transient errors.
#[derive(Debug, Default)]
pub(crate) struct RetryBackoff(u32);

impl RetryBackoff {
    /// The delay before the next retry, twice the one before.
    fn next_delay(&mut self) -> Duration {
        let wait = Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(self.0));
        self.0 = self.0.saturating_add(1);
        wait.min(MAX_BACKOFF)
    }
}

/// Waits for a request to resume; forever where there is no tracked run.
async fn wait_for_resume_request(run: Option<&TrackedRun>) {
    match run {
        Some(run) => run.resume_requested().await,
        None => std::future::pending().await,
    }
}

/// A timestamp of a program's clock, whose ticks are 100 microseconds; none out of range.
fn timestamp_from_ticks(ticks: u64) -> Option<Timestamp> {
    let microseconds = i64::try_from(ticks).ok()?.checked_mul(100)?;
    Timestamp::from_microsecond(microseconds).ok()
}

/// Why an execution has no recording.
pub(crate) const NOT_CODE: &str = "it is no code";
pub(crate) const TOO_MANY_FILES: &str = "its files are more than 16 MiB, or could not be put back as they were";
const UNREADABLE: &str = "its files or arguments cannot be kept";

/// Builds the recorded request and the replay state of an execution; or says why it cannot be recorded.
fn build_recorded_request(
    session: &ExecutionContext,
    request: &ExecutionRequest,
    there: &BTreeMap<String, Vec<u8>>,
) -> Result<(Vec<u8>, ReplayState), &'static str> {
    if !matches!(request.program, RunProgram::Code { .. }) {
        return Err(NOT_CODE);
    }
    let mut files = there.clone();
    let mut size: u64 = there.values().map(|content| content.len() as u64).sum();
    for file in &request.files {
        size = size.saturating_add(file.from.byte_length());
        if size > recorded_request::MAX_FILE_BYTES {
            return Err(TOO_MANY_FILES);
        }
        let content = match &file.from {
            InputSource::Bytes(bytes) => bytes.clone(),
            InputSource::Path(path) => std::fs::read(path).map_err(|_| UNREADABLE)?,
        };
        files.insert(file.name.as_str().to_owned(), content);
    }
    let again = ReplayState::fresh();
    let around = RequestSettings {
        args: &request.args,
        policy: session.policy.digest(),
        base: session.base.digest(),
        is_asked: session.rules.is_some(),
        require_hard: request.require_hard,
        draft: session.draft.as_ref(),
        timeout: request.timeout,
        client: request.client.as_ref(),
    };
    let script = RecordedRequest::new(&request.program, around, &again).and_then(|script| script.into_bytes(&files));
    Ok((script.map_err(|_| UNREADABLE)?, again))
}
