//! The chain of session heads, signed with a key that lies outside the journal.

use std::fmt;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::chain::parse_hex;
use crate::{ContentHash, NoEntropy, SessionId};

const HEAD_CONTEXT: &str = "ringfence journal v1 head";
const FIRST_HEAD_CONTEXT: &str = "ringfence journal v1 first head";
const KEY_PREFIX: &str = "ringfence-journal-key-1";

/// Whether more records may follow a head in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadState {
    /// The session continues after this head.
    Checkpoint,
    /// The session is over.
    Closed,
}

/// How far a session's chain reached, and the position of this head among all heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainHead {
    /// Its number among all heads, from 1.
    pub n: u64,
    /// Hash of the head before it.
    pub prev: ContentHash,
    /// The session whose chain the head covers.
    pub session: SessionId,
    /// Number of the session's last record when the head was made.
    pub seq: u64,
    /// Hash of that record.
    pub record: ContentHash,
    /// Whether the session was closed by that record.
    pub state: HeadState,
}

impl ChainHead {
    /// The hash that is signed and that the next head links to.
    pub fn hash(&self) -> ContentHash {
        let state = match self.state {
            HeadState::Checkpoint => [0],
            HeadState::Closed => [1],
        };
        ContentHash::for_purpose(
            HEAD_CONTEXT,
            &[
                &self.n.to_le_bytes(),
                self.prev.as_bytes(),
                &self.seq.to_le_bytes(),
                self.record.as_bytes(),
                &state,
                self.session.to_string().as_bytes(),
            ],
        )
    }
}

/// A head with its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    /// The head that the signature covers.
    pub head: ChainHead,
    /// ed25519 over the head's hash.
    pub signature: [u8; 64],
}

impl SignedHead {
    /// The head as one line of JSON, without the line's end.
    pub fn to_json_line(&self) -> String {
        let ChainHead {
            n,
            prev,
            session,
            seq,
            record,
            state,
        } = self.head;
        let state = match state {
            HeadState::Checkpoint => "checkpoint",
            HeadState::Closed => "closed",
        };
        let mut signature = String::with_capacity(128);
        for byte in self.signature {
            // Writing to a `String` cannot fail.
            let _ = fmt::Write::write_fmt(&mut signature, format_args!("{byte:02x}"));
        }
        format!(
            r#"{{"head":{{"n":{n},"prev":"{prev}","record":"{record}","seq":{seq},"session":"{session}","state":"{state}"}},"signature":"{signature}"}}"#
        )
    }
}

/// The newest signed head, stored beside the key, so that a truncated chain of heads is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadMark {
    /// Number of the last signed head; 0 before the first.
    pub n: u64,
    /// Hash of that head, or a fixed start value before the first.
    pub hash: ContentHash,
}

impl HeadMark {
    /// The mark before any head is signed.
    pub fn start() -> HeadMark {
        HeadMark {
            n: 0,
            hash: ContentHash::for_purpose(FIRST_HEAD_CONTEXT, &[]),
        }
    }

    /// The mark that follows once this head is the newest.
    pub fn after(head: &ChainHead) -> HeadMark {
        HeadMark {
            n: head.n,
            hash: head.hash(),
        }
    }
}

/// The text is not a signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a journal key: expected `{KEY_PREFIX} <64 hexadecimal digits>`")]
pub struct KeyError;

/// Signs heads. The secret key is never printed.
pub struct HeadSigner(SigningKey);

impl fmt::Debug for HeadSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signer").field(&self.public()).finish()
    }
}

impl HeadSigner {
    /// Generates a new key from 32 random bytes.
    pub fn generate() -> Result<HeadSigner, NoEntropy> {
        let mut secret = [0; 32];
        NoEntropy::fill(&mut secret)?;
        Ok(HeadSigner(SigningKey::from_bytes(&secret)))
    }

    /// The text of the key file.
    pub fn to_text(&self) -> String {
        format!("{KEY_PREFIX} {}\n", ContentHash::from(self.0.to_bytes()))
    }

    /// Reads what [`HeadSigner::to_text`] wrote, and nothing else.
    pub fn parse(text: &str) -> Result<HeadSigner, KeyError> {
        let digits = text
            .strip_prefix(KEY_PREFIX)
            .and_then(|rest| rest.strip_prefix(' '))
            .and_then(|rest| rest.strip_suffix('\n'))
            .ok_or(KeyError)?;
        let secret = parse_hex::<32>(digits).ok_or(KeyError)?;
        Ok(HeadSigner(SigningKey::from_bytes(&secret)))
    }

    /// The public key that verifies this signer's heads.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs the hash of a head with the secret key.
    pub fn sign(&self, head: ChainHead) -> SignedHead {
        let signature = self.0.sign(head.hash().as_bytes()).to_bytes();
        SignedHead { head, signature }
    }
}

/// The public key of the journal. It verifies the signatures of heads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Whether the head was signed with this key.
    pub fn has_signed(&self, signed: &SignedHead) -> bool {
        let signature = Signature::from_bytes(&signed.signature);
        self.0.verify_strict(signed.head.hash().as_bytes(), &signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&ContentHash::from(self.0.to_bytes()), f)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

#[cfg(test)]
mod tests;
