//! Custom kinds of the operator: a regular expression, and a check of its matches.

use std::fmt;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use crate::finding::{Evidence, Finding};
use crate::kind::{Kind, Word};
use crate::scan::checks;

/// Most bytes of a compiled expression.
const SIZE: usize = 1 << 20;

/// A custom kind of the operator.
#[derive(Clone)]
pub struct Own {
    name: Word,
    pattern: Regex,
    check: Check,
}

/// The check that a match must pass to be a finding.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Check {
    /// Every match is a finding.
    #[default]
    None,
    /// The checksum of payment cards, over the digits.
    Luhn,
    /// The checksum of bank accounts, over the letters and digits.
    Mod97,
    /// A function that accepts or rejects the match.
    By(Arc<dyn Fn(&str) -> bool + Send + Sync>),
}

/// Why a custom kind is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnError {
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

impl Own {
    /// Creates a kind from its name, expression and check. If the expression has a group called `value`, only that
    /// group is the finding.
    pub fn new(name: &str, pattern: &str, check: Check) -> Result<Own, OwnError> {
        let word = Word::new(name).ok_or_else(|| OwnError::Name { name: name.to_owned() })?;
        let built = RegexBuilder::new(pattern).size_limit(SIZE).dfa_size_limit(SIZE).build();
        let pattern = built.map_err(|source| OwnError::Pattern {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        if pattern.is_match("") {
            return Err(OwnError::Empty { name: name.to_owned() });
        }
        Ok(Own {
            name: word,
            pattern,
            check,
        })
    }

    pub(crate) fn find(&self, text: &str, out: &mut Vec<Finding>) {
        for captures in self.pattern.captures_iter(text) {
            let Some(found) = captures.name("value").or_else(|| captures.get(0)) else {
                continue;
            };
            if !found.is_empty() && self.check.passes(found.as_str()) {
                out.push(Finding {
                    start: found.start(),
                    end: found.end(),
                    kind: Kind::Own(self.name),
                    by: Evidence::Form,
                });
            }
        }
    }
}

impl Check {
    fn passes(&self, value: &str) -> bool {
        match self {
            Check::None => true,
            Check::Luhn => checks::luhn_of(value),
            Check::Mod97 => checks::mod97_of(value),
            Check::By(check) => check(value),
        }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Check::None => "None",
            Check::Luhn => "Luhn",
            Check::Mod97 => "Mod97",
            Check::By(_) => "By",
        })
    }
}

impl fmt::Debug for Own {
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
