//! How well personal data is found: labelled texts, the same values written in other ways, texts without any, and time.

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
