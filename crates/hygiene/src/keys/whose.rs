//! Finds out who or what a name belongs to, by the keys above it and beside it.

use std::sync::LazyLock;

use super::{PEOPLE, ROLES, Words, is, telling};
use crate::kind::Kind;
use crate::lists::Lists;

/// Who or what the names in a list or object belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Unknown: only what is clearly a person's name counts as one.
    Unsaid,
    /// Unknown, although other keys are beside it: a town in such a row belongs to nobody.
    Nobodys,
    /// The names belong to people.
    Peoples,
    /// They belong to people, or to a shop or office, which have the same contact data.
    Reached,
    /// They usually belong to things: only what is clearly a person's name counts as one.
    Mostly,
    /// The names belong to things.
    Things,
}

/// What a key beside a `name` says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sibling {
    /// Only people have such a key.
    Person,
    /// Its owner can be contacted: a person or a shop.
    Reached,
    /// Things have such a key more often than people.
    Often,
    /// Only things have such a key.
    Thing,
}

/// Returns what a key beside a `name` says about it, if anything.
pub(super) fn sibling(key: &str) -> Option<Sibling> {
    let words = Words::of(key)?;
    let joined = words.joined();
    if BESIDE.of(joined) & PERSONS != 0 {
        return Some(Sibling::Person);
    }
    if let Some(telling) = telling(key) {
        let given = matches!(telling.kind, Kind::Ssn | Kind::BirthDate | Kind::NationalId);
        if given && telling.is_sure() {
            return Some(Sibling::Person);
        }
        let ways = [Kind::Email, Kind::Phone, Kind::Address, Kind::Iban, Kind::Card];
        if ways.contains(&telling.kind) && !telling.is_vague() {
            return Some(Sibling::Reached);
        }
    }
    let has = |list: u16| words.is_any(|word| BESIDE.of(word) & list != 0);
    if has(THINGS) {
        return Some(Sibling::Thing);
    }
    if has(OFTEN) {
        return Some(Sibling::Often);
    }
    (BESIDE.of(joined) & REACHED != 0).then_some(Sibling::Reached)
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
        let Some(words) = Words::of(key) else {
            return Over::Nothing;
        };
        let last = words.last();
        let single = last.strip_suffix('s').unwrap_or(last);
        if is(last, PEOPLE) || is(single, PEOPLE) || BESIDE.of(last) & PEOPLES != 0 {
            return Over::People;
        }
        match BESIDE.of(single) | BESIDE.of(last) {
            said if said & KEPT != 0 => Over::Things,
            said if said & DONE != 0 || is(single, ROLES) => Over::Mostly,
            _ if single == "item" => Over::Item,
            _ => Over::Nothing,
        }
    }
}

/// All that a key says about a `name` beside or below it. It depends on the key alone, so that a scan looks up each
/// key once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHint {
    sibling: Option<Sibling>,
    over: Over,
    is_name: bool,
}

impl KeyHint {
    pub(crate) fn of_key(key: &str) -> KeyHint {
        KeyHint {
            sibling: sibling(key),
            over: Over::of_key(key),
            is_name: telling(key).is_some_and(|telling| telling.kind == Kind::Name),
        }
    }
}

impl Whose {
    /// Returns the owner below a key such as `customers` or `files`. Envelopes such as `data` change nothing.
    pub(crate) fn under(self, key: &str) -> Whose {
        self.under_over(Over::of_key(key))
    }

    /// Does the same for a key that was looked up before.
    pub(crate) fn under_hint(self, key: KeyHint) -> Whose {
        self.under_over(key.over)
    }

    fn under_over(self, over: Over) -> Whose {
        match over {
            Over::People => Whose::Peoples,
            Over::Things => Whose::Things,
            Over::Mostly => Whose::Mostly,
            Over::Item if matches!(self, Whose::Unsaid | Whose::Nobodys) => Whose::Mostly,
            Over::Item | Over::Nothing => self,
        }
    }

    /// Returns the owner by the keys beside a `name`: a key that only people have outweighs the keys of things.
    pub(crate) fn beside<'k>(self, keys: impl Iterator<Item = &'k str>) -> Whose {
        self.beside_hints(keys.map(KeyHint::of_key))
    }

    /// Does the same for keys that were looked up before.
    pub(crate) fn beside_hints(self, keys: impl Iterator<Item = KeyHint>) -> Whose {
        let (mut reached, mut often, mut thing) = (false, false, false);
        let (mut others, mut named) = (0, false);
        for key in keys {
            others += 1;
            named |= key.is_name;
            match key.sibling {
                Some(Sibling::Person) => return Whose::Peoples,
                Some(Sibling::Reached) => reached = true,
                Some(Sibling::Often) => often = true,
                Some(Sibling::Thing) => thing = true,
                None => {}
            }
        }
        match self {
            Whose::Peoples if thing && !reached => Whose::Mostly,
            Whose::Peoples => self,
            _ if reached && (often || thing) => Whose::Mostly,
            _ if reached => Whose::Reached,
            _ if thing => Whose::Things,
            Whose::Unsaid | Whose::Nobodys if often => Whose::Mostly,
            Whose::Unsaid | Whose::Nobodys if others > 1 && !named => Whose::Nobodys,
            Whose::Unsaid | Whose::Nobodys => Whose::Unsaid,
            Whose::Reached | Whose::Mostly | Whose::Things => self,
        }
    }
}

/// Keys that only people have.
const PERSONS: u16 = 1;
/// Keys of people and shops that can be contacted.
const REACHED: u16 = 1 << 1;
/// Words of keys that only things have.
const THINGS: u16 = 1 << 2;
/// Words of keys that things have more often.
const OFTEN: u16 = 1 << 6;
/// Words for stored things, whose names are not names of people.
const KEPT: u16 = 1 << 3;
/// Words for activities of people and their places.
const DONE: u16 = 1 << 4;
/// Words for people that no key of a single name has.
const PEOPLES: u16 = 1 << 5;

static BESIDE: LazyLock<Lists> = LazyLock::new(|| {
    Lists::new(&[
        (
            PERSONS,
            "age gender sex salary nationality firstname lastname surname forename givenname familyname",
        ),
        (
            PERSONS,
            "middlename maidenname birthday birthdate dob pronouns jobtitle spouse maritalstatus",
        ),
        (
            PERSONS,
            "vorname nachname prénom apellido apellidos hiredate hiredat employeeid",
        ),
        (REACHED, "avatar avatarurl username login lastlogin"),
        (
            PEOPLES,
            "people user users staff persons member members contacts profile",
        ),
        (
            PERSONS,
            "prenom voornaam achternaam cognome sobrenome imie imię nazwisko 姓名 氏名 фамилия отчество фио",
        ),
        (
            PEOPLES,
            "kunden clientes clienti klanten klienci 客户 顾客 顧客 用户 员工 社員 клиенты сотрудники mitarbeiter personen",
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
            "currency category brand units parameters arguments latitude nullable datatype inputschema ticker isin",
        ),
        (THINGS, "outputschema voltage gpio calories ingredients filename"),
        (
            THINGS,
            "precio preis prix prezzo preço prijs cena цена 价格 価格 値段 cantidad menge quantité quantità ilość количество 数量",
        ),
        (
            OFTEN,
            "longitude lat lon lng rating reviews population temperature temp humidity forecast weather timezone iso",
        ),
        (
            OFTEN,
            "capital continent default columns rows engine table column index encoding width height color language",
        ),
        (
            OFTEN,
            "cuisine opening hours amenities rooms runtime genre exchange marketcap symbol annotations params props",
        ),
        (
            OFTEN,
            "endpoint method protocol port ports host kind tag tags topics milestone due files image content draft",
        ),
        (
            OFTEN,
            "archived visibility downloads desktop tablet board channel firmware serial model manufacturer weight",
        ),
        (
            KEPT,
            "file tool product package server table column repo repository repositorie module function resource tag",
        ),
        (
            KEPT,
            "label topic field model branch branche image container service category categorie skill plugin template",
        ),
        (
            KEPT,
            "dataset prompt project step milestone env environment variable setting option command script library",
        ),
        (
            KEPT,
            "librarie dependency dependencie database schema region country countrie city citie language currency",
        ),
        (
            KEPT,
            "currencie station airport hotel restaurant place venue movie book song album track game theme font color",
        ),
        (
            KEPT,
            "icon device host node cluster pod deployment volume network bucket queue stream workflow pipeline stage",
        ),
        (
            KEPT,
            "runner role permission group board sprint epic folder directory directorie document site domain brand",
        ),
        (
            KEPT,
            "store shop asset coin ingredient recipe exercise course lesson metric dashboard alert monitor check test",
        ),
        (
            KEPT,
            "suite rule policy policie plan tier extension feature flag app application program process processe",
        ),
        (
            KEPT,
            "endpoint route param parameter argument property propertie attribute class classe method interface",
        ),
        (
            KEPT,
            "artifact release version commit layer sheet worksheet chart widget component namespace secret playlist",
        ),
        (
            KEPT,
            "notebook kernel crate gem sensor light order purchase subscription invoice payment company companie",
        ),
        (KEPT, "organization organisation department"),
        (DONE, "event task job team channel"),
    ])
});
