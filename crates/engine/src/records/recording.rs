//! What is recorded of an execution that can be run again: its request, its suspension, and what its next attempt begins with.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use ringfence_gateway::CallLog;
use ringfence_journal::{Event, EventKind, ExecutionId, ExecutionStatus, Recorder as _};
use ringfence_sandbox::{ReplayState, RunProgram};
use ringfence_store::NewRecording;
use serde::{Deserialize, Serialize};

use crate::approvals::broker::record_error;
use crate::error::OperationError;
use crate::execution::attempt::{AttemptKind, ExecutionAttempt, UnrepeatableReason};
use crate::output::ShownBytes;
use crate::recorded_request::{self, RecordedRequest, RecordedRequestError, RequestSettings};
use crate::records::SessionRecords;
use crate::report::{self, ExecutionReport};
use crate::request::{ExecutionRequest, InputFile, InputSource};
use crate::sessions::context::ExecutionContext;

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

impl SessionRecords {
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

    /// The next attempt of an execution that resumes, with the files that it started with.
    pub(crate) async fn load_next_attempt(
        &self,
        execution: ExecutionId,
    ) -> Result<(ExecutionAttempt, Vec<InputFile>), OperationError> {
        let kept = self.store.recording(execution).await.map_err(record_error)?;
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
