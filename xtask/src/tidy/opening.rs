//! Checks how a Rust file opens: with its purpose and, for a crate root, with its promise about `unsafe`.

use super::RuleFinding;
use super::code::blank_non_code;
use super::tree::{ProjectFile, ProjectTree};

const RULE: &str = "opening";

const FORBID_UNSAFE: &str = "#![forbid(unsafe_code)]";
/// The one crate that may contain `unsafe`, in its `sys` module.
const UNSAFE_CRATE: &str = "jail";

pub(super) fn check(tree: &ProjectTree) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let said = file.text.lines().next().and_then(|first| first.strip_prefix("//!"));
        if file.name() != "tests.rs" && said.is_none_or(|words| words.trim().is_empty()) {
            findings.push(RuleFinding::fault(
                RULE,
                &file.path,
                "does not begin with a `//!` line saying what it is for",
            ));
        }
        let promises = blank_non_code(&file.text)
            .lines()
            .any(|line| line.trim() == FORBID_UNSAFE);
        if is_crate_root(file) && file.member() != Some(UNSAFE_CRATE) && !promises {
            findings.push(RuleFinding::fault(
                RULE,
                &file.path,
                format!("a crate root without `{FORBID_UNSAFE}`"),
            ));
        }
    }
    findings
}

/// Whether a file is `src/lib.rs`, `src/main.rs` or `src/bin/*.rs` of a member.
fn is_crate_root(file: &ProjectFile) -> bool {
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
