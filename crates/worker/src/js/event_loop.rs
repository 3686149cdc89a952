//! The one loop that moves a program forward: promise jobs first, then the next timer or answer.
//!
//! It never waits without a reason: with no job, no timer and no call, what is still pending can never settle.
use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use rquickjs::{CatchResultExt, CaughtError, Ctx, Persistent, Promise, Runtime, Value};

use super::{calls, host::Host, prelude::Hooks};

/// When each timer is due. Equal times fire in the order they were started.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Instant, u64, u32)>,
    places: HashMap<u32, (Instant, u64)>,
    started: u64,
}

impl Timers {
    pub(super) fn start(&mut self, id: u32, wait: Duration) {
        self.stop(id);
        let at = Instant::now() + wait;
        self.started += 1;
        self.due.insert((at, self.started, id));
        self.places.insert(id, (at, self.started));
    }

    pub(super) fn stop(&mut self, id: u32) {
        if let Some((at, order)) = self.places.remove(&id) {
            self.due.remove(&(at, order, id));
        }
    }

    fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _, _)| *at)
    }

    fn take_due(&mut self, now: Instant) -> Option<u32> {
        let (at, _, id) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.stop(id);
        Some(id)
    }
}

/// Promises that were rejected while nobody listened, in order.
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

/// Notes every rejection until somebody handles it.
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

/// An end other than the one waited for.
pub(super) enum Ended<'js> {
    /// Something was thrown or rejected that nobody handles.
    Threw(Value<'js>),
    /// Nothing can happen any more.
    Stuck,
}

/// The promise's value, once it has one.
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

/// Runs what is left once the value is known: jobs, timers and calls, as an ordinary event loop would.
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

/// Waits for the next timer or answer, whichever comes first.
fn next_event<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks) -> Result<Next, Ended<'js>> {
    if !calls::are_open(host) {
        return next_timer(ctx, host, hooks);
    }
    let due = host.timers.borrow().next();
    if due.is_some_and(|at| at <= Instant::now()) {
        return next_timer(ctx, host, hooks);
    }
    // Nothing by then: the timer is next.
    if let Some((number, answer)) = calls::wait(host, due) {
        calls::settle(ctx, hooks, number, answer)
            .catch(ctx)
            .map_err(|caught| Ended::Threw(thrown(ctx, caught)))?;
    }
    Ok(Next::Fired)
}

/// Waits for the next timer and fires it.
fn next_timer<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks) -> Result<Next, Ended<'js>> {
    let Some(at) = host.timers.borrow().next() else {
        return Ok(Next::Nothing);
    };
    let now = Instant::now();
    if at > now {
        thread::sleep(at - now);
    }
    let due = host.timers.borrow_mut().take_due(Instant::now());
    if let Some(id) = due {
        hooks
            .fire(ctx, id)
            .catch(ctx)
            .map_err(|caught| Ended::Threw(thrown(ctx, caught)))?;
    }
    Ok(Next::Fired)
}

fn thrown<'js>(ctx: &Ctx<'js>, caught: CaughtError<'js>) -> Value<'js> {
    match caught {
        CaughtError::Exception(exception) => exception.into_object().into_value(),
        CaughtError::Value(value) => value,
        CaughtError::Error(_) => Value::new_undefined(ctx.clone()),
    }
}
