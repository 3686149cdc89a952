//! Projects and their issues.

use super::{Act, Effect, Entity, Field, Kind, Make, Set, cents, day, link, pick, text};

pub(super) const PROJECTS: Entity = Entity {
    one: "project",
    many: "projects",
    prefix: "PRJ",
    area: "tracker",
    about: "a piece of work with a goal, a lead, a budget and an end",
    count: 30,
    fields: &[
        text(
            "name",
            120,
            "What the project is called.",
            &["{colour} {part}", "Project {animal}"],
        )
        .needed()
        .search(),
        text(
            "goal",
            1_000,
            "What will be true when it is done.",
            &[
                "The {part} no longer {fault}.",
                "Every {item} has its own page.",
                "{topic} takes half the time.",
            ],
        )
        .search(),
        link("lead_id", "people", "Who leads it.").needed(),
        link("team_id", "teams", "The team that does most of the work.").needed(),
        pick(
            "status",
            &["active", "planned", "done", "on_hold", "archived"],
            "Where it stands.",
        )
        .starts("planned"),
        cents("budget_cents", "What it may cost, in euro cents.", 500_000, 20_000_000).filter(),
        day("due_on", "When it should be done.", 90, 400).filter(),
    ],
    under: &["team_id"],
    acts: &[
        Act {
            name: "archive_project",
            about: "Put a finished project away. Its issues can still be read.",
            takes: &[],
            only: Some(("status", &["done", "on_hold"])),
            effect: Effect::Set(&[Set::To("status", "archived")]),
        },
        Act {
            name: "start_project",
            about: "Begin a planned project, or take one up again.",
            takes: &[],
            only: Some(("status", &["planned", "on_hold"])),
            effect: Effect::Set(&[Set::To("status", "active")]),
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
        text(
            "title",
            160,
            "What is reached.",
            &["{part} ready", "{topic} signed", "First {item} shipped"],
        )
        .needed()
        .search(),
        link("project_id", "projects", "The project it belongs to.").needed(),
        pick("state", &["open", "reached", "missed"], "Whether it was reached.").starts("open"),
        day("due_on", "When it should be reached.", 20, 120).needed().filter(),
        Field::new("progress", Kind::Integer(0, 100), "How much is done, in percent.").filter(),
    ],
    under: &["project_id"],
    acts: &[Act {
        name: "reach_milestone",
        about: "Record that a milestone was reached.",
        takes: &[],
        only: Some(("state", &["open", "missed"])),
        effect: Effect::Set(&[Set::To("state", "reached")]),
    }],
};

const STATES: &[&str] = &["open", "closed", "in_progress", "in_review", "blocked"];

pub(super) const ISSUES: Entity = Entity {
    one: "issue",
    many: "issues",
    prefix: "ISS",
    area: "tracker",
    about: "a fault, a wish or a task in the tracker, with its state, priority, labels and assignee",
    count: 600,
    fields: &[
        text(
            "title",
            200,
            "The issue in a line.",
            &[
                "{part} {fault}",
                "{part} {fault} {place}",
                "Make the {part} ready for {topic}",
            ],
        )
        .needed()
        .search(),
        text(
            "body",
            8_000,
            "The whole story, in Markdown.",
            &[
                "Since the last update the {part} {fault} {place}. Seen in {town}.",
                "A customer in {town} asked for it. It is about {topic}.",
                "Steps: open the {part}; it {fault}.",
            ],
        )
        .search(),
        pick(
            "kind",
            &["bug", "task", "feature", "question"],
            "What sort of issue it is.",
        )
        .needed(),
        pick("state", STATES, "Where it stands.").starts("open"),
        pick(
            "priority",
            &["medium", "low", "high", "urgent"],
            "How soon it should be done.",
        ),
        Field::new(
            "labels",
            Kind::Tags(&[
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
        .made(Make::Between(0, 3))
        .filter(),
        link("project_id", "projects", "The project it belongs to.").needed(),
        link("milestone_id", "milestones", "The milestone it should be done for.")
            .null()
            .made(Make::Sometimes(45, &Make::Any)),
        link("reporter_id", "people", "Who wrote it.").needed(),
        link("assignee_id", "people", "Who works on it.")
            .null()
            .made(Make::Sometimes(75, &Make::Any)),
        link("customer_id", "customers", "The customer it came from.")
            .null()
            .made(Make::Sometimes(30, &Make::Any)),
        Field::new(
            "estimate_hours",
            Kind::Integer(0, 400),
            "How long it may take, in hours.",
        )
        .null()
        .filter()
        .made(Make::Sometimes(60, &Make::Between(1, 40))),
        Field::new("due_on", Kind::Day, "When it should be done.")
            .null()
            .filter()
            .made(Make::Sometimes(40, &Make::After(5, 90))),
        Field::new("closed_at", Kind::Time, "When it was closed.")
            .null()
            .kept()
            .filter()
            .made(Make::When("state", &["closed"], &Make::After(1, 30))),
        pick(
            "resolution",
            &["fixed", "duplicate", "wont_fix", "not_a_bug"],
            "How it ended.",
        )
        .null()
        .kept()
        .made(Make::When("state", &["closed"], &Make::Early)),
    ],
    under: &["project_id", "assignee_id", "milestone_id", "customer_id"],
    acts: &[
        Act {
            name: "close_issue",
            about: "Close an issue and say how it ended.",
            takes: &[pick(
                "resolution",
                &["fixed", "duplicate", "wont_fix", "not_a_bug"],
                "How it ended.",
            )
            .needed()],
            only: Some(("state", &["open", "in_progress", "in_review", "blocked"])),
            effect: Effect::Set(&[
                Set::To("state", "closed"),
                Set::Given("resolution"),
                Set::Now("closed_at"),
            ]),
        },
        Act {
            name: "reopen_issue",
            about: "Open a closed issue again.",
            takes: &[],
            only: Some(("state", &["closed"])),
            effect: Effect::Set(&[
                Set::To("state", "open"),
                Set::Clear("resolution"),
                Set::Clear("closed_at"),
            ]),
        },
        Act {
            name: "assign_issue",
            about: "Give an issue to somebody to work on.",
            takes: &[link("assignee_id", "people", "Who works on it from now on.").needed()],
            only: None,
            effect: Effect::Set(&[Set::Given("assignee_id")]),
        },
        Act {
            name: "move_issue",
            about: "Move an issue to another state of the board, short of closing it.",
            takes: &[pick(
                "state",
                &["open", "in_progress", "in_review", "blocked"],
                "The new state.",
            )
            .needed()],
            only: Some(("state", &["open", "in_progress", "in_review", "blocked"])),
            effect: Effect::Set(&[Set::Given("state")]),
        },
        Act {
            name: "label_issue",
            about: "Replace the labels of an issue.",
            takes: &[Field::new(
                "labels",
                Kind::Tags(&[
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
            .needed()],
            only: None,
            effect: Effect::Set(&[Set::Given("labels")]),
        },
        Act {
            name: "comment_on_issue",
            about: "Write a comment under an issue.",
            takes: &[],
            only: None,
            effect: Effect::Add("issue_comments", "issue_id"),
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
        text(
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
        .needed()
        .search(),
        link("issue_id", "issues", "The issue it stands under.").needed(),
        link("author_id", "people", "Who wrote it.").needed(),
        Field::new("internal", Kind::Flag, "Whether customers must not see it.").filter(),
        pick(
            "reaction",
            &["none", "thumbs_up", "heart", "eyes"],
            "What most readers answered with.",
        )
        .starts("none"),
    ],
    under: &["author_id"],
    acts: &[],
};
