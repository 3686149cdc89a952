//! People, teams, absences, candidates and devices.

use super::{Act, Effect, Entity, Field, Kind, Make, Set, day, link, pick, text};

pub(super) const TEAMS: Entity = Entity {
    one: "team",
    many: "teams",
    prefix: "TEA",
    area: "people",
    about: "a group of people who work together under one lead and one cost centre",
    count: 14,
    fields: &[
        text(
            "name",
            80,
            "What the team is called.",
            &["Team {colour} {animal}", "{colour} {animal}s"],
        )
        .needed()
        .search(),
        pick(
            "department",
            &["engineering", "operations", "sales", "support", "finance", "people"],
            "The department the team belongs to.",
        )
        .needed(),
        text(
            "purpose",
            400,
            "What the team is there for, in a sentence.",
            &["Looks after {topic} and {topic}.", "Owns everything about the {part}."],
        )
        .search(),
        text(
            "cost_centre",
            12,
            "The accounting code its costs are booked on.",
            &["CC-{digit}{digit}{digit}{digit}"],
        ),
        Field::new("channel", Kind::Uri, "Where the team's announcements are published.")
            .null()
            .made(Make::Handle("name")),
        Field::new("remote", Kind::Flag, "Whether its members may work from anywhere.").filter(),
    ],
    under: &[],
    acts: &[],
};

pub(super) const PEOPLE: Entity = Entity {
    one: "person",
    many: "people",
    prefix: "PER",
    area: "people",
    about: "somebody who works for the company, with role, team, manager and ways to reach them",
    count: 120,
    fields: &[
        text("name", 120, "First and last name.", &["{first} {last}"])
            .needed()
            .search(),
        Field::new("email", Kind::Email, "The work e-mail address.")
            .made(Make::Handle("name"))
            .needed()
            .search(),
        Field::new("phone", Kind::Phone, "The work telephone number, with country code.").null(),
        text(
            "title",
            80,
            "The job title.",
            &["{topic} lead", "{topic} specialist", "Clerk for {topic}", "Engineer"],
        )
        .search(),
        link("team_id", "teams", "The team the person belongs to.").needed(),
        link(
            "manager_id",
            "people",
            "The person they report to; null for whoever heads the company.",
        )
        .null(),
        pick(
            "office",
            &["Northhaven", "Lindenau", "Vallenza", "remote"],
            "Where they usually work.",
        ),
        pick(
            "employment",
            &["full_time", "part_time", "contractor", "intern"],
            "The kind of contract.",
        ),
        pick(
            "status",
            &["active", "on_leave", "left"],
            "Whether they work here at present.",
        )
        .starts("active"),
        day("start_date", "The first day of work.", 0, 40).filter(),
        Field::new(
            "skills",
            Kind::Tags(&[
                "rust",
                "typescript",
                "python",
                "sql",
                "design",
                "sales",
                "law",
                "accounting",
                "logistics",
            ]),
            "What they are good at.",
        )
        .made(Make::Between(1, 4))
        .filter(),
        Field::new(
            "emergency_contact",
            Kind::Part(&[
                text("name", 120, "Whom to call.", &["{first} {last}"]).needed(),
                Field::new("phone", Kind::Phone, "Their telephone number.").needed(),
                pick(
                    "relation",
                    &["partner", "parent", "sibling", "friend"],
                    "How they are related.",
                ),
            ]),
            "Whom to call when something happens.",
        )
        .null()
        .made(Make::Sometimes(70, &Make::Any)),
    ],
    under: &["team_id", "manager_id"],
    acts: &[
        Act {
            name: "transfer_person",
            about: "Move a person to another team, and to another manager where one is given.",
            takes: &[
                link("team_id", "teams", "The team to move to.").needed(),
                link("manager_id", "people", "The new manager."),
            ],
            only: Some(("status", &["active", "on_leave"])),
            effect: Effect::Set(&[Set::Given("team_id"), Set::Given("manager_id")]),
        },
        Act {
            name: "offboard_person",
            about: "Record that a person has left the company. Their records stay.",
            takes: &[],
            only: Some(("status", &["active", "on_leave"])),
            effect: Effect::Set(&[Set::To("status", "left")]),
        },
    ],
};

pub(super) const ABSENCES: Entity = Entity {
    one: "absence",
    many: "absences",
    prefix: "ABS",
    area: "people",
    about: "a holiday, an illness or another time away, with its approval",
    count: 220,
    fields: &[
        text(
            "summary",
            160,
            "A line for the calendar.",
            &[
                "Away",
                "Family visit in {town}",
                "Long weekend in {town}",
                "Doctor's note",
            ],
        )
        .needed()
        .search(),
        link("person_id", "people", "Who is away.").needed(),
        pick(
            "kind",
            &["holiday", "illness", "parental", "training", "unpaid"],
            "Why.",
        )
        .needed(),
        pick(
            "status",
            &["approved", "requested", "declined", "withdrawn"],
            "Where the request stands.",
        )
        .starts("requested"),
        day("from_date", "The first day away.", 5, 40).needed().filter(),
        day("to_date", "The last day away.", 41, 55).needed(),
        Field::new("half_days", Kind::Integer(0, 2), "How many of the days count half.").made(Make::Early),
        link("decided_by", "people", "Who approved or declined it.")
            .null()
            .kept()
            .made(Make::When("status", &["approved", "declined"], &Make::Any)),
    ],
    under: &["person_id"],
    acts: &[
        Act {
            name: "approve_absence",
            about: "Approve a requested absence in the name of a manager.",
            takes: &[link("decided_by", "people", "The manager who approves.").needed()],
            only: Some(("status", &["requested"])),
            effect: Effect::Set(&[Set::To("status", "approved"), Set::Given("decided_by")]),
        },
        Act {
            name: "decline_absence",
            about: "Decline a requested absence in the name of a manager.",
            takes: &[link("decided_by", "people", "The manager who declines.").needed()],
            only: Some(("status", &["requested"])),
            effect: Effect::Set(&[Set::To("status", "declined"), Set::Given("decided_by")]),
        },
    ],
};

pub(super) const CANDIDATES: Entity = Entity {
    one: "candidate",
    many: "candidates",
    prefix: "CAN",
    area: "people",
    about: "somebody who applied for a position, with the stage their application has reached",
    count: 90,
    fields: &[
        text("name", 120, "First and last name.", &["{first} {last}"])
            .needed()
            .search(),
        Field::new("email", Kind::Email, "The candidate's e-mail address.")
            .made(Make::Handle("name"))
            .needed()
            .search(),
        text(
            "position",
            120,
            "What they applied for.",
            &["{topic} specialist", "{topic} lead", "Engineer", "Clerk"],
        )
        .needed()
        .search(),
        link("team_id", "teams", "The team that hires.").needed(),
        pick(
            "stage",
            &["applied", "screening", "interview", "offer", "hired", "rejected"],
            "How far the application has come.",
        )
        .starts("applied"),
        pick(
            "source",
            &["website", "referral", "agency", "fair"],
            "How they found the company.",
        ),
        Field::new("rating", Kind::Integer(1, 5), "The interviewers' rating, five is best.")
            .null()
            .filter()
            .made(Make::When("stage", &["interview", "offer", "hired"], &Make::Any)),
        Field::new(
            "salary_wish_cents",
            Kind::Cents,
            "The yearly salary they hope for, in euro cents.",
        )
        .null()
        .made(Make::Between(3_200_000, 9_400_000)),
        Field::new("portfolio", Kind::Uri, "A page with their work.")
            .null()
            .made(Make::Sometimes(40, &Make::Handle("name"))),
    ],
    under: &["team_id"],
    acts: &[
        Act {
            name: "advance_candidate",
            about: "Move a candidate to another stage of the application.",
            takes: &[pick(
                "stage",
                &["screening", "interview", "offer", "hired"],
                "The stage that begins now.",
            )
            .needed()],
            only: Some(("stage", &["applied", "screening", "interview", "offer"])),
            effect: Effect::Set(&[Set::Given("stage")]),
        },
        Act {
            name: "reject_candidate",
            about: "End an application without an offer.",
            takes: &[],
            only: Some(("stage", &["applied", "screening", "interview", "offer"])),
            effect: Effect::Set(&[Set::To("stage", "rejected")]),
        },
    ],
};

pub(super) const DEVICES: Entity = Entity {
    one: "device",
    many: "devices",
    prefix: "DEV",
    area: "people",
    about: "a laptop, telephone or other piece of equipment the company owns and lends to its people",
    count: 180,
    fields: &[
        text(
            "name",
            80,
            "What is written on its label.",
            &["{colour}-{animal}", "{animal}-{digit}{digit}"],
        )
        .needed()
        .search(),
        pick(
            "kind",
            &["laptop", "monitor", "phone", "printer", "scanner"],
            "What it is.",
        )
        .needed(),
        text(
            "serial",
            24,
            "The maker's serial number.",
            &["EX{digit}{digit}{digit}{digit}-{digit}{digit}{digit}"],
        )
        .needed()
        .search(),
        pick(
            "state",
            &["in_use", "in_store", "repair", "retired"],
            "Where it is in its life.",
        )
        .starts("in_store"),
        link("holder_id", "people", "Who has it now.")
            .null()
            .kept()
            .made(Make::When("state", &["in_use"], &Make::Any)),
        super::cents("price_cents", "What it cost, in euro cents.", 8_000, 260_000).filter(),
        day("warranty_until", "The last day of the warranty.", 365, 1_095).filter(),
    ],
    under: &["holder_id"],
    acts: &[
        Act {
            name: "lend_device",
            about: "Give a device from the store to a person.",
            takes: &[link("holder_id", "people", "Who gets it.").needed()],
            only: Some(("state", &["in_store"])),
            effect: Effect::Set(&[Set::To("state", "in_use"), Set::Given("holder_id")]),
        },
        Act {
            name: "retire_device",
            about: "Take a device out of use for good.",
            takes: &[],
            only: Some(("state", &["in_use", "in_store", "repair"])),
            effect: Effect::Set(&[Set::To("state", "retired"), Set::Clear("holder_id")]),
        },
    ],
};
