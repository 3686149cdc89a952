//! Upstream tools as tools of this server, for models that are weak at code. They use the same gateway and policy, one call each.

use std::collections::HashSet;
use std::time::Duration;

use ringfence_engine::{DirectTool, Execution, ToolCall};
use ringfence_journal::{ApprovalId, ExecutionId, Principal};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Resource, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use super::face::Face;
use super::fault::Fault;
use super::form::{self, Forms};
use super::link::{Link, Part};
use super::watch::{self, Leave, Seen, Stay};
use super::{answer, cut, tools, trace, words};

/// The most characters of a name: clients add a prefix, and the whole may have at most 64 characters.
const LONGEST: usize = 48;
/// How long a call is waited for; its own timeout is the policy's `tools.call_timeout`.
const STAY: Duration = Duration::from_hours(1);
/// The characters of a digest that make a name unique.
const DIGEST: usize = 6;

/// An upstream tool under a name that clients accept.
#[derive(Debug)]
pub(super) struct Direct {
    /// The definition that clients see.
    pub(super) tool: Tool,
    /// The full name, `server.tool`.
    full_name: String,
}

impl Face {
    /// The exposed tools, in the order of their names.
    pub(super) async fn direct_tools(&self) -> Vec<Direct> {
        let patterns = &self.shared.options.direct;
        if patterns.is_empty() {
            return Vec::new();
        }
        let mut tools: Vec<_> = self
            .shared
            .engine
            .direct_tools(patterns)
            .await
            .into_iter()
            .map(direct)
            .collect();
        tools.sort_by(|a, b| a.tool.name.cmp(&b.tool.name));
        tools
    }

    /// The exposed tool with this name; `None` if there is none.
    pub(super) async fn direct_tool(&self, name: &str) -> Option<Direct> {
        if !name.contains("__") {
            return None;
        }
        self.direct_tools()
            .await
            .into_iter()
            .find(|direct| direct.tool.name == name)
    }

    /// Calls an exposed tool in an execution of its own.
    pub(super) async fn call_direct(
        &self,
        who: Principal,
        direct: Direct,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Fault> {
        let promised = direct.tool.output_schema.is_some();
        if let Some(repeated) = form::repeated(request.request_state.as_deref())? {
            let answers = request.input_responses.as_ref();
            if let Some(answers) = answers {
                form::take(&self.shared.engine, who, repeated.execution, answers).await?;
            }
            return self
                .follow_direct(who, repeated.execution, promised, repeated.asked, context)
                .await;
        }
        let call = ToolCall {
            tool: direct.full_name,
            arguments: Value::Object(request.arguments.unwrap_or_default()),
            trace: Some(trace::of(context)),
        };
        let id = self.shared.engine.begin_call(who, call)?;
        self.begun(id);
        self.follow_direct(who, id, promised, HashSet::new(), context).await
    }

    /// Waits for a call until it ends or has to wait for a person.
    async fn follow_direct(
        &self,
        who: Principal,
        id: ExecutionId,
        promised: bool,
        asked: HashSet<ApprovalId>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Fault> {
        let stay = Stay {
            at_most: STAY,
            leave: Leave::Kill,
            known: None,
            is_one_call: true,
            forms: Forms::new(context, asked),
        };
        match watch::watch(self, who, id, stay, context).await? {
            Seen::Ended(execution) => Ok(answered(&execution, promised).into()),
            Seen::Asks(question) => Ok(CallToolResponse::InputRequired(*question)),
            Seen::GoesOn(running) => match words::waits(&running.approvals) {
                // A result other than the tool's schema promises has to be an error.
                Some(waits) => {
                    let hint = format!("call wait_run with execution_id {id} later; do not make the call again");
                    Err(Fault::new("approval.waiting", waits, &hint))
                }
                None => Ok(answer::goes_on(running).into()),
            },
        }
    }
}

/// The tool's own result, truncated if necessary.
fn answered(execution: &Execution, promised: bool) -> CallToolResult {
    if let Some(error) = &execution.error {
        return answer::fault(&Fault::from(error.clone()));
    }
    let text = execution.value.as_ref().map_or("null", |value| value.get());
    let part = Part::Value;
    let uri = Link {
        execution: execution.execution_id,
        part,
    }
    .uri();
    let is_cut = execution.whole.as_ref().is_some_and(|whole| whole.value.is_some());
    let most = execution.most.unwrap_or(cut::ANSWER);
    if is_cut || text.len() > most {
        let resource = Resource::new(&uri, "value").with_mime_type("application/json");
        // Text that was truncated before has its own notice.
        let shown = if text.len() > most {
            let head = cut::head(text, most);
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

fn direct(upstream: DirectTool) -> Direct {
    let DirectTool { name, definition } = upstream;
    let mut annotations = ToolAnnotations::new();
    annotations.read_only_hint = definition.hints.read_only;
    annotations.destructive_hint = definition.hints.destructive;
    annotations.idempotent_hint = definition.hints.idempotent;
    annotations.open_world_hint = definition.hints.open_world;
    let mut tool =
        Tool::new(usable(&name), definition.description, tools::object(definition.input)).with_annotations(annotations);
    tool.output_schema = definition
        .output
        .filter(|schema| schema["type"] == "object")
        .map(tools::object);
    tool.title = definition.title;
    Direct { tool, full_name: name }
}

/// A name of letters, digits, `_` and `-`: `github.list_issues` becomes `github__list_issues`. A name that loses characters ends
/// with a digest of the full name, so that names stay unique.
fn usable(full_name: &str) -> String {
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
    if keeps_all && name.len() <= LONGEST {
        return name;
    }
    let digest = blake3::hash(full_name.as_bytes()).to_hex();
    let digest = digest.get(..DIGEST).unwrap_or_default();
    let short: String = name.chars().take(LONGEST - DIGEST - 1).collect();
    format!("{short}_{digest}")
}

#[cfg(test)]
mod tests;
