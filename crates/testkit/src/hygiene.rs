//! Measures how well personal data is found: labelled texts, the same values in other forms, texts without any, and time.

pub mod answers;
pub mod data;
pub mod examples;
pub mod forms;
pub mod peers;
pub mod round;
pub mod score;
pub mod speed;

use ringfence_hygiene::{Detector, Kinds, Names, Secrets, Settings};

/// A detector of every kind that has a form, with this way to find names.
pub fn detector(names: Names) -> Detector {
    made(names, Secrets::Redact)
}

/// A detector that leaves secrets in place: those are redacted without an alias and cannot be revealed.
pub fn keeping_secrets() -> Detector {
    made(Names::Dictionary, Secrets::Off)
}

fn made(names: Names, secrets: Secrets) -> Detector {
    Detector::new(&Settings {
        kinds: Kinds::all(),
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
