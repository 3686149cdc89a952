//! Words that no file of the project may contain, and the few places where they are allowed.

use super::RuleFinding;
use super::tree::{ProjectFile, ProjectTree};

const RULE: &str = "words";

struct BannedWord {
    name: &'static str,
    has: fn(&str) -> bool,
    reason: &'static str,
}

const BANNED_WORDS: [BannedWord; 8] = [
    BannedWord {
        name: "TODO",
        has: has_unnumbered_todo,
        reason: "name the issue: `TODO(#12)`",
    },
    BannedWord {
        name: "FIXME",
        has: |line| has_word(line, "FIXME"),
        reason: "mend it or open an issue",
    },
    BannedWord {
        name: "dbg!",
        has: |line| line.contains("dbg!("),
        reason: "use `tracing`",
    },
    BannedWord {
        name: "simply",
        has: |line| has_word(&line.to_lowercase(), "simply"),
        reason: "what is simple needs no word for it",
    },
    BannedWord {
        name: "#[ignore]",
        has: |line| line.trim_start().starts_with("#[ignore"),
        reason: "print `SKIPPED: reason`",
    },
    BannedWord {
        name: "registry",
        has: names_registry,
        reason: "where packages come from is the machine's business",
    },
    BannedWord {
        name: "machine path",
        has: has_machine_path,
        reason: "a path of one machine",
    },
    BannedWord {
        name: "authorship",
        has: claims_authorship,
        reason: "the project speaks of itself alone",
    },
];

const REGISTRIES: [&str; 6] = [
    "crates.io",
    "registry.npmjs.org",
    "pypi.org",
    "files.pythonhosted.org",
    "deb.debian.org",
    "static.rust-lang.org",
];

const MACHINE_PATHS: [&str; 2] = ["/work/", "/root/"];

const AUTHORSHIP: [&str; 6] = [
    "claude wrote",
    "written by claude",
    "generated with claude",
    "ai-generated",
    "llm-generated",
    "co-authored-by",
];

enum AllowedPlace {
    File(&'static str),
    Below(&'static str),
    /// Any folder with this name.
    Folder(&'static str),
    Tests,
}

/// The places where a banned word is allowed; `*` stands for every word.
const ALLOWED_USES: [(&str, AllowedPlace, &str); 12] = [
    ("*", AllowedPlace::File("xtask/src/tidy/words.rs"), "the list itself"),
    ("*", AllowedPlace::File("xtask/src/tidy/words/tests.rs"), "its cases"),
    ("*", AllowedPlace::File("LICENSE"), "not our words"),
    ("*", AllowedPlace::Folder("testdata"), "what others wrote, to be judged"),
    ("registry", AllowedPlace::File("Cargo.lock"), "cargo writes it"),
    (
        "registry",
        AllowedPlace::File("crates/testkit/peers/redact/Cargo.lock"),
        "cargo writes it",
    ),
    (
        "registry",
        AllowedPlace::Below("policies/"),
        "hosts that a policy speaks of",
    ),
    (
        "registry",
        AllowedPlace::Below("crates/policy/"),
        "hosts that a policy speaks of",
    ),
    ("registry", AllowedPlace::Tests, "hosts that a policy speaks of"),
    (
        "machine path",
        AllowedPlace::Tests,
        "the home of root, as a path in a sandbox",
    ),
    (
        "machine path",
        AllowedPlace::Below("crates/probe/"),
        "the home of root, as a path in a sandbox",
    ),
    (
        "machine path",
        AllowedPlace::Below("crates/testkit/"),
        "the home of root, as a path in a sandbox",
    ),
];

pub(super) fn check(tree: &ProjectTree) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for ban in BANNED_WORDS.iter().filter(|ban| !is_allowed(ban.name, file)) {
            for (number, _) in file.text.lines().enumerate().filter(|(_, line)| (ban.has)(line)) {
                let place = format!("{}:{}", file.path, number + 1);
                findings.push(RuleFinding::fault(
                    RULE,
                    place,
                    format!("`{}`: {}", ban.name, ban.reason),
                ));
            }
        }
    }
    findings
}

fn is_allowed(name: &str, file: &ProjectFile) -> bool {
    ALLOWED_USES
        .iter()
        .filter(|(word, ..)| *word == "*" || *word == name)
        .any(|(_, place, _)| match place {
            AllowedPlace::File(path) => file.path == *path,
            AllowedPlace::Below(folder) => file.path.starts_with(folder),
            AllowedPlace::Folder(name) => file.parts().any(|part| part == *name),
            AllowedPlace::Tests => file.is_test(),
        })
}

fn in_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn has_word(line: &str, wanted: &str) -> bool {
    line.split(|c| !in_word(c)).any(|found| found == wanted)
}

/// Whether the word is there without the number of an issue after it.
fn has_unnumbered_todo(line: &str) -> bool {
    has_word(line, "TODO")
        && line.match_indices("TODO").any(|(at, found)| {
            let after = line[at + found.len()..].trim_start_matches(['(', ' ', ':']);
            !after
                .strip_prefix('#')
                .is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
        })
}

fn names_registry(line: &str) -> bool {
    REGISTRIES.iter().any(|host| line.contains(host))
}

/// Whether the path is there as an absolute one: after a letter it is the middle of another.
fn has_machine_path(line: &str) -> bool {
    let absolute = |at: usize| !line[..at].ends_with(|c: char| in_word(c) || "./-*}$>".contains(c));
    MACHINE_PATHS
        .iter()
        .any(|path| line.match_indices(path).any(|(at, _)| absolute(at)))
}

/// Whether the line claims an author. In quotes, as the role of a message, the last word names a thing; elsewhere it names somebody.
fn claims_authorship(line: &str) -> bool {
    let line = line.to_lowercase();
    let role = line
        .replace("\"assistant\"", "")
        .replace("'assistant'", "")
        .replace("`assistant`", "");
    AUTHORSHIP.iter().any(|words| line.contains(words)) || has_word(&role, "assistant")
}

#[cfg(test)]
mod tests;
