//! The kinds of personal data and secrets, and sets of kinds.

use std::fmt;

/// A kind of personal data or secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
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
    Own(Word),
}

impl Kind {
    /// Every kind except custom ones.
    pub const ALL: [Kind; 15] = [
        Kind::Email,
        Kind::Phone,
        Kind::Card,
        Kind::Iban,
        Kind::Ssn,
        Kind::NationalId,
        Kind::Ip,
        Kind::Mac,
        Kind::Url,
        Kind::BirthDate,
        Kind::Name,
        Kind::Place,
        Kind::Address,
        Kind::Organisation,
        Kind::Secret,
    ];

    /// Returns the word for the kind in aliases and counts.
    pub fn word(&self) -> &str {
        match self {
            Kind::Email => "email",
            Kind::Phone => "phone",
            Kind::Card => "card",
            Kind::Iban => "iban",
            Kind::Ssn => "ssn",
            Kind::NationalId => "id",
            Kind::Ip => "ip",
            Kind::Mac => "mac",
            Kind::Url => "url",
            Kind::BirthDate => "born",
            Kind::Name => "name",
            Kind::Place => "place",
            Kind::Address => "address",
            Kind::Organisation => "org",
            Kind::Secret => "secret",
            Kind::Own(word) => word.as_str(),
        }
    }

    fn bit(self) -> u32 {
        match self {
            Kind::Email => 1,
            Kind::Phone => 1 << 1,
            Kind::Card => 1 << 2,
            Kind::Iban => 1 << 3,
            Kind::Ssn => 1 << 4,
            Kind::NationalId => 1 << 5,
            Kind::Ip => 1 << 6,
            Kind::Mac => 1 << 7,
            Kind::Url => 1 << 8,
            Kind::BirthDate => 1 << 9,
            Kind::Name => 1 << 10,
            Kind::Place => 1 << 11,
            Kind::Address => 1 << 12,
            Kind::Organisation => 1 << 13,
            Kind::Secret => 1 << 14,
            Kind::Own(_) => 1 << 15,
        }
    }

    /// Whether values of this kind have a form of their own, rather than being any text.
    pub(crate) fn is_structured(self) -> bool {
        !matches!(
            self,
            Kind::Name | Kind::Place | Kind::Address | Kind::Organisation | Kind::Own(_)
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// The name of a custom kind: one to twelve lower-case letters, as aliases require.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word {
    letters: [u8; Word::MOST],
    length: u8,
}

impl Word {
    const MOST: usize = 12;

    /// Returns the name if it is valid and no built-in kind has it.
    pub fn new(name: &str) -> Option<Word> {
        let fits = (1..=Word::MOST).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase());
        if !fits || name == crate::alias::LITERAL || Kind::ALL.iter().any(|kind| kind.word() == name) {
            return None;
        }
        let mut letters = [0; Word::MOST];
        letters[..name.len()].copy_from_slice(name.as_bytes());
        let length = u8::try_from(name.len()).ok()?;
        Some(Word { letters, length })
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.letters[..usize::from(self.length)]).unwrap_or("own")
    }
}

/// A set of kinds. Custom kinds are always in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// Returns a set with custom kinds only.
    pub const fn none() -> Kinds {
        Kinds(1 << 15)
    }

    /// Returns a set with every kind.
    pub const fn all() -> Kinds {
        Kinds(u32::MAX)
    }

    /// Adds one kind to the set.
    #[must_use]
    pub fn with(self, kind: Kind) -> Kinds {
        Kinds(self.0 | kind.bit())
    }

    /// Removes one kind from the set.
    #[must_use]
    pub fn without(self, kind: Kind) -> Kinds {
        Kinds(self.0 & !kind.bit() | 1 << 15)
    }

    /// Returns the kinds that one word of a policy stands for: `ssn` is every national number, `ip` every address of
    /// a machine, `name` everything that says who and where a person is.
    pub fn named(word: &str) -> Option<Kinds> {
        let kinds: &[Kind] = match word {
            "email" => &[Kind::Email],
            "phone" => &[Kind::Phone],
            "card" => &[Kind::Card],
            "iban" => &[Kind::Iban],
            "ssn" => &[Kind::Ssn, Kind::NationalId],
            "ip" => &[Kind::Ip, Kind::Mac],
            "url" => &[Kind::Url],
            "name" => &[
                Kind::Name,
                Kind::BirthDate,
                Kind::Place,
                Kind::Address,
                Kind::Organisation,
            ],
            _ => return None,
        };
        Some(kinds.iter().copied().collect())
    }

    /// Returns the union with another set.
    #[must_use]
    pub fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Whether a kind is in the set.
    pub fn has(self, kind: Kind) -> bool {
        self.0 & kind.bit() != 0
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<T: IntoIterator<Item = Kind>>(kinds: T) -> Kinds {
        kinds.into_iter().fold(Kinds::none(), Kinds::with)
    }
}

#[cfg(test)]
mod tests;
