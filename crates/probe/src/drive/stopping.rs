//! A program that stops every process it can reach, so that no process is left to end it.

use std::time::{Duration, Instant};

use ringfence_sandbox::{Sandbox, Task};

use super::abuse::LATE;
use super::shot::{Kept, run_in, shell};
use super::{Drive, Judged, ProbeError};

const DEADLINE: Duration = Duration::from_secs(1);
/// Longer than anything here may take: no answer after this time means that none will come.
const NEVER: Duration = Duration::from_secs(10);

const ATTACK: &str = "kill -STOP $PPID; kill -STOP -1; sleep 60";

pub(crate) async fn probe(drive: &Drive<'_>) -> Result<Judged, ProbeError> {
    let mut held = Vec::new();
    let mut sandbox = drive.launch(&[("proc.wall_timeout", "1s")]).await?;
    for (turn, task) in [("", shell(ATTACK)), ("the next run: ", shell("true"))] {
        match answered(&mut sandbox, task).await {
            Ok(words) => held.push(format!("{turn}{words}")),
            Err(TooLate { took }) => {
                // A sandbox that does not answer is killed.
                let _ = sandbox.kill();
                let words = format!("{turn}no answer after {} ms", took.as_millis());
                return Ok(Judged::broken(words));
            }
        }
    }
    // Whatever its state is, the host must not have to wait for it.
    if tokio::time::timeout(NEVER, sandbox.end()).await.is_err() {
        return Ok(Judged::broken("the sandbox does not end"));
    }
    Ok(Judged::held(held.join("; ")))
}

struct TooLate {
    took: Duration,
}

/// The result, if it arrives in time. A sandbox that reports that it is broken has answered too.
async fn answered(sandbox: &mut Sandbox, task: Task) -> Result<String, TooLate> {
    let started = Instant::now();
    let mut kept = Kept::new();
    let ended = tokio::time::timeout(NEVER, run_in(sandbox, task, &mut kept)).await;
    let took = started.elapsed();
    let words = match ended {
        Ok(Ok(shot)) => format!("{:?}", shot.ended.verdict),
        Ok(Err(_)) => "an error".to_owned(),
        Err(_) => return Err(TooLate { took }),
    };
    if took > DEADLINE + LATE {
        return Err(TooLate { took });
    }
    Ok(format!("{words} after {} ms", took.as_millis()))
}
