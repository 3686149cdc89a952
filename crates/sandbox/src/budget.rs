//! The machine's budget: how many executions run at once, and how much memory is promised to them together.
//!
//! The budget adds up what each execution may use at most and never promises more than the machine has. An execution that
//! cannot be admitted waits for a limited time; among those that wait, the principal with the least promised memory goes
//! first ([why](../../../docs/adr/0042-the-machine-has-a-budget.md)).

mod machine;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub use machine::{MachineMemory, MemorySource};

use crate::spec::{Spec, WritableKind};

/// Executions that may run at once, per processor.
const RUNS_PER_PROCESSOR: usize = 32;
/// The bounds of the memory reserved for everything else on the machine, which is a tenth of the total.
const MIN_RESERVE: u64 = 64 << 20;
const MAX_RESERVE: u64 = 2 << 30;
/// Memory that the host holds for an execution while it runs: the bodies of its calls, and the arguments parsed from them.
const HOST_MEMORY: u64 = 64 << 20;
/// How long an execution waits for admission.
const QUEUE_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a measurement of the machine's free memory stays valid.
const MEASURE_INTERVAL: Duration = Duration::from_millis(100);
/// How often a waiting execution tries again: nothing notifies it when other processes give memory back.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// What this process may promise to its executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Bytes of memory for all executions together.
    pub memory: u64,
    /// How many executions may run at the same time.
    pub runs: usize,
    /// Bytes that must stay free, in addition to half of what the next execution is promised.
    pub reserve: u64,
    /// How long an execution waits for admission before it fails.
    pub queue: Duration,
}

impl BudgetLimits {
    /// The limits for a machine with this memory and this number of processors.
    pub fn for_machine(memory: MachineMemory, processors: usize) -> BudgetLimits {
        let reserve = (memory.total / 10).clamp(MIN_RESERVE, MAX_RESERVE);
        BudgetLimits {
            memory: memory.total.saturating_sub(reserve),
            runs: processors.max(1).saturating_mul(RUNS_PER_PROCESSOR),
            reserve,
            queue: QUEUE_TIMEOUT,
        }
    }

    /// The limits of this machine, with the operator's overrides. A machine that does not report its memory has no memory
    /// limit.
    pub fn detect(overrides: BudgetOverrides) -> BudgetLimits {
        let memory = MemorySource::find().read().unwrap_or(MachineMemory {
            total: u64::MAX,
            available: u64::MAX,
        });
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let limits = BudgetLimits::for_machine(memory, processors);
        BudgetLimits {
            memory: overrides.memory.unwrap_or(limits.memory),
            queue: overrides.queue.unwrap_or(limits.queue),
            ..limits
        }
    }
}

/// Limits that the operator sets in place of those derived from the machine; `None` keeps the derived one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetOverrides {
    /// Bytes of memory for all executions together.
    pub memory: Option<u64>,
    /// How long an execution waits for admission before it fails.
    pub queue: Option<Duration>,
}

impl Spec {
    /// The most machine memory that an execution in a sandbox of this spec may use: the program's own, the writable places
    /// in memory, and what the host holds for it.
    pub fn promised_memory(&self) -> u64 {
        let places = self.writable.iter().filter(|place| place.kind == WritableKind::Memory);
        let places = places.map(|place| place.quota).fold(0, u64::saturating_add);
        let inside = self.limits.memory.get().saturating_add(places);
        inside.saturating_add(HOST_MEMORY)
    }
}

/// A request for admission by one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetRequest<K> {
    /// The principal whose share the execution counts against.
    pub who: K,
    /// Bytes that the execution may use at most.
    pub memory: u64,
    /// How many executions wait for this one to end. One execution of each depth is always admitted, so that there is no
    /// deadlock.
    pub depth: usize,
}

/// Why an execution cannot be admitted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// All memory is promised to other executions.
    Memory,
    /// The maximum number of executions already runs.
    Runs,
    /// The machine has too little free memory at the moment.
    Free,
    /// The principal already has its share of the budget.
    Share,
    /// Other waiting executions have precedence.
    Turn,
}

impl Shortage {
    /// What the user can do about the shortage.
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

/// An execution was not admitted before its time in the queue was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct AdmissionError {
    /// The shortage at the last try.
    pub shortage: Shortage,
    /// Bytes of memory that the request asked for.
    pub wanted: u64,
    /// Bytes of memory promised to other executions.
    pub promised: u64,
    /// How many executions were running.
    pub runs: usize,
    /// The limits of the budget that refused the request.
    pub limits: BudgetLimits,
}

impl fmt::Display for AdmissionError {
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
struct PrincipalShare {
    memory: u64,
    runs: usize,
}

#[derive(Debug)]
struct BudgetWaiter<K> {
    ticket: u64,
    request: BudgetRequest<K>,
}

#[derive(Debug)]
struct BudgetState<K> {
    promised: u64,
    runs: usize,
    /// Number of running executions by depth.
    depths: Vec<usize>,
    shares: HashMap<K, PrincipalShare>,
    queue: Vec<BudgetWaiter<K>>,
    next_ticket: u64,
    /// The first principal that sent a request.
    first: Option<K>,
    has_several: bool,
    /// The time of the last measurement, the free bytes it found, and half of the bytes promised since then.
    measured: Option<(Instant, u64, u64)>,
}

/// Reads the machine's memory; `None` when the machine does not report it.
type MemoryProbe = Box<dyn Fn() -> Option<MachineMemory> + Send + Sync>;

/// The limits, computed when the second execution arrives: most processes run one execution and never wait.
type LazyBudgetLimits = LazyLock<BudgetLimits, Box<dyn FnOnce() -> BudgetLimits + Send>>;

/// The budget of one process. It sees other processes only through the memory that they leave free.
pub struct Budget<K> {
    limits: LazyBudgetLimits,
    state: Mutex<BudgetState<K>>,
    changed: Notify,
    measure: MemoryProbe,
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
        let limits = Box::new(move || BudgetLimits::detect(overrides));
        Budget::with_probe(limits, Box::new(move || source.read()))
    }

    fn with_probe(limits: Box<dyn FnOnce() -> BudgetLimits + Send>, measure: MemoryProbe) -> Budget<K> {
        Budget {
            limits: LazyLock::new(limits),
            state: Mutex::new(BudgetState {
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

    /// The limits in force.
    pub fn limits(&self) -> BudgetLimits {
        *self.limits
    }

    /// Waits until the execution is admitted, up to the queue timeout.
    pub async fn admit(self: &Arc<Self>, request: BudgetRequest<K>) -> Result<Admission<K>, AdmissionError> {
        let ticket = self.enqueue(request);
        let _waiting = QueueGuard { budget: self, ticket };
        if let Ok(admission) = self.try_admit(ticket) {
            return Ok(admission);
        }
        let deadline = tokio::time::Instant::now() + self.limits.queue;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // No change after this point is missed.
            changed.as_mut().enable();
            let shortage = match self.try_admit(ticket) {
                Ok(admission) => return Ok(admission),
                Err(shortage) => shortage,
            };
            let now = tokio::time::Instant::now();
            if now >= deadline {
                let state = self.lock();
                let (promised, runs) = (state.promised, state.runs);
                drop(state);
                return Err(AdmissionError {
                    shortage,
                    wanted: request.memory,
                    promised,
                    runs,
                    limits: *self.limits,
                });
            }
            // A timeout and a change have the same effect: the loop tries again.
            let _ = tokio::time::timeout_at(deadline.min(now + RETRY_INTERVAL), changed).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, request: BudgetRequest<K>) -> u64 {
        let mut state = self.lock();
        let first = *state.first.get_or_insert(request.who);
        state.has_several |= first != request.who;
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue.push(BudgetWaiter { ticket, request });
        ticket
    }

    /// Admits `ticket` if it is next and nothing is short.
    fn try_admit(self: &Arc<Self>, ticket: u64) -> Result<Admission<K>, Shortage> {
        let mut state = self.lock();
        let own = state.queue.iter().find(|waiter| waiter.ticket == ticket);
        let request = own.ok_or(Shortage::Runs)?.request;
        if self.has_used_share(&state, &request) {
            return Err(Shortage::Share);
        }
        let is_next = self.next_ticket(&state) == Some(ticket);
        let shortage = self.shortage(&mut state, &request);
        if let Some(shortage) = shortage {
            return Err(shortage);
        }
        if !is_next {
            return Err(Shortage::Turn);
        }
        state.queue.retain(|waiter| waiter.ticket != ticket);
        state.reserve(&request);
        // The next one in the queue may fit too.
        self.changed.notify_waiters();
        Ok(Admission {
            budget: Arc::clone(self),
            request,
            runs: true,
        })
    }

    /// The ticket that goes next: the greatest depth first, then the principal with the least memory, then the earliest
    /// ticket.
    fn next_ticket(&self, state: &BudgetState<K>) -> Option<u64> {
        let waiting = state.queue.iter();
        let waiting = waiting.filter(|waiter| !self.has_used_share(state, &waiter.request));
        let order = |waiter: &&BudgetWaiter<K>| {
            let share = state.shares.get(&waiter.request.who).copied().unwrap_or_default();
            (std::cmp::Reverse(waiter.request.depth), share.memory, waiter.ticket)
        };
        waiting.min_by_key(order).map(|waiter| waiter.ticket)
    }

    /// Whether the principal has used its share: where there are several principals, each leaves a quarter to the others.
    fn has_used_share(&self, state: &BudgetState<K>, request: &BudgetRequest<K>) -> bool {
        let share = state.shares.get(&request.who).copied().unwrap_or_default();
        if !state.has_several || share.runs == 0 || request.depth > 0 {
            return false;
        }
        let most = self.limits.memory / 4 * 3;
        share.memory.saturating_add(request.memory) > most || share.runs >= (self.limits.runs / 4 * 3).max(1)
    }

    /// What is short for `request`. The only execution of its depth is admitted whatever it asks for.
    fn shortage(&self, state: &mut BudgetState<K>, request: &BudgetRequest<K>) -> Option<Shortage> {
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
        (self.free_memory(state) < wanted).then_some(Shortage::Free)
    }

    /// Free memory at the last measurement, minus half of what was promised since.
    fn free_memory(&self, state: &mut BudgetState<K>) -> u64 {
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

impl<K: Copy + Eq + Hash> BudgetState<K> {
    fn reserve(&mut self, request: &BudgetRequest<K>) {
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

    fn release_run(&mut self, request: &BudgetRequest<K>) {
        self.runs = self.runs.saturating_sub(1);
        if let Some(depth) = self.depths.get_mut(request.depth) {
            *depth = depth.saturating_sub(1);
        }
        if let Some(share) = self.shares.get_mut(&request.who) {
            share.runs = share.runs.saturating_sub(1);
        }
    }

    fn release_memory(&mut self, who: K, bytes: u64) {
        self.promised = self.promised.saturating_sub(bytes);
        if let Some(share) = self.shares.get_mut(&who) {
            share.memory = share.memory.saturating_sub(bytes);
            if share.memory == 0 && share.runs == 0 {
                self.shares.remove(&who);
            }
        }
    }
}

/// Removes its ticket from the queue when dropped, however the wait ends.
struct QueueGuard<'a, K: Copy + Eq + Hash> {
    budget: &'a Budget<K>,
    ticket: u64,
}

impl<K: Copy + Eq + Hash> Drop for QueueGuard<'_, K> {
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

/// The admission of one execution. Dropping it gives its memory and its slot back.
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
    /// Keeps `bytes` for a sandbox in which nothing runs any more, and gives the rest back.
    #[must_use]
    pub fn shrink_to_idle(mut self, bytes: u64) -> Admission<K> {
        let bytes = bytes.min(self.request.memory);
        {
            let mut state = self.budget.lock();
            if std::mem::take(&mut self.runs) {
                state.release_run(&self.request);
            }
            state.release_memory(self.request.who, self.request.memory - bytes);
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
                state.release_run(&self.request);
            }
            state.release_memory(self.request.who, self.request.memory);
        }
        self.budget.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
