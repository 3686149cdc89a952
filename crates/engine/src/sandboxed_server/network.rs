//! The network of a sandboxed tool server. A server outlives the sessions that use it, so its connections are recorded in a session of its
//! own.

use std::sync::Arc;

use ringfence_gateway::{Egress, EgressSettings, Vault};
use ringfence_journal::{CleanText, Event, EventKind, ExecutionId, Recorder as _, ServerPlace, SessionId};
use ringfence_policy::Policy;
use ringfence_sandbox::{NetworkAccess, Spec};
use ringfence_store::{NewSession, Store};
use tokio::sync::watch;

use super::SandboxedServers;
use crate::cancel::CancelSwitch;
use crate::error::OperationError;
use crate::network::ExecutionEgress;
use crate::report;
use crate::sessions::context::policy_ref;

/// The session of a server that has a network.
pub(super) struct ServerSession {
    id: SessionId,
    store: Arc<Store>,
    _switch: CancelSwitch,
}

impl SandboxedServers {
    /// Opens a server's egress and session, where its policy has a network. `switch` stops the server, also through its session.
    pub(super) async fn open_network(
        &self,
        server: &str,
        (policy, spec): (&Policy, &Spec),
        switch: &watch::Sender<bool>,
    ) -> Result<Option<(ServerSession, (ExecutionEgress, NetworkAccess))>, OperationError> {
        if policy.net().enabled != Some(true) {
            return Ok(None);
        }
        let ids = (SessionId::generate()?, ExecutionId::generate()?);
        let held = self.backend.enforcement(spec);
        let held = held.iter().map(report::journal_enforcement);
        let opening = NewSession {
            session: ids.0,
            principal: self.settings.principal,
            policy: policy_ref(policy),
            policy_json: policy.to_json().to_string(),
            backend: CleanText::clean(self.backend.name()),
            enforcement: held.chain([report::gateway_enforcement("net")]).collect(),
            durable: policy.audit().durable,
            journal_bytes: policy.audit().session_bytes.get(),
            uid: None,
            keeping: None,
        };
        self.store.open_session(&self.lease, opening).await?;
        let session = ServerSession {
            id: ids.0,
            store: Arc::clone(&self.store),
            _switch: CancelSwitch::register(&self.switches, ids.0, switch.clone()),
        };
        let used = EventKind::ServerUsed {
            server: CleanText::clean(server),
            place: ServerPlace::Sandbox,
        };
        self.store.record(Event::from_host(ids.0, None, used)).await?;
        let (credentials, environment) = (&self.settings.credentials, &self.settings.environment);
        let vault = Vault::in_data_folder(&self.settings.home, environment);
        let settings = EgressSettings::system().with_credentials(credentials, environment, &vault)?;
        let egress = Egress::new(settings, Arc::new(policy.clone()), Arc::clone(&self.store), ids);
        Ok(Some((session, ExecutionEgress::new(egress))))
    }
}

impl ServerSession {
    /// Records that the server has stopped.
    pub(super) async fn close(self) {
        let reason = CleanText::clean("done");
        let closed = Event::from_host(self.id, None, EventKind::SessionClosed { reason });
        if let Err(error) = self.store.record(closed).await {
            tracing::warn!(%error, session = %self.id, "the end of a tool server's session could not be written down");
        }
    }
}
