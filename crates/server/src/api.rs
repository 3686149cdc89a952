//! The JSON API at `/api/v1`: runs, sessions, approval requests, skills, events. An agent sees only its own; viewers and
//! operators see everything.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::routing::MethodRouter;
use axum::{Json, Router};
use http::StatusCode;
use ringfence_engine::Engine;
use ringfence_engine::storage::{QueryError, Session};
use ringfence_journal::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::http::auth::Caller;
use crate::http::problem::HttpProblem;

mod approvals;
mod events;
mod files;
mod openapi;
mod outputs;
mod path_segment;
mod run_result;
mod run_stream;
mod runs;
mod sessions;
mod skills;

/// The rows of a page if the request sets no limit, and the most rows of any page.
const DEFAULT_PAGE_LIMIT: u32 = 50;
const MAX_PAGE_LIMIT: u32 = 500;

/// The state that all routes share.
#[derive(Debug)]
struct ApiState {
    engine: Arc<Engine>,
    /// True when the server stops: event streams then end.
    closing: watch::Receiver<bool>,
    /// The permits for event streams, each of which reads the journal on its own.
    streams: Arc<Semaphore>,
}

/// A path of the API: its handlers and their description in the `OpenAPI` document.
struct ApiPath {
    /// The route, with its parameters in braces.
    route: &'static str,
    methods: MethodRouter<Arc<ApiState>>,
    operations: Value,
}

pub(crate) fn api_routes(engine: Arc<Engine>, closing: watch::Receiver<bool>) -> Router {
    let api = Arc::new(ApiState {
        engine,
        closing,
        streams: Arc::new(Semaphore::new(events::MAX_STREAMS)),
    });
    let mut router = Router::new();
    for path in all_paths() {
        router = router.route(path.route, path.methods);
    }
    router.with_state(api)
}

/// Every path of the API.
fn all_paths() -> Vec<ApiPath> {
    let mut paths = runs::paths();
    paths.extend(files::paths());
    paths.extend(outputs::paths());
    paths.extend(run_stream::paths());
    paths.extend(sessions::paths());
    paths.extend(approvals::paths());
    paths.extend(skills::paths());
    paths.extend(events::paths());
    paths.push(openapi::document_path());
    paths
}

/// A page of a list.
#[derive(Debug, Serialize)]
struct ListPage<T> {
    items: Vec<T>,
    /// The `cursor` of the next page; none on the last one.
    next: Option<String>,
}

/// The query of a list: its page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    cursor: Option<String>,
    limit: Option<u32>,
    session: Option<SessionId>,
    state: Option<String>,
}

impl ListQuery {
    fn page_limit(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_PAGE_LIMIT).clamp(1, MAX_PAGE_LIMIT)
    }

    /// The id of the last row of the previous page.
    fn cursor_id<T: std::str::FromStr>(&self) -> Result<Option<T>, HttpProblem> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let parsed = cursor.parse().map_err(|_| {
            HttpProblem::new(
                StatusCode::BAD_REQUEST,
                "api.cursor",
                "`cursor` is not one that a page gave",
            )
            .with_hint("give `next` of the page before, or leave it out")
        });
        parsed.map(Some)
    }
}

/// Makes a page of rows that were queried with one row more, which shows whether there is another page.
fn list_page<R, T>(mut rows: Vec<R>, limit: u32, id: impl Fn(&R) -> String, view: impl Fn(R) -> T) -> ListPage<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(id);
    ListPage {
        items: rows.into_iter().map(view).collect(),
        next,
    }
}

fn bad_query(rejection: &QueryRejection) -> HttpProblem {
    HttpProblem::new(StatusCode::BAD_REQUEST, "api.query", rejection.body_text())
        .with_hint("`/api/v1/openapi.json` names what each path understands")
}

/// A body that cannot be read, because it has another type or does not match the hint.
fn bad_body(rejection: &JsonRejection, hint: &'static str) -> HttpProblem {
    let is_other = matches!(rejection, JsonRejection::MissingJsonContentType(_));
    let status = if is_other {
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    } else {
        StatusCode::BAD_REQUEST
    };
    HttpProblem::new(status, "api.body", rejection.body_text()).with_hint(hint)
}

fn read_problem(error: &QueryError) -> HttpProblem {
    HttpProblem::internal(error.code(), error)
}

fn parse_id<T: std::str::FromStr<Err = ringfence_journal::IdError>>(text: &str) -> Result<T, HttpProblem> {
    text.parse().map_err(|error: ringfence_journal::IdError| {
        HttpProblem::new(StatusCode::BAD_REQUEST, "api.id", error.to_string()).with_hint("lists give ids")
    })
}

fn session_not_found(id: SessionId) -> HttpProblem {
    HttpProblem::new(
        StatusCode::NOT_FOUND,
        "session.unknown",
        format!("there is no session `{id}`"),
    )
    .with_hint("`GET /api/v1/sessions` lists them")
}

impl ApiState {
    /// A session that the caller may see. A session of another principal counts as unknown.
    async fn visible_session(&self, caller: Caller, id: SessionId) -> Result<Session, HttpProblem> {
        let found = self
            .engine
            .store()
            .session(id)
            .await
            .map_err(|error| read_problem(&error))?;
        found
            .filter(|session| caller.may_see(session.principal))
            .ok_or_else(|| session_not_found(id))
    }
}

type JsonResult<T> = Result<Json<T>, HttpProblem>;
type SharedApi = State<Arc<ApiState>>;
