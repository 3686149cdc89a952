use super::*;

#[track_caller]
fn check(text: &str, identifier: Option<&str>) {
    let name = SkillName::parse(text).ok();
    assert_eq!(name.map(|name| name.identifier()).as_deref(), identifier, "{text:?}");
}

#[test]
fn names_are_those_of_the_public_format() {
    check("report", Some("report"));
    check("monthly-report", Some("monthly_report"));
    check("a", Some("a"));
    check("3d-model", Some("_3d_model"));
    check(&"a".repeat(64), Some(&"a".repeat(64)));
    for odd in [
        "", "-a", "a-", "a--b", "A", "a_b", "a b", "a/b", "..", ".", "a.b", "ä", "a\0b", "a\n",
    ] {
        check(odd, None);
    }
    check(&"a".repeat(65), None);
}

#[test]
fn a_program_says_underscores_for_hyphens() {
    for name in ["monthly-report", "3d-model", "class", "a"] {
        let name = SkillName::parse(name).unwrap();
        assert_eq!(SkillName::parse_lenient(&name.identifier()), Some(name.clone()));
        assert_eq!(SkillName::parse_lenient(&format!("{}_", name.identifier())), Some(name));
    }
    assert_eq!(SkillName::parse_lenient("__proto__"), None);
    assert_eq!(SkillName::parse_lenient("monthly__report"), None);
    assert_eq!(SkillName::parse_lenient("../etc"), None);
    assert_eq!(SkillName::parse_lenient(&"a".repeat(1000)), None);
}

#[test]
fn a_hostile_name_is_shown_short_and_clean() {
    let error = SkillName::parse(&format!("\u{1b}[31m{}", "x".repeat(10_000))).unwrap_err();
    let text = error.to_string();
    assert!(text.len() < 400 && !text.contains('\u{1b}'), "{text}");
    assert_eq!(error.code(), "skill.name");
}
