//! Tests of which data is redacted for which audience, by policy.

use ringfence_hygiene::AliasOrigin;
use ringfence_policy::{Ceiling, Draft};
use serde_json::json;

use super::approximate_size;
use super::rules::{Audience, RedactionMode, RedactionRules};

fn sight(data: &str) -> RedactionRules {
    let draft = Draft::parse(&format!("version: 1\ndata: {data}\n"), "test").unwrap();
    let policy = Draft::builtin().layer(&draft).under(&Ceiling::unlimited()).unwrap();
    RedactionRules::new(policy.data_rules()).unwrap()
}

#[test]
fn who_sees_what() {
    let ways = |data: &str| {
        let sight = sight(data);
        [sight.mode_for(Audience::Inside).0, sight.mode_for(Audience::Outside).0]
    };
    assert_eq!(ways("{}"), [RedactionMode::Alias, RedactionMode::Alias]);
    assert_eq!(
        ways("{ pii: { inside: real } }"),
        [RedactionMode::Note, RedactionMode::Alias]
    );
    assert_eq!(
        ways("{ pii: { mode: 'off' } }"),
        [RedactionMode::Redact, RedactionMode::Redact]
    );
    assert_eq!(
        ways("{ pii: { mode: 'off' }, secrets: 'off' }"),
        [RedactionMode::Open, RedactionMode::Open]
    );
    assert_eq!(
        ways("{ pii: { mode: block, inside: real } }"),
        [RedactionMode::Block, RedactionMode::Block]
    );
}

#[test]
fn what_a_program_says_has_aliases_of_its_own_unless_it_has_values() {
    let origins = |data: &str| {
        let sight = sight(data);
        [
            Audience::Inside,
            Audience::InsideSkill,
            Audience::Outside,
            Audience::Form,
        ]
        .map(|side| sight.alias_origin(side))
    };
    let (answer, program) = (AliasOrigin::Answer, AliasOrigin::Program);
    assert_eq!(origins("{}"), [answer, program, program, program]);
    assert_eq!(origins("{ pii: { inside: real } }"), [answer; 4]);
}

#[test]
fn only_the_kinds_that_are_named_are_found_and_own_ones_always() {
    let sight = sight("{ pii: { kinds: [email], own: [{ name: badge, pattern: 'B-[0-9]{4}' }] } }");
    let found = sight
        .mode_for(Audience::Outside)
        .1
        .find("B-1234 ann@example.com 10.1.2.3");
    let kinds: Vec<String> = found.iter().map(|one| one.kind.to_string()).collect();
    assert_eq!(kinds, ["badge", "email"]);
}

#[test]
fn of_past_calls_a_model_is_told_what_hides_nothing() {
    let arguments =
        json!({ "to": "ann@example.com", "name": "Ann Lee", "again": "‹email:k7q2wd›", "folder": "/data", "count": 3 });
    let told = json!({ "to": null, "name": null, "again": null, "folder": "/data", "count": 3 });
    assert_eq!(sight("{}").shareable_arguments(arguments.clone()), Some(told));
    assert_eq!(sight("{ pii: { inside: real } }").shareable_arguments(arguments), None);
    let open = json!({ "to": "ann@example.com" });
    assert_eq!(
        sight("{ pii: { mode: 'off' } }").shareable_arguments(open.clone()),
        Some(open)
    );
}

#[test]
fn what_is_said_of_a_skill_is_looked_at_in_words_and_schemas() {
    let sight = sight("{ pii: { own: [{ name: badge, pattern: 'B-[0-9]{4}' }] } }");
    let kinds = |text: &str| sight.kinds_in(text).into_iter().collect::<Vec<_>>();
    assert_eq!(kinds("Mails ann@example.com and B-1234"), ["badge", "email"]);
    assert_eq!(kinds("name,total\nAnn Lee,3\n"), ["name"]);
    assert!(kinds("Adds up orders by month").is_empty());
    let schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {
        "email": { "type": "string", "format": "email", "examples": ["ann@example.com"] } } });
    assert_eq!(
        sight.kinds_in_schema(&schema).into_iter().collect::<Vec<_>>(),
        ["email"]
    );
    let mut told = schema.clone();
    told["properties"]["email"]["examples"] = json!(["⟦email removed⟧"]);
    assert_eq!(sight.redact_shared_schema(schema), told);
    assert_eq!(sight.redact_shared_text("for B-1234"), "for ⟦badge removed⟧");
}

#[test]
fn a_large_value_weighs_enough_to_be_looked_at_elsewhere() {
    let large: serde_json::Value = vec!["0123456789"; 100_000].into();
    assert!(approximate_size(&large) > super::MIN_OFFLOAD_BYTES);
    assert!(approximate_size(&serde_json::json!({"a": [1, 2, 3]})) < 100);
}
