use super::*;

#[test]
fn names_that_are_no_plain_files_are_refused() {
    let check = |kind, path: &str, fits| {
        let stubs = [(path.to_owned(), String::new())];
        assert_eq!(checker_files(kind, "", &stubs).is_ok(), fits, "{path}");
    };
    check(CheckerKind::TypeScript, "tools.d.ts", true);
    check(CheckerKind::Python, "tools/größe.pyi", true);
    check(CheckerKind::Python, "tools.d.ts", false);
    for path in [
        "../x.d.ts",
        "/etc/x.d.ts",
        "a\"b.d.ts",
        "a\nb.d.ts",
        "tsconfig.json",
        "",
        "-x.d.ts",
        "a b.d.ts",
    ] {
        check(CheckerKind::TypeScript, path, false);
    }
}

#[test]
fn what_is_too_long_is_not_checked() {
    let long = "x".repeat(MAX_TEXT_BYTES + 1);
    assert!(matches!(
        checker_files(CheckerKind::Python, &long, &[]),
        Err(TypeCheckError::TooLong)
    ));
    let many: Vec<_> = (0..4000)
        .map(|number| (format!("tools/s{number}.pyi"), String::new()))
        .collect();
    assert!(matches!(
        checker_files(CheckerKind::Python, "", &many),
        Err(TypeCheckError::TooLong)
    ));
}

#[test]
fn a_checker_rests_longer_after_each_failure() {
    let seconds: Vec<_> = (0..9)
        .map(|failures| retry_delay(failures).map(|rest| rest.as_secs()))
        .collect();
    let expected = [
        None,
        Some(1),
        Some(2),
        Some(4),
        Some(8),
        Some(16),
        Some(32),
        Some(60),
        Some(60),
    ];
    assert_eq!(seconds, expected);
    assert_eq!(retry_delay(u32::MAX), Some(MAX_RETRY_DELAY));
}
