//! Waits for an execution: collects its output, sends progress notifications, and reacts if the client disconnects.

use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{Execution, OutputFrom, Patience, Progress, Running};
use ringfence_journal::{ApprovalId, ExecutionId, Principal, Status};
use rmcp::model::{InputRequiredResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::{RequestContext, RoleServer};
use tokio::time::Instant;

use super::face::Face;
use super::fault::Fault;
use super::form::{Forms, Next};

/// The interval of progress notifications.
const BEAT: Duration = Duration::from_secs(2);
/// How long sending a progress notification may take before it is dropped.
const SENT: Duration = Duration::from_secs(1);
/// How long to wait for the end of a killed run.
const END: Duration = Duration::from_secs(5);
/// The interval at which a run that waits for people is polled: whether it resumes, or has more questions.
const LOOK: Duration = Duration::from_millis(200);
/// The most characters of an output line in a progress notification.
const LINE: usize = 160;

/// The fate of the run when the client that waits for it disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// The run is killed.
    Kill,
    /// The run continues without it.
    Alone,
}

/// The outcome of waiting for an execution.
#[derive(Debug)]
pub(super) enum Seen {
    /// The execution has ended.
    Ended(Arc<Execution>),
    /// The execution is still running; all output since the wait began.
    GoesOn(Running),
    /// The client is to be asked, and repeats the call with the answer.
    Asks(Box<InputRequiredResult>),
}

/// The options of a wait.
#[derive(Debug)]
pub(super) struct Stay {
    /// The longest time to wait.
    pub(super) at_most: Duration,
    /// The fate of the run when the client disconnects.
    pub(super) leave: Leave,
    /// The questions that the client knew when the call arrived; `None` if all are new to it.
    pub(super) known: Option<Vec<ApprovalId>>,
    /// Whether the execution is a single call, which does nothing else while it waits for a person.
    pub(super) is_one_call: bool,
    /// The elicitation during the wait.
    pub(super) forms: Forms,
}

/// Waits until the execution ends, until it only waits for people, or until the timeout.
pub(super) async fn watch(
    face: &Face,
    who: Principal,
    id: ExecutionId,
    mut stay: Stay,
    context: &RequestContext<RoleServer>,
) -> Result<Seen, Fault> {
    let engine = &face.shared.engine;
    let until = Instant::now() + stay.at_most;
    let token = context.meta.get_progress_token();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    let mut beat = Instant::now() + BEAT;
    let mut words = engine.questions();
    // Polling once finds the questions that were asked before the subscription.
    let mut step = Duration::ZERO;
    let mut patience = Patience::End;
    loop {
        let listens = stay.is_one_call || stay.forms.are_possible();
        let progress = tokio::select! {
            biased;
            progress = engine.wait_until(who, id, step, patience, OutputFrom::LastAsked) => progress?,
            () = stay.forms.news(&mut words, id), if listens => engine.wait(who, id, Duration::ZERO).await?,
            () = context.ct.cancelled() => left_by_client(face, who, id, stay.leave).await?,
            () = face.gone.cancelled() => left_by_client(face, who, id, face.leave(id)).await?,
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
        let next = stay.forms.attend(face, who, &running, context).await?;
        let is_left = context.ct.is_cancelled() || face.gone.is_cancelled();
        let is_news = matches!(next, Next::Nothing)
            && (stay.is_news(&running) || stay.known.is_none() && is_behind_a_person(face, who, &running).await?);
        if let Next::Ask(question) = next {
            return Ok(Seen::Asks(question));
        }
        if until <= Instant::now() || is_left || is_news {
            if running.status == Status::WaitingApproval {
                // The client knows the id, and people may take days, so the run does not end with the client.
                face.over(id);
            }
            return Ok(Seen::GoesOn(Running {
                stdout,
                stderr,
                ..running
            }));
        }
        let left = until.saturating_duration_since(Instant::now());
        (step, patience) = step_of(left, &running, token.is_some());
        if running.status == Status::WaitingApproval {
            // `wait_until` returns at once for a run without a process.
            tokio::time::sleep(LOOK.min(left)).await;
        }
        if let Some(token) = token.as_ref().filter(|_| beat <= Instant::now()) {
            say(context, token, &running, &stdout).await;
            beat = Instant::now() + BEAT;
        }
    }
}

/// Whether a run waits for another run of its session that waits for a person, which may take days.
async fn is_behind_a_person(face: &Face, who: Principal, running: &Running) -> Result<bool, Fault> {
    match running.waits_behind {
        Some(ahead) => Ok(!face.shared.engine.waits_for(who, ahead).await?.is_empty()),
        None => Ok(false),
    }
}

impl Stay {
    /// Whether a run only waits for people, and has a question that the client does not know. A run whose questions are all
    /// answered resumes at any moment.
    fn is_news(&self, running: &Running) -> bool {
        let asked = running.approvals.iter().map(|asked| asked.id);
        let known = self.known.as_deref().unwrap_or_default();
        let waits = self.is_one_call || running.status == Status::WaitingApproval;
        waits && !running.approvals.is_empty() && asked.into_iter().any(|id| !known.contains(&id))
    }
}

/// How long to wait next, and for what. A run that already waits for people is polled.
fn step_of(left: Duration, running: &Running, tells: bool) -> (Duration, Patience) {
    if running.status == Status::WaitingApproval {
        return (Duration::ZERO, Patience::End);
    }
    (if tells { left.min(BEAT) } else { left }, Patience::People)
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
    // A client that does not read misses a notification, but is not waited for.
    let _sent = tokio::time::timeout(SENT, context.peer.notify_progress(progress)).await;
}
