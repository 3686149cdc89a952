//! The MCP client: a conversation with one server over any transport. It negotiates the protocol, lists tools and
//! makes calls.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use ringfence_catalog::{ServerListing, ToolDefinition};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientRequest, ErrorData, ListToolsRequest, PaginatedRequestParams,
    ProtocolVersion, ServerResult, SubscriptionFilter,
};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, Peer, RoleClient, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::AuthRequiredError;
use rmcp::transport::{DynamicTransportError, Transport};
use serde_json::{Map, Value};

use self::gathered_tools::GatheredTools;
use crate::call_result::{CallResult, MAX_RESULT_BYTES, TOO_DEEP, TOO_LONG, TOO_MANY_VALUES, UNREADABLE};
use crate::connection::client_handler::UpstreamClientHandler;
use crate::connection::conversation::ConversationState;
use crate::connection::process::{ServerProcess, StderrTail};
use crate::credential::Scrubber;
use crate::elicitation::ElicitationHandler;
use crate::error::{ServerError, UpstreamCallError};
use crate::error_text;
use crate::json_tree::{MAX_DEPTH, MAX_TREE};
use crate::server_cache::ProtocolEra;

pub(crate) mod gathered_tools;

/// Limits of a listing.
const MAX_PAGES: usize = 1_000;
const MAX_CURSOR_BYTES: usize = 64 * 1024;
/// Most elicitation rounds in one call.
const MAX_ELICITATION_ROUNDS: usize = 8;
/// How long the library waits for an answer in the newer protocol before it tries the older one.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The client's resources besides its transport.
#[derive(Default)]
pub(crate) struct ClientResources {
    pub(crate) process: Option<Arc<ServerProcess>>,
    /// A guard from a spawner; dropping it ends the server.
    pub(crate) _guard: Option<Box<dyn Any + Send + Sync>>,
    /// The standard error of a server in a sandbox.
    pub(crate) stderr: Option<StderrTail>,
    pub(crate) state: Arc<ConversationState>,
}

/// A conversation with one MCP server.
pub(crate) struct McpClient {
    server: String,
    scrubber: Scrubber,
    /// Whether there is a handler for elicitation requests.
    can_elicit: bool,
    service: RunningService<RoleClient, UpstreamClientHandler>,
    pub(crate) resources: ClientResources,
    pub(crate) era: ProtocolEra,
}

/// The server to talk to, and what is known of its protocol.
pub(crate) struct McpClientConfig<'a> {
    pub(crate) server: &'a str,
    pub(crate) scrubber: Scrubber,
    pub(crate) person: Option<ElicitationHandler>,
    pub(crate) seen: Option<ProtocolEra>,
    pub(crate) within: Duration,
}

/// Logs that a server without an answer wrote to its standard error, but not the text, which may be anything.
fn log_stderr_seen(server: &str, footing: &ClientResources) {
    let words = match (&footing.process, &footing.stderr) {
        (Some(process), _) => process.last_stderr(),
        (None, Some(stderr)) => stderr.last_lines(),
        (None, None) => String::new(),
    };
    if !words.is_empty() {
        let bytes = words.len();
        tracing::warn!(
            server,
            bytes,
            "a server that does not answer wrote to its standard error"
        );
        tracing::trace!(server, words, "it said this");
    }
}

impl McpClient {
    /// Opens a conversation in the protocol that the server speaks; in the older one only if the server itself says
    /// so.
    pub(crate) async fn open<T>(
        opening: McpClientConfig<'_>,
        transport: T,
        footing: ClientResources,
    ) -> Result<McpClient, ServerError>
    where
        T: Transport<RoleClient> + Send + 'static,
    {
        let McpClientConfig {
            server,
            scrubber,
            person,
            seen,
            within,
        } = opening;
        let asks = person.is_some();
        let ear = UpstreamClientHandler::new(server, person, &footing.state);
        let lifecycle = match seen {
            Some(ProtocolEra::Silent) => ClientLifecycleMode::Initialize,
            _ => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        };
        let since = Instant::now();
        let opened = tokio::select! {
            opened = start_service(ear, transport, lifecycle) => opened,
            reason = footing.state.wait_for_fault() => {
                let (server, detail) = (server.to_owned(), reason.to_owned());
                return Err(ServerError::Closed { server, detail });
            }
            () = tokio::time::sleep(within) => {
                log_stderr_seen(server, &footing);
                return Err(ServerError::Timeout {
                    server: server.to_owned(),
                    step: "the first message",
                    after: within,
                });
            }
        };
        let service = match opened {
            Ok(service) => service,
            Err(error) => return Err(connect_error(server, &scrubber, &error, &footing).await),
        };
        let era = detect_era(&service, seen, since.elapsed() >= PROBE_TIMEOUT);
        if seen == Some(ProtocolEra::Modern) && era == ProtocolEra::Slow {
            return Err(ServerError::Downgrade {
                server: server.to_owned(),
                detail: format!("silent for {} ms", PROBE_TIMEOUT.as_millis()),
            });
        }
        let talk = McpClient {
            server: server.to_owned(),
            scrubber,
            can_elicit: asks,
            service,
            resources: footing,
            era,
        };
        talk.subscribe();
        Ok(talk)
    }

    fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Subscribes to changes: in the newer protocol a server announces them only to subscribers.
    fn subscribe(&self) {
        let tells = self.peer().peer_info().is_some_and(|peer| {
            let tools = peer.capabilities.tools.as_ref();
            tools.is_some_and(|tools| tools.list_changed == Some(true))
        });
        if self.era != ProtocolEra::Modern || !tells {
            return;
        }
        let (peer, state) = (self.peer().clone(), Arc::clone(&self.resources.state));
        let server = self.server.clone();
        tokio::spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let mut subscription = match peer.listen(filter).await {
                Ok(subscription) => subscription,
                Err(error) => {
                    tracing::debug!(server, %error, "no subscription to changes of its tools");
                    return;
                }
            };
            drop(peer);
            while let Ok(Some(_)) = subscription.next().await {
                state.changed.notify_one();
            }
        });
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.resources.state.fault().is_some() || self.service.is_closed() || self.peer().is_transport_closed()
    }

    /// Returns the server's description of itself.
    fn description(&self) -> String {
        let peer = self.peer().peer_info();
        let said = peer.and_then(|peer| {
            let own = peer.server_info.as_ref().and_then(|own| own.description.clone());
            peer.instructions.clone().or(own)
        });
        self.scrubber.clean(&said.unwrap_or_default())
    }

    /// Lists all tools, page by page, within the limits.
    pub(crate) async fn list(&self, within: Duration) -> Result<ServerListing, ServerError> {
        let server = self.server.clone();
        let changes = self.resources.state.changes();
        let pages = async {
            tokio::select! {
                pages = self.list_pages() => pages,
                reason = self.resources.state.wait_for_fault() => Err(ServerError::Closed {
                    server: self.server.clone(),
                    detail: reason.to_owned(),
                }),
            }
        };
        match tokio::time::timeout(within, pages).await {
            Ok(Ok(tools)) => {
                self.resources.state.note_listed(changes);
                let mut listing = ServerListing {
                    server,
                    description: self.description(),
                    tools,
                };
                // The descriptions of tools may contain secrets that the server was given.
                self.scrubber.scrub_listing(&mut listing);
                Ok(listing)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ServerError::Timeout {
                server,
                step: "`tools/list`",
                after: within,
            }),
        }
    }

    async fn list_pages(&self) -> Result<Vec<ToolDefinition>, ServerError> {
        let mut gathered = GatheredTools::new(&self.server);
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut params = PaginatedRequestParams::default();
            params.cursor.clone_from(&cursor);
            let request = ListToolsRequest {
                params: cursor.is_some().then_some(params),
                ..ListToolsRequest::default()
            };
            let answer = self.peer().send_request(ClientRequest::ListToolsRequest(request)).await;
            let page = match answer {
                Ok(ServerResult::ListToolsResult(page)) => serde_json::to_value(page).unwrap_or_default(),
                // One invalid tool must not hide the others.
                Ok(ServerResult::CustomResult(page)) => page.0,
                Ok(_) => return Err(self.list_error("its answer is no list")),
                Err(error) => return Err(self.list_service_error(error).await),
            };
            let Some(Value::Array(tools)) = page.get("tools") else {
                return Err(self.list_error("its answer has no `tools`"));
            };
            for tool in tools {
                gathered.add(tool)?;
            }
            let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            match next {
                None => return Ok(gathered.tools),
                Some(next) if cursor.as_deref() == Some(next.as_str()) => {
                    return Err(self.list_error("the same cursor came twice"));
                }
                Some(next) if next.len() > MAX_CURSOR_BYTES => {
                    return Err(self.list_error("a cursor longer than 64 KiB"));
                }
                Some(next) => cursor = Some(next),
            }
        }
        Err(ServerError::TooMuch {
            server: self.server.clone(),
            what: "pages of tools",
            limit: MAX_PAGES,
        })
    }

    fn list_error(&self, detail: &str) -> ServerError {
        ServerError::List {
            server: self.server.clone(),
            detail: self.scrubber.clean(detail),
        }
    }

    async fn list_service_error(&self, error: ServiceError) -> ServerError {
        if is_closed_error(&error) {
            return ServerError::Closed {
                server: self.server.clone(),
                detail: self.close_reason().await,
            };
        }
        if is_login_required(&error) {
            let server = self.server.clone();
            return ServerError::Login { server };
        }
        if error_text::is_connect_failure(&error) {
            return self.unreached_error(&error);
        }
        self.list_error(&error_text::describe_request_error(&error))
    }

    fn unreached_error(&self, error: &ServiceError) -> ServerError {
        ServerError::Connect {
            server: self.server.clone(),
            detail: self.scrubber.clean(&error_text::describe_request_error(error)),
        }
    }

    /// Calls a tool; dropping the future cancels the call at the server.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallResult, UpstreamCallError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let (server, tool) = (self.server.clone(), tool.to_owned());
        let answered = tokio::select! {
            answered = self.call_with_elicitation(params) => answered,
            // Over HTTP nothing else tells the call that its conversation was ended.
            _ = self.resources.state.wait_for_fault() => Err(ServiceError::TransportClosed),
        };
        match answered {
            Ok(CallToolResponse::Complete(result)) => Ok(CallResult::from(result).scrubbed(&self.scrubber)),
            Ok(CallToolResponse::InputRequired(_)) => Err(UpstreamCallError::Wants {
                server,
                tool,
                what: "more input from a person",
            }),
            // A task would continue after the call, and nobody would fetch its result.
            Ok(_) => Err(UpstreamCallError::Wants {
                server,
                tool,
                what: "to go on after the call",
            }),
            Err(error) => Err(self.error_of_call(error, tool).await),
        }
    }

    /// Returns why a call has no answer, and whether it may have taken effect.
    async fn error_of_call(&self, error: ServiceError, tool: String) -> UpstreamCallError {
        let server = self.server.clone();
        match error {
            ServiceError::McpError(error) => self.error_of_answer(&error, tool),
            ServiceError::InputRequiredRoundsExceeded { .. } => UpstreamCallError::Wants {
                server,
                tool,
                what: "input again and again",
            },
            ServiceError::UnexpectedResponse => UpstreamCallError::Malformed {
                server,
                tool,
                detail: "neither content nor structured content".to_owned(),
            },
            ServiceError::TransportSend(_)
            | ServiceError::TransportClosed
            | ServiceError::SubscriptionLagged { .. }
            | ServiceError::Cancelled { .. }
            | ServiceError::Timeout { .. }
            | _ => self.error_of_transport(&error, tool).await,
        }
    }

    async fn error_of_transport(&self, error: &ServiceError, tool: String) -> UpstreamCallError {
        let server = self.server.clone();
        if is_login_required(error) {
            return ServerError::Login { server }.into();
        }
        // Nothing was sent, so nothing can have happened.
        if error_text::is_connect_failure(error) && !is_closed_error(error) {
            return self.unreached_error(error).into();
        }
        let detail = if is_closed_error(error) {
            self.close_reason().await
        } else {
            self.scrubber.clean(&error_text::describe_request_error(error))
        };
        UpstreamCallError::Lost { server, tool, detail }
    }

    /// Classifies an error that came as the answer: a limit of the gateway on the answer, or the server's refusal.
    fn error_of_answer(&self, error: &ErrorData, tool: String) -> UpstreamCallError {
        let server = self.server.clone();
        let too_much = |what, limit| UpstreamCallError::TooMuch {
            server: server.clone(),
            tool: tool.clone(),
            what,
            limit,
        };
        match error.message.as_ref() {
            TOO_LONG => too_much("bytes", MAX_RESULT_BYTES),
            TOO_MANY_VALUES => too_much("bytes of memory", MAX_TREE),
            TOO_DEEP => {
                let limit = MAX_DEPTH;
                UpstreamCallError::TooDeep { server, tool, limit }
            }
            UNREADABLE => {
                let detail = UNREADABLE.to_owned();
                UpstreamCallError::Malformed { server, tool, detail }
            }
            message => UpstreamCallError::Refused {
                server,
                tool,
                code: error.code.0.into(),
                message: self.scrubber.clean(message),
            },
        }
    }

    /// Makes a call and answers the server's elicitation requests during it.
    async fn call_with_elicitation(&self, params: CallToolRequestParams) -> Result<CallToolResponse, ServiceError> {
        if !self.can_elicit {
            return self.peer().call_tool_once(params).await;
        }
        // Boxed, because otherwise every call's future would include its size.
        let answer = Box::pin(
            self.service
                .call_tool_with_mrtr_max_rounds(params, MAX_ELICITATION_ROUNDS),
        )
        .await;
        answer.map(CallToolResponse::Complete)
    }

    /// Returns why the conversation ended, as far as it is known.
    pub(crate) async fn close_reason(&self) -> String {
        self.scrubber.clean(&Box::pin(describe_end(&self.resources)).await)
    }
}

/// Returns the protocol of a server that answered. `unanswered` says that it did not answer in the newer one.
fn detect_era(
    service: &RunningService<RoleClient, UpstreamClientHandler>,
    seen: Option<ProtocolEra>,
    unanswered: bool,
) -> ProtocolEra {
    let is_legacy = service
        .peer()
        .peer_info()
        .is_none_or(|peer| peer.protocol_version.has_initialize());
    match (is_legacy, seen) {
        (false, _) => ProtocolEra::Modern,
        (true, Some(ProtocolEra::Silent)) => ProtocolEra::Silent,
        (true, Some(ProtocolEra::Slow)) if unanswered => ProtocolEra::Silent,
        (true, _) if unanswered => ProtocolEra::Slow,
        (true, _) => ProtocolEra::Legacy,
    }
}

type ServiceStart = Result<RunningService<RoleClient, UpstreamClientHandler>, ClientInitializeError>;

/// Starts the service. Boxed, so that the compiler does not expand it for every transport.
fn start_service<T>(
    ear: UpstreamClientHandler,
    transport: T,
    lifecycle: ClientLifecycleMode,
) -> BoxFuture<'static, ServiceStart>
where
    T: Transport<RoleClient> + Send + 'static,
{
    Box::pin(rmcp::service::serve_client_with_lifecycle(ear, transport, lifecycle))
}

async fn describe_end(footing: &ClientResources) -> String {
    if let Some(fault) = footing.state.fault() {
        return fault.to_owned();
    }
    match (&footing.process, &footing.stderr) {
        (Some(process), _) => process.kill_and_describe().await,
        (None, Some(stderr)) => stderr.describe_exit("it ended").await,
        (None, None) => "the server closed it".to_owned(),
    }
}

async fn connect_error(
    server: &str,
    scrubber: &Scrubber,
    error: &ClientInitializeError,
    footing: &ClientResources,
) -> ServerError {
    let server = server.to_owned();
    if error.is_authorization_required() {
        return ServerError::Login { server };
    }
    let unsent = matches!(error, ClientInitializeError::TransportError { error, .. } if is_broken_pipe(error));
    if unsent || matches!(error, ClientInitializeError::ConnectionClosed(_)) {
        let detail = scrubber.clean(&describe_end(footing).await);
        return ServerError::Closed { server, detail };
    }
    ServerError::Connect {
        server,
        detail: scrubber.clean(&error_text::describe_connect_error(error)),
    }
}

/// Whether the conversation is over, in either direction.
fn is_closed_error(error: &ServiceError) -> bool {
    let unsent = matches!(error, ServiceError::TransportSend(error) if is_broken_pipe(error));
    unsent || matches!(error, ServiceError::TransportClosed)
}

/// Whether nobody reads the lines any more. Only the line transport fails with a plain error of the system.
fn is_broken_pipe(error: &DynamicTransportError) -> bool {
    let cause = error.error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Whether the server requires a login.
fn is_login_required(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else {
        return false;
    };
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error.error.as_ref());
    while let Some(cause) = source {
        if cause.is::<AuthRequiredError>() {
            return true;
        }
        source = cause.source();
    }
    false
}

#[cfg(test)]
mod tests;
