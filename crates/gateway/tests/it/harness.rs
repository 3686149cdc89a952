//! Shared by the tests: the program of the test servers, and upstreams with a data folder of their own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ringfence_gateway::{CallResult, ServerCache, Servers, UpstreamCallError, UpstreamOptions, Upstreams};
use serde_json::{Map, Value};

/// Returns the program of the test servers.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| ringfence_testkit::upstream::program().unwrap());
    &PROGRAM
}

/// Upstreams with a data folder that lives as long as they do.
pub(crate) struct Bench {
    pub(crate) upstreams: Upstreams,
    pub(crate) home: Arc<tempfile::TempDir>,
}

/// Returns the entry of a test server.
pub(crate) fn entry(mode: &str) -> Value {
    let args: Vec<&str> = mode.split(' ').collect();
    serde_json::json!({"command": program(), "args": args, "env": {"UPSTREAM_KEY": "env:KEY"}})
}

pub(crate) fn bench(entries: &Value) -> Bench {
    bench_at(entries, Arc::new(tempfile::tempdir().unwrap()))
}

pub(crate) fn bench_at(entries: &Value, home: Arc<tempfile::TempDir>) -> Bench {
    let servers = Servers::from_section(entries, home.path()).unwrap();
    let path = std::env::vars().find(|(name, _)| name == "PATH").map(|(_, path)| path);
    let mut options = UpstreamOptions::new(Arc::new(move |name| match name {
        "KEY" => Some("s3cr3t-value".to_owned()),
        "PATH" => path.clone(),
        _ => None,
    }));
    options.connect_timeout = Duration::from_secs(25);
    Bench {
        upstreams: Upstreams::new(servers, ServerCache::new(home.path()), options),
        home,
    }
}

impl Bench {
    pub(crate) async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Value,
    ) -> Result<CallResult, UpstreamCallError> {
        self.call_within(server, tool, arguments, Duration::from_secs(20)).await
    }

    pub(crate) async fn call_within(
        &self,
        server: &str,
        tool: &str,
        arguments: Value,
        within: Duration,
    ) -> Result<CallResult, UpstreamCallError> {
        let arguments: Map<String, Value> = serde_json::from_value(arguments).unwrap();
        self.upstreams.call(server, tool, arguments, within).await
    }

    /// Returns the value that a program would get.
    pub(crate) async fn value(&self, server: &str, tool: &str, arguments: Value) -> Value {
        self.call(server, tool, arguments).await.unwrap().into_value()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let known = self.upstreams.snapshot();
        known
            .catalog
            .tools()
            .iter()
            .map(|tool| tool.name.as_str().to_owned())
            .collect()
    }
}
