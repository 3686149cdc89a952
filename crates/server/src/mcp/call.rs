//! Dispatches a call to its tool.

use ringfence_journal::Principal;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorCode, ErrorData};
use rmcp::service::{RequestContext, RoleServer};

use super::discover::{self, Question};
use super::face::Face;
use super::fault::Fault;
use super::{run, skills, tools};

impl Face {
    /// Handles a call: a result, a fault that the model can correct, or a protocol error.
    pub(super) async fn answer(
        &self,
        who: Principal,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Result<CallToolResponse, Fault>, ErrorData> {
        let shared = &self.shared;
        if let tools::RUN | tools::RUN_ALIAS | tools::WAIT = request.name.as_ref()
            && let Some(answer) = run::again(self, who, &request, context).await
        {
            return Ok(answer);
        }
        let name = request.name.clone();
        if let Some(direct) = self.direct_tool(&name).await {
            return Ok(self.call_direct(who, direct, request, context).await);
        }
        let given = request.arguments;
        Ok(match name.as_ref() {
            tools::SEARCH => discover::ask(shared, who, Question::Search, given)
                .await
                .map(Into::into),
            tools::LIST => discover::ask(shared, who, Question::List, given).await.map(Into::into),
            tools::DESCRIBE => discover::ask(shared, who, Question::Describe, given)
                .await
                .map(Into::into),
            tools::RUN | tools::RUN_ALIAS => run::run(self, who, given, context).await,
            tools::WAIT => run::wait(self, who, given, context).await,
            tools::SAVE => skills::save(shared, who, given).await.map(Into::into),
            tools::LIST_SKILLS => skills::list(shared, who, given).await.map(Into::into),
            name => return Err(unknown(name)),
        })
    }
}

/// The error for an unknown tool, with the nearest name, or how to call a tool of the catalog.
fn unknown(name: &str) -> ErrorData {
    let short: String = name.chars().take(80).collect();
    let names = [
        tools::SEARCH,
        tools::LIST,
        tools::DESCRIBE,
        tools::RUN,
        tools::WAIT,
        tools::SAVE,
        tools::LIST_SKILLS,
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
                tools::RUN
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
