//! Which session a request runs in: one of its own, an open one, or a new one that stays open.

use std::sync::Arc;

use ringfence_journal::{EventKind, ExecutionId, NoEntropy, Principal, SessionId};
use ringfence_policy::{Ceiling, Policy};
use ringfence_store::Session as Row;

use crate::approvals::broker::record_error;
use crate::error::OperationError;
use crate::refusal::RunRefusal;
use crate::request::ExecutionRequest;
use crate::runs::request::{
    Assignment, RunRequest, ServeConfig, assign_open_session, ceiling_refusal, check_fixed_sections, timed_policy,
};
use crate::sessions::Sessions;
use crate::sessions::context::ExecutionContext;
use crate::sessions::open_session::{OpenSession, OpenSessionParts, SandboxSlot, SessionRef};
use crate::sessions::refusals::{not_kept_refusal, unknown_session};
use crate::workspaces::{AssignError, DiskFolders, RetainedWorkspace, keeps_files};

impl Sessions {
    /// Assigns a session to a request and determines its policy.
    pub(crate) async fn assign_session(
        &self,
        front: &ServeConfig,
        who: Principal,
        ask: &RunRequest,
    ) -> Result<(Arc<Policy>, Assignment), AssignError> {
        let Some(called) = ask.session.as_deref().map(SessionRef::parse).transpose()? else {
            let policy = timed_policy(&front.ceiling, &front.policy, ask)?;
            if !keeps_files(&policy) {
                return Ok((policy, Assignment::OwnSession));
            }
            let open = self.open_session_for(who, None, &policy).await?;
            return Ok((Arc::clone(&policy), Assignment::OpenSession(open, policy)));
        };
        if let Some(open) = self.open.find(who, &called) {
            return Ok(assign_open_session(open, front, ask)?);
        }
        // Of two requests for the same session, the second finds the one that the first opened.
        let _turn = self.reopening.lock().await;
        let there = match self.open.find(who, &called) {
            Some(open) => Some(open),
            None => self.reopen_session(who, &called, Some(&front.ceiling)).await?,
        };
        match (there, called) {
            (Some(open), _) => Ok(assign_open_session(open, front, ask)?),
            (None, SessionRef::Id(id)) => Err(unknown_session(id).into()),
            (None, SessionRef::Name(name)) => {
                let policy = timed_policy(&front.ceiling, &front.policy, ask)?;
                let open = self.open_session_for(who, Some(&name), &policy).await?;
                let base = open.rules.policy();
                check_fixed_sections(&base, &policy)?;
                Ok((policy, Assignment::OpenSession(open, base)))
            }
        }
    }

    /// Opens a new session that stays open.
    async fn open_session_for(
        &self,
        who: Principal,
        name: Option<&str>,
        policy: &Arc<Policy>,
    ) -> Result<Arc<OpenSession>, AssignError> {
        let id = SessionId::generate()?;
        let kept = self.workspaces.new_retained_workspace(who, id, policy, name).await?;
        let opening = self.prepare_open_session(id, Arc::clone(policy), kept, false)?;
        Ok(self.open.add(who, name, opening, self.tenants.new_session(who))?)
    }

    /// The context of an execution whose session ends with it.
    pub(crate) fn own_session_context(
        &self,
        who: Principal,
        execution: ExecutionId,
        policy: Arc<Policy>,
    ) -> Result<ExecutionContext, NoEntropy> {
        let id = SessionId::generate()?;
        let rules = self.register_rules(id, Arc::clone(&policy), 1);
        Ok(ExecutionContext {
            rules: Some(rules),
            history: Arc::new(self.tenants.new_session(who)),
            ..ExecutionContext::new((id, execution), who, policy, self.records.data.scratch(id))
        })
    }

    pub(crate) fn prepare_open_session(
        &self,
        id: SessionId,
        policy: Arc<Policy>,
        kept: Option<RetainedWorkspace>,
        require_hard: bool,
    ) -> Result<OpenSessionParts, RunRefusal> {
        let folders = self.records.data.scratch(id);
        let disk = DiskFolders {
            folders: &folders,
            kept: kept.as_ref(),
        };
        let spec = self.sandboxes.spec(&policy, disk, require_hard)?;
        Ok(OpenSessionParts {
            id,
            enforcement: self.sandboxes.enforcement(&spec, &policy),
            rules: self.register_rules(id, policy, 1),
            spec,
            folders,
            redactor: Arc::default(),
            kept,
            sandbox: SandboxSlot::Unopened,
        })
    }

    /// Reopens a session of `who` that keeps files and is not in this process. None: there is no such session.
    pub(crate) async fn reopen_session(
        &self,
        who: Principal,
        called: &SessionRef,
        ceiling: Option<&Ceiling>,
    ) -> Result<Option<Arc<OpenSession>>, AssignError> {
        let found = match called {
            SessionRef::Id(id) => self.records.store.session(*id).await,
            SessionRef::Name(name) => self.records.store.session_named(who, name).await,
        };
        let is_mine = |row: &Row| row.principal == who && row.state == ringfence_journal::SessionState::Open;
        let Some(row) = found.map_err(record_error)?.filter(is_mine) else {
            return Ok(None);
        };
        if row.workspace.is_none() {
            return Ok(None);
        }
        self.workspaces.claim_session(&row).await?;
        // From here on no other process uses the session.
        if self.workspaces.remove_expired_workspace(row.id).await? {
            return Ok(None);
        }
        match self.restore_session(&row, ceiling).await {
            Ok(open) => Ok(Some(open)),
            Err(error) => {
                self.workspaces.release_session(row.id).await;
                Err(error)
            }
        }
    }

    /// Restores a claimed session as it was parked.
    async fn restore_session(&self, row: &Row, ceiling: Option<&Ceiling>) -> Result<Arc<OpenSession>, AssignError> {
        let id = row.id;
        let held = self.records.load_policy(&row.policy_digest).await?;
        let policy = match ceiling {
            Some(ceiling) if !self.is_front_policy(&held) => Arc::new(
                held.to_draft()
                    .under(ceiling)
                    .map_err(|error| ceiling_refusal(&error))?,
            ),
            _ => Arc::clone(&held),
        };
        let (past, generation) = self.load_session_history((id, row.principal), &policy).await?;
        let kept = self.workspaces.retained_workspace(row, &policy)?;
        let folders = self.records.data.scratch(id);
        let disk = DiskFolders {
            folders: &folders,
            kept: Some(&kept),
        };
        let spec = self.sandboxes.spec(&policy, disk, false)?;
        let held_now = self.workspaces.workspace_size(row.principal, &spec).await?;
        let opening = OpenSessionParts {
            id,
            enforcement: self.sandboxes.enforcement(&spec, &policy),
            rules: self.register_rules(id, held, generation),
            spec,
            folders,
            redactor: self.records.load_redactor(id).await?,
            kept: Some(kept),
            sandbox: SandboxSlot::Empty,
        };
        let opened = EventKind::WorkspaceOpened {
            bytes: held_now.bytes,
            files: held_now.files,
        };
        self.records.record_session_event(id, opened).await?;
        let name = row.workspace.as_ref().and_then(|workspace| workspace.name.clone());
        let open = self.open.add_resumed(row.principal, name.as_deref(), opening, past);
        if let Err(error) = self.replace_rules(&open, policy).await {
            // A request that found the session meanwhile is told that it is closed.
            self.open.remove(id);
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

    /// The session of a command: a named one, or a new one.
    pub(crate) async fn command_session(
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
        let Some(kept) = self
            .workspaces
            .new_retained_workspace(who, id, policy, name.as_deref())
            .await?
        else {
            return Err(not_kept_refusal(name.as_deref()).into());
        };
        let opening = self.prepare_open_session(id, Arc::clone(policy), Some(kept), request.require_hard)?;
        Ok(self
            .open
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
        self.sandboxes.spec(policy, disk, require_hard)?;
        self.replace_rules(open, Arc::clone(policy)).await?;
        Ok(())
    }
}
