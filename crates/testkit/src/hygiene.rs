//! Measures how well personal data is found: labelled texts, the same values in other forms, texts without any, and time.

pub mod answers;
pub mod data;
pub mod examples;
pub mod forms;
pub mod peers;
pub mod round_trip;
pub mod score;
pub mod speed;

use ringfence_hygiene::{Detector, DetectorConfig, NameDetection, SecretDetection, SensitiveKinds};

/// A detector of every kind that has a form, with this way to find names.
pub fn detector(names: NameDetection) -> Detector {
    build_detector(names, SecretDetection::Redact)
}

/// A detector that leaves secrets in place: those are redacted without an alias and cannot be revealed.
pub fn detector_keeping_secrets() -> Detector {
    build_detector(NameDetection::Dictionary, SecretDetection::Off)
}

fn build_detector(names: NameDetection, secrets: SecretDetection) -> Detector {
    Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::all(),
        names,
        secrets,
        own: Vec::new(),
    })
}

/// A part as a share of the whole; 1 where the whole is zero.
#[expect(clippy::cast_precision_loss, reason = "counts of a few thousands")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}
