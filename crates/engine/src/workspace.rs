//! Sessions whose files outlive their process: how one is opened, reopened by its principal, and parked for the next process.
//!
//! Such a session stays open in the journal without a process. A process claims it before it uses it: two processes never have it at once,
//! and a process that dies loses it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::{
    CleanText, EventKind, ExecutionId, ExecutionStatus, NoEntropy, Principal, RecordError, SessionId,
};
use ringfence_policy::{Ceiling, MountCleanup, Policy};
use ringfence_sandbox::{FolderUsage, KeptPlace, Spec, folder};
use ringfence_store::{AdoptError, NewWorkspace, Session as Row};

use crate::approval_broker::record_error;
use crate::attempt::{ExecutionAttempt, RunContext};
use crate::engine::Engine;
use crate::error::OperationError;
use crate::execution::ExecutionReport;
use crate::output::OutputObserver;
use crate::refusal::RunRefusal;
use crate::request::ExecutionRequest;
use crate::run_request::{ceiling_refusal, check_fixed_sections};
use crate::session::{ExecutionContext, OpenSession, OpenSessionParts, SandboxSlot, SessionRef};
use crate::session_refusals::{format_to_second, not_kept_refusal, session_title, unknown_session, waiting_refusal};
use crate::sweep;

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

impl Engine {
    /// The folder of the files that a session keeps.
    pub(crate) fn kept_folder(&self, session: SessionId) -> PathBuf {
        self.config.home.join("workspaces").join(session.to_string())
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
        if self.store.workspace_count(who).await.map_err(record_error)? >= MAX_KEPT_SESSIONS {
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
            folder: self.kept_folder(id),
            user,
        }))
    }

    /// Reopens a session of `who` that keeps files and is not in this process. None: there is no such session.
    pub(crate) async fn reopen_session(
        &self,
        who: Principal,
        called: &SessionRef,
        ceiling: Option<&Ceiling>,
    ) -> Result<Option<Arc<OpenSession>>, AssignError> {
        let found = match called {
            SessionRef::Id(id) => self.store.session(*id).await,
            SessionRef::Name(name) => self.store.session_named(who, name).await,
        };
        let is_mine = |row: &Row| row.principal == who && row.state == ringfence_journal::SessionState::Open;
        let Some(row) = found.map_err(record_error)?.filter(is_mine) else {
            return Ok(None);
        };
        if row.workspace.is_none() {
            return Ok(None);
        }
        self.claim_session(&row).await?;
        // From here on no other process uses the session.
        if self.remove_expired_workspace(row.id).await? {
            return Ok(None);
        }
        match self.restore_session(&row, ceiling).await {
            Ok(open) => Ok(Some(open)),
            Err(error) => {
                self.release_session(row.id).await;
                Err(error)
            }
        }
    }

    /// Claims a session for this process, or says which one has it.
    async fn claim_session(&self, row: &Row) -> Result<(), AssignError> {
        let id = row.id;
        let mut entered = self.store.enter_session(&self.lease, id).await;
        if matches!(entered, Err(AdoptError::Owned { .. })) {
            // The process that had the session may be dead.
            if let Err(error) = sweep::sweep_dead_processes(&self.store).await {
                tracing::warn!(%error, "what a neighbour left could not be swept");
            }
            entered = self.store.enter_session(&self.lease, id).await;
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
        let row = self.store.session(id).await.map_err(record_error)?;
        let holder = row.as_ref().and_then(|row| row.lease);
        let holder = holder.and_then(|lease| self.store.lease_holder(lease));
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

    /// Restores a claimed session as it was parked.
    async fn restore_session(&self, row: &Row, ceiling: Option<&Ceiling>) -> Result<Arc<OpenSession>, AssignError> {
        let id = row.id;
        let held = self.load_policy(&row.policy_digest).await?;
        let policy = match ceiling {
            Some(ceiling) if !self.is_front_policy(&held) => Arc::new(
                held.to_draft()
                    .under(ceiling)
                    .map_err(|error| ceiling_refusal(&error))?,
            ),
            _ => Arc::clone(&held),
        };
        let (past, generation) = self.load_session_history((id, row.principal), &policy).await?;
        let kept = self.retained_workspace(row, &policy)?;
        let folders = self.scratch_folder(id);
        let disk = DiskFolders {
            folders: &folders,
            kept: Some(&kept),
        };
        let spec = self.sandbox_spec(&policy, disk, false)?;
        let held_now = self.workspace_size(row.principal, &spec).await?;
        let opening = OpenSessionParts {
            id,
            enforcement: self.enforcement_list(&spec, &policy),
            rules: self.register_rules(id, held, generation),
            spec,
            folders,
            redactor: self.load_redactor(id).await?,
            kept: Some(kept),
            sandbox: SandboxSlot::Empty,
        };
        let opened = EventKind::WorkspaceOpened {
            bytes: held_now.bytes,
            files: held_now.files,
        };
        self.record_session_event(id, opened).await?;
        let name = row.workspace.as_ref().and_then(|workspace| workspace.name.clone());
        let open = self.sessions.add_resumed(row.principal, name.as_deref(), opening, past);
        if let Err(error) = self.replace_rules(&open, policy).await {
            // A request that found the session meanwhile is told that it is closed.
            self.sessions.remove(id);
            if let SandboxSlot::Ready(sandbox) = std::mem::replace(&mut *open.sandbox.lock().await, SandboxSlot::Closed)
            {
                sandbox.end().await.map_err(OperationError::from)?;
            }
            return Err(error.into());
        }
        Ok(open)
    }

    fn is_front_policy(&self, policy: &Policy) -> bool {
        let front = self.config.serve.as_ref();
        front.is_some_and(|front| front.policy.digest() == policy.digest())
    }

    /// The retained workspace of a session that was opened before.
    pub(crate) fn retained_workspace(&self, row: &Row, policy: &Policy) -> Result<RetainedWorkspace, RunRefusal> {
        Ok(RetainedWorkspace {
            name: row.workspace.as_ref().and_then(|workspace| workspace.name.clone()),
            keep: keep_duration(policy)?.unwrap_or_default(),
            folder: self.kept_folder(row.id),
            user: row.uid,
        })
    }

    /// Runs a command's request in a session that keeps its files.
    pub(crate) async fn run_in_kept_session(
        &self,
        request: ExecutionRequest,
        live: &mut dyn OutputObserver,
    ) -> Result<ExecutionReport, OperationError> {
        let execution = ExecutionId::generate()?;
        let (who, policy) = (self.config.principal, Arc::clone(&request.policy));
        let open = match Box::pin(self.command_session(who, &request)).await {
            Ok(open) => open,
            Err(AssignError::Failed(error)) => return Err(error),
            Err(AssignError::Refused(refusal)) => {
                let id = SessionId::generate()?;
                let session = ExecutionContext::new((id, execution), who, policy, self.scratch_folder(id));
                return self.refuse_in_own_session(session, refusal).await;
            }
        };
        let (_switch, stop) = self.cancel_switch(open.id);
        let mut stop = stop.with_timeout(request.timeout);
        let stop = &mut stop;
        let mut company = RunContext {
            observer: live,
            stop,
            run: None,
        };
        // A command's policy comes from its user, and nobody changes it meanwhile.
        let session = ExecutionContext {
            rules: None,
            ..open.execution_context(execution, Arc::clone(&policy), policy)
        };
        let ran = Box::pin(self.run_in_open_session(
            &open,
            session,
            request,
            ExecutionAttempt::first_attempt(),
            &mut company,
        ))
        .await;
        if matches!(ran, Err(OperationError::HandedOver)) {
            self.sessions.remove(open.id);
            return ran;
        }
        let left = self.close_open_session(open.id, "done").await;
        let ran = ran?;
        left?;
        Ok(ran)
    }

    /// The session of a command: a named one, or a new one.
    async fn command_session(
        &self,
        who: Principal,
        request: &ExecutionRequest,
    ) -> Result<Arc<OpenSession>, AssignError> {
        let called = request.session.as_deref().map(SessionRef::parse).transpose()?;
        let policy = &request.policy;
        if let Some(called) = &called
            && let Some(open) = self.reopen_session(who, called, None).await?
        {
            let checked = self.join_session(&open, policy, request.require_hard).await;
            return match checked {
                Ok(()) => Ok(open),
                Err(error) => {
                    self.close_open_session(open.id, "done").await?;
                    Err(error)
                }
            };
        }
        let name = match called {
            Some(SessionRef::Id(id)) => return Err(unknown_session(id).into()),
            Some(SessionRef::Name(name)) => Some(name),
            None => None,
        };
        let id = SessionId::generate()?;
        let Some(kept) = self.new_retained_workspace(who, id, policy, name.as_deref()).await? else {
            return Err(not_kept_refusal(name.as_deref()).into());
        };
        let opening = self.prepare_open_session(id, Arc::clone(policy), Some(kept), request.require_hard)?;
        Ok(self
            .sessions
            .add(who, name.as_deref(), opening, self.tenants.new_session(who))?)
    }

    /// Checks a command's policy against the session that it joins.
    async fn join_session(
        &self,
        open: &OpenSession,
        policy: &Arc<Policy>,
        require_hard: bool,
    ) -> Result<(), AssignError> {
        check_fixed_sections(&open.rules.policy(), policy)?;
        let disk = DiskFolders {
            folders: &open.folders,
            kept: open.kept.as_ref(),
        };
        self.sandbox_spec(policy, disk, require_hard)?;
        self.replace_rules(open, Arc::clone(policy)).await?;
        Ok(())
    }

    /// Parks a session for the next process. Nothing runs in it any more.
    pub(crate) async fn park_session(&self, open: &OpenSession) -> Result<(), OperationError> {
        self.remove_scratch(&open.folders).await;
        let counted = self.record_workspace_size(open).await;
        self.store.park_session(open.id).await?;
        counted
    }

    /// Records the size of a session's workspace.
    async fn record_workspace_size(&self, open: &OpenSession) -> Result<(), OperationError> {
        let held = self.workspace_size(open.principal, &open.spec).await?;
        Ok(self.store.note_workspace(open.id, held.bytes, held.files).await?)
    }

    /// The size of all kept places. A count far above the quota stops early.
    async fn workspace_size(&self, who: Principal, spec: &Arc<Spec>) -> Result<FolderUsage, OperationError> {
        let spec = Arc::clone(spec);
        let count = move || {
            let mut all = FolderUsage::default();
            for place in spec.kept_places() {
                all = all.plus(place_size(&place)?);
            }
            Ok(all)
        };
        self.host_work.run(who, count).await?.map_err(OperationError::Workspace)
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
        let counted = self.host_work.run(open.principal, count).await?;
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
        self.record_event(session, kind).await?;
        let folders: Vec<PathBuf> = cleaned.into_iter().map(|(_, folder)| folder).collect();
        self.host_work.empty_folders(folders).await
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
        self.host_work
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
        self.host_work
            .run(open.principal, look)
            .await?
            .map_err(OperationError::Workspace)
    }

    /// Empties all places on disk before an execution is repeated: its files are restored from the recording.
    pub(crate) async fn empty_workspace(&self, spec: &Spec) -> Result<(), OperationError> {
        let kept = spec.kept_places().map(|place| place.folder.to_owned());
        let folders = kept.chain(spec.folders().map(Path::to_owned)).collect();
        self.host_work.empty_folders(folders).await
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
