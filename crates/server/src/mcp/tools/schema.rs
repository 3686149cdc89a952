//! Parts of schemas that several built-in tools have in their definitions.

use std::sync::Arc;

use ringfence_policy::AllowedPrograms;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// The schema of an execution, as `--json` prints it; with `links` and `notices` if something is left out.
pub(super) fn execution_schema() -> Value {
    let kinds = ["object", "array", "string", "number", "boolean", "null"];
    let mut schema = result_schema(json!({
        "execution_id": { "type": "string" },
        "session_id": { "type": "string" },
        "status": { "type": "string" },
        "exit_code": { "type": "integer" },
        "value": { "anyOf": kinds.map(|kind| json!({ "type": kind })) },
        "value_begins": { "type": "string" },
        "stdout": { "type": "string" },
        "stderr": { "type": "string" },
        "diagnostics": objects_schema(),
        "calls": objects_schema(),
        "approvals": objects_schema(),
        "files": objects_schema(),
        "violations": objects_schema(),
        "truncated": { "type": "object" },
        "usage": { "type": "object" },
        "tokens": nullable_schema("object"),
        "enforcement": objects_schema(),
        "policy": { "type": "object" },
        "links": { "type": "object" },
        "notices": texts_schema(),
    }));
    schema["properties"]["error"] = nullable_schema("object");
    schema
}

/// The schema of a result or an error.
pub(super) fn result_schema(mut properties: Value) -> Value {
    properties["error"] = json!({ "type": "object" });
    json!({ "type": "object", "properties": properties })
}

/// The schema of one type or null, in a form that every dialect accepts.
pub(super) fn nullable_schema(kind: &str) -> Value {
    json!({ "anyOf": [{ "type": kind }, { "type": "null" }] })
}

pub(super) fn texts_schema() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

pub(super) fn objects_schema() -> Value {
    json!({ "type": "array", "items": { "type": "object" } })
}

/// The schema as a JSON object.
pub(in crate::mcp) fn schema_object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(map) => Arc::new(map),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Arc::default(),
    }
}

/// The names of a schema's properties, in its order.
pub(super) fn property_names(schema: &Value) -> Vec<String> {
    let properties = schema["properties"].as_object();
    properties.into_iter().flat_map(|all| all.keys().cloned()).collect()
}

/// The schema of a program's language.
pub(super) fn language_schema(programs: AllowedPrograms) -> Value {
    let code = ["typescript", "javascript", "python"];
    let scripts: &[&str] = match programs {
        AllowedPrograms::All => &["shell", "bash"],
        AllowedPrograms::None => &[],
    };
    let all: Vec<&str> = code.iter().chain(scripts).copied().collect();
    json!({ "type": "string", "enum": all })
}
