//! Upstream tools as tools of this server, for models that are weak at code. They use the same gateway and policy, one call each.

use std::collections::HashSet;
use std::time::Duration;

use ringfence_engine::{DirectTool, DirectToolCall, ExecutionReport};
use ringfence_journal::{ApprovalId, ExecutionId, Principal};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Resource, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use super::elicitation::{self, CallElicitation};
use super::fault::McpFault;
use super::handler::McpHandler;
use super::resource_uri::{ResourcePart, ResourceUri};
use super::wait::{self, OnDisconnect, WaitOptions, WaitOutcome};
use super::{call_result, client_trace, text, tools, truncate};

/// The most characters of a name: clients add a prefix, and the whole may have at most 64 characters.
const MAX_NAME_CHARS: usize = 48;
/// How long a call is waited for; its own timeout is the policy's `tools.call_timeout`.
const CALL_TIMEOUT: Duration = Duration::from_hours(1);
/// The characters of a digest that make a name unique.
const DIGEST_CHARS: usize = 6;

/// An upstream tool under a name that clients accept.
#[derive(Debug)]
pub(super) struct ExposedTool {
    /// The definition that clients see.
    pub(super) tool: Tool,
    /// The full name, `server.tool`.
    full_name: String,
}

impl McpHandler {
    /// The exposed tools, in the order of their names.
    pub(super) async fn direct_tools(&self) -> Vec<ExposedTool> {
        let patterns = &self.shared.options.direct;
        if patterns.is_empty() {
            return Vec::new();
        }
        let mut tools: Vec<_> = self
            .shared
            .engine
            .tools()
            .direct_tools(patterns)
            .await
            .into_iter()
            .map(exposed_tool)
            .collect();
        tools.sort_by(|a, b| a.tool.name.cmp(&b.tool.name));
        tools
    }

    /// The exposed tool with this name; `None` if there is none.
    pub(super) async fn direct_tool(&self, name: &str) -> Option<ExposedTool> {
        if !name.contains("__") {
            return None;
        }
        self.direct_tools()
            .await
            .into_iter()
            .find(|direct| direct.tool.name == name)
    }

    /// Calls an exposed tool in an execution of its own.
    pub(super) async fn call_direct_tool(
        &self,
        who: Principal,
        direct: ExposedTool,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, McpFault> {
        let promised = direct.tool.output_schema.is_some();
        if let Some(repeated) = elicitation::parse_repeated_call(request.request_state.as_deref())? {
            let answers = request.input_responses.as_ref();
            if let Some(answers) = answers {
                elicitation::accept_answers(&self.shared.engine, who, repeated.execution, answers).await?;
            }
            return self
                .follow_direct_call(who, repeated.execution, promised, repeated.asked, context)
                .await;
        }
        let call = DirectToolCall {
            tool: direct.full_name,
            arguments: Value::Object(request.arguments.unwrap_or_default()),
            trace: Some(client_trace::client_trace(context)),
        };
        let id = self.shared.engine.runs().begin_direct_call(who, call)?;
        self.add_started(id);
        self.follow_direct_call(who, id, promised, HashSet::new(), context)
            .await
    }

    /// Waits for a call until it ends or has to wait for a person.
    async fn follow_direct_call(
        &self,
        who: Principal,
        id: ExecutionId,
        promised: bool,
        asked: HashSet<ApprovalId>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, McpFault> {
        let stay = WaitOptions {
            timeout: CALL_TIMEOUT,
            on_disconnect: OnDisconnect::Kill,
            known_questions: None,
            is_single_call: true,
            elicitation: CallElicitation::new(context, asked),
        };
        match wait::wait_for_execution(self, who, id, stay, context).await? {
            WaitOutcome::Ended(execution) => Ok(direct_result(&execution, promised).into()),
            WaitOutcome::NeedsInput(question) => Ok(CallToolResponse::InputRequired(*question)),
            WaitOutcome::StillRunning(running) => match text::waiting_text(&running.approvals) {
                // A result other than the tool's schema promises has to be an error.
                Some(waits) => {
                    let hint = format!("call wait_run with execution_id {id} later; do not make the call again");
                    Err(McpFault::new("approval.waiting", waits, &hint))
                }
                None => Ok(call_result::running_result(running).into()),
            },
        }
    }
}

/// The tool's own result, truncated if necessary.
fn direct_result(execution: &ExecutionReport, promised: bool) -> CallToolResult {
    if let Some(error) = &execution.error {
        return call_result::fault_result(&McpFault::from(error.clone()));
    }
    let text = execution.value.as_ref().map_or("null", |value| value.get());
    let part = ResourcePart::Value;
    let uri = ResourceUri {
        execution: execution.execution_id,
        part,
    }
    .to_text();
    let is_cut = execution.whole.as_ref().is_some_and(|whole| whole.value.is_some());
    let most = execution.most.unwrap_or(truncate::MAX_ANSWER_BYTES);
    if is_cut || text.len() > most {
        let resource = Resource::new(&uri, "value").with_mime_type("application/json");
        // Text that was truncated before has its own notice.
        let shown = if text.len() > most {
            let head = truncate::truncate_end(text, most);
            format!("{head}\n{} bytes in all; the whole is at {uri}", text.len())
        } else {
            text.to_owned()
        };
        let content = vec![ContentBlock::text(shown), ContentBlock::resource_link(resource)];
        // A truncated value no longer matches the tool's schema, and clients that validate would refuse it.
        return if promised {
            CallToolResult::error(content)
        } else {
            CallToolResult::success(content)
        };
    }
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => result.structured_content = Some(value),
        Ok(_) | Err(_) if promised => result.is_error = Some(true),
        Ok(_) | Err(_) => {}
    }
    result
}

fn exposed_tool(upstream: DirectTool) -> ExposedTool {
    let DirectTool { name, definition } = upstream;
    let mut annotations = ToolAnnotations::new();
    annotations.read_only_hint = definition.hints.read_only;
    annotations.destructive_hint = definition.hints.destructive;
    annotations.idempotent_hint = definition.hints.idempotent;
    annotations.open_world_hint = definition.hints.open_world;
    let mut tool = Tool::new(
        client_tool_name(&name),
        definition.description,
        tools::schema_object(definition.input),
    )
    .with_annotations(annotations);
    tool.output_schema = definition
        .output
        .filter(|schema| schema["type"] == "object")
        .map(tools::schema_object);
    tool.title = definition.title;
    ExposedTool { tool, full_name: name }
}

/// A name of letters, digits, `_` and `-`: `github.list_issues` becomes `github__list_issues`. A name that loses characters ends
/// with a digest of the full name, so that names stay unique.
fn client_tool_name(full_name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = full_name
        .replace('.', "__")
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .collect();
    let keeps_all = full_name.chars().all(|c| fits(c) || c == '.')
        && full_name.matches('.').count() == 1
        && !full_name.contains("__")
        && !full_name.contains("_.")
        && !full_name.contains("._");
    if keeps_all && name.len() <= MAX_NAME_CHARS {
        return name;
    }
    let digest = blake3::hash(full_name.as_bytes()).to_hex();
    let digest = digest.get(..DIGEST_CHARS).unwrap_or_default();
    let short: String = name.chars().take(MAX_NAME_CHARS - DIGEST_CHARS - 1).collect();
    format!("{short}_{digest}")
}

#[cfg(test)]
mod tests;
