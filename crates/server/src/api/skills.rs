//! Skills: list, show, save, remove.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use ringfence_engine::storage::AccessScope;
use ringfence_engine::{NewSkillScope, SkillDetail, SkillView};
use ringfence_journal::SessionId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::openapi::{empty, item_operation, page_operation, text};
use super::path_segment::Segment;
use super::{
    ApiPath, ApiState, DEFAULT_PAGE_LIMIT, JsonResult, ListPage, MAX_PAGE_LIMIT, SharedApi, bad_body, bad_query,
};
use crate::http::auth::Caller;
use crate::http::problem::HttpProblem;
use crate::mcp::{McpFault, skills};

/// The query of a list of skills.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SkillListQuery {
    query: Option<String>,
    session_id: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

/// The scope and session of the skill to remove.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveSkillQuery {
    scope: Option<String>,
    session_id: Option<String>,
}

/// The session in which a skill is looked up.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowSkillQuery {
    session_id: Option<String>,
}

pub(super) fn paths() -> Vec<ApiPath> {
    let mut save = item_operation(
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
    let mut shown = item_operation("One skill, with its program", "Skill");
    shown["parameters"] = json!([{ "name": "session_id", "in": "query", "schema": { "type": "string" } }]);
    vec![
        ApiPath {
            route: "/api/v1/skills",
            methods: get(list_skills).post(save_skill),
            operations: json!({
                "get": page_operation("The skills that the caller can use, by name", "Skill", &[("query", text()), ("session_id", text())]),
                "post": save,
            }),
        },
        ApiPath {
            route: "/api/v1/skills/{id}",
            methods: get(show_skill).delete(remove_skill),
            operations: json!({ "get": shown, "delete": remove }),
        },
    ]
}

/// The schema of a skill.
pub(super) fn skill_schema() -> Value {
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

async fn list_skills(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    query: Result<Query<SkillListQuery>, QueryRejection>,
) -> JsonResult<ListPage<SkillView>> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let session = open_session(&api, caller, which.session_id.as_deref())?;
    let skills = api
        .engine
        .skills()
        .list(caller.principal, session, which.query.as_deref())
        .await;
    let skills = skills.map_err(|error| skill_problem(error.into()))?;
    let limit =
        usize::try_from(which.limit.unwrap_or(DEFAULT_PAGE_LIMIT).clamp(1, MAX_PAGE_LIMIT)).unwrap_or(usize::MAX);
    let (page, next) = skills::skills_page(&skills, which.cursor.as_deref(), limit).map_err(skill_problem)?;
    Ok(Json(ListPage {
        items: page.to_vec(),
        next,
    }))
}

async fn show_skill(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment<String>,
    query: Result<Query<ShowSkillQuery>, QueryRejection>,
) -> JsonResult<SkillDetail> {
    let Query(place) = query.map_err(|rejection| bad_query(&rejection))?;
    let session = open_session(&api, caller, place.session_id.as_deref())?;
    let found = api.engine.skills().find(caller.principal, session, &name).await;
    Ok(Json(found.map_err(|error| skill_problem(error.into()))?))
}

async fn save_skill(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    body: Result<Json<serde_json::Map<String, Value>>, JsonRejection>,
) -> JsonResult<SkillView> {
    let hint = "send what the tool `save_skill` takes, as a JSON object";
    let Json(mut given) = body.map_err(|rejection| bad_body(&rejection, hint))?;
    let is_team = given.get("scope").is_some_and(|scope| scope == "team");
    if is_team {
        require_operator(caller)?;
        given.shift_remove("scope");
    }
    let mut new = skills::parse_new_skill(Some(given)).map_err(skill_problem)?;
    if is_team {
        new.scope = NewSkillScope::Team;
    }
    let saved = api.engine.skills().save(caller.principal, new).await;
    Ok(Json(saved.map_err(|error| skill_problem(error.into()))?))
}

async fn remove_skill(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment<String>,
    query: Result<Query<RemoveSkillQuery>, QueryRejection>,
) -> Result<Response, HttpProblem> {
    let Query(whose) = query.map_err(|rejection| bad_query(&rejection))?;
    let scope = match whose.scope.as_deref() {
        None | Some("user") => NewSkillScope::User,
        Some("session") => NewSkillScope::Session(whose.session_id),
        Some("team") => {
            require_operator(caller)?;
            NewSkillScope::Team
        }
        Some(_) => {
            let problem = HttpProblem::new(StatusCode::BAD_REQUEST, "api.query", "there is no such `scope`");
            return Err(problem.with_hint("say `user`, `team` or `session`"));
        }
    };
    let removed = api.engine.skills().remove(caller.principal, &scope, &name).await;
    removed.map_err(|error| skill_problem(error.into()))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The open session that the request names; `None` if it names none.
fn open_session(api: &ApiState, caller: Caller, name: Option<&str>) -> Result<Option<SessionId>, HttpProblem> {
    let found = name.map(|name| api.engine.sessions().find_open_session(caller.principal, name));
    found.transpose().map_err(|error| skill_problem(error.into()))
}

/// A problem that distinguishes errors of the caller from others.
fn skill_problem(fault: McpFault) -> HttpProblem {
    let status = match fault.code.as_str() {
        "skill.unknown" | "session.unknown" => StatusCode::NOT_FOUND,
        "skill.busy" | "skill.quota" => StatusCode::CONFLICT,
        "skill.file" | "skill.failed" => StatusCode::INTERNAL_SERVER_ERROR,
        code if code.starts_with("arguments.") => StatusCode::BAD_REQUEST,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let mut problem = HttpProblem::new(status, fault.code, fault.message);
    if let Some(hint) = fault.hint {
        problem = problem.with_hint(hint);
    }
    match fault.rule {
        Some(rule) => problem.with_rule(rule),
        None => problem,
    }
}

/// Only operators may change the skills of the team.
fn require_operator(caller: Caller) -> Result<(), HttpProblem> {
    if caller.scope == AccessScope::Operator {
        return Ok(());
    }
    let message = "only an operator keeps skills for everybody";
    Err(HttpProblem::new(StatusCode::FORBIDDEN, "auth.scope", message)
        .with_rule("auth.scope")
        .with_hint("save it for yourself with `scope: user`, or use a token of scope `operator`"))
}
