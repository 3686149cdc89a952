//! Refused calls: recorded one by one at first, then only counted, so that a program cannot fill the journal with them.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{CallOutcome, CleanText, Event, EventKind, ReplayRecorder};

use super::end_event_batcher::EventWithEntries;
use super::tally::RefusalTally;
use super::{CompletedCall, MAX_CALLS, Pass, PassError, clip_name, display_name, journal_name};
use crate::call_log::{ActiveCall, AnswerParts};
use crate::refusal::{CallErrorBody, RequestRefusal};

impl<R: ReplayRecorder + Clone + 'static> Pass<R> {
    /// Records the refusal of a call and returns it; beyond the first hundred of a kind it is counted, not listed.
    pub(super) async fn refuse(&self, asking: &ActiveCall<'_>, refusal: RequestRefusal) -> PassError {
        let tool = clip_name(display_name(asking.kind));
        let decided = refusal.hiding_rule().or(refusal.rule.as_deref()).unwrap_or_default();
        let (named, code) = (journal_name(asking.kind), refusal.code);
        let is_listed = self.refusals().add(&named, code, decided);
        let refused = is_listed.then(|| EventKind::CallRefused {
            number: u64::from(asking.number),
            tool: CleanText::clean(&named),
            code: CleanText::clean(code),
            rule: CleanText::clean(decided),
        });
        let forbidden = refusal.is_policy_decision();
        let told = CallErrorBody::from(refusal);
        let kept = AnswerParts {
            outcome: CallOutcome::Refused,
            forbidden,
            duration: Duration::ZERO,
            rule: told.rule.as_deref(),
            answer: Err(&told),
        };
        let entries = self.call_log.settled_entries(asking, &kept);
        self.call_tally().add_call(CompletedCall {
            number: asking.number,
            tool,
            outcome: CallOutcome::Refused,
            rule: told.rule.clone(),
            forbidden,
            duration: Duration::ZERO,
            bytes_in: asking.body.len() as u64,
            bytes_out: 0,
        });
        let Some(refused) = refused else {
            if self.refusals().hold_entries(entries) {
                self.queue_refusal_counts();
            }
            return PassError::Refused(told);
        };
        match self.record_after_ends(refused, entries).await {
            Ok(()) => PassError::Refused(told),
            Err(stopped) => stopped,
        }
    }

    /// Returns how many calls an execution may make, refused ones included.
    pub(super) fn max_calls(&self) -> u64 {
        u64::from(self.policy().tools().max_calls.unwrap_or(MAX_CALLS))
    }

    /// Refuses a call beyond the limit: the first one is recorded, later ones are only counted. None of them is
    /// checked.
    pub(super) async fn refuse_beyond_limit(&self, made: u64, asking: &ActiveCall<'_>) -> PassError {
        let most = self.max_calls();
        let refusal = RequestRefusal::too_many_calls(most);
        // After a replay with more calls than the limit, the first new call does not have the next number.
        let is_first = made == most.saturating_add(1) || self.call_log.answered_count() > 0;
        if is_first && !self.said_beyond.swap(true, Ordering::Relaxed) {
            return Box::pin(self.refuse(asking, refusal)).await;
        }
        self.call_tally().count_refused("tools.max_calls");
        PassError::Refused(CallErrorBody::from(refusal))
    }

    /// Counts a lookup of tools; refuses it beyond the limit on calls.
    pub fn count_lookup(&self) -> Result<(), PassError> {
        let most = self.max_calls();
        if self.calls.next_lookup() <= most {
            return Ok(());
        }
        Err(PassError::Refused(CallErrorBody::from(RequestRefusal::too_many_calls(
            most,
        ))))
    }

    /// Queues events for refusals that no event reports yet.
    pub(super) fn queue_refusal_counts(&self) {
        for (kind, entries) in self.refusals().drain_events("call_refused") {
            let event = Event::from_host(self.session, Some(self.execution), kind);
            self.ends.add(EventWithEntries(event, entries));
        }
    }

    pub(super) fn refusals(&self) -> MutexGuard<'_, RefusalTally> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
