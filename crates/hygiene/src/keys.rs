//! Key hints: keys, column names and labels that state the kind of their values, and whether a value confirms it.

mod tongues;
mod whose;

use std::sync::LazyLock;

use crate::kind::Kind;
use crate::lists::Lists;
use crate::unseen::is_unseen;
pub(crate) use whose::{KeyHint, Whose};

/// What a key says about its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Telling {
    pub(crate) kind: Kind,
    pub(crate) trust: Trust,
}

/// How much a key hint is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trust {
    /// Things have such a key more often than people: `name`, `location`.
    Vague,
    /// It usually holds this kind, and sometimes something else: `owner`, `pin`, `zip`.
    Likely,
    /// It holds this kind, or nothing.
    Sure,
}

impl Telling {
    fn sure(kind: Kind) -> Telling {
        let trust = Trust::Sure;
        Telling { kind, trust }
    }

    fn likely(kind: Kind) -> Telling {
        let trust = Trust::Likely;
        Telling { kind, trust }
    }

    fn vague(kind: Kind) -> Telling {
        let trust = Trust::Vague;
        Telling { kind, trust }
    }

    pub(crate) fn is_vague(self) -> bool {
        self.trust == Trust::Vague
    }

    /// Whether the hint is trusted whatever its surroundings.
    pub(crate) fn is_sure(self) -> bool {
        self.trust == Trust::Sure
    }
}

/// Most words of a key.
const MOST: usize = 6;

/// The words of a key in lower case: `billingEmail2`, `billing_email`, `Billing e-mail`.
struct Words {
    letters: String,
    ends: [usize; MOST],
    count: usize,
}

impl Words {
    fn of(key: &str) -> Option<Words> {
        if key.is_empty() || key.len() > 48 {
            return None;
        }
        let mut words = Words {
            letters: String::with_capacity(key.len()),
            ends: [0; MOST],
            count: 0,
        };
        let mut before = ' ';
        let mut letters = key.chars().peekable();
        while let Some(letter) = letters.next() {
            if is_unseen(letter) {
                continue;
            }
            let next_small = letters.peek().is_some_and(|next| next.is_lowercase());
            let humps = letter.is_uppercase() && (before.is_lowercase() || before.is_uppercase() && next_small);
            if humps || !letter.is_alphabetic() {
                words.close()?;
            }
            if letter.is_alphabetic() {
                words.letters.extend(letter.to_lowercase());
            }
            before = letter;
        }
        words.close()?;
        (words.count > 0).then_some(words)
    }

    fn close(&mut self) -> Option<()> {
        let begun = self.count.checked_sub(1).map_or(0, |last| self.ends[last]);
        if self.letters.len() > begun {
            *self.ends.get_mut(self.count)? = self.letters.len();
            self.count += 1;
        }
        Some(())
    }

    fn get(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.letters[start..self.ends[index]]
    }

    fn last(&self) -> &str {
        self.get(self.count - 1)
    }

    fn before_last(&self) -> &str {
        self.count.checked_sub(2).map_or("", |index| self.get(index))
    }

    fn any(&self, wanted: u16) -> bool {
        self.is_any(|word| is(word, wanted))
    }

    fn is_any(&self, good: impl Fn(&str) -> bool) -> bool {
        (0..self.count).any(|index| good(self.get(index)))
    }

    fn joined(&self) -> &str {
        &self.letters
    }
}

/// Whether a word is in a list.
fn is(word: &str, list: u16) -> bool {
    WORDS.of(word) & list != 0
}

/// Returns the hint of a key; `None` if the key says nothing.
pub(crate) fn telling(key: &str) -> Option<Telling> {
    let words = Words::of(key)?;
    if let Some(telling) = whole(words.joined()) {
        return Some(telling);
    }
    let hashed = words.last() == "hash" && words.any(SECRETS);
    if words.count > 1 && !hashed && (is(words.last(), ABOUT) || is(words.get(0), FLAGS)) {
        return None;
    }
    if let Some(telling) = secret(&words) {
        return Some(telling);
    }
    let kind = match words.last() {
        "email" | "emails" | "mail" | "mailto" | "correo" | "courriel" => Kind::Email,
        "phone" | "phones" | "tel" | "telephone" | "mobile" | "cellphone" | "fax" | "msisdn" | "whatsapp"
        | "telefon" | "telefono" | "téléphone" | "teléfono" | "landline" => Kind::Phone,
        // Plans and machines have nicknames too.
        "nickname" => return Some(Telling::likely(Kind::Name)),
        "cell" | "handy" => return Some(Telling::likely(Kind::Phone)),
        "iban" => Kind::Iban,
        "ssn" | "itin" => Kind::Ssn,
        "ip" | "ipv" | "ipaddress" | "ipaddr" => Kind::Ip,
        "mac" => Kind::Mac,
        "dob" | "birthday" | "birthdate" | "geburtsdatum" | "born" => Kind::BirthDate,
        "passport" | "nino" | "pesel" | "bsn" | "cpf" | "dni" | "nif" | "aadhaar" | "curp" | "cnp" | "personnummer" => {
            Kind::NationalId
        }
        "url" | "uri" | "website" | "homepage" | "webpage" => Kind::Url,
        "surname" | "forename" | "firstname" | "lastname" | "fullname" | "username" | "vorname" | "nachname"
        | "apellido" | "apellidos" | "prénom" | "maidenname" => Kind::Name,
        "address" | "street" | "addr" | "addresses" | "postcode" | "zip" | "zipcode" | "plz" | "anschrift"
        | "adresse" | "direccion" | "dirección" | "street1" | "streetaddress" | "suburb" => return address(&words),
        "city" | "town" | "village" | "municipality" | "hometown" | "birthplace" | "stadt" | "ville" | "ciudad" => {
            return Some(Telling::likely(Kind::Place));
        }
        "employer" | "company" | "organisation" | "organization" | "companyname" => {
            return Some(Telling::likely(Kind::Organisation));
        }
        "location" | "place" | "locality" | "region" | "county" => return Some(Telling::vague(Kind::Place)),
        "name" | "names" => return name(&words),
        "user" if words.count == 1 => return Some(Telling::vague(Kind::Name)),
        last if is(last, PEOPLE) => Kind::Name,
        last if is(last, ROLES) => return Some(Telling::likely(Kind::Name)),
        _ => {
            return pairs(&words).map(Telling::sure).or_else(|| tongues::telling(&words));
        }
    };
    Some(Telling::sure(kind))
}

/// Returns the hint of compound keys with one meaning.
fn whole(joined: &str) -> Option<Telling> {
    Some(Telling::sure(match joined {
        "socialsecuritynumber" | "socialsecurity" | "ssnnumber" | "socialsecurityno" => Kind::Ssn,
        "cardnumber" | "creditcard" | "creditcardnumber" | "ccnumber" | "cardno" | "debitcard" | "debitcardnumber"
        | "paymentcard" | "ccnum" | "creditcardno" => Kind::Card,
        // A board has cards, and a camera pans.
        "card" | "pan" => return Some(Telling::likely(Kind::Card)),
        "dateofbirth" | "birthdate" | "bornon" | "dateborn" | "birthday" => Kind::BirthDate,
        "ibannumber" | "bankaccountiban" | "ibancode" => Kind::Iban,
        "macaddress" | "hardwareaddress" => Kind::Mac,
        "nationalid"
        | "nationalidnumber"
        | "taxid"
        | "taxnumber"
        | "passportnumber"
        | "passportno"
        | "idcard"
        | "idnumber"
        | "identitynumber"
        | "nationalinsurancenumber"
        | "driverslicense"
        | "driverlicense"
        | "steuerid"
        | "personalidnumber"
        | "nhsnumber" => Kind::NationalId,
        _ => return None,
    }))
}

/// Returns the kind of keys whose last word alone says nothing.
fn pairs(words: &Words) -> Option<Kind> {
    let numbered = matches!(
        words.last(),
        "number" | "no" | "num" | "nr" | "nummer" | "address" | "code" | "line"
    );
    let wanted = if numbered { words.before_last() } else { words.get(0) };
    if !numbered && words.count > 1 && words.last() != "primary" && words.last() != "work" && words.last() != "home" {
        return None;
    }
    Some(match wanted {
        "email" | "mail" => Kind::Email,
        "phone" | "telephone" | "mobile" | "cell" | "fax" | "contact" | "tel" => Kind::Phone,
        "ssn" => Kind::Ssn,
        "iban" => Kind::Iban,
        "ip" => Kind::Ip,
        "mac" => Kind::Mac,
        "zip" | "postal" | "post" | "postleit" => Kind::Address,
        _ => return None,
    })
}

/// Returns the hint of keys for secrets. `password_policy` is about one, and a `pin` may be on a plug.
fn secret(words: &Words) -> Option<Telling> {
    let last = words.last();
    if words.any(SECRETS) {
        return (is(last, SECRETS) || !is(last, BESIDE)).then_some(Telling::sure(Kind::Secret));
    }
    let numbered = words.count > 1 && matches!(last, "code" | "number" | "no" | "value" | "header");
    if is(if numbered { words.before_last() } else { last }, GUARDS) {
        let bare = words.count == 1 && last == "pin";
        return Some(if bare {
            Telling::likely(Kind::Secret)
        } else {
            Telling::sure(Kind::Secret)
        });
    }
    let sure = match last {
        "key" => matches!(words.before_last(), "api" | "access" | "auth" | "private"),
        "token" => matches!(
            words.before_last(),
            "api" | "access" | "auth" | "refresh" | "bearer" | "session" | "id"
        ),
        _ => false,
    };
    let kind = Kind::Secret;
    if sure {
        Some(Telling::sure(kind))
    } else {
        is_credential(words).then(|| Telling::vague(kind))
    }
}

/// Whether a key holds another token or key; `token` alone may count a model's tokens. A cursor for the next page is
/// not a secret: without it a program could not turn the page.
fn is_credential(words: &Words) -> bool {
    match words.last() {
        "token" => !matches!(
            words.before_last(),
            "page"
                | "next"
                | "previous"
                | "prev"
                | "continuation"
                | "continue"
                | "cursor"
                | "pagination"
                | "sync"
                | "delta"
        ),
        "key" => matches!(
            words.before_last(),
            "refresh" | "signing" | "encryption" | "bearer" | "session" | "id" | "account"
        ),
        _ => false,
    }
}

fn address(words: &Words) -> Option<Telling> {
    let kind = match words.before_last() {
        "email" | "mail" => Kind::Email,
        "ip" | "ipv" | "remote" | "client" | "source" | "destination" => Kind::Ip,
        "mac" | "hardware" | "ethernet" => Kind::Mac,
        "web" | "site" | "server" | "memory" | "contract" | "wallet" | "bind" | "listen" | "base" | "token" => {
            return None;
        }
        "" => return Some(Telling::likely(Kind::Address)),
        _ => Kind::Address,
    };
    Some(Telling::sure(kind))
}

fn name(words: &Words) -> Option<Telling> {
    if words.count == 1 {
        return Some(Telling::vague(Kind::Name));
    }
    Some(match words.before_last() {
        "street" | "road" => Telling::likely(Kind::Address),
        "city" | "town" => Telling::likely(Kind::Place),
        "place" => Telling::vague(Kind::Place),
        "company" | "organisation" | "organization" | "org" | "employer" => Telling::likely(Kind::Organisation),
        "first" | "last" | "middle" | "full" | "given" | "family" | "sur" | "nick" | "maiden" | "birth" | "legal"
        | "preferred" | "real" | "user" | "screen" | "holder" | "cardholder" => Telling::sure(Kind::Name),
        "display" | "account" => Telling::vague(Kind::Name),
        before if is(before, PEOPLE) => Telling::sure(Kind::Name),
        before if is(before, ROLES) => Telling::likely(Kind::Name),
        _ => return None,
    })
}

/// Words for people: a key that ends with one holds a name.
const PEOPLE: u16 = 1;
/// Last words of keys about a value rather than with it: `email_count`, `phone_verified`.
const ABOUT: u16 = 1 << 1;
/// First words of keys with a flag or a count.
const FLAGS: u16 = 1 << 2;
/// Words of keys that hold secrets.
const SECRETS: u16 = 1 << 3;
/// Last words of keys that hold a credential, such as a cookie or a one-time code.
const GUARDS: u16 = 1 << 7;
/// Last words of keys that are about a secret.
const BESIDE: u16 = 1 << 8;
/// Words for people that also name programs, machines and organisations.
const ROLES: u16 = 1 << 4;

static WORDS: LazyLock<Lists> = LazyLock::new(|| {
    Lists::new(&[
        (
            PEOPLE,
            "customer person patient employee assignee student teacher doctor passenger buyer attendee applicant",
        ),
        (
            PEOPLE,
            "cardholder beneficiary spouse father mother participant salutation requester organizer organiser payer payee",
        ),
        (
            ROLES,
            "client contact author reporter recipient sender owner manager guest tenant seller candidate member driver",
        ),
        (ROLES, "agent reviewer approver subscriber"),
        (
            ABOUT,
            "count id ids type status verified enabled sent at total valid format template subject body",
        ),
        (
            ABOUT,
            "length size index label hash required schema pattern field column regex version date time",
        ),
        (ABOUT, "preference"),
        (FLAGS, "has is can should allow use show num"),
        (
            SECRETS,
            "password passwords passwd pwd secret apikey passphrase passcode privatekey credential credentials passwort",
        ),
        (SECRETS, "contraseña"),
        (GUARDS, "authorization cookie cookies pin cvv cvc otp totp"),
        (
            BESIDE,
            "policy policies url uri link endpoint endpoints server servers arn name names path file ref reference",
        ),
        (
            BESIDE,
            "manager provider strength rules requirements expiry expires expiration reset hint min max method methods",
        ),
    ])
});

#[cfg(test)]
mod tests;
