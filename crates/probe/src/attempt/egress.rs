//! Attempts on the network egress, the gateway's proxy, as a hostile program would make them: names that mean two things,
//! protocols inside protocols, data and credentials where they do not belong.

mod client;
mod credentials;
mod leaks;
mod names;
mod requests;
mod tunnels;

use std::io;

use serde::{Deserialize, Serialize};

use super::{AttemptResult, ProbeAttempt, new_attempt, run_attempt_within};
use client::RawClient;
pub(crate) use leaks::{FORGED_LINE_START, PAYLOAD};
pub(crate) use tunnels::MAX_OPEN_TUNNELS;

/// The longest time that an egress attempt may take: a name that does not resolve takes time.
const ATTEMPT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

/// The address of the proxy, and what lies behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EgressTargets {
    /// The address of the proxy, as `host:port`.
    pub(crate) door: String,
    /// The text that every address serves that is not allowed.
    pub(crate) secret: String,
    /// The variable that holds the placeholder of the credential.
    pub(crate) variable: String,
    /// The credential, backwards: a search must not find its own search word.
    pub(crate) backwards: String,
    /// The placeholder of the credential in a run that is over.
    pub(crate) stale: String,
}

/// Makes the attempts of the probes `ids`.
pub(super) fn run_egress_attempts(aims: &str, ids: &[&str]) -> io::Result<()> {
    let aims: EgressTargets = serde_json::from_slice(&std::fs::read(aims)?)?;
    for id in ids {
        let id: u16 = id.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        for one in attempts(id, &aims) {
            run_attempt_within(ATTEMPT_TIMEOUT, id, one)?;
        }
    }
    Ok(())
}

fn attempts(id: u16, aims: &EgressTargets) -> Vec<ProbeAttempt> {
    match id {
        98..=110 => names::attempts(id, aims),
        111..=113 | 117..=121 | 124 => tunnels::attempts(id, aims),
        114..=116 | 122 | 123 | 127 => requests::attempts(id, aims),
        125 | 126 | 128 | 130 => leaks::attempts(id, aims),
        129 | 131..=139 => credentials::attempts(id, aims),
        _ => Vec::new(),
    }
}

/// An attempt with a client of its own, which succeeds when the answer contains one of `wanted`.
fn client_attempt(
    part: impl Into<String>,
    aims: &EgressTargets,
    wanted: &[&str],
    act: impl FnOnce(&RawClient) -> io::Result<Vec<u8>> + 'static,
) -> ProbeAttempt {
    let client = RawClient::new(aims);
    let wanted: Vec<String> = wanted.iter().map(|one| (*one).to_owned()).collect();
    new_attempt(part, move || judge_answer(act(&client), &wanted))
}

fn judge_answer(answer: io::Result<Vec<u8>>, wanted: &[String]) -> AttemptResult {
    let bytes = match answer {
        Err(error) => return AttemptResult::Refused(error),
        Ok(bytes) => bytes,
    };
    let text = String::from_utf8_lossy(&bytes);
    match wanted.iter().find(|one| text.contains(one.as_str())) {
        Some(found) => AttemptResult::Succeeded(format!("heard `{}`", found.escape_debug())),
        None => AttemptResult::WithoutEffect(summarize_answer(&text)),
    }
}

/// The code of a refusal, or the beginning of the answer.
fn summarize_answer(text: &str) -> String {
    let code = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("x-ringfence-code"));
    let code = code.map(|(_, code)| code.trim().to_owned());
    let first: String = text.lines().next().unwrap_or("closed").chars().take(40).collect();
    code.unwrap_or_else(|| first.escape_debug().to_string())
}
