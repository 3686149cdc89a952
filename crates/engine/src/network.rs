//! The network of an execution: each connection that leaves its sandbox goes to the session's egress.

use std::sync::Arc;

use ringfence_catalog::Language;
use ringfence_gateway::{Barred, Crossed, Egress, Vault, Whereabouts};
use ringfence_sandbox::{Ended, NETWORK_PORT, NETWORK_TRUST, Network, Tunnel};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::{Execution, ViolationReport};
use crate::request::Program;
use crate::session::Session;

/// Tunnels that wait to be accepted.
const ROOM: usize = 16;
/// The kind of a violation at the egress.
const NET: &str = "net";

/// The egress of one execution.
pub(crate) struct Outside {
    egress: Arc<Egress>,
    tunnels: mpsc::Receiver<Tunnel>,
}

impl Engine {
    /// Opens the egress of an execution and the sandbox's end of it, where the policy has a network. TypeScript and JavaScript have none:
    /// their `fetch` is a tool call.
    pub(crate) fn outside(
        &self,
        session: &Session,
        program: &Program,
    ) -> Result<Option<(Outside, Option<Network>)>, RunError> {
        if session.policy.net().enabled != Some(true) {
            return Ok(None);
        }
        let egress = match session.way_out.get() {
            Some(first) => first.for_execution(session.execution, Arc::clone(&session.policy)),
            None => self.first_way_out(session)?,
        };
        let (outside, network) = Outside::new(egress);
        let has_tunnels = program.stubs() != Some(Language::TypeScript);
        Ok(Some((outside, has_tunnels.then_some(network))))
    }

    /// The first egress of a session makes its certificates, stand-ins and limits, which the session keeps.
    fn first_way_out(&self, session: &Session) -> Result<Egress, RunError> {
        let (credentials, environment) = (&self.settings.credentials, &self.settings.environment);
        let vault = Vault::find(&self.settings.home, environment);
        let settings = self.egress.clone().holding(credentials, environment, &vault)?;
        let settings = settings.screened(Arc::clone(&session.screen));
        let ids = (session.id, session.execution);
        let made = Egress::new(settings, Arc::clone(&session.policy), Arc::clone(&self.store), ids);
        let first = session.way_out.get_or_init(|| made);
        Ok(first.for_execution(session.execution, Arc::clone(&session.policy)))
    }
}

impl Outside {
    /// Makes the tunnels into `egress`, and the sandbox's end of them.
    pub(crate) fn new(egress: Egress) -> (Outside, Network) {
        let (connections, tunnels) = mpsc::channel(ROOM);
        let network = Network {
            env: egress.environment(Whereabouts {
                port: NETWORK_PORT,
                trust: NETWORK_TRUST,
            }),
            trust: egress.trust().to_owned(),
            tunnels: connections,
        };
        let egress = Arc::new(egress);
        (Outside { egress, tunnels }, network)
    }

    /// The egress whose rules apply to the connections.
    pub(crate) fn egress(&self) -> Arc<Egress> {
        Arc::clone(&self.egress)
    }

    /// Runs a program and carries its connections. What cannot be recorded does not leave, and its program stops.
    pub(crate) async fn run(
        mut self,
        run: impl Future<Output = Result<Ended, impl Into<RunError>>>,
    ) -> Result<(Ended, Crossed), RunError> {
        let mut carried = JoinSet::new();
        tokio::pin!(run);
        let ended = loop {
            tokio::select! {
                ended = &mut run => break ended.map_err(Into::into)?,
                error = self.egress.failed() => return Err(RunError::Record(error)),
                Some(tunnel) = self.tunnels.recv() => {
                    let egress = Arc::clone(&self.egress);
                    carried.spawn(async move { egress.serve(tunnel).await });
                }
                Some(done) = carried.join_next() => done.map_err(RunError::Unanswered)?,
            }
        };
        // The sandbox's end of every connection is closed: open connections end by themselves and are not waited for.
        carried.shutdown().await;
        Ok((ended, self.egress.close().await?))
    }
}

/// Runs a program with its egress, if it has one.
pub(crate) async fn run_beside(
    outside: Option<Outside>,
    run: impl Future<Output = Result<Ended, impl Into<RunError>>>,
) -> Result<(Ended, Crossed), RunError> {
    match outside {
        Some(outside) => Box::pin(outside.run(run)).await,
        None => Ok((run.await.map_err(Into::into)?, Crossed::default())),
    }
}

/// Adds the bytes that left and the refused connections to the report.
pub(crate) fn add_crossed(execution: &mut Execution, crossed: &Crossed) {
    execution.usage.egress_bytes = crossed.bytes_out;
    let told = crossed.refused.len() as u64;
    let violation = |barred: &Barred| ViolationReport {
        kind: NET.to_owned(),
        detail: format!("{} ({})", barred.detail, barred.code),
        rule: barred.rule.clone(),
    };
    execution.violations.extend(crossed.refused.iter().map(violation));
    if crossed.refusals > told {
        execution.violations.push(ViolationReport {
            kind: NET.to_owned(),
            detail: format!("{} more", crossed.refusals - told),
            rule: NET.to_owned(),
        });
    }
}
