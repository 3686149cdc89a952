//! People, teams, absences, candidates and devices.

use super::{
    ActionEffect, Entity, EntityAction, EntityField, FieldChange, FieldKind, SeedRule, choice_field, day_field,
    link_field, text_field,
};

pub(super) const TEAMS: Entity = Entity {
    one: "team",
    many: "teams",
    prefix: "TEA",
    area: "people",
    about: "a group of people who work together under one lead and one cost centre",
    count: 14,
    fields: &[
        text_field(
            "name",
            80,
            "What the team is called.",
            &["Team {colour} {animal}", "{colour} {animal}s"],
        )
        .required()
        .searchable(),
        choice_field(
            "department",
            &["engineering", "operations", "sales", "support", "finance", "people"],
            "The department the team belongs to.",
        )
        .required(),
        text_field(
            "purpose",
            400,
            "What the team is there for, in a sentence.",
            &["Looks after {topic} and {topic}.", "Owns everything about the {part}."],
        )
        .searchable(),
        text_field(
            "cost_centre",
            12,
            "The accounting code its costs are booked on.",
            &["CC-{digit}{digit}{digit}{digit}"],
        ),
        EntityField::new(
            "channel",
            FieldKind::Uri,
            "Where the team's announcements are published.",
        )
        .allow_null()
        .with_seed(SeedRule::Handle("name")),
        EntityField::new("remote", FieldKind::Flag, "Whether its members may work from anywhere.").filterable(),
    ],
    under: &[],
    actions: &[],
};

pub(super) const PEOPLE: Entity = Entity {
    one: "person",
    many: "people",
    prefix: "PER",
    area: "people",
    about: "somebody who works for the company, with role, team, manager and ways to reach them",
    count: 120,
    fields: &[
        text_field("name", 120, "First and last name.", &["{first} {last}"])
            .required()
            .searchable(),
        EntityField::new("email", FieldKind::Email, "The work e-mail address.")
            .with_seed(SeedRule::Handle("name"))
            .required()
            .searchable(),
        EntityField::new(
            "phone",
            FieldKind::Phone,
            "The work telephone number, with country code.",
        )
        .allow_null(),
        text_field(
            "title",
            80,
            "The job title.",
            &["{topic} lead", "{topic} specialist", "Clerk for {topic}", "Engineer"],
        )
        .searchable(),
        link_field("team_id", "teams", "The team the person belongs to.").required(),
        link_field(
            "manager_id",
            "people",
            "The person they report to; null for whoever heads the company.",
        )
        .allow_null(),
        choice_field(
            "office",
            &["Northhaven", "Lindenau", "Vallenza", "remote"],
            "Where they usually work.",
        ),
        choice_field(
            "employment",
            &["full_time", "part_time", "contractor", "intern"],
            "The kind of contract.",
        ),
        choice_field(
            "status",
            &["active", "on_leave", "left"],
            "Whether they work here at present.",
        )
        .starting_as("active"),
        day_field("start_date", "The first day of work.", 0, 40).filterable(),
        EntityField::new(
            "skills",
            FieldKind::Tags(&[
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
        .with_seed(SeedRule::Between(1, 4))
        .filterable(),
        EntityField::new(
            "emergency_contact",
            FieldKind::Part(&[
                text_field("name", 120, "Whom to call.", &["{first} {last}"]).required(),
                EntityField::new("phone", FieldKind::Phone, "Their telephone number.").required(),
                choice_field(
                    "relation",
                    &["partner", "parent", "sibling", "friend"],
                    "How they are related.",
                ),
            ]),
            "Whom to call when something happens.",
        )
        .allow_null()
        .with_seed(SeedRule::Sometimes(70, &SeedRule::Any)),
    ],
    under: &["team_id", "manager_id"],
    actions: &[
        EntityAction {
            name: "transfer_person",
            about: "Move a person to another team, and to another manager where one is given.",
            takes: &[
                link_field("team_id", "teams", "The team to move to.").required(),
                link_field("manager_id", "people", "The new manager."),
            ],
            only: Some(("status", &["active", "on_leave"])),
            effect: ActionEffect::Set(&[FieldChange::Given("team_id"), FieldChange::Given("manager_id")]),
        },
        EntityAction {
            name: "offboard_person",
            about: "Record that a person has left the company. Their records stay.",
            takes: &[],
            only: Some(("status", &["active", "on_leave"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "left")]),
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
        text_field(
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
        .required()
        .searchable(),
        link_field("person_id", "people", "Who is away.").required(),
        choice_field(
            "kind",
            &["holiday", "illness", "parental", "training", "unpaid"],
            "Why.",
        )
        .required(),
        choice_field(
            "status",
            &["approved", "requested", "declined", "withdrawn"],
            "Where the request stands.",
        )
        .starting_as("requested"),
        day_field("from_date", "The first day away.", 5, 40)
            .required()
            .filterable(),
        day_field("to_date", "The last day away.", 41, 55).required(),
        EntityField::new(
            "half_days",
            FieldKind::Integer(0, 2),
            "How many of the days count half.",
        )
        .with_seed(SeedRule::Early),
        link_field("decided_by", "people", "Who approved or declined it.")
            .allow_null()
            .managed()
            .with_seed(SeedRule::When("status", &["approved", "declined"], &SeedRule::Any)),
    ],
    under: &["person_id"],
    actions: &[
        EntityAction {
            name: "approve_absence",
            about: "Approve a requested absence in the name of a manager.",
            takes: &[link_field("decided_by", "people", "The manager who approves.").required()],
            only: Some(("status", &["requested"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "approved"), FieldChange::Given("decided_by")]),
        },
        EntityAction {
            name: "decline_absence",
            about: "Decline a requested absence in the name of a manager.",
            takes: &[link_field("decided_by", "people", "The manager who declines.").required()],
            only: Some(("status", &["requested"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "declined"), FieldChange::Given("decided_by")]),
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
        text_field("name", 120, "First and last name.", &["{first} {last}"])
            .required()
            .searchable(),
        EntityField::new("email", FieldKind::Email, "The candidate's e-mail address.")
            .with_seed(SeedRule::Handle("name"))
            .required()
            .searchable(),
        text_field(
            "position",
            120,
            "What they applied for.",
            &["{topic} specialist", "{topic} lead", "Engineer", "Clerk"],
        )
        .required()
        .searchable(),
        link_field("team_id", "teams", "The team that hires.").required(),
        choice_field(
            "stage",
            &["applied", "screening", "interview", "offer", "hired", "rejected"],
            "How far the application has come.",
        )
        .starting_as("applied"),
        choice_field(
            "source",
            &["website", "referral", "agency", "fair"],
            "How they found the company.",
        ),
        EntityField::new(
            "rating",
            FieldKind::Integer(1, 5),
            "The interviewers' rating, five is best.",
        )
        .allow_null()
        .filterable()
        .with_seed(SeedRule::When(
            "stage",
            &["interview", "offer", "hired"],
            &SeedRule::Any,
        )),
        EntityField::new(
            "salary_wish_cents",
            FieldKind::Cents,
            "The yearly salary they hope for, in euro cents.",
        )
        .allow_null()
        .with_seed(SeedRule::Between(3_200_000, 9_400_000)),
        EntityField::new("portfolio", FieldKind::Uri, "A page with their work.")
            .allow_null()
            .with_seed(SeedRule::Sometimes(40, &SeedRule::Handle("name"))),
    ],
    under: &["team_id"],
    actions: &[
        EntityAction {
            name: "advance_candidate",
            about: "Move a candidate to another stage of the application.",
            takes: &[choice_field(
                "stage",
                &["screening", "interview", "offer", "hired"],
                "The stage that begins now.",
            )
            .required()],
            only: Some(("stage", &["applied", "screening", "interview", "offer"])),
            effect: ActionEffect::Set(&[FieldChange::Given("stage")]),
        },
        EntityAction {
            name: "reject_candidate",
            about: "End an application without an offer.",
            takes: &[],
            only: Some(("stage", &["applied", "screening", "interview", "offer"])),
            effect: ActionEffect::Set(&[FieldChange::To("stage", "rejected")]),
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
        text_field(
            "name",
            80,
            "What is written on its label.",
            &["{colour}-{animal}", "{animal}-{digit}{digit}"],
        )
        .required()
        .searchable(),
        choice_field(
            "kind",
            &["laptop", "monitor", "phone", "printer", "scanner"],
            "What it is.",
        )
        .required(),
        text_field(
            "serial",
            24,
            "The maker's serial number.",
            &["EX{digit}{digit}{digit}{digit}-{digit}{digit}{digit}"],
        )
        .required()
        .searchable(),
        choice_field(
            "state",
            &["in_use", "in_store", "repair", "retired"],
            "Where it is in its life.",
        )
        .starting_as("in_store"),
        link_field("holder_id", "people", "Who has it now.")
            .allow_null()
            .managed()
            .with_seed(SeedRule::When("state", &["in_use"], &SeedRule::Any)),
        super::cents_field("price_cents", "What it cost, in euro cents.", 8_000, 260_000).filterable(),
        day_field("warranty_until", "The last day of the warranty.", 365, 1_095).filterable(),
    ],
    under: &["holder_id"],
    actions: &[
        EntityAction {
            name: "lend_device",
            about: "Give a device from the store to a person.",
            takes: &[link_field("holder_id", "people", "Who gets it.").required()],
            only: Some(("state", &["in_store"])),
            effect: ActionEffect::Set(&[FieldChange::To("state", "in_use"), FieldChange::Given("holder_id")]),
        },
        EntityAction {
            name: "retire_device",
            about: "Take a device out of use for good.",
            takes: &[],
            only: Some(("state", &["in_use", "in_store", "repair"])),
            effect: ActionEffect::Set(&[FieldChange::To("state", "retired"), FieldChange::Clear("holder_id")]),
        },
    ],
};
