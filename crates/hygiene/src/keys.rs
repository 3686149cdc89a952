//! Key hints: keys, column names and labels that state the kind of their values, and whether a value confirms it.

mod languages;
mod name_owner;

use std::sync::LazyLock;

use crate::kind::SensitiveKind;
use crate::word_lists::WordLists;
use crate::zero_width::is_invisible;
pub(crate) use name_owner::{NameOwner, NameOwnerHint};

/// What a key says about its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHint {
    pub(crate) kind: SensitiveKind,
    pub(crate) trust: HintTrust,
}

/// How much a key hint is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HintTrust {
    /// Things have such a key more often than people: `name`, `location`.
    Vague,
    /// It usually holds this kind, and sometimes something else: `owner`, `pin`, `zip`.
    Likely,
    /// It holds this kind, unless its value plainly is something else.
    SureUnless(OtherMeaning),
    /// It holds this kind, or nothing.
    Sure,
}

/// What else a key may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OtherMeaning {
    /// The folder that a program works in: `PWD=/workspace`.
    Folder,
    /// Words: `{"cookie": "chocolate chip"}`.
    Words,
}

impl KeyHint {
    fn sure(kind: SensitiveKind) -> KeyHint {
        let trust = HintTrust::Sure;
        KeyHint { kind, trust }
    }

    fn likely(kind: SensitiveKind) -> KeyHint {
        let trust = HintTrust::Likely;
        KeyHint { kind, trust }
    }

    fn vague(kind: SensitiveKind) -> KeyHint {
        let trust = HintTrust::Vague;
        KeyHint { kind, trust }
    }

    pub(crate) fn is_vague(self) -> bool {
        self.trust == HintTrust::Vague
    }

    /// Whether the hint is trusted whatever its surroundings.
    pub(crate) fn is_sure(self) -> bool {
        matches!(self.trust, HintTrust::Sure | HintTrust::SureUnless(_))
    }

    /// Whether the value decides, although the key is sure.
    pub(crate) fn has_exception(self) -> bool {
        matches!(self.trust, HintTrust::SureUnless(_))
    }
}

/// Most words of a key.
const MAX_KEY_WORDS: usize = 6;

/// The words of a key in lower case: `billingEmail2`, `billing_email`, `Billing e-mail`.
struct KeyWords {
    letters: String,
    ends: [usize; MAX_KEY_WORDS],
    count: usize,
}

impl KeyWords {
    fn split(key: &str) -> Option<KeyWords> {
        if key.is_empty() || key.len() > 48 {
            return None;
        }
        let mut words = KeyWords {
            letters: String::with_capacity(key.len()),
            ends: [0; MAX_KEY_WORDS],
            count: 0,
        };
        let mut before = ' ';
        let mut letters = key.chars().peekable();
        while let Some(letter) = letters.next() {
            if is_invisible(letter) {
                continue;
            }
            let next_small = letters.peek().is_some_and(|next| next.is_lowercase());
            let humps = letter.is_uppercase() && (before.is_lowercase() || before.is_uppercase() && next_small);
            if humps || !letter.is_alphabetic() {
                words.end_word()?;
            }
            if letter.is_alphabetic() {
                words.letters.extend(letter.to_lowercase());
            }
            before = letter;
        }
        words.end_word()?;
        (words.count > 0).then_some(words)
    }

    fn end_word(&mut self) -> Option<()> {
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
        self.is_any(|word| is_in_list(word, wanted))
    }

    fn is_any(&self, good: impl Fn(&str) -> bool) -> bool {
        (0..self.count).any(|index| good(self.get(index)))
    }

    fn joined(&self) -> &str {
        &self.letters
    }
}

/// Whether a word is in a list.
fn is_in_list(word: &str, list: u16) -> bool {
    WORD_LISTS.flags(word) & list != 0
}

/// Returns the hint of a key; `None` if the key says nothing.
pub(crate) fn key_hint(key: &str) -> Option<KeyHint> {
    let words = KeyWords::split(key)?;
    if let Some(telling) = compound_key_hint(words.joined()) {
        return Some(telling);
    }
    let hashed = words.last() == "hash" && words.any(SECRET_WORDS);
    if words.count > 1 && !hashed && (is_in_list(words.last(), METADATA_WORDS) || is_in_list(words.get(0), FLAG_WORDS))
    {
        return None;
    }
    if let Some(telling) = secret_hint(&words) {
        return Some(telling);
    }
    let kind = match words.last() {
        "email" | "emails" | "mail" | "mailto" | "correo" | "courriel" => SensitiveKind::Email,
        "phone" | "phones" | "tel" | "telephone" | "mobile" | "cellphone" | "fax" | "msisdn" | "whatsapp"
        | "telefon" | "telefono" | "téléphone" | "teléfono" | "landline" => SensitiveKind::Phone,
        // Plans and machines have nicknames too.
        "nickname" => return Some(KeyHint::likely(SensitiveKind::Name)),
        "cell" | "handy" => return Some(KeyHint::likely(SensitiveKind::Phone)),
        "iban" => SensitiveKind::Iban,
        "ssn" | "itin" => SensitiveKind::Ssn,
        "ip" | "ipv" | "ipaddress" | "ipaddr" => SensitiveKind::Ip,
        "mac" => SensitiveKind::Mac,
        "dob" | "birthday" | "birthdate" | "geburtsdatum" | "born" => SensitiveKind::BirthDate,
        "passport" | "nino" | "pesel" | "bsn" | "cpf" | "dni" | "nif" | "aadhaar" | "curp" | "cnp" | "personnummer" => {
            SensitiveKind::NationalId
        }
        "url" | "uri" | "website" | "homepage" | "webpage" => SensitiveKind::Url,
        "surname" | "forename" | "firstname" | "lastname" | "fullname" | "username" | "vorname" | "nachname"
        | "apellido" | "apellidos" | "prénom" | "maidenname" => SensitiveKind::Name,
        "address" | "street" | "addr" | "addresses" | "postcode" | "zip" | "zipcode" | "plz" | "anschrift"
        | "adresse" | "direccion" | "dirección" | "street1" | "streetaddress" | "suburb" => {
            return address_hint(&words);
        }
        "city" | "town" | "village" | "municipality" | "hometown" | "birthplace" | "stadt" | "ville" | "ciudad" => {
            return Some(KeyHint::likely(SensitiveKind::Place));
        }
        "employer" | "company" | "organisation" | "organization" | "companyname" => {
            return Some(KeyHint::likely(SensitiveKind::Organisation));
        }
        "location" | "place" | "locality" | "region" | "county" => return Some(KeyHint::vague(SensitiveKind::Place)),
        "name" | "names" => return name_hint(&words),
        "user" if words.count == 1 => return Some(KeyHint::vague(SensitiveKind::Name)),
        last if is_in_list(last, PERSON_WORDS) => SensitiveKind::Name,
        last if is_in_list(last, ROLE_WORDS) => return Some(KeyHint::likely(SensitiveKind::Name)),
        _ => {
            return word_pair_kind(&words)
                .map(KeyHint::sure)
                .or_else(|| languages::foreign_key_hint(&words));
        }
    };
    Some(KeyHint::sure(kind))
}

/// Whether a value is the label of a field of this kind in a form: `Passwort`, `Vorname`, `E-Mail`. A password may be
/// the word itself, but is hardly written with one capital.
pub(crate) fn is_label(value: &str, kind: SensitiveKind) -> bool {
    let begun = value.chars().next().is_some_and(char::is_uppercase);
    let plain = value
        .chars()
        .all(|letter| letter.is_alphabetic() || matches!(letter, ' ' | '-'));
    let Some(words) = KeyWords::split(value).filter(|words| begun && plain && words.count <= 3) else {
        return false;
    };
    let fits = match kind {
        SensitiveKind::Secret => words.count == 1 && value.chars().skip(1).all(char::is_lowercase),
        SensitiveKind::Name => {
            let last = words.last();
            ["name", "naam", "nome"].iter().any(|end| last.ends_with(end))
                || matches!(
                    last,
                    "prenom" | "prénom" | "apellido" | "apellidos" | "imie" | "nazwisko"
                )
        }
        SensitiveKind::Email
        | SensitiveKind::Phone
        | SensitiveKind::Card
        | SensitiveKind::Iban
        | SensitiveKind::Ssn
        | SensitiveKind::NationalId
        | SensitiveKind::Ip
        | SensitiveKind::Mac
        | SensitiveKind::Url
        | SensitiveKind::BirthDate
        | SensitiveKind::Place
        | SensitiveKind::Address
        | SensitiveKind::Organisation
        | SensitiveKind::Custom(_) => false,
    };
    fits && key_hint(value).is_some_and(|telling| telling.kind == kind)
}

/// Returns the hint of compound keys with one meaning.
fn compound_key_hint(joined: &str) -> Option<KeyHint> {
    Some(KeyHint::sure(match joined {
        "socialsecuritynumber" | "socialsecurity" | "ssnnumber" | "socialsecurityno" => SensitiveKind::Ssn,
        "cardnumber" | "creditcard" | "creditcardnumber" | "ccnumber" | "cardno" | "debitcard" | "debitcardnumber"
        | "paymentcard" | "ccnum" | "creditcardno" => SensitiveKind::Card,
        // A board has cards, and a camera pans.
        "card" | "pan" => return Some(KeyHint::likely(SensitiveKind::Card)),
        "dateofbirth" | "birthdate" | "bornon" | "dateborn" | "birthday" => SensitiveKind::BirthDate,
        "ibannumber" | "bankaccountiban" | "ibancode" => SensitiveKind::Iban,
        "macaddress" | "hardwareaddress" => SensitiveKind::Mac,
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
        | "nhsnumber" => SensitiveKind::NationalId,
        _ => return None,
    }))
}

/// Returns the kind of keys whose last word alone says nothing.
fn word_pair_kind(words: &KeyWords) -> Option<SensitiveKind> {
    let numbered = matches!(
        words.last(),
        "number" | "no" | "num" | "nr" | "nummer" | "address" | "code" | "line"
    );
    let wanted = if numbered { words.before_last() } else { words.get(0) };
    if !numbered && words.count > 1 && words.last() != "primary" && words.last() != "work" && words.last() != "home" {
        return None;
    }
    Some(match wanted {
        "email" | "mail" => SensitiveKind::Email,
        "phone" | "telephone" | "mobile" | "cell" | "fax" | "contact" | "tel" => SensitiveKind::Phone,
        "ssn" => SensitiveKind::Ssn,
        "iban" => SensitiveKind::Iban,
        "ip" => SensitiveKind::Ip,
        "mac" => SensitiveKind::Mac,
        "zip" | "postal" | "post" | "postleit" => SensitiveKind::Address,
        _ => return None,
    })
}

/// Returns the hint of keys for secrets. `password_policy` is about one, and a `pin` may be on a plug.
fn secret_hint(words: &KeyWords) -> Option<KeyHint> {
    let last = words.last();
    let unless = |meaning: OtherMeaning| KeyHint {
        kind: SensitiveKind::Secret,
        trust: HintTrust::SureUnless(meaning),
    };
    if words.joined() == "pwd" {
        return Some(unless(OtherMeaning::Folder));
    }
    if words.any(SECRET_WORDS) {
        return (is_in_list(last, SECRET_WORDS) || !is_in_list(last, ABOUT_SECRET_WORDS))
            .then_some(KeyHint::sure(SensitiveKind::Secret));
    }
    let numbered = words.count > 1 && matches!(last, "code" | "number" | "no" | "value" | "header");
    if is_in_list(if numbered { words.before_last() } else { last }, CREDENTIAL_WORDS) {
        let plug = last == "pin" && (words.count == 1 || is_in_list(words.before_last(), HARDWARE_WORDS));
        return Some(if plug {
            KeyHint::likely(SensitiveKind::Secret)
        } else if matches!(words.joined(), "cookie" | "cookies") {
            unless(OtherMeaning::Words)
        } else {
            KeyHint::sure(SensitiveKind::Secret)
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
    let kind = SensitiveKind::Secret;
    if sure {
        Some(KeyHint::sure(kind))
    } else {
        is_credential(words).then(|| KeyHint::vague(kind))
    }
}

/// Whether a key holds another token or key; `token` alone may count a model's tokens. A cursor for the next page is
/// not a secret: without it a program could not turn the page.
fn is_credential(words: &KeyWords) -> bool {
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

fn address_hint(words: &KeyWords) -> Option<KeyHint> {
    let kind = match words.before_last() {
        "email" | "mail" => SensitiveKind::Email,
        "ip" | "ipv" | "remote" | "client" | "source" | "destination" => SensitiveKind::Ip,
        "mac" | "hardware" | "ethernet" => SensitiveKind::Mac,
        "web" | "site" | "server" | "memory" | "contract" | "wallet" | "bind" | "listen" | "base" | "token" => {
            return None;
        }
        "" => return Some(KeyHint::likely(SensitiveKind::Address)),
        _ => SensitiveKind::Address,
    };
    Some(KeyHint::sure(kind))
}

fn name_hint(words: &KeyWords) -> Option<KeyHint> {
    if words.count == 1 {
        return Some(KeyHint::vague(SensitiveKind::Name));
    }
    Some(match words.before_last() {
        "street" | "road" => KeyHint::likely(SensitiveKind::Address),
        "city" | "town" => KeyHint::likely(SensitiveKind::Place),
        "place" => KeyHint::vague(SensitiveKind::Place),
        "company" | "organisation" | "organization" | "org" | "employer" => {
            KeyHint::likely(SensitiveKind::Organisation)
        }
        "first" | "last" | "middle" | "full" | "given" | "family" | "sur" | "nick" | "maiden" | "birth" | "legal"
        | "preferred" | "real" | "user" | "screen" | "holder" | "cardholder" => KeyHint::sure(SensitiveKind::Name),
        "display" | "account" => KeyHint::vague(SensitiveKind::Name),
        before if is_in_list(before, PERSON_WORDS) => KeyHint::sure(SensitiveKind::Name),
        before if is_in_list(before, ROLE_WORDS) => KeyHint::likely(SensitiveKind::Name),
        _ => return None,
    })
}

/// Words for people: a key that ends with one holds a name.
const PERSON_WORDS: u16 = 1;
/// Last words of keys about a value rather than with it: `email_count`, `phone_verified`.
const METADATA_WORDS: u16 = 1 << 1;
/// First words of keys with a flag or a count.
const FLAG_WORDS: u16 = 1 << 2;
/// Words of keys that hold secrets.
const SECRET_WORDS: u16 = 1 << 3;
/// Last words of keys that hold a credential, such as a cookie or a one-time code.
const CREDENTIAL_WORDS: u16 = 1 << 7;
/// Last words of keys that are about a secret.
const ABOUT_SECRET_WORDS: u16 = 1 << 8;
/// Words for what is connected to a pin of a board.
const HARDWARE_WORDS: u16 = 1 << 5;
/// Words for people that also name programs, machines and organisations.
const ROLE_WORDS: u16 = 1 << 4;

static WORD_LISTS: LazyLock<WordLists> = LazyLock::new(|| {
    WordLists::new(&[
        (
            PERSON_WORDS,
            "customer person patient employee assignee student teacher doctor passenger buyer attendee applicant",
        ),
        (
            PERSON_WORDS,
            "cardholder beneficiary spouse father mother participant salutation requester organizer organiser payer payee",
        ),
        (
            ROLE_WORDS,
            "client contact author reporter recipient sender owner manager guest tenant seller candidate member driver",
        ),
        (ROLE_WORDS, "agent reviewer approver subscriber"),
        (
            METADATA_WORDS,
            "count id ids type status verified enabled sent at total valid format template subject body",
        ),
        (
            METADATA_WORDS,
            "length size index label hash required schema pattern field column regex version date time",
        ),
        (METADATA_WORDS, "preference"),
        (FLAG_WORDS, "has is can should allow use show num"),
        (
            SECRET_WORDS,
            "password passwords passwd pwd secret apikey passphrase passcode privatekey credential credentials passwort",
        ),
        (SECRET_WORDS, "contraseña"),
        (
            HARDWARE_WORDS,
            "led gpio button relay motor servo sensor buzzer data clock clk rx tx sda scl cs mosi miso trig trigger echo",
        ),
        (
            HARDWARE_WORDS,
            "pwm analog digital interrupt irq input output enable signal dht fan pump switch strip",
        ),
        (CREDENTIAL_WORDS, "authorization cookie cookies pin cvv cvc otp totp"),
        (
            ABOUT_SECRET_WORDS,
            "policy policies url uri link endpoint endpoints server servers arn name names path file ref reference",
        ),
        (
            ABOUT_SECRET_WORDS,
            "manager provider strength rules requirements expiry expires expiration reset hint min max method methods",
        ),
    ])
});

#[cfg(test)]
mod tests;
