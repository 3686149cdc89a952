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

use super::wait::OnDisconnect;
use super::{HandlerState, PrincipalSource, call_result, resource_uri, resources, task, tools};

/// How long a client may cache the list of tools: it changes only with the configuration, or with the exposed upstream tools.
const TOOL_LIST_TTL_MS: u64 = 60_000;

/// The MCP handler of one client; clones share its state.
#[derive(Debug, Clone)]
pub struct McpHandler {
    pub(super) shared: Arc<HandlerState>,
    principal_source: PrincipalSource,
    /// Cancelled when the client disconnects.
    pub(super) gone: CancellationToken,
    /// The executions that the client started, and whose end it has not received.
    started: Arc<Mutex<HashSet<ExecutionId>>>,
}

impl McpHandler {
    pub(super) fn new(
        shared: Arc<HandlerState>,
        principal_source: PrincipalSource,
        gone: CancellationToken,
    ) -> McpHandler {
        McpHandler {
            shared,
            principal_source,
            gone,
            started: Arc::default(),
        }
    }

    /// The principal of a request; a request without one is refused.
    pub(super) fn principal(&self, context: &RequestContext<RoleServer>) -> Result<Principal, ErrorData> {
        match self.principal_source {
            PrincipalSource::Fixed(principal) => Ok(principal),
            PrincipalSource::Request => {
                let parts = context.extensions.get::<http::request::Parts>();
                let principal = parts.and_then(|parts| parts.extensions.get::<Principal>());
                principal
                    .copied()
                    .ok_or_else(|| ErrorData::invalid_request("the request says nobody who asks", None))
            }
        }
    }

    pub(super) fn add_started(&self, id: ExecutionId) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    pub(super) fn remove_started(&self, id: ExecutionId) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// The fate of an execution when the client disconnects: one that the client started, and whose end it has not received, is
    /// killed.
    pub(super) fn on_disconnect(&self, id: ExecutionId) -> OnDisconnect {
        if self
            .started
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&id)
        {
            OnDisconnect::Kill
        } else {
            OnDisconnect::Detach
        }
    }

    /// Cancels the executions that the client started, because it can no longer receive their results.
    pub(crate) async fn cancel_started(&self) {
        let begun = std::mem::take(&mut *self.started.lock().unwrap_or_else(PoisonError::into_inner));
        let PrincipalSource::Fixed(principal) = self.principal_source else {
            return;
        };
        for id in begun {
            // An execution that has ended or is unknown needs no cancellation.
            let _over = self.shared.engine.runs().cancel(principal, id).await;
        }
    }
}

impl ServerHandler for McpHandler {
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
        list.ttl_ms = Some(TOOL_LIST_TTL_MS);
        Ok(list)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let name = tools::find_tool(name)?.name;
        self.shared.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let who = self.principal(&context)?;
        match self.dispatch_call(who, request, &context).await? {
            Ok(response) => Ok(response),
            Err(fault) => Ok(call_result::fault_result(&fault).into()),
        }
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resource_uri::resource_templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let who = self.principal(&context)?;
        resources::read_resource(&self.shared.engine, who, &request.uri).await
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
        let (found, needs_nobody) = task::get_task(&self.shared.engine, who, &request.task_id, &context).await?;
        if let Some(id) = needs_nobody {
            self.remove_started(id);
        }
        Ok(found)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let who = self.principal(&context)?;
        task::update_task(&self.shared.engine, who, &request).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let who = self.principal(&context)?;
        task::cancel_task(&self.shared.engine, who, &request.task_id).await
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
