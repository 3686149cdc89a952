//! Projects and their issues.

use super::{
    ActionEffect, Entity, EntityAction, EntityField, FieldChange, FieldKind, SeedRule, cents_field, choice_field,
    day_field, link_field, text_field,
};

pub(super) const PROJECTS: Entity = Entity {
    one: "project",
    many: "projects",
    prefix: "PRJ",
    area: "tracker",
    about: "a piece of work with a goal, a lead, a budget and an end",
    count: 30,
    fields: &[
        text_field(
            "name",
            120,
            "What the project is called.",
            &["{colour} {part}", "Project {animal}"],
        )
        .required()
        .searchable(),
        text_field(
            "goal",
            1_000,
            "What will be true when it is done.",
            &[
                "The {part} no longer {fault}.",
                "Every {item} has its own page.",
                "{topic} takes half the time.",
            ],
        )
        .searchable(),
        link_field("lead_id", "people", "Who leads it.").required(),
        link_field("team_id", "teams", "The team that does most of the work.").required(),
        choice_field(
            "status",
            &["active", "planned", "done", "on_hold", "archived"],
            "Where it stands.",
        )
        .starting_as("planned"),
        cents_field("budget_cents", "What it may cost, in euro cents.", 500_000, 20_000_000).filterable(),
        day_field("due_on", "When it should be done.", 90, 400).filterable(),
    ],
    under: &["team_id"],
    actions: &[
        EntityAction {
            name: "archive_project",
            about: "Put a finished project away. Its issues can still be read.",
            takes: &[],
            only: Some(("status", &["done", "on_hold"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "archived")]),
        },
        EntityAction {
            name: "start_project",
            about: "Begin a planned project, or take one up again.",
            takes: &[],
            only: Some(("status", &["planned", "on_hold"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "active")]),
        },
    ],
};

pub(super) const MILESTONES: Entity = Entity {
    one: "milestone",
    many: "milestones",
    prefix: "MIL",
    area: "tracker",
    about: "a step of a project that is reached on a date",
    count: 90,
    fields: &[
        text_field(
            "title",
            160,
            "What is reached.",
            &["{part} ready", "{topic} signed", "First {item} shipped"],
        )
        .required()
        .searchable(),
        link_field("project_id", "projects", "The project it belongs to.").required(),
        choice_field("state", &["open", "reached", "missed"], "Whether it was reached.").starting_as("open"),
        day_field("due_on", "When it should be reached.", 20, 120)
            .required()
            .filterable(),
        EntityField::new("progress", FieldKind::Integer(0, 100), "How much is done, in percent.").filterable(),
    ],
    under: &["project_id"],
    actions: &[EntityAction {
        name: "reach_milestone",
        about: "Record that a milestone was reached.",
        takes: &[],
        only: Some(("state", &["open", "missed"])),
        effect: ActionEffect::Set(&[FieldChange::To("state", "reached")]),
    }],
};

const ISSUE_STATES: &[&str] = &["open", "closed", "in_progress", "in_review", "blocked"];

pub(super) const ISSUES: Entity = Entity {
    one: "issue",
    many: "issues",
    prefix: "ISS",
    area: "tracker",
    about: "a fault, a wish or a task in the tracker, with its state, priority, labels and assignee",
    count: 600,
    fields: &[
        text_field(
            "title",
            200,
            "The issue in a line.",
            &[
                "{part} {fault}",
                "{part} {fault} {place}",
                "Make the {part} ready for {topic}",
            ],
        )
        .required()
        .searchable(),
        text_field(
            "body",
            8_000,
            "The whole story, in Markdown.",
            &[
                "Since the last update the {part} {fault} {place}. Seen in {town}.",
                "A customer in {town} asked for it. It is about {topic}.",
                "Steps: open the {part}; it {fault}.",
            ],
        )
        .searchable(),
        choice_field(
            "kind",
            &["bug", "task", "feature", "question"],
            "What sort of issue it is.",
        )
        .required(),
        choice_field("state", ISSUE_STATES, "Where it stands.").starting_as("open"),
        choice_field(
            "priority",
            &["medium", "low", "high", "urgent"],
            "How soon it should be done.",
        ),
        EntityField::new(
            "labels",
            FieldKind::Tags(&[
                "backend",
                "frontend",
                "mobile",
                "docs",
                "security",
                "performance",
                "regression",
                "customer",
                "good_first_issue",
            ]),
            "Marks to find it by.",
        )
        .with_seed(SeedRule::Between(0, 3))
        .filterable(),
        link_field("project_id", "projects", "The project it belongs to.").required(),
        link_field("milestone_id", "milestones", "The milestone it should be done for.")
            .allow_null()
            .with_seed(SeedRule::Sometimes(45, &SeedRule::Any)),
        link_field("reporter_id", "people", "Who wrote it.").required(),
        link_field("assignee_id", "people", "Who works on it.")
            .allow_null()
            .with_seed(SeedRule::Sometimes(75, &SeedRule::Any)),
        link_field("customer_id", "customers", "The customer it came from.")
            .allow_null()
            .with_seed(SeedRule::Sometimes(30, &SeedRule::Any)),
        EntityField::new(
            "estimate_hours",
            FieldKind::Integer(0, 400),
            "How long it may take, in hours.",
        )
        .allow_null()
        .filterable()
        .with_seed(SeedRule::Sometimes(60, &SeedRule::Between(1, 40))),
        EntityField::new("due_on", FieldKind::Day, "When it should be done.")
            .allow_null()
            .filterable()
            .with_seed(SeedRule::Sometimes(40, &SeedRule::After(5, 90))),
        EntityField::new("closed_at", FieldKind::Time, "When it was closed.")
            .allow_null()
            .managed()
            .filterable()
            .with_seed(SeedRule::When("state", &["closed"], &SeedRule::After(1, 30))),
        choice_field(
            "resolution",
            &["fixed", "duplicate", "wont_fix", "not_a_bug"],
            "How it ended.",
        )
        .allow_null()
        .managed()
        .with_seed(SeedRule::When("state", &["closed"], &SeedRule::Early)),
    ],
    under: &["project_id", "assignee_id", "milestone_id", "customer_id"],
    actions: &[
        EntityAction {
            name: "close_issue",
            about: "Close an issue and say how it ended.",
            takes: &[choice_field(
                "resolution",
                &["fixed", "duplicate", "wont_fix", "not_a_bug"],
                "How it ended.",
            )
            .required()],
            only: Some(("state", &["open", "in_progress", "in_review", "blocked"])),
            effect: ActionEffect::Set(&[
                FieldChange::To("state", "closed"),
                FieldChange::Given("resolution"),
                FieldChange::Now("closed_at"),
            ]),
        },
        EntityAction {
            name: "reopen_issue",
            about: "Open a closed issue again.",
            takes: &[],
            only: Some(("state", &["closed"])),
            effect: ActionEffect::Set(&[
                FieldChange::To("state", "open"),
                FieldChange::Clear("resolution"),
                FieldChange::Clear("closed_at"),
            ]),
        },
        EntityAction {
            name: "assign_issue",
            about: "Give an issue to somebody to work on.",
            takes: &[link_field("assignee_id", "people", "Who works on it from now on.").required()],
            only: None,
            effect: ActionEffect::Set(&[FieldChange::Given("assignee_id")]),
        },
        EntityAction {
            name: "move_issue",
            about: "Move an issue to another state of the board, short of closing it.",
            takes: &[choice_field(
                "state",
                &["open", "in_progress", "in_review", "blocked"],
                "The new state.",
            )
            .required()],
            only: Some(("state", &["open", "in_progress", "in_review", "blocked"])),
            effect: ActionEffect::Set(&[FieldChange::Given("state")]),
        },
        EntityAction {
            name: "label_issue",
            about: "Replace the labels of an issue.",
            takes: &[EntityField::new(
                "labels",
                FieldKind::Tags(&[
                    "backend",
                    "frontend",
                    "mobile",
                    "docs",
                    "security",
                    "performance",
                    "regression",
                    "customer",
                    "good_first_issue",
                ]),
                "The labels it has from now on.",
            )
            .required()],
            only: None,
            effect: ActionEffect::Set(&[FieldChange::Given("labels")]),
        },
        EntityAction {
            name: "comment_on_issue",
            about: "Write a comment under an issue.",
            takes: &[],
            only: None,
            effect: ActionEffect::Add("issue_comments", "issue_id"),
        },
    ],
};

pub(super) const ISSUE_COMMENTS: Entity = Entity {
    one: "issue_comment",
    many: "issue_comments",
    prefix: "COM",
    area: "tracker",
    about: "what somebody wrote under an issue",
    count: 1_100,
    fields: &[
        text_field(
            "body",
            8_000,
            "The comment, in Markdown.",
            &[
                "Seen again in {town}.",
                "The {part} {fault} here too.",
                "Fixed with the release of {quarter}.",
                "Can somebody from {topic} look at this?",
            ],
        )
        .required()
        .searchable(),
        link_field("issue_id", "issues", "The issue it stands under.").required(),
        link_field("author_id", "people", "Who wrote it.").required(),
        EntityField::new("internal", FieldKind::Flag, "Whether customers must not see it.").filterable(),
        choice_field(
            "reaction",
            &["none", "thumbs_up", "heart", "eyes"],
            "What most readers answered with.",
        )
        .starting_as("none"),
    ],
    under: &["author_id"],
    actions: &[],
};
