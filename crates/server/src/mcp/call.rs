//! Dispatches a call to its tool.

use ringfence_journal::Principal;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorCode, ErrorData};
use rmcp::service::{RequestContext, RoleServer};

use super::discover::{self, DiscoveryQuery};
use super::fault::McpFault;
use super::handler::McpHandler;
use super::{run, skills, tools};

impl McpHandler {
    /// Handles a call: a result, a fault that the model can correct, or a protocol error.
    pub(super) async fn dispatch_call(
        &self,
        who: Principal,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Result<CallToolResponse, McpFault>, ErrorData> {
        let shared = &self.shared;
        if let tools::RUN_TOOL | tools::RUN_TOOL_ALIAS | tools::WAIT_TOOL = request.name.as_ref()
            && let Some(answer) = run::resume_repeated_call(self, who, &request, context).await
        {
            return Ok(answer);
        }
        let name = request.name.clone();
        if let Some(direct) = self.direct_tool(&name).await {
            return Ok(self.call_direct_tool(who, direct, request, context).await);
        }
        let given = request.arguments;
        Ok(match name.as_ref() {
            tools::SEARCH_TOOL => discover::answer_discovery(shared, who, DiscoveryQuery::Search, given)
                .await
                .map(Into::into),
            tools::LIST_TOOL => discover::answer_discovery(shared, who, DiscoveryQuery::List, given)
                .await
                .map(Into::into),
            tools::DESCRIBE_TOOL => discover::answer_discovery(shared, who, DiscoveryQuery::Describe, given)
                .await
                .map(Into::into),
            tools::RUN_TOOL | tools::RUN_TOOL_ALIAS => run::call_run(self, who, given, context).await,
            tools::WAIT_TOOL => run::call_wait(self, who, given, context).await,
            tools::SAVE_TOOL => skills::save_skill(shared, who, given).await.map(Into::into),
            tools::LIST_SKILLS_TOOL => skills::list_skills(shared, who, given).await.map(Into::into),
            name => return Err(unknown_tool(name)),
        })
    }
}

/// The error for an unknown tool, with the nearest name, or how to call a tool of the catalog.
fn unknown_tool(name: &str) -> ErrorData {
    let short: String = name.chars().take(80).collect();
    let names = [
        tools::SEARCH_TOOL,
        tools::LIST_TOOL,
        tools::DESCRIBE_TOOL,
        tools::RUN_TOOL,
        tools::WAIT_TOOL,
        tools::SAVE_TOOL,
        tools::LIST_SKILLS_TOOL,
    ];
    let nearest = names
        .into_iter()
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match nearest {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None if name.contains('.') => {
            format!(
                "tools of servers are called inside {}: `await tools.{short}({{…}})`",
                tools::RUN_TOOL
            )
        }
        None => format!("tools: {}", names.join(", ")),
    };
    ErrorData::new(
        ErrorCode::INVALID_PARAMS,
        format!("unknown tool `{short}`; {hint}"),
        None,
    )
}
