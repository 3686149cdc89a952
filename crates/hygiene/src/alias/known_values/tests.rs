//! Tests of known values in places where nothing else marks them.

use serde_json::{Value, json};

use crate::{Aliases, Detector, DetectorConfig, NameDetection, SchemaHints, SecretDetection, SensitiveKinds};

fn detector() -> Detector {
    Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    })
}

/// Creates a table that knows these people, with the aliases of their names.
fn told(names: &[&str]) -> (Aliases, Vec<String>) {
    let mut aliases = Aliases::new().unwrap();
    let people: Vec<Value> = names.iter().map(|name| json!({ "customer": name })).collect();
    let hidden = aliases
        .hide_json(&detector(), people.into(), &SchemaHints::none())
        .shown;
    let shown = hidden.as_array().unwrap();
    let alias = |one: &Value| one["customer"].as_str().unwrap().to_owned();
    let codes = shown.iter().map(alias).collect();
    (aliases, codes)
}

#[test]
fn whole_words_are_found_and_no_parts_of_words() {
    let (mut aliases, codes) = told(&["Ann Lee", "Ann", "Bo", "Zoë Ek", "王小明", "Lee Marvin"]);
    let [ann_lee, ann, bo, zoe, wang, _] = codes.as_slice() else {
        panic!("{codes:?}")
    };
    for (text, shown) in [
        ("Ann Lee called.", format!("{ann_lee} called.")),
        ("(Ann Lee)", format!("({ann_lee})")),
        ("\"Ann Lee\",12", format!("\"{ann_lee}\",12")),
        ("Ann and Ann Leek", format!("{ann} and {ann} Leek")),
        ("Anna, MAnn, ann, Bo", "Anna, MAnn, ann, Bo".to_owned()),
        ("owner_Ann", format!("owner_{ann}")),
        ("Zoë Ek", zoe.clone()),
        ("给王小明打电话", format!("给{wang}打电话")),
        (ann_lee, ann_lee.clone()),
    ] {
        assert_eq!(aliases.mask_known(text.to_owned()).shown, shown, "{text}");
    }
    assert!(aliases.reveal(bo).is_ok());
    // Where two values overlap, nothing of either is left.
    let both = aliases.mask_known("Ann Lee Marvin".to_owned());
    assert!(
        !both.shown.contains("Lee") && !both.shown.contains("Marvin"),
        "{}",
        both.shown
    );
    assert_eq!(aliases.reveal(&both.shown).unwrap(), "Ann Lee Marvin");
}

#[test]
fn what_is_printed_as_json_is_found_however_it_is_escaped() {
    let (mut aliases, _) = told(&["Zoë Ek", "Ann \"Annie\" Lee"]);
    for text in [r#"{"who":"Zo\u00eb Ek"}"#, r#"{"who":"Ann \"Annie\" Lee"}"#] {
        let hidden = aliases.mask_known(text.to_owned());
        assert!(hidden.shown.contains("‹name:"), "{}", hidden.shown);
        assert_eq!(hidden.counts.total(), 1);
        assert_eq!(aliases.reveal(&hidden.shown).unwrap(), text);
    }
}

#[test]
fn numbers_are_found_whole() {
    let mut aliases = Aliases::new().unwrap();
    let value = json!({ "phone": 5_550_100, "ssn": "1234" });
    aliases.hide_json(&detector(), value, &SchemaHints::none());
    let shown = |aliases: &mut Aliases, value: Value| aliases.mask_known_json(value).shown;
    for same in [
        json!(55_501_001),
        json!(5_550_100.5),
        json!(1234),
        json!("v5.5550100"),
        json!("5550100.5 s"),
        json!("1234"),
    ] {
        assert_eq!(shown(&mut aliases, same.clone()), same);
    }
    for (number, kept) in [
        (json!(5_550_100), ""),
        (json!("at 5550100."), "at "),
        (json!({"5550100": [5_550_100]}), ""),
    ] {
        let masked = shown(&mut aliases, number.clone());
        assert!(!masked.to_string().contains("5550100"), "{masked}");
        assert!(masked.to_string().contains(kept), "{masked}");
        assert_eq!(aliases.reveal_json(masked).unwrap(), number);
    }
}

#[test]
fn keys_that_are_values_are_known() {
    let (mut aliases, _) = told(&["Ann Lee", "ann"]);
    assert!(aliases.knows_keys(&json!({ "balances": [{ "ann": 1 }] })));
    assert!(!aliases.knows_keys(&json!({ "balances": [{ "annual": "Ann Lee" }] })));
}

#[test]
fn what_was_forgotten_is_not_looked_for() {
    let (mut aliases, _) = told(&["Ann Lee"]);
    assert_ne!(aliases.mask_known("Ann Lee".to_owned()).shown, "Ann Lee");
    aliases.discard_unsaved();
    assert_eq!(aliases.mask_known("Ann Lee".to_owned()).shown, "Ann Lee");
}

#[test]
fn text_that_looks_like_an_alias_is_no_value() {
    let mut aliases = Aliases::new().unwrap();
    aliases.hide(&detector(), "‹email:zzzzzz›");
    assert_eq!(aliases.mask_known("‹email:zzzzzz›".to_owned()).counts.total(), 0);
}

#[test]
fn many_values_of_one_beginning_take_little_time() {
    let names: Vec<String> = (0..50_000).map(|one| format!("Ann Lee {one}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut aliases, _) = told(&names);
    let text = "Ann Lee Ann Lee 49999x ".repeat(20_000);
    let begun = std::time::Instant::now();
    assert_eq!(aliases.mask_known(text.clone()).shown, text);
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn ordinary_words_are_not_hidden_in_later_text() {
    let (mut aliases, codes) = told(&["Will", "main", "Grace Hopper", "April", "Okafor", "react"]);
    for text in [
        "Will it rain in April?",
        "the main branch of react",
        "a grace period, a hopper",
    ] {
        assert_eq!(aliases.mask_known(text.to_owned()).shown, text);
    }
    let both = aliases.mask_known("Grace Hopper met Okafor".to_owned());
    assert_eq!(both.shown, format!("{} met {}", codes[2], codes[4]));
}
