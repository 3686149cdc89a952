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
use ringfence_engine::kept::{Numbered, ReadError, Tail};
use ringfence_journal::SessionId;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::document::stream;
use super::segment::Segment;
use super::{Api, Path, Shared, bad_query, parsed, unread};
use crate::http::auth::Caller;
use crate::http::problem::Problem;

/// The most event streams that are open at the same time.
pub(super) const MOST: usize = 64;
/// The longest time without a line on a stream.
pub(super) const ALIVE: Duration = Duration::from_secs(15);
/// The most sessions whose visibility a stream caches.
const OWNERS: usize = 10_000;
pub(super) const LAST: &str = "last-event-id";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    /// The number of the event after which the stream starts.
    after: Option<u64>,
}

/// The description of the stream in the document.
const ABOUT: &str =
    "Server-sent events. `id` is the event's number, `data` a record of the journal as `audit export` prints it.";

pub(super) fn paths() -> Vec<Path> {
    let id = json!({ "type": "integer", "minimum": 0 });
    vec![
        Path {
            at: "/api/v1/events",
            methods: get(all),
            described: json!({ "get": stream("Everything that happens from now on, or after `Last-Event-ID`", ABOUT, &id) }),
        },
        Path {
            at: "/api/v1/sessions/{id}/events",
            methods: get(of_session),
            described: json!({ "get": stream("What happened in a session from its beginning, and goes on to", ABOUT, &id) }),
        },
    ]
}

async fn all(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    query: Result<Query<From>, QueryRejection>,
) -> Result<Response, Problem> {
    let last = api.engine.store().last_record().await.map_err(|error| unread(&error))?;
    let after = asked(&headers, query, last)?.unwrap_or(last);
    follow(api, caller, None, after).await
}

async fn of_session(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    headers: HeaderMap,
    query: Result<Query<From>, QueryRejection>,
) -> Result<Response, Problem> {
    let session = api.session(caller, parsed(&id)?).await?.id;
    let store = api.engine.store();
    let last = store.last_record().await.map_err(|error| unread(&error))?;
    let after = if let Some(after) = asked(&headers, query, last)? {
        after
    } else {
        let first = store.first_record(session).await.map_err(|error| unread(&error))?;
        first.map_or(last, |first| first.saturating_sub(1))
    };
    follow(api, caller, Some(session), after).await
}

/// The event after which the client resumes. A number beyond the journal is refused.
fn asked(headers: &HeaderMap, query: Result<Query<From>, QueryRejection>, last: u64) -> Result<Option<u64>, Problem> {
    let Query(from) = query.map_err(|rejection| bad_query(&rejection))?;
    let wrong = || {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "events.id",
            "`Last-Event-ID` is not an event of this journal",
        )
        .hint("leave it out to begin now, or use `?after=0` to begin with the first")
    };
    let after = match headers.get(LAST) {
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

async fn follow(api: Arc<Api>, caller: Caller, only: Option<SessionId>, after: u64) -> Result<Response, Problem> {
    let Ok(place) = Arc::clone(&api.streams).try_acquire_owned() else {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "events.full",
            format!("{MOST} streams of events are open"),
        )
        .hint("close one, or try again later")
        .retry(ALIVE));
    };
    let tail = api
        .engine
        .store()
        .tail_after(after)
        .await
        .map_err(|error| unread(&error))?;
    let follow = Follow {
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
    let events = futures::stream::unfold(Some(follow), step);
    let body = Body::from_stream(futures::StreamExt::chain(hello, events));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// One client that follows the journal.
struct Follow {
    api: Arc<Api>,
    caller: Caller,
    only: Option<SessionId>,
    tail: Tail,
    /// Whether the caller may see the events of a session.
    owners: HashMap<SessionId, bool>,
    closing: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

async fn step(follow: Option<Follow>) -> Option<(Result<Bytes, ReadError>, Option<Follow>)> {
    let mut follow = follow?;
    let page = tokio::select! {
        biased;
        // The stream ends when the server stops, or its sender is dropped.
        _ = follow.closing.wait_for(|closing| *closing) => return None,
        page = tokio::time::timeout(ALIVE, follow.tail.next_page()) => page,
    };
    let text = match page {
        Err(_) => Ok(": alive\n\n".to_owned()),
        Ok(Ok(page)) => follow.text(page).await,
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

impl Follow {
    async fn text(&mut self, page: Vec<Numbered>) -> Result<String, ReadError> {
        let mut text = String::new();
        let mut hidden = None;
        for Numbered { n, record } in page {
            if !self.shows(record.session).await? {
                hidden = Some(n);
                continue;
            }
            hidden = None;
            // Writing to a string does not fail.
            let _ = write!(text, "id: {n}\nevent: record\ndata: {}\n\n", record.line());
        }
        if let Some(n) = hidden {
            // An event without data lets the client resume after the hidden ones.
            let _ = write!(text, "id: {n}\n\n");
        }
        Ok(text)
    }

    async fn shows(&mut self, session: SessionId) -> Result<bool, ReadError> {
        if let Some(only) = self.only {
            return Ok(only == session);
        }
        if self.caller.view().is_none() {
            return Ok(true);
        }
        if let Some(known) = self.owners.get(&session) {
            return Ok(*known);
        }
        let found = self.api.engine.store().session(session).await?;
        let shows = found.is_some_and(|found| self.caller.sees(found.principal));
        if self.owners.len() >= OWNERS {
            self.owners.clear();
        }
        self.owners.insert(session, shows);
        Ok(shows)
    }
}
