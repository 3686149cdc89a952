//! A supervisor that is killed: it makes a sandbox, reports where, and runs something that would outlive it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ringfence_policy::{Ceiling, Draft};
use ringfence_sandbox::{Native, Options, Output, Spec, Stop, Task, TaskKind, Words};
use serde::{Deserialize, Serialize};

use super::say;

/// What a supervisor leaves when it dies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Estate {
    /// The process number of its sandbox's first process.
    pub(crate) first: i32,
    /// The folders of its control groups.
    pub(crate) remains: Vec<PathBuf>,
}

struct Nobody;

impl Words for Nobody {
    fn take(&mut self, _output: Output, _bytes: &[u8]) {}
}

/// Supervises until it is killed; its control groups are called `name`.
pub(super) fn run(name: &str) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let policy = Draft::builtin().under(&Ceiling::own_word()).map_err(io::Error::other)?;
        let spec = Arc::new(Spec::new(&policy, &Options::default()).map_err(io::Error::other)?);
        let native = Native::new(name).map_err(io::Error::other)?;
        let mut sandbox = native.launch(&spec).await.map_err(io::Error::other)?;
        say(&Estate {
            first: sandbox.pid(),
            remains: native.remains(),
        })?;
        let source = "(setsid sleep 300 </dev/null >/dev/null 2>&1 &)\nsleep 300 &\nsleep 300\n".to_owned();
        let task = Task {
            kind: TaskKind::Shell {
                file_name: "outlive".to_owned(),
                source,
            },
            args: Vec::new(),
            stdin: None,
            door: None,
            wall: None,
            network: None,
            again: None,
        };
        let (_switch, mut stop) = Stop::new();
        sandbox
            .run(task, &mut Nobody, &mut stop)
            .await
            .map_err(io::Error::other)?;
        Ok(())
    })
}
