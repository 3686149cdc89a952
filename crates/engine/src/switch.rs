//! The kill switch: what runs here ends when somebody says so, also from another process.

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
    /// A switch that ends what runs in `session`, also when another process pulls it.
    pub(crate) fn switch(&self, session: SessionId) -> (Switch, Stop) {
        let (sender, stop) = Stop::new();
        (Switch::register(&self.switches, session, sender), stop)
    }

    /// Ends what runs in this process: all of it.
    pub fn cancel_all(&self) {
        for switch in lock(&self.switches).values() {
            switch.send_replace(true);
        }
        self.runs.under_way(None).iter().for_each(|run| run.cancel());
    }
}

/// A session's switch, gone when the session is.
#[derive(Debug)]
pub(crate) struct Switch {
    session: SessionId,
    switches: Switches,
}

impl Switch {
    /// Has `sender` told when the session is to end.
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

/// How long a listener that failed waits.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Hears what other processes ask this one to stop, writes it down, and stops it; and what people answered.
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
            // The one act that is not held up by its record: what should end, ends.
            if let Err(error) = store.record(asked).await {
                tracing::error!(%error, session = %stop.session, "a request to stop could not be written down");
            }
            if let Some(switch) = lock(&switches).get(&stop.session) {
                switch.send_replace(true);
            }
            runs.under_way(Some(stop.session)).iter().for_each(|run| run.cancel());
            // An engine without front doors has no sessions that stay, and nobody who listens.
            let _ = stopped.send(stop.session);
        }
    });
    Ok(sessions)
}
