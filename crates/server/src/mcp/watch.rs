//! Staying with an execution: its new words are gathered, the client is told that it goes on, and its leaving is heeded.

use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{Execution, Progress, Running};
use ringfence_journal::{ExecutionId, Principal};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{RequestContext, RoleServer};
use tokio::time::Instant;

use super::face::Face;
use super::fault::Fault;

/// How often the client hears that a run goes on.
const BEAT: Duration = Duration::from_secs(2);
/// How long a word of progress may take to be sent, before it is left.
const SENT: Duration = Duration::from_secs(1);
/// How long the end of a killed run is waited for.
const END: Duration = Duration::from_secs(5);
/// The most of one line that a word of progress carries.
const LINE: usize = 160;

/// What becomes of the run when the one who waits for it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// It is killed.
    Kill,
    /// It goes on.
    Alone,
}

/// What was seen of an execution.
#[derive(Debug)]
pub(super) enum Seen {
    /// Its end.
    Ended(Arc<Execution>),
    /// That it goes on, and all that it printed meanwhile.
    GoesOn(Running),
}

/// Waits for an execution for so long.
pub(super) async fn watch(
    face: &Face,
    who: Principal,
    (id, stay): (ExecutionId, Duration),
    leave: Leave,
    context: &RequestContext<RoleServer>,
) -> Result<Seen, Fault> {
    let engine = &face.shared.engine;
    let until = Instant::now() + stay;
    let token = context.meta.get_progress_token();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let step = if token.is_some() { left.min(BEAT) } else { left };
        let progress = tokio::select! {
            biased;
            progress = engine.wait(who, id, step) => progress?,
            () = context.ct.cancelled() => left_by_client(face, who, id, leave).await?,
            () = face.gone.cancelled() => left_by_client(face, who, id, Leave::Kill).await?,
        };
        let running = match progress {
            Progress::Ended(ending) => {
                face.over(id);
                return Ok(Seen::Ended(ending.map_err(|error| Fault::from(error.as_ref()))?));
            }
            Progress::Running(running) => running,
        };
        stdout.push_str(&running.stdout);
        stderr.push_str(&running.stderr);
        let is_left = context.ct.is_cancelled() || face.gone.is_cancelled();
        if until <= Instant::now() || is_left {
            return Ok(Seen::GoesOn(Running {
                stdout,
                stderr,
                ..running
            }));
        }
        if let Some(token) = &token {
            say(context, token, &running, &stdout).await;
        }
    }
}

async fn left_by_client(face: &Face, who: Principal, id: ExecutionId, leave: Leave) -> Result<Progress, Fault> {
    let engine = &face.shared.engine;
    if leave == Leave::Alone {
        return Ok(engine.wait(who, id, Duration::ZERO).await?);
    }
    engine.cancel(who, id).await?;
    Ok(engine.wait(who, id, END).await?)
}

async fn say(context: &RequestContext<RoleServer>, token: &ProgressToken, running: &Running, stdout: &str) {
    let seconds = Duration::from_millis(running.elapsed_ms).as_secs_f64();
    let last = stdout
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let last: String = last.trim().chars().take(LINE).collect();
    let message = match last.as_str() {
        "" => format!("running for {seconds:.0} s"),
        last => format!("running for {seconds:.0} s: {last}"),
    };
    let progress = ProgressNotificationParam::new(token.clone(), seconds).with_message(message);
    // A client that does not listen is not waited for; it misses a word.
    let _sent = tokio::time::timeout(SENT, context.peer.notify_progress(progress)).await;
}
