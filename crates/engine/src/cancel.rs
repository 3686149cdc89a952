//! Cancel switches: what runs here ends on request, also on request of another process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ringfence_journal::{Event, EventKind, Recorder as _, SessionId};
use ringfence_store::{Lease, LeaseError, Store, WakeEvent};
use tokio::sync::{mpsc, watch};

use crate::approvals::notifier::ApprovalNotifier;
use crate::engine::lock;
use crate::runs::registry::RunRegistry;

pub(crate) type CancelSwitches = Arc<Mutex<HashMap<SessionId, watch::Sender<bool>>>>;

/// The cancel switch of a session, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct CancelSwitch {
    session: SessionId,
    switches: CancelSwitches,
}

impl CancelSwitch {
    /// Registers `sender` to be triggered when the session is to end.
    pub(crate) fn register(switches: &CancelSwitches, session: SessionId, sender: watch::Sender<bool>) -> CancelSwitch {
        lock(switches).insert(session, sender);
        let switches = Arc::clone(switches);
        CancelSwitch { session, switches }
    }
}

impl Drop for CancelSwitch {
    fn drop(&mut self) {
        lock(&self.switches).remove(&self.session);
    }
}

/// How long the listener waits after an error.
const RETRY_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// Spawns the task that listens to other processes: it records and triggers requests to stop, and notifies waiters of answers.
pub(crate) fn spawn_stop_listener(
    store: &Arc<Store>,
    lease: &Lease,
    switches: &CancelSwitches,
    runs: &Arc<RunRegistry>,
    bells: &ApprovalNotifier,
) -> Result<mpsc::UnboundedReceiver<SessionId>, LeaseError> {
    let mut wakes = store.listen_for_wakes(lease)?;
    let (store, switches, runs) = (Arc::clone(store), Arc::clone(switches), Arc::clone(runs));
    let bells = bells.clone();
    let (stopped, sessions) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let stop = match wakes.next().await {
                Ok(WakeEvent::Stop(stop)) => stop,
                Ok(WakeEvent::Answered(question)) => {
                    bells.notify(question);
                    continue;
                }
                Err(error) => {
                    tracing::error!(%error, "cannot hear requests to stop, or answers; it is tried again");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                    continue;
                }
            };
            let asked = Event::from_host(stop.session, None, EventKind::StopRequested { by: stop.by });
            // The one action that does not depend on its record: a request to stop always takes effect.
            if let Err(error) = store.record(asked).await {
                tracing::error!(%error, session = %stop.session, "a request to stop could not be written down");
            }
            if let Some(switch) = lock(&switches).get(&stop.session) {
                switch.send_replace(true);
            }
            runs.active(Some(stop.session)).iter().for_each(|run| run.cancel());
            // An engine without front doors has no open sessions, and no receiver.
            let _ = stopped.send(stop.session);
        }
    });
    Ok(sessions)
}
