//! Tests of aliases: stable, recognised, neutral, exact.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::table::AliasValueForm;
use super::{Aliases, resembles_alias};
use crate::custom::{CustomCheck, CustomKind};
use crate::detector::{Detector, DetectorConfig, NameDetection, SecretDetection};
use crate::hints::SchemaHints;
use crate::kind::SensitiveKinds;

fn detector() -> Detector {
    Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Off,
        own: Vec::new(),
    })
}

#[test]
fn the_same_value_is_the_same_alias_and_comes_back() {
    let mut aliases = Aliases::new().unwrap();
    let hidden = aliases.hide(
        &detector(),
        "Write to ann@example.com and ann@example.com, not bob@example.com.",
    );
    assert!(!hidden.shown.contains('@'), "{}", hidden.shown);
    assert_eq!(hidden.counts.iter().collect::<Vec<_>>(), [("email", 3)]);
    assert_eq!(aliases.len(), 2);
    assert_eq!(
        aliases.reveal(&hidden.shown).unwrap(),
        "Write to ann@example.com and ann@example.com, not bob@example.com."
    );
}

#[test]
fn two_tables_have_nothing_in_common() {
    let shown = || Aliases::new().unwrap().hide(&detector(), "ann@example.com").shown;
    assert_ne!(shown(), shown());
}

#[test]
fn an_alias_is_known_by_its_form_when_its_table_is_gone() {
    let alias = Aliases::new().unwrap().hide(&detector(), "ann@example.com").shown;
    let inner = alias.trim_matches(['‹', '›']);
    for written in [
        alias.clone(),
        format!("Dear {alias}, hello"),
        format!("<{inner}>"),
        format!("«{inner}»"),
        alias.replace("email", "badge"),
        json!({ "to": [alias] }).to_string(),
    ] {
        assert!(resembles_alias(&written), "{written}");
    }
    for plain in [
        "",
        "to: ann",
        "‹email:ann@example.com›",
        "<https://a.example.org>",
        "‹email:›",
        "a:b",
    ] {
        assert!(!resembles_alias(plain), "{plain}");
    }
}

#[test]
fn an_alias_is_recognised_however_a_model_writes_it() {
    let mut aliases = Aliases::new().unwrap();
    let alias = aliases.hide(&detector(), "ann@example.com").shown;
    let inner = alias.trim_matches(['‹', '›']).to_owned();
    let (word, code) = inner.split_once(':').unwrap();
    let spaced = format!("{} {}", &code[..3], &code[3..]);
    for written in [
        alias.to_uppercase(),
        format!("‹ {word} : {code} ›"),
        format!("‹{word}:{spaced}›"),
        format!("<{inner}>"),
        format!("«{inner}»"),
        format!("\\u2039{inner}\\u203A"),
        format!("&lsaquo;{inner}&rsaquo;"),
        inner.clone(),
        format!("EMAIL: {code}"),
    ] {
        assert_eq!(
            aliases.reveal(&format!("to {written}.")).unwrap(),
            "to ann@example.com.",
            "{written}"
        );
    }
    let encoded = format!("?q=%E2%80%B9{word}%3A{code}%E2%80%BA&n=1");
    assert_eq!(aliases.reveal(&encoded).unwrap(), "?q=ann%40example.com&n=1");
}

#[test]
fn an_invented_alias_is_refused_and_named() {
    let mut aliases = Aliases::new().unwrap();
    aliases.hide(&detector(), "ann@example.com");
    for invented in [
        "‹email:222222›",
        "‹email:k7q2›",
        "‹EMAIL: 1›",
        "‹phone:aeiou1›",
        "‹text:333333›",
    ] {
        let refusal = aliases.reveal(&format!("to {invented} now")).unwrap_err();
        assert_eq!(refusal.alias, invented);
        assert_eq!(aliases.reveal_known(invented), invented);
    }
    assert_eq!(
        aliases.reveal("‹div:222222› is nobody's").unwrap(),
        "‹div:222222› is nobody's"
    );
}

#[test]
fn text_that_looks_like_an_alias_is_neutralised_and_comes_back() {
    let mut aliases = Aliases::new().unwrap();
    let fake = "Pay ‹iban:222222› and mail ‹email:k7q2›";
    let hidden = aliases.hide(&detector(), fake);
    assert!(
        !hidden.shown.contains("222222") && !hidden.shown.contains("k7q2›"),
        "{}",
        hidden.shown
    );
    assert_eq!(aliases.reveal(&hidden.shown).unwrap(), fake);
    let again = aliases.hide(&detector(), &hidden.shown);
    assert_eq!(again.shown, hidden.shown, "what is hidden stays as it is");
}

#[test]
fn a_value_with_an_alias_in_it_is_hidden_by_its_key_around_the_alias() {
    let mut aliases = Aliases::new().unwrap();
    let alias = aliases.hide(&detector(), "ann@example.com").shown;
    let value = json!({"address": format!("12 Main Street, {alias}, Oulu"), "customer": format!("‹Ann› ({alias})")});
    let hidden = aliases
        .hide_json(&detector(), value.clone(), &SchemaHints::none())
        .shown;
    let text = hidden.to_string();
    assert!(
        !text.contains("Main") && !text.contains("Oulu") && !text.contains("Ann"),
        "{text}"
    );
    assert_eq!(text.matches(&alias).count(), 2, "{text}");
    assert_eq!(
        aliases
            .hide_json(&detector(), hidden.clone(), &SchemaHints::none())
            .shown,
        hidden
    );
    let parts = aliases.reveal_json(hidden).unwrap();
    assert_eq!(parts["address"], "12 Main Street, ann@example.com, Oulu");
    assert_eq!(parts["customer"], "‹Ann› (ann@example.com)");
    let cut = json!({"address": "12 Main Street⟦ringfence: 29 of 56 bytes left out⟧"});
    let hidden = aliases.hide_json(&detector(), cut, &SchemaHints::none()).shown;
    assert!(hidden["address"].as_str().unwrap().starts_with("‹address:"), "{hidden}");
}

#[test]
fn json_is_hidden_by_keys_and_numbers_stay_numbers() {
    let mut aliases = Aliases::new().unwrap();
    let value = json!({
        "customers": [{"name": "Ann Lee", "phone": 5_550_100, "note": "ann@example.com called", "ann@example.com": true}],
        "count": 5_550_100,
        "owner": {"phone": 5_550_100.0, "dob": -315_619_200, "zip": 90_210, "ssn": 403_579_558.5},
    });
    let hidden = aliases.hide_json(&detector(), value.clone(), &SchemaHints::none());
    let text = hidden.shown.to_string();
    assert!(!text.contains("Ann") && !text.contains('@'), "{text}");
    assert_eq!(hidden.shown["count"], 5_550_100);
    assert!(hidden.shown["customers"][0]["phone"].is_string());
    let owner = hidden.shown["owner"].as_object().unwrap();
    assert!(
        owner
            .values()
            .all(|value| value.as_str().is_some_and(|shown| shown.starts_with('‹'))),
        "{owner:?}"
    );
    assert_eq!(aliases.reveal_json(hidden.shown).unwrap(), value);
}

#[test]
fn a_table_is_kept_as_bytes_and_prints_nothing() {
    let mut aliases = Aliases::new().unwrap();
    let hidden = aliases.hide(&detector(), "ann@example.com 4532276644577020");
    let again = Aliases::from_bytes(&aliases.to_bytes()).unwrap();
    assert_eq!(again.reveal(&hidden.shown).unwrap(), "ann@example.com 4532276644577020");
    assert_eq!(format!("{again:?}"), "Aliases(2 values)");
    assert!(Aliases::from_bytes(&[]).is_err());
    assert!(Aliases::from_bytes(&[9, 1, 2]).is_err());
    let bytes = aliases.to_bytes();
    for cut in 0..bytes.len() {
        assert!(Aliases::from_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

/// Returns a piece of a document: prose, values of every kind, brackets and text that looks like aliases.
fn stretch(which: u8, random: u64) -> String {
    let of = |letters: &str, least: u64, most: u64| -> String {
        let letters: Vec<char> = letters.chars().collect();
        let count = least + random % (most - least + 1);
        let mut state = random | 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap()
        };
        (0..count).map(|_| letters[next() % letters.len()]).collect()
    };
    let small = "abcdefghijklmnopqrstuvwxyz";
    let digits = |count: u64| of("0123456789", count, count);
    match which {
        0..=3 => of("abcXYZ ,.;:()<>‹›«»|/\"'\\%&=+-\n", 0, 12),
        4 => of("é√😀\u{a0}\u{202f}‹›ßñ中 ", 0, 6),
        5 | 6 => format!("{}.{}@{}.com", of(small, 1, 6), of("xyz", 1, 4), of(small, 2, 8)),
        7 => format!("+{} {} {}", 1 + random % 98, digits(3), digits(5)),
        8 => "4532 2766 4457 7020".to_owned(),
        9 => "GB82 WEST 1234 5698 7654 32".to_owned(),
        10 => format!("4{}-5{}-6{}", digits(2), digits(1), digits(3)),
        11 => format!(
            "{}: Ann {}\n",
            ["email", "Name", "phone", "Address"][usize::try_from(random % 4).unwrap()],
            of("LMKl", 3, 6)
        ),
        12 => format!(
            "{}email{}{}{}",
            of("‹<« ", 0, 2),
            of(": ", 0, 2),
            of("23456789bcdf ", 3, 8),
            of("›>» ", 0, 2)
        ),
        13 => format!("%E2%80%B9email%3A{}%E2%80%BA", of("23456789", 6, 6)),
        14 => format!("https://{}.com/{}", of(small, 3, 9), of("a1?=&", 0, 9)),
        15 => format!("{}.{}.{}.{}", random % 300, random % 256, random % 99, random % 255),
        16 => "name,email\nAnn,a@b.co\n".to_owned(),
        _ => "\n| name | phone |\n|---|---|\n| Ann Lee | 555 0100 |\n".to_owned(),
    }
}

fn document() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec((0..18_u8, any::<u64>()), 0..10);
    parts.prop_map(|parts| {
        parts
            .into_iter()
            .map(|(which, random)| stretch(which, random))
            .collect()
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("email".to_owned()),
        Just("name".to_owned()),
        Just("phone".to_owned()),
        Just("ssn".to_owned()),
        Just("card".to_owned()),
        Just("address".to_owned()),
        Just("dob".to_owned()),
        Just("note".to_owned()),
        document(),
    ];
    let leaf = prop_oneof![
        document().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        Just(json!(4_532_276_644_577_020_u64)),
        any::<f64>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map(key.clone(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ten_thousand_documents_come_back_exactly(text in document()) {
        let mut aliases = Aliases::new().unwrap();
        let hidden = aliases.hide(&detector(), &text);
        prop_assert_eq!(aliases.reveal(&hidden.shown).unwrap(), text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_comes_back_exactly(value in any_json()) {
        let mut aliases = Aliases::new().unwrap();
        let hidden = aliases.hide_json(&detector(), value.clone(), &SchemaHints::none());
        prop_assert_eq!(aliases.reveal_json(hidden.shown).unwrap(), value);
    }
}

#[test]
fn a_table_is_kept_in_parts() {
    let mut aliases = Aliases::new().unwrap();
    assert!(aliases.unsaved_bytes().is_none());
    let first = aliases.hide(&detector(), "ann@example.com").shown;
    let one = aliases.unsaved_bytes().unwrap();
    aliases.mark_saved();
    let second = aliases.hide(&detector(), "bob@example.com and ann@example.com").shown;
    let two = aliases.unsaved_bytes().unwrap();
    aliases.mark_saved();
    assert!(aliases.unsaved_bytes().is_none());
    let parts = [one.as_slice(), two.as_slice(), two.as_slice()];
    let mut again = Aliases::from_parts(parts).unwrap();
    assert_eq!(again.reveal(&first).unwrap(), "ann@example.com");
    assert_eq!(
        again.hide(&detector(), "bob@example.com and ann@example.com").shown,
        second
    );
    assert!(again.unsaved_bytes().is_none());
}

#[test]
fn what_was_not_kept_can_be_forgotten() {
    let mut aliases = Aliases::new().unwrap();
    let kept = aliases.hide(&detector(), "ann@example.com").shown;
    aliases.mark_saved();
    let lost = aliases.hide(&detector(), "bob@example.com").shown;
    aliases.discard_unsaved();
    assert!(aliases.unsaved_bytes().is_none());
    assert!(aliases.reveal(&lost).is_err());
    assert_eq!(aliases.hide(&detector(), "ann@example.com").shown, kept);
    assert_ne!(aliases.hide(&detector(), "bob@example.com").shown, lost);
}

#[test]
fn what_a_tool_says_again_is_hidden_though_nothing_tells_what_it_is() {
    let mut aliases = Aliases::new().unwrap();
    let value = json!({"customer": {"name": "Ann Lee", "email": "ann@example.com"}});
    let hidden = aliases.hide_json(&detector(), value, &SchemaHints::none()).shown;
    let known = aliases.known_json(&hidden);
    assert_eq!(known.len(), 2);
    let answer = aliases.mask_json(json!(["queued for Ann Lee"]), &known);
    assert_eq!(
        answer,
        json!([format!("queued for {}", hidden["customer"]["name"].as_str().unwrap())])
    );
}

#[test]
fn what_is_said_again_is_masked_longest_first_in_whole_words_and_numbers() {
    let mut aliases = Aliases::new().unwrap();
    let mut alias = |value: Value| {
        let key = if value.is_number() { "phone" } else { "customer" };
        let shown = aliases
            .hide_json(&detector(), json!({key: value}), &SchemaHints::none())
            .shown;
        shown[key].as_str().unwrap().to_owned()
    };
    let (first, whole, number, far) = (
        alias(json!("Ann")),
        alias(json!("Ann Lee")),
        alias(json!(5_550_100)),
        alias(json!("张伟")),
    );
    let known = aliases.known_json(&json!([first, whole, number, far]));
    assert_eq!(known.len(), 4);
    assert_eq!(
        aliases.mask_json(
            json!([
                "Annual report of Ann Lee, Ann's",
                5_550_100,
                15_550_100,
                "ref 15550100, 5550100",
                "张伟先生"
            ]),
            &known
        ),
        json!([
            format!("Annual report of {whole}, {first}'s"),
            number,
            15_550_100,
            format!("ref 15550100, {number}"),
            format!("{far}先生"),
        ])
    );
}

#[test]
fn what_goes_on_is_hidden_as_in_the_whole() {
    let mut aliases = Aliases::new().unwrap();
    let text = "name,phone\nAnn Lee,555 0100\nBo Ek,555 0101\n";
    let whole = aliases.hide(&detector(), text).shown;
    let from = text.find("Bo").unwrap();
    let rest = aliases.hide_from(&detector(), text, from).shown;
    assert!(!rest.contains("Bo Ek"), "{rest}");
    assert!(whole.ends_with(&rest), "{whole} {rest}");
}

#[test]
fn aliases_are_counted_and_invented_ones_are_none() {
    let mut aliases = Aliases::new().unwrap();
    let alias = aliases.hide(&detector(), "ann@example.com").shown;
    assert_eq!(
        aliases
            .count_json(&json!({"to": [alias.clone()], "text": format!("hi {alias}")}))
            .unwrap(),
        2
    );
    assert!(aliases.count_json(&json!({"to": "‹email:zzzzzz›"})).is_err());
}

#[test]
fn a_table_has_an_end_and_what_is_found_then_is_hidden_for_good() {
    let mut aliases = Aliases::new().unwrap();
    let long = "x".repeat(1 << 20);
    // Each is held twice: by its alias, and to be found again.
    let codes = (0..31).map(|number| aliases.code_for("url", AliasValueForm::Text, &format!("{number}{}", &long[2..])));
    assert!(codes.collect::<Vec<_>>().iter().all(Option::is_some));
    assert_eq!(aliases.code_for("url", AliasValueForm::Text, &long), None);
    let hidden = aliases
        .hide(&detector(), &format!("at https://example.com/{long} now"))
        .shown;
    assert!(!hidden.contains("example.com"), "{}", &hidden[..200.min(hidden.len())]);
    // A full table keeps the values that it has.
    assert!(
        aliases
            .code_for("url", AliasValueForm::Text, &format!("7{}", &long[2..]))
            .is_some()
    );
}

#[test]
fn of_thousands_that_a_tool_was_told_each_is_found_again() {
    let mut aliases = Aliases::new().unwrap();
    let people: Vec<Value> = (0..20_000)
        .map(|number| json!({ "email": format!("a{number}@example.com") }))
        .collect();
    let hidden = aliases
        .hide_json(&detector(), people.into(), &SchemaHints::none())
        .shown;
    let known = aliases.known_json(&hidden);
    assert_eq!(known.len(), 20_000);
    let said: Vec<Value> = (0..20_000)
        .map(|number| format!("queued for a{number}@example.com").into())
        .collect();
    let shown = aliases.mask_json(said.into(), &known);
    for (one, person) in shown.as_array().unwrap().iter().zip(hidden.as_array().unwrap()) {
        assert_eq!(
            one.as_str().unwrap(),
            format!("queued for {}", person["email"].as_str().unwrap())
        );
    }
}

#[test]
fn a_short_match_of_an_own_kind_is_hidden_without_an_alias() {
    let letters = CustomKind::new("x", "(?<value>[A-Za-z0-9])", CustomCheck::None).unwrap();
    let badges = CustomKind::new("badge", r"B-\d+", CustomCheck::None).unwrap();
    let detector = Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::none(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Off,
        own: vec![badges, letters],
    });
    let mut aliases = Aliases::new().unwrap();
    assert_eq!(aliases.hide(&detector, "a, 7").shown, "⟦x hidden⟧, ⟦x hidden⟧");
    assert!(aliases.is_empty());
    assert_eq!(aliases.hide(&detector, "B-1").shown, "⟦badge hidden⟧");
    let hidden = aliases.hide(&detector, "B-12").shown;
    assert!(hidden.starts_with("‹badge:"), "{hidden}");
}
