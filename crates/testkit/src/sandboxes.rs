//! Sandboxes for benchmarks, made from the built-in policy.

use std::sync::Arc;

use anyhow::{Result, ensure};
use ringfence_policy::{Ceiling, Draft};
use ringfence_sandbox::{
    ConcludedExecution, ExecutionTask, JobLanguage, OutputSink, RunProgram, Sandbox, Spec, SpecOptions, StandardStream,
    Stop, Verdict,
};

struct SilentOutput;

impl OutputSink for SilentOutput {
    fn on_output(&mut self, _: StandardStream, _: &[u8]) {}
}

/// The sandbox spec of the built-in policy.
pub fn built_in_spec() -> Result<Arc<Spec>> {
    let policy = Draft::builtin().under(&Ceiling::unlimited())?;
    Ok(Arc::new(Spec::new(&policy, &SpecOptions::default())?))
}

/// Runs one line of code and checks its value.
pub async fn run_line(
    sandbox: &mut Sandbox,
    language: JobLanguage,
    source: &str,
    value: &str,
) -> Result<ConcludedExecution> {
    let kind = RunProgram::Code {
        language,
        file_name: "line".to_owned(),
        source: source.to_owned(),
    };
    let (_switch, mut stop) = Stop::new();
    let ended = sandbox
        .run(ExecutionTask::new(kind), &mut SilentOutput, &mut stop)
        .await?;
    ensure!(ended.verdict == Verdict::Finished, "{ended:?}");
    ensure!(ended.value == value.as_bytes(), "{ended:?}");
    Ok(ended)
}
