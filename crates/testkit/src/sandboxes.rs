//! Sandboxes for benchmarks, made from the built-in policy.

use std::sync::Arc;

use anyhow::{Result, ensure};
use ringfence_policy::{Ceiling, Draft};
use ringfence_sandbox::{Ended, Language, Options, Output, Sandbox, Spec, Stop, Task, TaskKind, Verdict, Words};

struct Nobody;

impl Words for Nobody {
    fn take(&mut self, _: Output, _: &[u8]) {}
}

/// The sandbox spec of the built-in policy.
pub fn spec() -> Result<Arc<Spec>> {
    let policy = Draft::builtin().under(&Ceiling::own_word())?;
    Ok(Arc::new(Spec::new(&policy, &Options::default())?))
}

/// Runs one line of code and checks its value.
pub async fn run(sandbox: &mut Sandbox, language: Language, source: &str, value: &str) -> Result<Ended> {
    let kind = TaskKind::Code {
        language,
        file_name: "line".to_owned(),
        source: source.to_owned(),
    };
    let (_switch, mut stop) = Stop::new();
    let ended = sandbox
        .run(
            Task {
                kind,
                args: Vec::new(),
                stdin: None,
                door: None,
                wall: None,
                network: None,
                again: None,
            },
            &mut Nobody,
            &mut stop,
        )
        .await?;
    ensure!(ended.verdict == Verdict::Finished, "{ended:?}");
    ensure!(ended.value == value.as_bytes(), "{ended:?}");
    Ok(ended)
}
