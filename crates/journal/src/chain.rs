//! The hash chain of one session: each record's hash covers all records before it.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Event, EventError, SessionId};

const GENESIS: &str = "ringfence journal v1 genesis";
const RECORD: &str = "ringfence journal v1 record";
/// What every record's hash begins with, made once.
static RECORDS: LazyLock<blake3::Hasher> = LazyLock::new(|| blake3::Hasher::new_derive_key(RECORD));

/// A blake3 digest, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

/// The text or bytes are not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected 64 lower-case hexadecimal digits")]
pub struct HashError;

impl Hash {
    /// The plain blake3 digest of some bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(*blake3::hash(bytes).as_bytes())
    }

    /// A digest for one purpose only, over parts of fixed length and a last one of any.
    pub(crate) fn bound(purpose: &str, parts: &[&[u8]]) -> Hash {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        for part in parts {
            hasher.update(part);
        }
        Hash(*hasher.finalize().as_bytes())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Hash {
    fn from(bytes: [u8; 32]) -> Hash {
        Hash(bytes)
    }
}

impl TryFrom<&[u8]> for Hash {
    type Error = HashError;
    fn try_from(bytes: &[u8]) -> Result<Hash, HashError> {
        bytes.try_into().map(Hash).map_err(|_| HashError)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |half: u8| DIGITS[usize::from(half & 15)];
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte)]);
        }
        f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = HashError;
    fn from_str(text: &str) -> Result<Hash, HashError> {
        unhex(text).map(Hash).ok_or(HashError)
    }
}

/// Exactly `N` bytes from lower-case hexadecimal digits.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// What the first record of a session links to: it binds the session's id.
pub fn genesis(session: SessionId) -> Hash {
    Hash::bound(GENESIS, &[session.to_string().as_bytes()])
}

/// The end of a session's chain as far as it is written: where the next record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The session.
    pub session: SessionId,
    /// Number of the last record; 0 before the first.
    pub seq: u64,
    /// Hash of the last record, or the genesis hash.
    pub hash: Hash,
}

impl Link {
    /// The chain of a session that has no record yet.
    pub fn start(session: SessionId) -> Link {
        Link {
            session,
            seq: 0,
            hash: genesis(session),
        }
    }

    /// The record that follows with this event.
    pub fn next(&self, event: &Event) -> Result<Record, EventError> {
        let json = event.canonical()?;
        let seq = self.seq + 1;
        let hash = record_hash(self.hash, seq, &json);
        Ok(Record {
            session: self.session,
            seq,
            prev: self.hash,
            json,
            hash,
        })
    }
}

/// The hash of a record from what it links to, its number and its event.
pub(crate) fn record_hash(prev: Hash, seq: u64, json: &str) -> Hash {
    let mut hasher = RECORDS.clone();
    for part in [prev.as_bytes().as_slice(), &seq.to_le_bytes(), json.as_bytes()] {
        hasher.update(part);
    }
    Hash(*hasher.finalize().as_bytes())
}

/// One event as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The session whose chain it is in.
    pub session: SessionId,
    /// Its number in the session, from 1.
    pub seq: u64,
    /// Hash of the record before it.
    pub prev: Hash,
    /// The event as canonical JSON, exactly as it was hashed.
    pub json: String,
    /// Its own hash.
    pub hash: Hash,
}

impl Record {
    /// The event, read from its text.
    pub fn event(&self) -> Result<Event, EventError> {
        Event::parse(&self.json)
    }

    /// Whether it is the next of a chain that ends so.
    pub fn follows(&self, end: Link) -> bool {
        (self.session, self.seq, self.prev) == (end.session, end.seq + 1, end.hash)
            && self.hash == record_hash(self.prev, self.seq, &self.json)
    }

    /// The end of the chain after this record.
    pub fn link(&self) -> Link {
        Link {
            session: self.session,
            seq: self.seq,
            hash: self.hash,
        }
    }

    /// The record as one line of JSON, without the line's end. The event keeps its canonical text.
    pub fn line(&self) -> String {
        format!(
            r#"{{"event":{},"hash":"{}","prev":"{}","seq":{},"session":"{}"}}"#,
            self.json, self.hash, self.prev, self.seq, self.session
        )
    }
}

#[cfg(test)]
mod tests;
