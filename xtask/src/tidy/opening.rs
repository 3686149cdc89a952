//! Checks how a Rust file opens: with its purpose and, for a crate root, with its promise about `unsafe`.

use super::Finding;
use super::code::code;
use super::tree::{File, Tree};

const RULE: &str = "opening";

const PROMISE: &str = "#![forbid(unsafe_code)]";
/// The one crate that may contain `unsafe`, in its `sys` module.
const UNSAFE_CRATE: &str = "jail";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let said = file.text.lines().next().and_then(|first| first.strip_prefix("//!"));
        if file.name() != "tests.rs" && said.is_none_or(|words| words.trim().is_empty()) {
            findings.push(Finding::fault(
                RULE,
                &file.path,
                "does not begin with a `//!` line saying what it is for",
            ));
        }
        let promises = code(&file.text).lines().any(|line| line.trim() == PROMISE);
        if is_root(file) && file.member() != Some(UNSAFE_CRATE) && !promises {
            findings.push(Finding::fault(
                RULE,
                &file.path,
                format!("a crate root without `{PROMISE}`"),
            ));
        }
    }
    findings
}

/// Whether a file is `src/lib.rs`, `src/main.rs` or `src/bin/*.rs` of a member.
fn is_root(file: &File) -> bool {
    let Some(inside) = file
        .member()
        .and_then(|_| file.path.split_once("/src/"))
        .map(|(_, inside)| inside)
    else {
        return false;
    };
    matches!(inside, "lib.rs" | "main.rs") || inside.strip_prefix("bin/").is_some_and(|rest| !rest.contains('/'))
}

#[cfg(test)]
mod tests;
