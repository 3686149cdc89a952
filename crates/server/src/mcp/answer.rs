//! Results as MCP has them: structured content that is complete in itself, the same in few words, and links.

use ringfence_engine::{Execution, Running};
use ringfence_journal::{ExecutionId, Status};
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Map, Value, json};

use super::cut;
use super::fault::Fault;
use super::link::{Link, Part};
use super::words;

/// The most links to files in one answer; `links.files` says how the others are written.
const MOST_LINKS: usize = 16;

/// What went wrong before anything happened.
pub(super) fn fault(fault: &Fault) -> CallToolResult {
    let error = json!(fault);
    let text = words::error(&error);
    complete(json!({ "error": error }), vec![ContentBlock::text(text)], true)
}

/// Tools that were found, listed or described.
pub(super) fn tools(mut object: Map<String, Value>) -> CallToolResult {
    cut::fit_tools(&mut object, cut::ANSWER);
    let text = words::tools(&object);
    complete(Value::Object(object), vec![ContentBlock::text(text)], false)
}

/// An execution that is over.
pub(super) fn ended(execution: &Execution) -> Result<CallToolResult, Fault> {
    let Ok(Value::Object(object)) = serde_json::to_value(execution) else {
        let message = "the result cannot be written as JSON";
        return Err(Fault::new("value.not_json", message, "return less"));
    };
    let is_error = execution.status != Status::Completed;
    Ok(shown(execution.execution_id, object, is_error))
}

/// One that goes on, and what it printed meanwhile.
pub(super) fn goes_on(running: Running) -> CallToolResult {
    let id = running.execution_id;
    let hint = format!("it goes on: call wait_run with execution_id {id}, or with cancel true to kill it");
    let fields = [
        ("execution_id", json!(id)),
        ("session_id", json!(running.session_id)),
        ("status", json!(running.status)),
        ("stdout", Value::String(running.stdout)),
        ("stderr", Value::String(running.stderr)),
        ("elapsed_ms", json!(running.elapsed_ms)),
        ("truncated", json!({ "stdout": false, "stderr": false, "value": false })),
        ("notices", json!([hint])),
    ];
    shown(
        id,
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
        false,
    )
}

fn shown(id: ExecutionId, mut object: Map<String, Value>, is_error: bool) -> CallToolResult {
    cut::fit(&mut object, id, cut::ANSWER);
    let mut content = vec![ContentBlock::text(words::execution(&object))];
    content.extend(links(id, &object));
    complete(Value::Object(object), content, is_error)
}

fn links(id: ExecutionId, object: &Map<String, Value>) -> Vec<ContentBlock> {
    let cut = object.get("links").and_then(Value::as_object);
    let outputs = cut.into_iter().flatten().filter(|(name, _)| *name != "files");
    let outputs = outputs.filter_map(|(name, uri)| {
        let mime = if name == "value" {
            "application/json"
        } else {
            "text/plain"
        };
        Some(Resource::new(uri.as_str()?, name).with_mime_type(mime))
    });
    let files = object.get("files").and_then(Value::as_array);
    let files = files.into_iter().flatten().filter_map(|file| {
        let path = file.get("path")?.as_str()?;
        let part = Part::File(path.to_owned());
        let resource = Resource::new(Link { execution: id, part }.uri(), path);
        Some(match file.get("bytes").and_then(Value::as_u64) {
            Some(bytes) => resource.with_size(bytes),
            None => resource,
        })
    });
    outputs
        .chain(files.take(MOST_LINKS))
        .map(ContentBlock::resource_link)
        .collect()
}

pub(super) fn complete(structured: Value, content: Vec<ContentBlock>, is_error: bool) -> CallToolResult {
    let mut result = if is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = Some(structured);
    result
}
