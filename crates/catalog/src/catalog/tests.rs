use serde_json::json;

use ringfence_policy::ToolName;

use super::{Catalog, MAX_TOOL_NAME_BYTES, canonical_name, identifier};
use crate::tool::{ServerHints, ServerListing, ToolDefinition};

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: String::new(),
        input: json!({"type": "object"}),
        output: None,
        hints: ServerHints::default(),
        tags: Vec::new(),
    }
}

fn catalog(server: &str, names: &[&str]) -> Catalog {
    Catalog::new([ServerListing {
        server: server.to_owned(),
        description: String::new(),
        tools: names.iter().map(|name| tool(name)).collect(),
    }])
}

#[test]
fn hostile_names_become_canonical_and_distinct() {
    let names = [
        "",
        "a b",
        "a_b",
        "a\u{0}b",
        "x.*",
        "日本",
        "..",
        "delete",
        "class",
        "__proto__",
        &"x".repeat(5000),
    ];
    let catalog = catalog("my server.v1", &names);
    assert_eq!(catalog.tools().len(), names.len());
    let idents: std::collections::BTreeSet<_> = catalog.tools().iter().map(|tool| tool.ident.as_str()).collect();
    assert_eq!(idents.len(), names.len());
    for tool in catalog.tools() {
        assert!(tool.name.as_str().starts_with("my_server_v1."), "{}", tool.name);
        assert!(tool.ident.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    }
}

#[test]
fn a_tool_answers_to_each_of_its_spellings() {
    let catalog = catalog("git-hub", &["list-issues", "a.b"]);
    for (server, tool) in [
        ("git-hub", "list-issues"),
        ("git_hub", "list_issues"),
        ("git-hub", "list_issues"),
    ] {
        let found = catalog.resolve(server, tool).map(|tool| tool.name.as_str());
        assert_eq!(found, Some("git-hub.list-issues"));
    }
    assert_eq!(
        catalog.resolve("git_hub", "a_b").map(crate::tool::Tool::short_name),
        Some("a.b")
    );
    assert!(catalog.resolve("git-hub", "nothing").is_none());
}

#[test]
fn a_name_that_is_an_identifier_keeps_it() {
    let catalog = catalog("s", &["list-issues", "list_issues", "list_issues_2"]);
    for tool in catalog.tools() {
        let found = catalog.resolve("s", &tool.ident).map(|tool| tool.name.as_str());
        assert_eq!(found, Some(tool.name.as_str()), "what stubs declare is what is called");
    }
    assert_eq!(
        catalog.get("s.list_issues").map(|tool| tool.ident.as_str()),
        Some("list_issues")
    );
    assert_eq!(
        catalog.get("s.list-issues").map(|tool| tool.ident.as_str()),
        Some("list_issues_3")
    );
}

#[test]
fn reserved_words_are_no_identifiers() {
    assert_eq!(identifier("delete"), "delete_");
    assert_eq!(identifier("then"), "then_");
    assert_eq!(identifier("1st"), "_1st");
    assert_eq!(identifier("__init__"), "x__init___");
}

#[test]
fn no_name_has_a_character_that_nobody_sees() {
    for (said, shown) in [
        ("read\u{202e}elif", "read_elif"),
        ("\u{2066}send\u{2069}", "_send_"),
        ("re\u{200b}ad", "re_ad"),
        ("re\u{2800}ad", "re_ad"),
        ("re\u{3164}ad", "re_ad"),
        ("re\u{115f}\u{1160}\u{ffa0}ad", "re___ad"),
        ("x\u{e0041}", "x_"),
        ("a\u{1b}[31m", "a_[31m"),
    ] {
        assert_eq!(canonical_name(said, MAX_TOOL_NAME_BYTES, false), shown);
        assert!(format!("git.{said}").parse::<ToolName>().is_err(), "{said:?}");
    }
}
