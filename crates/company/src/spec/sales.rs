//! Customers, contacts, deals and campaigns.

use super::word_lists::COUNTRIES;
use super::{
    ActionEffect, Entity, EntityAction, EntityField, FieldChange, FieldKind, SeedRule, cents_field, choice_field,
    day_field, link_field, text_field,
};

/// The fields of a postal address.
pub(super) const ADDRESS: &[EntityField] = &[
    text_field(
        "street",
        120,
        "Street and house number.",
        &["{street} {digit}{digit}", "{street} {digit}"],
    )
    .required(),
    text_field(
        "postcode",
        12,
        "The postal code.",
        &["{digit}{digit}{digit}{digit}{digit}"],
    )
    .required(),
    text_field("city", 80, "Town or city.", &["{town}"]).required(),
    EntityField::new(
        "country",
        FieldKind::Pick(COUNTRIES),
        "Two-letter country code (ISO 3166-1).",
    )
    .required()
    .with_seed(SeedRule::Early),
];

pub(super) const CUSTOMERS: Entity = Entity {
    one: "customer",
    many: "customers",
    prefix: "CUS",
    area: "sales",
    about: "a company that buys from us, with its country, segment, credit and account manager",
    count: 400,
    fields: &[
        text_field(
            "name",
            120,
            "The customer's trading name.",
            &["{colour} {animal} {trade}"],
        )
        .required()
        .searchable(),
        EntityField::new("email", FieldKind::Email, "Where order confirmations go.")
            .with_seed(SeedRule::Handle("name"))
            .required()
            .searchable(),
        EntityField::new(
            "phone",
            FieldKind::Phone,
            "The main telephone number, with country code.",
        )
        .allow_null()
        .with_seed(SeedRule::Sometimes(80, &SeedRule::Any)),
        EntityField::new(
            "country",
            FieldKind::Pick(COUNTRIES),
            "Two-letter country code (ISO 3166-1) of the head office.",
        )
        .required()
        .filterable()
        .with_seed(SeedRule::Early),
        choice_field(
            "segment",
            &["small", "medium", "large", "public"],
            "How large the customer is.",
        )
        .required(),
        choice_field(
            "status",
            &["active", "prospect", "dormant", "blocked"],
            "Whether they may order at present.",
        )
        .starting_as("active"),
        link_field("manager_id", "people", "Our account manager.").allow_null(),
        EntityField::new(
            "tags",
            FieldKind::Tags(&["key_account", "reseller", "newsletter", "late_payer", "reference"]),
            "Marks used by the sales team.",
        )
        .with_seed(SeedRule::Between(0, 3))
        .filterable(),
        cents_field(
            "credit_limit_cents",
            "How much they may owe us, in euro cents.",
            100_000,
            9_000_000,
        )
        .filterable(),
        EntityField::new("billing_address", FieldKind::Part(ADDRESS), "Where invoices go.").required(),
        EntityField::new("website", FieldKind::Uri, "Their web site.")
            .allow_null()
            .with_seed(SeedRule::Handle("name")),
        text_field(
            "notes",
            2_000,
            "What colleagues should know.",
            &["Met at the fair in {town}.", "Asks about {topic} every year.", ""],
        )
        .searchable(),
    ],
    under: &["manager_id"],
    actions: &[
        EntityAction {
            name: "block_customer",
            about: "Stop a customer from ordering, for example because of unpaid invoices.",
            takes: &[],
            only: Some(("status", &["active", "prospect", "dormant"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "blocked")]),
        },
        EntityAction {
            name: "unblock_customer",
            about: "Let a blocked customer order again.",
            takes: &[],
            only: Some(("status", &["blocked"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "active")]),
        },
        EntityAction {
            name: "assign_customer",
            about: "Give a customer to another account manager.",
            takes: &[link_field("manager_id", "people", "The new account manager.").required()],
            only: None,
            effect: ActionEffect::Set(&[FieldChange::Given("manager_id")]),
        },
        EntityAction {
            name: "set_customer_credit_limit",
            about: "Change how much a customer may owe us.",
            takes: &[
                EntityField::new("credit_limit_cents", FieldKind::Cents, "The new limit, in euro cents.").required(),
            ],
            only: None,
            effect: ActionEffect::Set(&[FieldChange::Given("credit_limit_cents")]),
        },
    ],
};

pub(super) const CONTACTS: Entity = Entity {
    one: "contact",
    many: "contacts",
    prefix: "CON",
    area: "sales",
    about: "somebody who works for a customer and talks with us",
    count: 700,
    fields: &[
        text_field("name", 120, "First and last name.", &["{first} {last}"])
            .required()
            .searchable(),
        link_field("customer_id", "customers", "The customer they work for.").required(),
        EntityField::new("email", FieldKind::Email, "Their e-mail address.")
            .with_seed(SeedRule::Handle("name"))
            .required()
            .searchable(),
        EntityField::new("phone", FieldKind::Phone, "Their telephone number, with country code.")
            .allow_null()
            .with_seed(SeedRule::Sometimes(60, &SeedRule::Any)),
        choice_field(
            "role",
            &["buyer", "accounts", "technical", "management"],
            "What they do there.",
        ),
        choice_field(
            "language",
            &["en", "de", "fr", "nl", "it", "es"],
            "The language to write in.",
        ),
        EntityField::new(
            "newsletter",
            FieldKind::Flag,
            "Whether they agreed to receive the newsletter.",
        )
        .filterable(),
    ],
    under: &["customer_id"],
    actions: &[EntityAction {
        name: "unsubscribe_contact",
        about: "Take a contact off the newsletter.",
        takes: &[],
        only: None,
        effect: ActionEffect::Set(&[FieldChange::Flag("newsletter", false)]),
    }],
};

pub(super) const DEALS: Entity = Entity {
    one: "deal",
    many: "deals",
    prefix: "DEA",
    area: "sales",
    about: "a sale that may come about, with its value, stage and chance",
    count: 250,
    fields: &[
        text_field(
            "title",
            160,
            "What is to be sold, in a line.",
            &["{item}s for {town}", "{colour} {item} programme", "Office in {town}"],
        )
        .required()
        .searchable(),
        link_field("customer_id", "customers", "Who may buy.").required(),
        link_field("owner_id", "people", "Who of us works on it.").required(),
        choice_field(
            "stage",
            &["new", "qualified", "proposal", "negotiation", "won", "lost"],
            "How far the talks have come.",
        )
        .starting_as("new"),
        cents_field("value_cents", "What it would bring, in euro cents.", 50_000, 12_000_000)
            .required()
            .filterable(),
        EntityField::new(
            "chance",
            FieldKind::Integer(0, 100),
            "How likely it is to be won, in percent.",
        )
        .filterable(),
        day_field("close_date", "When a decision is expected.", 20, 180).filterable(),
        text_field(
            "next_step",
            400,
            "What happens next.",
            &["Send prices for the {item}.", "Call about {topic}.", "Visit in {town}."],
        )
        .searchable(),
        text_field(
            "lost_reason",
            400,
            "Why it was lost.",
            &["Too dear.", "Chose another {item}.", "No budget until {quarter}."],
        )
        .allow_null()
        .managed()
        .with_seed(SeedRule::When(
            "stage",
            &["lost"],
            &SeedRule::Phrase(&["Too dear.", "Chose another {item}.", "No budget until {quarter}."]),
        )),
    ],
    under: &["customer_id", "owner_id"],
    actions: &[
        EntityAction {
            name: "win_deal",
            about: "Record that a deal was won.",
            takes: &[],
            only: Some(("stage", &["new", "qualified", "proposal", "negotiation"])),
            effect: ActionEffect::Set(&[FieldChange::To("stage", "won")]),
        },
        EntityAction {
            name: "lose_deal",
            about: "Record that a deal was lost, and why.",
            takes: &[text_field("lost_reason", 400, "Why it was lost.", &[]).required()],
            only: Some(("stage", &["new", "qualified", "proposal", "negotiation"])),
            effect: ActionEffect::Set(&[FieldChange::To("stage", "lost"), FieldChange::Given("lost_reason")]),
        },
    ],
};

pub(super) const CAMPAIGNS: Entity = Entity {
    one: "campaign",
    many: "campaigns",
    prefix: "CAM",
    area: "sales",
    about: "a newsletter, an advertisement or a fair, with its budget and what came of it",
    count: 36,
    fields: &[
        text_field(
            "name",
            120,
            "What the campaign is called.",
            &["{quarter} {topic}", "{colour} {quarter}"],
        )
        .required()
        .searchable(),
        choice_field(
            "channel",
            &["newsletter", "fair", "print", "search", "post"],
            "How people are reached.",
        )
        .required(),
        choice_field(
            "status",
            &["finished", "running", "planned", "paused"],
            "Whether it runs now.",
        )
        .starting_as("planned"),
        link_field("owner_id", "people", "Who is responsible.").required(),
        cents_field("budget_cents", "What it may cost, in euro cents.", 100_000, 4_000_000)
            .required()
            .filterable(),
        cents_field("spent_cents", "What it has cost so far, in euro cents.", 0, 3_000_000).managed(),
        EntityField::new(
            "reached",
            FieldKind::Integer(0, 1_000_000),
            "How many people it reached.",
        )
        .managed()
        .with_seed(SeedRule::Between(200, 90_000))
        .filterable(),
        day_field("starts_on", "The first day.", 5, 30).filterable(),
        day_field("ends_on", "The last day.", 31, 120),
    ],
    under: &["owner_id"],
    actions: &[
        EntityAction {
            name: "pause_campaign",
            about: "Stop a running campaign for the time being.",
            takes: &[],
            only: Some(("status", &["running"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "paused")]),
        },
        EntityAction {
            name: "start_campaign",
            about: "Start a planned or paused campaign.",
            takes: &[],
            only: Some(("status", &["planned", "paused"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "running")]),
        },
    ],
};
