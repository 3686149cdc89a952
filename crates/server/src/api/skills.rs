//! Skills: list, show, save, remove.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use ringfence_engine::kept::Scope;
use ringfence_engine::{NewScope, SkillView, SkillWhole};
use ringfence_journal::SessionId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::document::{empty, list, one, text};
use super::segment::Segment;
use super::{Answer, Api, MOST, PAGE, Page, Path, Shared, bad_body, bad_query};
use crate::http::auth::Caller;
use crate::http::problem::Problem;
use crate::mcp::{Fault, skills};

/// The query of a list of skills.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    query: Option<String>,
    session_id: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

/// The scope and session of the skill to remove.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whose {
    scope: Option<String>,
    session_id: Option<String>,
}

/// The session in which a skill is looked up.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Where {
    session_id: Option<String>,
}

pub(super) fn paths() -> Vec<Path> {
    let mut save = one(
        "Save a skill: the same as the tool `save_skill`; an operator may save for `team`",
        "Skill",
    );
    let schema = json!({ "$ref": "#/components/schemas/SkillAsk" });
    save["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    let mut remove = empty("Remove a skill with all its versions");
    remove["parameters"] = json!([
        { "name": "scope", "in": "query", "schema": { "enum": ["user", "team", "session"] } },
        { "name": "session_id", "in": "query", "schema": { "type": "string" } },
    ]);
    let mut shown = one("One skill, with its program", "Skill");
    shown["parameters"] = json!([{ "name": "session_id", "in": "query", "schema": { "type": "string" } }]);
    vec![
        Path {
            at: "/api/v1/skills",
            methods: get(all).post(save_one),
            described: json!({
                "get": list("The skills that the caller can use, by name", "Skill", &[("query", text()), ("session_id", text())]),
                "post": save,
            }),
        },
        Path {
            at: "/api/v1/skills/{id}",
            methods: get(show).delete(remove_one),
            described: json!({ "get": shown, "delete": remove }),
        },
    ]
}

/// The schema of a skill.
pub(super) fn schema() -> Value {
    let text = text();
    json!({
        "type": "object",
        "required": ["name", "call", "description", "language", "scope", "version", "tools", "saved"],
        "properties": {
            "name": text,
            "call": { "type": "string", "description": "how programs call it" },
            "description": text,
            "language": { "enum": ["typescript", "javascript", "python", "shell"] },
            "scope": { "enum": ["user", "team", "session"] },
            "version": { "type": "integer" },
            "tools": { "type": "array", "items": text },
            "stale": { "type": "string", "description": "why it cannot be used" },
            "inputs": { "type": "object" },
            "outputs": { "type": "object" },
            "saved": { "type": "string", "format": "date-time" },
            "source": text,
            "files": { "type": "array", "items": text },
        },
    })
}

async fn all(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    query: Result<Query<Which>, QueryRejection>,
) -> Answer<Page<SkillView>> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let session = session(&api, caller, which.session_id.as_deref())?;
    let skills = api
        .engine
        .skills(caller.principal, session, which.query.as_deref())
        .await;
    let skills = skills.map_err(|error| wrong(error.into()))?;
    let limit = usize::try_from(which.limit.unwrap_or(PAGE).clamp(1, MOST)).unwrap_or(usize::MAX);
    let (page, next) = skills::page(&skills, which.cursor.as_deref(), limit).map_err(wrong)?;
    Ok(Json(Page {
        items: page.to_vec(),
        next,
    }))
}

async fn show(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment<String>,
    query: Result<Query<Where>, QueryRejection>,
) -> Answer<SkillWhole> {
    let Query(place) = query.map_err(|rejection| bad_query(&rejection))?;
    let session = session(&api, caller, place.session_id.as_deref())?;
    let found = api.engine.skill(caller.principal, session, &name).await;
    Ok(Json(found.map_err(|error| wrong(error.into()))?))
}

async fn save_one(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    body: Result<Json<serde_json::Map<String, Value>>, JsonRejection>,
) -> Answer<SkillView> {
    let hint = "send what the tool `save_skill` takes, as a JSON object";
    let Json(mut given) = body.map_err(|rejection| bad_body(&rejection, hint))?;
    let is_team = given.get("scope").is_some_and(|scope| scope == "team");
    if is_team {
        for_operators(caller)?;
        given.shift_remove("scope");
    }
    let mut new = skills::wanted(Some(given)).map_err(wrong)?;
    if is_team {
        new.scope = NewScope::Team;
    }
    let saved = api.engine.save_skill(caller.principal, new).await;
    Ok(Json(saved.map_err(|error| wrong(error.into()))?))
}

async fn remove_one(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment<String>,
    query: Result<Query<Whose>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(whose) = query.map_err(|rejection| bad_query(&rejection))?;
    let scope = match whose.scope.as_deref() {
        None | Some("user") => NewScope::User,
        Some("session") => NewScope::Session(whose.session_id),
        Some("team") => {
            for_operators(caller)?;
            NewScope::Team
        }
        Some(_) => {
            let problem = Problem::new(StatusCode::BAD_REQUEST, "api.query", "there is no such `scope`");
            return Err(problem.hint("say `user`, `team` or `session`"));
        }
    };
    let removed = api.engine.remove_skill(caller.principal, &scope, &name).await;
    removed.map_err(|error| wrong(error.into()))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The open session that the request names; `None` if it names none.
fn session(api: &Api, caller: Caller, name: Option<&str>) -> Result<Option<SessionId>, Problem> {
    let found = name.map(|name| api.engine.open_session_called(caller.principal, name));
    found.transpose().map_err(|error| wrong(error.into()))
}

/// A problem that distinguishes errors of the caller from others.
fn wrong(fault: Fault) -> Problem {
    let status = match fault.code.as_str() {
        "skill.unknown" | "session.unknown" => StatusCode::NOT_FOUND,
        "skill.busy" | "skill.quota" => StatusCode::CONFLICT,
        "skill.file" | "skill.failed" => StatusCode::INTERNAL_SERVER_ERROR,
        code if code.starts_with("arguments.") => StatusCode::BAD_REQUEST,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let mut problem = Problem::new(status, fault.code, fault.message);
    if let Some(hint) = fault.hint {
        problem = problem.hint(hint);
    }
    match fault.rule {
        Some(rule) => problem.rule(rule),
        None => problem,
    }
}

/// Only operators may change the skills of the team.
fn for_operators(caller: Caller) -> Result<(), Problem> {
    if caller.scope == Scope::Operator {
        return Ok(());
    }
    let message = "only an operator keeps skills for everybody";
    Err(Problem::new(StatusCode::FORBIDDEN, "auth.scope", message)
        .rule("auth.scope")
        .hint("save it for yourself with `scope: user`, or use a token of scope `operator`"))
}
