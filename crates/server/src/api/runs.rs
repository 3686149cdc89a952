//! Runs: list, begin, show, cancel.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::header::LOCATION;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ringfence_engine::storage::{ExecutionQuery, StoredExecution};
use ringfence_engine::{
    ClientTrace, Engine, ExecutionAnswer, IdempotentRun, OperationError, OutputFrom, RunProgress, WaitError,
};
use ringfence_journal::{ContentHash, ExecutionId, ExecutionStatus, Principal, SessionId, time_text};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::openapi::{item_operation, page_operation, text};
use super::path_segment::Segment;
use super::{
    ApiPath, ApiState, JsonResult, ListPage, ListQuery, SharedApi, bad_body, bad_query, list_page, parse_id,
    read_problem,
};
use crate::client_hints::for_client;
use crate::http::auth::Caller;
use crate::http::problem::HttpProblem;
use crate::mcp::McpFault;

type JsonObject = serde_json::Map<String, Value>;

/// When a principal that had too many refused runs may have another one.
const REFUSED_RETRY: Duration = Duration::from_secs(6);
/// The longest time that a request waits for a run.
const MAX_WAIT: Duration = Duration::from_secs(45);

/// The most characters of each client-supplied trace field.
const MAX_CLIENT_NAME_CHARS: usize = 200;

/// The header with the idempotency key of a request, and the header that marks a replayed response.
const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
const REPLAYED_HEADER: HeaderName = HeaderName::from_static("idempotent-replayed");
const MAX_KEY_CHARS: usize = 255;

/// A run in a list.
#[derive(Debug, Serialize)]
pub(super) struct RunListItem {
    execution_id: ExecutionId,
    session_id: SessionId,
    language: String,
    status: ExecutionStatus,
    started: String,
    ended: Option<String>,
}

impl From<StoredExecution> for RunListItem {
    fn from(execution: StoredExecution) -> RunListItem {
        RunListItem {
            execution_id: execution.id,
            session_id: execution.session,
            language: execution.language,
            status: execution.status,
            started: time_text(execution.started),
            ended: execution.ended.map(time_text),
        }
    }
}

/// The query of a request that may wait for a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitQuery {
    /// How long to wait, in seconds.
    wait: Option<f64>,
}

impl WaitQuery {
    fn wait_from_query(
        query: Result<Query<WaitQuery>, QueryRejection>,
        usual: Duration,
    ) -> Result<Duration, HttpProblem> {
        let Query(patience) = query.map_err(|rejection| bad_query(&rejection))?;
        let Some(seconds) = patience.wait else { return Ok(usual) };
        let wait = Duration::try_from_secs_f64(seconds).map_err(|_| {
            HttpProblem::new(StatusCode::BAD_REQUEST, "api.query", "`wait` is no number of seconds")
                .with_hint("say 0 to 45")
        })?;
        Ok(wait.min(MAX_WAIT))
    }
}

pub(super) fn paths() -> Vec<ApiPath> {
    vec![
        ApiPath {
            route: "/api/v1/runs",
            methods: get(list_runs).post(begin_run),
            operations: json!({
                "get": page_operation("Runs that started, newest first; of one that never did, `GET /api/v1/runs/{id}` tells for a day", "RunRow", &[("session", text())]),
                "post": with_key_parameter(with_wait_parameter(item_operation("Run code: the same as the tool `sandboxed_code_run`", "Run"))),
            }),
        },
        ApiPath {
            route: "/api/v1/runs/{id}",
            methods: get(show_run),
            operations: json!({ "get": with_wait_parameter(item_operation("A run: where it stands, or its result", "Run")) }),
        },
        ApiPath {
            route: "/api/v1/runs/{id}/cancel",
            methods: post(cancel_run),
            operations: json!({ "post": goes_on(item_operation("Kill a run; answers with how it ended", "Run")) }),
        },
    ]
}

/// Adds the `wait` parameter to an operation. The run may still be running when the wait ends.
fn with_wait_parameter(described: Value) -> Value {
    let mut described = goes_on(described);
    let wait = json!({ "type": "number", "minimum": 0, "maximum": MAX_WAIT.as_secs() });
    described["parameters"] =
        json!([{ "name": "wait", "in": "query", "description": "seconds to wait for its end", "schema": wait }]);
    described
}

fn goes_on(mut described: Value) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/RunGoesOn" });
    described["responses"]["202"] = json!({
        "description": "It goes on: `GET /api/v1/runs/{id}` asks for it",
        "content": { "application/json": { "schema": schema } },
    });
    described
}

fn with_key_parameter(mut described: Value) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/RunAsk" });
    described["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    let key = json!({ "type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS });
    let parameter = json!({ "name": "Idempotency-Key", "in": "header", "schema": key, "description":
        "the same key and body begin no second run for a day: they are answered with the first" });
    if let Some(parameters) = described["parameters"].as_array_mut() {
        parameters.push(parameter);
    }
    described
}

async fn list_runs(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> JsonResult<ListPage<RunListItem>> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let limit = which.page_limit();
    let executions = ExecutionQuery {
        principal: caller.visible_principal(),
        session: which.session,
        before: which.cursor_id()?,
        limit: Some(limit + 1),
    };
    let rows = api.engine.store().list_executions(executions).await;
    let rows = rows.map_err(|error| read_problem(&error))?;
    Ok(Json(list_page(
        rows,
        limit,
        |row| row.id.to_string(),
        RunListItem::from,
    )))
}

/// Begins a run and waits for it. If the client disconnects meanwhile, it never learns the id, so the run is cancelled.
async fn begin_run(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    query: Result<Query<WaitQuery>, QueryRejection>,
    headers: HeaderMap,
    body: Result<Json<JsonObject>, JsonRejection>,
) -> Result<Response, HttpProblem> {
    let wait = WaitQuery::wait_from_query(query, MAX_WAIT)?;
    let hint = "send a JSON object such as {\"language\": \"typescript\", \"code\": \"1 + 1\"}";
    let Json(given) = body.map_err(|rejection| bad_body(&rejection, hint))?;
    let key = idempotency_key(&headers)?;
    // The order of keys does not make it another request.
    let mut asked = Value::Object(given.clone());
    asked.sort_all_objects();
    let asked = ContentHash::digest(asked.to_string().as_bytes());
    let mut ask = crate::mcp::parse_api_run_request(given).map_err(invalid_request)?;
    ask.trace = Some(client_trace(&headers));
    let Some(key) = key else {
        let begun = api.engine.runs().begin(caller.principal, ask).await;
        let id = begun.map_err(|error| engine_problem(&error))?;
        let left = CancelOnDisconnect {
            engine: Arc::clone(&api.engine),
            principal: caller.principal,
            id: Some(id),
        };
        let response = begun_response(&api, caller, id, wait).await;
        left.disarm();
        return response;
    };
    // A client with a key can repeat the request, so the run continues without it.
    let begun = api
        .engine
        .runs()
        .begin_idempotent(caller.principal, ask, &key, asked)
        .await;
    match begun.map_err(|error| engine_problem(&error))? {
        IdempotentRun::Started(id) => begun_response(&api, caller, id, wait).await,
        IdempotentRun::Repeated(id) => {
            let mut response = begun_response(&api, caller, id, wait).await?;
            response
                .headers_mut()
                .insert(REPLAYED_HEADER, HeaderValue::from_static("true"));
            Ok(response)
        }
        IdempotentRun::Conflict(id) => Err(HttpProblem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "run.key",
            format!("the key in `Idempotency-Key` began run `{id}`, which was asked for in other words"),
        )
        .with_hint("send the same request again, or use a new key for a new run")),
    }
}

/// Waits for a begun run and returns its state.
async fn begun_response(
    api: &ApiState,
    caller: Caller,
    id: ExecutionId,
    wait: Duration,
) -> Result<Response, HttpProblem> {
    let until = ringfence_engine::WaitCondition::FinishedOrBlocked;
    let from = OutputFrom::Beginning;
    let mut response = progress_response(
        api.engine
            .runs()
            .wait_until(caller.principal, id, wait, until, from)
            .await,
    )?;
    if let Ok(place) = HeaderValue::try_from(format!("/api/v1/runs/{id}")) {
        response.headers_mut().insert(LOCATION, place);
    }
    Ok(response)
}

/// The idempotency key of a request; `None` without the header.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, HttpProblem> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY_HEADER).iter();
    let Some(key) = given.next() else { return Ok(None) };
    let text = key
        .to_str()
        .ok()
        .filter(|text| (1..=MAX_KEY_CHARS).contains(&text.len()));
    match text.filter(|_| given.next().is_none()) {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(HttpProblem::new(
            StatusCode::BAD_REQUEST,
            "api.key",
            format!("`Idempotency-Key` is not one key of 1 to {MAX_KEY_CHARS} characters of ASCII"),
        )
        .with_hint("send a UUID, a new one for each run")),
    }
}

/// Cancels a run if the client disconnects before it gets the response.
struct CancelOnDisconnect {
    engine: Arc<Engine>,
    principal: Principal,
    id: Option<ExecutionId>,
}

impl CancelOnDisconnect {
    fn disarm(mut self) {
        self.id = None;
    }
}

impl Drop for CancelOnDisconnect {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let (engine, principal) = (Arc::clone(&self.engine), self.principal);
        tokio::spawn(async move {
            if let Err(error) = engine.runs().cancel(principal, id).await {
                tracing::debug!(%error, execution = %id, "a run whose client left was over already");
            }
        });
    }
}

/// The trace fields that the client supplies about itself and its request.
fn client_trace(headers: &HeaderMap) -> ClientTrace {
    let text = |name: &str| -> Option<String> {
        let text = headers.get(name)?.to_str().ok()?;
        Some(text.chars().take(MAX_CLIENT_NAME_CHARS).collect())
    };
    ClientTrace {
        client: text("user-agent"),
        call: text("x-request-id"),
        traceparent: text("traceparent"),
    }
}

/// The problem of a request with invalid arguments.
fn invalid_request(fault: McpFault) -> HttpProblem {
    let problem = HttpProblem::new(StatusCode::BAD_REQUEST, fault.code, fault.message);
    let problem = fault.rule.into_iter().fold(problem, HttpProblem::with_rule);
    fault.hint.into_iter().fold(problem, HttpProblem::with_hint)
}

/// A run that did not start, or that failed.
pub(super) fn engine_problem(error: &OperationError) -> HttpProblem {
    let status = match error.code() {
        "server.closing" => StatusCode::SERVICE_UNAVAILABLE,
        "limit.runs" | "limit.refused" => StatusCode::TOO_MANY_REQUESTS,
        _ if error.is_client_error() => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    // The engine has logged that it counts; one line for each such request would fill the log.
    if !matches!(error, OperationError::TooManyRefused) {
        tracing::warn!(code = error.code(), error = error.chain(), "a run failed");
    }
    // The caller gets the cause only of an error that it can correct.
    let message = if error.is_client_error() {
        error.chain()
    } else {
        error.to_string()
    };
    let mut problem = HttpProblem::new(status, error.code(), message);
    if matches!(error, OperationError::TooManyRefused) {
        problem = problem.with_retry_after(REFUSED_RETRY);
    }
    let problem = error.rule().into_iter().fold(problem, HttpProblem::with_rule);
    error.hint().into_iter().fold(problem, HttpProblem::with_hint)
}

async fn show_run(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    query: Result<Query<WaitQuery>, QueryRejection>,
) -> Result<Response, HttpProblem> {
    let id = parse_id(&id)?;
    let wait = WaitQuery::wait_from_query(query, Duration::ZERO)?;
    let owner = api.run_owner(caller, id).await?;
    progress_response(run_progress(&api, owner, id, wait).await)
}

async fn cancel_run(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
) -> Result<Response, HttpProblem> {
    let id = parse_id(&id)?;
    let owner = api.run_owner(caller, id).await?;
    api.engine
        .runs()
        .cancel(owner, id)
        .await
        .map_err(|error| wait_problem(&error))?;
    progress_response(run_progress(&api, owner, id, MAX_WAIT).await)
}

/// The state of a run with all its output. Reading consumes nothing.
async fn run_progress(
    api: &ApiState,
    owner: Principal,
    id: ExecutionId,
    wait: Duration,
) -> Result<RunProgress, WaitError> {
    let until = ringfence_engine::WaitCondition::Finished;
    api.engine
        .runs()
        .wait_until(owner, id, wait, until, OutputFrom::Beginning)
        .await
}

impl ApiState {
    /// The owner of a run, as far as the caller may know it: an operator acts on the runs of all principals.
    pub(super) async fn run_owner(&self, caller: Caller, id: ExecutionId) -> Result<Principal, HttpProblem> {
        if caller.visible_principal().is_some() {
            return Ok(caller.principal);
        }
        let store = self.engine.store();
        // The promise is read first, because it is removed when the execution is recorded.
        let promise = store.promise(id).await.map_err(|error| read_problem(&error))?;
        let Some(execution) = store.execution(id).await.map_err(|error| read_problem(&error))? else {
            // Without a promise, the run can only belong to the caller.
            return Ok(promise.map_or(caller.principal, |promise| promise.principal));
        };
        let session = store
            .session(execution.session)
            .await
            .map_err(|error| read_problem(&error))?;
        Ok(session.map_or(caller.principal, |session| session.principal))
    }
}

/// The response for the state of a run.
fn progress_response(progress: Result<RunProgress, WaitError>) -> Result<Response, HttpProblem> {
    match progress.map_err(|error| wait_problem(&error))? {
        RunProgress::Running(running) => Ok((StatusCode::ACCEPTED, Json(running)).into_response()),
        RunProgress::Ended(Ok(execution)) => {
            let answer = ExecutionAnswer::from(&*execution).map_hint(for_client);
            Ok(Json(answer).into_response())
        }
        RunProgress::Ended(Err(error)) => Err(engine_problem(&error)),
    }
}

/// The problem of a run that cannot be read.
pub(super) fn wait_problem(error: &WaitError) -> HttpProblem {
    let (status, code, hint) = match error {
        WaitError::Unknown(_) => (StatusCode::NOT_FOUND, "run.unknown", "`GET /api/v1/runs` lists them"),
        WaitError::Forgotten { .. } => (
            StatusCode::GONE,
            "run.forgotten",
            "the journal still has its events: `GET /api/v1/sessions/{id}/events`",
        ),
        WaitError::Elsewhere(_) => (
            StatusCode::CONFLICT,
            "run.elsewhere",
            "another process of this machine has it; `GET /api/v1/sessions/{id}/events` shows what it does",
        ),
        WaitError::NotResumable { .. } => (StatusCode::GONE, "run.spoiled", "run the program again"),
        WaitError::Withheld(_) => (
            StatusCode::FORBIDDEN,
            "data.blocked",
            "return what has no personal data in it",
        ),
        WaitError::Journal(_) => return HttpProblem::internal("store.read", error),
    };
    HttpProblem::new(status, code, error.to_string()).with_hint(hint)
}
