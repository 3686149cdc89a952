//! What things are called: a type's name is declared once or twice, constants say what they bound, and a doc comment says more than
//! a name does.

use std::collections::BTreeMap;

use super::RuleFinding;
use super::code::blank_non_code;
use super::tree::{ProjectFile, ProjectTree};

const RULE: &str = "names";

/// How many files may declare a type of one name.
const MAX_DECLARATIONS: usize = 2;
/// How many words a doc comment has at least.
const MIN_DOC_WORDS: usize = 4;

const TYPE_KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];
/// Words that say nothing of what a type is.
const EMPTY_WORDS: [&str; 5] = ["Manager", "Helper", "Util", "Utils", "Common"];
/// Constants whose name is a figure of speech; `MAX_…`, `…_TIMEOUT`, `…_INTERVAL` and `…_CAPACITY` say what they bound.
const VAGUE_CONSTANTS: [&str; 9] = [
    "MOST", "LONGEST", "PATIENCE", "MOMENT", "A_MOMENT", "ROOM", "BEAT", "LOOK", "AT_MOST",
];
/// Functions whose name leaves out what they return or do.
const VAGUE_FUNCTIONS: [&str; 8] = ["of", "take", "words", "tell", "look", "told", "kept", "said"];

/// The text of one file as code, beside the file itself.
struct SourceText<'t> {
    file: &'t ProjectFile,
    code: String,
}

pub(super) fn check(tree: &ProjectTree) -> Vec<RuleFinding> {
    let sources: Vec<SourceText<'_>> = tree
        .rust()
        .filter(|file| !file.is_test())
        .map(|file| SourceText {
            file,
            code: blank_non_code(&file.text),
        })
        .collect();
    let mut findings = repeated_types(&sources);
    for source in &sources {
        findings.extend(empty_words(source));
        findings.extend(vague_constants(source));
        findings.extend(vague_functions(source));
    }
    for file in tree.rust() {
        findings.extend(short_docs(file));
    }
    findings
}

fn repeated_types(sources: &[SourceText<'_>]) -> Vec<RuleFinding> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources {
        for (line, name) in types(&source.code) {
            let place = format!("{}:{line}", source.file.path);
            places.entry(name).or_default().push(place);
        }
    }
    let too_often = |(name, places): (&str, Vec<String>)| {
        let [first, others @ ..] = places.as_slice() else {
            return None;
        };
        (places.len() > MAX_DECLARATIONS).then(|| {
            let message = format!(
                "a type `{name}` is declared in {} too; one name, one thing",
                others.join(", ")
            );
            RuleFinding::fault(RULE, first.clone(), message)
        })
    };
    places.into_iter().filter_map(too_often).collect()
}

fn empty_words(source: &SourceText<'_>) -> Vec<RuleFinding> {
    let says_nothing = |name: &str| EMPTY_WORDS.iter().any(|word| name.ends_with(word));
    types(&source.code)
        .filter(|(_, name)| says_nothing(name))
        .map(|(line, name)| {
            let place = format!("{}:{line}", source.file.path);
            RuleFinding::fault(RULE, place, format!("`{name}`: say what it is, not that it helps"))
        })
        .collect()
}

fn vague_constants(source: &SourceText<'_>) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for (number, line) in source.code.lines().enumerate() {
        let Some(name) = declared(line, &["const", "static"]) else {
            continue;
        };
        if VAGUE_CONSTANTS.contains(&name) || name.starts_with("MOST_") || name.starts_with("LONGEST_") {
            let place = format!("{}:{}", source.file.path, number + 1);
            let message = format!("`{name}`: `MAX_…`, `…_TIMEOUT`, `…_INTERVAL` or `…_CAPACITY` says what it bounds");
            findings.push(RuleFinding::fault(RULE, place, message));
        }
    }
    findings
}

fn vague_functions(source: &SourceText<'_>) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for (number, line) in source.code.lines().enumerate() {
        let Some((_, rest)) = line.split_once("fn ") else {
            continue;
        };
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
        if let Some(name) = name.filter(|name| VAGUE_FUNCTIONS.contains(name)) {
            let place = format!("{}:{}", source.file.path, number + 1);
            findings.push(RuleFinding::fault(
                RULE,
                place,
                format!("`fn {name}`: say what it returns or does"),
            ));
        }
    }
    findings
}

fn short_docs(file: &ProjectFile) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    let (mut begins, mut words) = (None, 0);
    for (number, line) in file.text.lines().chain([""]).enumerate() {
        let said = line
            .trim_start()
            .strip_prefix("///")
            .filter(|said| !said.starts_with('/'));
        match (said, begins) {
            (Some(said), _) => {
                begins = begins.or(Some(number + 1));
                words += said.split_whitespace().count();
            }
            (None, Some(first)) => {
                if words < MIN_DOC_WORDS {
                    let place = format!("{}:{first}", file.path);
                    let message =
                        format!("a doc comment of {words} words says less than a name; say more or leave it out");
                    findings.push(RuleFinding::fault(RULE, place, message));
                }
                (begins, words) = (None, 0);
            }
            (None, None) => {}
        }
    }
    findings
}

/// The types that a text declares, each with its line. Types of a trait's implementation are named by the trait.
fn types(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().filter_map(|(number, line)| {
        let is_associated = line.starts_with(' ') && line.trim_start().starts_with("type ");
        let name = declared(line, &TYPE_KEYWORDS).filter(|_| !is_associated)?;
        Some((number + 1, name))
    })
}

/// The name that a line declares after one of the keywords.
fn declared<'l>(line: &'l str, keywords: &[&str]) -> Option<&'l str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) if rest.starts_with(' ') => rest,
        Some(_) | None => line,
    };
    let (keyword, rest) = line.trim_start().split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (keywords.contains(&keyword) && name.starts_with(char::is_uppercase)).then_some(name)
}

#[cfg(test)]
mod tests;
