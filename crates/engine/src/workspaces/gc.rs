//! Workspace garbage collection: files that are expired, removed on request, or of a session that is over. Each removal is recorded first,
//! and the work is done in small steps.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ringfence_journal::{CleanText, EventKind, ExecutionId, ExecutionStatus, RecordError, SessionId};
use ringfence_sandbox::folder;
use ringfence_store::{AdoptError, Trash};

use crate::approvals::broker::record_error;
use crate::error::OperationError;
use crate::sweep;
use crate::workspaces::{Workspaces, run_blocking};

/// The most that one sweep removes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SweepBudget {
    sessions: u32,
    pub(crate) entries: u64,
}

impl SweepBudget {
    /// The budget while a command waits for its start.
    pub(crate) const START: SweepBudget = SweepBudget {
        sessions: 8,
        entries: 5_000,
    };
    /// The budget of each sweep of a serving engine.
    pub(crate) const MINUTE: SweepBudget = SweepBudget {
        sessions: 64,
        entries: 500_000,
    };
}

impl Workspaces {
    /// Marks an execution that cannot resume as lost, and closes its session.
    pub(crate) async fn mark_lost(&self, execution: ExecutionId, error: &OperationError) -> Result<(), OperationError> {
        let standing = self
            .records
            .store
            .recording_status(execution)
            .await
            .map_err(record_error)?;
        let Some(session) = standing.map(|standing| standing.session) else {
            return Ok(());
        };
        if self
            .records
            .store
            .keeps_workspace(session)
            .await
            .map_err(record_error)?
        {
            // The files of the session stay.
            self.records
                .store
                .end_unfinished(session, ExecutionStatus::Lost)
                .await?;
            return Ok(self.records.store.park_session(session).await?);
        }
        let reason = format!("an execution in it cannot go on: {error}");
        self.records
            .close_session((session, &self.records.data.scratch(session)), &reason)
            .await
    }

    /// Closes a session that no process has; where its files stay, only ends what waits in it.
    pub async fn close_orphan_session(&self, session: SessionId) -> Result<(), OperationError> {
        self.records.store.adopt_session(&self.records.lease, session).await?;
        if self
            .records
            .store
            .keeps_workspace(session)
            .await
            .map_err(record_error)?
        {
            self.records
                .store
                .end_unfinished(session, ExecutionStatus::Cancelled)
                .await?;
            return Ok(self.records.store.park_session(session).await?);
        }
        self.records
            .close_session((session, &self.records.data.scratch(session)), "stopped")
            .await
    }

    /// Removes expired workspaces, and empties the trash.
    pub(crate) async fn sweep_workspaces(&self, share: SweepBudget) {
        match self
            .records
            .store
            .expired_workspaces(Timestamp::now(), share.sessions)
            .await
        {
            Ok(over) => {
                for id in over {
                    if let Err(error) = self.sweep_workspace(id).await {
                        tracing::warn!(%id, error = error.chain(), "what a session kept too long could not be removed");
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "cannot look for what is kept too long"),
        }
        if let Err(error) = self.empty_trash(share.entries).await {
            tracing::warn!(error = error.chain(), "what is kept no longer could not be removed");
        }
    }

    /// Removes a workspace that was expired when it was listed, unless it has been used since.
    pub(crate) async fn sweep_workspace(&self, id: SessionId) -> Result<(), OperationError> {
        if self.adopt_session(id).await? && !self.remove_expired_workspace(id).await? {
            self.release_session(id).await;
        }
        Ok(())
    }

    /// Ends a session that no process has, and removes its workspace. False: a process has it, or it is over.
    async fn remove_orphan_workspace(&self, id: SessionId, why: &str) -> Result<bool, OperationError> {
        let is_ours = self.adopt_session(id).await?;
        if is_ours {
            self.remove_owned_workspace(id, why).await?;
        }
        Ok(is_ours)
    }

    /// Adopts a session that no process has. False: a process has it, or it is over.
    async fn adopt_session(&self, id: SessionId) -> Result<bool, OperationError> {
        match self.records.store.adopt_session(&self.records.lease, id).await {
            Ok(()) => Ok(true),
            Err(AdoptError::Record(error)) => Err(error.into()),
            Err(_) => Ok(false),
        }
    }

    /// Ends a session of this process in which nothing runs, if its workspace is expired. False: it is not.
    pub(crate) async fn remove_expired_workspace(&self, id: SessionId) -> Result<bool, OperationError> {
        let is_over = self.records.store.is_workspace_expired(id, Timestamp::now()).await;
        let is_over = match is_over {
            Ok(is_over) => is_over,
            Err(error) => {
                self.release_session(id).await;
                return Err(record_error(error).into());
            }
        };
        if is_over {
            self.remove_owned_workspace(id, "keep_for").await?;
        }
        Ok(is_over)
    }

    /// Releases a session to the next process, after an error or because there is nothing to do.
    pub(crate) async fn release_session(&self, id: SessionId) {
        match self.records.store.park_session(id).await {
            // A session that is over belongs to no process.
            Ok(()) | Err(RecordError::NotOwned { .. }) => {}
            Err(error) => tracing::warn!(%id, %error, "a session could not be left"),
        }
    }

    /// Ends a session of this process in which nothing runs; if that fails, the session is released.
    async fn remove_owned_workspace(&self, id: SessionId, why: &str) -> Result<(), OperationError> {
        let ended = self.end_owned_session(id, why).await;
        if ended.is_err() {
            self.release_session(id).await;
        }
        ended
    }

    async fn end_owned_session(&self, id: SessionId, why: &str) -> Result<(), OperationError> {
        self.records.store.end_unfinished(id, ExecutionStatus::Lost).await?;
        let row = self.records.store.session(id).await.map_err(record_error)?;
        let held = row.as_ref().and_then(|row| row.workspace.as_ref());
        let (bytes, files) = held.map_or((0, 0), |held| (held.bytes, held.files));
        let policy = match &row {
            Some(row) => self.records.load_policy(&row.policy_digest).await.ok(),
            None => None,
        };
        let mounts = policy.iter().flat_map(|policy| &policy.fs().mounts);
        let removed = EventKind::WorkspaceRemoved {
            mounts: mounts
                .filter(|mount| mount.keep)
                .map(|mount| CleanText::clean(mount.path.as_str()))
                .collect(),
            why: CleanText::clean(why),
            bytes,
            files,
        };
        self.records.record_session_event(id, removed).await?;
        let reason = CleanText::clean(match why {
            "keep_for" => "it was not used for as long as it is kept",
            _ => "removed",
        });
        self.records
            .record_session_event(id, EventKind::SessionClosed { reason })
            .await?;
        self.records.remove_scratch(&self.records.data.scratch(id)).await;
        self.move_to_trash(self.records.data.workspace(id)).await
    }

    /// Ends a session on request and removes its workspace; its executions have ended before. False: a process has it.
    pub async fn remove_workspace(&self, id: SessionId) -> Result<bool, OperationError> {
        let mut gone = self.remove_orphan_workspace(id, "removed on request").await?;
        if !gone && sweep::sweep_dead_processes(&self.records.store).await.is_ok() {
            gone = self.remove_orphan_workspace(id, "removed on request").await?;
        }
        if gone {
            self.records
                .host_work
                .remove_folder(&self.trash().path().join(id.to_string()))
                .await?;
            self.empty_trash(u64::MAX).await?;
        }
        Ok(gone)
    }

    fn trash(&self) -> Trash {
        Trash::new(self.records.data.path())
    }

    async fn move_to_trash(&self, from: PathBuf) -> Result<(), OperationError> {
        let trash = self.trash();
        run_blocking(move || trash.add(&from)).await
    }

    /// Continues to remove files that nobody keeps, also folders of sessions whose process died as they ended.
    pub(crate) async fn empty_trash(&self, entries: u64) -> Result<(), OperationError> {
        let (kept, trash) = (self.records.data.workspaces(), self.trash());
        let there = run_blocking(move || folder_names(&kept)).await?;
        let there = there.iter().filter_map(|name| name.parse::<SessionId>().ok());
        let there: Vec<SessionId> = there.collect();
        if !there.is_empty() {
            let known = self
                .records
                .store
                .sessions_with_workspace()
                .await
                .map_err(record_error)?;
            for id in there.into_iter().filter(|id| !known.contains(id)) {
                if let Err(error) = self.move_to_trash(self.records.data.workspace(id)).await {
                    log_not_removed(&id.to_string(), &error.chain());
                }
            }
        }
        run_blocking(move || {
            let mut left = entries;
            for name in folder_names(trash.path())? {
                if let Err(error) = folder::remove(&trash.path().join(&name), &mut left) {
                    log_not_removed(&name, &error.to_string());
                }
            }
            Ok(())
        })
        .await
    }
}

/// Logs a folder that cannot be removed, so that the sweep goes on with the others.
fn log_not_removed(name: &str, error: &str) {
    tracing::warn!(
        name,
        error,
        "what is kept no longer could not be removed; it is tried again"
    );
}

/// The names of a folder's entries; empty where there is no such folder.
fn folder_names(folder: &Path) -> std::io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry?.file_name().into_string().ok());
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
