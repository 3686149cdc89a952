use std::path::Path;

use super::*;

#[test]
fn a_client_is_told_of_its_own_arguments() {
    for (person, client) in [
        (
            "raise it with `--set proc.cpu_time=…` if the operator's ceiling allows, or do less at once",
            "raise it with `proc.cpu_time` in `sandbox_policy` if the operator's ceiling allows, or do less at once",
        ),
        (
            "write `keep: true` for a place: `--set 'fs.mounts=[{path: /workspace, keep: true}]'`",
            "write `keep: true` for a place: `fs.mounts: [{path: /workspace, keep: true}]` in `sandbox_policy`",
        ),
        (
            "tool servers are named in `ringfence.yaml`",
            "the operator names tool servers in `ringfence.yaml`",
        ),
        (
            "bring it in with `--file`, and run it from there",
            "bring it in by `files`, and run it from there",
        ),
        (
            "`ringfence doctor` shows what works here",
            "`ringfence doctor` shows what works here; `ringfence` commands are for the operator of this server",
        ),
        (
            "do without it, or ask the operator; `ringfence policy explain` shows why",
            "do without it, or ask the operator; `ringfence policy explain` shows why",
        ),
        ("return less", "return less"),
    ] {
        assert_eq!(for_client(person), client);
    }
}

/// Whether a text contains a flag, alone or in a command.
fn names_a_flag(text: &str) -> bool {
    ["`--", " --"].into_iter().any(|begin| {
        let mut after = text.split(begin).skip(1);
        after.any(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
    })
}

/// The texts in a source file that name a flag in backticks.
fn flagged(source: &str) -> Vec<String> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let lines = code.filter(|line| names_a_flag(line));
    let texts = lines.filter_map(|line| Some((line.find('"')?, line.rfind('"')?, line)));
    let texts = texts.filter_map(|(begin, end, line)| line.get(begin + 1..end));
    texts.map(|text| text.replace("{}=", "KEY=")).collect()
}

fn read(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            read(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && name != "tests.rs" {
            let source = std::fs::read_to_string(&path).expect("a source");
            found.extend(
                flagged(&source)
                    .into_iter()
                    .map(|text| (path.display().to_string(), text)),
            );
        }
    }
}

#[test]
fn no_hint_of_a_library_tells_a_client_of_a_flag() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the folder of crates");
    let mut found = Vec::new();
    for library in [
        "catalog", "engine", "gateway", "hygiene", "journal", "policy", "sandbox", "store",
    ] {
        read(&crates.join(library).join("src"), &mut found);
    }
    assert!(found.len() >= 5, "the texts with flags were not found: {found:?}");
    for (place, text) in found {
        // No client reads these: one is a file for the operator, the other the message of another program.
        if place.ends_with("policy/src/standing_rules.rs") || place.ends_with("credential/keyring.rs") {
            continue;
        }
        // Programs read the messages of the gateway and of the sandbox's tool interface unchanged.
        let is_read_inside = place.contains("/gateway/src/") || place.ends_with("sandbox/src/call_exchange.rs");
        assert!(
            !is_read_inside,
            "{place}: a program in a sandbox is told `{text}`; say it without a flag"
        );
        let told = for_client(&text);
        assert!(
            !names_a_flag(&told),
            "{place}: a client is told `{told}`; add its words to `WORDS`"
        );
    }
}

#[test]
fn nothing_that_the_front_doors_say_themselves_names_a_flag() {
    let mut found = Vec::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found.retain(|(place, _)| !place.ends_with("src/client_hints.rs"));
    assert_eq!(found, [], "say it in the words of a client");
}
