//! Workspace garbage collection: files that are expired, removed on request, or of a session that is over. Each removal is recorded first,
//! and the work is done in small steps.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ringfence_journal::{Event, Kind, RecordError, Recorder as _, SessionId, Status, Text};
use ringfence_sandbox::folder;
use ringfence_store::AdoptError;

use crate::asker::unread;
use crate::engine::Engine;
use crate::error::RunError;
use crate::sweep;
use crate::workspace::blocking;

/// The most that one sweep removes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    sessions: u32,
    pub(crate) entries: u64,
}

/// Names that are tried for a folder in the trash.
const MAX_TRASH_NAMES: u32 = 64;

impl Share {
    /// The budget while a command waits for its start.
    pub(crate) const START: Share = Share {
        sessions: 8,
        entries: 5_000,
    };
    /// The budget of each sweep of a serving engine.
    pub(crate) const MINUTE: Share = Share {
        sessions: 64,
        entries: 500_000,
    };
}

impl Engine {
    /// Removes expired workspaces, and empties the trash.
    pub(crate) async fn sweep_workspaces(&self, share: Share) {
        match self.store.workspaces_over(Timestamp::now(), share.sessions).await {
            Ok(over) => {
                for id in over {
                    if let Err(error) = self.sweep_kept(id).await {
                        tracing::warn!(%id, error = error.chain(), "what a session kept too long could not be removed");
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "cannot look for what is kept too long"),
        }
        if let Err(error) = self.take_out_trash(share.entries).await {
            tracing::warn!(error = error.chain(), "what is kept no longer could not be removed");
        }
    }

    /// Removes a workspace that was expired when it was listed, unless it has been used since.
    async fn sweep_kept(&self, id: SessionId) -> Result<(), RunError> {
        if self.adopted(id).await? && !self.drop_over(id).await? {
            self.leave_owned(id).await;
        }
        Ok(())
    }

    /// Ends a session that no process has, and removes its workspace. False: a process has it, or it is over.
    async fn drop_kept(&self, id: SessionId, why: &str) -> Result<bool, RunError> {
        let is_ours = self.adopted(id).await?;
        if is_ours {
            self.drop_owned(id, why).await?;
        }
        Ok(is_ours)
    }

    /// Adopts a session that no process has. False: a process has it, or it is over.
    async fn adopted(&self, id: SessionId) -> Result<bool, RunError> {
        match self.store.adopt_session(&self.lease, id).await {
            Ok(()) => Ok(true),
            Err(AdoptError::Record(error)) => Err(error.into()),
            Err(_) => Ok(false),
        }
    }

    /// Ends a session of this process in which nothing runs, if its workspace is expired. False: it is not.
    pub(crate) async fn drop_over(&self, id: SessionId) -> Result<bool, RunError> {
        let is_over = self.store.workspace_is_over(id, Timestamp::now()).await;
        let is_over = match is_over {
            Ok(is_over) => is_over,
            Err(error) => {
                self.leave_owned(id).await;
                return Err(unread(error).into());
            }
        };
        if is_over {
            self.drop_owned(id, "keep_for").await?;
        }
        Ok(is_over)
    }

    /// Releases a session to the next process, after an error or because there is nothing to do.
    pub(crate) async fn leave_owned(&self, id: SessionId) {
        match self.store.park_session(id).await {
            // A session that is over belongs to no process.
            Ok(()) | Err(RecordError::NotOwned { .. }) => {}
            Err(error) => tracing::warn!(%id, %error, "a session could not be left"),
        }
    }

    /// Ends a session of this process in which nothing runs; if that fails, the session is released.
    async fn drop_owned(&self, id: SessionId, why: &str) -> Result<(), RunError> {
        let ended = self.end_owned(id, why).await;
        if ended.is_err() {
            self.leave_owned(id).await;
        }
        ended
    }

    async fn end_owned(&self, id: SessionId, why: &str) -> Result<(), RunError> {
        self.store.end_unfinished(id, Status::Lost).await?;
        let row = self.store.session(id).await.map_err(unread)?;
        let held = row.as_ref().and_then(|row| row.workspace.as_ref());
        let (bytes, files) = held.map_or((0, 0), |held| (held.bytes, held.files));
        let policy = match &row {
            Some(row) => self.restored(&row.policy_digest).await.ok(),
            None => None,
        };
        let mounts = policy.iter().flat_map(|policy| &policy.fs().mounts);
        let removed = Kind::WorkspaceRemoved {
            mounts: mounts
                .filter(|mount| mount.keep)
                .map(|mount| Text::clean(mount.path.as_str()))
                .collect(),
            why: Text::clean(why),
            bytes,
            files,
        };
        self.note(id, removed).await?;
        let reason = Text::clean(match why {
            "keep_for" => "it was not used for as long as it is kept",
            _ => "removed",
        });
        self.note(id, Kind::SessionClosed { reason }).await?;
        self.remove_scratch(&self.folders(id)).await;
        self.throw_away(self.kept_folder(id)).await
    }

    /// Ends a session on request and removes its workspace; its executions have ended before. False: a process has it.
    pub async fn remove_kept(&self, id: SessionId) -> Result<bool, RunError> {
        let mut gone = self.drop_kept(id, "removed on request").await?;
        if !gone && sweep::after_the_dead(&self.store).await.is_ok() {
            gone = self.drop_kept(id, "removed on request").await?;
        }
        if gone {
            self.host_work.remove(&self.trash().join(id.to_string())).await?;
            self.take_out_trash(u64::MAX).await?;
        }
        Ok(gone)
    }

    /// Records an event of a session outside of any execution.
    pub(crate) async fn note(&self, id: SessionId, kind: Kind) -> Result<(), RunError> {
        self.store.record(Event::host(id, None, kind)).await?;
        Ok(())
    }

    fn trash(&self) -> PathBuf {
        trash_of(&self.settings.home)
    }

    async fn throw_away(&self, from: PathBuf) -> Result<(), RunError> {
        let trash = self.trash();
        blocking(move || throw_away(&from, &trash)).await
    }

    /// Continues to remove files that nobody keeps, also folders of sessions whose process died as they ended.
    pub(crate) async fn take_out_trash(&self, entries: u64) -> Result<(), RunError> {
        let (kept, trash) = (self.settings.home.join("workspaces"), self.trash());
        let there = blocking(move || names(&kept)).await?;
        let there = there.iter().filter_map(|name| name.parse::<SessionId>().ok());
        let there: Vec<SessionId> = there.collect();
        if !there.is_empty() {
            let known = self.store.kept_sessions().await.map_err(unread)?;
            for id in there.into_iter().filter(|id| !known.contains(id)) {
                if let Err(error) = self.throw_away(self.kept_folder(id)).await {
                    stays(&id.to_string(), &error.chain());
                }
            }
        }
        blocking(move || {
            let mut left = entries;
            for name in names(&trash)? {
                if let Err(error) = folder::remove(&trash.join(&name), &mut left) {
                    stays(&name, &error.to_string());
                }
            }
            Ok(())
        })
        .await
    }
}

/// Logs a folder that cannot be removed, so that the sweep goes on with the others.
fn stays(name: &str, error: &str) {
    tracing::warn!(
        name,
        error,
        "what is kept no longer could not be removed; it is tried again"
    );
}

/// The names of a folder's entries; empty where there is no such folder.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
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

/// The folder from which workspaces are removed in steps.
pub(crate) fn trash_of(home: &Path) -> PathBuf {
    home.join("trash")
}

/// Moves a folder to the trash at once, however long its removal takes.
pub(crate) fn throw_away(from: &Path, trash: &Path) -> std::io::Result<()> {
    use std::io::ErrorKind;
    std::fs::create_dir_all(trash)?;
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    for attempt in 0..MAX_TRASH_NAMES {
        let to = match attempt {
            0 => trash.join(&*name),
            attempt => trash.join(format!("{name}.{attempt}")),
        };
        match std::fs::rename(from, to) {
            // An older folder of this name is still in the trash.
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {}
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
    }
    Err(ErrorKind::DirectoryNotEmpty.into())
}

#[cfg(test)]
mod tests;
