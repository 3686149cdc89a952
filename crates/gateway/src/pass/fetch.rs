//! `fetch` for code: a tool call for the call log and the journal, and a request like any other for the network
//! rules.

use std::sync::Arc;
use std::time::Instant;

use ringfence_journal::{CallOutcome, CleanText, ContentHash, EventKind, ReplayRecorder};

use super::{CALL_TIMEOUT, Pass, PassError, WaitKind};
use crate::call_log::{ActiveCall, CallKind, FETCH_NAME, LoggedState};
use crate::egress::{Egress, is_repeatable};
use crate::refusal::{CallErrorBody, RequestRefusal};

/// The rule that decides about a fetch; network events name the exact rule.
const RULE: &str = "net";

impl<R: ReplayRecorder + Clone + 'static> Pass<R> {
    /// Makes a request for code; `body` is the request as JSON text, and the result is JSON text. `egress` is `None`
    /// if the policy has no network.
    pub async fn fetch(&self, number: u32, body: &str, egress: Option<&Arc<Egress>>) -> Result<String, PassError> {
        let _open = self.waiting.add(WaitKind::Open);
        if let Some(error) = self.ends.failure() {
            return Err(PassError::Unrecorded(error));
        }
        let asking = ActiveCall {
            number,
            kind: CallKind::Fetch,
            name: Some(FETCH_NAME),
            hints: None,
            body,
        };
        match self.known(&asking).await? {
            LoggedState::Answered(answered) => return self.replay_answer(number, answered, body),
            LoggedState::Unknown(_) if !is_repeatable(body) => {
                let refusal = RequestRefusal::new("net.unknown_effect", "only GET, HEAD and OPTIONS are asked again");
                return Err(self.refuse_unknown(&asking, refusal));
            }
            LoggedState::New | LoggedState::Asked(_) | LoggedState::Unknown(_) => {}
        }
        let Some(egress) = egress else {
            return Err(Box::pin(self.refuse(&asking, no_network_refusal())).await);
        };
        let started = EventKind::CallStarted {
            number: u64::from(number),
            tool: CleanText::clean(FETCH_NAME),
            rule: CleanText::clean(RULE),
            arguments: ContentHash::digest(body.as_bytes()),
            bytes: body.len() as u64,
        };
        self.record_after_ends(started, self.call_log.start_entries(&asking))
            .await?;
        let begun = Instant::now();
        let timeout = self
            .policy()
            .tools()
            .call_timeout
            .map_or(CALL_TIMEOUT, ringfence_policy::Period::get);
        let answered = tokio::select! {
            answered = tokio::time::timeout(timeout, Box::pin(egress.fetch(body))) => answered.unwrap_or_else(|_| {
                let message = format!("the whole answer did not come within {} s", timeout.as_secs());
                let refusal = RequestRefusal::new("net.timeout", message)
                    .by_rule("tools.call_timeout")
                    .with_hint("ask for less at once, or ask the operator for a longer `tools.call_timeout`");
                Err((CallOutcome::TimedOut, CallErrorBody::from(refusal)))
            }),
            () = self.wait_until_cancelled() => Err((CallOutcome::Unknown, CallErrorBody::from(RequestRefusal::caller_gone(FETCH_NAME)))),
        };
        self.queue_end(&asking, RULE, begun.elapsed(), &answered);
        answered.map_err(|(_, told)| PassError::Refused(told))
    }
}

/// Returns the refusal if the policy has no network.
fn no_network_refusal() -> RequestRefusal {
    RequestRefusal::new("net.denied", "`fetch` was refused: this session has no network")
        .by_rule("net.enabled")
        .with_hint(
            "do without it or use a tool; the operator opens the network with `net.enabled: true` and `net.allowlist`",
        )
}
