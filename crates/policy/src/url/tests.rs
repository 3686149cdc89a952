use proptest::prelude::*;

use super::*;
use crate::fuzz::fuzz_path;
use crate::testdata::rows;

#[test]
fn url_paths_are_canonical_or_refused() {
    for row in rows(include_str!("../../testdata/urls.tsv")) {
        let got = match row.spelling.parse::<UrlPath>() {
            Ok(path) => path.to_string(),
            Err(_) => "refused".to_owned(),
        };
        assert_eq!(got, row.expected, "{:?} ({})", row.spelling, row.note);
        fuzz_path(row.spelling.as_bytes());
    }
}

#[track_caller]
fn matches(pattern: &str, path: &str, expected: bool) {
    let pattern: UrlPathPattern = pattern.parse().unwrap();
    assert_eq!(pattern.matches(&path.parse().unwrap()), expected, "{pattern} {path}");
}

#[test]
fn a_star_does_not_cross_a_slash() {
    matches("/repos/*", "/repos/a", true);
    matches("/repos/*", "/repos/a/b", false);
    matches("/repos/**", "/repos/a/b", true);
    matches("/repos/**", "/repos/", true);
    matches("/repos/**", "/repos", false);
    matches("/repos/**", "/repositories/a", false);
    matches("/*/*/git-upload-pack", "/a/b/git-upload-pack", true);
    matches("/*/*/git-upload-pack", "/a/git-upload-pack", false);
    matches("/v*/items", "/v2/items", true);
    matches("/a%20b", "/a%20b", true);
    matches("/%41", "/A", true);
    matches("/a%2Ab", "/a*b", true);
    matches("/a%2Ab", "/axb", false);
}

#[test]
fn ambiguous_patterns_are_refused() {
    for pattern in ["repos/**", "/a/../b", "/a**", "/**a", "//a", "/%2e", "/a;b", "/***"] {
        assert!(pattern.parse::<UrlPathPattern>().is_err(), "{pattern}");
    }
}

#[track_caller]
fn host(text: &str, expected: Option<&str>) {
    assert_eq!(
        parse_url_host(text).ok().map(|host| host.to_string()).as_deref(),
        expected,
        "{text}"
    );
}

#[test]
fn the_host_of_an_argument() {
    host("example.org", Some("example.org"));
    host("https://example.org/x?y#z", Some("example.org"));
    host("https://Example.ORG:8443", Some("example.org"));
    host("http://[2001:db8::1]:80/", Some("2001:db8::1"));
    host("https://user@example.org/", None);
    host("https://example.org\\@evil.com/", None);
    host("https://evil.com#@example.org", Some("evil.com"));
    host("https://example.org:x/", None);
    host("https://2130706433/", None);
    host("https:///x", None);
    host("://example.org", None);
    host("java script://example.org", None);
}

#[test]
fn a_path_that_encoding_makes_too_long_is_refused() {
    let stars = |count: usize| format!("/{}", "*".repeat(count)).parse::<UrlPath>();
    assert_eq!(stars(8_000), Err(UrlPathError::TooLong));
    fuzz_path(stars(2_730).unwrap().as_str().as_bytes());
}

proptest! {
    #[test]
    fn canonical_is_a_fixed_point(text in "/[a-c./%0-9A-F;*\\\\-]{0,16}") {
        fuzz_path(text.as_bytes());
    }
}
