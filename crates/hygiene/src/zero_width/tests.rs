//! Tests of zero-width characters, which must not hide anything.

use serde_json::json;

use crate::alias::Aliases;
use crate::detector::{Detector, DetectorConfig, NameDetection, SecretDetection};
use crate::hints::SchemaHints;
use crate::kind::SensitiveKinds;

fn detector() -> Detector {
    Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    })
}

#[test]
fn values_are_found_through_what_is_not_seen() {
    for unseen in [
        '\u{ad}',
        '\u{34f}',
        '\u{61c}',
        '\u{115f}',
        '\u{17b4}',
        '\u{180e}',
        '\u{200b}',
        '\u{200c}',
        '\u{200d}',
        '\u{200e}',
        '\u{202a}',
        '\u{2060}',
        '\u{206f}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{feff}',
        '\u{ffa0}',
        '\u{fff0}',
        '\u{1bca0}',
        '\u{1d173}',
        '\u{e0041}',
        '\u{e0100}',
    ] {
        for value in [
            format!("ann{unseen}@example.com"),
            format!("ann@exam{unseen}{unseen}ple.c{unseen}om"),
            format!("4532 2766 {unseen}4457 7{unseen}020"),
            format!("GB82{unseen}WEST12345698765432"),
        ] {
            let text = format!("é {unseen}it is {value}, she said");
            let found = detector().find(&text);
            let found: Vec<_> = found.iter().map(|one| &text[one.start..one.end]).collect();
            assert_eq!(found, [value.as_str()], "{}", unseen.escape_unicode());
            let mut aliases = Aliases::new().unwrap();
            let answer = json!({ "note": text, format!("sur{unseen}name"): "oulu" });
            let hidden = aliases.hide_json(&detector(), answer, &SchemaHints::none());
            assert_eq!(hidden.counts.total(), 2, "{}", hidden.shown);
            let shown = hidden.shown["note"].as_str().unwrap();
            assert_eq!(aliases.reveal(shown).unwrap(), text);
        }
    }
}

#[test]
fn where_nothing_is_found_it_stays() {
    let text = "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f} می\u{200c}خواهم co\u{ad}operate";
    let hidden = Aliases::new().unwrap().hide(&detector(), text);
    assert_eq!(hidden.shown, text);
    assert!(hidden.counts.is_empty());
}

#[test]
fn wide_digits_and_encoded_values_are_read_as_what_they_say() {
    for (text, value) in [
        (
            "カード ４５３２２７６６４４５７７０２０ です",
            "４５３２２７６６４４５７７０２０",
        ),
        ("p=%2B49%2030%201234567&x", "%2B49%2030%201234567"),
        ("/x?customer=Ann+Lee&n=1", "Ann+Lee"),
        ("q=4532+2766+4457+7020", "4532+2766+4457+7020"),
        ("q=4532+2766+4457+7020%20x", "4532+2766+4457+7020"),
        ("to=ann%40example.com&n=1", "ann%40example.com"),
        ("call ＋４９ ３０ １２３４５６７", "＋４９ ３０ １２３４５６７"),
    ] {
        let found = detector().find(text);
        let found: Vec<_> = found.iter().map(|one| &text[one.start..one.end]).collect();
        assert_eq!(found, [value], "{text}");
        let mut aliases = Aliases::new().unwrap();
        let hidden = aliases.hide(&detector(), text);
        assert_eq!(aliases.reveal(&hidden.shown).unwrap(), text);
    }
    for text in ["50% 20 of 100 %d", "100%25 sure", "１２３ ａｂｃ", "x=a+b 1+1=2"] {
        assert_eq!(detector().find(text), [], "{text}");
    }
}
