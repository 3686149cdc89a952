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
    host::Host,
    prelude::Hooks,
    recall::{Diverged, Taken},
};

/// When each timer is due on the program's clock. Timers that are due at the same time fire in the order in which they were started.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(u64, u64, u32)>,
    places: HashMap<u32, (u64, u64)>,
    started: u64,
}

impl Timers {
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

    fn next(&self) -> Option<u64> {
        self.due.first().map(|(at, _, _)| *at)
    }

    fn take(&mut self) -> Option<(u64, u32)> {
        let (at, _, id) = *self.due.first()?;
        self.stop(id);
        Some((at, id))
    }
}

/// Promises that were rejected without a handler, in order.
#[derive(Default)]
pub(super) struct Rejections {
    order: u64,
    unheard: HashMap<u64, (u64, Persistent<Value<'static>>)>,
}

impl Rejections {
    fn add(&mut self, promise: u64, reason: Persistent<Value<'static>>) {
        self.order += 1;
        self.unheard.insert(promise, (self.order, reason));
    }

    fn take_first(&mut self) -> Option<Persistent<Value<'static>>> {
        let first = *self.unheard.iter().min_by_key(|(_, (order, _))| *order)?.0;
        self.unheard.remove(&first).map(|(_, reason)| reason)
    }
}

/// Tracks every rejection until the program handles it.
pub(super) fn watch_rejections(runtime: &Runtime, host: &Rc<Host>) {
    let host = Rc::clone(host);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, handled| {
        let mut hasher = DefaultHasher::new();
        promise.hash(&mut hasher);
        let promise = hasher.finish();
        let mut rejections = host.rejections.borrow_mut();
        if handled {
            rejections.unheard.remove(&promise);
        } else {
            rejections.add(promise, Persistent::save(&ctx, reason));
        }
    })));
}

/// Why the loop stops before the promise it waits for is settled.
pub(super) enum Ended<'js> {
    /// An exception or rejection that the program does not handle.
    Threw(Value<'js>),
    /// Nothing can happen any more.
    Stuck,
    /// The program does something other than its trace says.
    Diverged,
}

impl From<Diverged> for Ended<'_> {
    fn from(_: Diverged) -> Self {
        Ended::Diverged
    }
}

/// Runs the loop until the promise has a value.
pub(super) fn settle<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    hooks: &Hooks,
    promise: &Promise<'js>,
) -> Result<Value<'js>, Ended<'js>> {
    loop {
        while ctx.execute_pending_job() {}
        match promise.result::<Value<'js>>() {
            Some(Ok(value)) => return Ok(value),
            Some(Err(_)) => return Err(Ended::Threw(ctx.catch())),
            None => {}
        }
        fail_if_unheard(ctx, host)?;
        if next_event(ctx, host, hooks)? == Next::Nothing {
            return Err(Ended::Stuck);
        }
    }
}

/// Runs the jobs, timers and calls that are left once the value is known, as an ordinary event loop would.
pub(super) fn drain<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks) -> Result<(), Ended<'js>> {
    loop {
        while ctx.execute_pending_job() {}
        fail_if_unheard(ctx, host)?;
        if next_event(ctx, host, hooks)? == Next::Nothing {
            return Ok(());
        }
    }
}

fn fail_if_unheard<'js>(ctx: &Ctx<'js>, host: &Host) -> Result<(), Ended<'js>> {
    let first = host.rejections.borrow_mut().take_first();
    match first {
        Some(reason) => {
            let reason = reason
                .restore(ctx)
                .unwrap_or_else(|_| Value::new_undefined(ctx.clone()));
            Err(Ended::Threw(reason))
        }
        None => Ok(()),
    }
}

#[derive(PartialEq, Eq)]
enum Next {
    Fired,
    Nothing,
}

/// Waits for the next timer or answer, whichever comes first now, or came first in the recorded run.
fn next_event<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks) -> Result<Next, Ended<'js>> {
    if host.recall.borrow().has_diverged() {
        return Err(Ended::Diverged);
    }
    if !host.recall.borrow().has_open_calls() {
        return next_timer(ctx, host, hooks);
    }
    let recalled = host.recall.borrow_mut().recall_wait()?;
    match recalled {
        Some(Taken::Timer) => fire(ctx, host, hooks),
        Some(Taken::Answer(number)) => {
            let answer = calls::wait_for(host, number).ok_or(Ended::Diverged)?;
            settle_call(ctx, hooks, number, answer)
        }
        None => first_event(ctx, host, hooks),
    }
}

/// Waits for the next timer or answer, and records which it was.
fn first_event<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks) -> Result<Next, Ended<'js>> {
    let due = host.timers.borrow().next();
    loop {
        if due.is_some_and(|due| due <= host.recall.borrow().now()) {
            host.recall.borrow_mut().note_wait(Taken::Timer);
            return fire(ctx, host, hooks);
        }
        if let Some((number, answer)) = calls::wait(host, due) {
            host.recall.borrow_mut().note_wait(Taken::Answer(number));
            return settle_call(ctx, hooks, number, answer);
        }
        if due.is_none() {
            // There is no host that could answer.
            return Ok(Next::Nothing);
        }
    }
}

fn settle_call<'js>(ctx: &Ctx<'js>, hooks: &Hooks, number: u32, answer: super::Answered) -> Result<Next, Ended<'js>> {
    calls::settle(ctx, hooks, number, answer)
        .catch(ctx)
        .map_err(|caught| Ended::Threw(thrown(ctx, caught)))?;
    Ok(Next::Fired)
}

/// Waits for the next timer, unless the trace is still being replayed, and fires it. There is nothing to record,
/// because nothing else could happen.
fn next_timer<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks) -> Result<Next, Ended<'js>> {
    let Some(due) = host.timers.borrow().next() else {
        return Ok(Next::Nothing);
    };
    while host.recall.borrow().is_live() && host.recall.borrow().now() < due {
        let moment = host.recall.borrow().moment(due);
        thread::sleep(moment.saturating_duration_since(Instant::now()));
    }
    fire(ctx, host, hooks)
}

/// Fires the timer that is due next; without one, the program has diverged.
fn fire<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks) -> Result<Next, Ended<'js>> {
    let next = host.timers.borrow_mut().take();
    let Some((due, id)) = next else {
        return Err(host.recall.borrow_mut().diverge().into());
    };
    host.recall.borrow_mut().fires(due);
    hooks
        .fire(ctx, id)
        .catch(ctx)
        .map_err(|caught| Ended::Threw(thrown(ctx, caught)))?;
    Ok(Next::Fired)
}

fn thrown<'js>(ctx: &Ctx<'js>, caught: CaughtError<'js>) -> Value<'js> {
    match caught {
        CaughtError::Exception(exception) => exception.into_object().into_value(),
        CaughtError::Value(value) => value,
        CaughtError::Error(_) => Value::new_undefined(ctx.clone()),
    }
}
