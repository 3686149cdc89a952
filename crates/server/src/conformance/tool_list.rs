//! The list of tools that the suite expects.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

/// Tools that have no arguments, with their descriptions.
const TOOLS_WITHOUT_INPUT: [(&str, &str); 27] = [
    ("test_simple_text", "Answers with a text"),
    ("test_image_content", "Answers with an image"),
    ("test_audio_content", "Answers with a sound"),
    ("test_embedded_resource", "Answers with a resource"),
    (
        "test_multiple_content_types",
        "Answers with a text, an image and a resource",
    ),
    ("test_error_handling", "Always fails"),
    ("test_reconnection", "Takes a moment"),
    ("test_tool_with_logging", "Logs while it works"),
    ("test_logging_tool", "Logs where the request asks for it"),
    ("test_tool_with_progress", "Tells how far it is"),
    ("test_trigger_tool_change", "Says that the tools have changed"),
    ("test_trigger_prompt_change", "Says that the prompts have changed"),
    ("test_missing_capability", "Needs a client that samples"),
    ("test_elicitation_sep1034_defaults", "Asks with defaults"),
    ("test_elicitation_sep1330_enums", "Asks with choices"),
    ("test_streaming_elicitation", "Asks in the course of its answer"),
    ("test_input_required_result_elicitation", "Asks for a name"),
    ("test_input_required_result_sampling", "Asks a model"),
    ("test_input_required_result_list_roots", "Asks for roots"),
    (
        "test_input_required_result_request_state",
        "Asks, and has the client keep its state",
    ),
    (
        "test_input_required_result_multiple_inputs",
        "Asks three things at once",
    ),
    ("test_input_required_result_multi_round", "Asks twice"),
    (
        "test_input_required_result_tampered_state",
        "Asks, and looks closely at what comes back",
    ),
    (
        "test_input_required_result_capabilities",
        "Asks only what the client can answer",
    ),
    ("failing_job", "A task that fails"),
    ("protocol_error_job", "A task that breaks"),
    ("multi_input", "A task that asks two things at once"),
];

/// All tools that the suite expects, with their schemas.
pub(super) fn fixture_tools() -> Vec<Tool> {
    let nothing = || json!({ "type": "object", "properties": {} });
    let mut tools: Vec<Tool> = TOOLS_WITHOUT_INPUT
        .iter()
        .map(|(name, says)| fixture_tool(name, says, nothing()))
        .collect();
    tools.push(fixture_tool(
        "test_tool_with_task",
        "A task after a question",
        nothing(),
    ));
    tools.push(fixture_tool(
        "test_sampling",
        "Asks a model through the client",
        one_field_schema("prompt", &json!({ "type": "string" })),
    ));
    tools.push(fixture_tool(
        "test_elicitation",
        "Asks the user through the client",
        one_field_schema("message", &json!({ "type": "string" })),
    ));
    tools.push(fixture_tool(
        "greet",
        "Greets",
        one_field_schema("name", &json!({ "type": "string" })),
    ));
    tools.push(fixture_tool(
        "confirm_delete",
        "A task that asks first",
        one_field_schema("filename", &json!({ "type": "string" })),
    ));
    let region = json!({ "type": "string", "x-mcp-header": "Region" });
    tools.push(fixture_tool(
        "test_header_parameter",
        "Takes a parameter that is a header too",
        one_field_schema("region", &region),
    ));
    let seconds = json!({
        "type": "object",
        "properties": { "seconds": { "type": "number" }, "label": { "type": "string" } },
        "required": ["seconds"],
    });
    tools.push(fixture_tool(
        "slow_compute",
        "A task that takes so many seconds",
        seconds,
    ));
    tools.push(fixture_tool(
        "json_schema_2020_12_tool",
        "Tool with JSON Schema 2020-12 features",
        rich_schema(),
    ));
    tools
}

fn one_field_schema(name: &str, schema: &Value) -> Value {
    json!({ "type": "object", "properties": { name: schema }, "required": [name] })
}

fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

fn fixture_tool(name: &'static str, says: &'static str, schema: Value) -> Tool {
    let schema: JsonObject = serde_json::from_value(schema).unwrap_or_default();
    Tool::new(name, says, Arc::new(schema))
}
