//! Sealed data: encrypted and authenticated under a key, and bound to a context, so that it cannot be moved to another place.

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

/// The length of a key.
pub const DATA_KEY_BYTES: usize = 32;

/// Why data cannot be sealed or unsealed; it never contains any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealFault {
    /// The key does not fit, the context is another, or the data was changed.
    #[error("it was changed, or the key does not fit")]
    Damaged,
    /// The data is too long to be sealed.
    #[error("it is too long")]
    Length,
    /// The system gave no random bytes.
    #[error("the system gave no random bytes")]
    Entropy,
}

/// A key that seals and unseals data.
pub struct DataKey(LessSafeKey);

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}

impl DataKey {
    /// The key of these bytes; anything but [`DATA_KEY_BYTES`] is no key.
    pub fn new(bytes: &[u8]) -> Result<DataKey, SealFault> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).map_err(|_| SealFault::Damaged)?;
        Ok(DataKey(LessSafeKey::new(key)))
    }

    /// Seals the concatenated parts: nonce, ciphertext and tag.
    pub fn seal(&self, context: &str, parts: &[&[u8]]) -> Result<Vec<u8>, SealFault> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut sealed = Vec::with_capacity(NONCE_LEN + length + MAX_TAG_LEN);
        // 96 random bits: the number of messages under one key stays far below a likely collision.
        let nonce = random_bytes::<NONCE_LEN>()?;
        sealed.extend_from_slice(nonce.as_slice());
        for part in parts {
            sealed.extend_from_slice(part);
        }
        let (_, body) = sealed.split_at_mut(NONCE_LEN);
        let tag = self
            .0
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(*nonce),
                Aad::from(context.as_bytes()),
                body,
            )
            .map_err(|_| SealFault::Length)?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    /// Unseals data that was sealed in this context.
    pub fn unseal(&self, context: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealFault> {
        let (nonce, body) = sealed.split_at_checked(NONCE_LEN).ok_or(SealFault::Damaged)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealFault::Damaged)?;
        let mut body = Zeroizing::new(body.to_vec());
        let length = self
            .0
            .open_in_place(nonce, Aad::from(context.as_bytes()), &mut body)
            .map_err(|_| SealFault::Damaged)?
            .len();
        body.truncate(length);
        Ok(body)
    }
}

/// Random bytes of the system, for keys and salts.
pub fn random_bytes<const N: usize>() -> Result<Zeroizing<[u8; N]>, SealFault> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(|_| SealFault::Entropy)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
