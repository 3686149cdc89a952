//! What the journal records of sessions and executions, and in which order.

use std::path::Path;
use std::sync::Arc;

use ringfence_journal::{
    By, Event, ExecutionId, FileOut, Kind, RecordError, Recorder as _, SessionId, Text, files_out,
};
use ringfence_sandbox::{Collected, Stop};
use ringfence_store::{Opening, Resource};
use tokio::sync::mpsc;

use crate::attempt::{Attempt, Over};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::{Execution, ViolationReport};
use crate::outcome;
use crate::refusal::Refusal;
use crate::report;
use crate::session::Session;
use crate::words::Noted;
use crate::workspace::Kept;

impl Engine {
    pub(crate) async fn record(&self, session: &Session, kind: Kind) -> Result<(), RunError> {
        let event = Event::host(session.id, Some(session.execution), kind);
        self.store.record(event).await?;
        Ok(())
    }

    pub(crate) async fn open_session(&self, session: &Session) -> Result<(), RunError> {
        let opening = Opening {
            session: session.id,
            principal: session.principal,
            policy: session.policy_ref.clone(),
            policy_json: session.policy.to_json().to_string(),
            backend: Text::clean("native"),
            enforcement: session.enforcement.clone(),
            durable: session.policy.audit().durable,
            journal_bytes: session.policy.audit().session_bytes.get(),
            uid: session.kept.as_ref().and_then(|kept| kept.user),
            keeping: session.kept.as_ref().map(Kept::keeping),
        };
        self.store.open_session(&self.lease, opening).await?;
        Ok(())
    }

    /// Records the end of a session, and removes what it had on disk.
    pub(crate) async fn close_session(&self, (id, folders): (SessionId, &Path), reason: &str) -> Result<(), RunError> {
        let reason = Text::clean(reason);
        // A session that another process has by now does not end here, and its folder stays.
        self.store
            .record(Event::host(id, None, Kind::SessionClosed { reason }))
            .await?;
        self.remove_scratch(folders).await;
        self.forget_skills(id).await;
        Ok(())
    }

    /// Removes the folders that end with a session.
    pub(crate) async fn remove_scratch(&self, folders: &Path) {
        if !folders.exists() {
            return;
        }
        match self.host_work.remove(folders).await {
            Ok(()) => self.forget_folder(folders),
            Err(error) => {
                let error = error.chain();
                tracing::warn!(folder = %folders.display(), error, "a workspace could not be removed");
            }
        }
    }

    /// Leases a folder before it is made: a crash in between leaves nothing behind.
    pub(crate) fn note_folder(&self, path: &Path) -> Result<(), RunError> {
        Ok(self.lease.note(Resource::Folder { path: path.to_owned() })?)
    }

    pub(crate) fn forget_folder(&self, path: &Path) {
        if let Err(error) = self.lease.forget(&Resource::Folder { path: path.to_owned() }) {
            tracing::warn!(%error, "the next start will sweep what is gone already");
        }
    }

    /// Records a refused request in a session of its own.
    pub(crate) async fn refuse(&self, session: Session, refusal: Refusal) -> Result<Execution, RunError> {
        let kind = Kind::Refused {
            code: Text::clean(refusal.code),
            rule: Text::clean(&refusal.rule),
            hint: refusal.hint.as_deref().map(Text::clean),
        };
        let (opened, written, closed) = tokio::join!(
            self.open_session(&session),
            self.record(&session, kind),
            self.close_session((session.id, &session.folders), "done")
        );
        opened?;
        written?;
        closed?;
        Ok(report::refused(&session, refusal))
    }

    /// Records the files that a program left and that may not leave the sandbox.
    pub(crate) async fn record_withheld(
        &self,
        session: &Session,
        mut withheld: impl Iterator<Item = ViolationReport>,
    ) -> Result<(), RunError> {
        for one in withheld.by_ref().take(report::MAX_LISTED) {
            let kind = Kind::Violation {
                what: Text::clean(&one.kind),
                detail: Text::clean(&one.detail),
                rule: Text::clean(&one.rule),
            };
            self.record(session, kind).await?;
        }
        let more = withheld.count();
        if more > 0 {
            let repeated = Kind::Repeated {
                of: Text::clean("violation"),
                what: Text::clean("file"),
                code: Text::clean("file.withheld"),
                rule: Text::clean("fs"),
                count: more as u64,
            };
            self.record(session, repeated).await?;
        }
        Ok(())
    }

    /// Records the files that left the sandbox.
    pub(crate) async fn record_files(&self, session: &Session, collected: &Collected) -> Result<(), RunError> {
        let files: Vec<FileOut> = collected
            .files
            .iter()
            .map(|file| FileOut {
                path: Text::clean(file.path.as_str()),
                bytes: file.bytes,
                sha256: Text::clean(&file.sha256),
            })
            .collect();
        for kind in files_out(&files) {
            self.record(session, kind).await?;
        }
        Ok(())
    }

    /// Records the end of an execution; with a reason, that of its session too, in the same commit.
    pub(crate) async fn journal_end(
        &self,
        session: &Session,
        over: &Over,
        attempt: &Attempt,
        closed: Option<&str>,
    ) -> Result<(), RunError> {
        let ended = &over.ended;
        if ended.more_violations > 0 {
            let kind = Kind::Violation {
                what: Text::clean("syscall"),
                detail: Text::clean(&format!("{} more", ended.more_violations)),
                rule: Text::clean("proc.syscalls"),
            };
            self.record(session, kind).await?;
        }
        if let Some((code, rule)) = ended.verdict.used_up() {
            let mut held = session.enforcement.iter();
            let held = held.find(|held| held.rule.as_str() == rule);
            let otherwise = if rule == "timeout" { By::Watch } else { By::Quota };
            let kind = Kind::LimitHit {
                code: Text::clean(code),
                rule: Text::clean(rule),
                by: held.map_or(otherwise, |held| held.by),
            };
            self.record(session, kind).await?;
        }
        // Recorded before the end: the commit of that may close the session.
        if let Some(why) = attempt.tape.spoiled().filter(|_| attempt.is_kept()) {
            self.store.spoil(session.execution, why).await?;
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
    async fn record_end(&self, session: &Session, over: &Over, attempt: &Attempt) -> Result<(), RunError> {
        let end = report::ended(session, &over.execution, over.output.clone());
        if !attempt.is_kept() {
            return self.record(session, end).await;
        }
        let event = Event::host(session.id, Some(session.execution), end);
        let outcome = over.outcome.to_bytes()?;
        self.store.record_end(event, outcome, attempt.tape.rest()).await?;
        Ok(())
    }

    /// Finishes a request that was cancelled before it could start.
    pub(crate) async fn taken_back(&self, session: &Session, stop: &Stop) -> Result<Execution, RunError> {
        let cancelled = || Refusal {
            code: "cancelled",
            message: "cancelled before anything started".to_owned(),
            rule: "cancelled".to_owned(),
            hint: None,
        };
        let refusal = stop.is_overdue().then(Refusal::overdue).unwrap_or_else(cancelled);
        let outcome::Judged { status, exit_code, .. } = outcome::stopped(stop);
        let execution = self.refuse(session.clone().elsewhere()?, refusal).await?;
        Ok(Execution {
            status,
            exit_code,
            ..execution
        })
    }
}

/// Records what a program does beside its output, at the time it does it.
pub(crate) async fn note_all(
    store: Arc<ringfence_store::Store>,
    session: SessionId,
    execution: ExecutionId,
    is_kept: bool,
    mut notes: mpsc::UnboundedReceiver<Noted>,
) -> Result<(), RecordError> {
    while let Some(note) = notes.recv().await {
        let attempt = match note {
            Noted::Tried(attempt) => attempt,
            Noted::Unrepeatable(why) => {
                if is_kept {
                    store.spoil(execution, &why).await?;
                }
                continue;
            }
        };
        let kind = Kind::Violation {
            what: Text::clean(attempt.kind),
            detail: Text::clean(&attempt.detail),
            rule: Text::clean(attempt.rule),
        };
        store.record(Event::host(session, Some(execution), kind)).await?;
    }
    Ok(())
}
