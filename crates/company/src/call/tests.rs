//! Calls every tool that reads and checks its arguments and answers against its own schemas.

use serde_json::{Map, Value, json};

use super::{Company, CompanyCallError, CompanyFault};
use crate::params::{ParamType, ToolParam};
use crate::spec::{COMPANY, FieldKind, find_entity};
use crate::tool::{self, definitions};

fn object(value: impl Into<Value>) -> Map<String, Value> {
    value.into().as_object().cloned().unwrap()
}

fn ask(company: &Company, name: &str, arguments: Value) -> Value {
    company
        .call(name, &object(arguments))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[track_caller]
fn refuses(company: &Company, name: &str, arguments: Value, message: &str) {
    let error = company.call(name, &object(arguments)).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

/// A valid value for a parameter; different `turn`s give different values.
fn valid(param: &ToolParam, turn: usize) -> Value {
    let nth = |words: &[&str]| json!(words[turn % words.len()]);
    match &param.shape {
        ParamType::OneOf(words) => json!(words[turn % words.len()]),
        ParamType::SomeOf(words) => json!([words[turn % words.len()]]),
        ParamType::Single(kind) => match *kind {
            FieldKind::Text(_) => json!("the office"),
            FieldKind::Email => json!("somebody@example.com"),
            FieldKind::Uri => json!("https://example.com/x"),
            FieldKind::Phone => json!("+1 202 555 0100"),
            FieldKind::Day => json!(["2025-01-01", "2025-09-30", "2026-06-30"][turn % 3]),
            FieldKind::Time => json!("2026-06-30T09:00:00Z"),
            FieldKind::Integer(least, most) => json!(if turn.is_multiple_of(2) { least } else { most }),
            FieldKind::Cents => json!(turn * 100_000),
            FieldKind::Flag => json!(turn.is_multiple_of(2)),
            FieldKind::Pick(words) => nth(words),
            FieldKind::Tags(words) => json!([nth(words)]),
            FieldKind::Link(many) => json!(find_entity(many).unwrap().id(u32::try_from(turn % 5 + 1).unwrap())),
            FieldKind::Links(many) => json!([find_entity(many).unwrap().id(1)]),
            FieldKind::Part(fields) => fields
                .iter()
                .map(|it| (it.name.to_owned(), inner(it.kind, turn)))
                .collect::<Map<_, _>>()
                .into(),
            FieldKind::Parts(fields) => json!([inner(FieldKind::Part(fields), turn)]),
        },
    }
}

fn inner(kind: FieldKind, turn: usize) -> Value {
    let mut param = crate::params::id_param(&COMPANY[0]);
    param.shape = ParamType::Single(kind);
    valid(&param, turn)
}

#[test]
fn every_read_fits_its_output_schema() {
    let company = Company::new();
    let mut empty = 0;
    for (tool, definition) in tool::all_tools()
        .iter()
        .zip(definitions())
        .filter(|(tool, _)| tool.is_read_only())
    {
        let input = jsonschema::validator_for(&definition["inputSchema"]).unwrap();
        let output = jsonschema::validator_for(&definition["outputSchema"]).unwrap();
        let params = tool.params();
        let needed = params.iter().filter(|param| param.needed);
        let base: Map<_, _> = needed.map(|param| (param.name.clone(), valid(param, 0))).collect();
        let mut cases = vec![base.clone()];
        for (param, turn) in params.iter().flat_map(|param| [(param, 0), (param, 1), (param, 2)]) {
            if param.name != "cursor" {
                let mut case = base.clone();
                case.insert(param.name.clone(), valid(param, turn));
                cases.push(case);
            }
        }
        for case in cases {
            let value = Value::Object(case.clone());
            assert!(input.is_valid(&value), "{}: {value}", tool.name);
            let answer = company
                .call(&tool.name, &case)
                .unwrap_or_else(|error| panic!("{} {value}: {error}", tool.name));
            if let Err(error) = output.validate(&answer) {
                panic!("{} {value}: {error}", tool.name);
            }
            empty += usize::from(answer["total"] == 0);
        }
    }
    assert!(empty < 900, "too many answers are empty: {empty}");
}

#[test]
fn what_the_check_refuses_the_schema_refuses_too() {
    let strange = [
        json!(null),
        json!(""),
        json!("zzz"),
        json!(-1),
        json!(1e300),
        json!(1.5),
        json!([]),
        json!({}),
        json!(true),
        json!(["x", "x"]),
    ];
    for (tool, definition) in tool::all_tools().iter().zip(definitions()) {
        let schema = jsonschema::validator_for(&definition["inputSchema"]).unwrap();
        let params = tool.params();
        let needed = params.iter().filter(|param| param.needed);
        let base: Map<_, _> = needed.map(|param| (param.name.clone(), valid(param, 0))).collect();
        for param in &params {
            // A schema only annotates formats; the check of arguments enforces them itself.
            let format = matches!(
                param.shape,
                ParamType::Single(FieldKind::Email | FieldKind::Uri | FieldKind::Day | FieldKind::Time)
            );
            for value in strange.iter().filter(|value| !format || !value.is_string()) {
                let mut case = base.clone();
                case.insert(param.name.clone(), value.clone());
                let checked = crate::params::check_arguments(&tool.name, &params, &case).is_ok();
                assert_eq!(
                    checked,
                    schema.is_valid(&Value::Object(case)),
                    "{}: {} = {value}",
                    tool.name,
                    param.name
                );
            }
        }
        let mut more = base;
        more.insert("no_such_argument".into(), json!(1));
        assert!(crate::params::check_arguments(&tool.name, &params, &more).is_err());
        assert!(!schema.is_valid(&Value::Object(more)));
    }
}

#[test]
fn pages_cover_every_record_once() {
    let company = Company::new();
    for entity in COMPANY {
        let name = format!("list_{}", entity.many);
        for (limit, sort) in [(100, "created_at"), (37, "-created_at")] {
            let mut seen = std::collections::BTreeSet::new();
            let mut arguments = json!({ "limit": limit, "sort": sort });
            loop {
                let page = ask(&company, &name, arguments.clone());
                for item in page["items"].as_array().unwrap() {
                    assert!(seen.insert(item["id"].as_str().unwrap().to_owned()), "{name}: {item}");
                }
                if page["next_cursor"].is_null() {
                    assert_eq!(page["total"], seen.len());
                    break;
                }
                arguments["cursor"] = page["next_cursor"].clone();
            }
            assert_eq!(seen.len(), usize::try_from(entity.count).unwrap(), "{name}");
        }
    }
}

#[test]
fn filters_and_orders_hold() {
    let company = Company::new();
    let arguments = json!({ "country": "FR", "min_total_cents": 200_000, "ordered_on_from": "2026-01-01", "sort": "-total_cents", "limit": 100 });
    let page = ask(&company, "list_orders", arguments);
    let items = page["items"].as_array().unwrap();
    assert!(items.len() > 10, "{}", items.len());
    for item in items {
        assert_eq!(item["country"], "FR");
        assert!(item["total_cents"].as_i64().unwrap() >= 200_000);
        assert!(item["ordered_on"].as_str().unwrap() >= "2026-01-01");
        let customer = ask(&company, "get_customer", json!({ "id": item["customer_id"] }));
        assert_eq!(customer["country"], "FR");
    }
    assert!(items.is_sorted_by(|a, b| a["total_cents"].as_i64() >= b["total_cents"].as_i64()));
    let nobody = ask(&company, "list_issues", json!({ "assignee_id": null }));
    assert!(nobody["total"].as_u64().unwrap() > 50);
    let counted = ask(&company, "count_orders", json!({ "by": "country" }));
    let sum: u64 = counted["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["count"].as_u64().unwrap())
        .sum();
    assert_eq!((sum, counted["groups"].as_array().unwrap().len()), (2_000, 12));
}

#[test]
fn refusals_say_what_would_do() {
    let company = Company::new();
    refuses(
        &company,
        "get_order",
        json!({ "id": "ORD-9999" }),
        "no order `ORD-9999`; `list_orders` lists",
    );
    refuses(
        &company,
        "get_order",
        json!({ "id": "CUS-0001" }),
        "must be an id as `list_orders` gives them, such as `ORD-0001`",
    );
    refuses(
        &company,
        "get_order",
        json!({}),
        "`id` is missing. `get_order` takes `id` (required)",
    );
    refuses(
        &company,
        "list_issues",
        json!({ "stat": "open" }),
        "`stat` is unknown; did you mean `state`?",
    );
    refuses(
        &company,
        "list_issues",
        json!({ "state": "shut" }),
        "`state` must be one of `open`, `closed`",
    );
    refuses(
        &company,
        "list_issues",
        json!({ "limit": 101 }),
        "`limit` must be a whole number from 1 to 100",
    );
    refuses(
        &company,
        "list_issues",
        json!({ "cursor": "zz.1.2" }),
        "`cursor` does not belong to this list",
    );
    refuses(
        &company,
        "list_orders",
        json!({ "ordered_on_from": "2026-02-30" }),
        "must be a day such as",
    );
    refuses(
        &company,
        "list_customer_orders",
        json!({ "customer_id": "CUS-0999" }),
        "no customer `CUS-0999`",
    );
    let strange = company.call("list_isues", &Map::new()).unwrap_err();
    assert_eq!(
        strange,
        CompanyCallError::UnknownTool {
            name: "list_isues".into(),
            hint: "; did you mean `list_issues`?".into()
        }
    );
    let first = ask(&company, "list_issues", json!({ "limit": 1 }));
    let other = object(json!({ "limit": 1, "state": "open", "cursor": first["next_cursor"] }));
    assert_eq!(
        company.call("list_issues", &other).unwrap_err(),
        CompanyCallError::Refused(CompanyFault::StrangeCursor)
    );
}

#[test]
fn answers_never_change() {
    let print = || {
        let company = Company::new();
        let mut hasher = blake3::Hasher::new();
        let mut add = |value: &Value| {
            hasher.update(serde_json_canonicalizer::to_string(value).unwrap().as_bytes());
        };
        definitions().iter().for_each(&mut add);
        for entity in COMPANY {
            for sort in ["created_at", "-created_at"] {
                add(&ask(
                    &company,
                    &format!("list_{}", entity.many),
                    json!({ "limit": 100, "sort": sort }),
                ));
            }
        }
        hasher.finalize().to_hex().to_string()
    };
    assert_eq!(print(), print());
    assert_eq!(
        print(),
        "b33bf373f9765f5dff764b30e572fe875727d4bc092cd0b0ca70c465e16f35d4",
        "the example changed: guides and benchmarks rely on its answers"
    );
}
