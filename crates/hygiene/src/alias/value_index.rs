//! An index of values that finds them in a text as whole words or numbers, not as parts of longer ones. The cost
//! grows with the text, not with the number of values.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

use zeroize::Zeroizing;

/// Most values with one prefix that are tried at one position.
const MAX_TRIES: usize = 64;
/// Bits of the filter that tells whether a value has a prefix.
const PREFIX_BITS: u32 = 1 << 16;

/// Maps values to what they stand for.
pub(super) struct ValueIndex<T> {
    values: BTreeMap<OrderedValue, T>,
    begins: Vec<u64>,
    longest: usize,
}

impl<T> Default for ValueIndex<T> {
    fn default() -> ValueIndex<T> {
        ValueIndex {
            values: BTreeMap::new(),
            begins: Vec::new(),
            longest: 0,
        }
    }
}

/// A value ordered by its letters, wiped when dropped.
struct OrderedValue(Zeroizing<Box<str>>);

impl Borrow<str> for OrderedValue {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq for OrderedValue {
    fn eq(&self, other: &OrderedValue) -> bool {
        **self.0 == **other.0
    }
}

impl Eq for OrderedValue {}

impl PartialOrd for OrderedValue {
    fn partial_cmp(&self, other: &OrderedValue) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedValue {
    fn cmp(&self, other: &OrderedValue) -> std::cmp::Ordering {
        (**self.0).cmp(&**other.0)
    }
}

impl<T> ValueIndex<T> {
    /// Adds a value; of two equal values the first stays.
    pub(super) fn add(&mut self, value: Zeroizing<Box<str>>, stands_for: T) {
        self.begins.resize((PREFIX_BITS / u64::BITS) as usize, 0);
        if let Some((word, bit)) = prefix_bit(value.as_bytes())
            && let Some(bits) = self.begins.get_mut(word)
        {
            *bits |= bit;
        }
        self.longest = self.longest.max(value.len());
        self.values.entry(OrderedValue(value)).or_insert(stands_for);
    }

    /// Returns what a whole text stands for.
    pub(super) fn get(&self, text: &str) -> Option<&T> {
        self.values.get(text)
    }

    /// Finds the first value at or after `from`, the longest of those that begin there. Returns its start and its
    /// end.
    pub(super) fn find_next(&self, text: &str, from: usize) -> Option<(usize, usize, &T)> {
        if self.values.is_empty() {
            return None;
        }
        let behind = text.get(from..)?;
        behind.char_indices().find_map(|(at, letter)| {
            let start = from + at;
            let rest = text.get(start..).filter(|rest| self.may_begin(rest.as_bytes()))?;
            let before = text.get(..start).unwrap_or_default();
            if is_joined(before.chars().next_back(), Some(letter)) || is_fraction(before, rest) {
                return None;
            }
            let (length, stands_for) = self.longest_at(rest)?;
            Some((start, start + length, stands_for))
        })
    }

    fn may_begin(&self, rest: &[u8]) -> bool {
        prefix_bit(rest).is_some_and(|(word, bit)| self.begins.get(word).is_some_and(|bits| bits & bit != 0))
    }

    /// Finds the longest value that is a prefix of the text. Of all values up to the text in order, the last shares
    /// the longest prefix with it.
    fn longest_at(&self, rest: &str) -> Option<(usize, &T)> {
        let mut most = rest.floor_char_boundary(self.longest);
        for _ in 0..MAX_TRIES {
            let up_to: &str = rest.get(..most)?;
            let range = (Bound::Unbounded, Bound::Included(up_to));
            let (said, stands_for) = self.values.range::<str, _>(range).next_back()?;
            let said: &str = &said.0;
            let same = said.bytes().zip(up_to.bytes()).take_while(|(one, other)| one == other);
            let same = same.count();
            if same == said.len() {
                if is_word_end(rest, same) {
                    return Some((same, stands_for));
                }
                most = rest.floor_char_boundary(same.checked_sub(1)?);
            } else {
                most = rest.floor_char_boundary(same);
            }
        }
        None
    }
}

/// Returns the position of a prefix's bit in the filter.
fn prefix_bit(bytes: &[u8]) -> Option<(usize, u64)> {
    let [first, second, third, ..] = bytes else { return None };
    let three = u32::from(*first) << 16 | u32::from(*second) << 8 | u32::from(*third);
    let bit = three.wrapping_mul(0x9e37_79b1) >> (u32::BITS - PREFIX_BITS.ilog2());
    Some(((bit / u64::BITS) as usize, 1 << (bit % u64::BITS)))
}

/// Whether two letters belong to one word or number.
fn is_joined(one: Option<char>, next: Option<char>) -> bool {
    one.is_some_and(is_spaced) && next.is_some_and(is_spaced)
}

/// Whether a letter or digit belongs to a script that separates words.
fn is_spaced(letter: char) -> bool {
    letter.is_alphanumeric() && !matches!(letter, '\u{e00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..)
}

/// Whether the decimals of a number come next.
fn is_fraction(before: &str, rest: &str) -> bool {
    let digit = |letter: char| letter.is_ascii_digit();
    rest.starts_with(digit) && before.strip_suffix('.').is_some_and(|number| number.ends_with(digit))
}

/// Whether a word or number ends here.
fn is_word_end(rest: &str, end: usize) -> bool {
    let (value, after) = rest.split_at(end);
    !is_joined(value.chars().next_back(), after.chars().next())
        && !after
            .strip_prefix('.')
            .is_some_and(|decimals| is_fraction(&rest[..=end], decimals))
}
