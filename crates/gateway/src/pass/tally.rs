//! Tallies the calls of an execution: the first of each kind are listed, the rest is counted. So frequent calls need
//! bounded memory, journal space and answer size.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ringfence_journal::{CallOutcome, CleanText, EventKind, ExecutionId, ReplayEntry};

use super::CompletedCall;

/// Most calls of one kind that are listed one by one.
const LISTED_PER_KIND: u64 = 100;
/// Most kinds that are distinguished; further ones count as `other`.
const MAX_KINDS: usize = 64;
/// Most calls that are listed in all.
const MAX_LISTED: usize = 1000;
/// The name for tools beyond the limit on kinds.
const OTHER: &str = "other";

/// The report of all calls of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallsMade {
    /// The first calls of each kind, ordered by number.
    pub listed: Vec<CompletedCall>,
    /// The calls of each kind that are not listed.
    pub unlisted: Vec<UnlistedCalls>,
    /// The number of all calls, listed or not.
    pub total: u64,
    /// Bytes of all arguments and results.
    pub bytes: u64,
}

/// The calls of one kind that are counted but not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlistedCalls {
    /// The full name of the tool, or `other` beyond the limit on kinds.
    pub tool: String,
    /// How these calls ended.
    pub outcome: CallOutcome,
    /// The rule that decided; `None` beyond the limit on kinds.
    pub rule: Option<String>,
    /// Whether the policy refused them.
    pub forbidden: bool,
    /// The number of calls of this kind beyond the listed ones.
    pub count: u64,
}

/// The tally of the calls so far.
#[derive(Debug, Default)]
pub(super) struct CallTally {
    made: CallsMade,
    /// How many calls of each kind are listed; `made.more` has the rest at the same index.
    listed: Vec<u64>,
}

impl CallTally {
    /// Adds a completed call.
    pub(super) fn add_call(&mut self, made: CompletedCall) {
        self.made.total += 1;
        self.made.bytes = self.made.bytes.saturating_add(made.bytes_in + made.bytes_out);
        let place = self.kind_index(&made);
        let listed = self.listed.get_mut(place);
        if let Some(listed) = listed.filter(|listed| **listed < LISTED_PER_KIND)
            && self.made.listed.len() < MAX_LISTED
        {
            *listed += 1;
            self.made.listed.push(made);
        } else if let Some(more) = self.made.unlisted.get_mut(place) {
            more.count += 1;
        }
    }

    /// Counts a call that is refused without any checks.
    pub(super) fn count_refused(&mut self, rule: &str) {
        self.made.total += 1;
        let refused = |more: &&mut UnlistedCalls| more.tool == OTHER && more.rule.as_deref() == Some(rule);
        if let Some(more) = self.made.unlisted.iter_mut().find(refused) {
            more.count += 1;
            return;
        }
        self.listed.push(LISTED_PER_KIND);
        self.made.unlisted.push(UnlistedCalls {
            tool: OTHER.to_owned(),
            outcome: CallOutcome::Refused,
            rule: Some(rule.to_owned()),
            forbidden: false,
            count: 1,
        });
    }

    fn kind_index(&mut self, made: &CompletedCall) -> usize {
        let same = |more: &UnlistedCalls| {
            (more.outcome, more.forbidden) == (made.outcome, made.forbidden)
                && more.tool == made.tool
                && more.rule == made.rule
        };
        if let Some(place) = self.made.unlisted.iter().position(same) {
            return place;
        }
        let is_other = self.made.unlisted.len() >= MAX_KINDS;
        let of_other = |more: &UnlistedCalls| {
            more.tool == OTHER
                && (more.outcome, more.forbidden) == (made.outcome, made.forbidden)
                && more.rule.is_none()
        };
        if is_other && let Some(place) = self.made.unlisted.iter().position(of_other) {
            return place;
        }
        let tool = if is_other { OTHER } else { &made.tool };
        self.made.unlisted.push(UnlistedCalls {
            tool: tool.to_owned(),
            outcome: made.outcome,
            rule: made.rule.clone().filter(|_| !is_other),
            forbidden: made.forbidden,
            count: 0,
        });
        self.listed.push(if is_other { LISTED_PER_KIND } else { 0 });
        self.made.unlisted.len() - 1
    }

    /// Returns the report, ordered by number.
    pub(super) fn finish(&mut self) -> CallsMade {
        let mut made = std::mem::take(&mut self.made);
        self.listed.clear();
        made.listed.sort_by_key(|call| call.number);
        made.unlisted.retain(|more| more.count > 0);
        made
    }
}

/// The kind by which the journal groups refusals.
#[derive(Debug, PartialEq, Eq)]
struct RefusalKind {
    /// `None` beyond the limit on kinds.
    tool: Option<String>,
    code: &'static str,
    rule: String,
}

/// Tallies the refusals of an execution: the first of each kind are events, the rest is counted in an event from time
/// to time.
#[derive(Debug, Default)]
pub(crate) struct RefusalTally {
    /// Each kind, the number of its refusals, and how many of these no event reports yet.
    kinds: Vec<(RefusalKind, u64, u64)>,
    unreported: u64,
    /// The call log entries of unreported refusals.
    entries: Vec<ReplayEntry>,
}

impl RefusalTally {
    /// Counts one refusal. Returns whether it gets an event of its own.
    pub(crate) fn add(&mut self, tool: &str, code: &'static str, rule: &str) -> bool {
        let same = |(kind, _, _): &&mut (RefusalKind, u64, u64)| {
            kind.code == code && kind.rule == rule && kind.tool.as_deref().is_none_or(|known| known == tool)
        };
        if let Some((_, count, unsaid)) = self.kinds.iter_mut().find(same) {
            *count += 1;
            let is_listed = *count <= LISTED_PER_KIND;
            if !is_listed {
                *unsaid += 1;
                self.unreported += 1;
            }
            return is_listed;
        }
        let is_other = self.kinds.len() >= MAX_KINDS;
        let kind = RefusalKind {
            tool: (!is_other).then(|| tool.to_owned()),
            code,
            rule: rule.to_owned(),
        };
        self.kinds.push((kind, 1, 0));
        true
    }

    /// Holds the entries of an unreported refusal. Returns whether it is time to report.
    pub(crate) fn hold_entries(&mut self, entries: Vec<ReplayEntry>) -> bool {
        self.entries.extend(entries);
        self.unreported >= LISTED_PER_KIND
    }

    /// Returns events for the unreported refusals, the first with all held entries.
    pub(crate) fn drain_events(&mut self, of: &str) -> Vec<(EventKind, Vec<ReplayEntry>)> {
        if self.unreported == 0 {
            return Vec::new();
        }
        self.unreported = 0;
        let mut entries = std::mem::take(&mut self.entries);
        let of_kind = |(kind, _, unsaid): &mut (RefusalKind, u64, u64)| {
            let count = std::mem::take(unsaid);
            (count > 0).then(|| EventKind::Repeated {
                of: CleanText::clean(of),
                what: CleanText::clean(kind.tool.as_deref().unwrap_or(OTHER)),
                code: CleanText::clean(kind.code),
                rule: CleanText::clean(&kind.rule),
                count,
            })
        };
        let kinds: Vec<EventKind> = self.kinds.iter_mut().filter_map(of_kind).collect();
        kinds
            .into_iter()
            .map(|kind| (kind, std::mem::take(&mut entries)))
            .collect()
    }
}

/// The calls that an execution and the skills it called made together, refused ones included.
#[derive(Debug, Default)]
pub(crate) struct CallCount {
    tools: AtomicU64,
    lookups: AtomicU64,
}

impl CallCount {
    /// Counts one more call of a tool, and returns the new count.
    pub(super) fn next_call(&self) -> u64 {
        self.tools.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Counts one more lookup of tools, and returns the new count.
    pub(super) fn next_lookup(&self) -> u64 {
        self.lookups.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }
}

/// The call counts of a session's active executions.
#[derive(Debug, Default)]
pub(super) struct CallCounts(Mutex<HashMap<ExecutionId, Weak<CallCount>>>);

impl CallCounts {
    /// Returns the count of an execution, or that of its parent if another execution called it as a skill.
    pub(super) fn for_execution(&self, execution: ExecutionId, parent: Option<ExecutionId>) -> Arc<CallCount> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|_, count| count.strong_count() > 0);
        let known = parent.and_then(|parent| counts.get(&parent)).and_then(Weak::upgrade);
        let count = known.unwrap_or_default();
        counts.insert(execution, Arc::downgrade(&count));
        count
    }
}

#[cfg(test)]
mod tests;
