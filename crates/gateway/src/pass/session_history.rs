//! The history of a session: its executions share call history, rates, counts and session grants.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_journal::{ExecutionId, Principal};
use ringfence_policy::{CallHistory, Policy, Rate, RuleRef, ToolLimitScope, ToolName};

use super::rate::{MeteredRate, RateBuckets, RateExhausted};
use super::tally::{CallCount, CallCounts};

/// The history of one session.
#[derive(Debug, Default)]
pub struct SessionHistory {
    state: Mutex<HistoryState>,
    tenant: Arc<TenantRates>,
    counts: CallCounts,
}

/// The rates that all sessions of one principal share.
#[derive(Debug, Default)]
pub(crate) struct TenantRates(Mutex<RateBuckets>);

/// The tenants of one process, by principal.
#[derive(Debug, Default)]
pub struct Tenants(Mutex<HashMap<Principal, Arc<TenantRates>>>);

/// From this many tenants on, idle ones are dropped.
const MAX_IDLE_TENANTS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct HistoryState {
    pub(super) history: CallHistory,
    servers: BTreeSet<String>,
    /// Tools that people granted, each with the rule that asked and the digest of its policy.
    grants: BTreeSet<(String, String, String)>,
    /// The policy generation of the grants.
    generation: u64,
    rates: RateBuckets,
}

impl Tenants {
    /// Creates the history of a new session of this principal.
    pub fn new_session(&self, principal: Principal) -> SessionHistory {
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= MAX_IDLE_TENANTS {
            let now = Instant::now();
            tenants.retain(|_, tenant| Arc::strong_count(tenant) > 1 || !tenant.rates().is_idle(now));
        }
        SessionHistory {
            state: Mutex::default(),
            counts: CallCounts::default(),
            tenant: Arc::clone(tenants.entry(principal).or_default()),
        }
    }
}

impl TenantRates {
    fn rates(&self) -> MutexGuard<'_, RateBuckets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionHistory {
    /// Returns the call count of an execution, shared with the skills that it called.
    pub(super) fn call_count(&self, execution: ExecutionId, parent: Option<ExecutionId>) -> Arc<CallCount> {
        self.counts.for_execution(execution, parent)
    }

    /// Adds a call that was made before this process had the session, so long ago and by this rule. Calls must be
    /// added oldest first. Rates that all sessions of a principal share are counted per process.
    pub fn remember_call(&self, policy: &Policy, (tool, rule): (&str, &str), ago: Duration) {
        let mut state = self.state();
        if let Ok(name) = tool.parse::<ToolName>() {
            let (own, _) = metered_rates(policy, &name, policy.rates_of_past_call(&name, rule));
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
        self.state().grants.insert(grant);
    }

    /// Sets the policy generation: grants from another generation are dropped.
    pub fn set_generation(&self, generation: u64) {
        let mut state = self.state();
        if state.generation != generation {
            state.generation = generation;
            state.grants.clear();
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, HistoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call under the rates of the session and the tenant, or under none.
    pub(super) fn count_call(
        &self,
        state: &mut HistoryState,
        own: &[MeteredRate],
        shared: &[MeteredRate],
    ) -> Result<(), RateExhausted> {
        if own.is_empty() && shared.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let mut tenant = self.tenant.rates();
        state.rates.check_capacity(own, now)?;
        tenant.check_capacity(shared, now)?;
        state.rates.count(own, now)?;
        tenant.count(shared, now)
    }
}

/// Returns what to count for a call of a tool: in the session, and for all sessions of its principal together.
pub(super) fn metered_rates(
    policy: &Policy,
    tool: &ToolName,
    rates: Vec<(RuleRef, Rate)>,
) -> (Vec<MeteredRate>, Vec<MeteredRate>) {
    let rates = rates.into_iter().map(|(rule, rate)| MeteredRate {
        rule,
        key: String::new(),
        rate,
    });
    let (mut own, mut shared): (Vec<MeteredRate>, Vec<MeteredRate>) = (rates.collect(), Vec::new());
    for (of, rule, rate) in policy.tool_limits() {
        let (counted, of) = match of {
            ToolLimitScope::Tenant => (&mut shared, ""),
            ToolLimitScope::Session => (&mut own, ""),
            ToolLimitScope::Server => (&mut own, tool.as_str().split('.').next().unwrap_or_default()),
            ToolLimitScope::Tool => (&mut own, tool.as_str()),
        };
        let of = of.to_owned();
        counted.push(MeteredRate { rule, key: of, rate });
    }
    (own, shared)
}

impl HistoryState {
    pub(super) fn is_granted(&self, tool: &str, rule: &str, policy: &str) -> bool {
        let grants = self.grants.iter();
        let mut grants = grants.map(|(tool, rule, policy)| (tool.as_str(), rule.as_str(), policy.as_str()));
        grants.any(|grant| grant == (tool, rule, policy))
    }

    /// Whether this is the first use of a server; marks it as used.
    pub(super) fn is_first_use(&mut self, server: &str) -> bool {
        if self.servers.contains(server) {
            return false;
        }
        self.servers.insert(server.to_owned())
    }
}
