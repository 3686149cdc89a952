//! The sessions of this process: opened, found, given their rules and their network, and closed.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ringfence_catalog::StubLanguage;
use ringfence_gateway::{Egress, EgressSettings, SessionHistory, Tenants, Vault};
use ringfence_journal::{ApprovalAnswer, ApprovalScope, EventKind, Principal, SessionId};
use ringfence_policy::Policy;
use ringfence_sandbox::{NetworkAccess, RunProgram};
use ringfence_store::ApprovalGrounds;

use crate::approvals::broker::record_error;
use crate::config::EngineConfig;
use crate::error::OperationError;
use crate::network::ExecutionEgress;
use crate::records::SessionRecords;
use crate::report::ErrorReport;
use crate::runs::registry::RunRegistry;
use crate::sandboxes::Sandboxes;
use crate::sessions::context::ExecutionContext;
use crate::sessions::open_session::{OpenSession, OpenSessions, SandboxSlot, SessionRef};
use crate::sessions::rules::SessionRulesIndex;
use crate::skills::manage::{no_session_report, refusal_report};
use crate::tools::stub_language;
use crate::workspaces::Workspaces;

pub(crate) mod assign;
pub(crate) mod context;
pub(crate) mod open_session;
pub(crate) mod refusals;
mod reveal;
pub(crate) mod rules;
mod turn;

/// The sessions of this process: those that stay open, and the rules of all.
pub struct Sessions {
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) records: Arc<SessionRecords>,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) sandboxes: Arc<Sandboxes>,
    pub(crate) open: OpenSessions,
    pub(crate) rules: SessionRulesIndex,
    /// Rate limits that the sessions of a principal share.
    pub(crate) tenants: Tenants,
    /// Resolver and trust roots of egress: the same for all sessions.
    pub(crate) egress: EgressSettings,
    /// Held while a session that keeps files is looked up: of two requests, one finds what the other opened.
    pub(crate) reopening: tokio::sync::Mutex<()>,
    pub(crate) runs: Arc<RunRegistry>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Sessions {
    pub(crate) fn new(
        config: &Arc<EngineConfig>,
        workspaces: &Arc<Workspaces>,
        sandboxes: &Arc<Sandboxes>,
        runs: &Arc<RunRegistry>,
    ) -> Sessions {
        Sessions {
            config: Arc::clone(config),
            records: Arc::clone(&workspaces.records),
            workspaces: Arc::clone(workspaces),
            sandboxes: Arc::clone(sandboxes),
            open: OpenSessions::default(),
            rules: SessionRulesIndex::default(),
            tenants: Tenants::default(),
            egress: EgressSettings::system(),
            reopening: tokio::sync::Mutex::default(),
            runs: Arc::clone(runs),
        }
    }

    /// Finds the open session of `who` with this id or name.
    pub fn find_open_session(&self, who: Principal, called: &str) -> Result<SessionId, ErrorReport> {
        self.open_session_id(who, &SessionRef::parse(called).map_err(refusal_report)?)
    }

    /// The id of an open session of `who`.
    pub(crate) fn open_session_id(&self, who: Principal, called: &SessionRef) -> Result<SessionId, ErrorReport> {
        let open = self.open.find(who, called);
        open.map(|open| open.id)
            .ok_or_else(|| no_session_report("there is no such open session"))
    }

    /// Ends a session of `who` and everything that runs in it. False: there is no such session here.
    pub async fn end_session(&self, who: Principal, id: SessionId) -> Result<bool, OperationError> {
        if self.open.find(who, &SessionRef::Id(id)).is_none() {
            return Ok(false);
        }
        self.close_open_session(id, "ended on request").await?;
        Ok(true)
    }

    /// Closes an open session and records its end.
    pub(crate) async fn close_open_session(&self, id: SessionId, reason: &str) -> Result<(), OperationError> {
        let Some(open) = self.open.remove(id) else {
            return Ok(());
        };
        self.runs.active(Some(id)).iter().for_each(|run| run.cancel());
        let place = std::mem::replace(&mut *open.sandbox.lock().await, SandboxSlot::Closed);
        open.set_idle_admission(None);
        if open.kept.is_some() {
            return self.park_closed_session(&open, place).await;
        }
        match place {
            SandboxSlot::Unopened | SandboxSlot::Closed => Ok(()),
            SandboxSlot::Empty | SandboxSlot::Suspended(_) => {
                self.records.close_session((id, &open.folders), reason).await
            }
            SandboxSlot::Ready(sandbox) => {
                let (gone, written) =
                    tokio::join!(sandbox.end(), self.records.close_session((id, &open.folders), reason));
                gone?;
                written
            }
        }
    }

    /// Parks a closed session whose files stay.
    async fn park_closed_session(&self, open: &OpenSession, place: SandboxSlot) -> Result<(), OperationError> {
        match place {
            SandboxSlot::Unopened | SandboxSlot::Closed => Ok(()),
            SandboxSlot::Empty | SandboxSlot::Suspended(_) => self.workspaces.park_session(open).await,
            SandboxSlot::Ready(sandbox) => {
                let gone = sandbox.end().await;
                self.workspaces.park_session(open).await?;
                Ok(gone?)
            }
        }
    }

    pub(crate) async fn close_or_log(&self, id: SessionId, reason: &str) {
        if let Err(error) = self.close_open_session(id, reason).await {
            tracing::error!(%error, session = %id, "the end of a session could not be written down");
        }
    }

    /// The call history of a session from before this process had it, under the policy that applies now, and the generation of its rules.
    /// Grants end with the policy that asked for them.
    pub(crate) async fn load_session_history(
        &self,
        (id, who): (SessionId, Principal),
        policy: &Policy,
    ) -> Result<(SessionHistory, u64), OperationError> {
        let past = self.tenants.new_session(who);
        let mut generations = 1;
        let mut yes = HashSet::new();
        let now = Timestamp::now();
        for record in self.records.store.session_records(id).await.map_err(record_error)? {
            let Ok(event) = record.event() else { continue };
            if let EventKind::CallStarted { tool, rule, .. } = &event.kind {
                // A call in the future, by a clock that was set back, counts as made just now.
                let ago = Duration::try_from(now.duration_since(event.at)).unwrap_or_default();
                past.remember_call(policy, (tool.as_str(), rule.as_str()), ago);
            } else if let EventKind::PolicyChanged { generation, .. } = &event.kind {
                generations = *generation;
                yes.clear();
            } else if let EventKind::ApprovalAnswered {
                id,
                answer: ApprovalAnswer::Approved,
                scope: Some(ApprovalScope::Session),
                ..
            } = &event.kind
            {
                yes.insert(*id);
            }
        }
        past.set_generation(generations);
        for question in self.records.granted_questions(id, &yes).await? {
            // A policy that is no longer known cannot be the one that asks now.
            if let ApprovalGrounds {
                policy: Some(policy),
                grantee: Some(grantee),
                ..
            } = &question.grounds
            {
                past.grant(grantee, &question.rule, policy);
            }
        }
        Ok((past, generations))
    }

    /// Opens the egress of an execution and the sandbox's end of it, where the policy has a network. TypeScript and JavaScript have none:
    /// their `fetch` is a tool call.
    pub(crate) fn open_egress(
        &self,
        session: &ExecutionContext,
        program: &RunProgram,
    ) -> Result<Option<(ExecutionEgress, Option<NetworkAccess>)>, OperationError> {
        if session.policy.net().enabled != Some(true) {
            return Ok(None);
        }
        let egress = match session.egress.get() {
            Some(first) => first.for_execution(session.execution, Arc::clone(&session.policy)),
            None => self.open_session_egress(session)?,
        };
        let (outside, network) = ExecutionEgress::new(egress);
        let has_tunnels = stub_language(program) != Some(StubLanguage::TypeScript);
        Ok(Some((outside, has_tunnels.then_some(network))))
    }

    /// The first egress of a session makes its certificates, stand-ins and limits, which the session keeps.
    fn open_session_egress(&self, session: &ExecutionContext) -> Result<Egress, OperationError> {
        let (credentials, environment) = (&self.config.credentials, &self.config.environment);
        let vault = Vault::in_data_folder(&self.config.home, environment);
        let settings = self.egress.clone().with_credentials(credentials, environment, &vault)?;
        let settings = settings.with_redactor(Arc::clone(&session.redactor));
        let ids = (session.id, session.execution);
        let made = Egress::new(
            settings,
            Arc::clone(&session.policy),
            Arc::clone(&self.records.store),
            ids,
        );
        let first = session.egress.get_or_init(|| made);
        Ok(first.for_execution(session.execution, Arc::clone(&session.policy)))
    }
}
