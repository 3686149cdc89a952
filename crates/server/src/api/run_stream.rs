//! One run as a stream of server-sent events: its output, its status, and its result.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use ringfence_engine::{ExecutionAnswer, OutputCursor, RunEvent, RunFollower, RunResult, WaitError};
use ringfence_journal::ExecutionId;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::events::{KEEPALIVE_INTERVAL, LAST_EVENT_ID, MAX_STREAMS};
use super::openapi::stream_operation;
use super::path_segment::Segment;
use super::runs::{engine_problem, wait_problem};
use super::{ApiPath, ApiState, SharedApi, bad_query, parse_id};
use crate::client_hints::for_client;
use crate::http::auth::Caller;
use crate::http::problem::HttpProblem;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunStreamQuery {
    /// The id of the event after which the stream starts.
    after: Option<String>,
}

/// The description of the stream in the document.
const ABOUT: &str = "Server-sent events: `output` with `{stdout, stderr}` in whole lines, `status` with `{status}`, and at last `end` with the run, \
    or `error` with a problem. The `id` of `output` is where to go on from; it takes nothing from other readers.";

pub(super) fn paths() -> Vec<ApiPath> {
    let summary = "A run as it goes on: what it prints, where it stands, how it ended";
    let id = json!({ "type": "string", "pattern": "^[0-9]+-[0-9]+$" });
    vec![ApiPath {
        route: "/api/v1/runs/{id}/events",
        methods: get(stream_run),
        operations: json!({ "get": stream_operation(summary, ABOUT, &id) }),
    }]
}

async fn stream_run(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    headers: HeaderMap,
    query: Result<Query<RunStreamQuery>, QueryRejection>,
) -> Result<Response, HttpProblem> {
    let id: ExecutionId = parse_id(&id)?;
    let from = resume_cursor(&headers, query)?;
    let owner = api.run_owner(caller, id).await?;
    let Ok(seat) = Arc::clone(&api.streams).try_acquire_owned() else {
        return Err(too_many_streams());
    };
    let follower = api.engine.runs().follow(owner, id, from).await;
    let live = RunSubscription {
        follower: follower.map_err(|error| wait_problem(&error))?,
        closing: api.closing.clone(),
        _api: api,
        _seat: seat,
    };
    // A comment is sent at once, so that the client knows that the stream is open.
    let hello = futures::stream::once(async { Ok(Bytes::from_static(b"retry: 1000\n: hello\n\n")) });
    let events = futures::stream::unfold(Some(live), next_frame);
    let body = Body::from_stream(futures::StreamExt::chain(hello, events));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

fn too_many_streams() -> HttpProblem {
    let message = format!("{MAX_STREAMS} streams of events are open");
    HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "events.full", message)
        .with_hint("close one, or try again later")
        .with_retry_after(KEEPALIVE_INTERVAL)
}

/// The position in the output after which the client resumes.
fn resume_cursor(
    headers: &HeaderMap,
    query: Result<Query<RunStreamQuery>, QueryRejection>,
) -> Result<OutputCursor, HttpProblem> {
    let Query(from) = query.map_err(|rejection| bad_query(&rejection))?;
    let given = match headers.get(LAST_EVENT_ID) {
        Some(value) => Some(value.to_str().unwrap_or_default().to_owned()),
        None => from.after,
    };
    let Some(given) = given else {
        return Ok(OutputCursor::default());
    };
    given.parse().map_err(|_| {
        HttpProblem::new(
            StatusCode::BAD_REQUEST,
            "events.id",
            "`Last-Event-ID` is not the id of an event of this run",
        )
        .with_hint("leave it out to begin with the first line")
    })
}

/// One client that follows a run.
struct RunSubscription {
    follower: RunFollower,
    closing: watch::Receiver<bool>,
    _api: Arc<ApiState>,
    _seat: OwnedSemaphorePermit,
}

async fn next_frame(live: Option<RunSubscription>) -> Option<(Result<Bytes, WaitError>, Option<RunSubscription>)> {
    let mut live = live?;
    let happened = tokio::select! {
        biased;
        // The stream ends when the server stops, or its sender is dropped.
        _ = live.closing.wait_for(|closing| *closing) => return None,
        happened = next_or_keepalive(&mut live.follower) => happened,
    };
    let (text, goes_on) = match happened {
        None => return None,
        Some(Ok(None)) => (": alive\n\n".to_owned(), true),
        Some(Ok(Some(RunEvent::Output { stdout, stderr, next }))) => {
            let data = json!({ "stdout": stdout, "stderr": stderr });
            (format!("id: {next}\nevent: output\ndata: {data}\n\n"), true)
        }
        Some(Ok(Some(RunEvent::Status(status)))) => (sse_frame("status", &json!({ "status": status })), true),
        Some(Ok(Some(RunEvent::Ended(ending)))) => (ended_frame(ending), false),
        Some(Err(error)) => (sse_frame("error", &json!(wait_problem(&error).body())), false),
    };
    Some((Ok(text.into()), goes_on.then_some(live)))
}

/// The next change of the run, or an empty result after the keep-alive interval; `None` after the end.
async fn next_or_keepalive(follower: &mut RunFollower) -> Option<Result<Option<RunEvent>, WaitError>> {
    match tokio::time::timeout(KEEPALIVE_INTERVAL, follower.next_event()).await {
        Err(_) => Some(Ok(None)),
        Ok(happened) => happened.transpose().map(|happened| happened.map(Some)),
    }
}

fn ended_frame(ending: RunResult) -> String {
    match ending {
        Ok(execution) => {
            let answer = ExecutionAnswer::from(&*execution).map_hint(for_client);
            match serde_json::to_value(answer) {
                Ok(answer) => sse_frame("end", &answer),
                Err(error) => sse_frame("error", &json!(HttpProblem::internal("api.answer", &error).body())),
            }
        }
        Err(error) => sse_frame("error", &json!(engine_problem(&error).body())),
    }
}

fn sse_frame(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
