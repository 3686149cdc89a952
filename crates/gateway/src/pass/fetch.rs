//! `fetch` for code: a tool call for the call log and the journal, and a request like any other for the network
//! rules.

use std::sync::Arc;
use std::time::Instant;

use ringfence_journal::{CallOutcome, Hash, KeepingRecorder, Kind, Text};

use super::{CALL_TIMEOUT, Counted, Pass, Stopped};
use crate::egress::{Egress, is_repeatable};
use crate::refusal::{Refusal, Told};
use crate::tape::{Asking, FETCH, Known, What};

/// The rule that decides about a fetch; network events name the exact rule.
const RULE: &str = "net";

impl<R: KeepingRecorder + Clone + 'static> Pass<R> {
    /// Makes a request for code; `body` is the request as JSON text, and the result is JSON text. `egress` is `None`
    /// if the policy has no network.
    pub async fn fetch(&self, number: u32, body: &str, egress: Option<&Arc<Egress>>) -> Result<String, Stopped> {
        let _open = self.waits.add(Counted::Open);
        if let Some(error) = self.ends.failed() {
            return Err(Stopped::Unrecorded(error));
        }
        let asking = Asking {
            number,
            what: What::Fetch,
            name: Some(FETCH),
            hints: None,
            body,
        };
        match self.known(&asking).await? {
            Known::Answered(answered) => return self.again(number, answered, body),
            Known::Unknown(_) if !is_repeatable(body) => {
                let refusal = Refusal::new("net.unknown_effect", "only GET, HEAD and OPTIONS are asked again");
                return Err(self.stays_unknown(&asking, refusal));
            }
            Known::New | Known::Asked(_) | Known::Unknown(_) => {}
        }
        let Some(egress) = egress else {
            return Err(Box::pin(self.refuse(&asking, closed())).await);
        };
        let started = Kind::CallStarted {
            number: u64::from(number),
            tool: Text::clean(FETCH),
            rule: Text::clean(RULE),
            arguments: Hash::of(body.as_bytes()),
            bytes: body.len() as u64,
        };
        self.record_after_ends(started, self.tape.started(&asking)).await?;
        let begun = Instant::now();
        let timeout = self
            .policy()
            .tools()
            .call_timeout
            .map_or(CALL_TIMEOUT, ringfence_policy::Period::get);
        let answered = tokio::select! {
            answered = tokio::time::timeout(timeout, Box::pin(egress.fetch(body))) => answered.unwrap_or_else(|_| {
                let message = format!("the whole answer did not come within {} s", timeout.as_secs());
                let refusal = Refusal::new("net.timeout", message)
                    .by("tools.call_timeout")
                    .hint("ask for less at once, or ask the operator for a longer `tools.call_timeout`");
                Err((CallOutcome::TimedOut, Told::from(refusal)))
            }),
            () = self.cancelled() => Err((CallOutcome::Unknown, Told::from(Refusal::left(FETCH)))),
        };
        self.ended(&asking, RULE, begun.elapsed(), &answered);
        answered.map_err(|(_, told)| Stopped::Refused(told))
    }
}

/// Returns the refusal if the policy has no network.
fn closed() -> Refusal {
    Refusal::new("net.denied", "`fetch` was refused: this session has no network")
        .by("net.enabled")
        .hint(
            "do without it or use a tool; the operator opens the network with `net.enabled: true` and `net.allowlist`",
        )
}
