//! The hash chain of one session: each record's hash covers all records before it.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Event, EventError, SessionId};

const GENESIS_CONTEXT: &str = "ringfence journal v1 genesis";
const RECORD_CONTEXT: &str = "ringfence journal v1 record";
/// The hasher state after the record context, computed once and cloned for every record.
static RECORD_HASHER: LazyLock<blake3::Hasher> = LazyLock::new(|| blake3::Hasher::new_derive_key(RECORD_CONTEXT));

/// A blake3 digest, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

/// The text or bytes are not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected 64 lower-case hexadecimal digits")]
pub struct ContentHashError;

impl ContentHash {
    /// The plain blake3 digest of some bytes.
    pub fn digest(bytes: &[u8]) -> ContentHash {
        ContentHash(*blake3::hash(bytes).as_bytes())
    }

    /// A digest bound to one purpose: all parts but the last must have a fixed length.
    pub(crate) fn for_purpose(purpose: &str, parts: &[&[u8]]) -> ContentHash {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        for part in parts {
            hasher.update(part);
        }
        ContentHash(*hasher.finalize().as_bytes())
    }

    /// The 32 raw bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for ContentHash {
    fn from(bytes: [u8; 32]) -> ContentHash {
        ContentHash(bytes)
    }
}

impl TryFrom<&[u8]> for ContentHash {
    type Error = ContentHashError;
    fn try_from(bytes: &[u8]) -> Result<ContentHash, ContentHashError> {
        bytes.try_into().map(ContentHash).map_err(|_| ContentHashError)
    }
}

impl fmt::Display for ContentHash {
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

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentHash {
    type Err = ContentHashError;
    fn from_str(text: &str) -> Result<ContentHash, ContentHashError> {
        parse_hex(text).map(ContentHash).ok_or(ContentHashError)
    }
}

/// Exactly `N` bytes from lower-case hexadecimal digits.
pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = parse_nibble(pair[0])? << 4 | parse_nibble(pair[1])?;
    }
    Some(bytes)
}

fn parse_nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The `prev` hash of a session's first record. It binds the session's id.
pub fn genesis_hash(session: SessionId) -> ContentHash {
    ContentHash::for_purpose(GENESIS_CONTEXT, &[session.to_string().as_bytes()])
}

/// The tip of a session's chain: the position after which the next record is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainTip {
    /// The session whose chain this is the tip of.
    pub session: SessionId,
    /// Number of the last record; 0 before the first.
    pub seq: u64,
    /// Hash of the last record, or the genesis hash.
    pub hash: ContentHash,
}

impl ChainTip {
    /// The chain of a session that has no record yet.
    pub fn start(session: SessionId) -> ChainTip {
        ChainTip {
            session,
            seq: 0,
            hash: genesis_hash(session),
        }
    }

    /// The record that appends this event to the chain.
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

/// The hash of a record, computed from the previous hash, its number and its event.
pub(crate) fn record_hash(prev: ContentHash, seq: u64, json: &str) -> ContentHash {
    let mut hasher = RECORD_HASHER.clone();
    for part in [prev.as_bytes().as_slice(), &seq.to_le_bytes(), json.as_bytes()] {
        hasher.update(part);
    }
    ContentHash(*hasher.finalize().as_bytes())
}

/// One event as it is stored in the chain of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The session whose chain it is in.
    pub session: SessionId,
    /// Its number in the session, from 1.
    pub seq: u64,
    /// Hash of the record before it.
    pub prev: ContentHash,
    /// The event as canonical JSON, exactly as it was hashed.
    pub json: String,
    /// Hash over `prev`, `seq` and `json`.
    pub hash: ContentHash,
}

impl Record {
    /// Parses the event from its canonical text.
    pub fn event(&self) -> Result<Event, EventError> {
        Event::parse(&self.json)
    }

    /// Whether this record is the valid successor of a chain that ends at `end`.
    pub fn follows(&self, end: ChainTip) -> bool {
        (self.session, self.seq, self.prev) == (end.session, end.seq + 1, end.hash)
            && self.hash == record_hash(self.prev, self.seq, &self.json)
    }

    /// The tip of the chain after this record.
    pub fn tip(&self) -> ChainTip {
        ChainTip {
            session: self.session,
            seq: self.seq,
            hash: self.hash,
        }
    }

    /// The record as one line of JSON, without the line's end. The event keeps its canonical text.
    pub fn to_json_line(&self) -> String {
        format!(
            r#"{{"event":{},"hash":"{}","prev":"{}","seq":{},"session":"{}"}}"#,
            self.json, self.hash, self.prev, self.seq, self.session
        )
    }
}

#[cfg(test)]
mod tests;
