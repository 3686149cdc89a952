//! What the journal and the store have of sessions and executions, and in which order it is written.

use std::path::Path;
use std::sync::Arc;

use ringfence_journal::{
    CleanText, EnforcedBy, Event, EventKind, ExecutionId, FileOut, RecordError, Recorder as _, SessionId,
    files_out_events,
};
use ringfence_sandbox::{BackendKind, CollectedFiles};
use ringfence_store::{Lease, LeasedResource, NewSession, Store};
use tokio::sync::mpsc;

use crate::data_folder::DataFolder;
use crate::error::OperationError;
use crate::execution::attempt::{ExecutionAttempt, FinishedExecution};
use crate::host_work::HostWork;
use crate::output::ProgramNote;
use crate::refusal::RunRefusal;
use crate::report::{self, ExecutionReport, ViolationReport};
use crate::sessions::context::ExecutionContext;
use crate::workspaces::RetainedWorkspace;

pub(crate) mod lookup;
pub(crate) mod recording;

/// Writes sessions and executions to the store, and reads them back.
pub(crate) struct SessionRecords {
    pub(crate) store: Arc<Store>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) data: DataFolder,
    pub(crate) host_work: HostWork,
    /// The kind of backend that the sessions of this process run on.
    pub(crate) backend: BackendKind,
}

impl SessionRecords {
    pub(crate) fn new(store: &Arc<Store>, lease: &Arc<Lease>, home: &Path, backend: BackendKind) -> SessionRecords {
        SessionRecords {
            store: Arc::clone(store),
            lease: Arc::clone(lease),
            data: DataFolder::new(home),
            host_work: HostWork::default(),
            backend,
        }
    }

    /// Records an event of a session outside of any execution.
    pub(crate) async fn record_session_event(&self, id: SessionId, kind: EventKind) -> Result<(), OperationError> {
        self.store.record(Event::from_host(id, None, kind)).await?;
        Ok(())
    }

    pub(crate) async fn record_event(&self, session: &ExecutionContext, kind: EventKind) -> Result<(), OperationError> {
        let event = Event::from_host(session.id, Some(session.execution), kind);
        self.store.record(event).await?;
        Ok(())
    }

    pub(crate) async fn open_session(&self, session: &ExecutionContext) -> Result<(), OperationError> {
        let opening = NewSession {
            session: session.id,
            principal: session.principal,
            policy: session.policy_ref.clone(),
            policy_json: session.policy.to_json().to_string(),
            backend: CleanText::clean(self.backend.name()),
            enforcement: session.enforcement.clone(),
            durable: session.policy.audit().durable,
            journal_bytes: session.policy.audit().session_bytes.get(),
            uid: session.kept.as_ref().and_then(|kept| kept.user),
            keeping: session.kept.as_ref().map(RetainedWorkspace::to_keeping),
        };
        self.store.open_session(&self.lease, opening).await?;
        Ok(())
    }

    /// Records the end of a session, and removes what it had on disk.
    pub(crate) async fn close_session(
        &self,
        (id, folders): (SessionId, &Path),
        reason: &str,
    ) -> Result<(), OperationError> {
        let reason = CleanText::clean(reason);
        // A session that another process has by now does not end here, and its folder stays.
        self.store
            .record(Event::from_host(id, None, EventKind::SessionClosed { reason }))
            .await?;
        self.remove_scratch(folders).await;
        self.remove_session_skills(id).await;
        Ok(())
    }

    /// Removes the folders that end with a session.
    pub(crate) async fn remove_scratch(&self, folders: &Path) {
        if !folders.exists() {
            return;
        }
        match self.host_work.remove_folder(folders).await {
            Ok(()) => self.release_folder(folders),
            Err(error) => {
                let error = error.chain();
                tracing::warn!(folder = %folders.display(), error, "a workspace could not be removed");
            }
        }
    }

    /// Leases a folder before it is made: a crash in between leaves nothing behind.
    pub(crate) fn lease_folder(&self, path: &Path) -> Result<(), OperationError> {
        Ok(self
            .lease
            .note_resource(LeasedResource::Folder { path: path.to_owned() })?)
    }

    pub(crate) fn release_folder(&self, path: &Path) {
        if let Err(error) = self
            .lease
            .forget_resource(&LeasedResource::Folder { path: path.to_owned() })
        {
            tracing::warn!(%error, "the next start will sweep what is gone already");
        }
    }

    /// Records the files that a program left and that may not leave the sandbox.
    pub(crate) async fn record_withheld(
        &self,
        session: &ExecutionContext,
        mut withheld: impl Iterator<Item = ViolationReport>,
    ) -> Result<(), OperationError> {
        for one in withheld.by_ref().take(report::MAX_LISTED) {
            let kind = EventKind::Violation {
                what: CleanText::clean(&one.kind),
                detail: CleanText::clean(&one.detail),
                rule: CleanText::clean(&one.rule),
            };
            self.record_event(session, kind).await?;
        }
        let more = withheld.count();
        if more > 0 {
            let repeated = EventKind::Repeated {
                of: CleanText::clean("violation"),
                what: CleanText::clean("file"),
                code: CleanText::clean("file.withheld"),
                rule: CleanText::clean("fs"),
                count: more as u64,
            };
            self.record_event(session, repeated).await?;
        }
        Ok(())
    }

    /// Records the files that left the sandbox.
    pub(crate) async fn record_files(
        &self,
        session: &ExecutionContext,
        collected: &CollectedFiles,
    ) -> Result<(), OperationError> {
        let files: Vec<FileOut> = collected
            .files
            .iter()
            .map(|file| FileOut {
                path: CleanText::clean(file.path.as_str()),
                bytes: file.bytes,
                sha256: CleanText::clean(&file.sha256),
            })
            .collect();
        for kind in files_out_events(&files) {
            self.record_event(session, kind).await?;
        }
        Ok(())
    }

    /// Records the end of an execution; with a reason, that of its session too, in the same commit.
    pub(crate) async fn journal_end(
        &self,
        session: &ExecutionContext,
        over: &FinishedExecution,
        attempt: &ExecutionAttempt,
        closed: Option<&str>,
    ) -> Result<(), OperationError> {
        let ended = &over.ended;
        if ended.more_violations > 0 {
            let kind = EventKind::Violation {
                what: CleanText::clean("syscall"),
                detail: CleanText::clean(&format!("{} more", ended.more_violations)),
                rule: CleanText::clean("proc.syscalls"),
            };
            self.record_event(session, kind).await?;
        }
        if let Some((code, rule)) = ended.verdict.exhausted_limit() {
            let mut held = session.enforcement.iter();
            let held = held.find(|held| held.rule.as_str() == rule);
            let otherwise = if rule == "timeout" {
                EnforcedBy::Watch
            } else {
                EnforcedBy::Quota
            };
            let kind = EventKind::LimitHit {
                code: CleanText::clean(code),
                rule: CleanText::clean(rule),
                by: held.map_or(otherwise, |held| held.by),
            };
            self.record_event(session, kind).await?;
        }
        // Recorded before the end: the commit of that may close the session.
        if let Some(why) = attempt.tape.unrepeatable_code().filter(|_| attempt.is_recorded()) {
            self.store.mark_unrepeatable(session.execution, why).await?;
        }
        let end = self.record_end(session, over, attempt);
        match closed {
            None => end.await,
            Some(reason) => {
                let close = self.close_session((session.id, &session.folders), reason);
                let (ended, closed) = tokio::join!(end, close);
                ended?;
                closed
            }
        }
    }

    /// Records the end itself, with what a repeated run is compared with.
    pub(crate) async fn record_end(
        &self,
        session: &ExecutionContext,
        over: &FinishedExecution,
        attempt: &ExecutionAttempt,
    ) -> Result<(), OperationError> {
        let end = report::ended_event(session, &over.report, over.output.clone());
        if !attempt.is_recorded() {
            return self.record_event(session, end).await;
        }
        let event = Event::from_host(session.id, Some(session.execution), end);
        let outcome = over.digest.to_bytes()?;
        self.store
            .record_end_with_outcome(event, outcome, attempt.tape.remaining_trace())
            .await?;
        Ok(())
    }

    pub(crate) async fn refuse_turn(
        &self,
        session: &ExecutionContext,
        refusal: RunRefusal,
    ) -> Result<ExecutionReport, OperationError> {
        self.record_refusal(session, &refusal).await?;
        Ok(report::refused_report(session, refusal))
    }

    pub(crate) async fn record_refusal(
        &self,
        session: &ExecutionContext,
        refusal: &RunRefusal,
    ) -> Result<(), OperationError> {
        self.record_event(session, refusal.to_event()).await
    }

    /// Removes the skills of a session that is over.
    pub(crate) async fn remove_session_skills(&self, session: SessionId) {
        let skills = self.store.skills();
        let forgotten = tokio::task::spawn_blocking(move || skills.forget_session(session)).await;
        let error = match forgotten {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(error, %session, "skills of a session could not be removed");
    }
}

/// Records what a program does beside its output, at the time it does it.
pub(crate) async fn record_notes(
    store: Arc<ringfence_store::Store>,
    session: SessionId,
    execution: ExecutionId,
    is_kept: bool,
    mut notes: mpsc::UnboundedReceiver<ProgramNote>,
) -> Result<(), RecordError> {
    while let Some(note) = notes.recv().await {
        let attempt = match note {
            ProgramNote::Violation(attempt) => attempt,
            ProgramNote::Unrepeatable(why) => {
                if is_kept {
                    store.mark_unrepeatable(execution, &why).await?;
                }
                continue;
            }
        };
        let kind = EventKind::Violation {
            what: CleanText::clean(attempt.kind),
            detail: CleanText::clean(&attempt.detail),
            rule: CleanText::clean(attempt.rule),
        };
        store.record(Event::from_host(session, Some(execution), kind)).await?;
    }
    Ok(())
}
