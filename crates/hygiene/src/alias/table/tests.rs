//! Tests of the table: whose value an alias stands for, what a full table does, what it takes, and what it reads.

use serde_json::{Value, json};

use super::{AliasOrigin, AliasValueForm, MAX_ENTRIES, MAX_MEMORY_BYTES};
use crate::{Aliases, Detector, DetectorConfig, NameDetection, SchemaHints, SecretDetection, SensitiveKinds};

fn detector() -> Detector {
    Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    })
}

/// Hides a value as the program's output is: by detection, then by what is known.
fn printed(aliases: &mut Aliases, value: Value) -> Value {
    let aliases = aliases.with_origin(AliasOrigin::Program);
    let hidden = aliases.hide_json(&detector(), value, &SchemaHints::none());
    aliases.mask_known_json(hidden.shown).shown
}

fn answered(aliases: &mut Aliases, value: Value) -> Value {
    let aliases = aliases.with_origin(AliasOrigin::Answer);
    aliases.hide_json(&detector(), value, &SchemaHints::none()).shown
}

/// Returns an alias without its code.
fn form(shown: &Value) -> String {
    let shown = shown.as_str().unwrap();
    let (word, code) = shown.split_once(':').unwrap();
    assert_eq!(code.chars().count(), 7, "{shown}");
    word.to_owned()
}

#[test]
fn a_right_guess_that_a_program_prints_looks_like_a_wrong_one() {
    let mut aliases = Aliases::new().unwrap();
    let answer = answered(&mut aliases, json!(["+49 170 1234567", "ann@example.com"]));
    for (right, wrong) in [
        ("+49 170 1234567", "+49 170 1234568"),
        ("ann@example.com", "bob@example.com"),
    ] {
        let right_alias = printed(&mut aliases, json!(right));
        let wrong_alias = printed(&mut aliases, json!(wrong));
        assert_eq!(form(&right_alias), form(&wrong_alias));
        assert!(
            !answer.as_array().unwrap().contains(&right_alias),
            "{answer} {right_alias}"
        );
        // Each is the same alias whenever the program says it, and reveals what it said.
        assert_eq!(printed(&mut aliases, json!(right)), right_alias);
        assert_eq!(aliases.reveal_json(right_alias).unwrap(), right);
        assert_eq!(aliases.reveal_json(wrong_alias).unwrap(), wrong);
    }
    // What a tool says after the program has its own alias too, and an alias that is printed stays.
    let later = answered(&mut aliases, json!("bob@example.com"));
    assert_ne!(later, printed(&mut aliases, json!("bob@example.com")));
    assert_eq!(printed(&mut aliases, later.clone()), later);
    assert_eq!(answered(&mut aliases, json!("ann@example.com")), answer[1]);
    assert_eq!(
        aliases.reveal_json(answer).unwrap(),
        json!(["+49 170 1234567", "ann@example.com"])
    );
}

#[test]
fn a_known_name_that_a_program_prints_is_masked_by_another_alias_and_a_number_is_not_told() {
    let mut aliases = Aliases::new().unwrap();
    let answer = answered(
        &mut aliases,
        json!({ "customer": "Ann Lee", "phone": 5_550_100, "ssn": "403579558" }),
    );
    let text = printed(&mut aliases, json!("queued for Ann Lee"));
    let shown = text.as_str().unwrap();
    assert!(shown.starts_with("queued for ‹name:"), "{shown}");
    assert!(!shown.contains(answer["customer"].as_str().unwrap()), "{shown}");
    for guess in [
        json!(5_550_100),
        json!("at 5550100 now"),
        json!({ "5550100": 403_579_558 }),
    ] {
        assert_eq!(printed(&mut aliases, guess.clone()), guess);
    }
}

#[test]
fn a_full_table_hides_right_and_wrong_guesses_for_good() {
    let mut aliases = Aliases::new().unwrap();
    let answer = answered(&mut aliases, json!("+49 170 1234567"));
    aliases.bytes = MAX_MEMORY_BYTES;
    let guesses = printed(&mut aliases, json!(["+49 170 1234567", "+49 170 1234568"]));
    assert_eq!(guesses, json!(["⟦phone hidden⟧", "⟦phone hidden⟧"]));
    assert_eq!(answered(&mut aliases, json!("+49 170 1234567")), answer);
}

#[test]
fn both_origins_are_kept_and_an_earlier_table_has_answers_only() {
    let mut aliases = Aliases::new().unwrap();
    let answer = answered(&mut aliases, json!("ann@example.com"));
    let guess = printed(&mut aliases, json!("ann@example.com"));
    let mut again = Aliases::from_bytes(&aliases.to_bytes()).unwrap();
    assert_eq!(answered(&mut again, json!("ann@example.com")), answer);
    assert_eq!(printed(&mut again, json!("ann@example.com")), guess);
    assert_eq!(again.len(), 2);

    let earlier = (
        [7_u8; 32],
        1_u64,
        vec![("email", AliasValueForm::Text, *b"k7q2wd", "ann@example.com")],
    );
    let mut bytes = [0; 256];
    bytes[0] = 1;
    let length = postcard::to_slice(&earlier, &mut bytes[1..]).unwrap().len();
    let mut earlier = Aliases::from_bytes(&bytes[..=length]).unwrap();
    assert_eq!(
        answered(&mut earlier, json!("ann@example.com")),
        json!("‹email:k7q2wd›")
    );
    let guess = printed(&mut earlier, json!("ann@example.com"));
    assert_ne!(guess, json!("‹email:k7q2wd›"));
    // The next part is of this version, and goes with the earlier one.
    let next = earlier.unsaved_bytes().unwrap();
    let both = Aliases::from_parts([&bytes[..=length], next.as_slice()]).unwrap();
    assert_eq!(both.reveal_json(guess).unwrap(), "ann@example.com");
    assert_eq!(both.reveal("‹email:k7q2wd›").unwrap(), "ann@example.com");
}

#[test]
fn a_table_has_room_for_two_hundred_thousand_short_values_and_no_more() {
    let mut aliases = Aliases::new().unwrap();
    for number in 0..MAX_ENTRIES {
        let value = format!("+49 170 {number:07}");
        assert!(
            aliases.code_for("phone", AliasValueForm::Text, &value).is_some(),
            "{number}"
        );
    }
    assert_eq!(aliases.code_for("phone", AliasValueForm::Text, "+49 30 901820"), None);
    assert!(aliases.bytes <= MAX_MEMORY_BYTES, "{}", aliases.bytes);
    aliases.discard_unsaved();
    assert_eq!((aliases.bytes, aliases.by_value.len(), aliases.len()), (0, 0, 0));
}
