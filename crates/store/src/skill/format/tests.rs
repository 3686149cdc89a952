use serde_json::json;

use super::*;

fn meta() -> SkillMeta {
    SkillMeta::new(
        SkillName::parse("monthly-report").unwrap(),
        "Adds up orders.",
        SkillLanguage::TypeScript,
    )
}

#[track_caller]
fn refused(text: &str, part: &str) {
    let error = read_skill_md(text, SkillLanguage::TypeScript).unwrap_err().to_string();
    assert!(error.contains(part), "{text:?}: {error}");
}

#[test]
fn a_skill_is_written_so_that_other_programs_read_it() {
    let mut meta = meta();
    meta.tools.push(RequiredTool {
        name: "crm.list_orders".to_owned(),
        digest: "0".repeat(64),
    });
    meta.inputs = Some(json!({"type": "object"}));
    meta.extra.keys.insert("license".to_owned(), "Apache-2.0".into());
    meta.extra.metadata.insert("author".to_owned(), "example".into());
    meta.extra.text = "\n# How\n\nCall it.\n".to_owned();
    let digest = "0".repeat(64);
    let expected = format!(
        r#"---
name: monthly-report
description: "Adds up orders."
license: "Apache-2.0"
metadata:
  author: "example"
  ringfence-language: "typescript"
  ringfence-tools: "[{{\"name\":\"crm.list_orders\",\"digest\":\"{digest}\"}}]"
  ringfence-inputs: "{{\"type\":\"object\"}}"
---

# How

Call it.
"#
    );
    assert_eq!(write_skill_md(&meta).unwrap(), expected);
}

#[test]
fn whatever_is_written_reads_back_as_the_same() {
    let odd =
        "q\" \\ : # - 'x' {a: b}, [c] & * ! | > % @ ` \u{7f}\u{85}\u{2028}\u{2029}\u{feff}\u{fffe} ü 😀 \n\t---\n...";
    let mut meta = meta();
    meta.description = odd.replace(['\u{7f}', '\u{85}'], "");
    meta.inputs = Some(json!({"description": odd, "default": [1, 2.5, null, true, "null", "1"]}));
    for key in ["true", "1", "a b", "", "- x", "null", "é", "no"] {
        meta.extra
            .keys
            .insert(key.to_owned(), json!({"a": [odd, {"b": key}], "n": 1}));
        meta.extra.metadata.insert(key.to_owned(), odd.into());
    }
    meta.extra.text = format!("no newline {odd}\n---\n");
    let text = write_skill_md(&meta).unwrap();
    assert_eq!(read_skill_md(&text, SkillLanguage::TypeScript).unwrap(), meta);
}

#[test]
fn a_skill_of_another_program_is_read_with_all_that_it_says() {
    let text = "\u{feff}---\r\nname: pdf-processing\r\ndescription: >\r\n  Extracts text.\r\n  Use it for PDF.\r\nlicense: Apache-2.0\r\n\
compatibility: Needs git\r\nallowed-tools: Bash(git:*) Read\r\nmetadata:\r\n  author: org\r\n  version: \"1.0\"\r\nnew-key: [1, 2]\r\n---\r\n# PDF\r\n";
    let meta = read_skill_md(text, SkillLanguage::Python).unwrap();
    assert_eq!(meta.name.as_str(), "pdf-processing");
    assert_eq!(meta.description, "Extracts text. Use it for PDF.");
    let keys: Vec<&str> = meta.extra.keys.keys().map(String::as_str).collect();
    assert_eq!(keys, ["allowed-tools", "compatibility", "license", "new-key"]);
    assert_eq!(meta.extra.metadata["version"], "1.0");
    assert_eq!(meta.extra.text, "# PDF\r\n");
    assert_eq!(
        read_skill_md(&write_skill_md(&meta).unwrap(), SkillLanguage::Python).unwrap(),
        meta
    );
}

#[test]
fn our_keys_may_be_written_out_by_hand() {
    let text = "---\nname: a\ndescription: b\nmetadata:\n  ringfence-inputs:\n    type: object\n---\n";
    let meta = read_skill_md(text, SkillLanguage::Shell).unwrap();
    assert_eq!(meta.inputs, Some(json!({"type": "object"})));
}

#[test]
fn what_is_no_skill_is_refused_with_the_key() {
    refused("", "begins with a line `---`");
    refused("# Skill", "begins with a line `---`");
    refused("---\nname: a\n", "closing line");
    refused("---\n---\n", "`name`");
    refused("---\nname: a\n---\n", "`description`");
    refused("---\nname: 7\ndescription: b\n---\n", "quotes");
    refused("---\nname: A b\ndescription: b\n---\n", "lower-case");
    refused("---\nname: a\ndescription: \"\"\n---\n", "1 to 1024");
    refused(
        &format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1025)),
        "1 to 1024",
    );
    refused("---\nname: a\ndescription: \"\\u001b[31m\"\n---\n", "control character");
    refused("---\nname: a\ndescription: b\nmetadata: [1]\n---\n", "expected a map");
    refused("---\nname: a\nname: b\ndescription: b\n---\n", "name");
    let ours = |line: &str| format!("---\nname: a\ndescription: b\nmetadata:\n  {line}\n---\n");
    refused(&ours("ringfence-language: python"), "program.ts");
    refused(&ours("ringfence-inputs: '[1]'"), "`inputs`");
    refused(&ours("ringfence-inputs: '{'"), "ringfence-inputs");
    refused(
        &ours("ringfence-tools: '[{\"name\":\"x\",\"digest\":\"y\"}]'"),
        "`tools`",
    );
    refused(&ours("ringfence-tools: '[{\"name\":\"a.b\"}]'"), "digest");
    refused(&ours("ringfence-policy: 7"), "expected text");
    refused(&format!("---\nname: a\n{}", "# x\n".repeat(100_000)), "no end within");
}

#[test]
fn front_matter_that_grows_when_read_is_refused() {
    let mut bomb = String::from("---\nname: a\ndescription: b\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for n in 1..12 {
        let line = format!("*a{},", n - 1).repeat(10);
        writeln!(bomb, "a{n}: &a{n} [{line}]").unwrap();
    }
    bomb.push_str("---\n");
    assert!(read_skill_md(&bomb, SkillLanguage::Python).is_err());
    let deep = format!("---\nname: a\ndescription: b\nx: {}\n---\n", "[".repeat(100_000));
    assert!(read_skill_md(&deep, SkillLanguage::Python).is_err());
}
