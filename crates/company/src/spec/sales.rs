//! Customers, contacts, deals and campaigns.

use super::words::COUNTRIES;
use super::{Act, Effect, Entity, Field, Kind, Make, Set, cents, day, link, pick, text};

/// The fields of a postal address.
pub(super) const ADDRESS: &[Field] = &[
    text(
        "street",
        120,
        "Street and house number.",
        &["{street} {digit}{digit}", "{street} {digit}"],
    )
    .needed(),
    text(
        "postcode",
        12,
        "The postal code.",
        &["{digit}{digit}{digit}{digit}{digit}"],
    )
    .needed(),
    text("city", 80, "Town or city.", &["{town}"]).needed(),
    Field::new(
        "country",
        Kind::Pick(COUNTRIES),
        "Two-letter country code (ISO 3166-1).",
    )
    .needed()
    .made(Make::Early),
];

pub(super) const CUSTOMERS: Entity = Entity {
    one: "customer",
    many: "customers",
    prefix: "CUS",
    area: "sales",
    about: "a company that buys from us, with its country, segment, credit and account manager",
    count: 400,
    fields: &[
        text(
            "name",
            120,
            "The customer's trading name.",
            &["{colour} {animal} {trade}"],
        )
        .needed()
        .search(),
        Field::new("email", Kind::Email, "Where order confirmations go.")
            .made(Make::Handle("name"))
            .needed()
            .search(),
        Field::new("phone", Kind::Phone, "The main telephone number, with country code.")
            .null()
            .made(Make::Sometimes(80, &Make::Any)),
        Field::new(
            "country",
            Kind::Pick(COUNTRIES),
            "Two-letter country code (ISO 3166-1) of the head office.",
        )
        .needed()
        .filter()
        .made(Make::Early),
        pick(
            "segment",
            &["small", "medium", "large", "public"],
            "How large the customer is.",
        )
        .needed(),
        pick(
            "status",
            &["active", "prospect", "dormant", "blocked"],
            "Whether they may order at present.",
        )
        .starts("active"),
        link("manager_id", "people", "Our account manager.").null(),
        Field::new(
            "tags",
            Kind::Tags(&["key_account", "reseller", "newsletter", "late_payer", "reference"]),
            "Marks used by the sales team.",
        )
        .made(Make::Between(0, 3))
        .filter(),
        cents(
            "credit_limit_cents",
            "How much they may owe us, in euro cents.",
            100_000,
            9_000_000,
        )
        .filter(),
        Field::new("billing_address", Kind::Part(ADDRESS), "Where invoices go.").needed(),
        Field::new("website", Kind::Uri, "Their web site.")
            .null()
            .made(Make::Handle("name")),
        text(
            "notes",
            2_000,
            "What colleagues should know.",
            &["Met at the fair in {town}.", "Asks about {topic} every year.", ""],
        )
        .search(),
    ],
    under: &["manager_id"],
    acts: &[
        Act {
            name: "block_customer",
            about: "Stop a customer from ordering, for example because of unpaid invoices.",
            takes: &[],
            only: Some(("status", &["active", "prospect", "dormant"])),
            effect: Effect::Set(&[Set::To("status", "blocked")]),
        },
        Act {
            name: "unblock_customer",
            about: "Let a blocked customer order again.",
            takes: &[],
            only: Some(("status", &["blocked"])),
            effect: Effect::Set(&[Set::To("status", "active")]),
        },
        Act {
            name: "assign_customer",
            about: "Give a customer to another account manager.",
            takes: &[link("manager_id", "people", "The new account manager.").needed()],
            only: None,
            effect: Effect::Set(&[Set::Given("manager_id")]),
        },
        Act {
            name: "set_customer_credit_limit",
            about: "Change how much a customer may owe us.",
            takes: &[Field::new("credit_limit_cents", Kind::Cents, "The new limit, in euro cents.").needed()],
            only: None,
            effect: Effect::Set(&[Set::Given("credit_limit_cents")]),
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
        text("name", 120, "First and last name.", &["{first} {last}"])
            .needed()
            .search(),
        link("customer_id", "customers", "The customer they work for.").needed(),
        Field::new("email", Kind::Email, "Their e-mail address.")
            .made(Make::Handle("name"))
            .needed()
            .search(),
        Field::new("phone", Kind::Phone, "Their telephone number, with country code.")
            .null()
            .made(Make::Sometimes(60, &Make::Any)),
        pick(
            "role",
            &["buyer", "accounts", "technical", "management"],
            "What they do there.",
        ),
        pick(
            "language",
            &["en", "de", "fr", "nl", "it", "es"],
            "The language to write in.",
        ),
        Field::new(
            "newsletter",
            Kind::Flag,
            "Whether they agreed to receive the newsletter.",
        )
        .filter(),
    ],
    under: &["customer_id"],
    acts: &[Act {
        name: "unsubscribe_contact",
        about: "Take a contact off the newsletter.",
        takes: &[],
        only: None,
        effect: Effect::Set(&[Set::Flag("newsletter", false)]),
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
        text(
            "title",
            160,
            "What is to be sold, in a line.",
            &["{item}s for {town}", "{colour} {item} programme", "Office in {town}"],
        )
        .needed()
        .search(),
        link("customer_id", "customers", "Who may buy.").needed(),
        link("owner_id", "people", "Who of us works on it.").needed(),
        pick(
            "stage",
            &["new", "qualified", "proposal", "negotiation", "won", "lost"],
            "How far the talks have come.",
        )
        .starts("new"),
        cents("value_cents", "What it would bring, in euro cents.", 50_000, 12_000_000)
            .needed()
            .filter(),
        Field::new(
            "chance",
            Kind::Integer(0, 100),
            "How likely it is to be won, in percent.",
        )
        .filter(),
        day("close_date", "When a decision is expected.", 20, 180).filter(),
        text(
            "next_step",
            400,
            "What happens next.",
            &["Send prices for the {item}.", "Call about {topic}.", "Visit in {town}."],
        )
        .search(),
        text(
            "lost_reason",
            400,
            "Why it was lost.",
            &["Too dear.", "Chose another {item}.", "No budget until {quarter}."],
        )
        .null()
        .kept()
        .made(Make::When(
            "stage",
            &["lost"],
            &Make::Phrase(&["Too dear.", "Chose another {item}.", "No budget until {quarter}."]),
        )),
    ],
    under: &["customer_id", "owner_id"],
    acts: &[
        Act {
            name: "win_deal",
            about: "Record that a deal was won.",
            takes: &[],
            only: Some(("stage", &["new", "qualified", "proposal", "negotiation"])),
            effect: Effect::Set(&[Set::To("stage", "won")]),
        },
        Act {
            name: "lose_deal",
            about: "Record that a deal was lost, and why.",
            takes: &[text("lost_reason", 400, "Why it was lost.", &[]).needed()],
            only: Some(("stage", &["new", "qualified", "proposal", "negotiation"])),
            effect: Effect::Set(&[Set::To("stage", "lost"), Set::Given("lost_reason")]),
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
        text(
            "name",
            120,
            "What the campaign is called.",
            &["{quarter} {topic}", "{colour} {quarter}"],
        )
        .needed()
        .search(),
        pick(
            "channel",
            &["newsletter", "fair", "print", "search", "post"],
            "How people are reached.",
        )
        .needed(),
        pick(
            "status",
            &["finished", "running", "planned", "paused"],
            "Whether it runs now.",
        )
        .starts("planned"),
        link("owner_id", "people", "Who is responsible.").needed(),
        cents("budget_cents", "What it may cost, in euro cents.", 100_000, 4_000_000)
            .needed()
            .filter(),
        cents("spent_cents", "What it has cost so far, in euro cents.", 0, 3_000_000).kept(),
        Field::new("reached", Kind::Integer(0, 1_000_000), "How many people it reached.")
            .kept()
            .made(Make::Between(200, 90_000))
            .filter(),
        day("starts_on", "The first day.", 5, 30).filter(),
        day("ends_on", "The last day.", 31, 120),
    ],
    under: &["owner_id"],
    acts: &[
        Act {
            name: "pause_campaign",
            about: "Stop a running campaign for the time being.",
            takes: &[],
            only: Some(("status", &["running"])),
            effect: Effect::Set(&[Set::To("status", "paused")]),
        },
        Act {
            name: "start_campaign",
            about: "Start a planned or paused campaign.",
            takes: &[],
            only: Some(("status", &["planned", "paused"])),
            effect: Effect::Set(&[Set::To("status", "running")]),
        },
    ],
};
