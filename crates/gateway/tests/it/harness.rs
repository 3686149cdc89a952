//! Shared by the tests: the program of the test servers, and upstreams with a data folder of their own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ringfence_gateway::{CallResult, ServerCache, Servers, UpstreamCallError, UpstreamOptions, Upstreams};
use serde_json::{Map, Value};

/// Returns the program of the test servers, and builds it if it is missing or stale.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let mut folder = std::env::current_exe().unwrap();
        folder.pop();
        folder.pop();
        let program = folder.join("ringfence-upstream");
        if !is_fresh(&program) {
            let built = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--locked", "-p", "ringfence-testkit"])
                .args(["--no-default-features", "--bin", "ringfence-upstream"])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status()
                .unwrap();
            assert!(built.success(), "the test servers cannot be built");
        }
        program
    })
}

/// Whether the program is newer than all of its sources.
fn is_fresh(program: &Path) -> bool {
    let written = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/src");
    let parts = std::fs::read_dir(sources.join("upstream")).unwrap();
    let parts = parts.map(|part| part.unwrap().path());
    let parts = parts.chain([sources.join("upstream.rs"), sources.join("bin/ringfence-upstream.rs")]);
    written(program).is_some_and(|built| parts.filter_map(|part| written(&part)).all(|part| part < built))
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
