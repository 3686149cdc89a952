//! A supervisor that is killed: it makes a sandbox, reports where, and runs something that would outlive it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ringfence_policy::{Ceiling, Draft};
use ringfence_sandbox::{
    Backend, BackendKind, ExecutionTask, OutputSink, RunProgram, Spec, SpecOptions, StandardStream, Stop,
};
use serde::{Deserialize, Serialize};

use super::print_json_line;

/// What a supervisor leaves when it dies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SupervisorRemains {
    /// The process number of its sandbox's first process.
    pub(crate) first: i32,
    /// The folders of its control groups.
    pub(crate) remains: Vec<PathBuf>,
}

struct IgnoredOutput;

impl OutputSink for IgnoredOutput {
    fn on_output(&mut self, _output: StandardStream, _bytes: &[u8]) {}
}

/// Supervises until it is killed; its control groups are called `name`.
pub(super) fn run_supervisor(name: &str) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let policy = Draft::builtin()
            .under(&Ceiling::unlimited())
            .map_err(io::Error::other)?;
        let spec = Arc::new(Spec::new(&policy, &SpecOptions::default()).map_err(io::Error::other)?);
        let backend = Backend::new(BackendKind::default(), name).map_err(io::Error::other)?;
        let mut sandbox = backend.launch(&spec).await.map_err(io::Error::other)?;
        print_json_line(&SupervisorRemains {
            first: sandbox.pid(),
            remains: backend.leftover_folders(),
        })?;
        let source = "(setsid sleep 300 </dev/null >/dev/null 2>&1 &)\nsleep 300 &\nsleep 300\n".to_owned();
        let task = ExecutionTask::new(RunProgram::Shell {
            file_name: "outlive".to_owned(),
            source,
        });
        let (_switch, mut stop) = Stop::new();
        sandbox
            .run(task, &mut IgnoredOutput, &mut stop)
            .await
            .map_err(io::Error::other)?;
        Ok(())
    })
}
