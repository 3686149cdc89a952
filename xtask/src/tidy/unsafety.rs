//! Where `unsafe` is allowed, and that every block has its proof above it.

use super::RuleFinding;
use super::code::blank_non_code;
use super::tree::ProjectTree;

const RULE: &str = "unsafe";

/// The only allowed place: the module that calls the kernel.
const UNSAFE_PATHS: [&str; 2] = ["crates/jail/src/sys.rs", "crates/jail/src/sys/"];

pub(super) fn check(tree: &ProjectTree) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let text: Vec<_> = file.text.lines().collect();
        let code = blank_non_code(&file.text);
        let code: Vec<_> = code.lines().collect();
        for (number, line) in code.iter().enumerate().filter(|(_, line)| has_word(line, "unsafe")) {
            let place = format!("{}:{}", file.path, number + 1);
            if !UNSAFE_PATHS.iter().any(|home| file.path.starts_with(home)) {
                findings.push(RuleFinding::fault(RULE, place, "`unsafe` outside crates/jail/src/sys/"));
            } else if opens_block(line) && !is_proved(&text[..number], &code[..number]) {
                findings.push(RuleFinding::fault(
                    RULE,
                    place,
                    "no `// SAFETY:` comment above this block",
                ));
            }
        }
    }
    findings
}

fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c == '_' || c.is_alphanumeric();
    line.split(|c: char| !part(c)).any(|found| found == word)
}

fn opens_block(line: &str) -> bool {
    line.split("unsafe")
        .skip(1)
        .any(|rest| rest.trim_start().starts_with('{'))
}

/// Searches upwards to the beginning of the statement, and for a proof in the comment above it.
fn is_proved(text: &[&str], code: &[&str]) -> bool {
    for (line, bare) in text.iter().zip(code).rev() {
        let line = line.trim();
        if line.starts_with("//") {
            if line.contains("SAFETY:") {
                return true;
            }
        } else if line.is_empty() || bare.trim_end().ends_with([';', '{', '}']) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
