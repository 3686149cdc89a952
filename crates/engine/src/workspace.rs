//! Sessions whose files outlive their process: how one is opened, reopened by its principal, and parked for the next process.
//!
//! Such a session stays open in the journal without a process. A process claims it before it uses it: two processes never have it at once,
//! and a process that dies loses it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ringfence_journal::{ExecutionId, Kind, NoEntropy, Principal, RecordError, SessionId, Status, Text};
use ringfence_policy::{Ceiling, Clean, Policy};
use ringfence_sandbox::{Held, KeptPlace, Spec, folder};
use ringfence_store::{AdoptError, Keeping, Session as Row};

use crate::ask::{fixed, over_ceiling};
use crate::asker::unread;
use crate::attempt::{Attempt, Company};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::refusal::Refusal;
use crate::request::RunCode;
use crate::session::{Called, Open, Opening, Place, Session};
use crate::sweep;
use crate::words::Live;

/// Sessions of one principal that keep files.
const MOST_KEPT: u64 = 64;

/// The retained workspace of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The name that its principal gives the session.
    pub(crate) name: Option<String>,
    /// How long the files are kept after the last use.
    pub(crate) keep: Duration,
    /// The folder of the files.
    pub(crate) folder: PathBuf,
    /// The host's user id for its programs, where they do not all run as the same user.
    pub(crate) user: Option<u32>,
}

impl Kept {
    pub(crate) fn keeping(&self) -> Keeping {
        Keeping {
            name: self.name.clone(),
            keep: self.keep,
        }
    }
}

/// The folders of a session on disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disk<'a> {
    /// The folder of what ends with the session.
    pub(crate) folders: &'a Path,
    /// The retained workspace; none where nothing outlives the session.
    pub(crate) kept: Option<&'a Kept>,
}

impl<'a> Disk<'a> {
    /// The folders of a session without a retained workspace.
    pub(crate) fn passing(folders: &'a Path) -> Disk<'a> {
        Disk { folders, kept: None }
    }
}

/// Why a request is assigned no session.
#[derive(Debug)]
pub(crate) enum NoSeat {
    /// The request may not have the session.
    Refused(Refusal),
    /// The session could not be looked up or claimed.
    Failed(RunError),
}

impl From<Refusal> for NoSeat {
    fn from(refusal: Refusal) -> NoSeat {
        NoSeat::Refused(refusal)
    }
}

impl From<RunError> for NoSeat {
    fn from(error: RunError) -> NoSeat {
        NoSeat::Failed(error)
    }
}

impl From<RecordError> for NoSeat {
    fn from(error: RecordError) -> NoSeat {
        NoSeat::Failed(error.into())
    }
}

impl From<NoEntropy> for NoSeat {
    fn from(error: NoEntropy) -> NoSeat {
        NoSeat::Failed(error.into())
    }
}

/// Whether files outlive the session's process under this policy.
pub(crate) fn keeps(policy: &Policy) -> bool {
    policy.fs().mounts.iter().any(|mount| mount.keep)
}

/// How long the mounts keep files; refused where they differ.
fn keep_for(policy: &Policy) -> Result<Option<Duration>, Refusal> {
    let mut kept = policy.fs().mounts.iter().filter(|mount| mount.keep);
    let Some(first) = kept.next() else { return Ok(None) };
    match kept.find(|mount| mount.keep_for != first.keep_for) {
        None => Ok(Some(first.keep_for)),
        Some(other) => Err(Refusal {
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
        self.settings.home.join("workspaces").join(session.to_string())
    }

    /// The retained workspace of a new session of `who` under this policy; refused over the limit.
    pub(crate) async fn keeping(
        &self,
        who: Principal,
        id: SessionId,
        policy: &Policy,
        name: Option<&str>,
    ) -> Result<Option<Kept>, NoSeat> {
        let Some(keep) = keep_for(policy)? else { return Ok(None) };
        if self.store.workspace_count(who).await.map_err(unread)? >= MOST_KEPT {
            return Err(NoSeat::Refused(Refusal {
                code: "limit.workspaces",
                message: format!("{MOST_KEPT} sessions keep files already"),
                rule: "fs.mounts.keep".to_owned(),
                hint: Some("go on in one of them, or remove one with `ringfence session rm ID`".to_owned()),
            }));
        }
        let user = ringfence_sandbox::lasting_user()
            .map_err(|error| RunError::Launch(ringfence_sandbox::LaunchError::Ready(error)))?;
        Ok(Some(Kept {
            name: name.map(str::to_owned),
            keep,
            folder: self.kept_folder(id),
            user,
        }))
    }

    /// Reopens a session of `who` that keeps files and is not in this process. None: there is no such session.
    pub(crate) async fn reopen(
        &self,
        who: Principal,
        called: &Called,
        ceiling: Option<&Ceiling>,
    ) -> Result<Option<Arc<Open>>, NoSeat> {
        let found = match called {
            Called::Id(id) => self.store.session(*id).await,
            Called::Name(name) => self.store.session_named(who, name).await,
        };
        let is_mine = |row: &Row| row.principal == who && row.state == ringfence_journal::SessionState::Open;
        let Some(row) = found.map_err(unread)?.filter(is_mine) else {
            return Ok(None);
        };
        if row.workspace.is_none() {
            return Ok(None);
        }
        self.enter(&row).await?;
        // From here on no other process uses the session.
        if self.drop_over(row.id).await? {
            return Ok(None);
        }
        match self.reopened(&row, ceiling).await {
            Ok(open) => Ok(Some(open)),
            Err(error) => {
                self.leave_owned(row.id).await;
                Err(error)
            }
        }
    }

    /// Claims a session for this process, or says which one has it.
    async fn enter(&self, row: &Row) -> Result<(), NoSeat> {
        let id = row.id;
        let mut entered = self.store.enter_session(&self.lease, id).await;
        if matches!(entered, Err(AdoptError::Owned { .. })) {
            // The process that had the session may be dead.
            if let Err(error) = sweep::after_the_dead(&self.store).await {
                tracing::warn!(%error, "what a neighbour left could not be swept");
            }
            entered = self.store.enter_session(&self.lease, id).await;
        }
        match entered {
            Ok(()) => Ok(()),
            Err(AdoptError::Owned { .. }) => Err(self.busy(id).await?.into()),
            Err(AdoptError::Unfinished { execution, .. }) => Err(waits(row, execution).into()),
            Err(AdoptError::Record(error)) => Err(error.into()),
            Err(_) => Err(unknown(id).into()),
        }
    }

    /// The refusal of a request for a session that another process has.
    pub(crate) async fn busy(&self, id: SessionId) -> Result<Refusal, RunError> {
        let row = self.store.session(id).await.map_err(unread)?;
        let holder = row.as_ref().and_then(|row| row.lease);
        let holder = holder.and_then(|lease| self.store.holder(lease));
        let who = holder.map_or_else(
            || "another process".to_owned(),
            |holder| format!("process {}", holder.pid),
        );
        let since = row.as_ref().and_then(|row| row.workspace.as_ref());
        let since = since.map_or_else(String::new, |workspace| format!(" since {}", short(workspace.taken)));
        Ok(Refusal {
            code: "session.busy",
            message: format!(
                "{who} uses session `{}`{since}",
                row.as_ref().map_or_else(|| id.to_string(), title)
            ),
            rule: "sessions".to_owned(),
            hint: Some(format!(
                "try again when it is done, run in another session, or end what runs there: `ringfence session stop {id}`"
            )),
        })
    }

    /// Restores a claimed session as it was parked.
    async fn reopened(&self, row: &Row, ceiling: Option<&Ceiling>) -> Result<Arc<Open>, NoSeat> {
        let id = row.id;
        let held = self.restored(&row.policy_digest).await?;
        let policy = match ceiling {
            Some(ceiling) if !self.is_front_policy(&held) => {
                Arc::new(held.to_draft().under(ceiling).map_err(|error| over_ceiling(&error))?)
            }
            _ => Arc::clone(&held),
        };
        let (past, generation) = self.remembered((id, row.principal), &policy).await?;
        let kept = self.kept_of(row, &policy)?;
        let folders = self.folders(id);
        let disk = Disk {
            folders: &folders,
            kept: Some(&kept),
        };
        let spec = self.spec(&policy, disk, false)?;
        let held_now = self.held(row.principal, &spec).await?;
        let opening = Opening {
            id,
            enforcement: self.enforcement(&spec, &policy),
            rules: self.ruled(id, held, generation),
            spec,
            folders,
            screen: self.screen_of(id).await?,
            kept: Some(kept),
            place: Place::Bare,
        };
        let opened = Kind::WorkspaceOpened {
            bytes: held_now.bytes,
            files: held_now.files,
        };
        self.note(id, opened).await?;
        let name = row.workspace.as_ref().and_then(|workspace| workspace.name.clone());
        let open = self.sessions.take_over(row.principal, name.as_deref(), opening, past);
        if let Err(error) = self.rule_by(&open, policy).await {
            // A request that found the session meanwhile is told that it is closed.
            self.sessions.take(id);
            if let Place::Stands(sandbox) = std::mem::replace(&mut *open.place.lock().await, Place::Gone) {
                sandbox.end().await.map_err(RunError::from)?;
            }
            return Err(error.into());
        }
        Ok(open)
    }

    fn is_front_policy(&self, policy: &Policy) -> bool {
        let front = self.settings.front.as_ref();
        front.is_some_and(|front| front.policy.digest() == policy.digest())
    }

    /// The retained workspace of a session that was opened before.
    pub(crate) fn kept_of(&self, row: &Row, policy: &Policy) -> Result<Kept, Refusal> {
        Ok(Kept {
            name: row.workspace.as_ref().and_then(|workspace| workspace.name.clone()),
            keep: keep_for(policy)?.unwrap_or_default(),
            folder: self.kept_folder(row.id),
            user: row.uid,
        })
    }

    /// Runs a command's request in a session that keeps its files.
    pub(crate) async fn run_kept(&self, request: RunCode, live: &mut dyn Live) -> Result<Execution, RunError> {
        let execution = ExecutionId::generate()?;
        let (who, policy) = (self.settings.principal, Arc::clone(&request.policy));
        let open = match Box::pin(self.own_seat(who, &request)).await {
            Ok(open) => open,
            Err(NoSeat::Failed(error)) => return Err(error),
            Err(NoSeat::Refused(refusal)) => {
                let id = SessionId::generate()?;
                let session = Session::new((id, execution), who, policy, self.folders(id));
                return self.refuse(session, refusal).await;
            }
        };
        let (_switch, stop) = self.switch(open.id);
        let mut stop = stop.within(request.timeout);
        let stop = &mut stop;
        let mut company = Company { live, stop, run: None };
        // A command's policy comes from its user, and nobody changes it meanwhile.
        let session = Session {
            rules: None,
            ..open.session(execution, Arc::clone(&policy), policy)
        };
        let ran = Box::pin(self.run_open(&open, session, request, Attempt::first(), &mut company)).await;
        if matches!(ran, Err(RunError::Left)) {
            self.sessions.take(open.id);
            return ran;
        }
        let left = self.close_open(open.id, "done").await;
        let ran = ran?;
        left?;
        Ok(ran)
    }

    /// The session of a command: a named one, or a new one.
    async fn own_seat(&self, who: Principal, request: &RunCode) -> Result<Arc<Open>, NoSeat> {
        let called = request.session.as_deref().map(Called::parse).transpose()?;
        let policy = &request.policy;
        if let Some(called) = &called
            && let Some(open) = self.reopen(who, called, None).await?
        {
            let checked = self.joined(&open, policy, request.require_hard).await;
            return match checked {
                Ok(()) => Ok(open),
                Err(error) => {
                    self.close_open(open.id, "done").await?;
                    Err(error)
                }
            };
        }
        let name = match called {
            Some(Called::Id(id)) => return Err(unknown(id).into()),
            Some(Called::Name(name)) => Some(name),
            None => None,
        };
        let id = SessionId::generate()?;
        let Some(kept) = self.keeping(who, id, policy, name.as_deref()).await? else {
            return Err(not_kept(name.as_deref()).into());
        };
        let opening = self.opening(id, Arc::clone(policy), Some(kept), request.require_hard)?;
        Ok(self
            .sessions
            .add(who, name.as_deref(), opening, self.tenants.past(who))?)
    }

    /// Checks a command's policy against the session that it joins.
    async fn joined(&self, open: &Open, policy: &Arc<Policy>, require_hard: bool) -> Result<(), NoSeat> {
        fixed(&open.rules.policy(), policy)?;
        let disk = Disk {
            folders: &open.folders,
            kept: open.kept.as_ref(),
        };
        self.spec(policy, disk, require_hard)?;
        self.rule_by(open, Arc::clone(policy)).await?;
        Ok(())
    }

    /// Parks a session for the next process. Nothing runs in it any more.
    pub(crate) async fn park(&self, open: &Open) -> Result<(), RunError> {
        self.remove_scratch(&open.folders).await;
        let counted = self.note_held(open).await;
        self.store.park_session(open.id).await?;
        counted
    }

    /// Records the size of a session's workspace.
    async fn note_held(&self, open: &Open) -> Result<(), RunError> {
        let held = self.held(open.principal, &open.spec).await?;
        Ok(self.store.note_workspace(open.id, held.bytes, held.files).await?)
    }

    /// The size of all kept places. A count far above the quota stops early.
    async fn held(&self, who: Principal, spec: &Arc<Spec>) -> Result<Held, RunError> {
        let spec = Arc::clone(spec);
        let count = move || {
            let mut all = Held::default();
            for place in spec.kept() {
                all = all.and(held_in(&place)?);
            }
            Ok(all)
        };
        self.host_work.run(who, count).await?.map_err(RunError::Workspace)
    }

    /// After an execution: cleans places that are emptied when it completed, and records the size.
    pub(crate) async fn after_run(&self, open: &Open, session: &Session, status: Status) -> Result<(), RunError> {
        if open.kept.is_none() {
            return Ok(());
        }
        if status == Status::Completed {
            self.clean(open, session).await?;
        }
        self.note_held(open).await
    }

    async fn clean(&self, open: &Open, session: &Session) -> Result<(), RunError> {
        let mounts = session.policy.fs().mounts.iter();
        let mounts = mounts.filter(|mount| mount.keep && mount.clean == Clean::OnComplete);
        let paths: Vec<String> = mounts.map(|mount| mount.path.as_str().to_owned()).collect();
        if paths.is_empty() {
            return Ok(());
        }
        let spec = Arc::clone(&open.spec);
        let count = move || {
            let (mut cleaned, mut all) = (Vec::new(), Held::default());
            for place in spec.kept().filter(|place| paths.iter().any(|path| path == place.path)) {
                let held = held_in(&place)?;
                if held.files > 0 {
                    all = all.and(held);
                    cleaned.push((place.path.to_owned(), place.folder.to_owned()));
                }
            }
            Ok((cleaned, all))
        };
        let counted = self.host_work.run(open.principal, count).await?;
        let (cleaned, all) = counted.map_err(RunError::Workspace)?;
        if cleaned.is_empty() {
            return Ok(());
        }
        let kind = Kind::WorkspaceRemoved {
            mounts: cleaned.iter().map(|(path, _)| Text::clean(path)).collect(),
            why: Text::clean("clean: on_complete"),
            bytes: all.bytes,
            files: all.files,
        };
        self.record(session, kind).await?;
        let folders: Vec<PathBuf> = cleaned.into_iter().map(|(_, folder)| folder).collect();
        self.host_work.empty(folders).await
    }

    /// Refuses to start in a workspace that is far over its quota: an execution that was ended for that may leave it above, and it may
    /// shrink again, but not without limit.
    pub(crate) async fn too_full(&self, open: &Open) -> Result<Option<Refusal>, RunError> {
        let spec = Arc::clone(&open.spec);
        let look = move || {
            for place in spec.kept() {
                let most = place.most.and(place.most);
                let held = folder::count(place.folder, most)?;
                if held.exceeds(&most) {
                    return Ok(Some(Refusal {
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
            .map_err(RunError::Workspace)
    }

    /// Whether the workspace can be restored from a recording as it is now.
    pub(crate) async fn can_be_put_back(&self, open: &Open) -> Result<bool, RunError> {
        let spec = Arc::clone(&open.spec);
        let look = move || {
            for place in spec.kept() {
                let is_plain = if place.path == "/workspace" {
                    folder::is_plain(place.folder)?
                } else {
                    folder::count(place.folder, Held { bytes: 0, files: 0 })?.files == 0
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
            .map_err(RunError::Workspace)
    }

    /// Empties all places on disk before an execution is repeated: its files are restored from the recording.
    pub(crate) async fn start_over(&self, spec: &Spec) -> Result<(), RunError> {
        let kept = spec.kept().map(|place| place.folder.to_owned());
        let folders = kept.chain(spec.folders().map(Path::to_owned)).collect();
        self.host_work.empty(folders).await
    }
}

/// The size of a kept place. Where it cannot be counted, or is far too large, the most that is counted.
fn held_in(place: &KeptPlace<'_>) -> std::io::Result<Held> {
    let most = place.most.and(place.most);
    let held = folder::count(place.folder, most)?;
    Ok(if held.exceeds(&most) { most } else { held })
}

/// Runs disk work on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, RunError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| RunError::Abandoned)?.map_err(RunError::Workspace)
}

/// The session of another process that took the name in the same moment.
pub(crate) fn name_taken(error: &RunError, id: SessionId) -> Option<SessionId> {
    if let RunError::Record(RecordError::NotOwned { session }) = error
        && *session != id
    {
        return Some(*session);
    }
    None
}

/// The name of a session; its id where it has none.
fn title(row: &Row) -> String {
    let name = row.workspace.as_ref().and_then(|workspace| workspace.name.clone());
    name.unwrap_or_else(|| row.id.to_string())
}

fn short(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).map_or_else(|_| at.to_string(), |at| at.to_string())
}

fn waits(row: &Row, execution: ExecutionId) -> Refusal {
    Refusal {
        code: "session.busy",
        message: format!("execution `{execution}` in session `{}` waits for a person", title(row)),
        rule: "sessions".to_owned(),
        hint: Some(format!(
            "answer it (`ringfence approvals list`), or give it up with `ringfence session stop {}`",
            row.id
        )),
    }
}

pub(crate) fn unknown(id: SessionId) -> Refusal {
    Refusal {
        code: "session.unknown",
        message: format!("there is no open session `{id}`"),
        rule: "sessions".to_owned(),
        hint: Some("it ended, or it never stayed open: give a short name as `session_id` to open one".to_owned()),
    }
}

fn not_kept(name: Option<&str>) -> Refusal {
    Refusal {
        code: "session.not_kept",
        message: format!("session `{}` would end with this command: its policy keeps nothing", name.unwrap_or("-")),
        rule: "fs.mounts.keep".to_owned(),
        hint: Some(
            "write `keep: true` for a place: `--set 'fs.mounts=[{path: /workspace, access: rw, quota: 128MiB, keep: true}]'`"
                .to_owned(),
        ),
    }
}
