//! A program that stops every process it can reach, so that no process is left to end it, and one that sends every signal to the first
//! process, which has to outlive them all.

use std::time::{Duration, Instant};

use ringfence_sandbox::{ExecutionTask, Sandbox};

use super::abuse::MAX_LATENESS;
use super::probe_run::{CollectedOutput, run_in_sandbox, shell_task};
use super::{ProbeError, ProbeJudgement, ProbeRunner};

const DEADLINE: Duration = Duration::from_secs(1);
/// Longer than anything here may take: no answer after this time means that none will come.
const NEVER: Duration = Duration::from_secs(10);

const STOP_ALL: &str = "kill -STOP $PPID; kill -STOP -1; sleep 60";
const SIGNAL_FIRST: &str = "for n in $(seq 1 64); do kill -$n 1; kill -$n 1; done; sleep 0.2; true";

pub(crate) async fn probe(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let mut held = Vec::new();
    let mut sandbox = drive.launch_sandbox(&[("proc.wall_timeout", "1s")]).await?;
    for (turn, task) in [
        ("every signal to the first process: ", shell_task(SIGNAL_FIRST)),
        ("every process stopped: ", shell_task(STOP_ALL)),
        ("the next run: ", shell_task("true")),
    ] {
        match answered(&mut sandbox, task).await {
            Ok(words) => held.push(format!("{turn}{words}")),
            Err(EndedTooLate { took }) => {
                // A sandbox that does not answer is killed.
                let _ = sandbox.kill();
                let words = format!("{turn}no answer after {} ms", took.as_millis());
                return Ok(ProbeJudgement::broken(words));
            }
        }
    }
    // Whatever its state is, the host must not have to wait for it.
    if tokio::time::timeout(NEVER, sandbox.end()).await.is_err() {
        return Ok(ProbeJudgement::broken("the sandbox does not end"));
    }
    Ok(ProbeJudgement::held(held.join("; ")))
}

struct EndedTooLate {
    took: Duration,
}

/// The result, if it arrives in time. A sandbox that reports that it is broken has answered too.
async fn answered(sandbox: &mut Sandbox, task: ExecutionTask) -> Result<String, EndedTooLate> {
    let started = Instant::now();
    let mut kept = CollectedOutput::new();
    let ended = tokio::time::timeout(NEVER, run_in_sandbox(sandbox, task, &mut kept)).await;
    let took = started.elapsed();
    let words = match ended {
        Ok(Ok(shot)) => format!("{:?}", shot.ended.verdict),
        Ok(Err(_)) => "an error".to_owned(),
        Err(_) => return Err(EndedTooLate { took }),
    };
    if took > DEADLINE + MAX_LATENESS {
        return Err(EndedTooLate { took });
    }
    Ok(format!("{words} after {} ms", took.as_millis()))
}
