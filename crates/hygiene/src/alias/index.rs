//! Values to be found again in a text, whole: no word in a longer word, no number in a longer number. What it costs grows with the text,
//! not with how many values there are.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

use zeroize::Zeroizing;

/// Values of one beginning that are tried at one place.
const TRIES: usize = 64;
/// Bits that tell whether a value begins so.
const BITS: u32 = 1 << 16;

/// Values, and what each stands for.
pub(super) struct Index<T> {
    values: BTreeMap<Said, T>,
    begins: Vec<u64>,
    longest: usize,
}

impl<T> Default for Index<T> {
    fn default() -> Index<T> {
        Index {
            values: BTreeMap::new(),
            begins: Vec::new(),
            longest: 0,
        }
    }
}

/// A value in order of its letters, wiped when dropped.
struct Said(Zeroizing<String>);

impl Borrow<str> for Said {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Said {
    fn eq(&self, other: &Said) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Said {}

impl PartialOrd for Said {
    fn partial_cmp(&self, other: &Said) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Said {
    fn cmp(&self, other: &Said) -> std::cmp::Ordering {
        self.0.as_str().cmp(other.0.as_str())
    }
}

impl<T> Index<T> {
    /// A value; of two that are the same, the first stays.
    pub(super) fn add(&mut self, value: Zeroizing<String>, stands_for: T) {
        self.begins.resize((BITS / u64::BITS) as usize, 0);
        if let Some((word, bit)) = begin(value.as_bytes())
            && let Some(bits) = self.begins.get_mut(word)
        {
            *bits |= bit;
        }
        self.longest = self.longest.max(value.len());
        self.values.entry(Said(value)).or_insert(stands_for);
    }

    /// What a whole text stands for.
    pub(super) fn get(&self, text: &str) -> Option<&T> {
        self.values.get(text)
    }

    /// The first value in a text that begins at `from` or behind, the longest of those that begin there: where it begins and ends.
    pub(super) fn next_in(&self, text: &str, from: usize) -> Option<(usize, usize, &T)> {
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
        begin(rest).is_some_and(|(word, bit)| self.begins.get(word).is_some_and(|bits| bits & bit != 0))
    }

    /// The longest value that a text begins with. Of all values up to the text in order, the last has most in common with it.
    fn longest_at(&self, rest: &str) -> Option<(usize, &T)> {
        let mut most = rest.floor_char_boundary(self.longest);
        for _ in 0..TRIES {
            let up_to: &str = rest.get(..most)?;
            let range = (Bound::Unbounded, Bound::Included(up_to));
            let (said, stands_for) = self.values.range::<str, _>(range).next_back()?;
            let said = said.0.as_str();
            let same = said.bytes().zip(up_to.bytes()).take_while(|(one, other)| one == other);
            let same = same.count();
            if same == said.len() {
                if ends(rest, same) {
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

/// Where the bit of a beginning is.
fn begin(bytes: &[u8]) -> Option<(usize, u64)> {
    let [first, second, third, ..] = bytes else { return None };
    let three = u32::from(*first) << 16 | u32::from(*second) << 8 | u32::from(*third);
    let bit = three.wrapping_mul(0x9e37_79b1) >> (u32::BITS - BITS.ilog2());
    Some(((bit / u64::BITS) as usize, 1 << (bit % u64::BITS)))
}

/// Whether two letters are of one word or number.
fn is_joined(one: Option<char>, next: Option<char>) -> bool {
    one.is_some_and(is_spaced) && next.is_some_and(is_spaced)
}

/// Letters and digits of scripts that put something between words.
fn is_spaced(letter: char) -> bool {
    letter.is_alphanumeric() && !matches!(letter, '\u{e00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..)
}

/// Whether what comes next are the decimals of a number.
fn is_fraction(before: &str, rest: &str) -> bool {
    let digit = |letter: char| letter.is_ascii_digit();
    rest.starts_with(digit) && before.strip_suffix('.').is_some_and(|number| number.ends_with(digit))
}

/// Whether a word or number ends here.
fn ends(rest: &str, end: usize) -> bool {
    let (value, after) = rest.split_at(end);
    !is_joined(value.chars().next_back(), after.chars().next())
        && !after
            .strip_prefix('.')
            .is_some_and(|decimals| is_fraction(&rest[..=end], decimals))
}
