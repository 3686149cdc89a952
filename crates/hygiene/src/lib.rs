//! Removes personal data and secrets from text and JSON, and caps their size.
//!
//! A [`Detector`] finds personal data and secrets in text, tables and JSON, by the keys of values and by their forms.
//! [`Aliases`] replaces them by aliases and reveals these again. [`TextCap`] and [`JsonCap`] take output in pieces
//! and keep what fits, harmless and with notices; cap first, then hide.
//!
//! ```
//! use ringfence_hygiene::{Aliases, Detector, DetectorConfig, NameDetection, SchemaHints, SecretDetection, SensitiveKinds};
//!
//! let detector = Detector::new(&DetectorConfig {
//!     kinds: SensitiveKinds::all(),
//!     names: NameDetection::Keys,
//!     secrets: SecretDetection::Redact,
//!     own: Vec::new(),
//! });
//! let mut aliases = Aliases::new()?;
//! let answer = serde_json::json!({"customer": "Ann Lee", "email": "ann@example.com"});
//! let hidden = aliases.hide_json(&detector, answer.clone(), &SchemaHints::none());
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
mod custom;
mod detector;
mod finding;
pub mod fuzz;
mod hints;
mod json_context;
mod keys;
mod kind;
mod printed;
mod prose;
mod redact;
mod scan;
mod secret;
mod table;
mod value;
mod word_lists;
mod zero_width;

pub use alias::{
    AliasOrigin, AliasTableError, Aliases, FindingCounts, Masked, RandomnessError, UnknownAlias, resembles_alias,
};
pub use cap::{CapLimits, Capped, Cleaner, JsonCap, KeptPart, MoreLocation, OmittedCounts, TextCap, trim_partial_line};
pub use carry::carry;
pub use custom::{CustomCheck, CustomKind, CustomKindError};
pub use detector::{Detector, DetectorConfig, NameDetection, ProseReader, SecretDetection, SensitiveJsonSpan};
pub use finding::{Evidence, SensitiveSpan};
pub use hints::SchemaHints;
pub use kind::{CustomKindName, SensitiveKind, SensitiveKinds};
