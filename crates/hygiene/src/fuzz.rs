//! Entry points for fuzzing: plain functions over bytes that panic only if an invariant is broken. The tests run them
//! on seeded inputs, and any fuzzer can.

use crate::alias::Aliases;
use crate::cap::{CapLimits, JsonCap, KeptPart, TextCap};
use crate::detector::{Detector, DetectorConfig, NameDetection, SecretDetection};
use crate::hints::SchemaHints;
use crate::kind::SensitiveKinds;

/// Checks any text: findings are inside it and in order; hidden values can be revealed; JSON and text of any bytes
/// are capped.
///
/// # Panics
/// When an invariant is broken.
pub fn fuzz_hygiene(bytes: &[u8]) {
    let limits = CapLimits {
        bytes: 4096,
        rows: 16,
        depth: 8,
        string: 256,
    };
    let mut text = TextCap::new(limits, KeptPart::Ends, None);
    text.push(bytes);
    let shown = text.finish().shown;
    assert!(shown.len() < 4 * limits.bytes, "a text is capped");
    let mut json = JsonCap::new(limits, None);
    json.push(bytes);
    let value = json.finish().shown;
    let detector = Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Dictionary,
        secrets: SecretDetection::Off,
        own: Vec::new(),
    });
    let Ok(mut aliases) = Aliases::new() else { return };
    let found = detector.find(&shown);
    assert!(
        found.windows(2).all(|pair| pair[0].end <= pair[1].start),
        "findings are in order"
    );
    assert!(
        found
            .iter()
            .all(|one| shown.get(one.start..one.end).is_some_and(|part| !part.is_empty()))
    );
    let hidden = aliases.hide(&detector, &shown);
    assert_eq!(
        aliases.reveal(&hidden.shown).as_deref(),
        Ok(shown.as_str()),
        "what is hidden comes back"
    );
    let hidden = aliases.hide_json(&detector, value.clone(), &SchemaHints::none());
    assert_eq!(aliases.reveal_json(hidden.shown), Ok(value), "in JSON too");
}

#[cfg(test)]
mod tests;
