use ringfence_catalog::{ServerHints, ServerListing, ToolDefinition};
use ringfence_policy::{Ceiling, Draft};
use serde_json::json;

use super::*;

fn catalog() -> Catalog {
    let server = |name: &str, tools: &[&str]| ServerListing {
        server: name.to_owned(),
        description: String::new(),
        tools: tools
            .iter()
            .map(|tool| ToolDefinition {
                name: (*tool).to_owned(),
                title: None,
                description: String::new(),
                input: json!({ "type": "object" }),
                output: None,
                hints: ServerHints::default(),
                tags: Vec::new(),
            })
            .collect(),
    };
    Catalog::new([
        server("git-hub", &["list_issues", "get_issue", "search"]),
        server("mail", &["send", "search"]),
    ])
}

#[track_caller]
fn check(source: &str, tools: &[&str]) {
    let policy = Draft::builtin()
        .set("tools.rules", "[{ allow: \"git-hub.*\" }, { allow: \"mail.s*\" }]")
        .map(|draft| draft.under(&Ceiling::unlimited()).unwrap())
        .unwrap();
    let found = named_tools(source, &catalog(), &policy);
    let names: Vec<&str> = found.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, tools, "{source}");
    assert!(found.iter().all(|tool| tool.digest.len() == 64));
}

#[test]
fn a_program_needs_the_tools_that_it_names() {
    check("1 + 1", &[]);
    check("await tools.git_hub.list_issues({})", &["git-hub.list_issues"]);
    check(
        "from tools import git_hub as g\nawait g.get_issue(id=1)",
        &["git-hub.get_issue"],
    );
    check("tools.git_hub.list_issues_of", &[]);
    check("my_tools.git_hubs.list_issues()", &[]);
    check(
        "tools.mail.search({}); tools.git_hub.get_issue({})",
        &["git-hub.get_issue", "mail.search"],
    );
    // The name is ambiguous.
    check("from tools import git_hub as g, mail as m\nm.search()", &[]);
}
