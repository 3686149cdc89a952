//! Sessions: list, show, stop, and change their rules.

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::routing::{delete, get, put};
use axum::{Json, response::IntoResponse, response::Response};
use http::StatusCode;
use ringfence_engine::RulesChangeError;
use ringfence_engine::storage::{ExecutionQuery, Session, SessionQuery, StopOwner, StopTarget, StoredWorkspace};
use ringfence_journal::{Principal, SessionId, SessionState, time_text};
use serde::Serialize;
use serde_json::{Value, json};

use super::openapi::{item_operation, json_operation, one_of, page_operation, text};
use super::path_segment::Segment;
use super::runs::RunListItem;
use super::{
    ApiPath, JsonResult, ListPage, ListQuery, MAX_PAGE_LIMIT, SharedApi, bad_body, bad_query, list_page, parse_id,
    read_problem,
};
use crate::http::auth::Caller;
use crate::http::problem::HttpProblem;

/// A session in a response.
#[derive(Debug, Serialize)]
struct SessionView {
    session_id: SessionId,
    state: SessionState,
    principal: Principal,
    policy: SessionPolicyView,
    backend: String,
    created: String,
    used: String,
    runs: u64,
    /// The workspace that outlives the session's process.
    workspace: Option<StoredWorkspace>,
}

#[derive(Debug, Serialize)]
struct SessionPolicyView {
    name: String,
    digest: String,
}

/// A session with its newest runs.
#[derive(Debug, Serialize)]
struct SessionWithRuns {
    #[serde(flatten)]
    session: SessionView,
    newest: Vec<RunListItem>,
}

impl From<Session> for SessionView {
    fn from(session: Session) -> SessionView {
        SessionView {
            session_id: session.id,
            state: session.state,
            principal: session.principal,
            policy: SessionPolicyView {
                name: session.policy_name,
                digest: session.policy_digest,
            },
            backend: session.backend,
            created: time_text(session.created),
            used: time_text(session.used),
            runs: session.executions,
            workspace: session.workspace,
        }
    }
}

pub(super) fn paths() -> Vec<ApiPath> {
    vec![
        ApiPath {
            route: "/api/v1/sessions",
            methods: get(list_sessions),
            operations: json!({ "get": page_operation("Sessions, newest first", "Session", &[("state", one_of(&["open", "closed", "lost"]))]) }),
        },
        ApiPath {
            route: "/api/v1/sessions/{id}",
            methods: get(show_session).delete(stop_session),
            operations: json!({
                "get": item_operation("One session, with its newest runs", "Session"),
                "delete": stops(),
            }),
        },
        ApiPath {
            route: "/api/v1/sessions/{id}/workspace",
            methods: delete(remove_workspace),
            operations: json!({
                "delete": json_operation("Remove the files that a session keeps, and end it; what runs in it is to be stopped first",
                    "200", &stands()),
            }),
        },
        ApiPath {
            route: "/api/v1/sessions/{id}/policy",
            methods: put(change_rules),
            operations: json!({ "put": changes() }),
        },
    ]
}

/// The schema of a session after it was stopped or removed.
fn stands() -> Value {
    let state = one_of(&["open", "closed", "lost", "stopping"]);
    json!({ "type": "object", "required": ["session_id", "state"], "properties": { "session_id": text(), "state": state } })
}

/// The operation that stops a session.
fn stops() -> Value {
    let mut stop = json_operation("Stop a session: everything of it dies now", "202", &stands());
    stop["responses"]["200"] = stop["responses"]["202"].clone();
    stop["responses"]["200"]["description"] = "It was over already, or nobody had it".into();
    stop
}

/// The operation that changes the rules of a session.
fn changes() -> Value {
    let summary = "Other rules for a session that runs here: the sections given (`net`, `tools`, `data`, `approvals`) \
        replace the session's, under the ceiling; answered when they are in force";
    let changed = json!({
        "type": "object",
        "required": ["session_id", "generation", "policy"],
        "properties": {
            "session_id": text(),
            "generation": { "type": "integer" },
            "policy": { "type": "object", "properties": { "name": text(), "digest": text() } },
        },
    });
    let section = json!({ "type": "object" });
    let sections = json!({
        "type": "object",
        "properties": { "net": section, "tools": section, "data": section, "approvals": section },
        "additionalProperties": false,
    });
    let mut put = json_operation(summary, "200", &changed);
    put["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": sections } } });
    put
}

/// Changes the rules of a session, for operators only. An agent requests its rules with each run.
async fn change_rules(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    body: Result<Json<Value>, JsonRejection>,
) -> JsonResult<Value> {
    let session = api.visible_session(caller, parse_id(&id)?).await?;
    let hint = "send the sections of a policy that change, as JSON: {\"tools\": {\"default\": \"deny\"}}";
    let Json(draft) = body.map_err(|rejection| bad_body(&rejection, hint))?;
    if !draft.is_object() {
        let message = "the change: expected keys with values";
        return Err(HttpProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "policy.parse", message).with_hint(hint));
    }
    match api.engine.sessions().change_rules(session.id, &draft).await {
        Ok(changed) => Ok(Json(json!({
            "session_id": session.id,
            "generation": changed.generation,
            "policy": changed.policy,
        }))),
        Err(RulesChangeError::Unknown) => {
            let message = format!("session `{}` does not run here", session.id);
            Err(HttpProblem::new(StatusCode::CONFLICT, "session.elsewhere", message)
                .with_hint("it is over, or another process runs it"))
        }
        Err(RulesChangeError::Refused(refusal)) => {
            let problem = HttpProblem::new(StatusCode::UNPROCESSABLE_ENTITY, refusal.code, refusal.message);
            let problem = refusal.rule.into_iter().fold(problem, HttpProblem::with_rule);
            Err(match refusal.hint {
                Some(hint) => problem.with_hint(hint),
                None => problem,
            })
        }
        Err(RulesChangeError::Record(error)) => Err(HttpProblem::internal(error.code(), &error)),
    }
}

async fn list_sessions(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> JsonResult<ListPage<SessionView>> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let limit = which.page_limit();
    let sessions = SessionQuery {
        state: which.state.as_deref().map(parse_state).transpose()?,
        principal: caller.visible_principal(),
        before: which.cursor_id()?,
        limit: Some(limit + 1),
    };
    let rows = api
        .engine
        .store()
        .list_sessions(sessions)
        .await
        .map_err(|error| read_problem(&error))?;
    Ok(Json(list_page(
        rows,
        limit,
        |row| row.id.to_string(),
        SessionView::from,
    )))
}

fn parse_state(text: &str) -> Result<SessionState, HttpProblem> {
    match text {
        "open" => Ok(SessionState::Open),
        "closed" => Ok(SessionState::Closed),
        "lost" => Ok(SessionState::Lost),
        _ => Err(
            HttpProblem::new(StatusCode::BAD_REQUEST, "api.query", "there is no such `state`")
                .with_hint("say `open`, `closed` or `lost`"),
        ),
    }
}

async fn show_session(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
) -> JsonResult<SessionWithRuns> {
    let session = api.visible_session(caller, parse_id(&id)?).await?;
    let newest = ExecutionQuery {
        session: Some(session.id),
        limit: Some(MAX_PAGE_LIMIT),
        ..ExecutionQuery::default()
    };
    let newest = api
        .engine
        .store()
        .list_executions(newest)
        .await
        .map_err(|error| read_problem(&error))?;
    Ok(Json(SessionWithRuns {
        session: session.into(),
        newest: newest.into_iter().map(RunListItem::from).collect(),
    }))
}

/// Removes the workspace of a session that no process uses.
async fn remove_workspace(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
) -> JsonResult<Value> {
    let session = api.visible_session(caller, parse_id(&id)?).await?;
    if session.workspace.is_none() {
        let message = format!("session `{}` keeps no files", session.id);
        return Err(HttpProblem::new(StatusCode::NOT_FOUND, "session.not_kept", message)
            .with_hint("`GET /api/v1/sessions/{id}` shows what it keeps as `workspace`"));
    }
    let removed = api.engine.workspaces().remove_workspace(session.id).await;
    if removed.map_err(|error| HttpProblem::internal(error.code(), &error))? {
        return Ok(Json(json!({ "session_id": session.id, "state": "closed" })));
    }
    let message = format!("session `{}` is in use", session.id);
    Err(HttpProblem::new(StatusCode::CONFLICT, "session.busy", message)
        .with_hint("stop it first: `DELETE /api/v1/sessions/{id}`"))
}

/// Stops a session, whether it runs in this process or in another one of this home.
async fn stop_session(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
) -> Result<Response, HttpProblem> {
    let session = api.visible_session(caller, parse_id(&id)?).await?;
    let answer =
        |status, state: &str| (status, Json(json!({ "session_id": session.id, "state": state }))).into_response();
    if session.state != SessionState::Open {
        return Ok(answer(StatusCode::OK, session.state.name()));
    }
    let target = StopTarget::Session(session.id);
    let asked = api.engine.store().request_stop(target, caller.principal).await;
    let asked = asked.map_err(|error| HttpProblem::internal(error.code(), &error))?;
    match asked.first() {
        Some((_, StopOwner::Notified)) => Ok(answer(StatusCode::ACCEPTED, "stopping")),
        // A run that waits without a process ends here.
        Some((_, StopOwner::Unowned)) => {
            let closed = api.engine.workspaces().close_orphan_session(session.id).await;
            closed.map_err(|error| HttpProblem::internal(error.code(), &error))?;
            let state = if session.workspace.is_some() { "open" } else { "closed" };
            Ok(answer(StatusCode::OK, state))
        }
        Some((_, StopOwner::Dead)) => Ok(answer(StatusCode::ACCEPTED, "lost")),
        None => Ok(answer(StatusCode::OK, "closed")),
    }
}
