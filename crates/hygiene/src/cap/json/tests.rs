//! Tests of JSON of any length and depth.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::JsonCap;
use crate::cap::{CapLimits, OmittedCounts};

const LIMITS: CapLimits = CapLimits {
    bytes: 2000,
    rows: 3,
    depth: 3,
    string: 40,
};

fn cap(text: &[u8]) -> (Value, OmittedCounts) {
    let mut cap = JsonCap::new(LIMITS, None);
    for piece in text.chunks(5) {
        cap.push(piece);
    }
    let capped = cap.finish();
    (capped.shown, capped.left_out)
}

#[track_caller]
fn check(text: &str, expected: &Value) {
    assert_eq!(&cap(text.as_bytes()).0, expected, "{text}");
}

#[test]
fn what_fits_is_whole() {
    for value in [
        json!(null),
        json!(-1.5e3),
        json!("a\"\\\n\u{1F600}"),
        json!({"a": [1, true, {"b": "c"}]}),
        json!([]),
        json!({}),
    ] {
        let (shown, left) = cap(value.to_string().as_bytes());
        assert_eq!(shown, value);
        assert!(left.is_whole(), "{left:?}");
    }
    check(r#""\u00e9\ud83d\ude00\/ \ud800""#, &json!("é😀/ \u{fffd}"));
}

#[test]
fn rows_members_and_depth_are_bounded_and_said() {
    check("[1,2,3,4,5]", &json!([1, 2, 3, "⟦ringfence: 2 of 5 rows left out⟧"]));
    check(
        r#"{"a":1,"b":2,"c":3,"d":[1],"e":5}"#,
        &json!({"a": 1, "b": 2, "c": 3, "⟦ringfence⟧": "⟦ringfence: 2 of 5 members left out⟧"}),
    );
    check(
        "[[[[1]]],2]",
        &json!([[["⟦ringfence: nested deeper than 3, left out⟧"]], 2]),
    );
    check("{\"a\":1}\n{\"a\":2}\n", &json!([{"a": 1}, {"a": 2}]));
}

#[test]
fn long_strings_are_cut_between_words() {
    let text = json!("the card of the customer is 4532 2766 4457 7020 and more").to_string();
    check(
        &text,
        &json!("the card of the customer is⟦ringfence: 29 of 56 bytes left out⟧"),
    );
}

#[test]
fn a_flood_takes_no_memory() {
    let mut cap = JsonCap::new(LIMITS, Some("file"));
    cap.push(b"{\"rows\":[");
    for row in 0..200_000 {
        cap.push(
            format!(
                "{}{{\"id\":{row},\"t\":\"some text\"}}",
                if row == 0 { "" } else { "," }
            )
            .as_bytes(),
        );
    }
    cap.push(b"]}");
    let capped = cap.finish();
    assert_eq!(capped.left_out.rows, 199_997);
    assert_eq!(
        capped.shown["rows"][3],
        "⟦ringfence: 199,997 of 200,000 rows left out; the whole is at file⟧"
    );
    let mut cap = JsonCap::new(LIMITS, None);
    cap.push(b"[\"");
    for _ in 0..1000 {
        cap.push(&[b'a'; 10_000]);
    }
    cap.push(b"\"]");
    let capped = cap.finish();
    assert_eq!(
        capped.shown,
        json!(["⟦ringfence: 10,000,000 of 10,000,000 bytes left out⟧"])
    );
}

#[test]
fn a_hundred_thousand_levels_are_one_notice() {
    let text = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let (shown, left) = cap(text.as_bytes());
    assert_eq!(shown, json!([[["⟦ringfence: nested deeper than 3, left out⟧"]]]));
    assert_eq!(left.deep, 1);
}

#[test]
fn what_is_not_json_ends_there() {
    for text in [
        "{\"a\":1,}",
        "[1 2]",
        "[1,",
        "\"open",
        "{\"a\"",
        "nul",
        "1.2.3",
        "]",
        "{1:2}",
        "[1}",
        "{\"a\":1]",
    ] {
        let (shown, left) = cap(text.as_bytes());
        assert!(left.broken_at.is_some(), "{text} {shown}");
        assert!(shown.to_string().contains("not JSON from byte"), "{text} {shown}");
    }
    let (shown, left) = cap(b"[\"\xff\x1b[31mred\xe2\x9f\xa6\"]");
    assert_eq!(shown, json!(["\u{fffd}red["]));
    assert_eq!(left.neutralised, 3);
}

#[test]
fn a_value_in_memory_is_capped_the_same_way() {
    let capped = JsonCap::cap_value(&json!([1, 2, 3, 4]), LIMITS, None);
    assert_eq!(capped.shown, json!([1, 2, 3, "⟦ringfence: 1 of 4 rows left out⟧"]));
}

#[test]
fn limits_of_nothing_show_nothing_but_notices() {
    let none = CapLimits {
        bytes: 0,
        rows: 0,
        depth: 0,
        string: 0,
    };
    for text in ["[1,[2],\"long text here\"]", "{\"a\":{}}", "\"text\"", "7"] {
        let mut cap = JsonCap::new(none, None);
        cap.push(text.as_bytes());
        let capped = cap.finish();
        assert_eq!(capped.shown, json!(["⟦ringfence: 1 of 1 rows left out⟧"]), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_end_in_a_value_within_bounds(bytes in prop::collection::vec(prop_oneof![
        Just(b'['), Just(b']'), Just(b'{'), Just(b'}'), Just(b'"'), Just(b','), Just(b':'), Just(b'1'), Just(b'\\'), any::<u8>(),
    ], 0..400)) {
        let (shown, _) = cap(&bytes);
        prop_assert!(shown.to_string().len() < 8000);
    }
}
