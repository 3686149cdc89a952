//! Products, their stock in warehouses, and the orders that move them.

use super::sales::ADDRESS;
use super::word_lists::COUNTRIES;
use super::{
    ActionEffect, Entity, EntityAction, EntityField, FieldChange, FieldKind, SeedRule, cents_field, choice_field,
    day_field, link_field, text_field,
};

pub(super) const SUPPLIERS: Entity = Entity {
    one: "supplier",
    many: "suppliers",
    prefix: "SUP",
    area: "goods",
    about: "a company we buy from, with its terms and rating",
    count: 40,
    fields: &[
        text_field(
            "name",
            120,
            "The supplier's trading name.",
            &["{last} {trade}", "{colour} {trade}"],
        )
        .required()
        .searchable(),
        EntityField::new("email", FieldKind::Email, "Where purchase orders go.")
            .with_seed(SeedRule::Handle("name"))
            .required()
            .searchable(),
        EntityField::new(
            "country",
            FieldKind::Pick(COUNTRIES),
            "Two-letter country code (ISO 3166-1).",
        )
        .required()
        .filterable(),
        EntityField::new(
            "lead_time_days",
            FieldKind::Integer(1, 120),
            "How long a delivery takes, in days.",
        )
        .with_seed(SeedRule::Between(3, 45))
        .filterable(),
        choice_field("terms", &["net_30", "net_14", "prepaid", "net_60"], "When we pay."),
        EntityField::new(
            "rating",
            FieldKind::Integer(1, 5),
            "How reliable they are, five is best.",
        )
        .filterable(),
        EntityField::new("approved", FieldKind::Flag, "Whether we may order from them.")
            .managed()
            .filterable(),
    ],
    under: &[],
    actions: &[EntityAction {
        name: "approve_supplier",
        about: "Allow purchase orders to a supplier.",
        takes: &[],
        only: None,
        effect: ActionEffect::Set(&[FieldChange::Flag("approved", true)]),
    }],
};

pub(super) const PRODUCTS: Entity = Entity {
    one: "product",
    many: "products",
    prefix: "PRO",
    area: "goods",
    about: "an article we sell, with price, cost, category and supplier",
    count: 300,
    fields: &[
        text_field(
            "name",
            120,
            "What the product is called.",
            &["{colour} {item}", "{animal} {item}"],
        )
        .required()
        .searchable(),
        text_field(
            "sku",
            20,
            "The stock keeping unit, as on the label.",
            &["SKU-{digit}{digit}{digit}{digit}{digit}"],
        )
        .required()
        .searchable(),
        choice_field(
            "category",
            &[
                "furniture",
                "lighting",
                "stationery",
                "electronics",
                "travel",
                "decoration",
            ],
            "The part of the catalogue it is in.",
        )
        .required(),
        choice_field(
            "status",
            &["active", "draft", "discontinued"],
            "Whether it can be ordered.",
        )
        .starting_as("draft"),
        cents_field("price_cents", "The list price without tax, in euro cents.", 490, 89_900)
            .required()
            .filterable(),
        cents_field("cost_cents", "What we pay for it, in euro cents.", 200, 40_000),
        EntityField::new(
            "tax_percent",
            FieldKind::Integer(0, 30),
            "The value added tax, in percent.",
        )
        .with_seed(SeedRule::Between(19, 22)),
        link_field("supplier_id", "suppliers", "Where we buy it.").required(),
        EntityField::new(
            "weight_grams",
            FieldKind::Integer(1, 100_000),
            "The shipping weight, in grams.",
        )
        .with_seed(SeedRule::Between(80, 24_000))
        .filterable(),
        EntityField::new(
            "dimensions",
            FieldKind::Part(&[
                EntityField::new("width_mm", FieldKind::Integer(1, 5_000), "Width in millimetres.")
                    .with_seed(SeedRule::Between(20, 1_800))
                    .required(),
                EntityField::new("height_mm", FieldKind::Integer(1, 5_000), "Height in millimetres.")
                    .with_seed(SeedRule::Between(20, 1_800))
                    .required(),
                EntityField::new("depth_mm", FieldKind::Integer(1, 5_000), "Depth in millimetres.")
                    .with_seed(SeedRule::Between(10, 900))
                    .required(),
            ]),
            "The size of the package.",
        )
        .allow_null(),
        text_field(
            "description",
            2_000,
            "What the catalogue says.",
            &[
                "A {item} in {colour}, made to last.",
                "The {item} for every office, in {colour} or {colour}.",
            ],
        )
        .searchable(),
    ],
    under: &["supplier_id"],
    actions: &[
        EntityAction {
            name: "set_product_price",
            about: "Change the list price of a product. Orders already placed keep theirs.",
            takes: &[EntityField::new(
                "price_cents",
                FieldKind::Cents,
                "The new list price without tax, in euro cents.",
            )
            .required()],
            only: None,
            effect: ActionEffect::Set(&[FieldChange::Given("price_cents")]),
        },
        EntityAction {
            name: "discontinue_product",
            about: "Take a product out of the catalogue.",
            takes: &[],
            only: Some(("status", &["active", "draft"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "discontinued")]),
        },
        EntityAction {
            name: "publish_product",
            about: "Put a draft into the catalogue, so that it can be ordered.",
            takes: &[],
            only: Some(("status", &["draft"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "active")]),
        },
    ],
};

pub(super) const WAREHOUSES: Entity = Entity {
    one: "warehouse",
    many: "warehouses",
    prefix: "WAR",
    area: "goods",
    about: "a place where goods are stored and packed",
    count: 6,
    fields: &[
        text_field("name", 80, "What the warehouse is called.", &["{town} {colour}"])
            .required()
            .searchable(),
        EntityField::new("address", FieldKind::Part(ADDRESS), "Where it is.").required(),
        EntityField::new("places", FieldKind::Integer(1, 100_000), "How many pallets fit.")
            .with_seed(SeedRule::Between(400, 6_000))
            .filterable(),
        link_field("manager_id", "people", "Who runs it.").allow_null(),
        EntityField::new("cold_store", FieldKind::Flag, "Whether goods can be kept cold.").filterable(),
    ],
    under: &[],
    actions: &[],
};

pub(super) const STOCK_LEVELS: Entity = Entity {
    one: "stock_level",
    many: "stock_levels",
    prefix: "STK",
    area: "goods",
    about: "how much of a product lies in a warehouse, and when to order more",
    count: 600,
    fields: &[
        text_field(
            "shelf",
            20,
            "The shelf it lies on.",
            &[
                "A{digit}-{digit}{digit}",
                "B{digit}-{digit}{digit}",
                "C{digit}-{digit}{digit}",
            ],
        )
        .required()
        .searchable(),
        link_field("product_id", "products", "The product.").required(),
        link_field("warehouse_id", "warehouses", "The warehouse.").required(),
        EntityField::new("on_hand", FieldKind::Integer(0, 100_000), "How many pieces are there.")
            .with_seed(SeedRule::Between(0, 400))
            .required()
            .filterable(),
        EntityField::new(
            "reserved",
            FieldKind::Integer(0, 100_000),
            "How many of them are promised to orders.",
        )
        .with_seed(SeedRule::Between(0, 60)),
        EntityField::new(
            "reorder_at",
            FieldKind::Integer(0, 100_000),
            "Order more when fewer are left.",
        )
        .with_seed(SeedRule::Between(10, 90)),
        day_field("counted_on", "When somebody last counted them.", 1, 60),
    ],
    under: &["product_id", "warehouse_id"],
    actions: &[EntityAction {
        name: "adjust_stock_level",
        about: "Record a count: how many pieces are really there.",
        takes: &[EntityField::new(
            "on_hand",
            FieldKind::Integer(0, 100_000),
            "How many pieces were counted.",
        )
        .required()],
        only: None,
        effect: ActionEffect::Set(&[FieldChange::Given("on_hand"), FieldChange::Now("counted_on")]),
    }],
};

pub(super) const PURCHASE_ORDERS: Entity = Entity {
    one: "purchase_order",
    many: "purchase_orders",
    prefix: "PUR",
    area: "goods",
    about: "an order that we place with a supplier",
    count: 240,
    fields: &[
        text_field(
            "reference",
            40,
            "The supplier's own reference.",
            &["REF-{digit}{digit}{digit}{digit}"],
        )
        .required()
        .searchable(),
        link_field("supplier_id", "suppliers", "Whom we order from.").required(),
        link_field("warehouse_id", "warehouses", "Where it is delivered.").required(),
        choice_field(
            "status",
            &["received", "sent", "draft", "cancelled"],
            "Where it stands.",
        )
        .starting_as("draft"),
        EntityField::new(
            "lines",
            FieldKind::Parts(&[
                EntityField::new("product_id", FieldKind::Link("products"), "What is ordered.").required(),
                EntityField::new("quantity", FieldKind::Integer(1, 10_000), "How many pieces.")
                    .required()
                    .with_seed(SeedRule::Between(10, 200)),
                EntityField::new(
                    "unit_cost_cents",
                    FieldKind::Cents,
                    "What a piece costs, in euro cents.",
                )
                .required()
                .with_seed(SeedRule::Through("product_id", "cost_cents")),
            ]),
            "What is ordered, line by line.",
        )
        .required()
        .with_seed(SeedRule::Between(1, 4)),
        EntityField::new("total_cents", FieldKind::Cents, "The sum of all lines, in euro cents.")
            .managed()
            .filterable()
            .with_seed(SeedRule::Sum("lines", "quantity", "unit_cost_cents")),
        day_field("expected_on", "When it should arrive.", 5, 60).filterable(),
    ],
    under: &["supplier_id"],
    actions: &[
        EntityAction {
            name: "send_purchase_order",
            about: "Send a draft to the supplier.",
            takes: &[],
            only: Some(("status", &["draft"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "sent")]),
        },
        EntityAction {
            name: "receive_purchase_order",
            about: "Record that the goods have arrived.",
            takes: &[],
            only: Some(("status", &["sent"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "received")]),
        },
    ],
};

pub(super) const ORDERS: Entity = Entity {
    one: "order",
    many: "orders",
    prefix: "ORD",
    area: "goods",
    about: "an order that a customer placed, with its items, total and delivery",
    count: 2_000,
    fields: &[
        text_field(
            "reference",
            40,
            "The customer's own reference.",
            &["{colour}-{digit}{digit}{digit}", "PO {digit}{digit}{digit}{digit}"],
        )
        .searchable(),
        link_field("customer_id", "customers", "Who ordered.").required(),
        choice_field(
            "status",
            &["delivered", "shipped", "paid", "placed", "cancelled", "returned"],
            "Where the order stands.",
        )
        .starting_as("placed"),
        choice_field("channel", &["shop", "phone", "email", "fair"], "How it was placed."),
        EntityField::new(
            "items",
            FieldKind::Parts(&[
                EntityField::new("product_id", FieldKind::Link("products"), "What was ordered.").required(),
                EntityField::new("quantity", FieldKind::Integer(1, 1_000), "How many pieces.")
                    .required()
                    .with_seed(SeedRule::Between(1, 12)),
                EntityField::new(
                    "unit_price_cents",
                    FieldKind::Cents,
                    "The price of a piece at the time, in euro cents.",
                )
                .required()
                .with_seed(SeedRule::Through("product_id", "price_cents")),
            ]),
            "What was ordered, item by item.",
        )
        .required()
        .with_seed(SeedRule::Between(1, 5)),
        EntityField::new(
            "total_cents",
            FieldKind::Cents,
            "The sum of all items without tax, in euro cents.",
        )
        .managed()
        .filterable()
        .with_seed(SeedRule::Sum("items", "quantity", "unit_price_cents")),
        EntityField::new(
            "country",
            FieldKind::Pick(COUNTRIES),
            "Where it is delivered: two-letter country code.",
        )
        .managed()
        .filterable()
        .with_seed(SeedRule::Through("customer_id", "country")),
        day_field("ordered_on", "The day it was placed.", 0, 0).filterable(),
        day_field("promised_on", "The day by which it should arrive.", 3, 14).filterable(),
        link_field("handled_by", "people", "Who of us looks after it.").allow_null(),
        text_field(
            "note",
            1_000,
            "What the customer asked for.",
            &[
                "",
                "Please ring at the gate in {town}.",
                "Gift wrapping.",
                "Deliver with the {item}.",
            ],
        )
        .searchable(),
    ],
    under: &["customer_id"],
    actions: &[
        EntityAction {
            name: "cancel_order",
            about: "Cancel an order that has not been shipped.",
            takes: &[text_field("note", 1_000, "Why it is cancelled.", &[]).required()],
            only: Some(("status", &["placed", "paid"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "cancelled"), FieldChange::Given("note")]),
        },
        EntityAction {
            name: "ship_order",
            about: "Record that a paid order has left the house.",
            takes: &[],
            only: Some(("status", &["paid"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "shipped")]),
        },
        EntityAction {
            name: "deliver_order",
            about: "Record that a shipped order has arrived.",
            takes: &[],
            only: Some(("status", &["shipped"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "delivered")]),
        },
        EntityAction {
            name: "return_order",
            about: "Record that a delivered order was sent back.",
            takes: &[text_field("note", 1_000, "Why it came back.", &[])],
            only: Some(("status", &["delivered"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "returned"), FieldChange::Given("note")]),
        },
        EntityAction {
            name: "assign_order",
            about: "Give an order to a colleague to look after.",
            takes: &[link_field("handled_by", "people", "Who looks after it from now on.").required()],
            only: None,
            effect: ActionEffect::Set(&[FieldChange::Given("handled_by")]),
        },
    ],
};

pub(super) const SHIPMENTS: Entity = Entity {
    one: "shipment",
    many: "shipments",
    prefix: "SHI",
    area: "goods",
    about: "a parcel or pallet on its way to a customer",
    count: 900,
    fields: &[
        text_field(
            "tracking",
            32,
            "The carrier's tracking number.",
            &["TR{digit}{digit}{digit}{digit}{digit}{digit}{digit}"],
        )
        .required()
        .searchable(),
        link_field("order_id", "orders", "The order it belongs to.").required(),
        link_field("warehouse_id", "warehouses", "Where it left from.").required(),
        choice_field(
            "carrier",
            &["Quickmule", "Parcelgoose", "Slowfreight", "Harbourline"],
            "Who carries it.",
        )
        .required(),
        choice_field("status", &["delivered", "in_transit", "packed", "lost"], "Where it is.").starting_as("packed"),
        EntityField::new(
            "weight_grams",
            FieldKind::Integer(1, 1_000_000),
            "What it weighs, in grams.",
        )
        .with_seed(SeedRule::Between(200, 60_000))
        .filterable(),
        cents_field("cost_cents", "What the carrier charges, in euro cents.", 390, 24_000),
        EntityField::new("delivered_on", FieldKind::Day, "The day it arrived.")
            .allow_null()
            .managed()
            .filterable()
            .with_seed(SeedRule::When("status", &["delivered"], &SeedRule::After(2, 12))),
    ],
    under: &["order_id", "warehouse_id"],
    actions: &[
        EntityAction {
            name: "dispatch_shipment",
            about: "Hand a packed shipment to its carrier.",
            takes: &[],
            only: Some(("status", &["packed"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "in_transit")]),
        },
        EntityAction {
            name: "confirm_shipment_delivery",
            about: "Record that a shipment has arrived.",
            takes: &[],
            only: Some(("status", &["in_transit"])),
            effect: ActionEffect::Set(&[FieldChange::To("status", "delivered"), FieldChange::Now("delivered_on")]),
        },
    ],
};
