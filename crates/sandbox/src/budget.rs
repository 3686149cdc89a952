//! The machine's budget: how many executions run at once, and the memory that they were promised together.
//!
//! What every one of them may use at most is summed up, and never more than the machine has. Whoever finds no place waits for
//! one, for a while; of those who wait, the principal that has least goes first ([why](../../../docs/adr/0042-the-machine-has-a-budget.md)).

mod machine;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub use machine::{MachineMemory, MemorySource};

use crate::running::Sandbox;
use crate::spec::{Spec, WritableKind};

/// Executions for each processor.
const RUNS_PER_PROCESSOR: usize = 32;
/// What is left for everything else on the machine: a tenth, but not less and not more than these.
const MIN_RESERVE: u64 = 64 << 20;
const MAX_RESERVE: u64 = 2 << 30;
/// What the host holds for an execution while it runs: the bodies of its calls, and the arguments that they become.
const HOST_MEMORY: u64 = 64 << 20;
/// How long somebody waits for a place.
const QUEUE_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a look at the machine's free memory counts.
const MEASURE_INTERVAL: Duration = Duration::from_millis(100);
/// How often whoever waits looks again: memory that others gave back is told by nobody.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// What a process may promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Memory of all executions together.
    pub memory: u64,
    /// Executions at once.
    pub runs: usize,
    /// Memory that must be free, beside half of what the next execution is promised.
    pub reserve: u64,
    /// How long somebody waits for a place.
    pub queue: Duration,
}

impl BudgetLimits {
    /// What a machine like this can carry.
    pub fn of(memory: MachineMemory, processors: usize) -> BudgetLimits {
        let reserve = (memory.total / 10).clamp(MIN_RESERVE, MAX_RESERVE);
        BudgetLimits {
            memory: memory.total.saturating_sub(reserve),
            runs: processors.max(1).saturating_mul(RUNS_PER_PROCESSOR),
            reserve,
            queue: QUEUE_TIMEOUT,
        }
    }

    /// What this machine can carry, but for what an operator says; one that does not say what it has is not held to it.
    pub fn here(overrides: BudgetOverrides) -> BudgetLimits {
        let memory = MemorySource::find().read().unwrap_or(MachineMemory {
            total: u64::MAX,
            available: u64::MAX,
        });
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let limits = BudgetLimits::of(memory, processors);
        BudgetLimits {
            memory: overrides.memory.unwrap_or(limits.memory),
            queue: overrides.queue.unwrap_or(limits.queue),
            ..limits
        }
    }
}

/// What an operator says instead of what the machine would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetOverrides {
    /// Memory of all executions together.
    pub memory: Option<u64>,
    /// How long somebody waits for a place.
    pub queue: Option<Duration>,
}

impl Spec {
    /// What an execution in a sandbox of it may have of the machine's memory at most: the program's own, the places that are memory,
    /// and what the host holds for it.
    pub fn promised_memory(&self) -> u64 {
        let places = self.writable.iter().filter(|place| place.kind == WritableKind::Memory);
        let places = places.map(|place| place.quota).fold(0, u64::saturating_add);
        let inside = self.limits.memory.get().saturating_add(places);
        inside.saturating_add(HOST_MEMORY)
    }
}

impl Sandbox {
    /// What its files have of the machine's memory now. It cannot become more while nothing runs.
    pub fn held_memory(&self) -> u64 {
        let places = self.places().filter(|(place, _)| place.kind == WritableKind::Memory);
        places
            .map(|(place, handle)| {
                crate::native::space(&handle).map_or(place.quota, |space| space.bytes.saturating_sub(space.bytes_free))
            })
            .fold(0, u64::saturating_add)
    }
}

/// A place that somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetRequest<K> {
    /// For whom.
    pub who: K,
    /// What it may use at most.
    pub memory: u64,
    /// How many executions wait for this one. Nobody waits in a circle: of each depth, one always goes.
    pub depth: usize,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// All memory is promised.
    Memory,
    /// As many run as may.
    Runs,
    /// The machine has too little free memory now.
    Free,
    /// The principal has its share.
    Share,
    /// Others wait who go first.
    Turn,
}

impl Shortage {
    /// What helps whoever has no place.
    pub fn hint(self) -> &'static str {
        match self {
            Shortage::Memory => {
                "wait until others have ended, or ask for less: `proc.mem_limit` and the quotas of `fs.mounts` are promised"
            }
            Shortage::Runs | Shortage::Share | Shortage::Turn => "wait until some of them have ended, or cancel them",
            Shortage::Free => "wait until the machine has more free memory, or ask for less by `proc.mem_limit`",
        }
    }
}

/// There was no place for as long as somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct NoPlace {
    /// What was short at last.
    pub shortage: Shortage,
    /// What was wanted.
    pub wanted: u64,
    /// What was promised to others.
    pub promised: u64,
    /// Who ran.
    pub runs: usize,
    /// What may be.
    pub limits: BudgetLimits,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes >> 20;
        let waited = self.limits.queue.as_secs();
        write!(formatter, "the machine had no place for {waited} s: ")?;
        match self.shortage {
            Shortage::Memory => write!(
                formatter,
                "{} MiB are wanted, and {} of {} MiB are promised to {} executions",
                mebibytes(self.wanted),
                mebibytes(self.promised),
                mebibytes(self.limits.memory),
                self.runs
            ),
            Shortage::Runs => write!(formatter, "{} executions run, and more may not", self.runs),
            Shortage::Free => write!(
                formatter,
                "less than {} MiB are free, half of what is wanted and {} MiB for all else",
                mebibytes((self.wanted / 2).saturating_add(self.limits.reserve)),
                mebibytes(self.limits.reserve)
            ),
            Shortage::Share => write!(formatter, "this principal has three quarters of it already"),
            Shortage::Turn => write!(formatter, "others waited for one too, and went first"),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Share {
    memory: u64,
    runs: usize,
}

#[derive(Debug)]
struct Waiter<K> {
    ticket: u64,
    request: BudgetRequest<K>,
}

#[derive(Debug)]
struct State<K> {
    promised: u64,
    runs: usize,
    /// Executions that run, by depth.
    depths: Vec<usize>,
    shares: HashMap<K, Share>,
    queue: Vec<Waiter<K>>,
    next_ticket: u64,
    /// The only principal until now.
    first: Option<K>,
    has_several: bool,
    /// When the machine was looked at, what was free, and half of what was promised since.
    measured: Option<(Instant, u64, u64)>,
}

/// Asks the machine.
type Measure = Box<dyn Fn() -> Option<MachineMemory> + Send + Sync>;

/// Says what may be promised. Asked only when a second execution comes: most processes run one, and wait for nothing.
type Limits = LazyLock<BudgetLimits, Box<dyn FnOnce() -> BudgetLimits + Send>>;

/// The budget of a process. Others on the machine are seen by the memory that they leave free.
pub struct Budget<K> {
    limits: Limits,
    state: Mutex<State<K>>,
    changed: Notify,
    measure: Measure,
}

impl<K> fmt::Debug for Budget<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Budget")
            .field("limits", &*self.limits)
            .finish_non_exhaustive()
    }
}

impl<K: Copy + Eq + Hash> Budget<K> {
    /// The budget of this machine.
    pub fn new(overrides: BudgetOverrides) -> Budget<K> {
        let source = LazyLock::new(MemorySource::find);
        let limits = Box::new(move || BudgetLimits::here(overrides));
        Budget::measured_by(limits, Box::new(move || source.read()))
    }

    fn measured_by(limits: Box<dyn FnOnce() -> BudgetLimits + Send>, measure: Measure) -> Budget<K> {
        Budget {
            limits: LazyLock::new(limits),
            state: Mutex::new(State {
                promised: 0,
                runs: 0,
                depths: Vec::new(),
                shares: HashMap::new(),
                queue: Vec::new(),
                next_ticket: 0,
                first: None,
                has_several: false,
                measured: None,
            }),
            changed: Notify::new(),
            measure,
        }
    }

    /// What may be promised.
    pub fn limits(&self) -> BudgetLimits {
        *self.limits
    }

    /// Waits for a place, but not without end.
    pub async fn admit(self: &Arc<Self>, request: BudgetRequest<K>) -> Result<Admission<K>, NoPlace> {
        let ticket = self.enqueue(request);
        let _waiting = Waiting { budget: self, ticket };
        if let Ok(admission) = self.enter(ticket) {
            return Ok(admission);
        }
        let deadline = tokio::time::Instant::now() + self.limits.queue;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on, no change is missed.
            changed.as_mut().enable();
            let shortage = match self.enter(ticket) {
                Ok(admission) => return Ok(admission),
                Err(shortage) => shortage,
            };
            let now = tokio::time::Instant::now();
            if now >= deadline {
                let state = self.lock();
                let (promised, runs) = (state.promised, state.runs);
                drop(state);
                return Err(NoPlace {
                    shortage,
                    wanted: request.memory,
                    promised,
                    runs,
                    limits: *self.limits,
                });
            }
            // Out of time is as good as a change: it is looked again.
            let _ = tokio::time::timeout_at(deadline.min(now + RETRY_INTERVAL), changed).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, request: BudgetRequest<K>) -> u64 {
        let mut state = self.lock();
        let first = *state.first.get_or_insert(request.who);
        state.has_several |= first != request.who;
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue.push(Waiter { ticket, request });
        ticket
    }

    /// Takes the place for `ticket`, if it is its turn and there is one.
    fn enter(self: &Arc<Self>, ticket: u64) -> Result<Admission<K>, Shortage> {
        let mut state = self.lock();
        let own = state.queue.iter().find(|waiter| waiter.ticket == ticket);
        let request = own.ok_or(Shortage::Runs)?.request;
        if self.has_its_share(&state, &request) {
            return Err(Shortage::Share);
        }
        let is_next = self.next(&state) == Some(ticket);
        let shortage = self.shortage(&mut state, &request);
        if let Some(shortage) = shortage {
            return Err(shortage);
        }
        if !is_next {
            return Err(Shortage::Turn);
        }
        state.queue.retain(|waiter| waiter.ticket != ticket);
        state.give(&request);
        // Whoever is next now may fit too.
        self.changed.notify_waiters();
        Ok(Admission {
            budget: Arc::clone(self),
            request,
            runs: true,
        })
    }

    /// Whose turn it is: what others wait for first, then the principal that has least, then who came first.
    fn next(&self, state: &State<K>) -> Option<u64> {
        let waiting = state.queue.iter();
        let waiting = waiting.filter(|waiter| !self.has_its_share(state, &waiter.request));
        let order = |waiter: &&Waiter<K>| {
            let share = state.shares.get(&waiter.request.who).copied().unwrap_or_default();
            (std::cmp::Reverse(waiter.request.depth), share.memory, waiter.ticket)
        };
        waiting.min_by_key(order).map(|waiter| waiter.ticket)
    }

    /// Where there are several, one principal leaves a quarter to the others.
    fn has_its_share(&self, state: &State<K>, request: &BudgetRequest<K>) -> bool {
        let share = state.shares.get(&request.who).copied().unwrap_or_default();
        if !state.has_several || share.runs == 0 || request.depth > 0 {
            return false;
        }
        let most = self.limits.memory / 4 * 3;
        share.memory.saturating_add(request.memory) > most || share.runs >= (self.limits.runs / 4 * 3).max(1)
    }

    /// What is short for `request`. The only one of its depth goes whatever it wants.
    fn shortage(&self, state: &mut State<K>, request: &BudgetRequest<K>) -> Option<Shortage> {
        if state.depths.get(request.depth).copied().unwrap_or(0) == 0 {
            return None;
        }
        if state.runs >= self.limits.runs {
            return Some(Shortage::Runs);
        }
        if state.promised.saturating_add(request.memory) > self.limits.memory {
            return Some(Shortage::Memory);
        }
        let wanted = (request.memory / 2).saturating_add(self.limits.reserve);
        (self.free(state) < wanted).then_some(Shortage::Free)
    }

    /// Free memory as last measured, less half of what was promised since.
    fn free(&self, state: &mut State<K>) -> u64 {
        let is_fresh = |measured: &(Instant, u64, u64)| measured.0.elapsed() < MEASURE_INTERVAL;
        let measure = || {
            let free = (self.measure)().map_or(u64::MAX, |memory| memory.available);
            (Instant::now(), free, 0)
        };
        let measured = state.measured.filter(is_fresh).unwrap_or_else(measure);
        state.measured = Some(measured);
        let (_, free, since) = measured;
        free.saturating_sub(since)
    }
}

impl<K: Copy + Eq + Hash> State<K> {
    fn give(&mut self, request: &BudgetRequest<K>) {
        self.promised = self.promised.saturating_add(request.memory);
        self.runs += 1;
        if self.depths.len() <= request.depth {
            self.depths.resize(request.depth + 1, 0);
        }
        if let Some(depth) = self.depths.get_mut(request.depth) {
            *depth += 1;
        }
        if let Some((_, _, since)) = &mut self.measured {
            *since = since.saturating_add(request.memory / 2);
        }
        let share = self.shares.entry(request.who).or_default();
        share.memory = share.memory.saturating_add(request.memory);
        share.runs += 1;
    }

    fn take_run(&mut self, request: &BudgetRequest<K>) {
        self.runs = self.runs.saturating_sub(1);
        if let Some(depth) = self.depths.get_mut(request.depth) {
            *depth = depth.saturating_sub(1);
        }
        if let Some(share) = self.shares.get_mut(&request.who) {
            share.runs = share.runs.saturating_sub(1);
        }
    }

    fn take_memory(&mut self, who: K, bytes: u64) {
        self.promised = self.promised.saturating_sub(bytes);
        if let Some(share) = self.shares.get_mut(&who) {
            share.memory = share.memory.saturating_sub(bytes);
            if share.memory == 0 && share.runs == 0 {
                self.shares.remove(&who);
            }
        }
    }
}

/// Leaves the queue, however the waiting ends.
struct Waiting<'a, K: Copy + Eq + Hash> {
    budget: &'a Budget<K>,
    ticket: u64,
}

impl<K: Copy + Eq + Hash> Drop for Waiting<'_, K> {
    fn drop(&mut self) {
        let before = {
            let mut state = self.budget.lock();
            let before = state.queue.len();
            state.queue.retain(|waiter| waiter.ticket != self.ticket);
            before != state.queue.len()
        };
        if before {
            self.budget.changed.notify_waiters();
        }
    }
}

/// A place among those that run; given back when it is dropped.
pub struct Admission<K: Copy + Eq + Hash> {
    budget: Arc<Budget<K>>,
    request: BudgetRequest<K>,
    runs: bool,
}

impl<K: Copy + Eq + Hash> fmt::Debug for Admission<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Admission")
            .field("memory", &self.request.memory)
            .finish_non_exhaustive()
    }
}

impl<K: Copy + Eq + Hash> Admission<K> {
    /// Nothing runs any more, and what stays has `bytes`: the rest is given back.
    #[must_use]
    pub fn at_rest(mut self, bytes: u64) -> Admission<K> {
        let bytes = bytes.min(self.request.memory);
        {
            let mut state = self.budget.lock();
            if std::mem::take(&mut self.runs) {
                state.take_run(&self.request);
            }
            state.take_memory(self.request.who, self.request.memory - bytes);
        }
        self.request.memory = bytes;
        self.budget.changed.notify_waiters();
        self
    }
}

impl<K: Copy + Eq + Hash> Drop for Admission<K> {
    fn drop(&mut self) {
        {
            let mut state = self.budget.lock();
            if self.runs {
                state.take_run(&self.request);
            }
            state.take_memory(self.request.who, self.request.memory);
        }
        self.budget.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
