//! Removes personal data and secrets from text and JSON, and caps their size.
//!
//! A [`Detector`] finds personal data and secrets in text, tables and JSON, by the keys of values and by their forms.
//! [`Aliases`] replaces them by aliases and reveals these again. [`TextCap`] and [`JsonCap`] take output in pieces
//! and keep what fits, harmless and with notices; cap first, then hide.
//!
//! ```
//! use ringfence_hygiene::{Aliases, Detector, Hints, Kinds, Names, Secrets, Settings};
//!
//! let detector = Detector::new(&Settings {
//!     kinds: Kinds::all(),
//!     names: Names::Keys,
//!     secrets: Secrets::Redact,
//!     own: Vec::new(),
//! });
//! let mut aliases = Aliases::new()?;
//! let answer = serde_json::json!({"customer": "Ann Lee", "email": "ann@example.com"});
//! let hidden = aliases.hide_json(&detector, answer.clone(), &Hints::none());
//! assert!(!hidden.shown.to_string().contains("ann@"));
//! assert_eq!(hidden.counts.iter().collect::<Vec<_>>(), [("email", 1), ("name", 1)]);
//! assert_eq!(aliases.reveal_json(hidden.shown)?, answer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate does not know sessions, storage or audiences, and uses no file, no network and no clock.
#![forbid(unsafe_code)]

mod alias;
mod cap;
mod carry;
mod detector;
mod finding;
pub mod fuzz;
mod hints;
mod json;
mod keys;
mod kind;
mod lists;
mod own;
mod printed;
mod prose;
mod redact;
mod scan;
mod secret;
mod table;
mod unseen;
mod value;

pub use alias::{Aliases, Counts, Hidden, Invented, NoRandomness, ReadError, resembles_alias};
pub use cap::{At, Capped, Cleaner, JsonCap, Keep, LeftOut, Limits, TextCap, whole_lines};
pub use carry::carry;
pub use detector::{Detector, JsonFinding, Names, Prose, Secrets, Settings};
pub use finding::{Evidence, Finding};
pub use hints::Hints;
pub use kind::{Kind, Kinds, Word};
pub use own::{Check, Own, OwnError};
