//! Waits for an execution: collects its output, sends progress notifications, and reacts if the client disconnects.

use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{ExecutionReport, OutputFrom, RunProgress, RunningExecution, WaitCondition};
use ringfence_journal::{ApprovalId, ExecutionId, ExecutionStatus, Principal};
use rmcp::model::{InputRequiredResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::{RequestContext, RoleServer};
use tokio::time::Instant;

use super::elicitation::{CallElicitation, ElicitationStep};
use super::fault::McpFault;
use super::handler::McpHandler;

/// The interval of progress notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// How long sending a progress notification may take before it is dropped.
const PROGRESS_SEND_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for the end of a killed run.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which a run that waits for people is polled: whether it resumes, or has more questions.
const APPROVAL_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The most characters of an output line in a progress notification.
const MAX_LINE_CHARS: usize = 160;

/// The fate of the run when the client that waits for it disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDisconnect {
    /// The run is killed.
    Kill,
    /// The run continues without it.
    Detach,
}

/// The outcome of waiting for an execution.
#[derive(Debug)]
pub(super) enum WaitOutcome {
    /// The execution has ended.
    Ended(Arc<ExecutionReport>),
    /// The execution is still running; all output since the wait began.
    StillRunning(RunningExecution),
    /// The client is to be asked, and repeats the call with the answer.
    NeedsInput(Box<InputRequiredResult>),
}

/// The options of a wait.
#[derive(Debug)]
pub(super) struct WaitOptions {
    /// The longest time to wait.
    pub(super) timeout: Duration,
    /// The fate of the run when the client disconnects.
    pub(super) on_disconnect: OnDisconnect,
    /// The questions that the client knew when the call arrived; `None` if all are new to it.
    pub(super) known_questions: Option<Vec<ApprovalId>>,
    /// Whether the execution is a single call, which does nothing else while it waits for a person.
    pub(super) is_single_call: bool,
    /// The elicitation during the wait.
    pub(super) elicitation: CallElicitation,
}

/// Waits until the execution ends, until it only waits for people, or until the timeout.
pub(super) async fn wait_for_execution(
    face: &McpHandler,
    who: Principal,
    id: ExecutionId,
    mut stay: WaitOptions,
    context: &RequestContext<RoleServer>,
) -> Result<WaitOutcome, McpFault> {
    let engine = &face.shared.engine;
    let until = Instant::now() + stay.timeout;
    let token = context.meta.get_progress_token();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    let mut beat = Instant::now() + PROGRESS_INTERVAL;
    let mut words = engine.approvals().events();
    // Polling once finds the questions that were asked before the subscription.
    let mut step = Duration::ZERO;
    let mut patience = WaitCondition::Finished;
    loop {
        let listens = stay.is_single_call || stay.elicitation.is_possible();
        let progress = tokio::select! {
            biased;
            progress = engine.runs().wait_until(who, id, step, patience, OutputFrom::LastRead) => progress?,
            () = stay.elicitation.wait_for_question(&mut words, id), if listens => engine.runs().wait(who, id, Duration::ZERO).await?,
            () = context.ct.cancelled() => handle_disconnect(face, who, id, stay.on_disconnect).await?,
            () = face.gone.cancelled() => handle_disconnect(face, who, id, face.on_disconnect(id)).await?,
        };
        let running = match progress {
            RunProgress::Ended(ending) => {
                face.remove_started(id);
                return Ok(WaitOutcome::Ended(
                    ending.map_err(|error| McpFault::from(error.as_ref()))?,
                ));
            }
            RunProgress::Running(running) => running,
        };
        stdout.push_str(&running.stdout);
        stderr.push_str(&running.stderr);
        let next = stay.elicitation.ask_client(face, who, &running, context).await?;
        let is_left = context.ct.is_cancelled() || face.gone.is_cancelled();
        let is_news = matches!(next, ElicitationStep::Nothing)
            && (stay.has_new_questions(&running)
                || stay.known_questions.is_none() && is_blocked_by_approval(face, who, &running).await?);
        if let ElicitationStep::Ask(question) = next {
            return Ok(WaitOutcome::NeedsInput(question));
        }
        if until <= Instant::now() || is_left || is_news {
            if running.status == ExecutionStatus::WaitingApproval {
                // The client knows the id, and people may take days, so the run does not end with the client.
                face.remove_started(id);
            }
            return Ok(WaitOutcome::StillRunning(RunningExecution {
                stdout,
                stderr,
                ..running
            }));
        }
        let left = until.saturating_duration_since(Instant::now());
        (step, patience) = next_wait(left, &running, token.is_some());
        if running.status == ExecutionStatus::WaitingApproval {
            // `wait_until` returns at once for a run without a process.
            tokio::time::sleep(APPROVAL_POLL_INTERVAL.min(left)).await;
        }
        if let Some(token) = token.as_ref().filter(|_| beat <= Instant::now()) {
            send_progress(context, token, &running, &stdout).await;
            beat = Instant::now() + PROGRESS_INTERVAL;
        }
    }
}

/// Whether a run waits for another run of its session that waits for a person, which may take days.
async fn is_blocked_by_approval(
    face: &McpHandler,
    who: Principal,
    running: &RunningExecution,
) -> Result<bool, McpFault> {
    match running.waits_behind {
        Some(ahead) => Ok(!face
            .shared
            .engine
            .runs()
            .pending_approval_ids(who, ahead)
            .await?
            .is_empty()),
        None => Ok(false),
    }
}

impl WaitOptions {
    /// Whether a run only waits for people, and has a question that the client does not know. A run whose questions are all
    /// answered resumes at any moment.
    fn has_new_questions(&self, running: &RunningExecution) -> bool {
        let asked = running.approvals.iter().map(|asked| asked.id);
        let known = self.known_questions.as_deref().unwrap_or_default();
        let waits = self.is_single_call || running.status == ExecutionStatus::WaitingApproval;
        waits && !running.approvals.is_empty() && asked.into_iter().any(|id| !known.contains(&id))
    }
}

/// How long to wait next, and for what. A run that already waits for people is polled.
fn next_wait(left: Duration, running: &RunningExecution, tells: bool) -> (Duration, WaitCondition) {
    if running.status == ExecutionStatus::WaitingApproval {
        return (Duration::ZERO, WaitCondition::Finished);
    }
    (
        if tells { left.min(PROGRESS_INTERVAL) } else { left },
        WaitCondition::FinishedOrBlocked,
    )
}

async fn handle_disconnect(
    face: &McpHandler,
    who: Principal,
    id: ExecutionId,
    leave: OnDisconnect,
) -> Result<RunProgress, McpFault> {
    let engine = &face.shared.engine;
    if leave == OnDisconnect::Detach {
        return Ok(engine.runs().wait(who, id, Duration::ZERO).await?);
    }
    engine.runs().cancel(who, id).await?;
    Ok(engine.runs().wait(who, id, KILL_TIMEOUT).await?)
}

async fn send_progress(
    context: &RequestContext<RoleServer>,
    token: &ProgressToken,
    running: &RunningExecution,
    stdout: &str,
) {
    let seconds = Duration::from_millis(running.elapsed_ms).as_secs_f64();
    let last = stdout
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let last: String = last.trim().chars().take(MAX_LINE_CHARS).collect();
    let message = match last.as_str() {
        "" => format!("running for {seconds:.0} s"),
        last => format!("running for {seconds:.0} s: {last}"),
    };
    let progress = ProgressNotificationParam::new(token.clone(), seconds).with_message(message);
    // A client that does not read misses a notification, but is not waited for.
    let _sent = tokio::time::timeout(PROGRESS_SEND_TIMEOUT, context.peer.notify_progress(progress)).await;
}
