//! The `OpenAPI` document. Each path describes its own operations.

use axum::Json;
use axum::routing::get;
use serde_json::{Map, Value, json};

use super::{ApiPath, all_paths, run_result};
use crate::mcp::{api_run_schema, skills};

pub(super) fn document_path() -> ApiPath {
    ApiPath {
        route: "/api/v1/openapi.json",
        methods: get(show_document),
        operations: json!({ "get": json_operation("This document", "200", &json!({ "type": "object" })) }),
    }
}

async fn show_document() -> Json<Value> {
    Json(openapi_document())
}

/// The document with all paths and schemas.
pub(super) fn openapi_document() -> Value {
    let paths: Map<String, Value> = all_paths()
        .into_iter()
        .map(|path| {
            (
                path.route.replace("{*", "{"),
                with_parameters(path.route, path.operations),
            )
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Ringfence",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs, sessions, questions to people and events. An agent sees what is its own; scopes `viewer` and `operator` see everything.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "`ringfence token create`" },
            },
            "schemas": schemas(),
        },
    })
}

/// Adds the segments in braces as parameters of all methods of a path.
fn with_parameters(path: &str, mut described: Value) -> Value {
    let named = [("{id}", "id"), ("{*path}", "path")];
    let named = named.iter().filter(|(part, _)| path.contains(part));
    let parameters: Vec<Value> = named
        .map(|(_, name)| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    if !parameters.is_empty() {
        described["parameters"] = Value::Array(parameters);
    }
    described
}

/// An operation that returns JSON with `schema`.
pub(super) fn json_operation(summary: &str, status: &str, schema: &Value) -> Value {
    json!({
        "summary": summary,
        "responses": {
            status: { "description": summary, "content": { "application/json": { "schema": schema } } },
            "default": {
                "description": "A refusal or a fault",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
            },
        },
    })
}

/// An operation that returns one object.
pub(super) fn item_operation(summary: &str, schema: &str) -> Value {
    json_operation(
        summary,
        "200",
        &json!({ "$ref": format!("#/components/schemas/{schema}") }),
    )
}

/// An operation that returns a page of objects.
pub(super) fn page_operation(summary: &str, schema: &str, filters: &[(&str, Value)]) -> Value {
    let page = json!({
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": { "type": "array", "items": { "$ref": format!("#/components/schemas/{schema}") } },
            "next": { "type": ["string", "null"], "description": "`cursor` of the next page" },
        },
    });
    let mut described = json_operation(summary, "200", &page);
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": super::MAX_PAGE_LIMIT, "default": super::DEFAULT_PAGE_LIMIT });
    let mut parameters = vec![
        json!({ "name": "cursor", "in": "query", "schema": { "type": "string" } }),
        json!({ "name": "limit", "in": "query", "schema": limit }),
    ];
    let filters = filters
        .iter()
        .map(|(name, schema)| json!({ "name": name, "in": "query", "schema": schema }));
    parameters.extend(filters);
    described["parameters"] = Value::Array(parameters);
    described
}

/// An operation that returns a stream of events, which resumes after the event whose id has this schema.
pub(super) fn stream_operation(summary: &str, description: &str, id: &Value) -> Value {
    let mut described = json_operation(summary, "200", &json!(true));
    described["description"] = description.into();
    described["parameters"] = json!([
        { "name": "Last-Event-ID", "in": "header", "schema": id },
        { "name": "after", "in": "query", "schema": id },
    ]);
    described["responses"]["200"]["content"] = json!({ "text/event-stream": { "schema": { "type": "string" } } });
    described
}

/// An operation that returns no body.
pub(super) fn empty(summary: &str) -> Value {
    let mut described = json_operation(summary, "204", &json!(true));
    described["responses"]["204"] = json!({ "description": summary });
    described
}

/// The schema of a parameter with fixed values, such as `state`.
pub(super) fn one_of(names: &[&str]) -> Value {
    json!({ "type": "string", "enum": names })
}

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let time = json!({ "type": "string", "format": "date-time" });
    let maybe_time = json!({ "type": ["string", "null"], "format": "date-time" });
    json!({
        "Problem": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {
                "code": { "type": "string", "description": "stable" },
                "message": text,
                "hint": { "type": ["string", "null"], "description": "what to do next" },
                "rule": { "type": "string", "description": "the rule or key that refused" },
            },
        },
        "RunRow": {
            "type": "object",
            "required": ["execution_id", "session_id", "language", "status", "started", "ended"],
            "properties": {
                "execution_id": text, "session_id": text, "language": text, "status": text,
                "started": time, "ended": maybe_time,
            },
        },
        "RunAsk": api_run_schema(),
        "Run": run_result::ended(),
        "RunGoesOn": run_result::going_on(),
        "Approval": super::approvals::approval_schema(),
        "Skill": super::skills::skill_schema(),
        "SkillAsk": skills::save_schema(),
        "Session": {
            "type": "object",
            "required": ["session_id", "state", "principal", "policy", "backend", "created", "used", "runs"],
            "properties": {
                "session_id": text,
                "state": { "enum": ["open", "closed", "lost"] },
                "principal": text,
                "policy": { "type": "object", "properties": { "name": text, "digest": text } },
                "backend": text,
                "created": time,
                "used": time,
                "runs": { "type": "integer" },
                "workspace": { "type": ["object", "null"], "properties": {
                    "name": { "type": ["string", "null"] }, "bytes": { "type": "integer" }, "files": { "type": "integer" },
                    "kept_until": time, "taken": time,
                } },
                "newest": { "type": "array", "items": { "$ref": "#/components/schemas/RunRow" } },
            },
        },
    })
}
