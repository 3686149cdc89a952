use proptest::prelude::*;

use super::*;
use crate::RuleEffect;

#[test]
fn refusals_name_the_place_the_key_and_the_way_out() {
    let table = include_str!("../../testdata/refused.tsv");
    let lines: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() > 40);
    for line in lines {
        let (document, expected) = line.split_once('\t').unwrap();
        let document: String = serde_json::from_str(document).unwrap();
        match Draft::parse(&document, "policy.yaml") {
            Ok(draft) => panic!("accepted {document:?} as {draft:?}"),
            Err(error) => assert_eq!(error.to_string(), expected, "{document:?}"),
        }
    }
}

#[test]
fn the_whole_file_of_the_contract_parses() {
    let draft = Draft::parse(include_str!("../../testdata/contract.yaml"), "contract").unwrap();
    assert_eq!(draft.check_examples(), Ok(()));
    let tools = draft.tools.as_ref().unwrap();
    assert_eq!(tools.rules.len(), 6);
    assert_eq!(tools.drift, Some(RuleEffect::Ask));
    assert_eq!(draft.net.as_ref().unwrap().allowlist.len(), 2);
    let json = serde_json::to_string(&draft).unwrap();
    assert_eq!(Draft::parse(&json, "contract"), Ok(draft));
}

#[test]
fn json_is_read_too_also_with_tabs() {
    let json = "{\n\t\"version\": 1,\n\t\"proc\": {\n\t\t\"mem_limit\": \"1GiB\",\n\t\t\"cpu_quota\": 0.5\n\t}\n}\n";
    let yaml = "version: 1\nproc: { mem_limit: 1GiB, cpu_quota: 0.5 }\n";
    assert_eq!(Draft::parse(json, "x"), Draft::parse(yaml, "x"));
    assert!(Draft::parse(json, "x").is_ok());
}

#[test]
fn json_strings_are_read_as_json_has_them() {
    for (json, value) in [
        (r#"{"env": {"A": "\ud83d\ude00\/\u007f"}}"#, "\u{1f600}/\u{7f}"),
        ("{\"env\": {\"A\": \"x\u{7f}\u{85}\u{2028}\"}}", "x\u{7f}\u{85}\u{2028}"),
    ] {
        let env = Draft::parse(json, "x").unwrap().env.unwrap();
        assert_eq!(env["A"], value);
    }
    let twice = "{\"env\": {\"A\": \"\u{7f}\", \"A\": \"b\"}}";
    assert!(Draft::parse(twice, "x").is_err());
    assert!(Draft::parse("{\"env\": {\"A\": \"\u{7f}\"}, \"x\": 1}", "x").is_err());
}

#[test]
fn an_empty_document_asks_for_nothing() {
    for text in ["", "# only a comment\n", "---\n", "{}", "fs:\nnet:\nexamples:\n"] {
        assert_eq!(Draft::parse(text, ""), Ok(Draft::empty()), "{text:?}");
    }
}

#[test]
fn huge_and_explosive_documents_are_refused() {
    let huge = format!("# {}\n", "x".repeat(MAX_DOCUMENT_BYTES));
    let error = Draft::parse(&huge, "big.yaml").unwrap_err().to_string();
    assert_eq!(error, "big.yaml: the document has 1048579 bytes, the most is 1048576");
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        let list = vec![alias; 9].join(", ");
        bomb = format!("{bomb}a{level}: &a{level} [{list}]\n");
    }
    assert!(Draft::parse(&bomb, "bomb.yaml").is_err());
    let deep = format!("a: {}{}", "[".repeat(20_000), "]".repeat(20_000));
    assert!(Draft::parse(&deep, "deep.yaml").is_err());
    let wide = format!("fs: {{ deny: [{}] }}", "a,".repeat(300_000));
    assert!(Draft::parse(&wide, "wide.yaml").is_err());
}

#[test]
fn setting_a_key_replaces_scalars_and_adds_to_lists() {
    let draft = Draft::builtin();
    let set = draft.set("proc.mem_limit", "1GiB").unwrap();
    assert_eq!(set.proc.as_ref().unwrap().mem_limit, Some(crate::ByteSize::gib(1)));
    assert_eq!(set.proc.unwrap().fork_limit, draft.proc.as_ref().unwrap().fork_limit);
    let set = draft.set("fs.deny", "['**/secret']").unwrap();
    assert_eq!(set.fs.unwrap().deny.len(), draft.fs.as_ref().unwrap().deny.len() + 1);
    let set = draft.set("env.FOO", "bar").unwrap();
    let env: Vec<(String, String)> = set.env.unwrap().into_iter().collect();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(env, [pair("FOO", "bar"), pair("LANG", "C.UTF-8")]);
    assert_eq!(set.name, "default");
    for (key, value, expected) in [
        (
            "proc.mem_limt",
            "1GiB",
            "--set proc.mem_limt: unknown key `proc.mem_limt`, did you mean `mem_limit`?",
        ),
        ("", "x", "--set : `` is not a key, write it like `proc.mem_limit=1GiB`"),
        (
            "proc..x",
            "1",
            "--set proc..x: `proc..x` is not a key, write it like `proc.mem_limit=1GiB`",
        ),
        ("proc", "5", "--set proc:1:1: `proc`: expected keys with values"),
        ("proc.mem_limit", "[", "--set proc.mem_limit:1:1: unclosed bracket '['"),
    ] {
        assert_eq!(draft.set(key, value).unwrap_err().to_string(), expected);
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "\\PC{0,80}") {
        let _ = Draft::parse(&text, "x");
    }

    #[test]
    fn parsing_near_documents_never_panics(text in "(fs|net|proc|tools|env|: |\\[|\\]|\\{|\\}|,|allow|\n|  |- |1GiB|\\*|&a|\"){0,30}") {
        let _ = Draft::parse(&text, "x");
    }
}

#[test]
fn a_list_that_is_too_long_is_refused_by_its_key() {
    let globs = |count: usize| {
        let globs: Vec<String> = (0..count).map(|number| format!("**/secret-{number}")).collect();
        serde_json::json!({ "fs": { "deny": globs } }).to_string()
    };
    assert!(Draft::parse(&globs(1_000), "p").is_ok());
    let error = Draft::parse(&globs(40_000), "p").unwrap_err();
    assert_eq!(
        error.to_string(),
        "p: `fs.deny` has 40000 entries, the most is 1000, write fewer, with wildcards"
    );
    let mounts: Vec<_> = (0..65)
        .map(|number| serde_json::json!({ "path": format!("/m{number}"), "access": "ro", "from": "." }))
        .collect();
    let text = serde_json::json!({ "fs": { "mounts": mounts } }).to_string();
    assert!(
        Draft::parse(&text, "p")
            .unwrap_err()
            .message
            .contains("`fs.mounts` has 65 entries")
    );
    let rules = vec![serde_json::json!({ "deny": "a.b" }); 4_097];
    let text = serde_json::json!({ "tools": { "rules": rules } }).to_string();
    assert!(Draft::parse(&text, "p").unwrap_err().message.contains("`tools.rules`"));
}
