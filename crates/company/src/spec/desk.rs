//! Support tickets, documents and meetings.

use super::{Act, Effect, Entity, Field, Kind, Make, Set, day, link, pick, text};

pub(super) const TICKETS: Entity = Entity {
    one: "ticket",
    many: "tickets",
    prefix: "TIC",
    area: "support",
    about: "a customer's question or complaint and what became of it",
    count: 500,
    fields: &[
        text(
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
        .needed()
        .search(),
        text(
            "message",
            8_000,
            "What the customer wrote.",
            &[
                "Hello, the {part} {fault} {place}. Please help.",
                "I ordered a {item} and got a {item}.",
                "Could you tell me about {topic}?",
            ],
        )
        .needed()
        .search(),
        link("customer_id", "customers", "Who asks.").needed(),
        link("order_id", "orders", "The order it is about.")
            .null()
            .made(Make::Sometimes(55, &Make::Any)),
        link("agent_id", "people", "Who of us answers.")
            .null()
            .made(Make::Sometimes(80, &Make::Any)),
        pick(
            "status",
            &["solved", "open", "waiting", "escalated"],
            "Where it stands.",
        )
        .starts("open"),
        pick("urgency", &["normal", "low", "high"], "How urgent it is."),
        pick(
            "topic",
            &["delivery", "billing", "product", "account", "other"],
            "What it is about.",
        )
        .needed(),
        Field::new(
            "satisfaction",
            Kind::Integer(1, 5),
            "How content the customer was, five is best.",
        )
        .null()
        .kept()
        .filter()
        .made(Make::When("status", &["solved"], &Make::Any)),
        Field::new(
            "first_answer_minutes",
            Kind::Integer(0, 100_000),
            "How long the first answer took, in minutes.",
        )
        .kept()
        .filter()
        .made(Make::Between(3, 2_000)),
    ],
    under: &["customer_id", "agent_id"],
    acts: &[
        Act {
            name: "solve_ticket",
            about: "Record that a ticket is solved.",
            takes: &[Field::new(
                "satisfaction",
                Kind::Integer(1, 5),
                "How content the customer was, five is best.",
            )],
            only: Some(("status", &["open", "waiting", "escalated"])),
            effect: Effect::Set(&[Set::To("status", "solved"), Set::Given("satisfaction")]),
        },
        Act {
            name: "escalate_ticket",
            about: "Hand a ticket to somebody more senior.",
            takes: &[link("agent_id", "people", "Who takes it over.").needed()],
            only: Some(("status", &["open", "waiting"])),
            effect: Effect::Set(&[Set::To("status", "escalated"), Set::Given("agent_id")]),
        },
        Act {
            name: "assign_ticket",
            about: "Give a ticket to a colleague.",
            takes: &[link("agent_id", "people", "Who answers from now on.").needed()],
            only: None,
            effect: Effect::Set(&[Set::Given("agent_id")]),
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
        text(
            "name",
            120,
            "What the folder is called.",
            &["{topic}", "{topic} {quarter}", "{part}"],
        )
        .needed()
        .search(),
        link("parent_id", "folders", "The folder it lies in; null at the top.").null(),
        link("team_id", "teams", "The team it belongs to.").needed(),
        pick(
            "access",
            &["team", "company", "management"],
            "Who may read what is in it.",
        )
        .needed(),
    ],
    under: &["team_id", "parent_id"],
    acts: &[],
};

pub(super) const DOCUMENTS: Entity = Entity {
    one: "document",
    many: "documents",
    prefix: "DOC",
    area: "files",
    about: "a file in the company's archive, with its text, owner and state",
    count: 350,
    fields: &[
        text(
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
        .needed()
        .search(),
        text(
            "content",
            20_000,
            "The text, in Markdown.",
            &[
                "# Notes\nThe {part} {fault} {place}. Next: {topic}.",
                "# Report\nIn {town} we saw that {topic} matters more than {topic}.",
                "# Guide\nOpen the {part}. Ask {first} {last} about {topic}.",
            ],
        )
        .search(),
        link("folder_id", "folders", "The folder it lies in.").needed(),
        link("owner_id", "people", "Who looks after it.").needed(),
        pick(
            "format",
            &["markdown", "pdf", "spreadsheet", "slides"],
            "What kind of file it is.",
        )
        .needed(),
        pick("state", &["published", "draft", "archived"], "Whether it counts.").starts("draft"),
        Field::new("confidential", Kind::Flag, "Whether it must stay inside the company.").filter(),
        Field::new("bytes", Kind::Integer(0, 1_000_000_000), "Its size in bytes.")
            .kept()
            .filter()
            .made(Make::Between(900, 4_000_000)),
        Field::new("shared_with", Kind::Links("people"), "Who else may read it.").made(Make::Between(0, 4)),
        day("review_on", "When somebody should read it again.", 90, 400).filter(),
    ],
    under: &["folder_id", "owner_id"],
    acts: &[
        Act {
            name: "publish_document",
            about: "Make a draft count.",
            takes: &[],
            only: Some(("state", &["draft"])),
            effect: Effect::Set(&[Set::To("state", "published")]),
        },
        Act {
            name: "archive_document",
            about: "Put a document away. It can still be read.",
            takes: &[],
            only: Some(("state", &["draft", "published"])),
            effect: Effect::Set(&[Set::To("state", "archived")]),
        },
        Act {
            name: "move_document",
            about: "Move a document to another folder.",
            takes: &[link("folder_id", "folders", "Where it lies from now on.").needed()],
            only: None,
            effect: Effect::Set(&[Set::Given("folder_id")]),
        },
        Act {
            name: "share_document",
            about: "Say who else may read a document.",
            takes: &[Field::new(
                "shared_with",
                Kind::Links("people"),
                "Everybody who may read it from now on.",
            )
            .needed()],
            only: None,
            effect: Effect::Set(&[Set::Given("shared_with")]),
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
        text(
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
        .needed()
        .search(),
        Field::new("starts_at", Kind::Time, "When it begins.")
            .needed()
            .filter()
            .made(Make::After(1, 20)),
        Field::new("minutes", Kind::Integer(5, 480), "How long it takes, in minutes.")
            .needed()
            .made(Make::Between(15, 120))
            .filter(),
        link("organiser_id", "people", "Who invited.").needed(),
        Field::new("attendee_ids", Kind::Links("people"), "Who is invited.")
            .needed()
            .made(Make::Between(2, 8)),
        link("customer_id", "customers", "The customer it is with.")
            .null()
            .made(Make::Sometimes(35, &Make::Any)),
        pick(
            "place",
            &["online", "Northhaven", "Lindenau", "Vallenza", "at_customer"],
            "Where.",
        ),
        pick("status", &["held", "planned", "cancelled"], "Whether it takes place.").starts("planned"),
        text(
            "decisions",
            4_000,
            "What was decided.",
            &["We begin with the {part}.", "{first} looks into {topic}.", ""],
        )
        .search(),
    ],
    under: &["organiser_id", "customer_id"],
    acts: &[
        Act {
            name: "cancel_meeting",
            about: "Call off a planned meeting.",
            takes: &[],
            only: Some(("status", &["planned"])),
            effect: Effect::Set(&[Set::To("status", "cancelled")]),
        },
        Act {
            name: "reschedule_meeting",
            about: "Move a planned meeting to another time.",
            takes: &[Field::new("starts_at", Kind::Time, "When it begins now.").needed()],
            only: Some(("status", &["planned"])),
            effect: Effect::Set(&[Set::Given("starts_at")]),
        },
    ],
};
