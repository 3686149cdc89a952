//! The turn in an open session: its sandbox while one execution has it, and what becomes of it afterwards.

use std::collections::BTreeMap;

use ringfence_journal::SessionId;
use ringfence_sandbox::Sandbox;

use crate::error::OperationError;
use crate::execution::attempt::AttemptOutcome;
use crate::execution::sandbox_source::copy_in;
use crate::refusal::RunRefusal;
use crate::request::{ExecutionRequest, InputFile};
use crate::sessions::Sessions;
use crate::sessions::context::ExecutionContext;
use crate::sessions::open_session::{OpenSession, SandboxSlot, SessionTurn};
use crate::workspaces::name_taken;

impl Sessions {
    /// Opens a session in which nothing has run; refused where it is closed, or its workspace belongs to another user.
    pub(crate) async fn open_if_new(
        &self,
        turn: &mut SessionTurn<'_>,
        session: &ExecutionContext,
    ) -> Result<Option<RunRefusal>, OperationError> {
        let open = turn.open;
        match &*turn.slot {
            SandboxSlot::Closed => return Ok(Some(session_gone(open.id))),
            SandboxSlot::Empty | SandboxSlot::Suspended(_) | SandboxSlot::Ready(_) => return Ok(None),
            SandboxSlot::Unopened => {}
        }
        let Err(error) = self.records.open_session(session).await else {
            *turn.slot = SandboxSlot::Empty;
            return Ok(None);
        };
        let Some(other) = name_taken(&error, open.id) else {
            return Err(error);
        };
        *turn.slot = SandboxSlot::Closed;
        self.open.remove(open.id);
        self.workspaces.busy_refusal(other).await.map(Some)
    }

    /// The session's sandbox: the ready one, or a new one with its files. Refused: the sandbox and with it the session are gone, or the
    /// workspace is over its quota.
    pub(crate) async fn session_sandbox(
        &self,
        turn: &mut SessionTurn<'_>,
        session: &ExecutionContext,
        request: &ExecutionRequest,
    ) -> Result<Result<Box<Sandbox>, RunRefusal>, OperationError> {
        let open = turn.open;
        let files = match std::mem::replace(&mut *turn.slot, SandboxSlot::Empty) {
            SandboxSlot::Ready(sandbox) if sandbox.is_sound() => return Ok(Ok(sandbox)),
            SandboxSlot::Ready(sandbox) if open.kept.is_some() => {
                // The files that the session keeps are not in the sandbox.
                sandbox.end().await?;
                None
            }
            SandboxSlot::Ready(sandbox) => {
                self.close_lost_session(turn, session, *sandbox).await?;
                return Ok(Err(session_gone(open.id)));
            }
            SandboxSlot::Suspended(files) => Some(files),
            SandboxSlot::Unopened | SandboxSlot::Empty | SandboxSlot::Closed => None,
        };
        let Some(files) = files else {
            if let Some(refusal) = self.workspaces.quota_refusal(open).await? {
                self.records.record_refusal(session, &refusal).await?;
                return Ok(Err(refusal));
            }
            return Ok(Ok(Box::new(self.fresh_sandbox(open, request).await?)));
        };
        let unpacked = self.restore_sandbox(open, request, &files).await;
        if unpacked.is_err() {
            // The next execution gets these files.
            *turn.slot = SandboxSlot::Suspended(files);
        }
        Ok(Ok(Box::new(unpacked?)))
    }

    async fn fresh_sandbox(&self, open: &OpenSession, request: &ExecutionRequest) -> Result<Sandbox, OperationError> {
        if open.spec.has_folders() {
            self.records.lease_folder(&open.folders)?;
        }
        self.sandboxes
            .acquire(&open.spec, request.program.language(), open.principal)
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
        self.workspaces.empty_workspace(&open.spec).await?;
        copy_in(&sandbox, BTreeMap::new(), files)?;
        Ok(sandbox)
    }

    /// Keeps or closes the sandbox after an attempt. A suspended execution leaves the files that it began with.
    pub(crate) async fn keep_or_close_sandbox(
        &self,
        turn: &mut SessionTurn<'_>,
        sandbox: Sandbox,
        ran: Result<AttemptOutcome, OperationError>,
        files: &[InputFile],
    ) -> Result<AttemptOutcome, OperationError> {
        let open = turn.open;
        if matches!(ran, Ok(AttemptOutcome::Released { .. })) {
            *turn.slot = SandboxSlot::Suspended(files.to_vec());
            sandbox.end().await?;
            return ran;
        }
        if sandbox.is_sound() {
            *turn.slot = SandboxSlot::Ready(Box::new(sandbox));
            return ran;
        }
        if open.kept.is_some() {
            *turn.slot = SandboxSlot::Empty;
            sandbox.end().await?;
            return ran;
        }
        *turn.slot = SandboxSlot::Closed;
        self.open.remove(open.id);
        let (ended, closed) = tokio::join!(
            sandbox.end(),
            self.records
                .close_session((open.id, &open.folders), "its sandbox ended")
        );
        ended?;
        closed?;
        ran
    }

    /// Closes a session whose sandbox reached its lifetime or died: its files are gone.
    async fn close_lost_session(
        &self,
        turn: &mut SessionTurn<'_>,
        session: &ExecutionContext,
        sandbox: Sandbox,
    ) -> Result<(), OperationError> {
        let open = turn.open;
        *turn.slot = SandboxSlot::Closed;
        self.open.remove(open.id);
        self.records.record_refusal(session, &session_gone(open.id)).await?;
        let close = self
            .records
            .close_session((open.id, &open.folders), "its sandbox ended");
        let (ended, closed) = tokio::join!(sandbox.end(), close);
        ended?;
        closed
    }
}

fn session_gone(id: SessionId) -> RunRefusal {
    RunRefusal {
        code: "session.ended",
        message: format!("session `{id}` ended with its sandbox, and its files are gone"),
        rule: "proc.lifetime".to_owned(),
        hint: Some("begin again in a new session".to_owned()),
    }
}
