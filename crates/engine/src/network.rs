//! The network of an execution: each connection that leaves its sandbox goes to the session's egress.

use std::sync::Arc;

use ringfence_gateway::{Egress, EgressReport, ProxyLocation, RefusedEgress};
use ringfence_sandbox::{ConcludedExecution, NETWORK_PORT, NETWORK_TRUST, NetworkAccess, ProgramTunnel};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::error::OperationError;
use crate::report::{ExecutionReport, ViolationReport};

/// Tunnels that wait to be accepted.
const TUNNEL_CAPACITY: usize = 16;
/// The kind of a violation at the egress.
const VIOLATION_KIND: &str = "net";

/// The egress of one execution.
pub(crate) struct ExecutionEgress {
    egress: Arc<Egress>,
    tunnels: mpsc::Receiver<ProgramTunnel>,
}

impl ExecutionEgress {
    /// Makes the tunnels into `egress`, and the sandbox's end of them.
    pub(crate) fn new(egress: Egress) -> (ExecutionEgress, NetworkAccess) {
        let (connections, tunnels) = mpsc::channel(TUNNEL_CAPACITY);
        let network = NetworkAccess {
            env: egress.environment(ProxyLocation {
                port: NETWORK_PORT,
                trust: NETWORK_TRUST,
            }),
            trust: egress.ca_certificate().to_owned(),
            tunnels: connections,
        };
        let egress = Arc::new(egress);
        (ExecutionEgress { egress, tunnels }, network)
    }

    /// The egress whose rules apply to the connections.
    pub(crate) fn egress(&self) -> Arc<Egress> {
        Arc::clone(&self.egress)
    }

    /// Runs a program and carries its connections. What cannot be recorded does not leave, and its program stops.
    pub(crate) async fn run_with_tunnels(
        mut self,
        run: impl Future<Output = Result<ConcludedExecution, impl Into<OperationError>>>,
    ) -> Result<(ConcludedExecution, EgressReport), OperationError> {
        let mut carried = JoinSet::new();
        tokio::pin!(run);
        let ended = loop {
            tokio::select! {
                ended = &mut run => break ended.map_err(Into::into)?,
                error = self.egress.wait_for_failure() => return Err(OperationError::Record(error)),
                Some(tunnel) = self.tunnels.recv() => {
                    let egress = Arc::clone(&self.egress);
                    carried.spawn(async move { egress.serve(tunnel).await });
                }
                Some(done) = carried.join_next() => done.map_err(OperationError::CallTask)?,
            }
        };
        // The sandbox's end of every connection is closed: open connections end by themselves and are not waited for.
        carried.shutdown().await;
        Ok((ended, self.egress.close().await?))
    }
}

/// Runs a program with its egress, if it has one.
pub(crate) async fn run_with_egress(
    outside: Option<ExecutionEgress>,
    run: impl Future<Output = Result<ConcludedExecution, impl Into<OperationError>>>,
) -> Result<(ConcludedExecution, EgressReport), OperationError> {
    match outside {
        Some(outside) => Box::pin(outside.run_with_tunnels(run)).await,
        None => Ok((run.await.map_err(Into::into)?, EgressReport::default())),
    }
}

/// Adds the bytes that left and the refused connections to the report.
pub(crate) fn add_egress_counts(execution: &mut ExecutionReport, crossed: &EgressReport) {
    execution.usage.egress_bytes = crossed.bytes_out;
    let told = crossed.listed_refusals.len() as u64;
    let violation = |barred: &RefusedEgress| ViolationReport {
        kind: VIOLATION_KIND.to_owned(),
        detail: format!("{} ({})", barred.detail, barred.code),
        rule: barred.rule.clone(),
    };
    execution
        .violations
        .extend(crossed.listed_refusals.iter().map(violation));
    if crossed.refusal_count > told {
        execution.violations.push(ViolationReport {
            kind: VIOLATION_KIND.to_owned(),
            detail: format!("{} more", crossed.refusal_count - told),
            rule: VIOLATION_KIND.to_owned(),
        });
    }
}
