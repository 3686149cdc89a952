//! SPECIFICATION.md: every numbered promise names a test that exists.
//!
//! A promise begins with `1. …`, `**1.2** …` or `| 1.2 | …` (a letter may precede the number) and ends at a blank line. It names its tests
//! as `test: module::name`, `test: crates/x/tests/y.rs::name` or `test: path/of/a/file`, more after commas.

use std::collections::{BTreeMap, BTreeSet};

use super::RuleFinding;
use super::code::blank_non_code;
use super::tree::{ProjectFile, ProjectTree};

const RULE: &str = "promises";
const SPECIFICATION: &str = "SPECIFICATION.md";

pub(super) fn check(tree: &ProjectTree) -> Vec<RuleFinding> {
    let Some(file) = tree.get(SPECIFICATION) else {
        return Vec::new();
    };
    let tests: BTreeMap<_, _> = tree.rust().map(|file| (file.path.as_str(), tests_in(file))).collect();
    let mut findings = Vec::new();
    let mut numbers = BTreeSet::new();
    for promise in parse_promises(&file.text) {
        let place = format!("{SPECIFICATION}:{}", promise.line);
        if !numbers.insert(promise.number.clone()) {
            let message = format!("there are two promises numbered {}", promise.number);
            findings.push(RuleFinding::fault(RULE, &place, message));
        }
        let named = test_references(&promise.text);
        if named.is_empty() {
            let message = format!("promise {} names no test; write `test: module::name`", promise.number);
            findings.push(RuleFinding::fault(RULE, &place, message));
        }
        for reference in named
            .iter()
            .filter(|reference| !reference_exists(reference, tree, &tests))
        {
            let message = format!("promise {} names `{reference}`, which does not exist", promise.number);
            findings.push(RuleFinding::fault(RULE, &place, message));
        }
    }
    findings
}

struct Promise {
    number: String,
    line: usize,
    text: String,
}

fn parse_promises(text: &str) -> Vec<Promise> {
    let mut promises: Vec<Promise> = Vec::new();
    let mut open = false;
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if let Some(number) = promise_number(line).filter(|_| !fenced) {
            promises.push(Promise {
                number,
                line: at + 1,
                text: line.to_owned(),
            });
            open = true;
        } else if line.trim().is_empty() || line.starts_with('#') {
            open = false;
        } else if let Some(last) = promises.last_mut().filter(|_| open) {
            last.text.push(' ');
            last.text.push_str(line.trim());
        }
    }
    promises
}

/// The number that a line begins with, when it begins a promise.
fn promise_number(line: &str) -> Option<String> {
    let line = line.trim_start();
    let item = line
        .strip_prefix("- ")
        .or_else(|| line.strip_prefix("* "))
        .unwrap_or(line);
    let inside = if let Some(cell) = item.strip_prefix('|') {
        cell.split_once('|')?.0
    } else if let Some(bold) = item.strip_prefix("**") {
        bold.split_once("**")?.0
    } else {
        let (number, _) = item.split_once(". ")?;
        return number
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| number.to_owned())
            .filter(|n| !n.is_empty());
    };
    let inside = inside.trim().trim_matches('*').trim_end_matches('.');
    let digits = inside
        .trim_start_matches(|c: char| c.is_ascii_uppercase())
        .trim_start_matches('-');
    let is_number = !digits.is_empty() && digits.split('.').all(|part| part.parse::<u32>().is_ok());
    is_number.then(|| inside.to_owned())
}

/// Every test or file that a promise names.
fn test_references(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in text.split("test: ").skip(1).chain(text.split("tests: ").skip(1)) {
        for (position, piece) in rest.split(',').enumerate() {
            let piece = piece.trim_start();
            let quoted = piece.starts_with('`');
            let name = piece.trim_start_matches('`');
            let end = name
                .find(|c: char| !(c.is_alphanumeric() || "_:/.-".contains(c)))
                .unwrap_or(name.len());
            let name = name[..end].trim_end_matches(['.', ':']);
            // After a comma the sentence may go on: only what looks like a name counts.
            if name.is_empty() || (position > 0 && !quoted && !name.contains("::") && !name.contains('/')) {
                break;
            }
            found.push(name.to_owned());
        }
    }
    found
}

fn reference_exists(reference: &str, tree: &ProjectTree, tests: &BTreeMap<&str, BTreeSet<String>>) -> bool {
    let has = |found: &BTreeSet<String>, name: &str| found.contains(name);
    match reference.rsplit_once("::") {
        Some((path, name)) if path.contains('/') => tests.get(path).is_some_and(|found| has(found, name)),
        Some((_, name)) => tests.values().any(|found| has(found, name)),
        None if reference.contains(['/', '.']) => {
            let below = format!("{}/", reference.trim_end_matches('/'));
            tree.files()
                .iter()
                .any(|file| file.path == reference || file.path.starts_with(&below))
        }
        None => tests.values().any(|found| has(found, reference)),
    }
}

/// The names of the functions under a `#[…test…]` attribute.
fn tests_in(file: &ProjectFile) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut marked = false;
    for line in blank_non_code(&file.text).lines().map(str::trim) {
        let attribute = line.starts_with("#[");
        marked |= attribute
            && line
                .split(|c: char| !(c == '_' || c.is_alphanumeric()))
                .any(|word| word == "test");
        if let Some((_, rest)) = line.split_once("fn ") {
            let end = rest
                .find(|c: char| !(c == '_' || c.is_alphanumeric()))
                .unwrap_or(rest.len());
            if marked {
                found.insert(rest[..end].to_owned());
            }
        }
        if !attribute && !line.is_empty() {
            marked = false;
        }
    }
    found
}

#[cfg(test)]
mod tests;
