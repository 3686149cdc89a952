//! The MCP client: a conversation with one server over any transport. It negotiates the protocol, lists tools and
//! makes calls.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use ringfence_catalog::{Definition, Listing};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientRequest, ErrorData, ListToolsRequest, PaginatedRequestParams,
    ProtocolVersion, ServerResult, SubscriptionFilter,
};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, Peer, RoleClient, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::AuthRequiredError;
use rmcp::transport::{DynamicTransportError, Transport};
use serde_json::{Map, Value};

use self::gathered_tools::GatheredTools;
use crate::answer::{CallResult, MOST, TOO_DEEP, TOO_LONG, TOO_MANY_VALUES, UNREADABLE};
use crate::conversation::ConversationState;
use crate::credential::Scrubber;
use crate::ear::Ear;
use crate::error::{CallError, ServerError};
use crate::keep::Era;
use crate::person::Person;
use crate::plain_words;
use crate::process::{Process, StderrTail};
use crate::tree::{MAX_DEPTH, MAX_TREE};

pub(crate) mod gathered_tools;

/// Limits of a listing.
const PAGES: usize = 1_000;
const CURSOR: usize = 64 * 1024;
/// Most elicitation rounds in one call.
const QUESTIONS: usize = 8;
/// How long the library waits for an answer in the newer protocol before it tries the older one.
const PROBE: Duration = Duration::from_secs(10);

/// The client's resources besides its transport.
#[derive(Default)]
pub(crate) struct Footing {
    pub(crate) process: Option<Arc<Process>>,
    /// A guard from a spawner; dropping it ends the server.
    pub(crate) _guard: Option<Box<dyn Any + Send + Sync>>,
    /// The standard error of a server in a sandbox.
    pub(crate) stderr: Option<StderrTail>,
    pub(crate) state: Arc<ConversationState>,
}

/// A conversation with one MCP server.
pub(crate) struct Talk {
    server: String,
    scrubber: Scrubber,
    /// Whether there is a handler for elicitation requests.
    asks: bool,
    service: RunningService<RoleClient, Ear>,
    pub(crate) footing: Footing,
    pub(crate) era: Era,
}

/// The server to talk to, and what is known of its protocol.
pub(crate) struct Opening<'a> {
    pub(crate) server: &'a str,
    pub(crate) scrubber: Scrubber,
    pub(crate) person: Option<Person>,
    pub(crate) seen: Option<Era>,
    pub(crate) within: Duration,
}

/// Logs that a server without an answer wrote to its standard error, but not the text, which may be anything.
fn say_words(server: &str, footing: &Footing) {
    let words = match (&footing.process, &footing.stderr) {
        (Some(process), _) => process.words(),
        (None, Some(stderr)) => stderr.words(),
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

impl Talk {
    /// Opens a conversation in the protocol that the server speaks; in the older one only if the server itself says
    /// so.
    pub(crate) async fn open<T>(opening: Opening<'_>, transport: T, footing: Footing) -> Result<Talk, ServerError>
    where
        T: Transport<RoleClient> + Send + 'static,
    {
        let Opening {
            server,
            scrubber,
            person,
            seen,
            within,
        } = opening;
        let asks = person.is_some();
        let ear = Ear::new(server, person, &footing.state);
        let lifecycle = match seen {
            Some(Era::Silent) => ClientLifecycleMode::Initialize,
            _ => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        };
        let since = Instant::now();
        let opened = tokio::select! {
            opened = begin(ear, transport, lifecycle) => opened,
            reason = footing.state.faulted() => {
                let (server, detail) = (server.to_owned(), reason.to_owned());
                return Err(ServerError::Closed { server, detail });
            }
            () = tokio::time::sleep(within) => {
                say_words(server, &footing);
                return Err(ServerError::Timeout {
                    server: server.to_owned(),
                    step: "the first message",
                    after: within,
                });
            }
        };
        let service = match opened {
            Ok(service) => service,
            Err(error) => return Err(unopened(server, &scrubber, &error, &footing).await),
        };
        let era = era_of(&service, seen, since.elapsed() >= PROBE);
        if seen == Some(Era::Modern) && era == Era::Slow {
            return Err(ServerError::Downgrade {
                server: server.to_owned(),
                detail: format!("silent for {} ms", PROBE.as_millis()),
            });
        }
        let talk = Talk {
            server: server.to_owned(),
            scrubber,
            asks,
            service,
            footing,
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
        if self.era != Era::Modern || !tells {
            return;
        }
        let (peer, state) = (self.peer().clone(), Arc::clone(&self.footing.state));
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
        self.footing.state.fault().is_some() || self.service.is_closed() || self.peer().is_transport_closed()
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
    pub(crate) async fn list(&self, within: Duration) -> Result<Listing, ServerError> {
        let server = self.server.clone();
        let changes = self.footing.state.changes();
        let pages = async {
            tokio::select! {
                pages = self.pages() => pages,
                reason = self.footing.state.faulted() => Err(ServerError::Closed {
                    server: self.server.clone(),
                    detail: reason.to_owned(),
                }),
            }
        };
        match tokio::time::timeout(within, pages).await {
            Ok(Ok(tools)) => {
                self.footing.state.note_listed(changes);
                let mut listing = Listing {
                    server,
                    description: self.description(),
                    tools,
                };
                // The descriptions of tools may contain secrets that the server was given.
                self.scrubber.hide_in_listing(&mut listing);
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

    async fn pages(&self) -> Result<Vec<Definition>, ServerError> {
        let mut gathered = GatheredTools::new(&self.server);
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
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
                Ok(_) => return Err(self.unlisted("its answer is no list")),
                Err(error) => return Err(self.unlistable(error).await),
            };
            let Some(Value::Array(tools)) = page.get("tools") else {
                return Err(self.unlisted("its answer has no `tools`"));
            };
            for tool in tools {
                gathered.add(tool)?;
            }
            let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            match next {
                None => return Ok(gathered.tools),
                Some(next) if cursor.as_deref() == Some(next.as_str()) => {
                    return Err(self.unlisted("the same cursor came twice"));
                }
                Some(next) if next.len() > CURSOR => return Err(self.unlisted("a cursor longer than 64 KiB")),
                Some(next) => cursor = Some(next),
            }
        }
        Err(ServerError::TooMuch {
            server: self.server.clone(),
            what: "pages of tools",
            limit: PAGES,
        })
    }

    fn unlisted(&self, detail: &str) -> ServerError {
        ServerError::List {
            server: self.server.clone(),
            detail: self.scrubber.clean(detail),
        }
    }

    async fn unlistable(&self, error: ServiceError) -> ServerError {
        if ended(&error) {
            return ServerError::Closed {
                server: self.server.clone(),
                detail: self.end().await,
            };
        }
        if login(&error) {
            let server = self.server.clone();
            return ServerError::Login { server };
        }
        if plain_words::is_unreached(&error) {
            return self.unreached(&error);
        }
        self.unlisted(&plain_words::of_request(&error))
    }

    fn unreached(&self, error: &ServiceError) -> ServerError {
        ServerError::Connect {
            server: self.server.clone(),
            detail: self.scrubber.clean(&plain_words::of_request(error)),
        }
    }

    /// Calls a tool; dropping the future cancels the call at the server.
    pub(crate) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<CallResult, CallError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let (server, tool) = (self.server.clone(), tool.to_owned());
        let answered = tokio::select! {
            answered = self.answered(params) => answered,
            // Over HTTP nothing else tells the call that its conversation was ended.
            _ = self.footing.state.faulted() => Err(ServiceError::TransportClosed),
        };
        match answered {
            Ok(CallToolResponse::Complete(result)) => Ok(CallResult::from(result).scrubbed(&self.scrubber)),
            Ok(CallToolResponse::InputRequired(_)) => Err(CallError::Wants {
                server,
                tool,
                what: "more input from a person",
            }),
            // A task would continue after the call, and nobody would fetch its result.
            Ok(_) => Err(CallError::Wants {
                server,
                tool,
                what: "to go on after the call",
            }),
            Err(error) => Err(self.error_of_call(error, tool).await),
        }
    }

    /// Returns why a call has no answer, and whether it may have taken effect.
    async fn error_of_call(&self, error: ServiceError, tool: String) -> CallError {
        let server = self.server.clone();
        match error {
            ServiceError::McpError(error) => self.error_of_answer(&error, tool),
            ServiceError::InputRequiredRoundsExceeded { .. } => CallError::Wants {
                server,
                tool,
                what: "input again and again",
            },
            ServiceError::UnexpectedResponse => CallError::Malformed {
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

    async fn error_of_transport(&self, error: &ServiceError, tool: String) -> CallError {
        let server = self.server.clone();
        if login(error) {
            return ServerError::Login { server }.into();
        }
        // Nothing was sent, so nothing can have happened.
        if plain_words::is_unreached(error) && !ended(error) {
            return self.unreached(error).into();
        }
        let detail = if ended(error) {
            self.end().await
        } else {
            self.scrubber.clean(&plain_words::of_request(error))
        };
        CallError::Lost { server, tool, detail }
    }

    /// Classifies an error that came as the answer: a limit of the gateway on the answer, or the server's refusal.
    fn error_of_answer(&self, error: &ErrorData, tool: String) -> CallError {
        let server = self.server.clone();
        let too_much = |what, limit| CallError::TooMuch {
            server: server.clone(),
            tool: tool.clone(),
            what,
            limit,
        };
        match error.message.as_ref() {
            TOO_LONG => too_much("bytes", MOST),
            TOO_MANY_VALUES => too_much("bytes of memory", MAX_TREE),
            TOO_DEEP => {
                let limit = MAX_DEPTH;
                CallError::TooDeep { server, tool, limit }
            }
            UNREADABLE => {
                let detail = UNREADABLE.to_owned();
                CallError::Malformed { server, tool, detail }
            }
            message => CallError::Refused {
                server,
                tool,
                code: error.code.0.into(),
                message: self.scrubber.clean(message),
            },
        }
    }

    /// Makes a call and answers the server's elicitation requests during it.
    async fn answered(&self, params: CallToolRequestParams) -> Result<CallToolResponse, ServiceError> {
        if !self.asks {
            return self.peer().call_tool_once(params).await;
        }
        // Boxed, because otherwise every call's future would include its size.
        let answer = Box::pin(self.service.call_tool_with_mrtr_max_rounds(params, QUESTIONS)).await;
        answer.map(CallToolResponse::Complete)
    }

    /// Returns why the conversation ended, as far as it is known.
    pub(crate) async fn end(&self) -> String {
        self.scrubber.clean(&Box::pin(ending(&self.footing)).await)
    }
}

/// Returns the protocol of a server that answered. `unanswered` says that it did not answer in the newer one.
fn era_of(service: &RunningService<RoleClient, Ear>, seen: Option<Era>, unanswered: bool) -> Era {
    let is_legacy = service
        .peer()
        .peer_info()
        .is_none_or(|peer| peer.protocol_version.has_initialize());
    match (is_legacy, seen) {
        (false, _) => Era::Modern,
        (true, Some(Era::Silent)) => Era::Silent,
        (true, Some(Era::Slow)) if unanswered => Era::Silent,
        (true, _) if unanswered => Era::Slow,
        (true, _) => Era::Legacy,
    }
}

type Begun = Result<RunningService<RoleClient, Ear>, ClientInitializeError>;

/// Starts the service. Boxed, so that the compiler does not expand it for every transport.
fn begin<T>(ear: Ear, transport: T, lifecycle: ClientLifecycleMode) -> BoxFuture<'static, Begun>
where
    T: Transport<RoleClient> + Send + 'static,
{
    Box::pin(rmcp::service::serve_client_with_lifecycle(ear, transport, lifecycle))
}

async fn ending(footing: &Footing) -> String {
    if let Some(fault) = footing.state.fault() {
        return fault.to_owned();
    }
    match (&footing.process, &footing.stderr) {
        (Some(process), _) => process.end().await,
        (None, Some(stderr)) => stderr.after("it ended").await,
        (None, None) => "the server closed it".to_owned(),
    }
}

async fn unopened(server: &str, scrubber: &Scrubber, error: &ClientInitializeError, footing: &Footing) -> ServerError {
    let server = server.to_owned();
    if error.is_authorization_required() {
        return ServerError::Login { server };
    }
    let unsent = matches!(error, ClientInitializeError::TransportError { error, .. } if hung_up(error));
    if unsent || matches!(error, ClientInitializeError::ConnectionClosed(_)) {
        let detail = scrubber.clean(&ending(footing).await);
        return ServerError::Closed { server, detail };
    }
    ServerError::Connect {
        server,
        detail: scrubber.clean(&plain_words::of_opening(error)),
    }
}

/// Whether the conversation is over, in either direction.
fn ended(error: &ServiceError) -> bool {
    let unsent = matches!(error, ServiceError::TransportSend(error) if hung_up(error));
    unsent || matches!(error, ServiceError::TransportClosed)
}

/// Whether nobody reads the lines any more. Only the line transport fails with a plain error of the system.
fn hung_up(error: &DynamicTransportError) -> bool {
    let cause = error.error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Whether the server requires a login.
fn login(error: &ServiceError) -> bool {
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

/// Formats an error with its causes, in one line.
pub(crate) fn said(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
