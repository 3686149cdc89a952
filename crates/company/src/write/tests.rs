//! Checks that writes change records, and only those of their own company.

use serde_json::{Value, json};

use crate::Company;
use crate::tool::definitions;

fn ask(company: &Company, name: &str, arguments: &Value) -> Result<Value, String> {
    let answer = company
        .call(name, arguments.as_object().unwrap())
        .map_err(|error| error.to_string())?;
    let definition = definitions().iter().find(|it| it["name"] == name).unwrap();
    if let Err(error) = jsonschema::validator_for(&definition["outputSchema"])
        .unwrap()
        .validate(&answer)
    {
        panic!("{name}: {error}: {answer}");
    }
    Ok(answer)
}

fn order() -> Value {
    json!({ "customer_id": "CUS-0007", "items": [
        { "product_id": "PRO-0001", "quantity": 3, "unit_price_cents": 1_000 },
        { "product_id": "PRO-0002", "quantity": 1, "unit_price_cents": 250 },
    ] })
}

#[test]
fn a_record_is_created_changed_and_deleted() {
    let company = Company::new();
    let made = ask(&company, "create_order", &order()).unwrap();
    assert_eq!(
        (&made["id"], &made["total_cents"], &made["status"]),
        (&json!("ORD-2001"), &json!(3_250), &json!("placed"))
    );
    let customer = ask(&company, "get_customer", &json!({ "id": "CUS-0007" })).unwrap();
    assert_eq!(made["country"], customer["country"]);
    let items = json!([{ "product_id": "PRO-0003", "quantity": 2, "unit_price_cents": 5 }]);
    let changed = ask(
        &company,
        "update_order",
        &json!({ "id": "ORD-2001", "items": items, "note": "new" }),
    )
    .unwrap();
    assert_eq!((&changed["total_cents"], &changed["note"]), (&json!(10), &json!("new")));
    assert_ne!(changed["updated_at"], made["updated_at"]);
    let gone = ask(&company, "delete_order", &json!({ "id": "ORD-2001" })).unwrap();
    assert_eq!(gone, json!({ "id": "ORD-2001", "deleted": true }));
    let none = ask(&company, "get_order", &json!({ "id": "ORD-2001" })).unwrap_err();
    assert!(none.contains("no order `ORD-2001`"), "{none}");
    // A number is never used twice.
    assert_eq!(ask(&company, "create_order", &order()).unwrap()["id"], "ORD-2002");
    let other = ask(&Company::new(), "list_orders", &json!({})).unwrap();
    assert_eq!(other["total"], 2_000);
}

#[test]
fn acts_follow_their_rules() {
    let company = Company::new();
    let open = ask(&company, "list_issues", &json!({ "state": "open", "limit": 1 })).unwrap();
    let id = &open["items"][0]["id"];
    let closed = ask(&company, "close_issue", &json!({ "id": id, "resolution": "fixed" })).unwrap();
    assert_eq!(
        (&closed["state"], &closed["resolution"]),
        (&json!("closed"), &json!("fixed"))
    );
    let again = ask(&company, "close_issue", &json!({ "id": id, "resolution": "fixed" })).unwrap_err();
    assert!(
        again.contains("has `state` `closed`; this is possible only while it is `open` or"),
        "{again}"
    );
    let opened = ask(&company, "reopen_issue", &json!({ "id": id })).unwrap();
    assert_eq!((&opened["state"], &opened["closed_at"]), (&json!("open"), &Value::Null));
    let comment = ask(
        &company,
        "comment_on_issue",
        &json!({ "id": id, "body": "Seen.", "author_id": "PER-0003" }),
    )
    .unwrap();
    assert_eq!(&comment["issue_id"], id);
    let comments = ask(
        &company,
        "list_issue_comments",
        &json!({ "issue_id": id, "sort": "-created_at" }),
    )
    .unwrap();
    assert_eq!(comments["items"][0], comment);
}

#[test]
fn writes_that_would_break_something_are_refused() {
    let company = Company::new();
    let check = |name: &str, arguments: Value, message: &str| {
        let error = ask(&company, name, &arguments).unwrap_err();
        assert!(error.contains(message), "{error}");
    };
    check(
        "delete_customer",
        json!({ "id": "CUS-0001" }),
        "`CUS-0001` cannot be deleted:",
    );
    check("delete_order", json!({ "id": "ORD-9999" }), "no order `ORD-9999`");
    check("update_order", json!({ "id": "ORD-0001" }), "nothing to change");
    check(
        "update_order",
        json!({ "id": "ORD-0001", "total_cents": 1 }),
        "`total_cents` is unknown",
    );
    check(
        "update_order",
        json!({ "id": "ORD-0001", "customer_id": "CUS-9000" }),
        "no customer `CUS-9000`",
    );
    check(
        "assign_issue",
        json!({ "id": "ISS-0001", "assignee_id": "PER-9000" }),
        "no person `PER-9000`",
    );
    check(
        "create_order",
        json!({ "customer_id": "CUS-0001", "items": [] }),
        "`items` must be a list of 1 to 50 objects",
    );
    let items = json!([{ "product_id": "PRO-9000", "quantity": 1, "unit_price_cents": 1 }]);
    check(
        "create_order",
        json!({ "customer_id": "CUS-0001", "items": items }),
        "no product `PRO-9000`",
    );
    let items = json!([{ "product_id": "PRO-0001", "quantity": 0 }]);
    check(
        "create_order",
        json!({ "customer_id": "CUS-0001", "items": items }),
        "`items[0].quantity` must be a whole number from 1 to 1000; `items[0].unit_price_cents` is missing",
    );
}

#[test]
fn every_entity_can_be_created_from_one_of_its_records() {
    let company = Company::new();
    for definition in definitions()
        .iter()
        .filter(|it| it["name"].as_str().unwrap().starts_with("create_"))
    {
        let name = definition["name"].as_str().unwrap();
        let entity = crate::spec::COMPANY
            .iter()
            .find(|it| Some(it.one) == name.strip_prefix("create_"))
            .unwrap();
        let whole = ask(&company, &format!("get_{}", entity.one), &json!({ "id": entity.id(2) })).unwrap();
        let mut given = whole.as_object().unwrap().clone();
        given.retain(|key, _| definition["inputSchema"]["properties"].get(key).is_some());
        let made = ask(&company, name, &Value::Object(given.clone())).unwrap();
        given
            .iter()
            .for_each(|(key, value)| assert_eq!(&made[key], value, "{name}: {key}"));
        ask(
            &company,
            &format!("delete_{}", entity.one),
            &json!({ "id": made["id"] }),
        )
        .unwrap();
    }
}

#[test]
fn records_deleted_while_paging_do_not_repeat_others() {
    let company = Company::new();
    let mut arguments = json!({ "limit": 50 });
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let page = ask(&company, "list_issue_comments", &arguments).unwrap();
        for item in page["items"].as_array().unwrap() {
            assert!(seen.insert(item["id"].to_string()));
        }
        let first = &page["items"][0]["id"];
        ask(&company, "delete_issue_comment", &json!({ "id": first })).unwrap();
        if page["next_cursor"].is_null() {
            break;
        }
        arguments["cursor"] = page["next_cursor"].clone();
    }
    assert_eq!(seen.len(), 1_100);
}
