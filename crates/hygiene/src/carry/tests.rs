use super::*;
use crate::{Detector, DetectorConfig, NameDetection, SecretDetection, SensitiveKinds};

fn detector() -> Detector {
    Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    })
}

/// Returns what is shown of a text that comes in pieces of this many lines.
fn in_pieces(detector: &Detector, text: &str, lines: usize) -> String {
    let (mut carried, mut shown) = (String::new(), String::new());
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    for piece in all.chunks(lines) {
        let from = carried.len();
        carried.push_str(&piece.concat());
        shown.push_str(&detector.redact_from(&carried, from).shown);
        carried = carry(&carried);
        assert!(carried.len() < 64 * 1024, "{}", carried.len());
    }
    shown
}

#[track_caller]
fn check(text: &str, hidden: &str) {
    let detector = detector();
    let whole = detector.redact(text).shown;
    assert!(
        text.contains(hidden) && !whole.contains(hidden),
        "{hidden} is not found at all"
    );
    for lines in [10, 97, 1000] {
        assert_eq!(in_pieces(&detector, text, lines), whole, "{lines} lines at once");
    }
}

fn rows(count: usize, row: impl Fn(usize) -> String) -> String {
    (0..count).map(row).collect()
}

#[test]
fn tables_go_on_under_their_headers() {
    let people = rows(2000, |n| format!("{n},Zoltan Kovacs {n},blue {n}\n"));
    check(&format!("id,customer_name,colour\n{people}"), "Zoltan Kovacs 1999");
    // A second table after the first.
    let phones = rows(2000, |n| format!("{n},78 651 {}\n", 100 + n % 900));
    let both = format!("id,phone\n{phones}\n\nid,customer_name,colour\n{people}");
    check(&both, "Zoltan Kovacs 1500");
    let drawn = rows(2000, |n| format!("| {n} | Zoltan Kovacs {n} |\n"));
    let steps = rows(500, |n| format!("step {n} is done.\n"));
    let drawn = format!("{steps}| id | customer_name |\n|----|----|\n{drawn}");
    check(&drawn, "Zoltan Kovacs 1999");
    // Without a header, the columns show what they hold.
    let bare = rows(2000, |n| format!("Zoltan Kovacs,zoltan{n}@example.org,{n}\n"));
    check(&bare, "Zoltan Kovacs");
}

#[test]
fn a_private_key_is_hidden_to_its_end() {
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let lines = format!("{line}\n").repeat(400);
    let text = format!("a log\n-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\nand more\n");
    let mut shown = in_pieces(&detector(), &text, 10);
    assert!(!shown.contains(line), "the key");
    // Each piece of it is removed separately.
    while shown.contains("⟧⟦secret removed⟧") {
        shown = shown.replace("⟧⟦secret removed⟧", "⟧");
    }
    assert_eq!(shown, detector().redact(&text).shown);
}

#[test]
fn what_is_carried_is_bounded_and_begins_with_a_line() {
    let text = rows(100_000, |n| format!("line {n}\n"));
    let carried = carry(&text);
    assert!(carried.len() <= TAIL_BYTES + MAX_FIRST_LINES_BYTES, "{}", carried.len());
    assert!(carried.starts_with("line 0\n") && carried.ends_with("line 99999\n"));
    assert_eq!(carry(&carried), carried);
    let long = "ü".repeat(20_000);
    assert!(carry(&long).len() <= TAIL_BYTES);
    assert_eq!(carry("one\ntwo\n"), "one\ntwo\n");
}
