//! Tests of the detector as a whole.

use std::sync::Arc;

use super::{Detector, DetectorConfig, NameDetection, ProseReader, SecretDetection};
use crate::alias::Aliases;
use crate::custom::{CustomCheck, CustomKind};
use crate::finding::{Evidence, SensitiveSpan};
use crate::kind::{SensitiveKind, SensitiveKinds};

fn settings() -> DetectorConfig {
    DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    }
}

#[track_caller]
fn check(settings: &DetectorConfig, text: &str, expected: &[(&str, &str)]) {
    let found = Detector::new(settings).find(text);
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.kind.to_string(), &text[one.start..one.end]))
        .collect();
    let found: Vec<_> = found.iter().map(|(kind, value)| (kind.as_str(), *value)).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn tables_are_read_by_their_headers() {
    check(
        &settings(),
        "name,phone\nann lee,78 651 450\n",
        &[("name", "ann lee"), ("phone", "78 651 450")],
    );
    check(
        &settings(),
        "| customer | n |\n|---|---|\n| Ann | 1 |\n",
        &[("name", "Ann")],
    );
}

#[test]
fn a_string_that_is_a_table_is_read_as_one() {
    let text = "customer,city\nann,oulu\n";
    let found = Detector::new(&settings()).find_value(text, None);
    let found: Vec<_> = found.iter().map(|one| (one.kind, &text[one.start..one.end])).collect();
    assert_eq!(found, [(SensitiveKind::Name, "ann"), (SensitiveKind::Place, "oulu")]);
}

#[test]
fn secrets_are_found_unless_switched_off_whatever_the_kinds() {
    let text = "password = \"hunter2!\" for ann@example.com";
    let kinds = SensitiveKinds::none();
    check(&DetectorConfig { kinds, ..settings() }, text, &[("secret", "hunter2!")]);
    let off = DetectorConfig {
        secrets: SecretDetection::Off,
        ..settings()
    };
    check(&off, text, &[("email", "ann@example.com")]);
}

#[test]
fn operators_kinds_win_over_ours() {
    let own = vec![CustomKind::new("staff", r"\w+@corp\.example", CustomCheck::None).unwrap()];
    check(
        &DetectorConfig { own, ..settings() },
        "ann@corp.example",
        &[("staff", "ann@corp.example")],
    );
}

struct Reader;

impl ProseReader for Reader {
    fn find(&self, text: &str) -> Vec<SensitiveSpan> {
        let all = |end: usize, kind: SensitiveKind| SensitiveSpan {
            start: 0,
            end,
            kind,
            by: Evidence::Prose,
        };
        vec![
            all(4, SensitiveKind::Organisation),
            all(text.len() + 9, SensitiveKind::Name),
            all(0, SensitiveKind::Name),
        ]
    }
}

#[test]
fn a_plugged_in_reader_is_believed_within_the_text() {
    let names = NameDetection::Reader(Arc::new(Reader));
    check(
        &DetectorConfig { names, ..settings() },
        "Acme makes things",
        &[("org", "Acme")],
    );
}

/// Returns the shortest time of a few runs: other work on the machine only adds to it.
fn least_time(text: &str) -> std::time::Duration {
    let once = || {
        let names = NameDetection::Dictionary;
        let detector = Detector::new(&DetectorConfig { names, ..settings() });
        let begun = std::time::Instant::now();
        detector.find(text);
        Aliases::new().unwrap().hide(&detector, text);
        begun.elapsed()
    };
    (0..3).map(|_| once()).min().unwrap()
}

#[test]
fn hostile_texts_take_time_near_their_length() {
    const LONGER: u32 = 8;
    for (piece, count) in [
        ("1 ", 200_000),
        ("a@", 200_000),
        (":", 400_000),
        ("\"name\":", 60_000),
        ("|-|\n", 100_000),
        ("GB82 ", 80_000),
        ("=+", 100_000),
        ("<name>x</", 40_000),
        ("phone=1 ", 40_000),
        ("https://", 50_000),
        ("(", 400_000),
        ("password:", 40_000),
        ("‹email:", 40_000),
        ("A. ", 130_000),
        ("-----BEGIN PRIVATE KEY", 5_000),
    ] {
        let (short, long) = (piece.repeat(count / 16), piece.repeat(count / 16 * LONGER as usize));
        // Quadratic time would make it 64 times as long.
        let most = least_time(&short) * LONGER * 3 + std::time::Duration::from_millis(20);
        let took = least_time(&long);
        assert!(took < most, "{piece:?}: {took:?}, {most:?}");
    }
}
