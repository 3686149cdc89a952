use std::path::Path;

use super::*;

/// Words of the MCP tools and the JSON API that are useless to a person at a terminal.
const OF_CLIENTS: [&str; 10] = [
    "`session_id`",
    "`execution_id`",
    "`sandbox_policy`",
    "`yolo_level`",
    "wait_run",
    "sandboxed_code_run",
    "search_tools",
    "describe_tools",
    "save_skill",
    "/api/v1",
];

#[test]
fn a_person_is_told_of_flags() {
    for (client, person) in [
        (
            "choose a short name such as `work`, or leave `session_id` out",
            "choose a short name such as `work`, or leave `--session` out",
        ),
        (
            "tool servers are named in `ringfence.yaml`",
            "name tool servers with `--servers` or in `ringfence.yaml`",
        ),
        ("return less", "return less"),
    ] {
        assert_eq!(for_terminal(client), person);
    }
}

/// Collects the string literals in sources that contain such a word.
fn read(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            read(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && name != "tests.rs" {
            let source = std::fs::read_to_string(&path).expect("a source");
            let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
            let texts = code.filter_map(|line| line.get(line.find('"')? + 1..line.rfind('"')?));
            let told = texts.filter(|text| OF_CLIENTS.iter().any(|word| text.contains(word)));
            found.extend(told.map(|text| (path.display().to_string(), text.to_owned())));
        }
    }
}

#[test]
fn no_hint_of_a_library_tells_a_person_of_an_argument_of_clients() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the folder of crates");
    let mut found = Vec::new();
    for library in [
        "catalog", "cli", "engine", "gateway", "hygiene", "journal", "policy", "sandbox", "store",
    ] {
        read(&crates.join(library).join("src"), &mut found);
    }
    // The addresses that `serve` prints are for a person who connects a client.
    found.retain(|(place, _)| !place.ends_with("print/hint.rs") && !place.ends_with("commands/serve.rs"));
    assert!(found.len() >= 4, "the texts with such words were not found: {found:?}");
    for (place, text) in found {
        let told = for_terminal(&text);
        let left = OF_CLIENTS.iter().find(|word| told.contains(**word));
        assert_eq!(
            left, None,
            "{place}: a person is told `{told}`; add its words to `WORDS`"
        );
    }
}
