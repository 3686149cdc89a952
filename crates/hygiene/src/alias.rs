//! Stand-ins for personal data: the same value is the same alias within a table, and no alias says anything about its
//! value, about another, or about how many there are.

mod index;
mod known;
mod mask;
mod recognise;
mod table;
mod write;

use std::collections::BTreeMap;
use std::fmt;

pub use recognise::resembles_alias;
pub use table::{Aliases, NoRandomness, ReadError};

/// The word of what only looked like an alias.
pub(crate) const LITERAL: &str = "text";

/// What stands for a secret: it is gone for good.
pub(crate) const SECRET: &str = "⟦secret removed⟧";

/// A text whose personal data is hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden<T> {
    /// What may be shown.
    pub shown: T,
    /// How much of each kind was hidden in it.
    pub counts: Counts,
}

/// How many findings of each kind: what an event may tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// The words of kinds and how often each was found.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(word, count)| (word.as_str(), *count))
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All findings together.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Adds those of another text.
    pub fn add(&mut self, other: &Counts) {
        for (word, count) in &other.0 {
            *self.0.entry(word.clone()).or_default() += count;
        }
    }

    pub(crate) fn one(&mut self, word: &str) {
        match self.0.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                self.0.insert(word.to_owned(), 1);
            }
        }
    }
}

/// An alias that was never given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invented {
    /// As written.
    pub alias: String,
}

impl fmt::Display for Invented {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "`{}` stands for nothing in this session: use an alias as it was shown, or a value of your own",
            self.alias
        )
    }
}

impl std::error::Error for Invented {}

#[cfg(test)]
mod tests;
