//! The journal as a stream of server-sent events, which resumes after any event without loss.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use ringfence_engine::storage::{JournalTail, NumberedRecord, QueryError};
use ringfence_journal::SessionId;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::openapi::stream_operation;
use super::path_segment::Segment;
use super::{ApiPath, ApiState, SharedApi, bad_query, parse_id, read_problem};
use crate::http::auth::Caller;
use crate::http::problem::HttpProblem;

/// The most event streams that are open at the same time.
pub(super) const MAX_STREAMS: usize = 64;
/// The longest time without a line on a stream.
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The most sessions whose visibility a stream caches.
const MAX_CACHED_OWNERS: usize = 10_000;
pub(super) const LAST_EVENT_ID: &str = "last-event-id";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// The number of the event after which the stream starts.
    after: Option<u64>,
}

/// The description of the stream in the document.
const ABOUT: &str =
    "Server-sent events. `id` is the event's number, `data` a record of the journal as `audit export` prints it.";

pub(super) fn paths() -> Vec<ApiPath> {
    let id = json!({ "type": "integer", "minimum": 0 });
    vec![
        ApiPath {
            route: "/api/v1/events",
            methods: get(stream_all_events),
            operations: json!({ "get": stream_operation("Everything that happens from now on, or after `Last-Event-ID`", ABOUT, &id) }),
        },
        ApiPath {
            route: "/api/v1/sessions/{id}/events",
            methods: get(stream_session_events),
            operations: json!({ "get": stream_operation("What happened in a session from its beginning, and goes on to", ABOUT, &id) }),
        },
    ]
}

async fn stream_all_events(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, HttpProblem> {
    let last = api
        .engine
        .store()
        .last_record_number()
        .await
        .map_err(|error| read_problem(&error))?;
    let after = resume_point(&headers, query, last)?.unwrap_or(last);
    event_stream(api, caller, None, after).await
}

async fn stream_session_events(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, HttpProblem> {
    let session = api.visible_session(caller, parse_id(&id)?).await?.id;
    let store = api.engine.store();
    let last = store.last_record_number().await.map_err(|error| read_problem(&error))?;
    let after = if let Some(after) = resume_point(&headers, query, last)? {
        after
    } else {
        let first = store
            .first_record_number(session)
            .await
            .map_err(|error| read_problem(&error))?;
        first.map_or(last, |first| first.saturating_sub(1))
    };
    event_stream(api, caller, Some(session), after).await
}

/// The event after which the client resumes. A number beyond the journal is refused.
fn resume_point(
    headers: &HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
    last: u64,
) -> Result<Option<u64>, HttpProblem> {
    let Query(from) = query.map_err(|rejection| bad_query(&rejection))?;
    let wrong = || {
        HttpProblem::new(
            StatusCode::BAD_REQUEST,
            "events.id",
            "`Last-Event-ID` is not an event of this journal",
        )
        .with_hint("leave it out to begin now, or use `?after=0` to begin with the first")
    };
    let after = match headers.get(LAST_EVENT_ID) {
        Some(value) => Some(
            value
                .to_str()
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(wrong)?,
        ),
        None => from.after,
    };
    match after {
        Some(after) if after > last => Err(wrong()),
        after => Ok(after),
    }
}

async fn event_stream(
    api: Arc<ApiState>,
    caller: Caller,
    only: Option<SessionId>,
    after: u64,
) -> Result<Response, HttpProblem> {
    let Ok(place) = Arc::clone(&api.streams).try_acquire_owned() else {
        return Err(HttpProblem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "events.full",
            format!("{MAX_STREAMS} streams of events are open"),
        )
        .with_hint("close one, or try again later")
        .with_retry_after(KEEPALIVE_INTERVAL));
    };
    let tail = api
        .engine
        .store()
        .tail_after(after)
        .await
        .map_err(|error| read_problem(&error))?;
    let follow = EventSubscription {
        tail,
        closing: api.closing.clone(),
        api,
        caller,
        only,
        owners: HashMap::new(),
        _place: place,
    };
    // A comment is sent at once, so that the client knows that the stream is open.
    let hello = futures::stream::once(async { Ok(Bytes::from_static(b"retry: 1000\n: hello\n\n")) });
    let events = futures::stream::unfold(Some(follow), next_page);
    let body = Body::from_stream(futures::StreamExt::chain(hello, events));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// One client that follows the journal.
struct EventSubscription {
    api: Arc<ApiState>,
    caller: Caller,
    only: Option<SessionId>,
    tail: JournalTail,
    /// Whether the caller may see the events of a session.
    owners: HashMap<SessionId, bool>,
    closing: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

async fn next_page(
    follow: Option<EventSubscription>,
) -> Option<(Result<Bytes, QueryError>, Option<EventSubscription>)> {
    let mut follow = follow?;
    let page = tokio::select! {
        biased;
        // The stream ends when the server stops, or its sender is dropped.
        _ = follow.closing.wait_for(|closing| *closing) => return None,
        page = tokio::time::timeout(KEEPALIVE_INTERVAL, follow.tail.next_page()) => page,
    };
    let text = match page {
        Err(_) => Ok(": alive\n\n".to_owned()),
        Ok(Ok(page)) => follow.page_text(page).await,
        Ok(Err(error)) => Err(error),
    };
    match text {
        Ok(text) => Some((Ok(text.into()), Some(follow))),
        Err(error) => {
            tracing::error!(%error, "a stream of events broke");
            Some((Err(error), None))
        }
    }
}

impl EventSubscription {
    async fn page_text(&mut self, page: Vec<NumberedRecord>) -> Result<String, QueryError> {
        let mut text = String::new();
        let mut hidden = None;
        for NumberedRecord { n, record } in page {
            if !self.may_see(record.session).await? {
                hidden = Some(n);
                continue;
            }
            hidden = None;
            // Writing to a string does not fail.
            let _ = write!(text, "id: {n}\nevent: record\ndata: {}\n\n", record.to_json_line());
        }
        if let Some(n) = hidden {
            // An event without data lets the client resume after the hidden ones.
            let _ = write!(text, "id: {n}\n\n");
        }
        Ok(text)
    }

    async fn may_see(&mut self, session: SessionId) -> Result<bool, QueryError> {
        if let Some(only) = self.only {
            return Ok(only == session);
        }
        if self.caller.visible_principal().is_none() {
            return Ok(true);
        }
        if let Some(known) = self.owners.get(&session) {
            return Ok(*known);
        }
        let found = self.api.engine.store().session(session).await?;
        let shows = found.is_some_and(|found| self.caller.may_see(found.principal));
        if self.owners.len() >= MAX_CACHED_OWNERS {
            self.owners.clear();
        }
        self.owners.insert(session, shows);
        Ok(shows)
    }
}
