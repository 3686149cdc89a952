//! The JSON API at `/api/v1`: runs, sessions, approval requests, skills, events. An agent sees only its own; viewers and
//! operators see everything.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::routing::MethodRouter;
use axum::{Json, Router};
use http::StatusCode;
use ringfence_engine::Engine;
use ringfence_engine::kept::{ReadError, Session};
use ringfence_journal::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::http::auth::Caller;
use crate::http::problem::Problem;

mod approvals;
mod document;
mod events;
mod files;
mod live;
mod outputs;
mod run_result;
mod runs;
mod segment;
mod sessions;
mod skills;

/// The rows of a page if the request sets no limit, and the most rows of any page.
const PAGE: u32 = 50;
const MOST: u32 = 500;

/// The state that all routes share.
#[derive(Debug)]
struct Api {
    engine: Arc<Engine>,
    /// True when the server stops: event streams then end.
    closing: watch::Receiver<bool>,
    /// The permits for event streams, each of which reads the journal on its own.
    streams: Arc<Semaphore>,
}

/// A path of the API: its handlers and their description in the `OpenAPI` document.
struct Path {
    /// The route, with its parameters in braces.
    at: &'static str,
    methods: MethodRouter<Arc<Api>>,
    described: Value,
}

pub(crate) fn routes(engine: Arc<Engine>, closing: watch::Receiver<bool>) -> Router {
    let api = Arc::new(Api {
        engine,
        closing,
        streams: Arc::new(Semaphore::new(events::MOST)),
    });
    let mut router = Router::new();
    for path in paths() {
        router = router.route(path.at, path.methods);
    }
    router.with_state(api)
}

/// Every path of the API.
fn paths() -> Vec<Path> {
    let mut paths = runs::paths();
    paths.extend(files::paths());
    paths.extend(outputs::paths());
    paths.extend(live::paths());
    paths.extend(sessions::paths());
    paths.extend(approvals::paths());
    paths.extend(skills::paths());
    paths.extend(events::paths());
    paths.push(document::path());
    paths
}

/// A page of a list.
#[derive(Debug, Serialize)]
struct Page<T> {
    items: Vec<T>,
    /// The `cursor` of the next page; none on the last one.
    next: Option<String>,
}

/// The query of a list: its page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    cursor: Option<String>,
    limit: Option<u32>,
    session: Option<SessionId>,
    state: Option<String>,
}

impl Which {
    fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE).clamp(1, MOST)
    }

    /// The id of the last row of the previous page.
    fn before<T: std::str::FromStr>(&self) -> Result<Option<T>, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let parsed = cursor.parse().map_err(|_| {
            Problem::new(
                StatusCode::BAD_REQUEST,
                "api.cursor",
                "`cursor` is not one that a page gave",
            )
            .hint("give `next` of the page before, or leave it out")
        });
        parsed.map(Some)
    }
}

/// Makes a page of rows that were queried with one row more, which shows whether there is another page.
fn page<R, T>(mut rows: Vec<R>, limit: u32, id: impl Fn(&R) -> String, view: impl Fn(R) -> T) -> Page<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(id);
    Page {
        items: rows.into_iter().map(view).collect(),
        next,
    }
}

fn bad_query(rejection: &QueryRejection) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "api.query", rejection.body_text())
        .hint("`/api/v1/openapi.json` names what each path understands")
}

/// A body that cannot be read, because it has another type or does not match the hint.
fn bad_body(rejection: &JsonRejection, hint: &'static str) -> Problem {
    let is_other = matches!(rejection, JsonRejection::MissingJsonContentType(_));
    let status = if is_other {
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    } else {
        StatusCode::BAD_REQUEST
    };
    Problem::new(status, "api.body", rejection.body_text()).hint(hint)
}

fn unread(error: &ReadError) -> Problem {
    Problem::ours(error.code(), error)
}

fn parsed<T: std::str::FromStr<Err = ringfence_journal::IdError>>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: ringfence_journal::IdError| {
        Problem::new(StatusCode::BAD_REQUEST, "api.id", error.to_string()).hint("lists give ids")
    })
}

fn no_session(id: SessionId) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "session.unknown",
        format!("there is no session `{id}`"),
    )
    .hint("`GET /api/v1/sessions` lists them")
}

impl Api {
    /// A session that the caller may see. A session of another principal counts as unknown.
    async fn session(&self, caller: Caller, id: SessionId) -> Result<Session, Problem> {
        let found = self.engine.store().session(id).await.map_err(|error| unread(&error))?;
        found
            .filter(|session| caller.sees(session.principal))
            .ok_or_else(|| no_session(id))
    }
}

type Answer<T> = Result<Json<T>, Problem>;
type Shared = State<Arc<Api>>;
