//! Words that no file of the project may contain, and the few places where they are allowed.

use super::Finding;
use super::tree::{File, Tree};

const RULE: &str = "words";

struct Ban {
    name: &'static str,
    has: fn(&str) -> bool,
    reason: &'static str,
}

const BANS: [Ban; 8] = [
    Ban {
        name: "TODO",
        has: open_end,
        reason: "name the issue: `TODO(#12)`",
    },
    Ban {
        name: "FIXME",
        has: |line| word(line, "FIXME"),
        reason: "mend it or open an issue",
    },
    Ban {
        name: "dbg!",
        has: |line| line.contains("dbg!("),
        reason: "use `tracing`",
    },
    Ban {
        name: "simply",
        has: |line| word(&line.to_lowercase(), "simply"),
        reason: "what is simple needs no word for it",
    },
    Ban {
        name: "#[ignore]",
        has: |line| line.trim_start().starts_with("#[ignore"),
        reason: "print `SKIPPED: reason`",
    },
    Ban {
        name: "registry",
        has: registry,
        reason: "where packages come from is the machine's business",
    },
    Ban {
        name: "machine path",
        has: machine_path,
        reason: "a path of one machine",
    },
    Ban {
        name: "authorship",
        has: authorship,
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

enum Place {
    File(&'static str),
    Below(&'static str),
    /// Any folder with this name.
    Folder(&'static str),
    Tests,
}

/// The places where a banned word is allowed; `*` stands for every word.
const MEANT: [(&str, Place, &str); 12] = [
    ("*", Place::File("xtask/src/tidy/words.rs"), "the list itself"),
    ("*", Place::File("xtask/src/tidy/words/tests.rs"), "its cases"),
    ("*", Place::File("LICENSE"), "not our words"),
    ("*", Place::Folder("testdata"), "what others wrote, to be judged"),
    ("registry", Place::File("Cargo.lock"), "cargo writes it"),
    (
        "registry",
        Place::File("crates/testkit/peers/redact/Cargo.lock"),
        "cargo writes it",
    ),
    ("registry", Place::Below("policies/"), "hosts that a policy speaks of"),
    (
        "registry",
        Place::Below("crates/policy/"),
        "hosts that a policy speaks of",
    ),
    ("registry", Place::Tests, "hosts that a policy speaks of"),
    ("machine path", Place::Tests, "the home of root, as a path in a sandbox"),
    (
        "machine path",
        Place::Below("crates/probe/"),
        "the home of root, as a path in a sandbox",
    ),
    (
        "machine path",
        Place::Below("crates/testkit/"),
        "the home of root, as a path in a sandbox",
    ),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for ban in BANS.iter().filter(|ban| !is_meant(ban.name, file)) {
            for (number, _) in file.text.lines().enumerate().filter(|(_, line)| (ban.has)(line)) {
                let place = format!("{}:{}", file.path, number + 1);
                findings.push(Finding::fault(RULE, place, format!("`{}`: {}", ban.name, ban.reason)));
            }
        }
    }
    findings
}

fn is_meant(name: &str, file: &File) -> bool {
    MEANT
        .iter()
        .filter(|(word, ..)| *word == "*" || *word == name)
        .any(|(_, place, _)| match place {
            Place::File(path) => file.path == *path,
            Place::Below(folder) => file.path.starts_with(folder),
            Place::Folder(name) => file.parts().any(|part| part == *name),
            Place::Tests => file.is_test(),
        })
}

fn in_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn word(line: &str, wanted: &str) -> bool {
    line.split(|c| !in_word(c)).any(|found| found == wanted)
}

/// Whether the word is there without the number of an issue after it.
fn open_end(line: &str) -> bool {
    word(line, "TODO")
        && line.match_indices("TODO").any(|(at, found)| {
            let after = line[at + found.len()..].trim_start_matches(['(', ' ', ':']);
            !after
                .strip_prefix('#')
                .is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
        })
}

fn registry(line: &str) -> bool {
    REGISTRIES.iter().any(|host| line.contains(host))
}

/// Whether the path is there as an absolute one: after a letter it is the middle of another.
fn machine_path(line: &str) -> bool {
    let absolute = |at: usize| !line[..at].ends_with(|c: char| in_word(c) || "./-*}$>".contains(c));
    MACHINE_PATHS
        .iter()
        .any(|path| line.match_indices(path).any(|(at, _)| absolute(at)))
}

/// Whether the line claims an author. In quotes, as the role of a message, the last word names a thing; elsewhere it names somebody.
fn authorship(line: &str) -> bool {
    let line = line.to_lowercase();
    let role = line
        .replace("\"assistant\"", "")
        .replace("'assistant'", "")
        .replace("`assistant`", "");
    AUTHORSHIP.iter().any(|words| line.contains(words)) || word(&role, "assistant")
}

#[cfg(test)]
mod tests;
