//! Where the attempts of an execution get their sandbox: a fresh or pooled one for each, or the one of an open session.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfence_journal::Principal;
use ringfence_policy::RelPath;
use ringfence_sandbox::{Admission, RunProgram, Sandbox, Spec};

use super::Executions;
use super::attempt::{ActiveExecution, AttemptKind, AttemptOutcome};
use crate::error::OperationError;
use crate::host_work::Digests;
use crate::recorded_request::{self, RecordedRequestError};
use crate::records::recording::{NOT_CODE, TOO_MANY_FILES};
use crate::refusal::RunRefusal;
use crate::request::{InputFile, InputSource};
use crate::sessions::open_session::{OpenSession, SandboxSlot, SessionTurn};

/// Where an execution gets its sandboxes.
pub(crate) enum SandboxSource<'a> {
    /// A fresh one for each attempt, or one of the pool. The session ends with the execution.
    Own(Arc<Spec>),
    /// The one of an open session, whose turn the execution has.
    Session(SessionTurn<'a>),
}

impl SandboxSource<'_> {
    pub(crate) fn spec(&self) -> &Spec {
        match self {
            SandboxSource::Own(spec) => spec,
            SandboxSource::Session(turn) => &turn.open.spec,
        }
    }

    /// Why the session closes when the execution ends; none where it stays open.
    pub(crate) fn close_reason(&self) -> Option<&'static str> {
        match self {
            SandboxSource::Own(_) => Some("done"),
            SandboxSource::Session(_) => None,
        }
    }
}

impl Executions {
    /// Runs one attempt in a sandbox of the source. Refused: the session has none any more, or its workspace is over its quota.
    pub(crate) async fn run_in_source(
        &self,
        execution: &mut ActiveExecution<'_>,
        source: &mut SandboxSource<'_>,
        permit: Admission<Principal>,
    ) -> Result<Result<AttemptOutcome, RunRefusal>, OperationError> {
        match source {
            SandboxSource::Own(spec) => {
                let ran = self.run_in_fresh_sandbox(execution, spec).await;
                drop(permit);
                ran.map(Ok)
            }
            SandboxSource::Session(turn) => self.run_in_session_sandbox(execution, turn, permit).await,
        }
    }

    async fn run_in_fresh_sandbox(
        &self,
        execution: &mut ActiveExecution<'_>,
        spec: &Arc<Spec>,
    ) -> Result<AttemptOutcome, OperationError> {
        let ActiveExecution {
            session,
            request,
            attempt,
            ..
        } = execution;
        let (language, who) = (request.program.language(), session.principal);
        if spec.has_folders() {
            self.records.lease_folder(&session.folders)?;
            if !attempt.is_first() {
                self.workspaces.empty_workspace(spec).await?;
            }
        }
        let mut sandbox = self.sandboxes.acquire(spec, language, who).await?;
        let before = copy_in(&sandbox, BTreeMap::new(), &request.files)?;
        if attempt.is_first() {
            let nothing = BTreeMap::new();
            // Two records, one commit: nothing happens between them.
            let (open, started) = tokio::join!(
                self.records.open_session(session),
                self.records.record_started(session, request, attempt, Ok(&nothing))
            );
            open?;
            attempt.kind = AttemptKind::Resumed;
            started?;
        } else {
            self.records.record_resumed(session, attempt).await?;
        }
        let ran = self.execute_attempt(execution, &mut sandbox, &before).await?;
        // The backend ends or resets the sandbox while the end is recorded.
        let back = self.sandboxes.release(sandbox, spec, language, who);
        let (gone, written) = tokio::join!(back, self.record_attempt_end(execution, &ran, Some("done")));
        gone?;
        written?;
        Ok(ran)
    }

    async fn run_in_session_sandbox(
        &self,
        execution: &mut ActiveExecution<'_>,
        turn: &mut SessionTurn<'_>,
        permit: Admission<Principal>,
    ) -> Result<Result<AttemptOutcome, RunRefusal>, OperationError> {
        let open = turn.open;
        open.set_idle_admission(None);
        let (session, request) = (&execution.session, &execution.request);
        let ran = match self.sessions.session_sandbox(turn, session, request).await {
            Ok(Ok(mut sandbox)) => {
                let ran = self.run_turn(execution, open, &mut sandbox).await;
                let files = &execution.request.files;
                self.sessions.keep_or_close_sandbox(turn, *sandbox, ran, files).await
            }
            Ok(Err(refusal)) => return Ok(Err(refusal)),
            Err(error) => Err(error),
        };
        // The memory of its files stays admitted as long as the sandbox exists.
        open.set_idle_admission(match &*turn.slot {
            SandboxSlot::Ready(sandbox) => Some(permit.shrink_to_idle(sandbox.held_memory())),
            SandboxSlot::Unopened | SandboxSlot::Empty | SandboxSlot::Suspended(_) | SandboxSlot::Closed => None,
        });
        ran.map(Ok)
    }

    /// Runs one attempt in the sandbox of an open session.
    async fn run_turn(
        &self,
        execution: &mut ActiveExecution<'_>,
        open: &OpenSession,
        sandbox: &mut Sandbox,
    ) -> Result<AttemptOutcome, OperationError> {
        let who = execution.session.principal;
        let there = self.records.host_work.workspace_digests(who, sandbox).await?;
        let before = if execution.attempt.is_first() {
            let contents = self.workspace_contents(execution, open, (sandbox, &there)).await?;
            let ActiveExecution {
                session,
                request,
                attempt,
                ..
            } = &mut *execution;
            let before = copy_in(sandbox, there, &request.files)?;
            let recorded = contents.as_ref().map_err(|why| *why);
            self.records.record_started(session, request, attempt, recorded).await?;
            if let (Ok(contents), true) = (contents, attempt.is_recorded()) {
                // The execution is repeated with the files that it began with.
                request.files.splice(..0, input_files(contents)?);
            }
            attempt.kind = AttemptKind::Resumed;
            before
        } else {
            // The files came with the sandbox.
            self.records
                .record_resumed(&execution.session, &mut execution.attempt)
                .await?;
            Arc::new(there)
        };
        let ran = self.execute_attempt(execution, sandbox, &before).await?;
        self.record_attempt_end(execution, &ran, None).await?;
        if let AttemptOutcome::Finished(finished) = &ran {
            let status = finished.report.status;
            self.workspaces.after_run(open, &execution.session, status).await?;
        }
        Ok(ran)
    }

    /// Records the end of the execution, or that it is suspended.
    async fn record_attempt_end(
        &self,
        execution: &ActiveExecution<'_>,
        ran: &AttemptOutcome,
        close_reason: Option<&str>,
    ) -> Result<(), OperationError> {
        let (session, attempt) = (&execution.session, &execution.attempt);
        match ran {
            AttemptOutcome::Finished(finished) => {
                self.records.journal_end(session, finished, attempt, close_reason).await
            }
            AttemptOutcome::Released { due, waiting, .. } => {
                self.records.record_suspended(session, attempt, *due, *waiting).await
            }
        }
    }

    /// The files in the workspace when an execution begins, where a repetition may need them; or why they are not recorded: they are too
    /// large, or no call can need an approval.
    async fn workspace_contents(
        &self,
        execution: &ActiveExecution<'_>,
        open: &OpenSession,
        (sandbox, there): (&Sandbox, &Digests),
    ) -> Result<Result<BTreeMap<String, Vec<u8>>, &'static str>, OperationError> {
        let session = &execution.session;
        if !matches!(execution.request.program, RunProgram::Code { .. }) {
            return Ok(Err(NOT_CODE));
        }
        if open.kept.is_some() && !self.workspaces.is_restorable(open).await? {
            return Ok(Err(TOO_MANY_FILES));
        }
        if there.is_empty() {
            return Ok(Ok(BTreeMap::new()));
        }
        if !self.tools.may_need_approval(&session.policy) {
            return Ok(Err("nobody was to be asked when it began"));
        }
        let workspace = sandbox.workspace()?;
        let read = move || {
            let collected = workspace.collect(&BTreeMap::new(), &[], &[], &workspace.limits())?;
            let size: u64 = collected.files.iter().map(|file| file.bytes).sum();
            // A file that is not a regular one could not be restored.
            if size > recorded_request::MAX_FILE_BYTES || !collected.skipped.is_empty() {
                return Ok(Err(TOO_MANY_FILES));
            }
            workspace.read_all(&collected.files).map(Ok)
        };
        let read = self.records.host_work.run(session.principal, read).await?;
        read.map_err(OperationError::Collect)
    }
}

/// Copies files in; returns the digests of what is there, to recognise new files later.
pub(crate) fn copy_in(
    sandbox: &Sandbox,
    mut before: Digests,
    files: &[InputFile],
) -> Result<Arc<Digests>, OperationError> {
    for file in files {
        let digest = match &file.from {
            InputSource::Path(path) => sandbox.put_file(path, &file.name)?,
            InputSource::Bytes(bytes) => sandbox.put_bytes(bytes, &file.name)?,
        };
        before.insert(file.name.as_str().to_owned(), digest);
    }
    Ok(Arc::new(before))
}

fn input_files(contents: BTreeMap<String, Vec<u8>>) -> Result<Vec<InputFile>, OperationError> {
    let input = |(name, bytes): (String, Vec<u8>)| {
        let name = name
            .parse::<RelPath>()
            .map_err(|_| RecordedRequestError::Unreadable("a file has no name"))?;
        Ok(InputFile {
            from: InputSource::Bytes(bytes),
            name,
        })
    };
    contents.into_iter().map(input).collect()
}
