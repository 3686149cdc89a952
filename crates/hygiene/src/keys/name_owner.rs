//! Finds out who or what a name belongs to, by the keys above it and beside it.

use std::sync::LazyLock;

use super::{KeyWords, PERSON_WORDS, ROLE_WORDS, is_in_list, key_hint};
use crate::kind::SensitiveKind;
use crate::word_lists::WordLists;

/// Who or what the names in a list or object belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameOwner {
    /// Unknown: only what is clearly a person's name counts as one.
    Unknown,
    /// Unknown, although other keys are beside it: a town in such a row belongs to nobody.
    UnknownInRow,
    /// The names belong to people.
    People,
    /// They belong to people, or to a shop or office, which have the same contact data.
    Contacts,
    /// They usually belong to things: only what is clearly a person's name counts as one.
    LikelyThings,
    /// The names belong to things.
    Things,
}

/// What a key beside a `name` says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SiblingHint {
    /// Only people have such a key.
    Person,
    /// Its owner can be contacted: a person or a shop.
    Contact,
    /// Things have such a key more often than people.
    LikelyThing,
    /// Only things have such a key.
    Thing,
}

/// Returns what a key beside a `name` says about it, if anything.
pub(super) fn sibling_hint(key: &str) -> Option<SiblingHint> {
    let words = KeyWords::split(key)?;
    let joined = words.joined();
    if SIBLING_WORDS.flags(joined) & PERSON_KEYS != 0 {
        return Some(SiblingHint::Person);
    }
    if let Some(telling) = key_hint(key) {
        let given = matches!(
            telling.kind,
            SensitiveKind::Ssn | SensitiveKind::BirthDate | SensitiveKind::NationalId
        );
        if given && telling.is_sure() {
            return Some(SiblingHint::Person);
        }
        let ways = [
            SensitiveKind::Email,
            SensitiveKind::Phone,
            SensitiveKind::Address,
            SensitiveKind::Iban,
            SensitiveKind::Card,
        ];
        if ways.contains(&telling.kind) && !telling.is_vague() {
            return Some(SiblingHint::Contact);
        }
    }
    let has = |list: u16| words.is_any(|word| SIBLING_WORDS.flags(word) & list != 0);
    if has(THING_WORDS) {
        return Some(SiblingHint::Thing);
    }
    if has(LIKELY_THING_WORDS) {
        return Some(SiblingHint::LikelyThing);
    }
    (SIBLING_WORDS.flags(joined) & CONTACT_KEYS != 0).then_some(SiblingHint::Contact)
}

/// What a key says about everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    People,
    Things,
    /// Usually things, sometimes people.
    Mostly,
    /// An item of any list, or of any thing.
    Item,
    Nothing,
}

impl Over {
    fn of_key(key: &str) -> Over {
        let Some(words) = KeyWords::split(key) else {
            return Over::Nothing;
        };
        let last = words.last();
        let single = last.strip_suffix('s').unwrap_or(last);
        if is_in_list(last, PERSON_WORDS)
            || is_in_list(single, PERSON_WORDS)
            || SIBLING_WORDS.flags(last) & PEOPLE_WORDS != 0
        {
            return Over::People;
        }
        match SIBLING_WORDS.flags(single) | SIBLING_WORDS.flags(last) {
            said if said & STORED_THING_WORDS != 0 => Over::Things,
            said if said & ACTIVITY_WORDS != 0 || is_in_list(single, ROLE_WORDS) => Over::Mostly,
            _ if single == "item" => Over::Item,
            _ => Over::Nothing,
        }
    }
}

/// All that a key says about a `name` beside or below it. It depends on the key alone, so that a scan looks up each
/// key once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameOwnerHint {
    sibling: Option<SiblingHint>,
    over: Over,
    is_name: bool,
}

impl NameOwnerHint {
    pub(crate) fn of_key(key: &str) -> NameOwnerHint {
        NameOwnerHint {
            sibling: sibling_hint(key),
            over: Over::of_key(key),
            is_name: key_hint(key).is_some_and(|telling| telling.kind == SensitiveKind::Name),
        }
    }
}

impl NameOwner {
    /// Returns the owner below a key such as `customers` or `files`. Envelopes such as `data` change nothing.
    pub(crate) fn below_key(self, key: &str) -> NameOwner {
        self.under_over(Over::of_key(key))
    }

    /// Does the same for a key that was looked up before.
    pub(crate) fn under_hint(self, key: NameOwnerHint) -> NameOwner {
        self.under_over(key.over)
    }

    fn under_over(self, over: Over) -> NameOwner {
        match over {
            Over::People => NameOwner::People,
            Over::Things => NameOwner::Things,
            Over::Mostly => NameOwner::LikelyThings,
            Over::Item if matches!(self, NameOwner::Unknown | NameOwner::UnknownInRow) => NameOwner::LikelyThings,
            Over::Item | Over::Nothing => self,
        }
    }

    /// Returns the owner by the keys beside a `name`: a key that only people have outweighs the keys of things.
    pub(crate) fn with_siblings<'k>(self, keys: impl Iterator<Item = &'k str>) -> NameOwner {
        self.beside_hints(keys.map(NameOwnerHint::of_key))
    }

    /// Does the same for keys that were looked up before.
    pub(crate) fn beside_hints(self, keys: impl Iterator<Item = NameOwnerHint>) -> NameOwner {
        let (mut reached, mut often, mut thing) = (false, false, false);
        let (mut others, mut named) = (0, false);
        for key in keys {
            others += 1;
            named |= key.is_name;
            match key.sibling {
                Some(SiblingHint::Person) => return NameOwner::People,
                Some(SiblingHint::Contact) => reached = true,
                Some(SiblingHint::LikelyThing) => often = true,
                Some(SiblingHint::Thing) => thing = true,
                None => {}
            }
        }
        match self {
            NameOwner::People if thing && !reached => NameOwner::LikelyThings,
            NameOwner::People => self,
            _ if reached && (often || thing) => NameOwner::LikelyThings,
            _ if reached => NameOwner::Contacts,
            _ if thing => NameOwner::Things,
            NameOwner::Unknown | NameOwner::UnknownInRow if often => NameOwner::LikelyThings,
            NameOwner::Unknown | NameOwner::UnknownInRow if others > 1 && !named => NameOwner::UnknownInRow,
            NameOwner::Unknown | NameOwner::UnknownInRow => NameOwner::Unknown,
            NameOwner::Contacts | NameOwner::LikelyThings | NameOwner::Things => self,
        }
    }
}

/// Keys that only people have.
const PERSON_KEYS: u16 = 1;
/// Keys of people and shops that can be contacted.
const CONTACT_KEYS: u16 = 1 << 1;
/// Words of keys that only things have.
const THING_WORDS: u16 = 1 << 2;
/// Words of keys that things have more often.
const LIKELY_THING_WORDS: u16 = 1 << 6;
/// Words for stored things, whose names are not names of people.
const STORED_THING_WORDS: u16 = 1 << 3;
/// Words for activities of people and their places.
const ACTIVITY_WORDS: u16 = 1 << 4;
/// Words for people that no key of a single name has.
const PEOPLE_WORDS: u16 = 1 << 5;

static SIBLING_WORDS: LazyLock<WordLists> = LazyLock::new(|| {
    WordLists::new(&[
        (
            PERSON_KEYS,
            "age gender sex salary nationality firstname lastname surname forename givenname familyname",
        ),
        (
            PERSON_KEYS,
            "middlename maidenname birthday birthdate dob pronouns jobtitle spouse maritalstatus",
        ),
        (
            PERSON_KEYS,
            "vorname nachname prénom apellido apellidos hiredate hiredat employeeid",
        ),
        (CONTACT_KEYS, "avatar avatarurl username login lastlogin"),
        (
            PEOPLE_WORDS,
            "people user users staff persons member members contacts profile",
        ),
        (
            PERSON_KEYS,
            "prenom voornaam achternaam cognome sobrenome imie imię nazwisko 姓名 氏名 фамилия отчество фио",
        ),
        (
            PEOPLE_WORDS,
            "kunden clientes clienti klanten klienci 客户 顾客 顧客 用户 员工 社員 клиенты сотрудники mitarbeiter personen",
        ),
        (
            THING_WORDS,
            "sku price version path size schema stock quantity mime license branch commit repository stars",
        ),
        (
            THING_WORDS,
            "forks dependencies extension mode checksum sha digest capacity cpu memory replicas namespace",
        ),
        (
            THING_WORDS,
            "currency category brand units parameters arguments latitude nullable datatype inputschema ticker isin",
        ),
        (THING_WORDS, "outputschema voltage gpio calories ingredients filename"),
        (
            THING_WORDS,
            "precio preis prix prezzo preço prijs cena цена 价格 価格 値段 cantidad menge quantité quantità ilość количество 数量",
        ),
        (
            LIKELY_THING_WORDS,
            "longitude lat lon lng rating reviews population temperature temp humidity forecast weather timezone iso",
        ),
        (
            LIKELY_THING_WORDS,
            "capital continent default columns rows engine table column index encoding width height color language",
        ),
        (
            LIKELY_THING_WORDS,
            "cuisine opening hours amenities rooms runtime genre exchange marketcap symbol annotations params props",
        ),
        (
            LIKELY_THING_WORDS,
            "endpoint method protocol port ports host kind tag tags topics milestone due files image content draft",
        ),
        (
            LIKELY_THING_WORDS,
            "archived visibility downloads desktop tablet board channel firmware serial model manufacturer weight",
        ),
        (
            STORED_THING_WORDS,
            "file tool product package server table column repo repository repositorie module function resource tag",
        ),
        (
            STORED_THING_WORDS,
            "label topic field model branch branche image container service category categorie skill plugin template",
        ),
        (
            STORED_THING_WORDS,
            "dataset prompt project step milestone env environment variable setting option command script library",
        ),
        (
            STORED_THING_WORDS,
            "librarie dependency dependencie database schema region country countrie city citie language currency",
        ),
        (
            STORED_THING_WORDS,
            "currencie station airport hotel restaurant place venue movie book song album track game theme font color",
        ),
        (
            STORED_THING_WORDS,
            "icon device host node cluster pod deployment volume network bucket queue stream workflow pipeline stage",
        ),
        (
            STORED_THING_WORDS,
            "runner role permission group board sprint epic folder directory directorie document site domain brand",
        ),
        (
            STORED_THING_WORDS,
            "store shop asset coin ingredient recipe exercise course lesson metric dashboard alert monitor check test",
        ),
        (
            STORED_THING_WORDS,
            "suite rule policy policie plan tier extension feature flag app application program process processe",
        ),
        (
            STORED_THING_WORDS,
            "endpoint route param parameter argument property propertie attribute class classe method interface",
        ),
        (
            STORED_THING_WORDS,
            "artifact release version commit layer sheet worksheet chart widget component namespace secret playlist",
        ),
        (
            STORED_THING_WORDS,
            "notebook kernel crate gem sensor light order purchase subscription invoice payment company companie",
        ),
        (STORED_THING_WORDS, "organization organisation department"),
        (ACTIVITY_WORDS, "event task job team channel"),
    ])
});
