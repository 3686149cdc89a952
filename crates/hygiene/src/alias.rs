//! Aliases for personal data: the same value has the same alias within a table, and an alias reveals nothing about
//! its value, about other aliases, or about their number.

mod hide_reveal;
mod known_values;
mod mask;
mod recognise;
mod table;
mod value_index;

use std::collections::BTreeMap;
use std::fmt;

pub use recognise::resembles_alias;
pub use table::{AliasOrigin, AliasTableError, Aliases, RandomnessError};

/// The kind word of text that only looked like an alias.
pub(crate) const LITERAL_WORD: &str = "text";

/// Replaces a secret, which is removed for good.
pub(crate) const SECRET_REMOVED: &str = "⟦secret removed⟧";

/// A text or value whose personal data is masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masked<T> {
    /// The masked text or value, which may be shown.
    pub shown: T,
    /// The number of findings of each kind that were masked.
    pub counts: FindingCounts,
}

/// The number of findings of each kind: what an event may contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FindingCounts(BTreeMap<String, u64>);

impl FindingCounts {
    /// Iterates over the kind words with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(word, count)| (word.as_str(), *count))
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of findings of all kinds.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Adds the counts of another text.
    pub fn add(&mut self, other: &FindingCounts) {
        for (word, count) in &other.0 {
            *self.0.entry(word.clone()).or_default() += count;
        }
    }

    pub(crate) fn increment(&mut self, word: &str) {
        match self.0.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                self.0.insert(word.to_owned(), 1);
            }
        }
    }
}

/// An alias that this table never issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownAlias {
    /// The alias as it is written in the text.
    pub alias: String,
}

impl fmt::Display for UnknownAlias {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "`{}` stands for nothing in this session: use an alias as it was shown, or a value of your own",
            self.alias
        )
    }
}

impl std::error::Error for UnknownAlias {}

#[cfg(test)]
mod tests;
