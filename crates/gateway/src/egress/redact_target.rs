//! Redacts the target of a request for the journal: its path without personal data and secrets. The policy sees the
//! real path.

use std::sync::Arc;

use ringfence_journal::{CleanText, EgressTarget};
use ringfence_policy::Policy;
use serde_json::Value;

use super::Egress;
use crate::redactor::{RedactionError, Redactor};

/// Replaces a path that could not be redacted.
const HIDDEN_PATH: &str = "/…";

impl Egress {
    /// Replaces the parts of the path that must not be recorded.
    pub(super) async fn redact_target(&self, to: &mut EgressTarget) {
        let Some(path) = &to.path else { return };
        let policy = self.policy().snapshot().policy;
        let shown = redact_path(&self.shared.settings.redactor, &policy, path.as_str()).await;
        to.path = Some(CleanText::clean(&shown.unwrap_or_else(|error| {
            tracing::warn!(%error, "the path of a request is not written down");
            HIDDEN_PATH.to_owned()
        })));
    }
}

async fn redact_path(screen: &Arc<Redactor>, policy: &Policy, path: &str) -> Result<String, RedactionError> {
    let sight = screen.rules_for(policy).await?;
    let read: Vec<String> = path.split('/').map(decode_segment).collect();
    let seen = screen.redact_for_form(&sight, read.clone().into()).await?;
    let segments = path.split('/').zip(&read).enumerate().map(|(at, (written, read))| {
        // Segments with nothing to hide keep their spelling.
        match seen.get(at).and_then(Value::as_str) {
            Some(seen) if seen == read => written.to_owned(),
            Some(seen) => seen.to_owned(),
            None => "…".to_owned(),
        }
    });
    Ok(segments.collect::<Vec<_>>().join("/"))
}

/// Decodes one path segment.
fn decode_segment(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let encoded = after.get(..2).filter(|_| *first == b'%');
        let byte = encoded.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = byte.map_or(after, |_| after.get(2..).unwrap_or_default());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
