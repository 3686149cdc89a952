//! The attempts of an execution: one after another until it ends, with a wait in between while people decide.

use std::time::Duration;

use jiff::Timestamp;
use ringfence_journal::Principal;
use ringfence_sandbox::{Admission, BudgetRequest, Spec};

use super::Executions;
use super::attempt::{ActiveExecution, AttemptOutcome, ExecutionAttempt};
use super::sandbox_source::SandboxSource;
use crate::approvals::broker::{record_error, time_until};
use crate::error::OperationError;
use crate::refusal::RunRefusal;
use crate::report::{self, ExecutionReport};
use crate::request::InputFile;
use crate::runs::registry::TrackedRun;

/// The longest wait before a retry after a transient error.
const MAX_BACKOFF: Duration = Duration::from_mins(1);

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
struct RetryBackoff(u32);

impl RetryBackoff {
    /// The delay before the next retry, twice the one before.
    fn next_delay(&mut self) -> Duration {
        let wait = Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(self.0));
        self.0 = self.0.saturating_add(1);
        wait.min(MAX_BACKOFF)
    }
}

impl Executions {
    /// Runs attempts until the execution ends; an attempt that waits for people releases its sandbox, and the next one resumes.
    pub(crate) async fn run_attempts(
        &self,
        execution: &mut ActiveExecution<'_>,
        source: &mut SandboxSource<'_>,
    ) -> Result<ExecutionReport, OperationError> {
        let mut retries = RetryBackoff::default();
        loop {
            // In an open session the turn comes first: the holder of a permit never waits for it.
            let permit = match self.acquire_permit(execution, source.spec()).await? {
                RunPermit::Granted(permit) => permit,
                RunPermit::NoCapacity(refusal) => return self.refuse_for_capacity(execution, source, refusal).await,
                RunPermit::Cancelled => return self.finish_cancelled(execution, source.close_reason()).await,
            };
            match self.run_in_source(execution, source, permit).await {
                Ok(Ok(AttemptOutcome::Finished(finished))) => return Ok(finished.report),
                Ok(Ok(AttemptOutcome::Released { seen, .. })) => {
                    let Some((next, files)) = self.wait_until_resumable(execution).await? else {
                        return self.finish_cancelled(execution, source.close_reason()).await;
                    };
                    execution.attempt = ExecutionAttempt { shown: seen, ..next };
                    // The files are those of the recording, not those that the sandbox had last.
                    execution.request.files = files;
                }
                Ok(Err(refusal)) => return Ok(report::refused_report(&execution.session, refusal)),
                Err(error) if execution.attempt.is_waiting() && error.is_transient() => {
                    if !self.backoff(execution, &mut retries, &error).await? {
                        return self.finish_cancelled(execution, source.close_reason()).await;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Refuses an execution for which the machine has no capacity.
    async fn refuse_for_capacity(
        &self,
        execution: &ActiveExecution<'_>,
        source: &SandboxSource<'_>,
        refusal: RunRefusal,
    ) -> Result<ExecutionReport, OperationError> {
        match source {
            SandboxSource::Own(_) => self.refuse_in_own_session(execution.session.clone(), refusal).await,
            SandboxSource::Session(_) => self.records.refuse_turn(&execution.session, refusal).await,
        }
    }

    /// Acquires a permit to run, unless the request is cancelled first. An execution that started before retries without end; a new one is
    /// refused when the budget has no capacity for too long.
    pub(crate) async fn acquire_permit(
        &self,
        execution: &mut ActiveExecution<'_>,
        spec: &Spec,
    ) -> Result<RunPermit, OperationError> {
        let wanted = BudgetRequest {
            who: execution.session.principal,
            memory: spec.promised_memory(),
            depth: execution.session.depth,
        };
        let mut retries = RetryBackoff::default();
        loop {
            let run = execution.run;
            let permit = async {
                if let Some(run) = run {
                    run.acquire_slot().await;
                }
                self.sandboxes.budget.admit(wanted).await
            };
            let refusal = tokio::select! {
                biased;
                () = execution.stop.cancelled() => return Ok(RunPermit::Cancelled),
                permit = permit => match permit {
                    Ok(permit) => return Ok(RunPermit::Granted(permit)),
                    Err(error) => report::budget_refusal(&error),
                },
            };
            if execution.attempt.is_first() {
                return Ok(RunPermit::NoCapacity(refusal));
            }
            let error = OperationError::Refused(refusal);
            if !self.backoff(execution, &mut retries, &error).await? {
                return Ok(RunPermit::Cancelled);
            }
        }
    }

    /// Waits without a sandbox until an execution can resume; none if it is cancelled first.
    async fn wait_until_resumable(
        &self,
        execution: &mut ActiveExecution<'_>,
    ) -> Result<Option<(ExecutionAttempt, Vec<InputFile>)>, OperationError> {
        if let Some(run) = execution.run {
            run.mark_suspended();
        }
        let (mut claim, mut retries) = (ResumeClaim::Unclaimed, RetryBackoff::default());
        loop {
            match self.try_resume(execution, &mut claim).await {
                Err(error) if error.is_transient() => {
                    if !self.backoff(execution, &mut retries, &error).await? {
                        return Ok(None);
                    }
                }
                resumed => return resumed,
            }
        }
    }

    /// Waits the same way, but returns transient errors.
    async fn try_resume(
        &self,
        execution: &mut ActiveExecution<'_>,
        claim: &mut ResumeClaim,
    ) -> Result<Option<(ExecutionAttempt, Vec<InputFile>)>, OperationError> {
        let (id, store) = (execution.session.execution, &self.records.store);
        while *claim == ResumeClaim::Unclaimed {
            let pending = store.pending_approvals(id).await.map_err(record_error)?;
            let waiter = self.approvals.notifier.register(pending);
            let status = store.recording_status(id).await.map_err(record_error)?;
            let due = status.and_then(|status| status.due);
            if due.is_none_or(|due| due <= Timestamp::now()) {
                store.resume(&self.records.lease, id).await?;
                *claim = ResumeClaim::Owned;
                break;
            }
            tokio::select! {
                biased;
                () = execution.stop.cancelled() => return Ok(None),
                () = self.closing.closed() => {
                    store.release_session(execution.session.id).await?;
                    return Err(OperationError::HandedOver);
                }
                () = waiter.notified() => {}
                () = wait_for_resume_request(execution.run) => {}
                () = tokio::time::sleep(due.map_or(Duration::ZERO, time_until)) => {}
            }
        }
        self.records.load_next_attempt(id).await.map(Some)
    }

    /// Backs off after a transient error, longer each time; false if the execution is cancelled meanwhile.
    async fn backoff(
        &self,
        execution: &mut ActiveExecution<'_>,
        retries: &mut RetryBackoff,
        error: &OperationError,
    ) -> Result<bool, OperationError> {
        let wait = retries.next_delay();
        tracing::warn!(
            execution = %execution.session.execution,
            error = error.chain(),
            again = wait.as_secs(),
            "an execution cannot go on now, and is tried again"
        );
        tokio::select! {
            biased;
            () = execution.stop.cancelled() => Ok(false),
            () = self.closing.closed() => {
                self.records.store.leave_unfinished(&self.records.lease, execution.session.id).await?;
                Err(OperationError::HandedOver)
            }
            () = tokio::time::sleep(wait) => Ok(true),
        }
    }
}

/// Waits for a request to resume; forever where there is no tracked run.
async fn wait_for_resume_request(run: Option<&TrackedRun>) {
    match run {
        Some(run) => run.resume_requested().await,
        None => std::future::pending().await,
    }
}
