//! How long a file may be. Tests do not count.

use super::RuleFinding;
use super::tree::{ProjectFile, ProjectTree};

const RULE: &str = "sizes";

const SOURCE_EXTENSIONS: [&str; 4] = ["rs", "ts", "tsx", "py"];
/// Lines above which a file gets a notice.
const NOTICE_LINES: usize = 400;
/// Lines that a file has at most.
const MAX_LINES: usize = 600;
const MAX_MAIN_LINES: usize = 60;

pub(super) fn check(tree: &ProjectTree) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for file in tree.files().iter().filter(|file| is_measured(file)) {
        let lines = file.text.lines().count();
        if file.name() == "main.rs" && lines > MAX_MAIN_LINES {
            let message = format!("{lines} lines; a `main.rs` has at most {MAX_MAIN_LINES}");
            findings.push(RuleFinding::fault(RULE, &file.path, message));
        }
        if lines > MAX_LINES {
            let message = format!("{lines} lines; at most {MAX_LINES}, split it by idea");
            findings.push(RuleFinding::fault(RULE, &file.path, message));
        } else if lines > NOTICE_LINES {
            let message = format!("{lines} lines; over {NOTICE_LINES}, does it hold two ideas?");
            findings.push(RuleFinding::notice(RULE, &file.path, message));
        }
    }
    findings
}

fn is_measured(file: &ProjectFile) -> bool {
    SOURCE_EXTENSIONS.contains(&file.extension()) && !file.is_test() && !file.parts().any(|part| part == "testdata")
}

#[cfg(test)]
mod tests;
