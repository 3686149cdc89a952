use std::collections::BTreeSet;

use super::super::graph::{DependencyGraph, DependencyKind};
use super::{ALLOWED_DEPENDENCIES, check};

#[track_caller]
fn judge(members: &[(&str, &[(&str, DependencyKind)])], expected: &[&str]) {
    let found = check(&DependencyGraph::from_edges(members, &[]));
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
        ("engine", DependencyKind::Normal),
        ("journal", DependencyKind::Normal),
        ("probe", DependencyKind::Normal),
    ];
    judge(
        &[
            ("cli", cli),
            ("engine", &[("journal", DependencyKind::Normal)]),
            ("journal", &[]),
            ("probe", &[]),
        ],
        &[],
    );
}

#[test]
fn a_new_arrow_is_named_with_the_place_for_the_reason() {
    judge(
        &[("jail", &[("policy", DependencyKind::Normal)]), ("policy", &[])],
        &["crates/jail/Cargo.toml: `jail` → `policy` is a new arrow; write down why in an ADR (docs/adr/)"],
    );
}

#[test]
fn a_build_dependency_is_an_arrow() {
    judge(
        &[("jail", &[("wire", DependencyKind::Build)]), ("wire", &[])],
        &["`jail` → `wire`"],
    );
}

#[test]
fn the_testkit_is_for_tests() {
    judge(
        &[
            ("jail", &[("testkit", DependencyKind::Dev)]),
            ("testkit", &[("engine", DependencyKind::Normal)]),
            ("engine", &[]),
        ],
        &[],
    );
    judge(
        &[("jail", &[("testkit", DependencyKind::Normal)]), ("testkit", &[])],
        &["`testkit` may only be a dev-dependency"],
    );
}

#[test]
fn foreign_packages_are_not_arrows() {
    judge(&[("jail", &[("libc", DependencyKind::Normal)])], &[]);
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
    while placed.len() < ALLOWED_DEPENDENCIES.len() {
        let before = placed.len();
        for (name, below) in ALLOWED_DEPENDENCIES {
            if below.iter().all(|word| placed.contains(word)) {
                placed.insert(name);
            }
        }
        assert!(placed.len() > before, "only {placed:?} can be placed");
    }
}
