//! Invoices, payments, expenses and subscriptions.

use super::{Act, Effect, Entity, Field, Kind, Make, Set, cents, day, link, pick, text};

pub(super) const INVOICES: Entity = Entity {
    one: "invoice",
    many: "invoices",
    prefix: "INV",
    area: "finance",
    about: "a bill for an order, with its due date and whether it is paid",
    count: 1_200,
    fields: &[
        text(
            "subject",
            160,
            "The subject line.",
            &["Your order of the {quarter}", "Delivery to {town}", "Goods as ordered"],
        )
        .needed()
        .search(),
        link("order_id", "orders", "The order it bills.").needed(),
        Field::new("customer_id", Kind::Link("customers"), "Who has to pay.")
            .kept()
            .filter()
            .made(Make::Through("order_id", "customer_id")),
        pick(
            "status",
            &["paid", "sent", "overdue", "draft", "void"],
            "Where it stands.",
        )
        .starts("draft"),
        Field::new("amount_cents", Kind::Cents, "The amount without tax, in euro cents.")
            .kept()
            .filter()
            .made(Make::Through("order_id", "total_cents")),
        Field::new("tax_percent", Kind::Integer(0, 30), "The value added tax, in percent.").made(Make::Between(19, 22)),
        day("issued_on", "The day it was written.", 0, 2).filter(),
        day("due_on", "The day by which it should be paid.", 14, 44)
            .needed()
            .filter(),
        Field::new("paid_on", Kind::Day, "The day it was paid.")
            .null()
            .kept()
            .filter()
            .made(Make::When("status", &["paid"], &Make::After(5, 50))),
        Field::new("reminders", Kind::Integer(0, 9), "How many reminders were sent.")
            .kept()
            .made(Make::Early),
    ],
    under: &["order_id", "customer_id"],
    acts: &[
        Act {
            name: "send_invoice",
            about: "Send a draft invoice to the customer.",
            takes: &[],
            only: Some(("status", &["draft"])),
            effect: Effect::Set(&[Set::To("status", "sent")]),
        },
        Act {
            name: "mark_invoice_paid",
            about: "Record that an invoice was paid today.",
            takes: &[],
            only: Some(("status", &["sent", "overdue"])),
            effect: Effect::Set(&[Set::To("status", "paid"), Set::Now("paid_on")]),
        },
        Act {
            name: "void_invoice",
            about: "Declare an unpaid invoice void. It stays in the books.",
            takes: &[],
            only: Some(("status", &["draft", "sent", "overdue"])),
            effect: Effect::Set(&[Set::To("status", "void")]),
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
        text(
            "reference",
            80,
            "The text on the bank statement.",
            &["Invoice {quarter}", "{colour} {animal} {digit}{digit}{digit}"],
        )
        .needed()
        .search(),
        link("invoice_id", "invoices", "The invoice it is for.").needed(),
        Field::new("amount_cents", Kind::Cents, "The amount, in euro cents.")
            .needed()
            .filter()
            .made(Make::Through("invoice_id", "amount_cents")),
        pick(
            "method",
            &["transfer", "card", "direct_debit", "cash"],
            "How it was paid.",
        )
        .needed(),
        pick(
            "status",
            &["settled", "pending", "failed", "refunded"],
            "Whether the money has arrived.",
        )
        .starts("pending"),
        day("received_on", "The day it was booked.", 0, 3).filter(),
    ],
    under: &["invoice_id"],
    acts: &[Act {
        name: "refund_payment",
        about: "Send a settled payment back to the customer.",
        takes: &[],
        only: Some(("status", &["settled"])),
        effect: Effect::Set(&[Set::To("status", "refunded")]),
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
        text(
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
        .needed()
        .search(),
        link("person_id", "people", "Who paid.").needed(),
        pick(
            "category",
            &["travel", "meals", "equipment", "training", "other"],
            "What kind of cost it is.",
        )
        .needed(),
        cents("amount_cents", "The amount with tax, in euro cents.", 350, 180_000)
            .needed()
            .filter(),
        pick(
            "status",
            &["reimbursed", "approved", "submitted", "rejected"],
            "Where it stands.",
        )
        .starts("submitted"),
        day("spent_on", "The day it was paid.", 0, 0).needed().filter(),
        Field::new("receipt", Kind::Uri, "A copy of the receipt.")
            .null()
            .made(Make::Sometimes(85, &Make::Handle("purpose"))),
        link("approved_by", "people", "Who approved it.")
            .null()
            .kept()
            .made(Make::When("status", &["reimbursed", "approved"], &Make::Any)),
    ],
    under: &["person_id"],
    acts: &[
        Act {
            name: "approve_expense",
            about: "Approve a submitted expense.",
            takes: &[link("approved_by", "people", "Who approves it.").needed()],
            only: Some(("status", &["submitted"])),
            effect: Effect::Set(&[Set::To("status", "approved"), Set::Given("approved_by")]),
        },
        Act {
            name: "reject_expense",
            about: "Reject a submitted expense.",
            takes: &[],
            only: Some(("status", &["submitted"])),
            effect: Effect::Set(&[Set::To("status", "rejected")]),
        },
        Act {
            name: "reimburse_expense",
            about: "Record that an approved expense was paid back.",
            takes: &[],
            only: Some(("status", &["approved"])),
            effect: Effect::Set(&[Set::To("status", "reimbursed")]),
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
        text(
            "name",
            120,
            "What the subscription is called.",
            &["{colour} office supply", "Monthly {item}", "{quarter} plan"],
        )
        .needed()
        .search(),
        link("customer_id", "customers", "Who subscribed.").needed(),
        link("product_id", "products", "What is delivered.").needed(),
        Field::new("quantity", Kind::Integer(1, 1_000), "How many pieces each time.")
            .needed()
            .made(Make::Between(1, 20)),
        pick("period", &["monthly", "quarterly", "yearly"], "How often.").needed(),
        pick("status", &["active", "paused", "ended"], "Whether it runs.").starts("active"),
        Field::new("price_cents", Kind::Cents, "The price of a piece, in euro cents.")
            .kept()
            .filter()
            .made(Make::Through("product_id", "price_cents")),
        Field::new("renews_on", Kind::Day, "The next delivery.")
            .null()
            .filter()
            .made(Make::When("status", &["active"], &Make::After(20, 360))),
    ],
    under: &["customer_id"],
    acts: &[
        Act {
            name: "pause_subscription",
            about: "Stop deliveries until further notice.",
            takes: &[],
            only: Some(("status", &["active"])),
            effect: Effect::Set(&[Set::To("status", "paused")]),
        },
        Act {
            name: "end_subscription",
            about: "End a subscription for good.",
            takes: &[],
            only: Some(("status", &["active", "paused"])),
            effect: Effect::Set(&[Set::To("status", "ended"), Set::Clear("renews_on")]),
        },
    ],
};
