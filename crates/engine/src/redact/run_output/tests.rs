use ringfence_hygiene::{Detector, DetectorConfig, NameDetection, SecretDetection, SensitiveKinds};

use super::*;

fn detector() -> Detector {
    Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    })
}

/// Adds a part as the engine does; returns the bytes that were inspected for it.
fn add(clean: &mut RedactedStream, detector: &Detector, bytes: &[u8]) -> usize {
    let part = clean.next_part(bytes);
    let shown = detector.redact_from(&part.text, part.from).shown;
    clean.append(&part, Some(&shown));
    part.text.len()
}

#[test]
fn what_is_new_is_cleaned_once_and_as_all_of_it_would_be() {
    let (mut clean, detector) = (RedactedStream::default(), detector());
    let lines: Vec<String> = (0..4000)
        .map(|n| format!("{n},Zoltan Kovacs {n},z{n}@example.org\n"))
        .collect();
    let all = format!("id,customer_name,mail\n{}", lines.concat());
    add(&mut clean, &detector, b"id,customer_name,mail\n");
    let looked: usize = lines
        .chunks(4)
        .map(|some| add(&mut clean, &detector, some.concat().as_bytes()))
        .sum();
    assert_eq!(clean.after(0), Some(detector.redact(&all).shown.as_str()));
    assert!(!clean.text.contains("Zoltan"));
    // A thousand reads of 150 KB: from the beginning each time, they would inspect 70 MB.
    assert!(looked < all.len() + 1000 * (10 << 10), "{looked}");
    assert!(clean.carried.len() < 10 << 10);
}

#[test]
fn readers_go_on_at_any_place_where_a_part_ended() {
    let (mut clean, detector) = (RedactedStream::default(), detector());
    for line in ["one\n", "mail ann@example.org\n", "three\n"] {
        add(&mut clean, &detector, line.as_bytes());
    }
    assert_eq!(clean.after(25), Some("three\n"));
    assert!(
        clean
            .after(4)
            .is_some_and(|text| !text.contains('@') && text.ends_with("three\n"))
    );
    assert_eq!(
        (clean.after(5), clean.after(31), clean.after(99)),
        (None, Some(""), Some(""))
    );
    let part = clean.next_part(b"held\n");
    clean.append(&part, None);
    add(&mut clean, &detector, b"five\n");
    // A withheld part withholds every answer that contains it.
    assert_eq!(
        (clean.after(0), clean.after(25), clean.after(36)),
        (Some(""), Some(""), Some("five\n"))
    );
}

#[test]
fn places_are_bounded() {
    let mut clean = RedactedStream::default();
    for _ in 0..3 * MAX_BOUNDARIES {
        let part = clean.next_part(b"x\n");
        clean.append(&part, Some("x\n"));
    }
    assert!(clean.places.len() <= MAX_BOUNDARIES);
    assert_eq!(clean.after(6 * MAX_BOUNDARIES - 2), Some("x\n"));
}
