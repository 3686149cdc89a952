//! One run as a stream of server-sent events: its output, its status, and its result.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use ringfence_engine::{Ending, ExecutionAnswer, Followed, Follower, OutputCursor, WaitError};
use ringfence_journal::ExecutionId;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::document::stream;
use super::events::{ALIVE, LAST, MOST};
use super::runs::{failed, gone};
use super::segment::Segment;
use super::{Api, Path, Shared, bad_query, parsed};
use crate::hint::for_client;
use crate::http::auth::Caller;
use crate::http::problem::Problem;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    /// The id of the event after which the stream starts.
    after: Option<String>,
}

/// The description of the stream in the document.
const ABOUT: &str = "Server-sent events: `output` with `{stdout, stderr}` in whole lines, `status` with `{status}`, and at last `end` with the run, \
    or `error` with a problem. The `id` of `output` is where to go on from; it takes nothing from other readers.";

pub(super) fn paths() -> Vec<Path> {
    let summary = "A run as it goes on: what it prints, where it stands, how it ended";
    let id = json!({ "type": "string", "pattern": "^[0-9]+-[0-9]+$" });
    vec![Path {
        at: "/api/v1/runs/{id}/events",
        methods: get(follow),
        described: json!({ "get": stream(summary, ABOUT, &id) }),
    }]
}

async fn follow(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    headers: HeaderMap,
    query: Result<Query<From>, QueryRejection>,
) -> Result<Response, Problem> {
    let id: ExecutionId = parsed(&id)?;
    let from = place(&headers, query)?;
    let owner = api.owner(caller, id).await?;
    let Ok(seat) = Arc::clone(&api.streams).try_acquire_owned() else {
        return Err(full());
    };
    let follower = api.engine.follow(owner, id, from).await;
    let live = Live {
        follower: follower.map_err(|error| gone(&error))?,
        closing: api.closing.clone(),
        _api: api,
        _seat: seat,
    };
    // A comment is sent at once, so that the client knows that the stream is open.
    let hello = futures::stream::once(async { Ok(Bytes::from_static(b"retry: 1000\n: hello\n\n")) });
    let events = futures::stream::unfold(Some(live), step);
    let body = Body::from_stream(futures::StreamExt::chain(hello, events));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

fn full() -> Problem {
    let message = format!("{MOST} streams of events are open");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "events.full", message)
        .hint("close one, or try again later")
        .retry(ALIVE)
}

/// The position in the output after which the client resumes.
fn place(headers: &HeaderMap, query: Result<Query<From>, QueryRejection>) -> Result<OutputCursor, Problem> {
    let Query(from) = query.map_err(|rejection| bad_query(&rejection))?;
    let given = match headers.get(LAST) {
        Some(value) => Some(value.to_str().unwrap_or_default().to_owned()),
        None => from.after,
    };
    let Some(given) = given else {
        return Ok(OutputCursor::default());
    };
    given.parse().map_err(|_| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "events.id",
            "`Last-Event-ID` is not the id of an event of this run",
        )
        .hint("leave it out to begin with the first line")
    })
}

/// One client that follows a run.
struct Live {
    follower: Follower,
    closing: watch::Receiver<bool>,
    _api: Arc<Api>,
    _seat: OwnedSemaphorePermit,
}

async fn step(live: Option<Live>) -> Option<(Result<Bytes, WaitError>, Option<Live>)> {
    let mut live = live?;
    let happened = tokio::select! {
        biased;
        // The stream ends when the server stops, or its sender is dropped.
        _ = live.closing.wait_for(|closing| *closing) => return None,
        happened = heard(&mut live.follower) => happened,
    };
    let (text, goes_on) = match happened {
        None => return None,
        Some(Ok(None)) => (": alive\n\n".to_owned(), true),
        Some(Ok(Some(Followed::Output { stdout, stderr, next }))) => {
            let data = json!({ "stdout": stdout, "stderr": stderr });
            (format!("id: {next}\nevent: output\ndata: {data}\n\n"), true)
        }
        Some(Ok(Some(Followed::Status(status)))) => (event("status", &json!({ "status": status })), true),
        Some(Ok(Some(Followed::Ended(ending)))) => (end(ending), false),
        Some(Err(error)) => (event("error", &json!(gone(&error).body())), false),
    };
    Some((Ok(text.into()), goes_on.then_some(live)))
}

/// The next change of the run, or an empty result after the keep-alive interval; `None` after the end.
async fn heard(follower: &mut Follower) -> Option<Result<Option<Followed>, WaitError>> {
    match tokio::time::timeout(ALIVE, follower.next()).await {
        Err(_) => Some(Ok(None)),
        Ok(happened) => happened.transpose().map(|happened| happened.map(Some)),
    }
}

fn end(ending: Ending) -> String {
    match ending {
        Ok(execution) => {
            let answer = ExecutionAnswer::from(&*execution).with_hint_in(for_client);
            match serde_json::to_value(answer) {
                Ok(answer) => event("end", &answer),
                Err(error) => event("error", &json!(Problem::ours("api.answer", &error).body())),
            }
        }
        Err(error) => event("error", &json!(failed(&error).body())),
    }
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
