//! The fixtures of the official MCP conformance suite, behind the transport of the product.
//!
//! The suite calls tools, prompts and resources by fixed names and compares the results. The fixtures do not use the engine. A
//! hidden mode of `serve` offers them, so that the suite tests the real transport and not a copy of it.
#![expect(deprecated, reason = "the suite tries what older revisions have")]

mod elicitation;
mod fixed_tools;
mod input_required;
mod notifications;
mod prompts;
mod resources;
mod task_tools;
mod tool_list;

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult, CompletionInfo,
    ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, RequestStateCodec, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::endpoint::{Endpoint, EndpointOptions};
use notifications::ListChanges;

/// The server for the suite; clones share their state.
#[derive(Clone)]
pub struct Conformance {
    tools: Arc<[Tool]>,
    changes: ListChanges,
    tasks: TaskManager,
    states: Arc<RequestStateCodec>,
}

impl std::fmt::Debug for Conformance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conformance").finish_non_exhaustive()
    }
}

/// Creates the handler with the suite's fixtures.
pub fn conformance_handler() -> Conformance {
    // The state that clients carry is not secret here; it only must not be forged.
    let key: Vec<u8> = b"the fixtures of the conformance suite".to_vec();
    Conformance {
        tools: tool_list::fixture_tools().into(),
        changes: ListChanges::default(),
        tasks: TaskManager::new(),
        states: Arc::new(RequestStateCodec::new_unchecked(key)),
    }
}

impl Endpoint<Conformance> {
    /// Serves the suite's fixtures at an ordinary endpoint.
    pub fn conformance(options: EndpointOptions) -> Endpoint<Conformance> {
        let fixtures = conformance_handler();
        Endpoint::with_handler(move || fixtures.clone(), options)
    }
}

/// A protocol type from its JSON.
fn from_json<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn unknown_name(what: &str, name: &str) -> ErrorData {
    ErrorData::new(
        ErrorCode::INVALID_PARAMS,
        Cow::Owned(format!("unknown {what} `{name}`")),
        None,
    )
}

impl ServerHandler for Conformance {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        let identity = Implementation::new("ringfence-conformance", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(identity)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(result) = fixed_tools::call(&request)? {
            return Ok(result.into());
        }
        if let Some(result) = notifications::call(&self.changes, &request, &context).await? {
            return Ok(result.into());
        }
        if let Some(result) = elicitation::call(&request, &context).await? {
            return Ok(result.into());
        }
        if let Some(response) = task_tools::call(&self.tasks, &request, &context)? {
            return Ok(response);
        }
        match input_required::call(&self.states, &request, &context)? {
            Some(response) => Ok(response),
            None => Err(unknown_name("tool", &request.name)),
        }
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list_resources()))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::resource_templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read_resource(&request.uri).map(Into::into)
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list_prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get_prompt(&request)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = ["paris", "park", "party"].map(str::to_owned);
        let fitting = values
            .into_iter()
            .filter(|value| value.starts_with(&request.argument.value));
        let info = CompletionInfo::new(fitting.collect());
        info.map(CompleteResult::new)
            .map_err(|error| ErrorData::internal_error(error, None))
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.changes.notify_subscription(&context).await;
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
