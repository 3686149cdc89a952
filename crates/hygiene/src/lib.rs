//! Personal data and secrets out, floods out: text and JSON in, text and JSON out.
//!
//! A [`Detector`] finds personal data and secrets; [`Kind`] says which.
//!
//! It does not know sessions, storage, or who reads: no file, no network, no clock.
#![forbid(unsafe_code)]

mod alias;
mod cap;
mod detector;
mod finding;
pub mod fuzz;
mod hints;
mod json;
mod keys;
mod kind;
mod lists;
mod own;
mod prose;
mod scan;
mod secret;
mod table;
mod value;

pub use alias::{Aliases, Counts, Hidden, Invented, NoRandomness, ReadError};
pub use cap::{Capped, Cleaner, JsonCap, Keep, LeftOut, Limits, TextCap};
pub use detector::{Detector, JsonFinding, Names, Prose, Secrets, Settings};
pub use finding::{Evidence, Finding};
pub use hints::Hints;
pub use kind::{Kind, Kinds, Word};
pub use own::{Check, Own, OwnError};
