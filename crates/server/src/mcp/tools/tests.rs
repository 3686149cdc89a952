use ringfence_catalog::tokens;
use ringfence_policy::AllowedPrograms;
use serde_json::{Value, json};

use super::{TOOLS, all_definitions, find_tool, instructions};

/// The tokens that a model pays for the tools, and the further tokens if its client also shows output schemas.
fn price() -> (usize, usize) {
    let listed = all_definitions(AllowedPrograms::All).into_iter().map(|tool| {
        let tool = serde_json::to_value(tool).unwrap();
        let input =
            json!({ "name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"] });
        (
            tokens::count_tokens(&input.to_string()),
            tokens::count_tokens(&tool["outputSchema"].to_string()),
        )
    });
    listed.fold((0, 0), |sum, (input, output)| (sum.0 + input, sum.1 + output))
}

/// The limit is below 1,500 each, because later tools need some of it.
#[test]
fn all_tools_together_cost_little() {
    let (input, output) = price();
    println!("{input} tokens for names, descriptions and input schemas, {output} for output schemas");
    assert!(input <= 1_070, "{input}");
    assert!(output <= 1_010, "{output}");
}

#[test]
fn every_name_leads_to_its_own_tool() {
    for tool in TOOLS {
        for name in [Some(tool.name), tool.alias].into_iter().flatten() {
            assert_eq!(find_tool(name).unwrap().name, tool.name);
        }
    }
    assert_eq!(find_tool("sandboxed_code.run").unwrap().name, "sandboxed_code_run");
    assert!(find_tool("run").is_none());
}

#[test]
fn every_schema_is_one_of_json_schema_2020_12() {
    for tool in all_definitions(AllowedPrograms::All) {
        for schema in [Some(&tool.input_schema), tool.output_schema.as_ref()] {
            let schema = Value::Object(schema.unwrap().as_ref().clone());
            assert!(
                jsonschema::draft202012::meta::is_valid(&schema),
                "{}: {schema}",
                tool.name
            );
            assert_eq!(schema["type"], "object");
        }
        assert!(tool.title.is_some() && tool.annotations.is_some(), "{}", tool.name);
    }
}

#[test]
fn what_a_policy_does_not_run_is_not_recommended() {
    let told = |programs| json!([all_definitions(programs), instructions(programs)]).to_string();
    let (all, none) = (told(AllowedPrograms::All), told(AllowedPrograms::None));
    for word in ["language shell", "\"shell\"", "\"bash\""] {
        assert!(all.contains(word) && !none.contains(word), "{word}");
    }
    assert!(none.contains("There is no shell"), "{none}");
}
