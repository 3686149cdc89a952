//! Sessions: list, show, stop, and change their rules.

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::routing::{delete, get, put};
use axum::{Json, response::IntoResponse, response::Response};
use http::StatusCode;
use ringfence_engine::ChangeError;
use ringfence_engine::kept::{Executions, Owner, Session, Sessions, Target, Workspace};
use ringfence_journal::{Principal, SessionId, SessionState};
use serde::Serialize;
use serde_json::{Value, json};

use super::document::{described, list, one, one_of, text};
use super::runs::Row;
use super::segment::Segment;
use super::{Answer, MOST, Page, Path, Shared, Which, bad_body, bad_query, page, parsed, unread};
use crate::http::auth::Caller;
use crate::http::problem::Problem;

/// A session in a response.
#[derive(Debug, Serialize)]
struct View {
    session_id: SessionId,
    state: SessionState,
    principal: Principal,
    policy: Policy,
    backend: String,
    created: String,
    used: String,
    runs: u64,
    /// The workspace that outlives the session's process.
    workspace: Option<Workspace>,
}

#[derive(Debug, Serialize)]
struct Policy {
    name: String,
    digest: String,
}

/// A session with its newest runs.
#[derive(Debug, Serialize)]
struct Whole {
    #[serde(flatten)]
    session: View,
    newest: Vec<Row>,
}

impl From<Session> for View {
    fn from(session: Session) -> View {
        View {
            session_id: session.id,
            state: session.state,
            principal: session.principal,
            policy: Policy {
                name: session.policy_name,
                digest: session.policy_digest,
            },
            backend: session.backend,
            created: session.created.to_string(),
            used: session.used.to_string(),
            runs: session.executions,
            workspace: session.workspace,
        }
    }
}

pub(super) fn paths() -> Vec<Path> {
    vec![
        Path {
            at: "/api/v1/sessions",
            methods: get(all),
            described: json!({ "get": list("Sessions, newest first", "Session", &[("state", one_of(&["open", "closed", "lost"]))]) }),
        },
        Path {
            at: "/api/v1/sessions/{id}",
            methods: get(show).delete(stop),
            described: json!({
                "get": one("One session, with its newest runs", "Session"),
                "delete": stops(),
            }),
        },
        Path {
            at: "/api/v1/sessions/{id}/workspace",
            methods: delete(remove),
            described: json!({
                "delete": described("Remove the files that a session keeps, and end it; what runs in it is to be stopped first",
                    "200", &stands()),
            }),
        },
        Path {
            at: "/api/v1/sessions/{id}/policy",
            methods: put(change),
            described: json!({ "put": changes() }),
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
    let mut stop = described("Stop a session: everything of it dies now", "202", &stands());
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
    let mut put = described(summary, "200", &changed);
    put["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": sections } } });
    put
}

/// Changes the rules of a session, for operators only. An agent requests its rules with each run.
async fn change(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    body: Result<Json<Value>, JsonRejection>,
) -> Answer<Value> {
    let session = api.session(caller, parsed(&id)?).await?;
    let hint = "send the sections of a policy that change, as JSON: {\"tools\": {\"default\": \"deny\"}}";
    let Json(draft) = body.map_err(|rejection| bad_body(&rejection, hint))?;
    if !draft.is_object() {
        let message = "the change: expected keys with values";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "policy.parse", message).hint(hint));
    }
    match api.engine.change_rules(session.id, &draft).await {
        Ok(changed) => Ok(Json(json!({
            "session_id": session.id,
            "generation": changed.generation,
            "policy": changed.policy,
        }))),
        Err(ChangeError::Unknown) => {
            let message = format!("session `{}` does not run here", session.id);
            Err(Problem::new(StatusCode::CONFLICT, "session.elsewhere", message)
                .hint("it is over, or another process runs it"))
        }
        Err(ChangeError::Refused(refusal)) => {
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, refusal.code, refusal.message);
            let problem = refusal.rule.into_iter().fold(problem, Problem::rule);
            Err(match refusal.hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            })
        }
        Err(ChangeError::Record(error)) => Err(Problem::ours(error.code(), &error)),
    }
}

async fn all(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    query: Result<Query<Which>, QueryRejection>,
) -> Answer<Page<View>> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let limit = which.limit();
    let sessions = Sessions {
        state: which.state.as_deref().map(state).transpose()?,
        principal: caller.view(),
        before: which.before()?,
        limit: Some(limit + 1),
    };
    let rows = api
        .engine
        .store()
        .sessions(sessions)
        .await
        .map_err(|error| unread(&error))?;
    Ok(Json(page(rows, limit, |row| row.id.to_string(), View::from)))
}

fn state(text: &str) -> Result<SessionState, Problem> {
    match text {
        "open" => Ok(SessionState::Open),
        "closed" => Ok(SessionState::Closed),
        "lost" => Ok(SessionState::Lost),
        _ => Err(
            Problem::new(StatusCode::BAD_REQUEST, "api.query", "there is no such `state`")
                .hint("say `open`, `closed` or `lost`"),
        ),
    }
}

async fn show(State(api): Shared, Extension(caller): Extension<Caller>, Segment(id): Segment<String>) -> Answer<Whole> {
    let session = api.session(caller, parsed(&id)?).await?;
    let newest = Executions {
        session: Some(session.id),
        limit: Some(MOST),
        ..Executions::default()
    };
    let newest = api
        .engine
        .store()
        .executions_of(newest)
        .await
        .map_err(|error| unread(&error))?;
    Ok(Json(Whole {
        session: session.into(),
        newest: newest.into_iter().map(Row::from).collect(),
    }))
}

/// Removes the workspace of a session that no process uses.
async fn remove(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
) -> Answer<Value> {
    let session = api.session(caller, parsed(&id)?).await?;
    if session.workspace.is_none() {
        let message = format!("session `{}` keeps no files", session.id);
        return Err(Problem::new(StatusCode::NOT_FOUND, "session.not_kept", message)
            .hint("`GET /api/v1/sessions/{id}` shows what it keeps as `workspace`"));
    }
    let removed = api.engine.remove_kept(session.id).await;
    if removed.map_err(|error| Problem::ours(error.code(), &error))? {
        return Ok(Json(json!({ "session_id": session.id, "state": "closed" })));
    }
    let message = format!("session `{}` is in use", session.id);
    Err(Problem::new(StatusCode::CONFLICT, "session.busy", message)
        .hint("stop it first: `DELETE /api/v1/sessions/{id}`"))
}

/// Stops a session, whether it runs in this process or in another one of this home.
async fn stop(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
) -> Result<Response, Problem> {
    let session = api.session(caller, parsed(&id)?).await?;
    let answer =
        |status, state: &str| (status, Json(json!({ "session_id": session.id, "state": state }))).into_response();
    if session.state != SessionState::Open {
        return Ok(answer(StatusCode::OK, session.state.name()));
    }
    let target = Target::Session(session.id);
    let asked = api.engine.store().request_stop(target, caller.principal).await;
    let asked = asked.map_err(|error| Problem::ours(error.code(), &error))?;
    match asked.first() {
        Some((_, Owner::Told)) => Ok(answer(StatusCode::ACCEPTED, "stopping")),
        // A run that waits without a process ends here.
        Some((_, Owner::Nobody)) => {
            let closed = api.engine.close_orphan(session.id).await;
            closed.map_err(|error| Problem::ours(error.code(), &error))?;
            let state = if session.workspace.is_some() { "open" } else { "closed" };
            Ok(answer(StatusCode::OK, state))
        }
        Some((_, Owner::Gone)) => Ok(answer(StatusCode::ACCEPTED, "lost")),
        None => Ok(answer(StatusCode::OK, "closed")),
    }
}
