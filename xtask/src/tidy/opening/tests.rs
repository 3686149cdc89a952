use super::super::tree::ProjectTree;
use super::check;

#[track_caller]
fn judge(path: &str, text: &str, expected: &[&str]) {
    let found: Vec<_> = check(&ProjectTree::from_texts(&[(path, text)]))
        .into_iter()
        .map(|finding| finding.message)
        .collect();
    assert_eq!(found, expected, "{path}");
}

const SILENT: &str = "does not begin with a `//!` line saying what it is for";
const BARE: &str = "a crate root without `#![forbid(unsafe_code)]`";

#[test]
fn a_file_says_what_it_is_for() {
    judge("crates/wire/src/frame.rs", "//! Frames.\n", &[]);
    judge("crates/wire/src/frame.rs", "use std::io;\n//! Frames.\n", &[SILENT]);
    judge("crates/wire/src/frame.rs", "//!\n", &[SILENT]);
    judge("crates/wire/src/frame.rs", "", &[SILENT]);
    judge("crates/wire/tests/it/main.rs", "mod golden;\n", &[SILENT]);
    judge("crates/wire/src/frame/tests.rs", "use super::*;\n", &[]);
    judge("README.md", "no Rust\n", &[]);
}

#[test]
fn a_crate_root_forbids_unsafe() {
    let good = "//! A crate.\n#![forbid(unsafe_code)]\n";
    for root in [
        "crates/cli/src/main.rs",
        "crates/wire/src/lib.rs",
        "xtask/src/main.rs",
        "crates/cli/src/bin/x.rs",
    ] {
        judge(root, good, &[]);
        judge(root, "//! A crate.\n", &[BARE]);
        judge(root, "//! A crate.\n// #![forbid(unsafe_code)]\n", &[BARE]);
    }
    judge("crates/wire/src/lib.rs", "", &[SILENT, BARE]);
    judge("crates/wire/src/deep/main.rs", "//! A module.\n", &[]);
}

#[test]
fn the_jail_keeps_the_unsafe() {
    judge("crates/jail/src/lib.rs", "//! The jail.\n", &[]);
}
