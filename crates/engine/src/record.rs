//! What is written down of sessions and executions, and in which order.

use std::path::Path;
use std::sync::Arc;

use ringfence_journal::{
    By, Event, ExecutionId, FileOut, Kind, Output, RecordError, Recorder as _, SessionId, Status, Text, files_out,
    output_parts,
};
use ringfence_policy::JournalOutput;
use ringfence_sandbox::{Collected, Ended};
use ringfence_store::{Opening, Resource};
use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::refusal::Refusal;
use crate::report;
use crate::session::Session;

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
            uid: None,
        };
        self.store.open_session(&self.lease, opening).await?;
        Ok(())
    }

    /// Removes what a session had on disk, and writes its end down.
    pub(crate) async fn close_session(&self, (id, folders): (SessionId, &Path), reason: &str) -> Result<(), RunError> {
        match std::fs::remove_dir_all(folders) {
            Ok(()) => self.forget_folder(folders),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(folder = %folders.display(), %error, "a workspace could not be removed"),
        }
        let reason = Text::clean(reason);
        self.store
            .record(Event::host(id, None, Kind::SessionClosed { reason }))
            .await?;
        Ok(())
    }

    /// A folder that is about to be made: a crash in between leaves nothing behind.
    pub(crate) fn note_folder(&self, path: &Path) -> Result<(), RunError> {
        Ok(self.lease.note(Resource::Folder { path: path.to_owned() })?)
    }

    pub(crate) fn forget_folder(&self, path: &Path) {
        if let Err(error) = self.lease.forget(&Resource::Folder { path: path.to_owned() }) {
            tracing::warn!(%error, "the next start will sweep what is gone already");
        }
    }

    /// Something that does not start, in a session of its own.
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

    /// What left the sandbox.
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

    /// The end of an execution; with a reason, that of its session too, in the same commit.
    pub(crate) async fn journal_end(
        &self,
        session: &Session,
        ended: &Ended,
        execution: &Execution,
        closed: Option<&str>,
    ) -> Result<(), RunError> {
        if ended.more_violations > 0 {
            let kind = Kind::Violation {
                what: Text::clean("syscall"),
                detail: Text::clean(&format!("{} more", ended.more_violations)),
                rule: Text::clean("proc.syscalls"),
            };
            self.record(session, kind).await?;
        }
        if let ringfence_sandbox::Verdict::Limit(limit) = ended.verdict {
            let by = session
                .enforcement
                .iter()
                .find(|held| held.rule.as_str() == limit.rule())
                .map_or(By::Quota, |held| held.by);
            let kind = Kind::LimitHit {
                code: Text::clean(limit.code()),
                rule: Text::clean(limit.rule()),
                by,
            };
            self.record(session, kind).await?;
        }
        if session.policy.audit().output == JournalOutput::All {
            use ringfence_journal::Stream;
            for (stream, text) in [(Stream::Stdout, &execution.stdout), (Stream::Stderr, &execution.stderr)] {
                for kind in output_parts(stream, text.as_bytes()) {
                    self.record(session, kind).await?;
                }
            }
        }
        let output = (session.policy.audit().output != JournalOutput::None).then(|| Output {
            stdout: Text::clean(&execution.stdout),
            stderr: Text::clean(&execution.stderr),
        });
        let end = self.record(session, report::ended(session, execution, output));
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

    /// A request that was taken back before it got its turn.
    pub(crate) async fn taken_back(&self, session: Session) -> Result<Execution, RunError> {
        let refusal = Refusal {
            code: "cancelled",
            message: "cancelled before anything started".to_owned(),
            rule: "cancelled".to_owned(),
            hint: None,
        };
        let execution = self.refuse(session.elsewhere()?, refusal).await?;
        Ok(Execution {
            status: Status::Cancelled,
            exit_code: 130,
            ..execution
        })
    }
}

/// Writes down what a program tries, when it tries it.
pub(crate) async fn note_attempts(
    store: Arc<ringfence_store::Store>,
    session: SessionId,
    execution: ExecutionId,
    mut attempts: mpsc::UnboundedReceiver<ringfence_sandbox::Violation>,
) -> Result<(), RecordError> {
    while let Some(attempt) = attempts.recv().await {
        let kind = Kind::Violation {
            what: Text::clean(attempt.kind),
            detail: Text::clean(&attempt.detail),
            rule: Text::clean(attempt.rule),
        };
        store.record(Event::host(session, Some(execution), kind)).await?;
    }
    Ok(())
}
