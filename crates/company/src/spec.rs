//! The types in which the company is specified: entities, their fields, and the actions on them.
//!
//! The tables below `spec/` define the whole example: schemas, initial records and tools all follow from them.

mod finance;
mod inventory;
mod people;
mod sales;
mod support;
mod tracker;
pub(crate) mod word_lists;

/// A kind of record, such as orders, with its fields and actions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entity {
    /// The singular name in tool names, such as `order`.
    pub(crate) one: &'static str,
    /// The plural name in tool names, such as `orders`; it also identifies the entity.
    pub(crate) many: &'static str,
    /// The prefix of its ids, such as `ORD`.
    pub(crate) prefix: &'static str,
    /// The area of the company, which tags the tools of the entity.
    pub(crate) area: &'static str,
    /// What one record describes, as half a sentence.
    pub(crate) about: &'static str,
    /// The number of initial records.
    pub(crate) count: u32,
    /// The fields of a record; the first is its name or title.
    pub(crate) fields: &'static [EntityField],
    /// The link fields that get a list tool of their own: `customer_id` makes `list_customer_orders`.
    pub(crate) under: &'static [&'static str],
    /// The actions on one record, beyond create, update and delete.
    pub(crate) actions: &'static [EntityAction],
}

/// One field of an entity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntityField {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) kind: FieldKind,
    pub(crate) seed: SeedRule,
    /// Whether the value can be null.
    pub(crate) nullable: bool,
    /// Which callers can set the field, if any.
    pub(crate) origin: FieldOrigin,
    /// The word that the field has in a new record; `None` means the default of its kind.
    pub(crate) starts: Option<&'static str>,
    /// Whether tools that list, count or export can filter by the field.
    pub(crate) filter: bool,
    /// Whether searches look for words in the field.
    pub(crate) search: bool,
}

/// The origin of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldOrigin {
    /// The caller that creates the record must set the field.
    Required,
    /// The caller that creates or updates the record may set the field.
    Optional,
    /// The company manages the field; callers set it only through actions.
    Managed,
}

/// The kind of values that a field takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldKind {
    /// A text of at most so many characters.
    Text(u16),
    /// An e-mail address such as `name@example.com`.
    Email,
    /// A web address with `https` or `http`.
    Uri,
    /// A telephone number with its country code.
    Phone,
    /// A calendar day such as `2026-06-30`.
    Day,
    /// A time with a precision of seconds.
    Time,
    /// A whole number between the two bounds, inclusive.
    Integer(i64, i64),
    /// An amount of money in euro cents.
    Cents,
    /// A boolean, `true` or `false`.
    Flag,
    /// Exactly one of these words.
    Pick(&'static [&'static str]),
    /// A list of some of these words, each at most once.
    Tags(&'static [&'static str]),
    /// The id of a record of this entity.
    Link(&'static str),
    /// The ids of several records of this entity.
    Links(&'static str),
    /// An object with these fields.
    Part(&'static [EntityField]),
    /// A list of objects with these fields.
    Parts(&'static [EntityField]),
}

/// The seed rule of a field: how initial records get its value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SeedRule {
    /// Any value of its kind.
    Any,
    /// Any value of its kind, the first ones more frequently.
    Early,
    /// One of these phrases, with its `{slots}` filled from the word lists.
    Phrase(&'static [&'static str]),
    /// A number in this range, or a list with a number of members in this range.
    Between(i64, i64),
    /// A day or time this many days after the creation of the record.
    After(i64, i64),
    /// An address built from the text of another field.
    Handle(&'static str),
    /// The value of the second field in the record that the first field links to.
    Through(&'static str, &'static str),
    /// The sum over a list (first) of one member field (second) times another (third).
    Sum(&'static str, &'static str, &'static str),
    /// The inner rule if another field holds one of these words, else null.
    When(&'static str, &'static [&'static str], &'static SeedRule),
    /// The inner rule in this percentage of records, else null.
    Sometimes(u64, &'static SeedRule),
}

/// An action on one record, such as `ship_order`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntityAction {
    /// The name of the tool that runs the action.
    pub(crate) name: &'static str,
    /// What the action does, as a sentence.
    pub(crate) about: &'static str,
    /// The fields that the action takes as arguments beside the id.
    pub(crate) takes: &'static [EntityField],
    /// The field and the words it may hold for the action to be possible; `None` means always.
    pub(crate) only: Option<(&'static str, &'static [&'static str])>,
    pub(crate) effect: ActionEffect,
}

/// The effect of an action on the records.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ActionEffect {
    /// The action changes fields of the record.
    Set(&'static [FieldChange]),
    /// The action adds a record of this entity, linked to the present one by this field.
    Add(&'static str, &'static str),
}

/// One field change of an action.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldChange {
    /// The field is set to this word.
    To(&'static str, &'static str),
    /// The field is set to null.
    Clear(&'static str),
    /// The field is set to the present time or day.
    Now(&'static str),
    /// The field is set to the argument of the same name, if the call has it.
    Given(&'static str),
    /// The field is set to this boolean.
    Flag(&'static str, bool),
}

/// All entities of the company; a link points only to an earlier entity or to its own.
pub(crate) const COMPANY: &[Entity] = &[
    people::TEAMS,
    people::PEOPLE,
    people::ABSENCES,
    people::CANDIDATES,
    people::DEVICES,
    sales::CUSTOMERS,
    sales::CONTACTS,
    sales::DEALS,
    sales::CAMPAIGNS,
    inventory::SUPPLIERS,
    inventory::PRODUCTS,
    inventory::WAREHOUSES,
    inventory::STOCK_LEVELS,
    inventory::PURCHASE_ORDERS,
    inventory::ORDERS,
    inventory::SHIPMENTS,
    finance::INVOICES,
    finance::PAYMENTS,
    finance::EXPENSES,
    finance::SUBSCRIPTIONS,
    tracker::PROJECTS,
    tracker::MILESTONES,
    tracker::ISSUES,
    tracker::ISSUE_COMMENTS,
    support::TICKETS,
    support::FOLDERS,
    support::DOCUMENTS,
    support::MEETINGS,
];

/// The position of an entity in [`COMPANY`], by its plural name.
pub(crate) fn entity_position(many: &str) -> Option<usize> {
    COMPANY.iter().position(|entity| entity.many == many)
}

/// Finds an entity by its plural name.
pub(crate) fn find_entity(many: &str) -> Option<&'static Entity> {
    COMPANY.iter().find(|entity| entity.many == many)
}

impl Entity {
    /// Finds a field by name, with its position.
    pub(crate) fn field(&self, name: &str) -> Option<(usize, &'static EntityField)> {
        self.fields.iter().enumerate().find(|(_, field)| field.name == name)
    }

    /// The singular name with spaces: `purchase order` for `purchase_order`.
    pub(crate) fn spoken_name(&self) -> String {
        self.one.replace('_', " ")
    }

    /// The id of the record with this number, padded to four digits.
    pub(crate) fn id(&self, number: u32) -> String {
        format!("{}-{number:04}", self.prefix)
    }

    /// Parses the record number from an id of this entity; `None` where the id has another prefix or form.
    pub(crate) fn number(&self, id: &str) -> Option<u32> {
        let digits = id.strip_prefix(self.prefix)?.strip_prefix('-')?;
        let plain = (4..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        let padded = digits.len() == 4 || !digits.starts_with('0');
        (plain && padded).then(|| digits.parse().ok()).flatten()
    }
}

impl EntityField {
    /// Creates an optional field with any value of its kind that is never null.
    pub(crate) const fn new(name: &'static str, kind: FieldKind, about: &'static str) -> Self {
        Self {
            name,
            about,
            kind,
            seed: SeedRule::Any,
            nullable: false,
            origin: FieldOrigin::Optional,
            starts: None,
            filter: false,
            search: false,
        }
    }

    const fn with_seed(mut self, make: SeedRule) -> Self {
        self.seed = make;
        self
    }

    const fn required(mut self) -> Self {
        self.origin = FieldOrigin::Required;
        self
    }

    const fn managed(mut self) -> Self {
        self.origin = FieldOrigin::Managed;
        self
    }

    const fn starting_as(mut self, word: &'static str) -> Self {
        self.starts = Some(word);
        self.managed()
    }

    const fn allow_null(mut self) -> Self {
        self.nullable = true;
        self
    }

    const fn filterable(mut self) -> Self {
        self.filter = true;
        self
    }

    const fn searchable(mut self) -> Self {
        self.search = true;
        self
    }
}

const fn text_field(
    name: &'static str,
    max: u16,
    about: &'static str,
    phrases: &'static [&'static str],
) -> EntityField {
    EntityField::new(name, FieldKind::Text(max), about).with_seed(SeedRule::Phrase(phrases))
}

const fn choice_field(name: &'static str, words: &'static [&'static str], about: &'static str) -> EntityField {
    EntityField::new(name, FieldKind::Pick(words), about)
        .with_seed(SeedRule::Early)
        .filterable()
}

const fn link_field(name: &'static str, many: &'static str, about: &'static str) -> EntityField {
    EntityField::new(name, FieldKind::Link(many), about).filterable()
}

const fn cents_field(name: &'static str, about: &'static str, from: i64, to: i64) -> EntityField {
    EntityField::new(name, FieldKind::Cents, about).with_seed(SeedRule::Between(from, to))
}

const fn day_field(name: &'static str, about: &'static str, from: i64, to: i64) -> EntityField {
    EntityField::new(name, FieldKind::Day, about).with_seed(SeedRule::After(from, to))
}

#[cfg(test)]
mod tests;
