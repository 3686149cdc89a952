use super::*;

fn violation(number: usize, detail: &str) -> ViolationReport {
    ViolationReport {
        kind: "net".to_owned(),
        detail: format!("{number} {detail}"),
        rule: "net.rules[0]".to_owned(),
    }
}

fn file(number: usize, name: &str) -> FileReport {
    FileReport {
        path: format!("{number}{name}"),
        bytes: 1,
        sha256: "0".repeat(64),
        change: "created",
        emitted: false,
        media_type: None,
    }
}

#[test]
fn violations_stay_below_their_bytes_and_the_rest_is_counted() {
    let long = "/x".repeat(1500);
    // A control character takes six bytes of JSON.
    let escaped = "\u{1}".repeat(3000);
    for (count, detail) in [(257, long.as_str()), (5000, "short"), (257, escaped.as_str())] {
        let mut violations: Vec<_> = (0..count).map(|number| violation(number, detail)).collect();
        fit_violations(&mut violations);
        let text = serde_json::to_string(&violations).unwrap();
        assert!(text.len() < 33 * 1024, "{} bytes", text.len());
        let (more, listed) = violations.split_last().unwrap();
        assert!(listed.len() <= MAX_LISTED, "{} listed", listed.len());
        assert_eq!(
            (more.kind.as_str(), more.detail.clone()),
            ("more", format!("{} more", count - listed.len()))
        );
        let is_cut = detail.len() > MAX_NAME_CHARS;
        assert!(listed.iter().all(|one| one.detail.ends_with('…') == is_cut), "{text}");
    }
    let mut few = vec![violation(1, "short")];
    fit_violations(&mut few);
    assert_eq!(few, [violation(1, "short")]);
}

#[test]
fn the_first_files_are_listed_as_far_as_they_fit() {
    let long = "n".repeat(200);
    for (count, name, expected) in [
        (2000, "", 850..=1000),
        (30_000, long.as_str(), 350..=500),
        (3, "a", 3..=3),
    ] {
        let files: Vec<_> = (0..count).map(|number| file(number, name)).collect();
        let fits = listed_files(&files);
        let bytes = serde_json::to_string(fits).unwrap().len();
        assert!(bytes <= MAX_BYTES + 1, "{bytes} bytes");
        assert!(expected.contains(&fits.len()), "{} listed", fits.len());
        assert_eq!(fits, &files[..fits.len()]);
    }
}

#[test]
fn what_was_tried_is_told_on_one_line_with_nothing_hidden() {
    let mut violations = vec![violation(1, "a\nb\u{1b}[2J\u{202e}txt\u{2800}")];
    fit_violations(&mut violations);
    assert_eq!(violations[0].detail, "1 a\\nb\\u{1b}[2J\\u{202e}txt\\u{2800}");
}
