//! The network of an execution: each connection that leaves its sandbox is carried to the session's way out.

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

/// Connections that wait to be taken.
const ROOM: usize = 16;
/// How a refused way out is called among violations.
const NET: &str = "net";

/// The way out of one execution.
pub(crate) struct Outside {
    egress: Arc<Egress>,
    tunnels: mpsc::Receiver<Tunnel>,
}

impl Engine {
    /// The way out of an execution, where the policy has one, and its sandbox's end of it: TypeScript and JavaScript have none, for
    /// their `fetch` is a call.
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

    /// What a session has at its first way out, it keeps: its certificates, its stand-ins, its limits.
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
    /// The way out through `egress`, and its sandbox's end of it.
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

    /// Where its rules are held.
    pub(crate) fn egress(&self) -> Arc<Egress> {
        Arc::clone(&self.egress)
    }

    /// Runs a program and carries its connections. Nothing that cannot be written down goes out, and its program goes no
    /// further.
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
        // The sandbox's end of every connection is gone: what is still carried ends by itself, and is not waited for longer.
        carried.shutdown().await;
        Ok((ended, self.egress.close().await?))
    }
}

/// Runs a program beside its way out, if it has one.
pub(crate) async fn run_beside(
    outside: Option<Outside>,
    run: impl Future<Output = Result<Ended, impl Into<RunError>>>,
) -> Result<(Ended, Crossed), RunError> {
    match outside {
        Some(outside) => Box::pin(outside.run(run)).await,
        None => Ok((run.await.map_err(Into::into)?, Crossed::default())),
    }
}

/// What left and what was not let, as the result tells it.
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
