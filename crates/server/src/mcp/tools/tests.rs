use ringfence_catalog::tokens;
use ringfence_policy::AllowedPrograms;
use serde_json::{Value, json};

use super::{
    DESCRIBE_ARGUMENTS, LIST_ARGUMENTS, LIST_SKILLS_ARGUMENTS, RUN_ARGUMENTS, SAVE_ARGUMENTS, SEARCH_ARGUMENTS,
    WAIT_ARGUMENTS, all_tools, instructions,
};

/// The tokens that a model pays for the tools, and the further tokens if its client also shows output schemas.
fn price() -> (usize, usize) {
    let listed = all_tools(AllowedPrograms::All).into_iter().map(|tool| {
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
fn what_is_taken_is_what_the_schema_says() {
    let takes = [
        SEARCH_ARGUMENTS,
        LIST_ARGUMENTS,
        DESCRIBE_ARGUMENTS,
        RUN_ARGUMENTS,
        WAIT_ARGUMENTS,
        SAVE_ARGUMENTS,
        LIST_SKILLS_ARGUMENTS,
    ];
    for (tool, takes) in all_tools(AllowedPrograms::All).iter().zip(takes) {
        let properties = tool.input_schema["properties"].as_object().unwrap();
        let mut takes = takes.to_vec();
        takes.sort_unstable();
        let mut names: Vec<_> = properties.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, takes, "{}", tool.name);
    }
}

#[test]
fn every_schema_is_one_of_json_schema_2020_12() {
    for tool in all_tools(AllowedPrograms::All) {
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
    let told = |programs| json!([all_tools(programs), instructions(programs)]).to_string();
    let (all, none) = (told(AllowedPrograms::All), told(AllowedPrograms::None));
    for word in ["language shell", "\"shell\"", "\"bash\""] {
        assert!(all.contains(word) && !none.contains(word), "{word}");
    }
    assert!(none.contains("There is no shell"), "{none}");
}
