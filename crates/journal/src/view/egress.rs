//! Summaries of an execution's outgoing requests and connections.

use serde::Serialize;

use crate::{CleanText, EgressTarget, EventKind};

/// One outgoing request or connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EgressSummary {
    /// Counts from 1 in each execution.
    pub number: u64,
    /// The destination as the program requested it.
    pub to: EgressTarget,
    /// Whether it was allowed, and how it ended.
    pub outcome: EgressOutcome,
    /// The rule that allowed or refused it.
    pub rule: CleanText,
    /// The address that was dialled; `None` if it was refused.
    pub address: Option<CleanText>,
    /// The HTTP status of the response, if it was visible.
    pub status: Option<u16>,
    /// The stable code of the error, if there was one.
    pub error: Option<CleanText>,
    /// Bytes sent to the destination.
    pub bytes_out: u64,
    /// Bytes received from the destination.
    pub bytes_in: u64,
    /// Duration in milliseconds; 0 if it did not end.
    pub duration_ms: u64,
    /// Names of the credentials that were attached.
    pub credentials: Vec<CleanText>,
    /// Names of the credentials whose placeholders were misplaced.
    pub misused: Vec<CleanText>,
}

/// The outcome of an outgoing request or connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EgressOutcome {
    /// It was allowed, and its end was not recorded.
    Unknown,
    /// It was allowed, and ended without an error.
    Ok,
    /// It was allowed, and failed.
    Failed,
    /// The policy or the gateway refused it.
    Refused,
}

impl EgressOutcome {
    /// The name in results, such as `refused`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// Applies an event to the summaries; ignores events that are not about egress.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
pub(super) fn apply_event(all: &mut Vec<EgressSummary>, kind: &EventKind) {
    match kind {
        EventKind::EgressStarted {
            number,
            to,
            address,
            rule,
        } => {
            let mut begun = new_summary(*number, to, rule);
            begun.address = Some(address.clone());
            all.push(begun);
        }
        EventKind::EgressRefused { number, to, code, rule } => {
            let mut refused = new_summary(*number, to, rule);
            refused.outcome = EgressOutcome::Refused;
            refused.error = Some(code.clone());
            all.push(refused);
        }
        EventKind::EgressEnded {
            number,
            status,
            error,
            bytes_out,
            bytes_in,
            duration_ms,
        } => {
            if let Some(one) = find_mut(all, *number) {
                one.outcome = if error.is_none() {
                    EgressOutcome::Ok
                } else {
                    EgressOutcome::Failed
                };
                one.status = *status;
                one.error.clone_from(error);
                one.bytes_out = *bytes_out;
                one.bytes_in = *bytes_in;
                one.duration_ms = *duration_ms;
            }
        }
        EventKind::CredentialUsed { number, credential } => {
            if let Some(one) = find_mut(all, *number) {
                one.credentials.push(credential.clone());
            }
        }
        EventKind::CredentialMisused { number, credential, .. } => {
            if let Some(one) = find_mut(all, *number) {
                one.misused.push(credential.clone());
            }
        }
        _ => {}
    }
}

fn new_summary(number: u64, to: &EgressTarget, rule: &CleanText) -> EgressSummary {
    EgressSummary {
        number,
        to: to.clone(),
        outcome: EgressOutcome::Unknown,
        rule: rule.clone(),
        address: None,
        status: None,
        error: None,
        bytes_out: 0,
        bytes_in: 0,
        duration_ms: 0,
        credentials: Vec::new(),
        misused: Vec::new(),
    }
}

fn find_mut(all: &mut [EgressSummary], number: u64) -> Option<&mut EgressSummary> {
    all.iter_mut().rev().find(|one| one.number == number)
}
