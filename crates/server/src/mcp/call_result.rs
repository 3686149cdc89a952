//! MCP results: structured content that is complete in itself, a short text with the same facts, and links.

use ringfence_engine::{Engine, ExecutionReport, FullOutput, RunningExecution};
use ringfence_journal::{ExecutionId, ExecutionStatus, Principal};
use ringfence_policy::escape_invisible;
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Map, Value, json};

use super::fault::McpFault;
use super::images;
use super::resource_uri::{ResourcePart, ResourceUri};
use super::text;
use super::truncate;
use crate::client_hints::for_client;

/// The most links to files in one result; `links.files` is the template for the others.
const MAX_LINKS: usize = 16;

/// The most questions in one result.
const MAX_QUESTIONS: usize = 16;

/// The result of a call that failed before anything happened.
pub(super) fn fault_result(fault: &McpFault) -> CallToolResult {
    let mut error = json!(fault);
    reword_hint(&mut error);
    let text = text::error_text(&error);
    complete_result(json!({ "error": error }), vec![ContentBlock::text(text)], true)
}

/// Rewords the hint of an error for a client.
fn reword_hint(error: &mut Value) {
    if let Some(Value::String(hint)) = error.get_mut("hint") {
        *hint = for_client(hint);
    }
}

/// The result of a search, a list or a description of tools.
pub(super) fn tools_result(mut object: Map<String, Value>) -> CallToolResult {
    truncate::truncate_tools(&mut object, truncate::MAX_ANSWER_BYTES);
    let text = text::tools_text(&object);
    complete_result(Value::Object(object), vec![ContentBlock::text(text)], false)
}

/// The result of an execution that has ended.
pub(super) async fn ended_result(
    engine: &Engine,
    who: Principal,
    execution: &ExecutionReport,
) -> Result<CallToolResult, McpFault> {
    let Ok(Value::Object(mut object)) = serde_json::to_value(execution) else {
        let message = "the result cannot be written as JSON";
        return Err(McpFault::new("value.not_json", message, "return less"));
    };
    if let Some(error) = object.get_mut("error") {
        reword_hint(error);
    }
    keep_soft_rules(&mut object);
    let is_error = execution.status != ExecutionStatus::Completed;
    let id = execution.execution_id;
    if let Some(whole) = &execution.whole {
        object.insert("links".to_owned(), Value::Object(full_output_links(id, whole)));
    }
    let most = execution.most.unwrap_or(truncate::MAX_ANSWER_BYTES);
    let mut answer = execution_result(id, object, is_error, most);
    images::add_images(engine, who, execution, &mut answer).await;
    Ok(answer)
}

/// Keeps in `enforcement` only rules that are merely watched, or enforced per process. Hard enforcement is the normal case, and
/// would lengthen every result. A resource of the run has the complete list.
fn keep_soft_rules(object: &mut Map<String, Value>) {
    if let Some(Value::Array(held)) = object.get_mut("enforcement") {
        let is_soft = |one: &Value| one["by"] == "watch" || one["by"] == "rlimit";
        held.retain(|one| {
            is_soft(one)
                && one["rule"]
                    .as_str()
                    .is_none_or(|rule| !ringfence_engine::is_hard_by_nature(rule))
        });
    }
}

/// Links to the complete form of the truncated outputs.
fn full_output_links(execution: ExecutionId, whole: &FullOutput) -> Map<String, Value> {
    let parts = [
        ("value", ResourcePart::Value, whole.value.is_some()),
        ("stdout", ResourcePart::Stdout, whole.stdout.is_some()),
        ("stderr", ResourcePart::Stderr, whole.stderr.is_some()),
    ];
    let cut = parts.into_iter().filter(|(_, _, is_cut)| *is_cut);
    cut.map(|(name, part, _)| {
        (
            name.to_owned(),
            Value::String(ResourceUri { execution, part }.to_text()),
        )
    })
    .collect()
}

/// The result of an execution that is still running, with its output so far.
pub(super) fn running_result(running: RunningExecution) -> CallToolResult {
    let id = running.execution_id;
    let hint = match text::waiting_text(&running.approvals) {
        Some(waits) => format!("{waits}; call wait_run with execution_id {id} later, and do not run the program again"),
        None => format!("it goes on: call wait_run with execution_id {id}, or with cancel true to kill it"),
    };
    let queued = running.waits_behind.map(|ahead| {
        format!("it waits behind execution {ahead}: a session runs one at a time; wait for that one, cancel it, or use another session_id")
    });
    let tied = running
        .unrepeatable
        .as_deref()
        .filter(|_| !running.approvals.is_empty());
    let tied = tied.map(|why| format!("it keeps its sandbox while it waits, and is lost if this server ends: {why}"));
    let notices: Vec<String> = std::iter::once(hint).chain(queued).chain(tied).collect();
    let asked = running.approvals.iter().take(MAX_QUESTIONS);
    let asked: Vec<_> = asked
        .map(|asked| json!({ "id": asked.id, "tool": asked.tool, "rule": asked.rule, "expires": asked.expires }))
        .collect();
    let fields = [
        ("execution_id", json!(id)),
        ("session_id", json!(running.session_id)),
        ("status", json!(running.status)),
        ("stdout", Value::String(running.stdout)),
        ("stderr", Value::String(running.stderr)),
        ("elapsed_ms", json!(running.elapsed_ms)),
        ("truncated", json!({ "stdout": false, "stderr": false, "value": false })),
        ("notices", json!(notices)),
    ];
    let mut fields: Map<_, _> = fields
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
    if !asked.is_empty() {
        fields.insert("approvals".to_owned(), Value::Array(asked));
    }
    if let Some(why) = running.unrepeatable {
        fields.insert("unrepeatable".to_owned(), Value::String(why));
    }
    if let Some(ahead) = running.waits_behind {
        fields.insert("waits_behind".to_owned(), json!(ahead));
    }
    execution_result(id, fields, false, truncate::MAX_ANSWER_BYTES)
}

fn execution_result(id: ExecutionId, mut object: Map<String, Value>, is_error: bool, most: usize) -> CallToolResult {
    truncate::truncate_execution(&mut object, id, most);
    let mut content = vec![ContentBlock::text(text::execution_text(&object))];
    content.extend(file_links(id, &object));
    complete_result(Value::Object(object), content, is_error)
}

fn file_links(id: ExecutionId, object: &Map<String, Value>) -> Vec<ContentBlock> {
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
    let files = files.into_iter().flatten().take(MAX_LINKS);
    // Emitted files come first, because they are the purpose of the program.
    let (emitted, others): (Vec<_>, Vec<_>) = files.partition(|file| file.get("emitted").is_some());
    let link = |file| file_link(id, file);
    let emitted = emitted.into_iter().filter_map(link);
    let others = others.into_iter().filter_map(link);
    emitted
        .chain(outputs)
        .chain(others)
        .map(ContentBlock::resource_link)
        .collect()
}

fn file_link(id: ExecutionId, file: &Value) -> Option<Resource> {
    let path = file.get("path")?.as_str()?;
    let part = ResourcePart::File(path.to_owned());
    let mut resource = Resource::new(ResourceUri { execution: id, part }.to_text(), escape_invisible(path));
    if let Some(bytes) = file.get("bytes").and_then(Value::as_u64) {
        resource = resource.with_size(bytes);
    }
    Some(match file.get("type").and_then(Value::as_str) {
        Some(media_type) => resource.with_mime_type(media_type),
        None => resource,
    })
}

pub(super) fn complete_result(structured: Value, content: Vec<ContentBlock>, is_error: bool) -> CallToolResult {
    let mut result = if is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = Some(structured);
    result
}
