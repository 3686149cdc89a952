//! The history of a session: its executions share call history, rates, counts and session grants.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_journal::{ExecutionId, Principal};
use ringfence_policy::{History, LimitOf, Policy, Rate, Rule, ToolName};

use super::rate::{Full, Metered, Rates};
use super::tally::{CallCount, CallCounts};

/// The history of one session.
#[derive(Debug, Default)]
pub struct Past {
    state: Mutex<State>,
    tenant: Arc<Tenant>,
    counts: CallCounts,
}

/// The rates that all sessions of one principal share.
#[derive(Debug, Default)]
pub(crate) struct Tenant(Mutex<Rates>);

/// The tenants of one process, by principal.
#[derive(Debug, Default)]
pub struct Tenants(Mutex<HashMap<Principal, Arc<Tenant>>>);

/// From this many tenants on, idle ones are dropped.
const MANY: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) history: History,
    servers: BTreeSet<String>,
    /// Tools that people granted, each with the rule that asked and the digest of its policy.
    granted: BTreeSet<(String, String, String)>,
    /// The policy generation of the grants.
    generation: u64,
    rates: Rates,
}

impl Tenants {
    /// Creates the history of a new session of this principal.
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
    /// Returns the call count of an execution, shared with the skills that it called.
    pub(super) fn calls_of(&self, execution: ExecutionId, parent: Option<ExecutionId>) -> Arc<CallCount> {
        self.counts.of(execution, parent)
    }

    /// Adds a call that was made before this process had the session, so long ago and by this rule. Calls must be
    /// added oldest first. Rates that all sessions of a principal share are counted per process.
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

    /// Stores a session grant for a tool that a rule of a policy asked about. A rule is known by its position, which
    /// has no meaning under another policy.
    pub fn grant(&self, tool: &str, rule: &str, policy: &str) {
        let grant = (tool.to_owned(), rule.to_owned(), policy.to_owned());
        self.state().granted.insert(grant);
    }

    /// Sets the policy generation: grants from another generation are dropped.
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

    /// Counts a call under the rates of the session and the tenant, or under none.
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

/// Returns what to count for a call of a tool: in the session, and for all sessions of its principal together.
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

    /// Whether this is the first use of a server; marks it as used.
    pub(super) fn is_new(&mut self, server: &str) -> bool {
        if self.servers.contains(server) {
            return false;
        }
        self.servers.insert(server.to_owned())
    }
}
