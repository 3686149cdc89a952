//! The event loop of a program: promise jobs first, then the next timer or answer. The trace records which of the two
//! it was, and in a replay the trace decides.
//!
//! The loop never waits without a reason: with no job, no timer and no call, a pending promise can never settle.
use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
    thread,
    time::Instant,
};

use rquickjs::{CatchResultExt, CaughtError, Ctx, Persistent, Promise, Runtime, Value};

use super::{
    calls,
    host::NativeState,
    prelude::PreludeHooks,
    replay::{ReplayDiverged, WaitEnd},
};

/// When each timer is due on the program's clock. Timers that are due at the same time fire in the order in which they were started.
#[derive(Debug, Default)]
pub(super) struct TimerQueue {
    due: BTreeSet<(u64, u64, u32)>,
    places: HashMap<u32, (u64, u64)>,
    started: u64,
}

impl TimerQueue {
    pub(super) fn start(&mut self, id: u32, at: u64) {
        self.stop(id);
        self.started += 1;
        self.due.insert((at, self.started, id));
        self.places.insert(id, (at, self.started));
    }

    pub(super) fn stop(&mut self, id: u32) {
        if let Some((at, order)) = self.places.remove(&id) {
            self.due.remove(&(at, order, id));
        }
    }

    fn next_due(&self) -> Option<u64> {
        self.due.first().map(|(at, _, _)| *at)
    }

    fn take_next(&mut self) -> Option<(u64, u32)> {
        let (at, _, id) = *self.due.first()?;
        self.stop(id);
        Some((at, id))
    }
}

/// Promises that were rejected without a handler, in order.
#[derive(Default)]
pub(super) struct RejectionTracker {
    order: u64,
    unhandled: HashMap<u64, (u64, Persistent<Value<'static>>)>,
}

impl RejectionTracker {
    fn add(&mut self, promise: u64, reason: Persistent<Value<'static>>) {
        self.order += 1;
        self.unhandled.insert(promise, (self.order, reason));
    }

    fn take_first(&mut self) -> Option<Persistent<Value<'static>>> {
        let first = *self.unhandled.iter().min_by_key(|(_, (order, _))| *order)?.0;
        self.unhandled.remove(&first).map(|(_, reason)| reason)
    }
}

/// Tracks every rejection until the program handles it.
pub(super) fn track_rejections(runtime: &Runtime, host: &Rc<NativeState>) {
    let host = Rc::clone(host);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, handled| {
        let mut hasher = DefaultHasher::new();
        promise.hash(&mut hasher);
        let promise = hasher.finish();
        let mut rejections = host.rejections.borrow_mut();
        if handled {
            rejections.unhandled.remove(&promise);
        } else {
            rejections.add(promise, Persistent::save(&ctx, reason));
        }
    })));
}

/// Why the loop stops before the promise it waits for is settled.
pub(super) enum LoopExit<'js> {
    /// An exception or rejection that the program does not handle.
    Threw(Value<'js>),
    /// Nothing can happen any more.
    Stuck,
    /// The program does something other than its trace says.
    Diverged,
}

impl From<ReplayDiverged> for LoopExit<'_> {
    fn from(_: ReplayDiverged) -> Self {
        LoopExit::Diverged
    }
}

/// Runs the loop until the promise has a value.
pub(super) fn settle_promise<'js>(
    ctx: &Ctx<'js>,
    host: &NativeState,
    hooks: &PreludeHooks,
    promise: &Promise<'js>,
) -> Result<Value<'js>, LoopExit<'js>> {
    loop {
        while ctx.execute_pending_job() {}
        match promise.result::<Value<'js>>() {
            Some(Ok(value)) => return Ok(value),
            Some(Err(_)) => return Err(LoopExit::Threw(ctx.catch())),
            None => {}
        }
        fail_if_unhandled(ctx, host)?;
        if next_event(ctx, host, hooks)? == LoopStep::Nothing {
            return Err(LoopExit::Stuck);
        }
    }
}

/// Runs the jobs, timers and calls that are left once the value is known, as an ordinary event loop would.
pub(super) fn run_to_end<'js>(ctx: &Ctx<'js>, host: &NativeState, hooks: &PreludeHooks) -> Result<(), LoopExit<'js>> {
    loop {
        while ctx.execute_pending_job() {}
        fail_if_unhandled(ctx, host)?;
        if next_event(ctx, host, hooks)? == LoopStep::Nothing {
            return Ok(());
        }
    }
}

fn fail_if_unhandled<'js>(ctx: &Ctx<'js>, host: &NativeState) -> Result<(), LoopExit<'js>> {
    let first = host.rejections.borrow_mut().take_first();
    match first {
        Some(reason) => {
            let reason = reason
                .restore(ctx)
                .unwrap_or_else(|_| Value::new_undefined(ctx.clone()));
            Err(LoopExit::Threw(reason))
        }
        None => Ok(()),
    }
}

#[derive(PartialEq, Eq)]
enum LoopStep {
    Fired,
    Nothing,
}

/// Waits for the next timer or answer, whichever comes first now, or came first in the recorded run.
fn next_event<'js>(ctx: &Ctx<'js>, host: &NativeState, hooks: &PreludeHooks) -> Result<LoopStep, LoopExit<'js>> {
    if host.recall.borrow().has_diverged() {
        return Err(LoopExit::Diverged);
    }
    if !host.recall.borrow().has_open_calls() {
        return next_timer(ctx, host, hooks);
    }
    let recalled = host.recall.borrow_mut().recall_wait()?;
    match recalled {
        Some(WaitEnd::Timer) => fire_next_timer(ctx, host, hooks),
        Some(WaitEnd::Answer(number)) => {
            let answer = calls::answer_to(host, number).ok_or(LoopExit::Diverged)?;
            settle_call(ctx, hooks, number, answer)
        }
        None => first_event(ctx, host, hooks),
    }
}

/// Waits for the next timer or answer, and records which it was.
fn first_event<'js>(ctx: &Ctx<'js>, host: &NativeState, hooks: &PreludeHooks) -> Result<LoopStep, LoopExit<'js>> {
    let due = host.timers.borrow().next_due();
    loop {
        if due.is_some_and(|due| due <= host.recall.borrow().now()) {
            host.recall.borrow_mut().note_wait(WaitEnd::Timer);
            return fire_next_timer(ctx, host, hooks);
        }
        if let Some((number, answer)) = calls::next_answer(host, due) {
            host.recall.borrow_mut().note_wait(WaitEnd::Answer(number));
            return settle_call(ctx, hooks, number, answer);
        }
        if due.is_none() {
            // There is no host that could answer.
            return Ok(LoopStep::Nothing);
        }
    }
}

fn settle_call<'js>(
    ctx: &Ctx<'js>,
    hooks: &PreludeHooks,
    number: u32,
    answer: super::CallAnswer,
) -> Result<LoopStep, LoopExit<'js>> {
    calls::settle_answer(ctx, hooks, number, answer)
        .catch(ctx)
        .map_err(|caught| LoopExit::Threw(thrown_value(ctx, caught)))?;
    Ok(LoopStep::Fired)
}

/// Waits for the next timer, unless the trace is still being replayed, and fires it. There is nothing to record,
/// because nothing else could happen.
fn next_timer<'js>(ctx: &Ctx<'js>, host: &NativeState, hooks: &PreludeHooks) -> Result<LoopStep, LoopExit<'js>> {
    let Some(due) = host.timers.borrow().next_due() else {
        return Ok(LoopStep::Nothing);
    };
    while host.recall.borrow().is_live() && host.recall.borrow().now() < due {
        let moment = host.recall.borrow().instant_at(due);
        thread::sleep(moment.saturating_duration_since(Instant::now()));
    }
    fire_next_timer(ctx, host, hooks)
}

/// Fires the timer that is due next; without one, the program has diverged.
fn fire_next_timer<'js>(ctx: &Ctx<'js>, host: &NativeState, hooks: &PreludeHooks) -> Result<LoopStep, LoopExit<'js>> {
    let next = host.timers.borrow_mut().take_next();
    let Some((due, id)) = next else {
        return Err(host.recall.borrow_mut().mark_diverged().into());
    };
    host.recall.borrow_mut().note_timer(due);
    hooks
        .fire_timer(ctx, id)
        .catch(ctx)
        .map_err(|caught| LoopExit::Threw(thrown_value(ctx, caught)))?;
    Ok(LoopStep::Fired)
}

fn thrown_value<'js>(ctx: &Ctx<'js>, caught: CaughtError<'js>) -> Value<'js> {
    match caught {
        CaughtError::Exception(exception) => exception.into_object().into_value(),
        CaughtError::Value(value) => value,
        CaughtError::Error(_) => Value::new_undefined(ctx.clone()),
    }
}
