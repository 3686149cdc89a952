//! Checks the house rules. Each rule is a function from the project to findings; only this file prints.

mod arrows;
mod code;
mod fences;
mod graph;
mod names;
mod opening;
mod parameters;
mod promises;
mod shapes;
mod sizes;
mod tree;
mod unsafety;
mod words;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use graph::DependencyGraph;
use tree::ProjectTree;

use crate::generate;

/// Whether a finding fails the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FindingWeight {
    Notice,
    Fault,
}

/// A finding of a rule about one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RuleFinding {
    weight: FindingWeight,
    rule: &'static str,
    place: String,
    message: String,
}

impl RuleFinding {
    fn fault(rule: &'static str, place: impl Into<String>, message: impl Into<String>) -> Self {
        let (place, message) = (place.into(), message.into());
        Self {
            weight: FindingWeight::Fault,
            rule,
            place,
            message,
        }
    }

    fn notice(rule: &'static str, place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            weight: FindingWeight::Notice,
            ..Self::fault(rule, place, message)
        }
    }
}

impl fmt::Display for RuleFinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight {
            FindingWeight::Notice => "notice",
            FindingWeight::Fault => "error",
        };
        write!(out, "{weight}[{}]: {}: {}", self.rule, self.place, self.message)
    }
}

/// Checks every rule and prints the findings; generated files are compared only when they exist.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let tree = ProjectTree::read(root)?;
    let graph = DependencyGraph::read(root)?;
    let mut findings = check_all(&tree, &graph);
    for stale in generate::stale_files(root)? {
        let message = "differs from what the program prints; run `cargo xtask generate`";
        findings.push(RuleFinding::fault("generated", stale, message));
    }
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    let faults = findings
        .iter()
        .filter(|finding| finding.weight == FindingWeight::Fault)
        .count();
    let notices = findings.len() - faults;
    println!("tidy: {} files, {faults} errors, {notices} notices", tree.files().len());
    Ok(if faults == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn check_all(tree: &ProjectTree, graph: &DependencyGraph) -> Vec<RuleFinding> {
    let mut findings = arrows::check(graph);
    findings.extend(fences::check(graph));
    findings.extend(parameters::check(tree));
    findings.extend(shapes::check(tree));
    findings.extend(sizes::check(tree));
    findings.extend(opening::check(tree));
    findings.extend(unsafety::check(tree));
    findings.extend(promises::check(tree));
    findings.extend(names::check(tree));
    findings.extend(words::check(tree));
    findings
}

#[cfg(test)]
mod tests;
