use std::collections::BTreeSet;

use super::super::graph::{Graph, Kind};
use super::{ALLOWED, check};

#[track_caller]
fn judge(members: &[(&str, &[(&str, Kind)])], expected: &[&str]) {
    let found = check(&Graph::of(members, &[]));
    let found: Vec<_> = found
        .iter()
        .map(|finding| format!("{}: {}", finding.place, finding.message))
        .collect();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (message, part) in found.iter().zip(expected) {
        assert!(message.contains(part), "{message} has no {part}");
    }
}

#[test]
fn arrows_of_the_list_pass() {
    let cli: &[_] = &[
        ("engine", Kind::Normal),
        ("journal", Kind::Normal),
        ("probe", Kind::Normal),
    ];
    judge(
        &[
            ("cli", cli),
            ("engine", &[("journal", Kind::Normal)]),
            ("journal", &[]),
            ("probe", &[]),
        ],
        &[],
    );
}

#[test]
fn a_new_arrow_is_named_with_the_place_for_the_reason() {
    judge(
        &[("jail", &[("policy", Kind::Normal)]), ("policy", &[])],
        &["crates/jail/Cargo.toml: `jail` → `policy` is a new arrow; write down why in an ADR (docs/adr/)"],
    );
}

#[test]
fn a_build_dependency_is_an_arrow() {
    judge(
        &[("jail", &[("wire", Kind::Build)]), ("wire", &[])],
        &["`jail` → `wire`"],
    );
}

#[test]
fn the_testkit_is_for_tests() {
    judge(
        &[
            ("jail", &[("testkit", Kind::Dev)]),
            ("testkit", &[("engine", Kind::Normal)]),
            ("engine", &[]),
        ],
        &[],
    );
    judge(
        &[("jail", &[("testkit", Kind::Normal)]), ("testkit", &[])],
        &["`testkit` may only be a dev-dependency"],
    );
}

#[test]
fn foreign_packages_are_not_arrows() {
    judge(&[("jail", &[("libc", Kind::Normal)])], &[]);
}

#[test]
fn an_unknown_crate_needs_a_charter() {
    judge(
        &[("utils", &[])],
        &["crates/utils/Cargo.toml: a crate that the list of arrows does not know"],
    );
}

#[test]
fn the_list_itself_has_no_circle() {
    let mut placed = BTreeSet::new();
    while placed.len() < ALLOWED.len() {
        let before = placed.len();
        for (name, below) in ALLOWED {
            if below.iter().all(|word| placed.contains(word)) {
                placed.insert(name);
            }
        }
        assert!(placed.len() > before, "only {placed:?} can be placed");
    }
}
