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
use ringfence_engine::kept::{Execution, Executions};
use ringfence_engine::{Engine, ExecutionAnswer, Once, OutputFrom, Progress, RunError, Trace, WaitError};
use ringfence_journal::{ExecutionId, Hash, Principal, SessionId, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::document::{list, one, text};
use super::segment::Segment;
use super::{Answer, Api, Page, Path, Shared, Which, bad_body, bad_query, page, parsed, unread};
use crate::hint::for_client;
use crate::http::auth::Caller;
use crate::http::problem::Problem;
use crate::mcp::Fault;

type JsonObject = serde_json::Map<String, Value>;

/// The longest time that a request waits for a run.
const WAIT: Duration = Duration::from_secs(45);

/// The most characters of each client-supplied trace field.
const CLAIM: usize = 200;

/// The header with the idempotency key of a request, and the header that marks a replayed response.
const KEY: &str = "idempotency-key";
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const LONGEST_KEY: usize = 255;

/// A run in a list.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    execution_id: ExecutionId,
    session_id: SessionId,
    language: String,
    status: Status,
    started: String,
    ended: Option<String>,
}

impl From<Execution> for Row {
    fn from(execution: Execution) -> Row {
        Row {
            execution_id: execution.id,
            session_id: execution.session,
            language: execution.language,
            status: execution.status,
            started: execution.started.to_string(),
            ended: execution.ended.map(|ended| ended.to_string()),
        }
    }
}

/// The query of a request that may wait for a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Patience {
    /// How long to wait, in seconds.
    wait: Option<f64>,
}

impl Patience {
    fn of(query: Result<Query<Patience>, QueryRejection>, usual: Duration) -> Result<Duration, Problem> {
        let Query(patience) = query.map_err(|rejection| bad_query(&rejection))?;
        let Some(seconds) = patience.wait else { return Ok(usual) };
        let wait = Duration::try_from_secs_f64(seconds).map_err(|_| {
            Problem::new(StatusCode::BAD_REQUEST, "api.query", "`wait` is no number of seconds").hint("say 0 to 45")
        })?;
        Ok(wait.min(WAIT))
    }
}

pub(super) fn paths() -> Vec<Path> {
    vec![
        Path {
            at: "/api/v1/runs",
            methods: get(all).post(begin),
            described: json!({
                "get": list("Runs that started, newest first; of one that never did, `GET /api/v1/runs/{id}` tells for a day", "RunRow", &[("session", text())]),
                "post": asks(waits(one("Run code: the same as the tool `sandboxed_code_run`", "Run"))),
            }),
        },
        Path {
            at: "/api/v1/runs/{id}",
            methods: get(show),
            described: json!({ "get": waits(one("A run: where it stands, or its result", "Run")) }),
        },
        Path {
            at: "/api/v1/runs/{id}/cancel",
            methods: post(cancel),
            described: json!({ "post": goes_on(one("Kill a run; answers with how it ended", "Run")) }),
        },
    ]
}

/// Adds the `wait` parameter to an operation. The run may still be running when the wait ends.
fn waits(described: Value) -> Value {
    let mut described = goes_on(described);
    let wait = json!({ "type": "number", "minimum": 0, "maximum": WAIT.as_secs() });
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

fn asks(mut described: Value) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/RunAsk" });
    described["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    let key = json!({ "type": "string", "minLength": 1, "maxLength": LONGEST_KEY });
    let parameter = json!({ "name": "Idempotency-Key", "in": "header", "schema": key, "description":
        "the same key and body begin no second run for a day: they are answered with the first" });
    if let Some(parameters) = described["parameters"].as_array_mut() {
        parameters.push(parameter);
    }
    described
}

async fn all(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    query: Result<Query<Which>, QueryRejection>,
) -> Answer<Page<Row>> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let limit = which.limit();
    let executions = Executions {
        principal: caller.view(),
        session: which.session,
        before: which.before()?,
        limit: Some(limit + 1),
    };
    let rows = api.engine.store().executions_of(executions).await;
    let rows = rows.map_err(|error| unread(&error))?;
    Ok(Json(page(rows, limit, |row| row.id.to_string(), Row::from)))
}

/// Begins a run and waits for it. If the client disconnects meanwhile, it never learns the id, so the run is cancelled.
async fn begin(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    query: Result<Query<Patience>, QueryRejection>,
    headers: HeaderMap,
    body: Result<Json<JsonObject>, JsonRejection>,
) -> Result<Response, Problem> {
    let wait = Patience::of(query, WAIT)?;
    let hint = "send a JSON object such as {\"language\": \"typescript\", \"code\": \"1 + 1\"}";
    let Json(given) = body.map_err(|rejection| bad_body(&rejection, hint))?;
    let key = key(&headers)?;
    // The order of keys does not make it another request.
    let mut asked = Value::Object(given.clone());
    asked.sort_all_objects();
    let asked = Hash::of(asked.to_string().as_bytes());
    let mut ask = crate::mcp::api_ask(given).map_err(wrong)?;
    ask.trace = Some(trace(&headers));
    let Some(key) = key else {
        let begun = api.engine.begin(caller.principal, ask).await;
        let id = begun.map_err(|error| failed(&error))?;
        let left = Left {
            engine: Arc::clone(&api.engine),
            principal: caller.principal,
            id: Some(id),
        };
        let response = begun_run(&api, caller, id, wait).await;
        left.stayed();
        return response;
    };
    // A client with a key can repeat the request, so the run continues without it.
    let begun = api.engine.begin_once(caller.principal, ask, &key, asked).await;
    match begun.map_err(|error| failed(&error))? {
        Once::Begun(id) => begun_run(&api, caller, id, wait).await,
        Once::Before(id) => {
            let mut response = begun_run(&api, caller, id, wait).await?;
            response
                .headers_mut()
                .insert(REPLAYED, HeaderValue::from_static("true"));
            Ok(response)
        }
        Once::Otherwise(id) => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "run.key",
            format!("the key in `Idempotency-Key` began run `{id}`, which was asked for in other words"),
        )
        .hint("send the same request again, or use a new key for a new run")),
    }
}

/// Waits for a begun run and returns its state.
async fn begun_run(api: &Api, caller: Caller, id: ExecutionId, wait: Duration) -> Result<Response, Problem> {
    let until = ringfence_engine::Patience::People;
    let from = OutputFrom::Beginning;
    let mut response = answer(api.engine.wait_until(caller.principal, id, wait, until, from).await)?;
    if let Ok(place) = HeaderValue::try_from(format!("/api/v1/runs/{id}")) {
        response.headers_mut().insert(LOCATION, place);
    }
    Ok(response)
}

/// The idempotency key of a request; `None` without the header.
fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(KEY).iter();
    let Some(key) = given.next() else { return Ok(None) };
    let text = key.to_str().ok().filter(|text| (1..=LONGEST_KEY).contains(&text.len()));
    match text.filter(|_| given.next().is_none()) {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "api.key",
            format!("`Idempotency-Key` is not one key of 1 to {LONGEST_KEY} characters of ASCII"),
        )
        .hint("send a UUID, a new one for each run")),
    }
}

/// Cancels a run if the client disconnects before it gets the response.
struct Left {
    engine: Arc<Engine>,
    principal: Principal,
    id: Option<ExecutionId>,
}

impl Left {
    fn stayed(mut self) {
        self.id = None;
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let (engine, principal) = (Arc::clone(&self.engine), self.principal);
        tokio::spawn(async move {
            if let Err(error) = engine.cancel(principal, id).await {
                tracing::debug!(%error, execution = %id, "a run whose client left was over already");
            }
        });
    }
}

/// The trace fields that the client supplies about itself and its request.
fn trace(headers: &HeaderMap) -> Trace {
    let text = |name: &str| -> Option<String> {
        let text = headers.get(name)?.to_str().ok()?;
        Some(text.chars().take(CLAIM).collect())
    };
    Trace {
        client: text("user-agent"),
        call: text("x-request-id"),
        traceparent: text("traceparent"),
    }
}

/// The problem of a request with invalid arguments.
fn wrong(fault: Fault) -> Problem {
    let problem = Problem::new(StatusCode::BAD_REQUEST, fault.code, fault.message);
    let problem = fault.rule.into_iter().fold(problem, Problem::rule);
    fault.hint.into_iter().fold(problem, Problem::hint)
}

/// A run that did not start, or that failed.
pub(super) fn failed(error: &RunError) -> Problem {
    let status = match error.code() {
        "server.closing" => StatusCode::SERVICE_UNAVAILABLE,
        "limit.runs" => StatusCode::TOO_MANY_REQUESTS,
        _ if error.is_askers() => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    tracing::warn!(code = error.code(), error = error.chain(), "a run failed");
    // The caller gets the cause only of an error that it can correct.
    let message = if error.is_askers() {
        error.chain()
    } else {
        error.to_string()
    };
    let problem = Problem::new(status, error.code(), message);
    error.hint().into_iter().fold(problem, Problem::hint)
}

async fn show(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    query: Result<Query<Patience>, QueryRejection>,
) -> Result<Response, Problem> {
    let id = parsed(&id)?;
    let wait = Patience::of(query, Duration::ZERO)?;
    let owner = api.owner(caller, id).await?;
    answer(shown(&api, owner, id, wait).await)
}

async fn cancel(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
) -> Result<Response, Problem> {
    let id = parsed(&id)?;
    let owner = api.owner(caller, id).await?;
    api.engine.cancel(owner, id).await.map_err(|error| gone(&error))?;
    answer(shown(&api, owner, id, WAIT).await)
}

/// The state of a run with all its output. Reading consumes nothing.
async fn shown(api: &Api, owner: Principal, id: ExecutionId, wait: Duration) -> Result<Progress, WaitError> {
    let until = ringfence_engine::Patience::End;
    api.engine
        .wait_until(owner, id, wait, until, OutputFrom::Beginning)
        .await
}

impl Api {
    /// The owner of a run, as far as the caller may know it: an operator acts on the runs of all principals.
    pub(super) async fn owner(&self, caller: Caller, id: ExecutionId) -> Result<Principal, Problem> {
        if caller.view().is_some() {
            return Ok(caller.principal);
        }
        let store = self.engine.store();
        // The promise is read first, because it is removed when the execution is recorded.
        let promise = store.promise(id).await.map_err(|error| unread(&error))?;
        let Some(execution) = store.execution(id).await.map_err(|error| unread(&error))? else {
            // Without a promise, the run can only belong to the caller.
            return Ok(promise.map_or(caller.principal, |promise| promise.principal));
        };
        let session = store.session(execution.session).await.map_err(|error| unread(&error))?;
        Ok(session.map_or(caller.principal, |session| session.principal))
    }
}

/// The response for the state of a run.
fn answer(progress: Result<Progress, WaitError>) -> Result<Response, Problem> {
    match progress.map_err(|error| gone(&error))? {
        Progress::Running(running) => Ok((StatusCode::ACCEPTED, Json(running)).into_response()),
        Progress::Ended(Ok(execution)) => {
            let answer = ExecutionAnswer::from(&*execution).with_hint_in(for_client);
            Ok(Json(answer).into_response())
        }
        Progress::Ended(Err(error)) => Err(failed(&error)),
    }
}

/// The problem of a run that cannot be read.
pub(super) fn gone(error: &WaitError) -> Problem {
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
        WaitError::Spoiled { .. } => (StatusCode::GONE, "run.spoiled", "run the program again"),
        WaitError::HeldBack(_) => (
            StatusCode::FORBIDDEN,
            "data.blocked",
            "return what has no personal data in it",
        ),
        WaitError::Unread(_) => return Problem::ours("store.read", error),
    };
    Problem::new(status, code, error.to_string()).hint(hint)
}
