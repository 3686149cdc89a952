//! Support tickets, documents and meetings.

use super::{
    ActionEffect, Entity, EntityAction, EntityField, FieldChange, FieldKind, SeedRule, choice_field, day_field,
    link_field, text_field,
};

pub(super) const TICKETS: Entity = Entity {
    one: "ticket",
    many: "tickets",
    prefix: "TIC",
    area: "support",
    about: "a customer's question or complaint and what became of it",
    count: 500,
    fields: &[
        text_field(
            "subject",
            200,
            "The subject line.",
            &[
                "The {part} {fault}",
                "Question about {topic}",
                "My {item} has not arrived",
                "Wrong {item} delivered",
            ],
        )
        .required()
        .searchable(),
        text_field(
            "message",
            8_000,
            "What the customer wrote.",
            &[
                "Hello, the {part} {fault} {place}. Please help.",
                "I ordered a {item} and got a {item}.",
                "Could you tell me about {topic}?",
            ],
        )
        .required()
        .searchable(),
        link_field("customer_id", "customers", "Who asks.").required(),
        link_field("order_id", "orders", "The order it is about.")
            .allow_null()
            .with_seed(SeedRule::Sometimes(55, &SeedRule::Any)),
        link_field("agent_id", "people", "Who of us answers.")
            .allow_null()
            .with_seed(SeedRule::Sometimes(80, &SeedRule::Any)),
        choice_field(
            "status",
            &["solved", "open", "waiting", "escalated"],
            "Where it stands.",
        )
        .starting_as("open"),
        choice_field("urgency", &["normal", "low", "high"], "How urgent it is."),
        choice_field(
            "topic",
            &["delivery", "billing", "product", "account", "other"],
            "What it is about.",
        )
        .required(),
        EntityField::new(
            "satisfaction",
            FieldKind::Integer(1, 5),
            "How content the customer was, five is best.",
        )
        .allow_null()
        .managed()
        .filterable()
        .with_seed(SeedRule::When("status", &["solved"], &SeedRule::Any)),
        EntityField::new(
            "first_answer_minutes",
            FieldKind::Integer(0, 100_000),
            "How long the first answer took, in minutes.",
        )
        .managed()
        .filterable()
        .with_seed(SeedRule::Between(3, 2_000)),
    ],
    under: &["customer_id", "agent_id"],
    actions: &[
        EntityAction {
            name: "solve_ticket",
            about: "Record that a ticket is solved.",
            takes: &[EntityField::new(
                "satisfaction",
                FieldKind::Integer(1, 5),
                "How content the customer was, five is best.",
            )],
            only: Some(("status", &["open", "waiting", "escalated"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "solved"), FieldChange::Given("satisfaction")]),
        },
        EntityAction {
            name: "escalate_ticket",
            about: "Hand a ticket to somebody more senior.",
            takes: &[link_field("agent_id", "people", "Who takes it over.").required()],
            only: Some(("status", &["open", "waiting"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "escalated"), FieldChange::Given("agent_id")]),
        },
        EntityAction {
            name: "assign_ticket",
            about: "Give a ticket to a colleague.",
            takes: &[link_field("agent_id", "people", "Who answers from now on.").required()],
            only: None,
            effect: ActionEffect::Set(&[FieldChange::Given("agent_id")]),
        },
    ],
};

pub(super) const FOLDERS: Entity = Entity {
    one: "folder",
    many: "folders",
    prefix: "FOL",
    area: "files",
    about: "a place for documents, inside another folder or at the top",
    count: 40,
    fields: &[
        text_field(
            "name",
            120,
            "What the folder is called.",
            &["{topic}", "{topic} {quarter}", "{part}"],
        )
        .required()
        .searchable(),
        link_field("parent_id", "folders", "The folder it lies in; null at the top.").allow_null(),
        link_field("team_id", "teams", "The team it belongs to.").required(),
        choice_field(
            "access",
            &["team", "company", "management"],
            "Who may read what is in it.",
        )
        .required(),
    ],
    under: &["team_id", "parent_id"],
    actions: &[],
};

pub(super) const DOCUMENTS: Entity = Entity {
    one: "document",
    many: "documents",
    prefix: "DOC",
    area: "files",
    about: "a file in the company's archive, with its text, owner and state",
    count: 350,
    fields: &[
        text_field(
            "title",
            200,
            "What the document is called.",
            &[
                "{topic} {quarter}",
                "Notes on {topic}",
                "How the {part} works",
                "{town} {topic} report",
            ],
        )
        .required()
        .searchable(),
        text_field(
            "content",
            20_000,
            "The text, in Markdown.",
            &[
                "# Notes\nThe {part} {fault} {place}. Next: {topic}.",
                "# Report\nIn {town} we saw that {topic} matters more than {topic}.",
                "# Guide\nOpen the {part}. Ask {first} {last} about {topic}.",
            ],
        )
        .searchable(),
        link_field("folder_id", "folders", "The folder it lies in.").required(),
        link_field("owner_id", "people", "Who looks after it.").required(),
        choice_field(
            "format",
            &["markdown", "pdf", "spreadsheet", "slides"],
            "What kind of file it is.",
        )
        .required(),
        choice_field("state", &["published", "draft", "archived"], "Whether it counts.").starting_as("draft"),
        EntityField::new(
            "confidential",
            FieldKind::Flag,
            "Whether it must stay inside the company.",
        )
        .filterable(),
        EntityField::new("bytes", FieldKind::Integer(0, 1_000_000_000), "Its size in bytes.")
            .managed()
            .filterable()
            .with_seed(SeedRule::Between(900, 4_000_000)),
        EntityField::new("shared_with", FieldKind::Links("people"), "Who else may read it.")
            .with_seed(SeedRule::Between(0, 4)),
        day_field("review_on", "When somebody should read it again.", 90, 400).filterable(),
    ],
    under: &["folder_id", "owner_id"],
    actions: &[
        EntityAction {
            name: "publish_document",
            about: "Make a draft count.",
            takes: &[],
            only: Some(("state", &["draft"])),
            effect: ActionEffect::Set(&[FieldChange::To("state", "published")]),
        },
        EntityAction {
            name: "archive_document",
            about: "Put a document away. It can still be read.",
            takes: &[],
            only: Some(("state", &["draft", "published"])),
            effect: ActionEffect::Set(&[FieldChange::To("state", "archived")]),
        },
        EntityAction {
            name: "move_document",
            about: "Move a document to another folder.",
            takes: &[link_field("folder_id", "folders", "Where it lies from now on.").required()],
            only: None,
            effect: ActionEffect::Set(&[FieldChange::Given("folder_id")]),
        },
        EntityAction {
            name: "share_document",
            about: "Say who else may read a document.",
            takes: &[EntityField::new(
                "shared_with",
                FieldKind::Links("people"),
                "Everybody who may read it from now on.",
            )
            .required()],
            only: None,
            effect: ActionEffect::Set(&[FieldChange::Given("shared_with")]),
        },
    ],
};

pub(super) const MEETINGS: Entity = Entity {
    one: "meeting",
    many: "meetings",
    prefix: "MEE",
    area: "calendar",
    about: "a meeting in the calendar, with who comes and what was decided",
    count: 300,
    fields: &[
        text_field(
            "title",
            160,
            "What the meeting is about.",
            &[
                "{topic} weekly",
                "{part}: what next",
                "{quarter} {topic}",
                "Talk with {last}",
            ],
        )
        .required()
        .searchable(),
        EntityField::new("starts_at", FieldKind::Time, "When it begins.")
            .required()
            .filterable()
            .with_seed(SeedRule::After(1, 20)),
        EntityField::new("minutes", FieldKind::Integer(5, 480), "How long it takes, in minutes.")
            .required()
            .with_seed(SeedRule::Between(15, 120))
            .filterable(),
        link_field("organiser_id", "people", "Who invited.").required(),
        EntityField::new("attendee_ids", FieldKind::Links("people"), "Who is invited.")
            .required()
            .with_seed(SeedRule::Between(2, 8)),
        link_field("customer_id", "customers", "The customer it is with.")
            .allow_null()
            .with_seed(SeedRule::Sometimes(35, &SeedRule::Any)),
        choice_field(
            "place",
            &["online", "Northhaven", "Lindenau", "Vallenza", "at_customer"],
            "Where.",
        ),
        choice_field("status", &["held", "planned", "cancelled"], "Whether it takes place.").starting_as("planned"),
        text_field(
            "decisions",
            4_000,
            "What was decided.",
            &["We begin with the {part}.", "{first} looks into {topic}.", ""],
        )
        .searchable(),
    ],
    under: &["organiser_id", "customer_id"],
    actions: &[
        EntityAction {
            name: "cancel_meeting",
            about: "Call off a planned meeting.",
            takes: &[],
            only: Some(("status", &["planned"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "cancelled")]),
        },
        EntityAction {
            name: "reschedule_meeting",
            about: "Move a planned meeting to another time.",
            takes: &[EntityField::new("starts_at", FieldKind::Time, "When it begins now.").required()],
            only: Some(("status", &["planned"])),
            effect: ActionEffect::Set(&[FieldChange::Given("starts_at")]),
        },
    ],
};
