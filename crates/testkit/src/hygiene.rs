//! How well personal data is found: labelled texts, the same values written in other ways, texts without any, and time.

pub mod data;
pub mod forms;
pub mod score;
pub mod speed;

use ringfence_hygiene::{Detector, Kinds, Names, Secrets, Settings};

/// A detector of everything that has a form, with names found as said.
pub fn detector(names: Names) -> Detector {
    Detector::new(&Settings {
        kinds: Kinds::all(),
        names,
        secrets: Secrets::Redact,
        own: Vec::new(),
    })
}
