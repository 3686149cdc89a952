//! The call dispatcher of an execution: the session's pass answers tool calls, the catalog answers queries about tools.
//!
//! Each call is a task of its own, so that a program's parallel calls run in parallel.

use std::sync::Arc;
use std::time::Duration;

use ringfence_gateway::{CallErrorBody, CallKind, CallsMade, Egress, Pass, PassError, ReplayDivergence, WaitingCalls};
use ringfence_journal::{ExecutionId, RecordError, SessionId};
use ringfence_sandbox::{
    AdaptiveSpin, CallHandler, ConcludedExecution, Stop, ToolCall, ToolCallKind, ToolRefusal, ToolReply, Verdict,
};
use ringfence_store::Store;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::approvals::notifier::{ApprovalEvent, ApprovalNotifier};
use crate::engine::lock;
use crate::error::OperationError;
use crate::execution::attempt::UnrepeatableReason;
use crate::report::ErrorReport;
use crate::runs::registry::TrackedRun;
use crate::tools::discover::ToolDiscovery;

/// Calls and answers that each channel of the dispatcher holds.
pub(crate) const CALL_QUEUE_CAPACITY: usize = 1024;

/// How long an execution waits for approvals only before it releases its sandbox.
const SUSPEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Decides whether the sandbox is released while all calls wait for approvals.
#[derive(Debug)]
pub(crate) struct SuspendState {
    /// Whether the execution is recorded, so that it can be run again.
    pub(crate) is_recorded: bool,
    /// Why it cannot be repeated all the same.
    pub(crate) unrepeatable: UnrepeatableReason,
    /// Listeners learn from it that the execution cannot be repeated.
    pub(crate) notifier: ApprovalNotifier,
}

/// Answers the calls of one execution.
#[derive(Debug)]
pub(crate) struct CallDispatcher {
    pass: Arc<Pass<Arc<Store>>>,
    discover: ToolDiscovery,
    store: Arc<Store>,
    ids: (SessionId, ExecutionId),
    suspend: SuspendState,
    /// The egress of the execution; none where the policy has no network.
    pub(crate) egress: Option<Arc<Egress>>,
    /// The first call in which a repeated program diverged: no call after it is answered.
    diverged: std::sync::Mutex<Option<ReplayDivergence>>,
}

/// The result of a call's task.
type CallCompletion = Result<(), RecordError>;

impl CallDispatcher {
    /// The pass whose rules apply to the calls.
    pub(crate) fn pass(&self) -> Arc<Pass<Arc<Store>>> {
        Arc::clone(&self.pass)
    }

    pub(crate) fn new(
        pass: Arc<Pass<Arc<Store>>>,
        discover: ToolDiscovery,
        store: Arc<Store>,
        ids: (SessionId, ExecutionId),
        suspend: SuspendState,
    ) -> CallDispatcher {
        CallDispatcher {
            pass,
            discover,
            store,
            ids,
            suspend,
            egress: None,
            diverged: std::sync::Mutex::default(),
        }
    }

    /// Answers calls until the program makes no more and each call has ended; stops early when a call cannot be recorded.
    pub(crate) async fn dispatch_calls(
        self: &Arc<Self>,
        mut handler: CallHandler,
        run: Option<&TrackedRun>,
    ) -> Result<(), OperationError> {
        let mut under_way = JoinSet::new();
        let mut waiting = self.pass.watch_waiting();
        let mut still = IdleTimer::new(&self.suspend, run);
        let mut brisk = AdaptiveSpin::new();
        loop {
            let all_wait = all_wait_for_approval(under_way.len(), *waiting.borrow_and_update());
            if !all_wait {
                still.reset(&handler.held);
            } else if still.is_elapsed() {
                self.handle_idle(under_way.len(), &handler.held, &mut still).await?;
            }
            tokio::select! {
                biased;
                Some(done) = under_way.join_next() => {
                    brisk.record_arrival();
                    check_completion(done)?;
                }
                asked = handler.calls.recv() => match asked {
                    Some(asked) => {
                        brisk.record_arrival();
                        // In the program's order, which the tasks do not keep: after a call that diverges, no call is made.
                        self.pass.call_log().append_trace(&asked.trace);
                        self.compare_with_log(&asked);
                        let (dispatcher, replies) = (Arc::clone(self), handler.replies.clone());
                        under_way.spawn(async move { dispatcher.answer_call(asked, &replies).await });
                    }
                    None => break,
                },
                Ok(()) = waiting.changed() => {}
                () = still.changed() => {}
                never = brisk.spin_or_sleep() => match never {},
            }
        }
        while let Some(done) = under_way.join_next().await {
            check_completion(done)?;
        }
        Ok(())
    }

    /// Handles an execution whose calls have all waited for approvals for a while: releases the sandbox if the program can be repeated, or
    /// reports why it cannot.
    async fn handle_idle(
        &self,
        count: usize,
        held: &watch::Sender<Option<usize>>,
        still: &mut IdleTimer<'_>,
    ) -> Result<(), OperationError> {
        let rest = &self.suspend;
        if let Some(why) = self
            .pass
            .call_log()
            .unrepeatable_code()
            .filter(|_| rest.is_recorded && !still.is_reported)
        {
            // A call log that is too large to keep cannot be repeated.
            self.store.mark_unrepeatable(self.ids.1, why).await?;
            rest.unrepeatable.set(why);
        }
        let why = still.unrepeatable.borrow_and_update().clone();
        if rest.is_recorded && why.is_none() {
            held.send_if_modified(|held| held.replace(count).is_none());
            return Ok(());
        }
        held.send_if_modified(|held| held.take().is_some());
        if let Some(run) = still.run {
            run.mark_waiting(why.as_deref());
        }
        if let Some(why) = why.filter(|_| !std::mem::replace(&mut still.is_reported, true)) {
            rest.notifier.publish(ApprovalEvent::Unrepeatable(self.ids.1, why));
        }
        Ok(())
    }

    /// Runs a program and answers its calls. When the program ends by itself, its tool calls run to their end unless it is stopped; its
    /// skills, and the calls of a program that was stopped, do not: their effect is then unknown.
    pub(crate) async fn run_program(
        &self,
        run: impl Future<Output = Result<ConcludedExecution, ringfence_sandbox::ExecutionError>>,
        attend: impl Future<Output = Result<(), OperationError>>,
        mut stop: Stop,
    ) -> Result<ConcludedExecution, OperationError> {
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
                () = stop.cancelled() => {
                    self.pass.cancel();
                    ended.verdict = stop.verdict();
                }
            }
        }
        attend.await?;
        Ok(ended)
    }

    /// The calls that were made, once the end of each is recorded.
    pub(crate) async fn finish_calls(&self) -> Result<CallsMade, RecordError> {
        self.pass.close().await
    }

    /// The call in which the program diverged.
    pub(crate) fn diverged(&self) -> Option<ReplayDivergence> {
        lock(&self.diverged).clone()
    }

    async fn answer_call(&self, asked: ToolCall, answers: &mpsc::Sender<ToolReply>) -> CallCompletion {
        let answer = match self.resolve_call(&asked).await {
            Ok(answer) => answer,
            Err(PassError::Refused(told)) => Err(call_refusal(told)),
            Err(PassError::Unrecorded(error)) => return Err(error),
            Err(PassError::Diverged(diverged)) => {
                let refusal = diverged_refusal(&diverged);
                lock(&self.diverged).get_or_insert(diverged);
                Err(refusal)
            }
            // The sandbox is released; the approval request stays open.
            Err(PassError::Released) => return Ok(()),
        };
        let answered = ToolReply {
            number: asked.number,
            answer,
        };
        // A program that has ended no longer listens.
        let _ = answers.send(answered).await;
        Ok(())
    }

    /// Compares a call with the log: a repeated program must make the same calls.
    fn compare_with_log(&self, asked: &ToolCall) {
        let compared = self
            .pass
            .call_log()
            .check_repeats(asked.number, call_kind(&asked.ask), &asked.body);
        if let Err(diverged) = compared {
            lock(&self.diverged).get_or_insert(diverged);
        }
    }

    async fn resolve_call(&self, asked: &ToolCall) -> Result<Result<String, ToolRefusal>, PassError> {
        if let Some(diverged) = self.diverged() {
            return Err(PassError::Diverged(diverged));
        }
        let (number, body) = (asked.number, asked.body.as_str());
        let what = call_kind(&asked.ask);
        if let CallKind::Tool { server, tool } = what {
            return self.pass.call(number, server, tool, body, &[]).await.map(Ok);
        }
        if what == CallKind::Fetch {
            return self.pass.fetch(number, body, self.egress.as_ref()).await.map(Ok);
        }
        // A logged answer counts, and is given again whatever the number of lookups is by now.
        let allowed = self.pass.count_lookup();
        let known = self.pass.call_log().lookup_answer(number, what, body);
        if let Ok(Some(known)) = known {
            return Ok(known.clone().map_err(call_refusal));
        }
        allowed?;
        known.map_err(PassError::Diverged)?;
        let answer = match what {
            CallKind::Search => Box::pin(self.discover.answer_search(body)).await,
            CallKind::Describe => Box::pin(self.discover.answer_describe(body)).await,
            CallKind::List | CallKind::Tool { .. } | CallKind::Fetch => Box::pin(self.discover.answer_list(body)).await,
        };
        let answer = answer.map_err(call_error_body);
        let kept = answer.as_ref().map(String::as_str);
        let entries = self.pass.call_log().lookup_entries(number, what, body, kept);
        if !entries.is_empty() {
            let (session, execution) = self.ids;
            let written = Box::pin(self.store.keep_entries(session, execution, entries)).await;
            written.map_err(PassError::Unrecorded)?;
        }
        Ok(answer.map_err(call_refusal))
    }
}

/// Measures how long an execution has waited for approvals only.
struct IdleTimer<'a> {
    run: Option<&'a TrackedRun>,
    /// When the execution has waited long enough; none while it does something else.
    deadline: Option<Instant>,
    unrepeatable: watch::Receiver<Option<String>>,
    is_reported: bool,
}

impl<'a> IdleTimer<'a> {
    fn new(rest: &SuspendState, run: Option<&'a TrackedRun>) -> IdleTimer<'a> {
        IdleTimer {
            run,
            deadline: None,
            unrepeatable: rest.unrepeatable.subscribe(),
            is_reported: false,
        }
    }

    /// Resets the timer: the execution does something else.
    fn reset(&mut self, held: &watch::Sender<Option<usize>>) {
        self.deadline = None;
        held.send_if_modified(|held| held.take().is_some());
        if let Some(run) = self.run {
            run.mark_active();
        }
    }

    /// Whether the execution has waited long enough, counted from the first call of this.
    fn is_elapsed(&mut self) -> bool {
        *self.deadline.get_or_insert_with(|| Instant::now() + SUSPEND_TIMEOUT) <= Instant::now()
    }

    /// Waits until the deadline, or after it until the execution is known not to be repeatable.
    async fn changed(&mut self) {
        match self.deadline {
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

/// The kind of a call, as the call log stores it.
pub(crate) fn call_kind(ask: &ToolCallKind) -> CallKind<&str> {
    match ask {
        ToolCallKind::Tool { server, tool } => CallKind::Tool { server, tool },
        ToolCallKind::Search => CallKind::Search,
        ToolCallKind::Describe => CallKind::Describe,
        ToolCallKind::List => CallKind::List,
        ToolCallKind::Fetch => CallKind::Fetch,
    }
}

/// Whether calls are in flight and each of them waits for an approval.
fn all_wait_for_approval(under_way: usize, waiting: WaitingCalls) -> bool {
    under_way > 0 && waiting.open == under_way && waiting.awaiting_approval == under_way
}

/// Fails on a call whose task panicked: it would never be answered, and its program would wait forever.
fn check_completion(done: Result<CallCompletion, tokio::task::JoinError>) -> Result<(), OperationError> {
    done.map_err(OperationError::CallTask)?.map_err(OperationError::Record)
}

pub(crate) fn call_refusal(told: CallErrorBody) -> ToolRefusal {
    ToolRefusal {
        code: told.code,
        message: told.message,
        rule: told.rule,
        hint: told.hint,
        retry_after_ms: told.retry_after_ms,
    }
}

/// The refusal that a diverged program gets; the program fails whatever it makes of it.
pub(crate) fn diverged_refusal(diverged: &ReplayDivergence) -> ToolRefusal {
    ToolRefusal {
        code: "replay.diverged".to_owned(),
        message: diverged.to_string(),
        rule: None,
        hint: Some(DIVERGED_HINT.to_owned()),
        retry_after_ms: None,
    }
}

/// The hint for a program that diverged.
pub(crate) const DIVERGED_HINT: &str = "a program that waits for a person must do the same when it is run again: run it anew, without threads and without depending on addresses or file times";

fn call_error_body(error: ErrorReport) -> CallErrorBody {
    CallErrorBody {
        code: error.code,
        message: error.message,
        rule: error.rule,
        hint: error.hint,
        retry_after_ms: None,
    }
}

#[cfg(test)]
mod tests;
