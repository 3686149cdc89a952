//! What a session has done at the door: its executions share history, rates, count and what a person granted.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_journal::{ExecutionId, Principal};
use ringfence_policy::{History, LimitOf, Policy, Rate, Rule, ToolName};

use super::rate::{Full, Metered, Rates};
use super::tally::{CallCount, CallCounts};

/// What a session has done at the door.
#[derive(Debug, Default)]
pub struct Past {
    state: Mutex<State>,
    tenant: Arc<Tenant>,
    counts: CallCounts,
}

/// The rates that all sessions of one principal share.
#[derive(Debug, Default)]
pub(crate) struct Tenant(Mutex<Rates>);

/// The tenants of a process.
#[derive(Debug, Default)]
pub struct Tenants(Mutex<HashMap<Principal, Arc<Tenant>>>);

/// Tenants that are remembered before those that have done nothing for long are forgotten.
const MANY: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) history: History,
    servers: BTreeSet<String>,
    /// Tools that people granted, each with the rule that asked and the digest of the policy that has it.
    granted: BTreeSet<(String, String, String)>,
    /// The number of the rules under which they did.
    generation: u64,
    rates: Rates,
}

impl Tenants {
    /// The past of a new session of this principal.
    pub fn past(&self, principal: Principal) -> Past {
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= MANY {
            let now = Instant::now();
            tenants.retain(|_, tenant| Arc::strong_count(tenant) > 1 || !tenant.rates().is_idle(now));
        }
        Past {
            state: Mutex::default(),
            counts: CallCounts::default(),
            tenant: Arc::clone(tenants.entry(principal).or_default()),
        }
    }
}

impl Tenant {
    fn rates(&self) -> MutexGuard<'_, Rates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Past {
    /// The count of the calls of an execution, and of those it called as skills.
    pub(super) fn calls_of(&self, execution: ExecutionId, parent: Option<ExecutionId>) -> Arc<CallCount> {
        self.counts.of(execution, parent)
    }

    /// Remembers a call that was made before this process had the session, so long ago and by this rule. To be told of the oldest
    /// first. What all sessions of a principal share is counted in each process by itself.
    pub fn called(&self, policy: &Policy, (tool, rule): (&str, &str), ago: Duration) {
        let mut state = self.state();
        if let Ok(name) = tool.parse::<ToolName>() {
            let (own, _) = metered(policy, &name, policy.rates_before(&name, rule));
            state.rates.remember(&own, ago);
            state.history.record(name);
        }
        if let Some((server, _)) = tool.split_once('.') {
            state.servers.insert(server.to_owned());
        }
    }

    /// Remembers that a person granted a tool, which a rule of a policy wanted them asked for, until the session ends. A rule is
    /// known by its place, which says nothing under another policy.
    pub fn grant(&self, tool: &str, rule: &str, policy: &str) {
        let grant = (tool.to_owned(), rule.to_owned(), policy.to_owned());
        self.state().granted.insert(grant);
    }

    /// The rules with this number are in force: what people granted under others is forgotten.
    pub fn ruled(&self, generation: u64) {
        let mut state = self.state();
        if state.generation != generation {
            state.generation = generation;
            state.granted.clear();
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call under the session's rates and the tenant's, or under none.
    pub(super) fn count(&self, state: &mut State, own: &[Metered], shared: &[Metered]) -> Result<(), Full> {
        if own.is_empty() && shared.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let mut tenant = self.tenant.rates();
        state.rates.room(own, now)?;
        tenant.room(shared, now)?;
        state.rates.count(own, now)?;
        tenant.count(shared, now)
    }
}

/// What counts a call of a tool under these rates of rules: in the session, and for all sessions of its principal together.
pub(super) fn metered(policy: &Policy, tool: &ToolName, rates: Vec<(Rule, Rate)>) -> (Vec<Metered>, Vec<Metered>) {
    let rates = rates.into_iter().map(|(rule, rate)| Metered {
        rule,
        of: String::new(),
        rate,
    });
    let (mut own, mut shared): (Vec<Metered>, Vec<Metered>) = (rates.collect(), Vec::new());
    for (of, rule, rate) in policy.tool_limits() {
        let (counted, of) = match of {
            LimitOf::Tenant => (&mut shared, ""),
            LimitOf::Session => (&mut own, ""),
            LimitOf::Server => (&mut own, tool.as_str().split('.').next().unwrap_or_default()),
            LimitOf::Tool => (&mut own, tool.as_str()),
        };
        let of = of.to_owned();
        counted.push(Metered { rule, of, rate });
    }
    (own, shared)
}

impl State {
    pub(super) fn is_granted(&self, tool: &str, rule: &str, policy: &str) -> bool {
        let grants = self.granted.iter();
        let mut grants = grants.map(|(tool, rule, policy)| (tool.as_str(), rule.as_str(), policy.as_str()));
        grants.any(|grant| grant == (tool, rule, policy))
    }

    /// Whether a server was not used before.
    pub(super) fn is_new(&mut self, server: &str) -> bool {
        if self.servers.contains(server) {
            return false;
        }
        self.servers.insert(server.to_owned())
    }
}
