//! What left an execution for the network, or was not let.

use serde::Serialize;

use crate::{Kind, Target, Text};

/// One way out, as it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EgressSummary {
    /// Counts from 1 in each execution.
    pub number: u64,
    /// Where to.
    pub to: Target,
    /// How it went.
    pub outcome: EgressOutcome,
    /// The rule that decided.
    pub rule: Text,
    /// The address that was dialled.
    pub address: Option<Text>,
    /// The answer's HTTP status, where it was seen.
    pub status: Option<u16>,
    /// The stable code of what went wrong.
    pub error: Option<Text>,
    /// Bytes that left.
    pub bytes_out: u64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// Credentials that were attached, by name.
    pub credentials: Vec<Text>,
    /// Credentials whose stand-ins were sent where they do not belong, by name.
    pub misused: Vec<Text>,
}

/// How a way out went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EgressOutcome {
    /// It was let out, and its end was not seen.
    Unknown,
    /// It was let out, and ended.
    Ok,
    /// It was let out, and came to nothing.
    Failed,
    /// It was not let out.
    Refused,
}

impl EgressOutcome {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// Adds what an event says; what is not about egress says nothing.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
pub(super) fn add(all: &mut Vec<EgressSummary>, kind: &Kind) {
    match kind {
        Kind::EgressStarted {
            number,
            to,
            address,
            rule,
        } => {
            let mut begun = new(*number, to, rule);
            begun.address = Some(address.clone());
            all.push(begun);
        }
        Kind::EgressRefused { number, to, code, rule } => {
            let mut refused = new(*number, to, rule);
            refused.outcome = EgressOutcome::Refused;
            refused.error = Some(code.clone());
            all.push(refused);
        }
        Kind::EgressEnded {
            number,
            status,
            error,
            bytes_out,
            bytes_in,
            duration_ms,
        } => {
            if let Some(one) = find(all, *number) {
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
        Kind::CredentialUsed { number, credential } => {
            if let Some(one) = find(all, *number) {
                one.credentials.push(credential.clone());
            }
        }
        Kind::CredentialMisused { number, credential, .. } => {
            if let Some(one) = find(all, *number) {
                one.misused.push(credential.clone());
            }
        }
        _ => {}
    }
}

fn new(number: u64, to: &Target, rule: &Text) -> EgressSummary {
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

fn find(all: &mut [EgressSummary], number: u64) -> Option<&mut EgressSummary> {
    all.iter_mut().rev().find(|one| one.number == number)
}
