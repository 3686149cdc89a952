//! The network of a sandboxed tool server. A server outlives the sessions that use it, so its connections are recorded in a session of its
//! own.

use std::sync::Arc;

use ringfence_gateway::{Egress, EgressSettings, Vault};
use ringfence_journal::{Event, ExecutionId, Kind, Recorder as _, ServerPlace, SessionId, Text};
use ringfence_policy::Policy;
use ringfence_sandbox::{Network, Spec};
use ringfence_store::{Opening, Store};
use tokio::sync::watch;

use super::Guests;
use crate::error::RunError;
use crate::network::Outside;
use crate::report;
use crate::session::policy_ref;
use crate::switch::Switch;

/// The session of a server that has a network.
pub(super) struct ServerSession {
    id: SessionId,
    store: Arc<Store>,
    _switch: Switch,
}

impl Guests {
    /// Opens a server's egress and session, where its policy has a network. `switch` stops the server, also through its session.
    pub(super) async fn open_network(
        &self,
        server: &str,
        (policy, spec): (&Policy, &Spec),
        switch: &watch::Sender<bool>,
    ) -> Result<Option<(ServerSession, (Outside, Network))>, RunError> {
        if policy.net().enabled != Some(true) {
            return Ok(None);
        }
        let ids = (SessionId::generate()?, ExecutionId::generate()?);
        let held = self.native.enforcement(spec);
        let held = held.iter().map(report::enforcement);
        let opening = Opening {
            session: ids.0,
            principal: self.settings.principal,
            policy: policy_ref(policy),
            policy_json: policy.to_json().to_string(),
            backend: Text::clean("native"),
            enforcement: held.chain([report::at_the_door("net")]).collect(),
            durable: policy.audit().durable,
            journal_bytes: policy.audit().session_bytes.get(),
            uid: None,
            keeping: None,
        };
        self.store.open_session(&self.lease, opening).await?;
        let session = ServerSession {
            id: ids.0,
            store: Arc::clone(&self.store),
            _switch: Switch::register(&self.switches, ids.0, switch.clone()),
        };
        let used = Kind::ServerUsed {
            server: Text::clean(server),
            place: ServerPlace::Sandbox,
        };
        self.store.record(Event::host(ids.0, None, used)).await?;
        let (credentials, environment) = (&self.settings.credentials, &self.settings.environment);
        let vault = Vault::find(&self.settings.home, environment);
        let settings = EgressSettings::system().holding(credentials, environment, &vault)?;
        let egress = Egress::new(settings, Arc::new(policy.clone()), Arc::clone(&self.store), ids);
        Ok(Some((session, Outside::new(egress))))
    }
}

impl ServerSession {
    /// Records that the server has stopped.
    pub(super) async fn close(self) {
        let reason = Text::clean("done");
        let closed = Event::host(self.id, None, Kind::SessionClosed { reason });
        if let Err(error) = self.store.record(closed).await {
            tracing::warn!(%error, session = %self.id, "the end of a tool server's session could not be written down");
        }
    }
}
