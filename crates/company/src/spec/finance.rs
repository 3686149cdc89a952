//! Invoices, payments, expenses and subscriptions.

use super::{
    ActionEffect, Entity, EntityAction, EntityField, FieldChange, FieldKind, SeedRule, cents_field, choice_field,
    day_field, link_field, text_field,
};

pub(super) const INVOICES: Entity = Entity {
    one: "invoice",
    many: "invoices",
    prefix: "INV",
    area: "finance",
    about: "a bill for an order, with its due date and whether it is paid",
    count: 1_200,
    fields: &[
        text_field(
            "subject",
            160,
            "The subject line.",
            &["Your order of the {quarter}", "Delivery to {town}", "Goods as ordered"],
        )
        .required()
        .searchable(),
        link_field("order_id", "orders", "The order it bills.").required(),
        EntityField::new("customer_id", FieldKind::Link("customers"), "Who has to pay.")
            .managed()
            .filterable()
            .with_seed(SeedRule::Through("order_id", "customer_id")),
        choice_field(
            "status",
            &["paid", "sent", "overdue", "draft", "void"],
            "Where it stands.",
        )
        .starting_as("draft"),
        EntityField::new(
            "amount_cents",
            FieldKind::Cents,
            "The amount without tax, in euro cents.",
        )
        .managed()
        .filterable()
        .with_seed(SeedRule::Through("order_id", "total_cents")),
        EntityField::new(
            "tax_percent",
            FieldKind::Integer(0, 30),
            "The value added tax, in percent.",
        )
        .with_seed(SeedRule::Between(19, 22)),
        day_field("issued_on", "The day it was written.", 0, 2).filterable(),
        day_field("due_on", "The day by which it should be paid.", 14, 44)
            .required()
            .filterable(),
        EntityField::new("paid_on", FieldKind::Day, "The day it was paid.")
            .allow_null()
            .managed()
            .filterable()
            .with_seed(SeedRule::When("status", &["paid"], &SeedRule::After(5, 50))),
        EntityField::new("reminders", FieldKind::Integer(0, 9), "How many reminders were sent.")
            .managed()
            .with_seed(SeedRule::Early),
    ],
    under: &["order_id", "customer_id"],
    actions: &[
        EntityAction {
            name: "send_invoice",
            about: "Send a draft invoice to the customer.",
            takes: &[],
            only: Some(("status", &["draft"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "sent")]),
        },
        EntityAction {
            name: "mark_invoice_paid",
            about: "Record that an invoice was paid today.",
            takes: &[],
            only: Some(("status", &["sent", "overdue"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "paid"), FieldChange::Now("paid_on")]),
        },
        EntityAction {
            name: "void_invoice",
            about: "Declare an unpaid invoice void. It stays in the books.",
            takes: &[],
            only: Some(("status", &["draft", "sent", "overdue"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "void")]),
        },
    ],
};

pub(super) const PAYMENTS: Entity = Entity {
    one: "payment",
    many: "payments",
    prefix: "PAY",
    area: "finance",
    about: "money that came in for an invoice",
    count: 900,
    fields: &[
        text_field(
            "reference",
            80,
            "The text on the bank statement.",
            &["Invoice {quarter}", "{colour} {animal} {digit}{digit}{digit}"],
        )
        .required()
        .searchable(),
        link_field("invoice_id", "invoices", "The invoice it is for.").required(),
        EntityField::new("amount_cents", FieldKind::Cents, "The amount, in euro cents.")
            .required()
            .filterable()
            .with_seed(SeedRule::Through("invoice_id", "amount_cents")),
        choice_field(
            "method",
            &["transfer", "card", "direct_debit", "cash"],
            "How it was paid.",
        )
        .required(),
        choice_field(
            "status",
            &["settled", "pending", "failed", "refunded"],
            "Whether the money has arrived.",
        )
        .starting_as("pending"),
        day_field("received_on", "The day it was booked.", 0, 3).filterable(),
    ],
    under: &["invoice_id"],
    actions: &[EntityAction {
        name: "refund_payment",
        about: "Send a settled payment back to the customer.",
        takes: &[],
        only: Some(("status", &["settled"])),
        effect: ActionEffect::Set(&[FieldChange::To("status", "refunded")]),
    }],
};

pub(super) const EXPENSES: Entity = Entity {
    one: "expense",
    many: "expenses",
    prefix: "EXP",
    area: "finance",
    about: "what somebody paid for the company and wants back",
    count: 420,
    fields: &[
        text_field(
            "purpose",
            200,
            "What it was for.",
            &[
                "Train to {town}",
                "Lunch with {last}",
                "A {item} for the office",
                "Course on {topic}",
            ],
        )
        .required()
        .searchable(),
        link_field("person_id", "people", "Who paid.").required(),
        choice_field(
            "category",
            &["travel", "meals", "equipment", "training", "other"],
            "What kind of cost it is.",
        )
        .required(),
        cents_field("amount_cents", "The amount with tax, in euro cents.", 350, 180_000)
            .required()
            .filterable(),
        choice_field(
            "status",
            &["reimbursed", "approved", "submitted", "rejected"],
            "Where it stands.",
        )
        .starting_as("submitted"),
        day_field("spent_on", "The day it was paid.", 0, 0)
            .required()
            .filterable(),
        EntityField::new("receipt", FieldKind::Uri, "A copy of the receipt.")
            .allow_null()
            .with_seed(SeedRule::Sometimes(85, &SeedRule::Handle("purpose"))),
        link_field("approved_by", "people", "Who approved it.")
            .allow_null()
            .managed()
            .with_seed(SeedRule::When("status", &["reimbursed", "approved"], &SeedRule::Any)),
    ],
    under: &["person_id"],
    actions: &[
        EntityAction {
            name: "approve_expense",
            about: "Approve a submitted expense.",
            takes: &[link_field("approved_by", "people", "Who approves it.").required()],
            only: Some(("status", &["submitted"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "approved"), FieldChange::Given("approved_by")]),
        },
        EntityAction {
            name: "reject_expense",
            about: "Reject a submitted expense.",
            takes: &[],
            only: Some(("status", &["submitted"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "rejected")]),
        },
        EntityAction {
            name: "reimburse_expense",
            about: "Record that an approved expense was paid back.",
            takes: &[],
            only: Some(("status", &["approved"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "reimbursed")]),
        },
    ],
};

pub(super) const SUBSCRIPTIONS: Entity = Entity {
    one: "subscription",
    many: "subscriptions",
    prefix: "SUB",
    area: "finance",
    about: "a delivery that a customer receives and pays again and again",
    count: 200,
    fields: &[
        text_field(
            "name",
            120,
            "What the subscription is called.",
            &["{colour} office supply", "Monthly {item}", "{quarter} plan"],
        )
        .required()
        .searchable(),
        link_field("customer_id", "customers", "Who subscribed.").required(),
        link_field("product_id", "products", "What is delivered.").required(),
        EntityField::new("quantity", FieldKind::Integer(1, 1_000), "How many pieces each time.")
            .required()
            .with_seed(SeedRule::Between(1, 20)),
        choice_field("period", &["monthly", "quarterly", "yearly"], "How often.").required(),
        choice_field("status", &["active", "paused", "ended"], "Whether it runs.").starting_as("active"),
        EntityField::new("price_cents", FieldKind::Cents, "The price of a piece, in euro cents.")
            .managed()
            .filterable()
            .with_seed(SeedRule::Through("product_id", "price_cents")),
        EntityField::new("renews_on", FieldKind::Day, "The next delivery.")
            .allow_null()
            .filterable()
            .with_seed(SeedRule::When("status", &["active"], &SeedRule::After(20, 360))),
    ],
    under: &["customer_id"],
    actions: &[
        EntityAction {
            name: "pause_subscription",
            about: "Stop deliveries until further notice.",
            takes: &[],
            only: Some(("status", &["active"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "paused")]),
        },
        EntityAction {
            name: "end_subscription",
            about: "End a subscription for good.",
            takes: &[],
            only: Some(("status", &["active", "paused"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "ended"), FieldChange::Clear("renews_on")]),
        },
    ],
};
