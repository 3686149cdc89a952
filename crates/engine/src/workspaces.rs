//! Sessions whose files outlive their process: how one is opened, reopened by its principal, and parked for the next process.
//!
//! Such a session stays open in the journal without a process. A process claims it before it uses it: two processes never have it at once,
//! and a process that dies loses it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::{CleanText, EventKind, ExecutionStatus, NoEntropy, Principal, RecordError, SessionId};
use ringfence_policy::{MountCleanup, Policy};
use ringfence_sandbox::{FolderUsage, KeptPlace, Spec, folder};
use ringfence_store::{AdoptError, NewWorkspace, Session as Row};

use crate::approvals::broker::record_error;
use crate::error::OperationError;
use crate::records::SessionRecords;
use crate::refusal::RunRefusal;
use crate::sessions::context::ExecutionContext;
use crate::sessions::open_session::OpenSession;
use crate::sessions::refusals::{format_to_second, session_title, unknown_session, waiting_refusal};
use crate::sweep;

pub(crate) mod gc;

/// Sessions of one principal that keep files.
const MAX_KEPT_SESSIONS: u64 = 64;

/// The retained workspace of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetainedWorkspace {
    /// The name that its principal gives the session.
    pub(crate) name: Option<String>,
    /// How long the files are kept after the last use.
    pub(crate) keep: Duration,
    /// The folder of the files.
    pub(crate) folder: PathBuf,
    /// The host's user id for its programs, where they do not all run as the same user.
    pub(crate) user: Option<u32>,
}

impl RetainedWorkspace {
    pub(crate) fn to_keeping(&self) -> NewWorkspace {
        NewWorkspace {
            name: self.name.clone(),
            keep: self.keep,
        }
    }
}

/// The folders of a session on disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskFolders<'a> {
    /// The folder of what ends with the session.
    pub(crate) folders: &'a Path,
    /// The retained workspace; none where nothing outlives the session.
    pub(crate) kept: Option<&'a RetainedWorkspace>,
}

impl<'a> DiskFolders<'a> {
    /// The folders of a session without a retained workspace.
    pub(crate) fn scratch_only(folders: &'a Path) -> DiskFolders<'a> {
        DiskFolders { folders, kept: None }
    }
}

/// Why a request is assigned no session.
#[derive(Debug)]
pub(crate) enum AssignError {
    /// The request may not have the session.
    Refused(RunRefusal),
    /// The session could not be looked up or claimed.
    Failed(OperationError),
}

impl From<RunRefusal> for AssignError {
    fn from(refusal: RunRefusal) -> AssignError {
        AssignError::Refused(refusal)
    }
}

impl From<OperationError> for AssignError {
    fn from(error: OperationError) -> AssignError {
        AssignError::Failed(error)
    }
}

impl From<RecordError> for AssignError {
    fn from(error: RecordError) -> AssignError {
        AssignError::Failed(error.into())
    }
}

impl From<NoEntropy> for AssignError {
    fn from(error: NoEntropy) -> AssignError {
        AssignError::Failed(error.into())
    }
}

/// Whether files outlive the session's process under this policy.
pub(crate) fn keeps_files(policy: &Policy) -> bool {
    policy.fs().mounts.iter().any(|mount| mount.keep)
}

/// How long the mounts keep files; refused where they differ.
fn keep_duration(policy: &Policy) -> Result<Option<Duration>, RunRefusal> {
    let mut kept = policy.fs().mounts.iter().filter(|mount| mount.keep);
    let Some(first) = kept.next() else { return Ok(None) };
    match kept.find(|mount| mount.keep_for != first.keep_for) {
        None => Ok(Some(first.keep_for)),
        Some(other) => Err(RunRefusal {
            code: "policy.keep_for",
            message: format!("`{}` and `{}` are kept for different times", first.path, other.path),
            rule: format!("fs.mounts[{}].keep_for", other.path),
            hint: Some("all places of a session are kept together: write the same `keep_for` for each".to_owned()),
        }),
    }
}

/// The workspaces that outlive the process of their session.
pub struct Workspaces {
    pub(crate) records: Arc<SessionRecords>,
}

impl fmt::Debug for Workspaces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Workspaces").finish_non_exhaustive()
    }
}

impl Workspaces {
    pub(crate) fn new(records: &Arc<SessionRecords>) -> Workspaces {
        Workspaces {
            records: Arc::clone(records),
        }
    }

    /// The retained workspace of a new session of `who` under this policy; refused over the limit.
    pub(crate) async fn new_retained_workspace(
        &self,
        who: Principal,
        id: SessionId,
        policy: &Policy,
        name: Option<&str>,
    ) -> Result<Option<RetainedWorkspace>, AssignError> {
        let Some(keep) = keep_duration(policy)? else {
            return Ok(None);
        };
        if self.records.store.workspace_count(who).await.map_err(record_error)? >= MAX_KEPT_SESSIONS {
            return Err(AssignError::Refused(RunRefusal {
                code: "limit.workspaces",
                message: format!("{MAX_KEPT_SESSIONS} sessions keep files already"),
                rule: "fs.mounts.keep".to_owned(),
                hint: Some("go on in one of them, or remove one with `ringfence session rm ID`".to_owned()),
            }));
        }
        let user = ringfence_sandbox::choose_lasting_user()
            .map_err(|error| OperationError::Launch(ringfence_sandbox::BackendLaunchError::Ready(error)))?;
        Ok(Some(RetainedWorkspace {
            name: name.map(str::to_owned),
            keep,
            folder: self.records.data.workspace(id),
            user,
        }))
    }

    /// Claims a session for this process, or says which one has it.
    pub(crate) async fn claim_session(&self, row: &Row) -> Result<(), AssignError> {
        let id = row.id;
        let mut entered = self.records.store.enter_session(&self.records.lease, id).await;
        if matches!(entered, Err(AdoptError::Owned { .. })) {
            // The process that had the session may be dead.
            if let Err(error) = sweep::sweep_dead_processes(&self.records.store).await {
                tracing::warn!(%error, "what a neighbour left could not be swept");
            }
            entered = self.records.store.enter_session(&self.records.lease, id).await;
        }
        match entered {
            Ok(()) => Ok(()),
            Err(AdoptError::Owned { .. }) => Err(self.busy_refusal(id).await?.into()),
            Err(AdoptError::Unfinished { execution, .. }) => Err(waiting_refusal(row, execution).into()),
            Err(AdoptError::Record(error)) => Err(error.into()),
            Err(_) => Err(unknown_session(id).into()),
        }
    }

    /// The refusal of a request for a session that another process has.
    pub(crate) async fn busy_refusal(&self, id: SessionId) -> Result<RunRefusal, OperationError> {
        let row = self.records.store.session(id).await.map_err(record_error)?;
        let holder = row.as_ref().and_then(|row| row.lease);
        let holder = holder.and_then(|lease| self.records.store.lease_holder(lease));
        let who = holder.map_or_else(
            || "another process".to_owned(),
            |holder| format!("process {}", holder.pid),
        );
        let since = row.as_ref().and_then(|row| row.workspace.as_ref());
        let since = since.map_or_else(String::new, |workspace| {
            format!(" since {}", format_to_second(workspace.taken))
        });
        Ok(RunRefusal {
            code: "session.busy",
            message: format!(
                "{who} uses session `{}`{since}",
                row.as_ref().map_or_else(|| id.to_string(), session_title)
            ),
            rule: "sessions".to_owned(),
            hint: Some(format!(
                "try again when it is done, run in another session, or end what runs there: `ringfence session stop {id}`"
            )),
        })
    }

    /// The retained workspace of a session that was opened before.
    pub(crate) fn retained_workspace(&self, row: &Row, policy: &Policy) -> Result<RetainedWorkspace, RunRefusal> {
        Ok(RetainedWorkspace {
            name: row.workspace.as_ref().and_then(|workspace| workspace.name.clone()),
            keep: keep_duration(policy)?.unwrap_or_default(),
            folder: self.records.data.workspace(row.id),
            user: row.uid,
        })
    }

    /// Parks a session for the next process. Nothing runs in it any more.
    pub(crate) async fn park_session(&self, open: &OpenSession) -> Result<(), OperationError> {
        self.records.remove_scratch(&open.folders).await;
        let counted = self.record_workspace_size(open).await;
        self.records.store.park_session(open.id).await?;
        counted
    }

    /// Records the size of a session's workspace.
    async fn record_workspace_size(&self, open: &OpenSession) -> Result<(), OperationError> {
        let held = self.workspace_size(open.principal, &open.spec).await?;
        Ok(self
            .records
            .store
            .note_workspace(open.id, held.bytes, held.files)
            .await?)
    }

    /// The size of all kept places. A count far above the quota stops early.
    pub(crate) async fn workspace_size(&self, who: Principal, spec: &Arc<Spec>) -> Result<FolderUsage, OperationError> {
        let spec = Arc::clone(spec);
        let count = move || {
            let mut all = FolderUsage::default();
            for place in spec.kept_places() {
                all = all.plus(place_size(&place)?);
            }
            Ok(all)
        };
        self.records
            .host_work
            .run(who, count)
            .await?
            .map_err(OperationError::Workspace)
    }

    /// After an execution: cleans places that are emptied when it completed, and records the size.
    pub(crate) async fn after_run(
        &self,
        open: &OpenSession,
        session: &ExecutionContext,
        status: ExecutionStatus,
    ) -> Result<(), OperationError> {
        if open.kept.is_none() {
            return Ok(());
        }
        if status == ExecutionStatus::Completed {
            self.clean_workspace(open, session).await?;
        }
        self.record_workspace_size(open).await
    }

    async fn clean_workspace(&self, open: &OpenSession, session: &ExecutionContext) -> Result<(), OperationError> {
        let mounts = session.policy.fs().mounts.iter();
        let mounts = mounts.filter(|mount| mount.keep && mount.clean == MountCleanup::OnComplete);
        let paths: Vec<String> = mounts.map(|mount| mount.path.as_str().to_owned()).collect();
        if paths.is_empty() {
            return Ok(());
        }
        let spec = Arc::clone(&open.spec);
        let count = move || {
            let (mut cleaned, mut all) = (Vec::new(), FolderUsage::default());
            for place in spec
                .kept_places()
                .filter(|place| paths.iter().any(|path| path == place.path))
            {
                let held = place_size(&place)?;
                if held.files > 0 {
                    all = all.plus(held);
                    cleaned.push((place.path.to_owned(), place.folder.to_owned()));
                }
            }
            Ok((cleaned, all))
        };
        let counted = self.records.host_work.run(open.principal, count).await?;
        let (cleaned, all) = counted.map_err(OperationError::Workspace)?;
        if cleaned.is_empty() {
            return Ok(());
        }
        let kind = EventKind::WorkspaceRemoved {
            mounts: cleaned.iter().map(|(path, _)| CleanText::clean(path)).collect(),
            why: CleanText::clean("clean: on_complete"),
            bytes: all.bytes,
            files: all.files,
        };
        self.records.record_event(session, kind).await?;
        let folders: Vec<PathBuf> = cleaned.into_iter().map(|(_, folder)| folder).collect();
        self.records.host_work.empty_folders(folders).await
    }

    /// Refuses to start in a workspace that is far over its quota: an execution that was ended for that may leave it above, and it may
    /// shrink again, but not without limit.
    pub(crate) async fn quota_refusal(&self, open: &OpenSession) -> Result<Option<RunRefusal>, OperationError> {
        let spec = Arc::clone(&open.spec);
        let look = move || {
            for place in spec.kept_places() {
                let most = place.most.plus(place.most);
                let held = folder::measure(place.folder, most)?;
                if held.exceeds(&most) {
                    return Ok(Some(RunRefusal {
                        code: "limit.disk",
                        message: format!("what is kept in `{}` is far more than its quota", place.path),
                        rule: format!("fs.mounts[{}].quota", place.path),
                        hint: Some("remove it with `ringfence session rm ID`, and begin in a new session".to_owned()),
                    }));
                }
            }
            Ok(None)
        };
        self.records
            .host_work
            .run(open.principal, look)
            .await?
            .map_err(OperationError::Workspace)
    }

    /// Whether the workspace can be restored from a recording as it is now.
    pub(crate) async fn is_restorable(&self, open: &OpenSession) -> Result<bool, OperationError> {
        let spec = Arc::clone(&open.spec);
        let look = move || {
            for place in spec.kept_places() {
                let is_plain = if place.path == "/workspace" {
                    folder::is_plain(place.folder)?
                } else {
                    folder::measure(place.folder, FolderUsage { bytes: 0, files: 0 })?.files == 0
                };
                if !is_plain {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        self.records
            .host_work
            .run(open.principal, look)
            .await?
            .map_err(OperationError::Workspace)
    }

    /// Empties all places on disk before an execution is repeated: its files are restored from the recording.
    pub(crate) async fn empty_workspace(&self, spec: &Spec) -> Result<(), OperationError> {
        let kept = spec.kept_places().map(|place| place.folder.to_owned());
        let folders = kept.chain(spec.folders().map(Path::to_owned)).collect();
        self.records.host_work.empty_folders(folders).await
    }
}

/// The size of a kept place. Where it cannot be counted, or is far too large, the most that is counted.
fn place_size(place: &KeptPlace<'_>) -> std::io::Result<FolderUsage> {
    let most = place.most.plus(place.most);
    let held = folder::measure(place.folder, most)?;
    Ok(if held.exceeds(&most) { most } else { held })
}

/// Runs disk work on a blocking thread.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, OperationError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| OperationError::Abandoned)?
        .map_err(OperationError::Workspace)
}

/// The session of another process that took the name in the same moment.
pub(crate) fn name_taken(error: &OperationError, id: SessionId) -> Option<SessionId> {
    if let OperationError::Record(RecordError::NotOwned { session }) = error
        && *session != id
    {
        return Some(*session);
    }
    None
}
