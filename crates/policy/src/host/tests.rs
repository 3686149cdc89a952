use proptest::prelude::*;

use super::*;
use crate::fuzz::fuzz_host;
use crate::testdata::rows;

#[test]
fn hosts_are_canonical_or_refused() {
    for row in rows(include_str!("../../testdata/hosts.tsv")) {
        let got = match row.spelling.parse::<Host>() {
            Ok(host) => host.to_string(),
            Err(_) => "refused".to_owned(),
        };
        assert_eq!(got, row.expected, "{:?} ({})", row.spelling, row.note);
        fuzz_host(row.spelling.as_bytes());
    }
}

#[track_caller]
fn matches(pattern: &str, host: &str, expected: bool) {
    let pattern: HostPattern = pattern.parse().unwrap();
    assert_eq!(pattern.matches(&host.parse().unwrap()), expected, "{pattern} {host}");
}

#[test]
fn a_star_is_one_label_and_two_stars_are_many() {
    matches("example.com", "example.com", true);
    matches("EXAMPLE.com.", "example.com", true);
    matches("example.com", "notexample.com", false);
    matches("example.com", "example.com.evil.org", false);
    matches("*.example.com", "a.example.com", true);
    matches("*.example.com", "example.com", false);
    matches("*.example.com", "a.b.example.com", false);
    matches("**.example.com", "a.example.com", true);
    matches("**.example.com", "a.b.c.example.com", true);
    matches("**.example.com", "example.com", false);
    matches("**.example.com", "notexample.com", false);
    matches("api.*.example.com", "api.eu.example.com", true);
    matches("api.*.example.com", "www.eu.example.com", false);
    matches("93.184.216.34", "93.184.216.34", true);
    matches("::1", "[0:0::1]", true);
    matches("bücher.example", "xn--bcher-kva.example", true);
}

#[test]
fn wildcards_never_span_owners() {
    for pattern in [
        "*",
        "**",
        "*.com",
        "**.com",
        "*.co.uk",
        "**.co.uk",
        "*.github.io",
        "**.internal",
        "*.*",
        "*.*.com",
        "example.*",
        "exam*.com",
        "*example.com",
        "***.example.com",
        "**a.example.com",
        "*.0.0.1",
        "*.127.0.0.1",
        "",
        "*.",
        "*..example.com",
        ".*.example.com",
        "*.exa mple.com",
        "*.example.com:443",
        "*.ex%61mple.com",
    ] {
        assert!(pattern.parse::<HostPattern>().is_err(), "{pattern}");
    }
}

#[track_caller]
fn contains(outer: &str, inner: &str, expected: bool) {
    let parse = |text: &str| text.parse::<HostPattern>().unwrap();
    assert_eq!(parse(outer).contains(&parse(inner)), expected, "{outer} ⊇ {inner}");
}

#[test]
fn containment_of_host_patterns() {
    contains("**.example.com", "*.example.com", true);
    contains("*.example.com", "**.example.com", false);
    contains("**.example.com", "*.a.example.com", true);
    contains("**.example.com", "example.com", false);
    contains("*.example.com", "a.example.com", true);
    contains("a.example.com", "*.example.com", false);
    contains("*.**.example.com", "**.*.example.com", true);
    contains("**.*.example.com", "*.**.example.com", true);
    contains("**.example.com", "*.*.example.com", true);
    contains("*.*.example.com", "**.example.com", false);
}

#[test]
fn a_refusal_says_how_to_write_it() {
    let error = "bücher.example".parse::<Host>().unwrap_err().to_string();
    assert_eq!(error, "`bücher.example` is not ASCII, write `xn--bcher-kva.example`");
    let error = "::ffff:127.0.0.1".parse::<Host>().unwrap_err().to_string();
    assert_eq!(error, "`::ffff:127.0.0.1` hides an IPv4 address, write `127.0.0.1`");
}

proptest! {
    #[test]
    fn canonical_is_a_fixed_point(text in "\\PC{0,40}") {
        fuzz_host(text.as_bytes());
    }

    #[test]
    fn canonical_is_a_fixed_point_of_near_hosts(text in "[a-zA-Z0-9.*:\\[\\]%xX_-]{1,24}") {
        fuzz_host(text.as_bytes());
    }

    #[test]
    fn every_address_reads_back(bits in any::<u128>(), low in any::<u32>()) {
        fuzz_host(Ipv6Addr::from_bits(bits).to_string().as_bytes());
        fuzz_host(Ipv6Addr::from_bits(u128::from(low)).to_string().as_bytes());
        fuzz_host(Ipv4Addr::from_bits(low).to_string().as_bytes());
    }

    #[test]
    fn a_contained_pattern_matches_nothing_more(
        outer in "(\\*\\*\\.|\\*\\.|[ab]\\.){0,3}a\\.example\\.com",
        inner in "(\\*\\*\\.|\\*\\.|[ab]\\.){0,3}a\\.example\\.com",
        host in "([ab]\\.){0,4}a\\.example\\.com",
    ) {
        let (outer, inner) = (outer.parse::<HostPattern>(), inner.parse::<HostPattern>());
        if let (Ok(outer), Ok(inner)) = (outer, inner) {
            let host: Host = host.parse().unwrap();
            if outer.contains(&inner) && inner.matches(&host) {
                prop_assert!(outer.matches(&host), "{outer} {inner} {host}");
            }
        }
    }
}
