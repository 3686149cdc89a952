//! Clients without a sandbox: the MCP library alone, and our upstream connections without a pass.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark starts the servers of a bare client itself"
)]

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ringfence_gateway::{ServerCache, Servers, UpstreamOptions, Upstreams};
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, serve_client};
use serde_json::{Map, Value, json};
use tokio::process::{Child, Command};

use super::call_path::servers_document;

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// The client of the MCP library, connected to a server directly.
pub struct BareClient {
    service: RunningService<RoleClient, ()>,
    _child: Child,
}

impl std::fmt::Debug for BareClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Bare").finish_non_exhaustive()
    }
}

impl BareClient {
    /// Starts a server and completes the handshake with it.
    pub async fn connect(upstream: &Path) -> Result<BareClient> {
        let mut child = Command::from(std::process::Command::new(upstream))
            .arg("echo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", upstream.display()))?;
        let streams = (child.stdout.take(), child.stdin.take());
        let (Some(stdout), Some(stdin)) = streams else {
            bail!("the server has no streams");
        };
        let service = serve_client((), (stdout, stdin)).await?;
        Ok(BareClient { service, _child: child })
    }

    /// The time of `count` sequential calls.
    pub async fn time_calls(&self, count: usize) -> Result<Duration> {
        let started = Instant::now();
        for number in 0..count {
            self.call("echo", echo_arguments(number)).await?;
        }
        Ok(started.elapsed())
    }

    /// Makes one call and fails unless it succeeds; the result is dropped.
    pub async fn call(&self, tool: &'static str, arguments: Map<String, Value>) -> Result<()> {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.service.peer().call_tool(params).await?;
        ensure!(result.is_error != Some(true), "{tool} failed: {result:?}");
        Ok(())
    }
}

/// The gateway's clients, without a session, a policy or a journal.
#[derive(Debug)]
pub struct DirectClient {
    upstreams: Upstreams,
    _home: tempfile::TempDir,
}

impl DirectClient {
    /// Starts the servers and waits until they are connected.
    pub async fn connect(upstream: &Path) -> Result<DirectClient> {
        let home = tempfile::tempdir()?;
        let servers = Servers::parse(&servers_document(upstream), home.path())?;
        let options = UpstreamOptions::new(Arc::new(|_: &str| None));
        let upstreams = Upstreams::new(servers, ServerCache::new(home.path()), options);
        upstreams.ensure_connected("echo").await?;
        Ok(DirectClient { upstreams, _home: home })
    }

    /// The time of `count` sequential calls.
    pub async fn time_calls(&self, count: usize) -> Result<Duration> {
        let started = Instant::now();
        for number in 0..count {
            let result = self
                .upstreams
                .call("echo", "echo", echo_arguments(number), CALL_TIMEOUT)
                .await?;
            ensure!(!result.is_error, "a call failed");
        }
        Ok(started.elapsed())
    }
}

impl Drop for DirectClient {
    fn drop(&mut self) {
        self.upstreams.close();
    }
}

fn echo_arguments(number: usize) -> Map<String, Value> {
    Map::from_iter([("text".to_owned(), json!(format!("number {number}")))])
}
