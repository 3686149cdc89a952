//! The kinds of personal data and secrets, and sets of kinds.

use std::fmt;

/// A kind of personal data or secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SensitiveKind {
    /// An e-mail address, such as `ann@example.com`.
    Email,
    /// A national or international telephone number.
    Phone,
    /// The number of a payment card.
    Card,
    /// An international bank account number (IBAN).
    Iban,
    /// A social security number of the United States.
    Ssn,
    /// A national identification number of another country.
    NationalId,
    /// An IP address, version 4 or 6.
    Ip,
    /// A MAC address of a device.
    Mac,
    /// The URL of a page.
    Url,
    /// A person's date of birth.
    BirthDate,
    /// A person's name, or another name that a person is known by.
    Name,
    /// A town or region.
    Place,
    /// A postal address or a part of one.
    Address,
    /// A company or other organisation.
    Organisation,
    /// A key, an access token or a password.
    Secret,
    /// A custom kind of the operator.
    Custom(CustomKindName),
}

impl SensitiveKind {
    /// Every kind except custom ones.
    pub const ALL: [SensitiveKind; 15] = [
        SensitiveKind::Email,
        SensitiveKind::Phone,
        SensitiveKind::Card,
        SensitiveKind::Iban,
        SensitiveKind::Ssn,
        SensitiveKind::NationalId,
        SensitiveKind::Ip,
        SensitiveKind::Mac,
        SensitiveKind::Url,
        SensitiveKind::BirthDate,
        SensitiveKind::Name,
        SensitiveKind::Place,
        SensitiveKind::Address,
        SensitiveKind::Organisation,
        SensitiveKind::Secret,
    ];

    /// Returns the word for the kind in aliases and counts.
    pub fn as_str(&self) -> &str {
        match self {
            SensitiveKind::Email => "email",
            SensitiveKind::Phone => "phone",
            SensitiveKind::Card => "card",
            SensitiveKind::Iban => "iban",
            SensitiveKind::Ssn => "ssn",
            SensitiveKind::NationalId => "id",
            SensitiveKind::Ip => "ip",
            SensitiveKind::Mac => "mac",
            SensitiveKind::Url => "url",
            SensitiveKind::BirthDate => "born",
            SensitiveKind::Name => "name",
            SensitiveKind::Place => "place",
            SensitiveKind::Address => "address",
            SensitiveKind::Organisation => "org",
            SensitiveKind::Secret => "secret",
            SensitiveKind::Custom(word) => word.as_str(),
        }
    }

    fn bit(self) -> u32 {
        match self {
            SensitiveKind::Email => 1,
            SensitiveKind::Phone => 1 << 1,
            SensitiveKind::Card => 1 << 2,
            SensitiveKind::Iban => 1 << 3,
            SensitiveKind::Ssn => 1 << 4,
            SensitiveKind::NationalId => 1 << 5,
            SensitiveKind::Ip => 1 << 6,
            SensitiveKind::Mac => 1 << 7,
            SensitiveKind::Url => 1 << 8,
            SensitiveKind::BirthDate => 1 << 9,
            SensitiveKind::Name => 1 << 10,
            SensitiveKind::Place => 1 << 11,
            SensitiveKind::Address => 1 << 12,
            SensitiveKind::Organisation => 1 << 13,
            SensitiveKind::Secret => 1 << 14,
            SensitiveKind::Custom(_) => 1 << 15,
        }
    }

    /// Whether values of this kind have a form of their own, rather than being any text.
    pub(crate) fn is_structured(self) -> bool {
        !matches!(
            self,
            SensitiveKind::Name
                | SensitiveKind::Place
                | SensitiveKind::Address
                | SensitiveKind::Organisation
                | SensitiveKind::Custom(_)
        )
    }
}

impl fmt::Display for SensitiveKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The name of a custom kind: one to twelve lower-case letters, as aliases require.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomKindName {
    letters: [u8; CustomKindName::MAX_LENGTH],
    length: u8,
}

impl CustomKindName {
    const MAX_LENGTH: usize = 12;

    /// Returns the name if it is valid and no built-in kind has it.
    pub fn new(name: &str) -> Option<CustomKindName> {
        let fits = (1..=CustomKindName::MAX_LENGTH).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase());
        if !fits || name == crate::alias::LITERAL_WORD || SensitiveKind::ALL.iter().any(|kind| kind.as_str() == name) {
            return None;
        }
        let mut letters = [0; CustomKindName::MAX_LENGTH];
        letters[..name.len()].copy_from_slice(name.as_bytes());
        let length = u8::try_from(name.len()).ok()?;
        Some(CustomKindName { letters, length })
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.letters[..usize::from(self.length)]).unwrap_or("own")
    }
}

/// A set of kinds. Custom kinds are always in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SensitiveKinds(u32);

impl SensitiveKinds {
    /// Returns a set with custom kinds only.
    pub const fn none() -> SensitiveKinds {
        SensitiveKinds(1 << 15)
    }

    /// Returns a set with every kind.
    pub const fn all() -> SensitiveKinds {
        SensitiveKinds(u32::MAX)
    }

    /// Adds one kind to the set.
    #[must_use]
    pub fn with(self, kind: SensitiveKind) -> SensitiveKinds {
        SensitiveKinds(self.0 | kind.bit())
    }

    /// Removes one kind from the set.
    #[must_use]
    pub fn without(self, kind: SensitiveKind) -> SensitiveKinds {
        SensitiveKinds(self.0 & !kind.bit() | 1 << 15)
    }

    /// Returns the kinds that one word of a policy stands for: `ssn` is every national number, `ip` every address of
    /// a machine, `name` everything that says who and where a person is.
    pub fn from_policy_name(word: &str) -> Option<SensitiveKinds> {
        let kinds: &[SensitiveKind] = match word {
            "email" => &[SensitiveKind::Email],
            "phone" => &[SensitiveKind::Phone],
            "card" => &[SensitiveKind::Card],
            "iban" => &[SensitiveKind::Iban],
            "ssn" => &[SensitiveKind::Ssn, SensitiveKind::NationalId],
            "ip" => &[SensitiveKind::Ip, SensitiveKind::Mac],
            "url" => &[SensitiveKind::Url],
            "name" => &[
                SensitiveKind::Name,
                SensitiveKind::BirthDate,
                SensitiveKind::Place,
                SensitiveKind::Address,
                SensitiveKind::Organisation,
            ],
            _ => return None,
        };
        Some(kinds.iter().copied().collect())
    }

    /// Returns the union with another set.
    #[must_use]
    pub fn union(self, other: SensitiveKinds) -> SensitiveKinds {
        SensitiveKinds(self.0 | other.0)
    }

    /// Whether a kind is in the set.
    pub fn contains(self, kind: SensitiveKind) -> bool {
        self.0 & kind.bit() != 0
    }
}

impl FromIterator<SensitiveKind> for SensitiveKinds {
    fn from_iter<T: IntoIterator<Item = SensitiveKind>>(kinds: T) -> SensitiveKinds {
        kinds.into_iter().fold(SensitiveKinds::none(), SensitiveKinds::with)
    }
}

#[cfg(test)]
mod tests;
