//! Keys, column names and labels that tell what stands under them, and whether a value bears that out.

use std::sync::LazyLock;

use crate::kind::Kind;
use crate::lists::Lists;
use crate::unseen::is_unseen;

/// What a key says of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Telling {
    pub(crate) kind: Kind,
    /// Whether things have such a key as well as people: `name`, `location`.
    pub(crate) vague: bool,
}

/// The most words of a key.
const MOST: usize = 6;

/// The words of a key in small letters: `billingEmail2`, `billing_email`, `Billing e-mail`.
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
        (0..self.count).any(|index| is(self.get(index), wanted))
    }

    fn joined(&self) -> &str {
        &self.letters
    }
}

/// Whether a word is in a list.
fn is(word: &str, list: u16) -> bool {
    WORDS.of(word) & list != 0
}

/// What a key says, if it tells anything.
pub(crate) fn telling(key: &str) -> Option<Telling> {
    let words = Words::of(key)?;
    let hashed = words.last() == "hash" && words.any(SECRETS);
    if words.count > 1 && !hashed && (is(words.last(), ABOUT) || is(words.get(0), FLAGS)) {
        return None;
    }
    let sure = |kind| Some(Telling { kind, vague: false });
    let vague = |kind| Some(Telling { kind, vague: true });
    if let Some(kind) = whole(words.joined()) {
        return sure(kind);
    }
    if is_secret(&words) {
        return sure(Kind::Secret);
    }
    if is_credential(&words) {
        return vague(Kind::Secret);
    }
    let kind = match words.last() {
        "email" | "emails" | "mail" | "mailto" | "correo" | "courriel" => Kind::Email,
        "phone" | "phones" | "tel" | "telephone" | "mobile" | "cell" | "cellphone" | "fax" | "msisdn" | "whatsapp"
        | "telefon" | "telefono" | "téléphone" | "teléfono" | "handy" | "landline" => Kind::Phone,
        "iban" => Kind::Iban,
        "ssn" | "itin" => Kind::Ssn,
        "ip" | "ipv" | "ipaddress" | "ipaddr" => Kind::Ip,
        "mac" => Kind::Mac,
        "dob" | "birthday" | "birthdate" | "geburtsdatum" | "born" => Kind::BirthDate,
        "passport" | "nino" | "pesel" | "bsn" | "cpf" | "dni" | "nif" | "aadhaar" | "curp" | "cnp" | "personnummer" => {
            Kind::NationalId
        }
        "url" | "uri" | "website" | "homepage" | "webpage" => Kind::Url,
        "surname" | "forename" | "firstname" | "lastname" | "fullname" | "nickname" | "username" | "vorname"
        | "nachname" | "apellido" | "apellidos" | "nombre" | "prénom" | "maidenname" => Kind::Name,
        "address" | "street" | "addr" | "addresses" | "postcode" | "zip" | "zipcode" | "plz" | "anschrift"
        | "adresse" | "direccion" | "dirección" | "street1" | "streetaddress" | "suburb" => return address(&words),
        "city" | "town" | "village" | "municipality" | "hometown" | "birthplace" | "stadt" | "ville" | "ciudad" => {
            Kind::Place
        }
        "employer" | "company" | "organisation" | "organization" | "companyname" => Kind::Organisation,
        "location" | "place" | "locality" | "region" | "county" => return vague(Kind::Place),
        "name" | "names" => return name(&words),
        last if is(last, PEOPLE) => Kind::Name,
        _ => return pairs(&words).and_then(sure),
    };
    sure(kind)
}

/// Keys of several words that mean one thing.
fn whole(joined: &str) -> Option<Kind> {
    Some(match joined {
        "socialsecuritynumber" | "socialsecurity" | "ssnnumber" | "socialsecurityno" => Kind::Ssn,
        "cardnumber" | "creditcard" | "creditcardnumber" | "ccnumber" | "cardno" | "debitcard" | "debitcardnumber"
        | "paymentcard" | "ccnum" | "pan" | "card" | "creditcardno" => Kind::Card,
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
    })
}

/// Keys whose last word alone says nothing.
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

/// Keys under which only a secret can stand. `password_policy` is about one.
fn is_secret(words: &Words) -> bool {
    let last = words.last();
    if words.any(SECRETS) {
        return is(last, SECRETS) || !is(last, BESIDE);
    }
    let numbered = words.count > 1 && matches!(last, "code" | "number" | "no" | "value" | "header");
    if is(if numbered { words.before_last() } else { last }, GUARDS) {
        return true;
    }
    match last {
        "key" => matches!(words.before_last(), "api" | "access" | "auth" | "private"),
        "token" => matches!(
            words.before_last(),
            "api" | "access" | "auth" | "refresh" | "bearer" | "session" | "id"
        ),
        _ => false,
    }
}

/// Keys of other tokens and keys; `token` alone may count a model's. Where a listing goes on is no secret: a program could not turn
/// the page without it.
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
        _ => Kind::Address,
    };
    Some(Telling { kind, vague: false })
}

fn name(words: &Words) -> Option<Telling> {
    let sure = |kind| Some(Telling { kind, vague: false });
    if words.count == 1 {
        return Some(Telling {
            kind: Kind::Name,
            vague: true,
        });
    }
    match words.before_last() {
        "street" | "road" => sure(Kind::Address),
        "city" | "town" | "place" => sure(Kind::Place),
        "company" | "organisation" | "organization" | "org" | "employer" => sure(Kind::Organisation),
        "first" | "last" | "middle" | "full" | "given" | "family" | "sur" | "nick" | "maiden" | "birth" | "legal"
        | "preferred" | "real" | "user" | "display" | "screen" | "holder" | "cardholder" | "account" => {
            sure(Kind::Name)
        }
        before if is(before, PEOPLE) => sure(Kind::Name),
        _ => None,
    }
}

/// Keys beside a `name` that say it is a person's, and those that say it is a thing's.
fn sibling(key: &str) -> Option<Sibling> {
    let words = Words::of(key)?;
    if words.any(THINGS) {
        return Some(Sibling::Thing);
    }
    let personal = telling(key).is_some_and(|telling| {
        !telling.vague
            && matches!(
                telling.kind,
                Kind::Email
                    | Kind::Phone
                    | Kind::Ssn
                    | Kind::BirthDate
                    | Kind::NationalId
                    | Kind::Card
                    | Kind::Iban
                    | Kind::Name
            )
    });
    (personal
        || matches!(
            words.joined(),
            "age" | "gender" | "sex" | "salary" | "title" | "nationality"
        ))
    .then_some(Sibling::Person)
}

/// What a key beside a `name` says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sibling {
    Person,
    Thing,
}

/// What the names in a list or object are names of, by what stands over and beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Nothing says.
    Unsaid,
    /// People's.
    Peoples,
    /// Things have them as a rule: only what is plainly a person's name is one.
    Mostly,
    /// Things'.
    Things,
}

impl Whose {
    /// What holds under a key: `customers`, `files`. Envelopes such as `data` say nothing of their own.
    pub(crate) fn under(self, key: &str) -> Whose {
        let Some(words) = Words::of(key) else { return self };
        let last = words.last();
        let single = last.strip_suffix('s').unwrap_or(last);
        if is(last, PEOPLE) || is(single, PEOPLE) || matches!(last, "people" | "users" | "user" | "staff" | "persons") {
            return Whose::Peoples;
        }
        match WORDS.of(single) {
            said if said & KEPT != 0 => Whose::Things,
            said if said & DONE != 0 => Whose::Mostly,
            // The page of any list, and of any thing's.
            _ if single == "item" && self == Whose::Unsaid => Whose::Mostly,
            _ => self,
        }
    }

    /// What keys beside a `name` say of it: one person's key outweighs any thing's.
    pub(crate) fn beside<'k>(self, keys: impl Iterator<Item = &'k str>) -> Whose {
        let mut whose = self;
        for key in keys {
            match sibling(key) {
                Some(Sibling::Person) => return Whose::Peoples,
                Some(Sibling::Thing) => whose = Whose::Things,
                None => {}
            }
        }
        whose
    }
}

/// Words for people: a key that ends so holds a name.
const PEOPLE: u16 = 1;
/// Last words that say the key is about a value, not the value: `email_count`, `phone_verified`.
const ABOUT: u16 = 1 << 1;
/// First words of keys that hold yes or no.
const FLAGS: u16 = 1 << 2;
/// Words of keys that hold secrets.
const SECRETS: u16 = 1 << 3;
/// Last words of keys that hold what opens a door once, or for a while.
const GUARDS: u16 = 1 << 7;
/// Last words of keys that are about a secret.
const BESIDE: u16 = 1 << 8;
/// Words of keys that only things have.
const THINGS: u16 = 1 << 4;
/// Things that are kept, whose names are no people's.
const KEPT: u16 = 1 << 5;
/// What people do, and where they do it.
const DONE: u16 = 1 << 6;

static WORDS: LazyLock<Lists> = LazyLock::new(|| {
    Lists::new(&[
        (
            PEOPLE,
            "customer client person patient employee contact author assignee reporter recipient sender owner",
        ),
        (
            PEOPLE,
            "manager student teacher doctor guest passenger tenant buyer seller attendee applicant candidate",
        ),
        (
            PEOPLE,
            "member cardholder beneficiary spouse father mother driver agent participant salutation",
        ),
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
        (
            THINGS,
            "sku price version path size schema stock quantity mime license branch commit repository stars",
        ),
        (
            THINGS,
            "forks dependencies extension mode checksum sha digest capacity cpu memory replicas namespace",
        ),
        (
            THINGS,
            "currency category brand units language parameters arguments latitude",
        ),
        (
            KEPT,
            "file tool product package server table column repo repository repositorie module function resource tag",
        ),
        (
            KEPT,
            "label topic field model branch image container service category categorie skill plugin template dataset",
        ),
        (KEPT, "prompt project step"),
        (DONE, "event task job team channel"),
    ])
});

#[cfg(test)]
mod tests;
