//! Dispatches a call to its tool.

use ringfence_journal::Principal;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorCode, ErrorData};
use rmcp::service::{RequestContext, RoleServer};

use super::fault::McpFault;
use super::handler::McpHandler;
use super::tools::{self, ToolCall};

impl McpHandler {
    /// Handles a call: a result, a fault that the model can correct, or a protocol error.
    pub(super) async fn dispatch_call(
        &self,
        who: Principal,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Result<CallToolResponse, McpFault>, ErrorData> {
        let Some(tool) = tools::find_tool(&request.name) else {
            return match self.direct_tool(&request.name).await {
                Some(direct) => Ok(self.call_direct_tool(who, direct, request, context).await),
                None => Err(unknown_tool(&request.name)),
            };
        };
        let call = ToolCall {
            handler: self,
            who,
            request,
            context,
        };
        Ok(tool.answer(call).await)
    }
}

/// The error for an unknown tool, with the nearest name, or how to call a tool of the catalog.
fn unknown_tool(name: &str) -> ErrorData {
    let short: String = name.chars().take(80).collect();
    let names = tools::TOOLS.map(|tool| tool.name);
    let nearest = names
        .into_iter()
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match nearest {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None if name.contains('.') => {
            format!("tools of servers are called inside sandboxed_code_run: `await tools.{short}({{…}})`")
        }
        None => format!("tools: {}", names.join(", ")),
    };
    ErrorData::new(
        ErrorCode::INVALID_PARAMS,
        format!("unknown tool `{short}`; {hint}"),
        None,
    )
}
