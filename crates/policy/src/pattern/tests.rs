use proptest::prelude::*;

use super::*;

#[track_caller]
fn matches(pattern: &str, name: &str, expected: bool) {
    let pattern: ToolPattern = pattern.parse().unwrap();
    assert_eq!(pattern.matches(&name.parse().unwrap()), expected, "{pattern} {name}");
}

#[test]
fn a_star_stays_within_one_part() {
    matches("github.list_*", "github.list_issues", true);
    matches("github.list_*", "github.list_", true);
    matches("github.list_*", "github.get_issue", false);
    matches("github.list_*", "github.list_a.b", false);
    matches("*.delete_*", "github.delete_repo", true);
    matches("*.delete_*", "a.b.delete_repo", false);
    matches("**", "github.delete_repo", true);
    matches("web.**", "web.a.b", true);
    matches("web.**", "web", false);
    matches("web.*", "website.a", false);
    matches("mail.send", "mail.send", true);
    matches("mail.send", "mail.Send", false);
    matches("*", "plain", true);
    matches("*", "github.x", false);
}

#[test]
fn malformed_names_are_refused() {
    for text in ["", ".", "a.", ".a", "a..b", "a b", "a\0b", "a\nb", "a.***", "a.x**"] {
        assert!(text.parse::<ToolPattern>().is_err(), "{text:?}");
    }
    for text in ["", "a.*", "a b", "\u{7f}"] {
        assert!(text.parse::<ToolName>().is_err(), "{text:?}");
    }
    assert!("a".repeat(257).parse::<ToolName>().is_err());
    assert!("server.naïve-tool/x".parse::<ToolName>().is_ok());
}

#[track_caller]
fn contains(outer: &str, inner: &str, expected: bool) {
    let parse = |text: &str| text.parse::<ToolPattern>().unwrap();
    assert_eq!(parse(outer).contains(&parse(inner)), expected, "{outer} ⊇ {inner}");
}

#[test]
fn containment_of_tool_patterns() {
    contains("github.*", "github.list_*", true);
    contains("github.list_*", "github.*", false);
    contains("github.list_*", "github.list_issues", true);
    contains("github.list_*", "github.l*", false);
    contains("**", "github.*", true);
    contains("*", "**", false);
    contains("*.list_*", "github.list_*", true);
    contains("a.*b*", "a.b*", true);
    contains("a.b*", "a.*b*", false);
    contains("a.*x*y", "a.xy", true);
    contains("a.**", "a.*.**", true);
}

proptest! {
    #[test]
    fn a_contained_pattern_matches_nothing_more(
        outer in "[ab*]{1,4}(\\.[ab*]{1,4}){0,2}",
        inner in "[ab*]{1,4}(\\.[ab*]{1,4}){0,2}",
        name in "[ab]{1,4}(\\.[ab]{1,4}){0,2}",
    ) {
        if let (Ok(outer), Ok(inner)) = (outer.parse::<ToolPattern>(), inner.parse::<ToolPattern>()) {
            let name: ToolName = name.parse().unwrap();
            prop_assert!(outer.contains(&outer));
            if outer.contains(&inner) && inner.matches(&name) {
                prop_assert!(outer.matches(&name), "{} {} {}", outer, inner, name);
            }
        }
    }
}
