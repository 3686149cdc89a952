//! Sandboxed tool servers: a stdio server in a sandbox of its own, for as long as it is used.

mod network;

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use ringfence_gateway::{SpawnError, SpawnRequest, SpawnedServer, Spawner};
use ringfence_policy::{AllowedPrograms, Policy};
use ringfence_sandbox::{Backend, ExecutionTask, InputWriter, OutputStreams, RunProgram, Spec, SpecOptions, Stop};
use ringfence_store::{Lease, Store};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::cancel::CancelSwitches;
use crate::config::EngineConfig;
use crate::engine::lock;
use crate::network::run_with_egress;

/// Starts tool servers in sandboxes.
pub(crate) struct SandboxedServers {
    pub(crate) backend: Arc<Backend>,
    /// Includes the policy of each server whose entry names one.
    pub(crate) settings: Arc<EngineConfig>,
    pub(crate) store: Arc<Store>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) switches: CancelSwitches,
    /// The tasks of running servers; each ends when its sandbox is gone.
    pub(crate) running: Mutex<JoinSet<()>>,
}

impl SandboxedServers {
    /// Waits until every server whose connection was closed has stopped.
    pub(crate) async fn wait_until_stopped(&self) {
        let running = std::mem::take(&mut *lock(&self.running));
        running.join_all().await;
    }

    /// The policy of a server's sandbox; an error where none was read.
    fn server_policy(&self, spawn: &SpawnRequest<'_>) -> Result<&Policy, SpawnError> {
        let policy = self.settings.server_policies.get(spawn.server).ok_or_else(|| {
            let message = format!("no policy `{}` was read for server `{}`", spawn.policy, spawn.server);
            spawn_error("policy.unknown", message)
        })?;
        if policy.limits().programs == AllowedPrograms::None {
            let server = spawn.server;
            let message = format!("`proc.programs` of server `{server}` is none, and a tool server is a program");
            return Err(spawn_error("policy.programs", message));
        }
        Ok(policy)
    }

    async fn start_server(&self, spawn: SpawnRequest<'_>) -> Result<SpawnedServer, SpawnError> {
        let policy = self.server_policy(&spawn)?;
        let options = SpecOptions {
            python: self.settings.python.clone(),
            folders: Some(self.settings.home.join("scratch").join(spawn.server)),
            ..SpecOptions::default()
        };
        let env = spawn
            .env
            .iter()
            .map(|(name, secret)| (name.clone(), secret.reveal().to_owned()));
        let spec = Arc::new(
            Spec::new(policy, &options)
                .map_err(|error| spawn_error("policy.mount", error.to_string()))?
                .for_server(env),
        );
        let mut sandbox = self
            .backend
            .launch(&spec)
            .await
            .map_err(|error| spawn_error("sandbox.launch", error.to_string()))?;
        let (switch, mut stop) = Stop::new();
        let opened = self.open_network(spawn.server, (policy, &spec), &switch).await;
        let opened = opened.map_err(|error| spawn_error("server.network", error.to_string()))?;
        let (session, ways) = opened.unzip();
        let (outside, network) = ways.unzip();
        let (stdin, pieces) = mpsc::channel(16);
        let task = ExecutionTask {
            args: spawn.args.to_vec(),
            stdin: Some(pieces),
            network,
            ..ExecutionTask::new(RunProgram::Named(spawn.command.to_owned()))
        };
        let server = spawn.server.to_owned();
        let (mut words, stdout, stderr) = OutputStreams::new(switch.clone());
        let ended = async move {
            let run = sandbox.run(task, &mut words, &mut stop);
            match Box::pin(run_with_egress(outside, run)).await {
                Ok((ended, _)) => {
                    tracing::debug!(%server, verdict = ?ended.verdict, "a tool server in a sandbox has ended");
                }
                Err(error) => tracing::warn!(%server, %error, "a tool server in a sandbox broke"),
            }
            drop(words);
            if let Err(error) = sandbox.end().await {
                tracing::warn!(%server, %error, "the sandbox of a tool server did not end");
            }
            if let Some(session) = session {
                session.close().await;
            }
        };
        lock(&self.running).spawn(ended);
        Ok(SpawnedServer {
            stdout: Box::new(stdout),
            stdin: Box::new(InputWriter::new(stdin)),
            stderr: Some(Box::new(stderr)),
            guard: Box::new(ServerStopGuard(switch)),
        })
    }
}

fn spawn_error(code: &str, message: String) -> SpawnError {
    SpawnError {
        code: code.to_owned(),
        message,
    }
}

impl Spawner for SandboxedServers {
    fn spawn<'a>(&'a self, spawn: SpawnRequest<'a>) -> BoxFuture<'a, Result<SpawnedServer, SpawnError>> {
        Box::pin(self.start_server(spawn))
    }
}

/// Stops the server when it is dropped.
struct ServerStopGuard(watch::Sender<bool>);

impl Drop for ServerStopGuard {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}
