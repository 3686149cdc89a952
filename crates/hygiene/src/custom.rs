//! Custom kinds of the operator: a regular expression, and a check of its matches.

use std::fmt;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use crate::finding::{Evidence, SensitiveSpan};
use crate::kind::{CustomKindName, SensitiveKind};
use crate::scan::checksums;

/// Most bytes of a compiled expression.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// A custom kind of the operator.
#[derive(Clone)]
pub struct CustomKind {
    name: CustomKindName,
    pattern: Regex,
    check: CustomCheck,
}

/// The check that a match must pass to be a finding.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum CustomCheck {
    /// Every match is a finding.
    #[default]
    None,
    /// The checksum of payment cards, over the digits.
    Luhn,
    /// The checksum of bank accounts, over the letters and digits.
    Mod97,
    /// A function that accepts or rejects the match.
    Predicate(Arc<dyn Fn(&str) -> bool + Send + Sync>),
}

/// Why a custom kind is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CustomKindError {
    /// The name cannot be used in an alias.
    #[error("`{name}` is no name for a kind: one to twelve small letters, and none that is built in")]
    Name {
        /// The name as it was given.
        name: String,
    },
    /// The expression is invalid or too large.
    #[error("the pattern of `{name}` cannot be used")]
    Pattern {
        /// The name of the custom kind.
        name: String,
        /// The error of the regular expression compiler.
        source: Box<regex::Error>,
    },
    /// The expression matches the empty text, and so would match everywhere.
    #[error("the pattern of `{name}` matches nothing at all, so it would be everywhere")]
    Empty {
        /// The name of the custom kind.
        name: String,
    },
}

impl CustomKind {
    /// Creates a kind from its name, expression and check. If the expression has a group called `value`, only that
    /// group is the finding.
    pub fn new(name: &str, pattern: &str, check: CustomCheck) -> Result<CustomKind, CustomKindError> {
        let word = CustomKindName::new(name).ok_or_else(|| CustomKindError::Name { name: name.to_owned() })?;
        let built = RegexBuilder::new(pattern)
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build();
        let pattern = built.map_err(|source| CustomKindError::Pattern {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        if pattern.is_match("") {
            return Err(CustomKindError::Empty { name: name.to_owned() });
        }
        Ok(CustomKind {
            name: word,
            pattern,
            check,
        })
    }

    pub(crate) fn find(&self, text: &str, out: &mut Vec<SensitiveSpan>) {
        for captures in self.pattern.captures_iter(text) {
            let Some(found) = captures.name("value").or_else(|| captures.get(0)) else {
                continue;
            };
            if !found.is_empty() && self.check.passes(found.as_str()) {
                out.push(SensitiveSpan {
                    start: found.start(),
                    end: found.end(),
                    kind: SensitiveKind::Custom(self.name),
                    by: Evidence::Form,
                });
            }
        }
    }
}

impl CustomCheck {
    fn passes(&self, value: &str) -> bool {
        match self {
            CustomCheck::None => true,
            CustomCheck::Luhn => checksums::luhn_text(value),
            CustomCheck::Mod97 => checksums::mod97_text(value),
            CustomCheck::Predicate(check) => check(value),
        }
    }
}

impl fmt::Debug for CustomCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            CustomCheck::None => "None",
            CustomCheck::Luhn => "Luhn",
            CustomCheck::Mod97 => "Mod97",
            CustomCheck::Predicate(_) => "By",
        })
    }
}

impl fmt::Debug for CustomKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Own");
        shown
            .field("name", &self.name.as_str())
            .field("pattern", &self.pattern.as_str());
        shown.field("check", &self.check).finish()
    }
}

#[cfg(test)]
mod tests;
