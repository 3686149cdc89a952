//! What operators look for besides: an expression, and a check of what it matched.

use std::fmt;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use crate::finding::{Evidence, Finding};
use crate::kind::{Kind, Word};
use crate::scan::checks;

/// The most that a compiled expression may take.
const SIZE: usize = 1 << 20;

/// A kind of an operator's own.
#[derive(Clone)]
pub struct Own {
    name: Word,
    pattern: Regex,
    check: Check,
}

/// What a match must pass to be a finding.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Check {
    /// Nothing more.
    #[default]
    None,
    /// The checksum of payment cards, over its digits.
    Luhn,
    /// The checksum of bank accounts, over its letters and digits.
    Mod97,
    /// Anything else.
    By(Arc<dyn Fn(&str) -> bool + Send + Sync>),
}

/// Why an operator's kind cannot be looked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnError {
    /// The name would not be at home in an alias.
    #[error("`{name}` is no name for a kind: one to twelve small letters, and none that is built in")]
    Name {
        /// As given.
        name: String,
    },
    /// The expression is none, or too large.
    #[error("the pattern of `{name}` cannot be used")]
    Pattern {
        /// The kind.
        name: String,
        /// Why.
        source: Box<regex::Error>,
    },
    /// It would be found between any two letters.
    #[error("the pattern of `{name}` matches nothing at all, so it would be everywhere")]
    Empty {
        /// The kind.
        name: String,
    },
}

impl Own {
    /// A kind by its name, expression and check. Of a group called `value`, only what it matched is the finding.
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
