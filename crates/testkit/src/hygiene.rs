//! How well personal data is found: labelled texts, the same values written in other ways, texts without any, and time.

pub mod answers;
pub mod data;
pub mod examples;
pub mod forms;
pub mod peers;
pub mod round;
pub mod score;
pub mod speed;

use ringfence_hygiene::{Detector, Kinds, Names, Secrets, Settings};

/// A detector of everything that has a form, with names found as said.
pub fn detector(names: Names) -> Detector {
    made(names, Secrets::Redact)
}

/// One that leaves secrets where they are: what is blacked out does not come back.
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

/// A part of a whole, as a share; of nothing, all.
#[expect(clippy::cast_precision_loss, reason = "counts of a few thousands")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}
