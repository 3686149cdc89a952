//! Dependencies between our crates go down only: the list of allowed ones, and whether the manifests keep to it.

use super::RuleFinding;
use super::graph::{DependencyGraph, DependencyKind};

const RULE: &str = "arrows";

/// Each crate and the crates that it may depend on.
const ALLOWED_DEPENDENCIES: [(&str, &[&str]); 17] = [
    ("check", &["policy", "sandbox"]),
    ("company", &[]),
    ("policy", &[]),
    ("disk", &[]),
    ("jail", &[]),
    ("wire", &[]),
    ("hygiene", &[]),
    ("journal", &["policy"]),
    ("catalog", &["policy"]),
    ("store", &["policy", "journal", "disk"]),
    ("sandbox", &["policy", "jail", "wire"]),
    ("probe", &["policy", "jail", "sandbox"]),
    ("gateway", &["policy", "catalog", "hygiene", "journal", "disk"]),
    (
        "engine",
        &[
            "policy", "journal", "catalog", "sandbox", "gateway", "hygiene", "store", "wire", "check",
        ],
    ),
    ("server", &["engine", "journal", "policy"]),
    (
        "cli",
        &[
            "server", "engine", "store", "sandbox", "gateway", "catalog", "policy", "journal", "probe", "company",
            "disk",
        ],
    ),
    ("worker", &["wire", "jail"]),
];

/// Crates for development: they may depend on all crates, and only tests may depend on them.
const DEVELOPMENT_CRATES: [&str; 2] = ["testkit", "xtask"];

pub(super) fn check(graph: &DependencyGraph) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for (from, edges) in graph.members() {
        if DEVELOPMENT_CRATES.contains(&from) {
            continue;
        }
        let place = format!("crates/{from}/Cargo.toml");
        let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(name, _)| *name == from) else {
            let message = "a crate that the list of arrows does not know; \
                           give it a charter and a fence in an ADR (docs/adr/), then add it to xtask/src/tidy/arrows.rs";
            findings.push(RuleFinding::fault(RULE, place, message));
            continue;
        };
        for edge in edges
            .iter()
            .filter(|edge| edge.kind != DependencyKind::Dev && graph.is_member(&edge.to))
        {
            let to = edge.to.as_str();
            if DEVELOPMENT_CRATES.contains(&to) {
                findings.push(RuleFinding::fault(
                    RULE,
                    &place,
                    format!("`{to}` may only be a dev-dependency"),
                ));
            } else if !allowed.contains(&to) {
                let message = format!(
                    "`{from}` → `{to}` is a new arrow; write down why in an ADR (docs/adr/), \
                     then add it to xtask/src/tidy/arrows.rs"
                );
                findings.push(RuleFinding::fault(RULE, &place, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests;
