//! Refused runs of a principal: so many are recorded, each in a session of its own; beyond that they are only counted, so that requests which
//! never start cannot fill the disk.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ringfence_journal::{CleanText, EventKind, Principal};

use super::ClientRuns;
use crate::engine::lock;
use crate::error::OperationError;
use crate::refusal::RunRefusal;
use crate::runs::request::{RunRequest, ServeConfig, assign_open_session, timed_policy};
use crate::sessions::open_session::SessionRef;
use crate::workspaces::DiskFolders;

/// Refused runs of a principal that are recorded at once.
const MAX_BURST: u32 = 100;
/// How long it takes until one more is recorded.
const REFILL_INTERVAL: Duration = Duration::from_secs(6);
/// Principals that are tracked before those with a whole burst left are dropped.
const MAX_TRACKED_PRINCIPALS: usize = 256;

/// How many refused runs each principal may still have recorded.
#[derive(Debug, Default)]
pub(crate) struct RefusedRuns(Mutex<HashMap<Principal, RefusalBudget>>);

#[derive(Debug)]
struct RefusalBudget {
    left: u32,
    refilled: Instant,
    /// Refused runs since the last recorded one that nothing recorded.
    unrecorded: u64,
}

impl RefusalBudget {
    fn new(now: Instant) -> RefusalBudget {
        RefusalBudget {
            left: MAX_BURST,
            refilled: now,
            unrecorded: 0,
        }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled).as_secs() / REFILL_INTERVAL.as_secs();
        let more = u32::try_from(passed).unwrap_or(MAX_BURST);
        self.left = self.left.saturating_add(more).min(MAX_BURST);
        self.refilled = if self.left == MAX_BURST {
            now
        } else {
            self.refilled + REFILL_INTERVAL * more
        };
    }
}

impl RefusedRuns {
    /// Whether nothing is left of the budget of `who`.
    fn is_spent(&self, who: Principal, now: Instant) -> bool {
        let mut all = lock(&self.0);
        all.get_mut(&who).is_some_and(|budget| {
            budget.refill(now);
            budget.left == 0
        })
    }

    /// Spends one recorded refusal of `who`; false where nothing is left.
    pub(crate) fn spend(&self, who: Principal, now: Instant) -> bool {
        let mut all = lock(&self.0);
        if all.len() >= MAX_TRACKED_PRINCIPALS {
            all.retain(|_, budget| {
                budget.refill(now);
                budget.left < MAX_BURST || budget.unrecorded > 0
            });
        }
        let budget = all.entry(who).or_insert_with(|| RefusalBudget::new(now));
        budget.refill(now);
        let is_left = budget.left > 0;
        budget.left = budget.left.saturating_sub(1);
        is_left
    }

    /// Counts a refused run that is not recorded.
    pub(crate) fn count_unrecorded(&self, who: Principal) -> OperationError {
        let mut all = lock(&self.0);
        let budget = all.entry(who).or_insert_with(|| RefusalBudget::new(Instant::now()));
        if budget.unrecorded == 0 {
            tracing::warn!(principal = %who, "refused runs are only counted for a while: there are too many");
        }
        budget.unrecorded += 1;
        OperationError::TooManyRefused
    }

    /// The refused runs of `who` that nothing recorded; counting begins anew.
    pub(crate) fn take_unrecorded(&self, who: Principal) -> u64 {
        let mut all = lock(&self.0);
        all.get_mut(&who)
            .map_or(0, |budget| std::mem::take(&mut budget.unrecorded))
    }
}

/// The event for refused runs that were not recorded; none where there were none.
pub(crate) fn repeated_event(count: u64) -> Option<EventKind> {
    (count > 0).then(|| EventKind::Repeated {
        of: CleanText::clean("refused"),
        what: CleanText::clean("run"),
        code: CleanText::clean("limit.refused"),
        rule: CleanText::clean("sessions"),
        count,
    })
}

impl ClientRuns {
    /// Answers a request of a principal whose refusals are no longer recorded, before anything is written or kept for it.
    pub(crate) async fn check_flood(
        &self,
        front: &ServeConfig,
        who: Principal,
        ask: &RunRequest,
    ) -> Result<(), OperationError> {
        let refused = &self.runs.refused;
        if refused.is_spent(who, Instant::now()) && self.is_refused_at_once(front, who, ask).await {
            return Err(refused.count_unrecorded(who));
        }
        Ok(())
    }

    /// Whether a request is refused for what it asks, as far as that shows without a session of its own.
    async fn is_refused_at_once(&self, front: &ServeConfig, who: Principal, ask: &RunRequest) -> bool {
        let Ok(called) = ask.session.as_deref().map(SessionRef::parse).transpose() else {
            return true;
        };
        let open = called.as_ref().and_then(|called| self.sessions.open.find(who, called));
        let policy = match (open, &called) {
            (Some(open), _) => assign_open_session(open, front, ask).map(|(policy, _)| policy),
            (None, Some(SessionRef::Id(id))) => {
                // Only a session that keeps its files can be opened again.
                let found = self.records.store.session(*id).await;
                return found
                    .is_ok_and(|found| found.is_none_or(|row| row.principal != who || row.workspace.is_none()));
            }
            (None, Some(SessionRef::Name(_))) if self.sessions.open.is_full(who) => return true,
            (None, _) => timed_policy(&front.ceiling, &front.policy, ask),
        };
        let Ok(policy) = policy else { return true };
        let folders = self.records.data.all_scratch();
        RunRefusal::check_program(&policy, &ask.program).is_some()
            || called.is_none()
                && self
                    .sandboxes
                    .spec(&policy, DiskFolders::scratch_only(&folders), false)
                    .is_err()
    }
}

#[cfg(test)]
mod tests;
