//! Ids of sessions, executions, leases, approvals and tokens, and the principals that own sessions.
//!
//! An id is a prefix and 26 characters: 48 bits of milliseconds and 80 random bits, so ids sort
//! by time, cannot be guessed and are safe in a path or URL. Nothing else parses as one.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Crockford's alphabet in lower case: no `i`, `l`, `o`, `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS: usize = 26;
const BITS_PER_DIGIT: u32 = 5;
const RANDOM_BITS: u32 = 80;

/// The text is not an id of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not {what}: expected `{expected}`")]
pub struct IdError {
    what: &'static str,
    expected: &'static str,
}

/// The operating system gave no random bytes; no id is made without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random bytes: {0}")]
pub struct NoEntropy(getrandom::Error);

impl NoEntropy {
    /// Fills `bytes` with random bytes of the operating system.
    pub fn fill(bytes: &mut [u8]) -> Result<(), NoEntropy> {
        getrandom::fill(bytes).map_err(NoEntropy)
    }
}

fn generate() -> Result<u128, NoEntropy> {
    let mut random = [0; 16];
    NoEntropy::fill(&mut random)?;
    let random = u128::from_le_bytes(random) & ((1 << RANDOM_BITS) - 1);
    // A clock before 1970 gives the lowest ids; uniqueness does not depend on it.
    let millis = u128::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
    Ok((millis & ((1 << 48) - 1)) << RANDOM_BITS | random)
}

/// The lowest id that can be generated at this time.
fn first_at(at: Timestamp) -> u128 {
    u128::try_from(at.as_millisecond()).unwrap_or(0) << RANDOM_BITS
}

/// When an id was generated, if the clock was right.
fn made(value: u128) -> Timestamp {
    let millis = i64::try_from(value >> RANDOM_BITS).unwrap_or(0);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn write(f: &mut fmt::Formatter<'_>, prefix: &str, value: u128) -> fmt::Result {
    f.write_str(prefix)?;
    let mut digits = [0; DIGITS];
    let mut rest = value;
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[usize::from(rest.to_le_bytes()[0] & 31)];
        rest >>= BITS_PER_DIGIT;
    }
    f.write_str(str::from_utf8(&digits).map_err(|_| fmt::Error)?)
}

fn parse(text: &str, prefix: &str) -> Option<u128> {
    let digits = text.strip_prefix(prefix)?.as_bytes();
    // 26 digits hold 130 bits: the first may only carry three.
    if digits.len() != DIGITS || !(b'0'..=b'7').contains(&digits[0]) {
        return None;
    }
    digits.iter().try_fold(0_u128, |value, byte| {
        let digit = ALPHABET.iter().position(|known| known == byte)?;
        Some(value << BITS_PER_DIGIT | u128::try_from(digit).ok()?)
    })
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// Generates an id from the current time and 80 random bits.
            pub fn generate() -> Result<Self, NoEntropy> {
                generate().map(Self)
            }

            /// The lowest id that can be generated at this time: all ids that sort before it are older.
            pub fn first_at(at: Timestamp) -> Self {
                Self(first_at(at))
            }

            /// When the id was generated, to the millisecond.
            pub fn created(self) -> Timestamp {
                made(self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(f, $prefix, self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(f, $prefix, self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                parse(text, $prefix).map(Self).ok_or(IdError {
                    what: $what,
                    expected: concat!($prefix, "<26 characters of 0-9 a-z>"),
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

id!(
    /// A session, the work of one user: `s_` and 26 characters.
    SessionId, "s_", "a session id"
);
id!(
    /// An execution, one run in a session: `x_` and 26 characters.
    ExecutionId, "x_", "an execution id"
);
id!(
    /// A lease, the claim of one process on the resources that it creates: `l_` and 26 characters.
    LeaseId, "l_", "a lease id"
);
id!(
    /// An approval request, one question to a person: `a_` and 26 characters.
    ApprovalId, "a_", "the id of an approval"
);
id!(
    /// An access token; the id never reveals its secret: `t_` and 26 characters.
    TokenId, "t_", "the id of an access token"
);

/// Who owns a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// A user of this machine, by number: `local:<uid>`.
    Local(u32),
    /// The holder of an access token: `token:<id>`.
    Token(TokenId),
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Local(uid) => write!(f, "local:{uid}"),
            Principal::Token(id) => write!(f, "token:{id}"),
        }
    }
}

impl FromStr for Principal {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let refuse = IdError {
            what: "a principal",
            expected: "local:<uid>` or `token:t_<26 characters of 0-9 a-z>",
        };
        if let Some(id) = text.strip_prefix("token:") {
            return id.parse().map(Principal::Token).map_err(|_| refuse);
        }
        let digits = text.strip_prefix("local:").ok_or(refuse)?;
        let uid: u32 = digits.parse().map_err(|_| refuse)?;
        // `+7` and `007` parse as numbers, but one user has exactly one name.
        if uid.to_string() == digits {
            Ok(Principal::Local(uid))
        } else {
            Err(refuse)
        }
    }
}

impl Serialize for Principal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Principal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
