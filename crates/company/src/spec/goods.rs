//! Products, their stock in warehouses, and the orders that move them.

use super::sales::ADDRESS;
use super::words::COUNTRIES;
use super::{Act, Effect, Entity, Field, Kind, Make, Set, cents, day, link, pick, text};

pub(super) const SUPPLIERS: Entity = Entity {
    one: "supplier",
    many: "suppliers",
    prefix: "SUP",
    area: "goods",
    about: "a company we buy from, with its terms and rating",
    count: 40,
    fields: &[
        text(
            "name",
            120,
            "The supplier's trading name.",
            &["{last} {trade}", "{colour} {trade}"],
        )
        .needed()
        .search(),
        Field::new("email", Kind::Email, "Where purchase orders go.")
            .made(Make::Handle("name"))
            .needed()
            .search(),
        Field::new(
            "country",
            Kind::Pick(COUNTRIES),
            "Two-letter country code (ISO 3166-1).",
        )
        .needed()
        .filter(),
        Field::new(
            "lead_time_days",
            Kind::Integer(1, 120),
            "How long a delivery takes, in days.",
        )
        .made(Make::Between(3, 45))
        .filter(),
        pick("terms", &["net_30", "net_14", "prepaid", "net_60"], "When we pay."),
        Field::new("rating", Kind::Integer(1, 5), "How reliable they are, five is best.").filter(),
        Field::new("approved", Kind::Flag, "Whether we may order from them.")
            .kept()
            .filter(),
    ],
    under: &[],
    acts: &[Act {
        name: "approve_supplier",
        about: "Allow purchase orders to a supplier.",
        takes: &[],
        only: None,
        effect: Effect::Set(&[Set::Flag("approved", true)]),
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
        text(
            "name",
            120,
            "What the product is called.",
            &["{colour} {item}", "{animal} {item}"],
        )
        .needed()
        .search(),
        text(
            "sku",
            20,
            "The stock keeping unit, as on the label.",
            &["SKU-{digit}{digit}{digit}{digit}{digit}"],
        )
        .needed()
        .search(),
        pick(
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
        .needed(),
        pick(
            "status",
            &["active", "draft", "discontinued"],
            "Whether it can be ordered.",
        )
        .starts("draft"),
        cents("price_cents", "The list price without tax, in euro cents.", 490, 89_900)
            .needed()
            .filter(),
        cents("cost_cents", "What we pay for it, in euro cents.", 200, 40_000),
        Field::new("tax_percent", Kind::Integer(0, 30), "The value added tax, in percent.").made(Make::Between(19, 22)),
        link("supplier_id", "suppliers", "Where we buy it.").needed(),
        Field::new(
            "weight_grams",
            Kind::Integer(1, 100_000),
            "The shipping weight, in grams.",
        )
        .made(Make::Between(80, 24_000))
        .filter(),
        Field::new(
            "dimensions",
            Kind::Part(&[
                Field::new("width_mm", Kind::Integer(1, 5_000), "Width in millimetres.")
                    .made(Make::Between(20, 1_800))
                    .needed(),
                Field::new("height_mm", Kind::Integer(1, 5_000), "Height in millimetres.")
                    .made(Make::Between(20, 1_800))
                    .needed(),
                Field::new("depth_mm", Kind::Integer(1, 5_000), "Depth in millimetres.")
                    .made(Make::Between(10, 900))
                    .needed(),
            ]),
            "The size of the package.",
        )
        .null(),
        text(
            "description",
            2_000,
            "What the catalogue says.",
            &[
                "A {item} in {colour}, made to last.",
                "The {item} for every office, in {colour} or {colour}.",
            ],
        )
        .search(),
    ],
    under: &["supplier_id"],
    acts: &[
        Act {
            name: "set_product_price",
            about: "Change the list price of a product. Orders already placed keep theirs.",
            takes: &[Field::new(
                "price_cents",
                Kind::Cents,
                "The new list price without tax, in euro cents.",
            )
            .needed()],
            only: None,
            effect: Effect::Set(&[Set::Given("price_cents")]),
        },
        Act {
            name: "discontinue_product",
            about: "Take a product out of the catalogue.",
            takes: &[],
            only: Some(("status", &["active", "draft"])),
            effect: Effect::Set(&[Set::To("status", "discontinued")]),
        },
        Act {
            name: "publish_product",
            about: "Put a draft into the catalogue, so that it can be ordered.",
            takes: &[],
            only: Some(("status", &["draft"])),
            effect: Effect::Set(&[Set::To("status", "active")]),
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
        text("name", 80, "What the warehouse is called.", &["{town} {colour}"])
            .needed()
            .search(),
        Field::new("address", Kind::Part(ADDRESS), "Where it is.").needed(),
        Field::new("places", Kind::Integer(1, 100_000), "How many pallets fit.")
            .made(Make::Between(400, 6_000))
            .filter(),
        link("manager_id", "people", "Who runs it.").null(),
        Field::new("cold_store", Kind::Flag, "Whether goods can be kept cold.").filter(),
    ],
    under: &[],
    acts: &[],
};

pub(super) const STOCK_LEVELS: Entity = Entity {
    one: "stock_level",
    many: "stock_levels",
    prefix: "STK",
    area: "goods",
    about: "how much of a product lies in a warehouse, and when to order more",
    count: 600,
    fields: &[
        text(
            "shelf",
            20,
            "The shelf it lies on.",
            &[
                "A{digit}-{digit}{digit}",
                "B{digit}-{digit}{digit}",
                "C{digit}-{digit}{digit}",
            ],
        )
        .needed()
        .search(),
        link("product_id", "products", "The product.").needed(),
        link("warehouse_id", "warehouses", "The warehouse.").needed(),
        Field::new("on_hand", Kind::Integer(0, 100_000), "How many pieces are there.")
            .made(Make::Between(0, 400))
            .needed()
            .filter(),
        Field::new(
            "reserved",
            Kind::Integer(0, 100_000),
            "How many of them are promised to orders.",
        )
        .made(Make::Between(0, 60)),
        Field::new(
            "reorder_at",
            Kind::Integer(0, 100_000),
            "Order more when fewer are left.",
        )
        .made(Make::Between(10, 90)),
        day("counted_on", "When somebody last counted them.", 1, 60),
    ],
    under: &["product_id", "warehouse_id"],
    acts: &[Act {
        name: "adjust_stock_level",
        about: "Record a count: how many pieces are really there.",
        takes: &[Field::new("on_hand", Kind::Integer(0, 100_000), "How many pieces were counted.").needed()],
        only: None,
        effect: Effect::Set(&[Set::Given("on_hand"), Set::Now("counted_on")]),
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
        text(
            "reference",
            40,
            "The supplier's own reference.",
            &["REF-{digit}{digit}{digit}{digit}"],
        )
        .needed()
        .search(),
        link("supplier_id", "suppliers", "Whom we order from.").needed(),
        link("warehouse_id", "warehouses", "Where it is delivered.").needed(),
        pick(
            "status",
            &["received", "sent", "draft", "cancelled"],
            "Where it stands.",
        )
        .starts("draft"),
        Field::new(
            "lines",
            Kind::Parts(&[
                Field::new("product_id", Kind::Link("products"), "What is ordered.").needed(),
                Field::new("quantity", Kind::Integer(1, 10_000), "How many pieces.")
                    .needed()
                    .made(Make::Between(10, 200)),
                Field::new("unit_cost_cents", Kind::Cents, "What a piece costs, in euro cents.")
                    .needed()
                    .made(Make::Through("product_id", "cost_cents")),
            ]),
            "What is ordered, line by line.",
        )
        .needed()
        .made(Make::Between(1, 4)),
        Field::new("total_cents", Kind::Cents, "The sum of all lines, in euro cents.")
            .kept()
            .filter()
            .made(Make::Sum("lines", "quantity", "unit_cost_cents")),
        day("expected_on", "When it should arrive.", 5, 60).filter(),
    ],
    under: &["supplier_id"],
    acts: &[
        Act {
            name: "send_purchase_order",
            about: "Send a draft to the supplier.",
            takes: &[],
            only: Some(("status", &["draft"])),
            effect: Effect::Set(&[Set::To("status", "sent")]),
        },
        Act {
            name: "receive_purchase_order",
            about: "Record that the goods have arrived.",
            takes: &[],
            only: Some(("status", &["sent"])),
            effect: Effect::Set(&[Set::To("status", "received")]),
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
        text(
            "reference",
            40,
            "The customer's own reference.",
            &["{colour}-{digit}{digit}{digit}", "PO {digit}{digit}{digit}{digit}"],
        )
        .search(),
        link("customer_id", "customers", "Who ordered.").needed(),
        pick(
            "status",
            &["delivered", "shipped", "paid", "placed", "cancelled", "returned"],
            "Where the order stands.",
        )
        .starts("placed"),
        pick("channel", &["shop", "phone", "email", "fair"], "How it was placed."),
        Field::new(
            "items",
            Kind::Parts(&[
                Field::new("product_id", Kind::Link("products"), "What was ordered.").needed(),
                Field::new("quantity", Kind::Integer(1, 1_000), "How many pieces.")
                    .needed()
                    .made(Make::Between(1, 12)),
                Field::new(
                    "unit_price_cents",
                    Kind::Cents,
                    "The price of a piece at the time, in euro cents.",
                )
                .needed()
                .made(Make::Through("product_id", "price_cents")),
            ]),
            "What was ordered, item by item.",
        )
        .needed()
        .made(Make::Between(1, 5)),
        Field::new(
            "total_cents",
            Kind::Cents,
            "The sum of all items without tax, in euro cents.",
        )
        .kept()
        .filter()
        .made(Make::Sum("items", "quantity", "unit_price_cents")),
        Field::new(
            "country",
            Kind::Pick(COUNTRIES),
            "Where it is delivered: two-letter country code.",
        )
        .kept()
        .filter()
        .made(Make::Through("customer_id", "country")),
        day("ordered_on", "The day it was placed.", 0, 0).filter(),
        day("promised_on", "The day by which it should arrive.", 3, 14).filter(),
        link("handled_by", "people", "Who of us looks after it.").null(),
        text(
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
        .search(),
    ],
    under: &["customer_id"],
    acts: &[
        Act {
            name: "cancel_order",
            about: "Cancel an order that has not been shipped.",
            takes: &[text("note", 1_000, "Why it is cancelled.", &[]).needed()],
            only: Some(("status", &["placed", "paid"])),
            effect: Effect::Set(&[Set::To("status", "cancelled"), Set::Given("note")]),
        },
        Act {
            name: "ship_order",
            about: "Record that a paid order has left the house.",
            takes: &[],
            only: Some(("status", &["paid"])),
            effect: Effect::Set(&[Set::To("status", "shipped")]),
        },
        Act {
            name: "deliver_order",
            about: "Record that a shipped order has arrived.",
            takes: &[],
            only: Some(("status", &["shipped"])),
            effect: Effect::Set(&[Set::To("status", "delivered")]),
        },
        Act {
            name: "return_order",
            about: "Record that a delivered order was sent back.",
            takes: &[text("note", 1_000, "Why it came back.", &[])],
            only: Some(("status", &["delivered"])),
            effect: Effect::Set(&[Set::To("status", "returned"), Set::Given("note")]),
        },
        Act {
            name: "assign_order",
            about: "Give an order to a colleague to look after.",
            takes: &[link("handled_by", "people", "Who looks after it from now on.").needed()],
            only: None,
            effect: Effect::Set(&[Set::Given("handled_by")]),
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
        text(
            "tracking",
            32,
            "The carrier's tracking number.",
            &["TR{digit}{digit}{digit}{digit}{digit}{digit}{digit}"],
        )
        .needed()
        .search(),
        link("order_id", "orders", "The order it belongs to.").needed(),
        link("warehouse_id", "warehouses", "Where it left from.").needed(),
        pick(
            "carrier",
            &["Quickmule", "Parcelgoose", "Slowfreight", "Harbourline"],
            "Who carries it.",
        )
        .needed(),
        pick("status", &["delivered", "in_transit", "packed", "lost"], "Where it is.").starts("packed"),
        Field::new("weight_grams", Kind::Integer(1, 1_000_000), "What it weighs, in grams.")
            .made(Make::Between(200, 60_000))
            .filter(),
        cents("cost_cents", "What the carrier charges, in euro cents.", 390, 24_000),
        Field::new("delivered_on", Kind::Day, "The day it arrived.")
            .null()
            .kept()
            .filter()
            .made(Make::When("status", &["delivered"], &Make::After(2, 12))),
    ],
    under: &["order_id", "warehouse_id"],
    acts: &[
        Act {
            name: "dispatch_shipment",
            about: "Hand a packed shipment to its carrier.",
            takes: &[],
            only: Some(("status", &["packed"])),
            effect: Effect::Set(&[Set::To("status", "in_transit")]),
        },
        Act {
            name: "confirm_shipment_delivery",
            about: "Record that a shipment has arrived.",
            takes: &[],
            only: Some(("status", &["in_transit"])),
            effect: Effect::Set(&[Set::To("status", "delivered"), Set::Now("delivered_on")]),
        },
    ],
};
