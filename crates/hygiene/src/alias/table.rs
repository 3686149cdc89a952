//! The alias table of one session.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use super::known_values::KnownValues;
use crate::kind::SensitiveKind;

/// Letters of codes: without vowels, so that no code is a word, and without letters that look alike.
const CODE_LETTERS: &[u8; 27] = b"23456789bcdfghjkmnpqrstvwxz";
pub(super) const CODE_LENGTH: usize = 6;
/// Most values of a table. Findings beyond it are removed for good.
const MAX_ENTRIES: usize = 200_000;
/// Most bytes of memory that a table takes, with all its indices.
const MAX_MEMORY_BYTES: usize = 64 << 20;
/// What an entry takes besides its value: itself and its places in two maps, each just grown to twice its size.
const ENTRY_BYTES: usize = 2 * size_of::<AliasEntry>() + 70;
const TABLE_VERSION: u8 = 2;
/// The version whose entries all came from answers.
const ANSWERS_ONLY_VERSION: u8 = 1;

/// The letters that distinguish one alias from another.
pub(super) type AliasCode = [u8; CODE_LENGTH];

/// How a value is written in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum AliasValueForm {
    /// In a text or a string.
    Text,
    /// As a JSON number.
    Number,
}

/// Who said a value. The same value said by a tool and by a program has two aliases, so that a program that prints
/// guesses learns nothing about the values behind the aliases of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AliasOrigin {
    /// A tool, in its answer.
    Answer,
    /// A program that never had the values of answers.
    Program,
}

/// Everything that tells a value from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct AliasKey<'a> {
    origin: AliasOrigin,
    word: &'a str,
    form: AliasValueForm,
    value: &'a str,
}

pub(super) struct AliasEntry {
    pub(super) word: Arc<str>,
    pub(super) value: Zeroizing<Box<str>>,
    pub(super) form: AliasValueForm,
    pub(super) origin: AliasOrigin,
    pub(super) code: AliasCode,
}

impl AliasEntry {
    fn key(&self) -> AliasKey<'_> {
        AliasKey {
            origin: self.origin,
            word: &self.word,
            form: self.form,
            value: &self.value,
        }
    }
}

/// The masked values of one session and their aliases. Dropping the table forgets them; [`Aliases::to_bytes`] is for
/// callers that store it sealed.
pub struct Aliases {
    seed: Zeroizing<[u8; 32]>,
    next: u64,
    pub(super) entries: Vec<AliasEntry>,
    /// The memory that its values take.
    bytes: usize,
    /// Entries by the hashes of their keys; one whose hash is taken stands at the next free number.
    by_value: HashMap<u64, u32>,
    by_code: HashMap<AliasCode, u32>,
    words: BTreeSet<Arc<str>>,
    /// Whose values are hidden now.
    pub(super) origin: AliasOrigin,
    hasher: RandomState,
    /// How many entries were handed out to be saved.
    saved: usize,
    /// The index that finds its values in texts.
    pub(super) known: KnownValues,
}

/// The system provides no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("cannot make aliases: the system gives no random numbers")]
pub struct RandomnessError(#[source] getrandom::Error);

/// Why bytes cannot be read as a table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AliasTableError {
    /// Another version wrote the table.
    #[error("the table of aliases is of version {found}, this program reads {TABLE_VERSION}")]
    Version {
        /// The version in the bytes.
        found: u8,
    },
    /// The bytes are damaged.
    #[error("the table of aliases cannot be read")]
    Damaged,
}

#[derive(Serialize, Deserialize)]
struct StoredAliases<'a> {
    seed: [u8; 32],
    next: u64,
    #[serde(borrow)]
    entries: Vec<(&'a str, AliasValueForm, AliasCode, &'a str, AliasOrigin)>,
}

/// A table of the version whose entries all came from answers.
#[derive(Deserialize)]
struct StoredAnswerAliases<'a> {
    seed: [u8; 32],
    next: u64,
    #[serde(borrow)]
    entries: Vec<(&'a str, AliasValueForm, AliasCode, &'a str)>,
}

impl<'a> StoredAliases<'a> {
    /// Reads a part of any version.
    fn read(part: &'a [u8]) -> Result<StoredAliases<'a>, AliasTableError> {
        let (version, rest) = part.split_first().ok_or(AliasTableError::Damaged)?;
        match *version {
            TABLE_VERSION => postcard::from_bytes(rest).map_err(|_| AliasTableError::Damaged),
            ANSWERS_ONLY_VERSION => {
                let stored: StoredAnswerAliases<'_> =
                    postcard::from_bytes(rest).map_err(|_| AliasTableError::Damaged)?;
                let entries = stored.entries.into_iter();
                Ok(StoredAliases {
                    seed: stored.seed,
                    next: stored.next,
                    entries: entries
                        .map(|(word, form, code, value)| (word, form, code, value, AliasOrigin::Answer))
                        .collect(),
                })
            }
            found => Err(AliasTableError::Version { found }),
        }
    }
}

impl Aliases {
    /// Creates an empty table with a random seed.
    pub fn new() -> Result<Aliases, RandomnessError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).map_err(RandomnessError)?;
        Ok(Aliases::seeded(seed, 0))
    }

    fn seeded(seed: Zeroizing<[u8; 32]>, next: u64) -> Aliases {
        Aliases {
            seed,
            next,
            entries: Vec::new(),
            bytes: 0,
            by_value: HashMap::new(),
            by_code: HashMap::new(),
            words: BTreeSet::new(),
            origin: AliasOrigin::Answer,
            hasher: RandomState::new(),
            saved: 0,
            known: KnownValues::default(),
        }
    }

    /// Hides values of this origin from now on. Aliases of both origins are revealed.
    pub fn with_origin(&mut self, origin: AliasOrigin) -> &mut Aliases {
        self.origin = origin;
        self
    }

    /// Returns how many values it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds no values.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the unsaved entries as bytes, with values in the clear: seal and save them before anyone sees their
    /// aliases. `None` if all entries are saved.
    pub fn unsaved_bytes(&self) -> Option<Zeroizing<Vec<u8>>> {
        (self.saved < self.entries.len()).then(|| self.bytes_from(self.saved))
    }

    /// Marks all entries as saved.
    pub fn mark_saved(&mut self) {
        self.saved = self.entries.len();
    }

    /// Discards the unsaved entries, whose aliases nobody has seen.
    pub fn discard_unsaved(&mut self) {
        for entry in self.entries.drain(self.saved..) {
            self.by_code.remove(&entry.code);
            self.bytes -= entry_bytes(&entry.value);
        }
        self.known.truncate(self.saved);
        let kept = self.saved;
        // What stood at the next free number goes before what it made way for, which is older.
        self.by_value
            .retain(|_, index| usize::try_from(*index).is_ok_and(|index| index < kept));
    }

    /// Returns the table as bytes, with values in the clear: seal them before saving.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        self.bytes_from(0)
    }

    fn bytes_from(&self, from: usize) -> Zeroizing<Vec<u8>> {
        let entries = self.entries.get(from..).unwrap_or_default();
        let sizes = entries.iter().map(|entry| entry.word.len() + entry.value.len() + 32);
        // Allocated at full size, so that growing leaves no copy behind.
        let mut bytes = Zeroizing::new(vec![0; sizes.sum::<usize>() + 128]);
        let stored = StoredAliases {
            seed: *self.seed,
            next: self.next,
            entries: entries
                .iter()
                .map(|entry| (&*entry.word, entry.form, entry.code, &**entry.value, entry.origin))
                .collect(),
        };
        bytes[0] = TABLE_VERSION;
        let written = postcard::to_slice(&stored, &mut bytes[1..]).map_or(0, |written| written.len());
        bytes.truncate(written + 1);
        let mut stored = stored;
        stored.seed.zeroize();
        bytes
    }

    /// Reads a table that [`Aliases::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Aliases, AliasTableError> {
        Aliases::from_parts([bytes])
    }

    /// Reads a table from the parts that [`Aliases::unsaved_bytes`] wrote, in their order.
    pub fn from_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Aliases, AliasTableError> {
        let mut aliases: Option<Aliases> = None;
        for part in parts {
            let stored = StoredAliases::read(part)?;
            let seed = Zeroizing::new(stored.seed);
            let table = aliases.get_or_insert_with(|| Aliases::seeded(seed.clone(), 0));
            if *table.seed != *seed {
                return Err(AliasTableError::Damaged);
            }
            table.next = table.next.max(stored.next);
            for (word, form, code, value, origin) in stored.entries {
                let known = code.iter().all(|letter| CODE_LETTERS.contains(letter));
                // A part may be there twice if its writer did not learn that it was saved.
                let same = |index: &usize| &**table.entries[*index].value == value;
                if table.entry_index(word, code).as_ref().is_some_and(same) {
                    continue;
                }
                // Tables of earlier versions may have more values than a table gets now.
                if !known || table.by_code.contains_key(&code) {
                    return Err(AliasTableError::Damaged);
                }
                let key = AliasKey {
                    origin,
                    word,
                    form,
                    value,
                };
                table.insert(key, code);
            }
        }
        let mut aliases = aliases.ok_or(AliasTableError::Damaged)?;
        aliases.saved = aliases.entries.len();
        Ok(aliases)
    }

    /// Returns the code of a value, and issues one if it has none; `None` if the table is full.
    pub(super) fn code_for(&mut self, word: &str, form: AliasValueForm, value: &str) -> Option<AliasCode> {
        let key = AliasKey {
            origin: self.origin,
            word,
            form,
            value,
        };
        if let Ok(entry) = find_key(self, key) {
            return Some(entry.code);
        }
        if self.entries.len() >= MAX_ENTRIES || self.bytes + entry_bytes(value) > MAX_MEMORY_BYTES {
            return None;
        }
        let code = self.new_code();
        self.insert(key, code);
        Some(code)
    }

    /// Returns the entry that a code of this kind stands for.
    pub(super) fn entry_index(&self, word: &str, code: AliasCode) -> Option<usize> {
        let index = usize::try_from(*self.by_code.get(&code)?).ok()?;
        self.entries
            .get(index)
            .filter(|entry| entry.word.eq_ignore_ascii_case(word))
            .map(|_| index)
    }

    /// Whether a word is the kind word of an alias; unknown aliases use such words too.
    pub(super) fn has_word(&self, word: &str) -> bool {
        let small = word.to_ascii_lowercase();
        let ours = small == super::LITERAL_WORD || SensitiveKind::ALL.iter().any(|kind| kind.as_str() == small);
        ours || self.words.contains(small.as_str())
    }

    fn insert(&mut self, key: AliasKey<'_>, code: AliasCode) {
        let Ok(index) = u32::try_from(self.entries.len()) else {
            return;
        };
        if let Err(free) = find_key(self, key) {
            self.by_value.insert(free, index);
        }
        self.by_code.insert(code, index);
        let word = match self.words.get(key.word) {
            Some(word) => Arc::clone(word),
            None => Arc::from(key.word),
        };
        self.words.insert(Arc::clone(&word));
        self.bytes += entry_bytes(key.value);
        self.entries.push(AliasEntry {
            word,
            value: Zeroizing::new(Box::from(key.value)),
            form: key.form,
            origin: key.origin,
            code,
        });
    }

    /// Returns an unused code. Codes come from a keyed stream, so that none reveals another.
    fn new_code(&mut self) -> AliasCode {
        loop {
            let mut stream = blake3::Hasher::new_keyed(&self.seed)
                .update(&self.next.to_le_bytes())
                .finalize_xof();
            self.next += 1;
            let mut bytes = [0; 32];
            stream.fill(&mut bytes);
            // Using the last 13 of 256 values would favour some letters.
            let mut even = bytes
                .iter()
                .filter(|byte| **byte < 243)
                .map(|byte| CODE_LETTERS[usize::from(byte % 27)]);
            let code: AliasCode = std::array::from_fn(|_| even.next().unwrap_or(b'2'));
            if !self.by_code.contains_key(&code) {
                return code;
            }
        }
    }
}

impl fmt::Debug for Aliases {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Aliases({} values)", self.entries.len())
    }
}

/// Returns the entry of a key, or where it would stand.
fn find_key<'a>(aliases: &'a Aliases, key: AliasKey<'_>) -> Result<&'a AliasEntry, u64> {
    let mut at = aliases.hasher.hash_one(key);
    loop {
        let index = aliases.by_value.get(&at).and_then(|index| usize::try_from(*index).ok());
        match index.and_then(|index| aliases.entries.get(index)) {
            Some(entry) if entry.key() == key => return Ok(entry),
            Some(_) => at = at.wrapping_add(1),
            None => return Err(at),
        }
    }
}

/// Returns the memory that an entry takes, with what finds its value again in texts.
fn entry_bytes(value: &str) -> usize {
    ENTRY_BYTES + allocated_bytes(value.len()) + KnownValues::bytes_for(value)
}

/// Returns the memory that an allocation takes.
pub(super) fn allocated_bytes(length: usize) -> usize {
    (length + 8).next_multiple_of(16).max(32)
}

/// Returns the code letter that a byte stands for.
pub(super) fn code_letter(byte: u8) -> Option<u8> {
    let small = byte.to_ascii_lowercase();
    CODE_LETTERS.contains(&small).then_some(small)
}

#[cfg(test)]
mod tests;
