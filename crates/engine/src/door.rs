//! The call dispatcher of an execution: the session's pass answers tool calls, the catalog answers queries about tools.
//!
//! Each call is a task of its own, so that a program's parallel calls run in parallel.

mod brisk;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ringfence_gateway::{CallsMade, Diverged, Egress, Pass, Stopped, Told, Waiting, What};
use ringfence_journal::{ExecutionId, RecordError, SessionId};
use ringfence_sandbox::{Answered, Ask, Asked, Ended, Refusal, Stop, Verdict};
use ringfence_store::Store;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::attempt::Unrepeatable;
use crate::bells::{Bells, Word};
use crate::discover::Discover;
use crate::engine::lock;
use crate::error::RunError;
use crate::execution::ErrorReport;
use crate::runs::Run;
use brisk::Brisk;

/// Calls and answers that each channel of the dispatcher holds.
pub(crate) const ROOM: usize = 1024;

/// How long an execution waits for approvals only before it releases its sandbox.
const PATIENCE: Duration = Duration::from_secs(1);

/// Decides whether the sandbox is released while all calls wait for approvals.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Whether the execution is recorded, so that it can be run again.
    pub(crate) is_kept: bool,
    /// Why it cannot be repeated all the same.
    pub(crate) unrepeatable: Unrepeatable,
    /// Listeners learn from it that the execution cannot be repeated.
    pub(crate) bells: Bells,
}

/// Answers the calls of one execution.
#[derive(Debug)]
pub(crate) struct Keeper {
    pass: Arc<Pass<Arc<Store>>>,
    discover: Discover,
    store: Arc<Store>,
    ids: (SessionId, ExecutionId),
    rest: Rest,
    /// The egress of the execution; none where the policy has no network.
    pub(crate) egress: Option<Arc<Egress>>,
    /// The first call in which a repeated program diverged: no call after it is answered.
    diverged: std::sync::Mutex<Option<Diverged>>,
}

/// The channels between a sandbox and the call dispatcher.
#[derive(Debug)]
pub(crate) struct Ways {
    pub(crate) calls: mpsc::Receiver<Asked>,
    pub(crate) answers: mpsc::Sender<Answered>,
    pub(crate) held: watch::Sender<Option<usize>>,
}

/// The result of a call's task.
type Done = Result<(), RecordError>;

impl Keeper {
    /// The pass whose rules apply to the calls.
    pub(crate) fn pass(&self) -> Arc<Pass<Arc<Store>>> {
        Arc::clone(&self.pass)
    }

    pub(crate) fn new(
        pass: Arc<Pass<Arc<Store>>>,
        discover: Discover,
        store: Arc<Store>,
        ids: (SessionId, ExecutionId),
        rest: Rest,
    ) -> Keeper {
        Keeper {
            pass,
            discover,
            store,
            ids,
            rest,
            egress: None,
            diverged: std::sync::Mutex::default(),
        }
    }

    /// Answers calls until the program makes no more and each call has ended; stops early when a call cannot be recorded.
    pub(crate) async fn attend(self: &Arc<Self>, mut ways: Ways, run: Option<&Run>) -> Result<(), RunError> {
        let mut under_way = JoinSet::new();
        let mut waiting = self.pass.waiting();
        let mut still = Still::new(&self.rest, run);
        let mut order = Order::default();
        let mut brisk = Brisk::new();
        loop {
            let all_wait = only_people(under_way.len(), *waiting.borrow_and_update());
            if !all_wait {
                still.stir(&ways.held);
            } else if still.is_long() {
                self.stand(under_way.len(), &ways.held, &mut still).await?;
            }
            tokio::select! {
                biased;
                Some(done) = under_way.join_next() => {
                    brisk.stir();
                    settled(done)?;
                }
                asked = ways.calls.recv() => match asked {
                    Some(asked) => {
                        brisk.stir();
                        // In the program's order, which the tasks do not keep: after a call that diverges, no call is made.
                        for asked in order.next(asked) {
                            self.pass.tape().heard(&asked.trace);
                            self.compare(&asked);
                            let (keeper, answers) = (Arc::clone(self), ways.answers.clone());
                            under_way.spawn(async move { keeper.answer(asked, &answers).await });
                        }
                    }
                    None => break,
                },
                Ok(()) = waiting.changed() => {}
                () = still.changed() => {}
                never = brisk.wait() => match never {},
            }
        }
        while let Some(done) = under_way.join_next().await {
            settled(done)?;
        }
        Ok(())
    }

    /// Handles an execution whose calls have all waited for approvals for a while: releases the sandbox if the program can be repeated, or
    /// reports why it cannot.
    async fn stand(
        &self,
        count: usize,
        held: &watch::Sender<Option<usize>>,
        still: &mut Still<'_>,
    ) -> Result<(), RunError> {
        let rest = &self.rest;
        if let Some(why) = self.pass.tape().spoiled().filter(|_| rest.is_kept && !still.is_told) {
            // A call log that is too large to keep cannot be repeated.
            self.store.spoil(self.ids.1, why).await?;
            rest.unrepeatable.tell(why);
        }
        let why = still.unrepeatable.borrow_and_update().clone();
        if rest.is_kept && why.is_none() {
            held.send_if_modified(|held| held.replace(count).is_none());
            return Ok(());
        }
        held.send_if_modified(|held| held.take().is_some());
        if let Some(run) = still.run {
            run.stand(why.as_deref());
        }
        if let Some(why) = why.filter(|_| !std::mem::replace(&mut still.is_told, true)) {
            rest.bells.tell(Word::Unrepeatable(self.ids.1, why));
        }
        Ok(())
    }

    /// Runs a program and answers its calls. When the program ends by itself, its tool calls run to their end unless it is stopped; its
    /// skills, and the calls of a program that was stopped, do not: their effect is then unknown.
    pub(crate) async fn run(
        &self,
        run: impl Future<Output = Result<Ended, ringfence_sandbox::RunError>>,
        attend: impl Future<Output = Result<(), RunError>>,
        mut stop: Stop,
    ) -> Result<Ended, RunError> {
        tokio::pin!(run, attend);
        let mut attended = false;
        let mut ended = loop {
            tokio::select! {
                ended = &mut run => break ended?,
                // A call that cannot be recorded does not happen, and its program stops.
                done = &mut attend, if !attended => {
                    done?;
                    attended = true;
                }
            }
        };
        match ended.verdict {
            Verdict::Finished => self.pass.finish(),
            Verdict::Released { .. } => self.pass.release(),
            Verdict::Limit(_) | Verdict::Cancelled | Verdict::Overdue | Verdict::Died => self.pass.cancel(),
        }
        if attended {
            return Ok(ended);
        }
        if ended.verdict == Verdict::Finished {
            tokio::select! {
                biased;
                done = &mut attend => return done.map(|()| ended),
                () = stop.pulled() => {
                    self.pass.cancel();
                    ended.verdict = stop.verdict();
                }
            }
        }
        attend.await?;
        Ok(ended)
    }

    /// The calls that were made, once the end of each is recorded.
    pub(crate) async fn close(&self) -> Result<CallsMade, RecordError> {
        self.pass.close().await
    }

    /// The call in which the program diverged.
    pub(crate) fn diverged(&self) -> Option<Diverged> {
        lock(&self.diverged).clone()
    }

    async fn answer(&self, asked: Asked, answers: &mpsc::Sender<Answered>) -> Done {
        let answer = match self.look_up(&asked).await {
            Ok(answer) => answer,
            Err(Stopped::Refused(told)) => Err(refusal(told)),
            Err(Stopped::Unrecorded(error)) => return Err(error),
            Err(Stopped::Diverged(diverged)) => {
                let refusal = strayed(&diverged);
                lock(&self.diverged).get_or_insert(diverged);
                Err(refusal)
            }
            // The sandbox is released; the approval request stays open.
            Err(Stopped::Released) => return Ok(()),
        };
        let answered = Answered {
            number: asked.number,
            answer,
        };
        // A program that has ended no longer listens.
        let _ = answers.send(answered).await;
        Ok(())
    }

    /// Compares a call with the log: a repeated program must make the same calls.
    fn compare(&self, asked: &Asked) {
        let compared = self.pass.tape().compare(asked.number, what(&asked.ask), &asked.body);
        if let Err(diverged) = compared {
            lock(&self.diverged).get_or_insert(diverged);
        }
    }

    async fn look_up(&self, asked: &Asked) -> Result<Result<String, Refusal>, Stopped> {
        if let Some(diverged) = self.diverged() {
            return Err(Stopped::Diverged(diverged));
        }
        let (number, body) = (asked.number, asked.body.as_str());
        let what = what(&asked.ask);
        if let What::Tool { server, tool } = what {
            return self.pass.call(number, server, tool, body, &[]).await.map(Ok);
        }
        if what == What::Fetch {
            return self.pass.fetch(number, body, self.egress.as_ref()).await.map(Ok);
        }
        // A logged answer counts, and is given again whatever the number of lookups is by now.
        let allowed = self.pass.look_up();
        let known = self.pass.tape().answer(number, what, body);
        if let Ok(Some(known)) = known {
            return Ok(known.clone().map_err(refusal));
        }
        allowed?;
        known.map_err(Stopped::Diverged)?;
        let answer = match what {
            What::Search => Box::pin(self.discover.search(body)).await,
            What::Describe => Box::pin(self.discover.describe(body)).await,
            What::List | What::Tool { .. } | What::Fetch => Box::pin(self.discover.list(body)).await,
        };
        let answer = answer.map_err(told);
        let kept = answer.as_ref().map(String::as_str);
        let entries = self.pass.tape().answered(number, what, body, kept);
        if !entries.is_empty() {
            let (session, execution) = self.ids;
            let written = Box::pin(self.store.keep(session, execution, entries)).await;
            written.map_err(Stopped::Unrecorded)?;
        }
        Ok(answer.map_err(refusal))
    }
}

/// Measures how long an execution has waited for approvals only.
struct Still<'a> {
    run: Option<&'a Run>,
    /// When the execution has waited long enough; none while it does something else.
    long: Option<Instant>,
    unrepeatable: watch::Receiver<Option<String>>,
    is_told: bool,
}

impl<'a> Still<'a> {
    fn new(rest: &Rest, run: Option<&'a Run>) -> Still<'a> {
        Still {
            run,
            long: None,
            unrepeatable: rest.unrepeatable.heard(),
            is_told: false,
        }
    }

    /// Resets the timer: the execution does something else.
    fn stir(&mut self, held: &watch::Sender<Option<usize>>) {
        self.long = None;
        held.send_if_modified(|held| held.take().is_some());
        if let Some(run) = self.run {
            run.stir();
        }
    }

    /// Whether the execution has waited long enough, counted from the first call of this.
    fn is_long(&mut self) -> bool {
        *self.long.get_or_insert_with(|| Instant::now() + PATIENCE) <= Instant::now()
    }

    /// Waits until the deadline, or after it until the execution is known not to be repeatable.
    async fn changed(&mut self) {
        match self.long {
            Some(long) if long <= Instant::now() => {
                if self.unrepeatable.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            Some(long) => tokio::time::sleep_until(long).await,
            None => std::future::pending().await,
        }
    }
}

/// Puts calls in the order of their numbers: a large call can arrive after later ones.
#[derive(Debug, Default)]
struct Order {
    last: u32,
    early: BTreeMap<u32, Asked>,
}

impl Order {
    /// Adds a call and returns the calls that are now next in order.
    fn next(&mut self, asked: Asked) -> Vec<Asked> {
        self.early.insert(asked.number, asked);
        let mut ready = Vec::with_capacity(1);
        while let Some(asked) = self.early.remove(&(self.last + 1)) {
            self.last += 1;
            ready.push(asked);
        }
        ready
    }
}

/// The kind of a call, as the call log stores it.
pub(crate) fn what(ask: &Ask) -> What<&str> {
    match ask {
        Ask::Tool { server, tool } => What::Tool { server, tool },
        Ask::Search => What::Search,
        Ask::Describe => What::Describe,
        Ask::List => What::List,
        Ask::Fetch => What::Fetch,
    }
}

/// Whether calls are in flight and each of them waits for an approval.
fn only_people(under_way: usize, waiting: Waiting) -> bool {
    under_way > 0 && waiting.open == under_way && waiting.at_the_desk == under_way
}

/// Fails on a call whose task panicked: it would never be answered, and its program would wait forever.
fn settled(done: Result<Done, tokio::task::JoinError>) -> Result<(), RunError> {
    done.map_err(RunError::Unanswered)?.map_err(RunError::Record)
}

pub(crate) fn refusal(told: Told) -> Refusal {
    Refusal {
        code: told.code,
        message: told.message,
        rule: told.rule,
        hint: told.hint,
        retry_after_ms: told.retry_after_ms,
    }
}

/// The refusal that a diverged program gets; the program fails whatever it makes of it.
pub(crate) fn strayed(diverged: &Diverged) -> Refusal {
    Refusal {
        code: "replay.diverged".to_owned(),
        message: diverged.to_string(),
        rule: None,
        hint: Some(DIVERGED_HINT.to_owned()),
        retry_after_ms: None,
    }
}

/// The hint for a program that diverged.
pub(crate) const DIVERGED_HINT: &str = "a program that waits for a person must do the same when it is run again: run it anew, without threads and without depending on addresses or file times";

fn told(error: ErrorReport) -> Told {
    Told {
        code: error.code,
        message: error.message,
        rule: error.rule,
        hint: error.hint,
        retry_after_ms: None,
    }
}

#[cfg(test)]
mod tests;
