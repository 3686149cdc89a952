//! What a finding is: the kinds of personal data and secrets, and sets of them.

use std::fmt;

/// A kind of personal data or secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An e-mail address.
    Email,
    /// A telephone number.
    Phone,
    /// A payment card's number.
    Card,
    /// An international bank account number.
    Iban,
    /// A social security number of the United States.
    Ssn,
    /// A national number of another country.
    NationalId,
    /// An address of the internet, version 4 or 6.
    Ip,
    /// A hardware address.
    Mac,
    /// The address of a page.
    Url,
    /// A date of birth.
    BirthDate,
    /// A person's name, or what a person is known by.
    Name,
    /// A town or region.
    Place,
    /// A postal address or part of one.
    Address,
    /// A company or other body.
    Organisation,
    /// A key, an access token, a password.
    Secret,
    /// What an operator added.
    Own(Word),
}

impl Kind {
    /// Every kind but the operators' own.
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

    /// The word in an alias and in counts.
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

    /// Whether a value of this kind has a form of its own, or is any text.
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

/// The name of an operator's own kind: one to twelve lower-case letters, so that it is at home in an alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word {
    letters: [u8; Word::MOST],
    length: u8,
}

impl Word {
    const MOST: usize = 12;

    /// The name, if it is one and no kind of ours has it.
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

    /// The name.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.letters[..usize::from(self.length)]).unwrap_or("own")
    }
}

/// A set of kinds. Operators' own kinds are always in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// None but operators' own.
    pub const fn none() -> Kinds {
        Kinds(1 << 15)
    }

    /// Every kind.
    pub const fn all() -> Kinds {
        Kinds(u32::MAX)
    }

    /// This set and one kind more.
    #[must_use]
    pub fn with(self, kind: Kind) -> Kinds {
        Kinds(self.0 | kind.bit())
    }

    /// This set but for one kind.
    #[must_use]
    pub fn without(self, kind: Kind) -> Kinds {
        Kinds(self.0 & !kind.bit() | 1 << 15)
    }

    /// The kinds that one word of a policy means: `ssn` is every number that a state gives, `ip` every address of a
    /// machine, `name` all that tells who and where a person is.
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

    /// This set and another.
    #[must_use]
    pub fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Whether a kind is in it.
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
