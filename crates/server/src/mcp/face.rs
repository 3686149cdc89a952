//! The handler of one client's requests.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_journal::{ExecutionId, Principal};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult, ErrorCode, ErrorData,
    GetTaskParams, GetTaskResult, Implementation, ListResourceTemplatesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use tokio_util::sync::CancellationToken;

use super::watch::Leave;
use super::{Shared, Whose, answer, link, resources, task, tools};

/// How long a client may cache the list of tools: it changes only with the configuration, or with the exposed upstream tools.
const LIST_HOLDS_MS: u64 = 60_000;

/// The MCP handler of one client; clones share its state.
#[derive(Debug, Clone)]
pub struct Face {
    pub(super) shared: Arc<Shared>,
    whose: Whose,
    /// Cancelled when the client disconnects.
    pub(super) gone: CancellationToken,
    /// The executions that the client started, and whose end it has not received.
    begun: Arc<Mutex<HashSet<ExecutionId>>>,
}

impl Face {
    pub(super) fn new(shared: Arc<Shared>, whose: Whose, gone: CancellationToken) -> Face {
        Face {
            shared,
            whose,
            gone,
            begun: Arc::default(),
        }
    }

    /// The principal of a request; a request without one is refused.
    pub(super) fn principal(&self, context: &RequestContext<RoleServer>) -> Result<Principal, ErrorData> {
        match self.whose {
            Whose::Of(principal) => Ok(principal),
            Whose::OfRequest => {
                let parts = context.extensions.get::<http::request::Parts>();
                let principal = parts.and_then(|parts| parts.extensions.get::<Principal>());
                principal
                    .copied()
                    .ok_or_else(|| ErrorData::invalid_request("the request says nobody who asks", None))
            }
        }
    }

    pub(super) fn begun(&self, id: ExecutionId) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    pub(super) fn over(&self, id: ExecutionId) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// The fate of an execution when the client disconnects: one that the client started, and whose end it has not received, is
    /// killed.
    pub(super) fn leave(&self, id: ExecutionId) -> Leave {
        if self.begun.lock().unwrap_or_else(PoisonError::into_inner).contains(&id) {
            Leave::Kill
        } else {
            Leave::Alone
        }
    }

    /// Cancels the executions that the client started, because it can no longer receive their results.
    pub(crate) async fn end_all(&self) {
        let begun = std::mem::take(&mut *self.begun.lock().unwrap_or_else(PoisonError::into_inner));
        let Whose::Of(principal) = self.whose else { return };
        for id in begun {
            // An execution that has ended or is unknown needs no cancellation.
            let _over = self.shared.engine.cancel(principal, id).await;
        }
    }
}

impl ServerHandler for Face {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_tasks()
            .build();
        let identity = Implementation::new("ringfence", env!("CARGO_PKG_VERSION")).with_title("Ringfence");
        ServerConfig::new(capabilities)
            .with_server_info(identity)
            .with_instructions(tools::instructions(self.shared.options.policy.limits().programs))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = self.shared.tools.clone();
        tools.extend(self.direct_tools().await.into_iter().map(|direct| direct.tool));
        let mut list = ListToolsResult::with_all_items(tools);
        list.ttl_ms = Some(LIST_HOLDS_MS);
        Ok(list)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let name = if name == tools::RUN_ALIAS { tools::RUN } else { name };
        self.shared.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let who = self.principal(&context)?;
        match self.answer(who, request, &context).await? {
            Ok(response) => Ok(response),
            Err(fault) => Ok(answer::fault(&fault).into()),
        }
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(link::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let who = self.principal(&context)?;
        resources::read(&self.shared.engine, who, &request.uri).await
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // No list changes by itself, so the subscription is acknowledged at once without any notification.
        Some(SubscriptionFilter::new())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            () = context.cancelled() => {}
            () = self.gone.cancelled() => {}
        }
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let who = self.principal(&context)?;
        let (found, needs_nobody) = task::get(&self.shared.engine, who, &request.task_id, &context).await?;
        if let Some(id) = needs_nobody {
            self.over(id);
        }
        Ok(found)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let who = self.principal(&context)?;
        task::update(&self.shared.engine, who, &request).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let who = self.principal(&context)?;
        task::cancel(&self.shared.engine, who, &request.task_id).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        const KNOWN: [&str; 7] = [
            "tools/call",
            "tools/list",
            "resources/read",
            "resources/templates/list",
            "tasks/get",
            "tasks/cancel",
            "initialize",
        ];
        let method = request.method;
        // A known method arrives here only if its parameters are invalid.
        let (code, message): (_, Cow<'static, str>) = if KNOWN.contains(&method.as_str()) {
            (
                ErrorCode::INVALID_PARAMS,
                format!("the parameters of `{method}` are not as the protocol has them").into(),
            )
        } else {
            (ErrorCode::METHOD_NOT_FOUND, method.into())
        };
        Err(ErrorData::new(code, message, None))
    }
}
