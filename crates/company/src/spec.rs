//! The words in which the company is written down: entities, their fields, and what can be done with them.
//!
//! The tables below `spec/` are the whole example: schemas, records and tools all follow from them.

mod desk;
mod finance;
mod goods;
mod office;
mod sales;
mod tracker;
pub(crate) mod words;

/// A kind of record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entity {
    /// What one is called in tool names: `order`.
    pub(crate) one: &'static str,
    /// What several are called: `orders`.
    pub(crate) many: &'static str,
    /// How its ids begin: `ORD`.
    pub(crate) prefix: &'static str,
    /// The part of the company it belongs to.
    pub(crate) area: &'static str,
    /// What it is, as half a sentence.
    pub(crate) about: &'static str,
    /// How many there are at the start.
    pub(crate) count: u32,
    /// What is known of each; the first is its name or title.
    pub(crate) fields: &'static [Field],
    /// Links whose target lists its own: `customer_id` makes `list_customer_orders`.
    pub(crate) under: &'static [&'static str],
    /// What can be done with one, beyond create, update and delete.
    pub(crate) acts: &'static [Act],
}

/// One thing known of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) kind: Kind,
    pub(crate) make: Make,
    /// May be null.
    pub(crate) nullable: bool,
    /// Who sets it.
    pub(crate) given: Given,
    /// The word that a new record has here.
    pub(crate) starts: Option<&'static str>,
    /// Lists can be narrowed by it.
    pub(crate) filter: bool,
    /// Searches look into it.
    pub(crate) search: bool,
}

/// Who gives a field its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// Whoever creates the record must.
    Needed,
    /// Whoever creates or updates the record may.
    Open,
    /// Only the company's own rules.
    Kept,
}

/// What values a field takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Words, at most so many characters.
    Text(u16),
    /// An e-mail address.
    Email,
    /// A web address.
    Uri,
    /// A telephone number.
    Phone,
    /// A day of the calendar.
    Day,
    /// A moment.
    Time,
    /// A whole number between two others.
    Integer(i64, i64),
    /// An amount of money in euro cents.
    Cents,
    /// Yes or no.
    Flag,
    /// One of these words.
    Pick(&'static [&'static str]),
    /// Several of these words, each once.
    Tags(&'static [&'static str]),
    /// The id of another record.
    Link(&'static str),
    /// The ids of several other records.
    Links(&'static str),
    /// A group of fields.
    Part(&'static [Field]),
    /// A list of groups of fields.
    Parts(&'static [Field]),
}

/// How a field of a record that exists from the start came to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Make {
    /// Any value of its kind.
    Any,
    /// Any value of its kind, the first ones oftener.
    Early,
    /// One of these phrases, its `{slots}` filled from the word lists.
    Phrase(&'static [&'static str]),
    /// A number, or so many members of a list.
    Between(i64, i64),
    /// So many days after the record was made.
    After(i64, i64),
    /// An address made of another field's text.
    Handle(&'static str),
    /// What the record behind this link has in that field.
    Through(&'static str, &'static str),
    /// The sum over a list of one field times another.
    Sum(&'static str, &'static str, &'static str),
    /// Made so when another field holds one of these words, else null.
    When(&'static str, &'static [&'static str], &'static Make),
    /// Made so in this many of a hundred records, else null.
    Sometimes(u64, &'static Make),
}

/// Something that can be done with one record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Act {
    /// The name of its tool.
    pub(crate) name: &'static str,
    /// What it does, as a sentence.
    pub(crate) about: &'static str,
    /// What it needs to know beyond the id.
    pub(crate) takes: &'static [Field],
    /// When it is possible: a field and the words it may hold.
    pub(crate) only: Option<(&'static str, &'static [&'static str])>,
    pub(crate) effect: Effect,
}

/// What an act changes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// Fields of the record.
    Set(&'static [Set]),
    /// A new record of another entity, linked to this one by this field.
    Add(&'static str, &'static str),
}

/// One change to a record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Set {
    /// The field becomes this word.
    To(&'static str, &'static str),
    /// The field becomes null.
    Clear(&'static str),
    /// The field becomes the present moment or day.
    Now(&'static str),
    /// The field becomes the argument of the same name, where given.
    Given(&'static str),
    /// The field becomes true or false.
    Flag(&'static str, bool),
}

/// Everything the company keeps; links only point to an earlier entity, or to the same.
pub(crate) const COMPANY: &[Entity] = &[
    office::TEAMS,
    office::PEOPLE,
    office::ABSENCES,
    office::CANDIDATES,
    office::DEVICES,
    sales::CUSTOMERS,
    sales::CONTACTS,
    sales::DEALS,
    sales::CAMPAIGNS,
    goods::SUPPLIERS,
    goods::PRODUCTS,
    goods::WAREHOUSES,
    goods::STOCK_LEVELS,
    goods::PURCHASE_ORDERS,
    goods::ORDERS,
    goods::SHIPMENTS,
    finance::INVOICES,
    finance::PAYMENTS,
    finance::EXPENSES,
    finance::SUBSCRIPTIONS,
    tracker::PROJECTS,
    tracker::MILESTONES,
    tracker::ISSUES,
    tracker::ISSUE_COMMENTS,
    desk::TICKETS,
    desk::FOLDERS,
    desk::DOCUMENTS,
    desk::MEETINGS,
];

/// The place of an entity in [`COMPANY`].
pub(crate) fn place(many: &str) -> Option<usize> {
    COMPANY.iter().position(|entity| entity.many == many)
}

/// The entity of this name.
pub(crate) fn entity(many: &str) -> Option<&'static Entity> {
    COMPANY.iter().find(|entity| entity.many == many)
}

impl Entity {
    /// The field of this name and its place.
    pub(crate) fn field(&self, name: &str) -> Option<(usize, &'static Field)> {
        self.fields.iter().enumerate().find(|(_, field)| field.name == name)
    }

    /// `purchase order` of `purchase_order`.
    pub(crate) fn spoken(&self) -> String {
        self.one.replace('_', " ")
    }

    /// The id of its record with this number.
    pub(crate) fn id(&self, number: u32) -> String {
        format!("{}-{number:04}", self.prefix)
    }

    /// The number in an id of this entity.
    pub(crate) fn number(&self, id: &str) -> Option<u32> {
        let digits = id.strip_prefix(self.prefix)?.strip_prefix('-')?;
        let plain = (4..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        let padded = digits.len() == 4 || !digits.starts_with('0');
        (plain && padded).then(|| digits.parse().ok()).flatten()
    }
}

impl Field {
    /// A field that may be given, has any value, and is never null.
    pub(crate) const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self {
            name,
            about,
            kind,
            make: Make::Any,
            nullable: false,
            given: Given::Open,
            starts: None,
            filter: false,
            search: false,
        }
    }

    const fn made(mut self, make: Make) -> Self {
        self.make = make;
        self
    }

    const fn needed(mut self) -> Self {
        self.given = Given::Needed;
        self
    }

    const fn kept(mut self) -> Self {
        self.given = Given::Kept;
        self
    }

    const fn starts(mut self, word: &'static str) -> Self {
        self.starts = Some(word);
        self.kept()
    }

    const fn null(mut self) -> Self {
        self.nullable = true;
        self
    }

    const fn filter(mut self) -> Self {
        self.filter = true;
        self
    }

    const fn search(mut self) -> Self {
        self.search = true;
        self
    }
}

const fn text(name: &'static str, max: u16, about: &'static str, phrases: &'static [&'static str]) -> Field {
    Field::new(name, Kind::Text(max), about).made(Make::Phrase(phrases))
}

const fn pick(name: &'static str, words: &'static [&'static str], about: &'static str) -> Field {
    Field::new(name, Kind::Pick(words), about).made(Make::Early).filter()
}

const fn link(name: &'static str, many: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::Link(many), about).filter()
}

const fn cents(name: &'static str, about: &'static str, from: i64, to: i64) -> Field {
    Field::new(name, Kind::Cents, about).made(Make::Between(from, to))
}

const fn day(name: &'static str, about: &'static str, from: i64, to: i64) -> Field {
    Field::new(name, Kind::Day, about).made(Make::After(from, to))
}

#[cfg(test)]
mod tests;
