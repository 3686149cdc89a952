//! How long a file may be. Tests do not count.

use super::Finding;
use super::tree::{File, Tree};

const RULE: &str = "sizes";

const SOURCE: [&str; 4] = ["rs", "ts", "tsx", "py"];
/// Lines above which a file gets a notice.
const THOUGHT: usize = 400;
/// Lines that a file has at most.
const MOST: usize = 600;
const MAIN: usize = 60;
/// Lines of all files of the engine: it only calls other crates, and has no algorithm.
const ENGINE: usize = 13_800;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut engine = 0;
    for file in tree.files().iter().filter(|file| counts(file)) {
        let lines = file.text.lines().count();
        if file.member() == Some("engine") {
            engine += lines;
        }
        if file.name() == "main.rs" && lines > MAIN {
            let message = format!("{lines} lines; a `main.rs` has at most {MAIN}");
            findings.push(Finding::fault(RULE, &file.path, message));
        }
        if lines > MOST {
            let message = format!("{lines} lines; at most {MOST}, split it by idea");
            findings.push(Finding::fault(RULE, &file.path, message));
        } else if lines > THOUGHT {
            let message = format!("{lines} lines; over {THOUGHT}, does it hold two ideas?");
            findings.push(Finding::notice(RULE, &file.path, message));
        }
    }
    if engine > ENGINE {
        let message = format!("{engine} lines in all; the conductor has at most {ENGINE}");
        findings.push(Finding::fault(RULE, "crates/engine", message));
    }
    findings
}

fn counts(file: &File) -> bool {
    SOURCE.contains(&file.extension()) && !file.is_test() && !file.parts().any(|part| part == "testdata")
}

#[cfg(test)]
mod tests;
