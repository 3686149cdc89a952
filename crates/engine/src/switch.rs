//! Cancel switches: what runs here ends on request, also on request of another process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ringfence_journal::{Event, Kind, Recorder as _, SessionId};
use ringfence_sandbox::Stop;
use ringfence_store::{Lease, LeaseError, Store, Wake};
use tokio::sync::{mpsc, watch};

use crate::bells::Bells;
use crate::engine::{Engine, lock};
use crate::runs::Runs;

pub(crate) type Switches = Arc<Mutex<HashMap<SessionId, watch::Sender<bool>>>>;

impl Engine {
    /// A cancel switch for what runs in `session`; other processes can trigger it too.
    pub(crate) fn switch(&self, session: SessionId) -> (Switch, Stop) {
        let (sender, stop) = Stop::new();
        (Switch::register(&self.switches, session, sender), stop)
    }

    /// Cancels everything that runs in this process.
    pub fn cancel_all(&self) {
        for switch in lock(&self.switches).values() {
            switch.send_replace(true);
        }
        self.runs.under_way(None).iter().for_each(|run| run.cancel());
    }
}

/// The cancel switch of a session, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Switch {
    session: SessionId,
    switches: Switches,
}

impl Switch {
    /// Registers `sender` to be triggered when the session is to end.
    pub(crate) fn register(switches: &Switches, session: SessionId, sender: watch::Sender<bool>) -> Switch {
        lock(switches).insert(session, sender);
        let switches = Arc::clone(switches);
        Switch { session, switches }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        lock(&self.switches).remove(&self.session);
    }
}

/// How long the listener waits after an error.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Spawns the task that listens to other processes: it records and triggers requests to stop, and notifies waiters of answers.
pub(crate) fn listen(
    store: &Arc<Store>,
    lease: &Lease,
    switches: &Switches,
    runs: &Arc<Runs>,
    bells: &Bells,
) -> Result<mpsc::UnboundedReceiver<SessionId>, LeaseError> {
    let mut wakes = store.wakes(lease)?;
    let (store, switches, runs) = (Arc::clone(store), Arc::clone(switches), Arc::clone(runs));
    let bells = bells.clone();
    let (stopped, sessions) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let stop = match wakes.next().await {
                Ok(Wake::Stop(stop)) => stop,
                Ok(Wake::Answered(question)) => {
                    bells.ring(question);
                    continue;
                }
                Err(error) => {
                    tracing::error!(%error, "cannot hear requests to stop, or answers; it is tried again");
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            };
            let asked = Event::host(stop.session, None, Kind::StopRequested { by: stop.by });
            // The one action that does not depend on its record: a request to stop always takes effect.
            if let Err(error) = store.record(asked).await {
                tracing::error!(%error, session = %stop.session, "a request to stop could not be written down");
            }
            if let Some(switch) = lock(&switches).get(&stop.session) {
                switch.send_replace(true);
            }
            runs.under_way(Some(stop.session)).iter().for_each(|run| run.cancel());
            // An engine without front doors has no open sessions, and no receiver.
            let _ = stopped.send(stop.session);
        }
    });
    Ok(sessions)
}
