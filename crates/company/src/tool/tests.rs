//! Checks the tools as a client sees them.

use serde_json::Value;

use super::{all_tools, definitions};

#[test]
fn there_are_a_few_hundred_tools_each_with_its_own_name() {
    let names: std::collections::BTreeSet<_> = all_tools().iter().map(|tool| &tool.name).collect();
    assert_eq!(names.len(), all_tools().len());
    assert!((280..=340).contains(&names.len()), "{}", names.len());
}

#[test]
fn no_tool_has_two_arguments_of_one_name() {
    for tool in all_tools() {
        let params = tool.params();
        let names: std::collections::BTreeSet<_> = params.iter().map(|param| &param.name).collect();
        assert_eq!(names.len(), params.len(), "{}", tool.name);
    }
}

#[test]
fn every_schema_is_a_schema() {
    for tool in definitions() {
        for side in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[side]["type"], "object", "{}", tool["name"]);
            assert!(jsonschema::meta::is_valid(&tool[side]), "{}", tool["name"]);
            jsonschema::validator_for(&tool[side]).unwrap();
        }
        described(&tool["inputSchema"], &tool["name"]);
    }
}

/// Checks that every property of a schema has a description.
fn described(schema: &Value, name: &Value) {
    for (key, property) in schema["properties"].as_object().unwrap() {
        assert!(
            property["description"].as_str().is_some_and(|text| text.len() > 3),
            "{name}: {key}"
        );
    }
}

#[test]
fn hints_say_what_reads_and_what_destroys() {
    for tool in definitions() {
        let name = tool["name"].as_str().unwrap();
        let hints = &tool["annotations"];
        let reads = ["list_", "get_", "search_", "count_", "export_"]
            .iter()
            .any(|verb| name.starts_with(verb));
        assert_eq!(hints["readOnlyHint"], reads, "{name}");
        assert_eq!(hints["destructiveHint"] == true, name.starts_with("delete_"), "{name}");
    }
}
