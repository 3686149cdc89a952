//! The chain of session heads, signed with a key that lies outside the journal.

use std::fmt;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::chain::unhex;
use crate::{Hash, NoEntropy, SessionId};

const HEAD: &str = "ringfence journal v1 head";
const FIRST: &str = "ringfence journal v1 first head";
const KEY_FORM: &str = "ringfence-journal-key-1";

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
pub struct Head {
    /// Its number among all heads, from 1.
    pub n: u64,
    /// Hash of the head before it.
    pub prev: Hash,
    /// The session whose chain the head covers.
    pub session: SessionId,
    /// Number of the session's last record when the head was made.
    pub seq: u64,
    /// Hash of that record.
    pub record: Hash,
    /// Whether the session was closed by that record.
    pub state: HeadState,
}

impl Head {
    /// The hash that is signed and that the next head links to.
    pub fn hash(&self) -> Hash {
        let state = match self.state {
            HeadState::Checkpoint => [0],
            HeadState::Closed => [1],
        };
        Hash::bound(
            HEAD,
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
    pub head: Head,
    /// ed25519 over the head's hash.
    pub signature: [u8; 64],
}

impl SignedHead {
    /// The head as one line of JSON, without the line's end.
    pub fn line(&self) -> String {
        let Head {
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
pub struct Mark {
    /// Number of the last signed head; 0 before the first.
    pub n: u64,
    /// Hash of that head, or a fixed start value before the first.
    pub hash: Hash,
}

impl Mark {
    /// The mark before any head is signed.
    pub fn start() -> Mark {
        Mark {
            n: 0,
            hash: Hash::bound(FIRST, &[]),
        }
    }

    /// The mark that follows once this head is the newest.
    pub fn after(head: &Head) -> Mark {
        Mark {
            n: head.n,
            hash: head.hash(),
        }
    }
}

/// The text is not a signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a journal key: expected `{KEY_FORM} <64 hexadecimal digits>`")]
pub struct KeyError;

/// Signs heads. The secret key is never printed.
pub struct Signer(SigningKey);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signer").field(&self.public()).finish()
    }
}

impl Signer {
    /// Generates a new key from 32 random bytes.
    pub fn generate() -> Result<Signer, NoEntropy> {
        let mut secret = [0; 32];
        NoEntropy::fill(&mut secret)?;
        Ok(Signer(SigningKey::from_bytes(&secret)))
    }

    /// The text of the key file.
    pub fn to_text(&self) -> String {
        format!("{KEY_FORM} {}\n", Hash::from(self.0.to_bytes()))
    }

    /// Reads what [`Signer::to_text`] wrote, and nothing else.
    pub fn parse(text: &str) -> Result<Signer, KeyError> {
        let digits = text
            .strip_prefix(KEY_FORM)
            .and_then(|rest| rest.strip_prefix(' '))
            .and_then(|rest| rest.strip_suffix('\n'))
            .ok_or(KeyError)?;
        let secret = unhex::<32>(digits).ok_or(KeyError)?;
        Ok(Signer(SigningKey::from_bytes(&secret)))
    }

    /// The public key that verifies this signer's heads.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs the hash of a head with the secret key.
    pub fn sign(&self, head: Head) -> SignedHead {
        let signature = self.0.sign(head.hash().as_bytes()).to_bytes();
        SignedHead { head, signature }
    }
}

/// The public key of the journal. It verifies the signatures of heads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Whether the head was signed with this key.
    pub fn signed(&self, signed: &SignedHead) -> bool {
        let signature = Signature::from_bytes(&signed.signature);
        self.0.verify_strict(signed.head.hash().as_bytes(), &signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hash::from(self.0.to_bytes()), f)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

#[cfg(test)]
mod tests;
