//! The schema of a run in the document. It is complete; the tool for models has a shorter one.

use serde_json::{Map, Value, json};

/// The schema of a run that has ended.
pub(super) fn ended() -> Value {
    let (text, count, flag) = (text(), count(), json!({ "type": "boolean" }));
    let error = object(
        &[
            ("code", &text),
            ("message", &text),
            ("hint", &maybe()),
            ("rule", &maybe()),
        ],
        &[],
    );
    let tokens = object(&[("returned", &count), ("avoided", &count)], &[]);
    let place = [
        ("file", &text),
        ("line", &count),
        ("column", &count),
        ("code", &text),
        ("message", &text),
    ];
    let output = [("stdout", &flag), ("stderr", &flag), ("value", &flag)];
    let usage = ["wall_ms", "cpu_ms", "peak_memory_bytes", "calls", "egress_bytes"].map(|name| (name, &count));
    let by = json!({ "enum": ["cgroup", "rlimit", "namespace", "seccomp", "landlock", "quota", "watch", "gateway"] });
    let status = json!({ "enum": ["completed", "failed", "timed_out", "killed", "cancelled", "refused", "lost"] });
    let left = object(&[("path", &text), ("reason", &text), ("hint", &text)], &[]);
    object(
        &[
            ("execution_id", &text),
            ("session_id", &text),
            ("status", &status),
            ("exit_code", &json!({ "type": "integer" })),
            (
                "value",
                &json!({ "description": "what the program returned: any JSON" }),
            ),
            ("stdout", &text),
            ("stderr", &text),
            ("error", &nullable(&error)),
            ("diagnostics", &list(&object(&place, &[]))),
            ("calls", &list(&call())),
            ("files", &list(&file())),
            (
                "violations",
                &list(&object(&[("kind", &text), ("detail", &text), ("rule", &text)], &[])),
            ),
            (
                "truncated",
                &object(&output, &[("files", &count), ("left_behind", &count)]),
            ),
            ("usage", &object(&usage, &[("peak_tmpfs_bytes", &count)])),
            ("tokens", &nullable(&tokens)),
            ("enforcement", &list(&object(&[("rule", &text), ("by", &by)], &[]))),
            ("policy", &object(&[("name", &text), ("digest", &text)], &[])),
        ],
        &[("left_behind", &list(&left))],
    )
}

/// The schema of a run that is still running.
pub(super) fn going_on() -> Value {
    let text = text();
    let status = json!({ "enum": ["running", "waiting_approval"] });
    let time = json!({ "type": "string", "format": "date-time" });
    let why = json!({ "enum": ["rule", "drift", "unknown"] });
    let question = [
        ("id", &text),
        ("number", &count()),
        ("tool", &text),
        ("rule", &text),
        ("why", &why),
        ("expires", &time),
    ];
    object(
        &[
            ("execution_id", &text),
            ("session_id", &text),
            ("status", &status),
            ("stdout", &text),
            ("stderr", &text),
            ("elapsed_ms", &count()),
        ],
        &[
            ("approvals", &list(&object(&question, &[]))),
            ("unrepeatable", &text),
            ("waits_behind", &text),
        ],
    )
}

fn call() -> Value {
    let (text, count) = (text(), count());
    let outcome = json!({ "enum": ["ok", "failed", "broken", "timed_out", "unknown", "refused"] });
    object(
        &[
            ("number", &count),
            ("tool", &text),
            ("outcome", &outcome),
            ("rule", &maybe()),
            ("duration_ms", &count),
            ("bytes_in", &count),
            ("bytes_out", &count),
        ],
        &[("count", &count)],
    )
}

fn file() -> Value {
    let (text, count) = (text(), count());
    object(
        &[("path", &text), ("bytes", &count), ("sha256", &text), ("change", &text)],
        &[("emitted", &json!({ "type": "boolean" })), ("type", &text)],
    )
}

/// An object schema with required fields and optional ones.
fn object(always: &[(&str, &Value)], sometimes: &[(&str, &Value)]) -> Value {
    let required: Vec<&str> = always.iter().map(|(name, _)| *name).collect();
    let all = always.iter().chain(sometimes);
    let properties: Map<String, Value> = all
        .map(|(name, schema)| ((*name).to_owned(), (*schema).clone()))
        .collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn nullable(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn maybe() -> Value {
    json!({ "type": ["string", "null"] })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}
