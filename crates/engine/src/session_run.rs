//! Runs an execution in an open session: waits for its turn, gets a sandbox, and keeps or closes that afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfence_journal::{Principal, SessionId};
use ringfence_policy::{Policy, RelPath};
use ringfence_sandbox::{JobLanguage, Sandbox, Spec};

use crate::attempt::{AttemptKind, AttemptOutcome, ExecutionAttempt, RunContext};
use crate::durable::{NOT_CODE, RetryBackoff, RunPermit, TOO_MANY_FILES};
use crate::engine::Engine;
use crate::error::OperationError;
use crate::execution::ExecutionReport;
use crate::host_work::Digests;
use crate::recorded_request::{self, RecordedRequestError};
use crate::refusal::RunRefusal;
use crate::report;
use crate::request::{ExecutionRequest, InputFile, InputSource, RunProgram};
use crate::run::copy_in;
use crate::session::{ExecutionContext, OpenSession, SandboxSlot};
use crate::workspace::name_taken;

impl Engine {
    /// Opens a session in which nothing has run; refused where it is closed, or its workspace belongs to another user.
    async fn open_if_new(
        &self,
        open: &OpenSession,
        session: &ExecutionContext,
        place: &mut SandboxSlot,
    ) -> Result<Option<RunRefusal>, OperationError> {
        match place {
            SandboxSlot::Closed => return Ok(Some(session_gone(open.id))),
            SandboxSlot::Empty | SandboxSlot::Suspended(_) | SandboxSlot::Ready(_) => return Ok(None),
            SandboxSlot::Unopened => {}
        }
        let Err(error) = self.open_session(session).await else {
            *place = SandboxSlot::Empty;
            return Ok(None);
        };
        let Some(other) = name_taken(&error, open.id) else {
            return Err(error);
        };
        *place = SandboxSlot::Closed;
        self.sessions.remove(open.id);
        self.busy_refusal(other).await.map(Some)
    }

    /// Runs an execution in the session's sandbox, once it is its turn.
    pub(crate) async fn run_in_open_session(
        &self,
        open: &OpenSession,
        session: ExecutionContext,
        mut request: ExecutionRequest,
        mut attempt: ExecutionAttempt,
        company: &mut RunContext<'_>,
    ) -> Result<ExecutionReport, OperationError> {
        let mut place = tokio::select! {
            biased;
            () = company.stop.cancelled() => return self.finish_cancelled(&session, &attempt, company.stop, None).await,
            place = open.sandbox.lock() => place,
        };
        open.set_current_execution(session.execution);
        if let Some(refusal) = self.open_if_new(open, &session, &mut place).await? {
            return self.refuse_in_own_session(session.into_own_session()?, refusal).await;
        }
        if let Some(refusal) = RunRefusal::check_program(&session.policy, &request.program) {
            return self.refuse_turn(&session, refusal).await;
        }
        if attempt.is_first() {
            let found = Box::pin(self.type_errors(&session, &request.program)).await;
            if !found.is_empty() {
                return self.refuse_ill_typed(&session, &request, found).await;
            }
        }
        let mut tries = RetryBackoff::default();
        loop {
            // The session's turn comes first: the holder of a permit never waits for it.
            let turn = match self.acquire_permit(&session, &open.spec, &attempt, company).await? {
                RunPermit::Granted(turn) => turn,
                RunPermit::NoCapacity(refusal) => return self.refuse_turn(&session, refusal).await,
                RunPermit::Cancelled => return self.finish_cancelled(&session, &attempt, company.stop, None).await,
            };
            open.set_idle_admission(None);
            let ran = match self.session_sandbox(open, &session, &mut place, &request).await {
                Ok(Ok(mut sandbox)) => {
                    let ran = self
                        .run_turn(open, &session, &mut sandbox, &mut request, &mut attempt, company)
                        .await;
                    self.keep_or_close_sandbox(open, &mut place, *sandbox, ran, &mut request)
                        .await
                }
                Ok(Err(refusal)) => return Ok(report::refused_report(&session, refusal)),
                Err(error) => Err(error),
            };
            // The memory of its files stays admitted as long as the sandbox exists.
            open.set_idle_admission(match &*place {
                SandboxSlot::Ready(sandbox) => Some(turn.shrink_to_idle(sandbox.held_memory())),
                SandboxSlot::Unopened | SandboxSlot::Empty | SandboxSlot::Suspended(_) | SandboxSlot::Closed => None,
            });
            let ran = match ran {
                Err(error) if attempt.is_waiting() && error.is_transient() => {
                    if self.backoff(&session, &mut tries, &error, company).await? {
                        continue;
                    }
                    return self.finish_cancelled(&session, &attempt, company.stop, None).await;
                }
                ran => ran?,
            };
            match ran {
                AttemptOutcome::Finished(over) => return Ok(over.report),
                AttemptOutcome::Released { seen, .. } => match self.wait_until_resumable(&session, company).await? {
                    Some((next, files)) => {
                        attempt = ExecutionAttempt { shown: seen, ..next };
                        request.files = files;
                    }
                    None => return self.finish_cancelled(&session, &attempt, company.stop, None).await,
                },
            }
        }
    }

    async fn refuse_turn(
        &self,
        session: &ExecutionContext,
        refusal: RunRefusal,
    ) -> Result<ExecutionReport, OperationError> {
        self.record_refusal(session, &refusal).await?;
        Ok(report::refused_report(session, refusal))
    }

    /// The session's sandbox: the ready one, or a new one with its files. Refused: the sandbox and with it the session are gone, or the
    /// workspace is over its quota.
    async fn session_sandbox(
        &self,
        open: &OpenSession,
        session: &ExecutionContext,
        place: &mut SandboxSlot,
        request: &ExecutionRequest,
    ) -> Result<Result<Box<Sandbox>, RunRefusal>, OperationError> {
        let files = match std::mem::replace(place, SandboxSlot::Empty) {
            SandboxSlot::Ready(sandbox) if sandbox.is_sound() => return Ok(Ok(sandbox)),
            SandboxSlot::Ready(sandbox) if open.kept.is_some() => {
                // The files that the session keeps are not in the sandbox.
                sandbox.end().await?;
                None
            }
            SandboxSlot::Ready(sandbox) => {
                self.close_lost_session(open, session, *sandbox, place).await?;
                return Ok(Err(session_gone(open.id)));
            }
            SandboxSlot::Suspended(files) => Some(files),
            SandboxSlot::Unopened | SandboxSlot::Empty | SandboxSlot::Closed => None,
        };
        let Some(files) = files else {
            if let Some(refusal) = self.quota_refusal(open).await? {
                self.record_refusal(session, &refusal).await?;
                return Ok(Err(refusal));
            }
            return Ok(Ok(Box::new(self.fresh_sandbox(open, request).await?)));
        };
        let unpacked = self.restore_sandbox(open, request, &files).await;
        if unpacked.is_err() {
            // The next execution gets these files.
            *place = SandboxSlot::Suspended(files);
        }
        Ok(Ok(Box::new(unpacked?)))
    }

    async fn fresh_sandbox(&self, open: &OpenSession, request: &ExecutionRequest) -> Result<Sandbox, OperationError> {
        if open.spec.has_folders() {
            self.lease_folder(&open.folders)?;
        }
        self.acquire_sandbox(&open.spec, request.program.language(), open.principal)
            .await
    }

    /// A new sandbox with the files as they were when the execution began, not as it left them.
    async fn restore_sandbox(
        &self,
        open: &OpenSession,
        request: &ExecutionRequest,
        files: &[InputFile],
    ) -> Result<Sandbox, OperationError> {
        let sandbox = self.fresh_sandbox(open, request).await?;
        // Emptied last: an error before this leaves the workspace unchanged.
        self.empty_workspace(&open.spec).await?;
        copy_in(&sandbox, BTreeMap::new(), files)?;
        Ok(sandbox)
    }

    /// Keeps or closes the sandbox after an attempt. A suspended execution leaves the files that it began with.
    async fn keep_or_close_sandbox(
        &self,
        open: &OpenSession,
        place: &mut SandboxSlot,
        sandbox: Sandbox,
        ran: Result<AttemptOutcome, OperationError>,
        request: &mut ExecutionRequest,
    ) -> Result<AttemptOutcome, OperationError> {
        if matches!(ran, Ok(AttemptOutcome::Released { .. })) {
            *place = SandboxSlot::Suspended(request.files.clone());
            sandbox.end().await?;
            return ran;
        }
        if sandbox.is_sound() {
            *place = SandboxSlot::Ready(Box::new(sandbox));
            return ran;
        }
        if open.kept.is_some() {
            *place = SandboxSlot::Empty;
            sandbox.end().await?;
            return ran;
        }
        *place = SandboxSlot::Closed;
        self.sessions.remove(open.id);
        let (ended, closed) = tokio::join!(
            sandbox.end(),
            self.close_session((open.id, &open.folders), "its sandbox ended")
        );
        ended?;
        closed?;
        ran
    }

    async fn run_turn(
        &self,
        open: &OpenSession,
        session: &ExecutionContext,
        sandbox: &mut Sandbox,
        request: &mut ExecutionRequest,
        attempt: &mut ExecutionAttempt,
        company: &mut RunContext<'_>,
    ) -> Result<AttemptOutcome, OperationError> {
        let there = self.host_work.workspace_digests(session.principal, sandbox).await?;
        if attempt.is_first() {
            let contents = self
                .workspace_contents(open, session, (sandbox, &there), request)
                .await?;
            let before = copy_in(sandbox, there, &request.files)?;
            self.record_started(session, request, attempt, contents.as_ref().map_err(|why| *why))
                .await?;
            if let (Ok(contents), true) = (contents, attempt.is_recorded()) {
                // The execution is repeated with the files that it began with.
                request.files.splice(..0, input_files(contents)?);
            }
            attempt.kind = AttemptKind::Resumed;
            return self
                .execute_and_record(open, session, (sandbox, &before), request, attempt, company)
                .await;
        }
        // The files came with the sandbox.
        self.record_resumed(session, attempt).await?;
        self.execute_and_record(open, session, (sandbox, &Arc::new(there)), request, attempt, company)
            .await
    }

    async fn execute_and_record(
        &self,
        open: &OpenSession,
        session: &ExecutionContext,
        place: (&mut Sandbox, &Arc<Digests>),
        request: &mut ExecutionRequest,
        attempt: &ExecutionAttempt,
        company: &mut RunContext<'_>,
    ) -> Result<AttemptOutcome, OperationError> {
        let ran = self.execute_attempt(session, place, request, attempt, company).await?;
        match &ran {
            AttemptOutcome::Finished(over) => {
                self.journal_end(session, over, attempt, None).await?;
                self.after_run(open, session, over.report.status).await?;
            }
            AttemptOutcome::Released { due, waiting, .. } => {
                self.record_suspended(session, attempt, *due, *waiting).await?;
            }
        }
        Ok(ran)
    }

    /// The files in the workspace when an execution begins, where a repetition may need them; or why they are not recorded: they are too
    /// large, or no call can need an approval.
    async fn workspace_contents(
        &self,
        open: &OpenSession,
        session: &ExecutionContext,
        (sandbox, there): (&Sandbox, &Digests),
        request: &ExecutionRequest,
    ) -> Result<Result<BTreeMap<String, Vec<u8>>, &'static str>, OperationError> {
        if !matches!(request.program, RunProgram::Code { .. }) {
            return Ok(Err(NOT_CODE));
        }
        if open.kept.is_some() && !self.is_restorable(open).await? {
            return Ok(Err(TOO_MANY_FILES));
        }
        if there.is_empty() {
            return Ok(Ok(BTreeMap::new()));
        }
        if !self.may_need_approval(&session.policy) {
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
        let read = self.host_work.run(session.principal, read).await?;
        read.map_err(OperationError::Collect)
    }

    /// Whether calls under a policy can need an approval. Only tools of servers change.
    fn may_need_approval(&self, policy: &Policy) -> bool {
        policy.may_ask() || self.tool_gateway().is_some() && policy.may_ask_for_drift()
    }

    /// Closes a session whose sandbox reached its lifetime or died: its files are gone.
    async fn close_lost_session(
        &self,
        open: &OpenSession,
        session: &ExecutionContext,
        sandbox: Sandbox,
        place: &mut SandboxSlot,
    ) -> Result<(), OperationError> {
        *place = SandboxSlot::Closed;
        self.sessions.remove(open.id);
        self.record_refusal(session, &session_gone(open.id)).await?;
        let close = self.close_session((open.id, &open.folders), "its sandbox ended");
        let (ended, closed) = tokio::join!(sandbox.end(), close);
        ended?;
        closed
    }

    async fn record_refusal(&self, session: &ExecutionContext, refusal: &RunRefusal) -> Result<(), OperationError> {
        self.record_event(session, refusal.to_event()).await
    }

    /// Acquires a sandbox for `language`: a warm one where the pool keeps some.
    pub(crate) async fn acquire_sandbox(
        &self,
        spec: &Arc<Spec>,
        language: JobLanguage,
        who: Principal,
    ) -> Result<Sandbox, OperationError> {
        if self.is_default_spec(spec) {
            return Ok(self.pool.acquire(spec, language, &who.to_string()).await?);
        }
        Ok(self.backend.launch(spec).await?)
    }

    /// Ends a sandbox, or resets it in the background for the same principal.
    pub(crate) async fn release_sandbox(
        &self,
        sandbox: Sandbox,
        spec: &Arc<Spec>,
        language: JobLanguage,
        who: Principal,
    ) -> Result<(), OperationError> {
        // Only sandboxes of the default spec are reused: clients could ask for any number of others.
        if !self.is_default_spec(spec) || self.is_closing() {
            return Ok(sandbox.end().await?);
        }
        let pool = Arc::clone(&self.pool);
        tokio::spawn(async move { pool.release(sandbox, language, &who.to_string()).await });
        Ok(())
    }
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

fn session_gone(id: SessionId) -> RunRefusal {
    RunRefusal {
        code: "session.ended",
        message: format!("session `{id}` ended with its sandbox, and its files are gone"),
        rule: "proc.lifetime".to_owned(),
        hint: Some("begin again in a new session".to_owned()),
    }
}
