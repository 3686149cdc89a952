//! Staying with an execution: its new words are gathered, the client is told that it goes on, and its leaving is heeded.

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

/// How often the client hears that a run goes on.
const BEAT: Duration = Duration::from_secs(2);
/// How long a word of progress may take to be sent, before it is left.
const SENT: Duration = Duration::from_secs(1);
/// How long the end of a killed run is waited for.
const END: Duration = Duration::from_secs(5);
/// How often it is looked at a run that waits for people: whether it goes on, or waits for more.
const LOOK: Duration = Duration::from_millis(200);
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
    /// That the client is to be asked something, and to call again with the answer.
    Asks(Box<InputRequiredResult>),
}

/// What is stayed for.
#[derive(Debug)]
pub(super) struct Stay {
    /// How long at most.
    pub(super) at_most: Duration,
    /// What becomes of the run when the client leaves.
    pub(super) leave: Leave,
    /// What a run waits for when the call comes, if that is no news to the client.
    pub(super) known: Option<Vec<ApprovalId>>,
    /// Whether it is one call, which does nothing else while it waits for a person.
    pub(super) is_one_call: bool,
    /// What is asked of the client meanwhile.
    pub(super) forms: Forms,
}

/// Waits for an execution: until it is over, until it does nothing but wait for people, or for so long.
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
    // What was asked before anybody listened is found by looking.
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
                // The client was told its id, and people may take days: it does not end with the client.
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
            // One that no process has answers at once.
            tokio::time::sleep(LOOK.min(left)).await;
        }
        if let Some(token) = token.as_ref().filter(|_| beat <= Instant::now()) {
            say(context, token, &running, &stdout).await;
            beat = Instant::now() + BEAT;
        }
    }
}

/// Whether a run waits for its session's turn, which another has that waits for a person: that may take days.
async fn is_behind_a_person(face: &Face, who: Principal, running: &Running) -> Result<bool, Fault> {
    match running.waits_behind {
        Some(ahead) => Ok(!face.shared.engine.waits_for(who, ahead).await?.is_empty()),
        None => Ok(false),
    }
}

impl Stay {
    /// Whether a run does nothing but wait for people, for something that the client does not know of. One whose questions
    /// are all answered goes on any moment.
    fn is_news(&self, running: &Running) -> bool {
        let asked = running.approvals.iter().map(|asked| asked.id);
        let known = self.known.as_deref().unwrap_or_default();
        let waits = self.is_one_call || running.status == Status::WaitingApproval;
        waits && !running.approvals.is_empty() && asked.into_iter().any(|id| !known.contains(&id))
    }
}

/// How long is waited next, and for what: one that waits already is looked at again and again.
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
    // A client that does not listen is not waited for; it misses a word.
    let _sent = tokio::time::timeout(SENT, context.peer.notify_progress(progress)).await;
}
