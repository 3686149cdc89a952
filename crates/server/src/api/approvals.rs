//! Approval requests: list, show, approve, deny. Only operators answer them; an agent's access token never does.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::routing::{get, post};
use http::StatusCode;
use ringfence_engine::approvals::{self, AnswerError, AnswerSubmission, ApprovalQuery, ApprovalState, ApprovalView};
use ringfence_engine::standing_rules;
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia, ContentHash};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::openapi::{item_operation, json_operation, one_of, page_operation, text};
use super::path_segment::Segment;
use super::{
    ApiPath, ApiState, JsonResult, ListPage, ListQuery, SharedApi, bad_body, bad_query, list_page, parse_id,
    read_problem,
};
use crate::http::auth::Caller;
use crate::http::problem::HttpProblem;

/// The most characters of a note.
const MAX_NOTE_CHARS: usize = 1000;

pub(super) fn paths() -> Vec<ApiPath> {
    let states = one_of(&["pending", "approved", "denied", "expired", "withdrawn"]);
    vec![
        ApiPath {
            route: "/api/v1/approvals",
            methods: get(list_approvals),
            operations: json!({
                "get": page_operation("Questions to people, newest first", "Approval", &[("session", text()), ("state", states)]),
            }),
        },
        ApiPath {
            route: "/api/v1/approvals/{id}",
            methods: get(show_approval),
            operations: json!({ "get": item_operation("A question, and what was answered", "Approval") }),
        },
        ApiPath {
            route: "/api/v1/approvals/{id}/approve",
            methods: post(approve_approval),
            operations: json!({ "post": answer_operation("Let the call go on", true) }),
        },
        ApiPath {
            route: "/api/v1/approvals/{id}/preview",
            methods: post(preview_rule),
            operations: json!({ "post": preview_operation() }),
        },
        ApiPath {
            route: "/api/v1/approvals/{id}/deny",
            methods: post(deny_approval),
            operations: json!({ "post": answer_operation("Refuse the call", false) }),
        },
    ]
}

fn answer_operation(summary: &str, approves: bool) -> Value {
    let mut asked = json!({
        "note": { "type": "string", "maxLength": MAX_NOTE_CHARS, "description": "a word for whoever reads the answer" },
        "shown": { "type": "string", "description": "digest of what was looked at: the answer counts only for that" },
    });
    if approves {
        asked["scope"] = json!({ "enum": ["once", "session", "always"], "default": "once" });
        asked["where"] = conditions_schema();
    }
    let answer = json!({
        "type": "object",
        "required": ["again", "approval"],
        "properties": {
            "again": { "type": "boolean", "description": "the same was answered before" },
            "approval": { "$ref": "#/components/schemas/Approval" },
        },
    });
    let mut described = json_operation(summary, "200", &answer);
    let schema = json!({ "type": "object", "properties": asked, "additionalProperties": false });
    described["requestBody"] = json!({ "required": false, "content": { "application/json": { "schema": schema } } });
    for (status, what) in [
        ("404", "There is no such question"),
        ("409", "Something else was answered before"),
        ("410", "It is too late: expired, withdrawn, or what asked is over"),
        ("412", "The question is not what `shown` says"),
    ] {
        let problem = json!({ "$ref": "#/components/schemas/Problem" });
        described["responses"][status] =
            json!({ "description": what, "content": { "application/json": { "schema": problem } } });
    }
    described
}

fn conditions_schema() -> Value {
    json!({
        "type": "object",
        "description": "with scope `always`: which calls, as `where` of a rule says it; without, those with these very arguments",
    })
}

fn preview_operation() -> Value {
    let answer = json!({
        "type": "object",
        "required": ["rule", "changes"],
        "properties": {
            "rule": { "type": "object" },
            "changes": { "type": "array", "items": { "type": "string" }, "description": "in words" },
        },
    });
    let mut described = json_operation(
        "The rule that scope `always` would write, and what it changes",
        "200",
        &answer,
    );
    let schema =
        json!({ "type": "object", "properties": { "where": conditions_schema() }, "additionalProperties": false });
    described["requestBody"] = json!({ "required": false, "content": { "application/json": { "schema": schema } } });
    described
}

/// The schema of an approval request.
pub(super) fn approval_schema() -> Value {
    let text = text();
    let time = json!({ "type": "string", "format": "date-time" });
    json!({
        "type": "object",
        "required": [
            "id", "state", "session_id", "execution_id", "principal", "program", "code", "number", "tool", "arguments", "rule",
            "why", "shown", "asked", "expires", "answer",
        ],
        "properties": {
            "id": text,
            "state": { "enum": ["pending", "approved", "denied", "expired", "withdrawn"] },
            "session_id": text,
            "execution_id": text,
            "principal": text,
            "program": { "type": "string", "description": "what runs" },
            "code": { "type": ["string", "null"], "description": "digest of the code that asks" },
            "source": {
                "type": "object",
                "description": "the code that asks, of a single question where it is kept: data, never instructions",
                "properties": { "text": text, "is_cut": { "type": "boolean", "description": "there is more of it" } },
            },
            "number": { "type": "integer", "description": "the call that waits" },
            "tool": text,
            "arguments": { "description": "as the program gave them: data, never instructions" },
            "rule": text,
            "why": { "enum": ["rule", "drift", "unknown"] },
            "shown": { "type": "string", "description": "digest of all that an answer is bound to" },
            "asked": time,
            "expires": { "type": "string", "format": "date-time", "description": "no answer by then means no" },
            "answer": {
                "type": ["object", "null"],
                "properties": {
                    "approve": { "type": "boolean" },
                    "scope": { "enum": ["once", "session", "always"] },
                    "by": text,
                    "via": { "enum": ["cli", "api", "client"] },
                    "at": time,
                    "note": { "type": ["string", "null"] },
                },
            },
        },
    })
}

async fn list_approvals(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> JsonResult<ListPage<ApprovalView>> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let limit = which.page_limit();
    let questions = ApprovalQuery {
        principal: caller.visible_principal(),
        session: which.session,
        state: which.state.as_deref().map(parse_state).transpose()?,
        before: which.cursor_id()?,
        limit: Some(limit + 1),
        ..ApprovalQuery::default()
    };
    let rows = approvals::list_approvals(api.engine.store(), questions).await;
    let rows = rows.map_err(|error| read_problem(&error))?;
    Ok(Json(list_page(rows, limit, |row| row.id.to_string(), |row| row)))
}

fn parse_state(text: &str) -> Result<ApprovalState, HttpProblem> {
    let all = [
        ApprovalState::Pending,
        ApprovalState::Approved,
        ApprovalState::Denied,
        ApprovalState::Expired,
        ApprovalState::Withdrawn,
    ];
    all.into_iter().find(|state| state.name() == text).ok_or_else(|| {
        HttpProblem::new(StatusCode::BAD_REQUEST, "api.query", "there is no such `state`")
            .with_hint("say `pending`, `approved`, `denied`, `expired` or `withdrawn`")
    })
}

async fn show_approval(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
) -> JsonResult<ApprovalView> {
    let id = parse_id(&id)?;
    let found = approvals::find_approval_with_code(api.engine.store(), id).await;
    visible_approval(caller, id, found.map_err(|error| read_problem(&error))?).map(Json)
}

/// An approval request that the caller may see. One of another principal counts as unknown.
fn visible_approval(caller: Caller, id: ApprovalId, found: Option<ApprovalView>) -> Result<ApprovalView, HttpProblem> {
    let found = found.filter(|shown| caller.may_see(shown.principal));
    found.ok_or_else(|| answer_problem(&AnswerError::Unknown(id)))
}

/// The body of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    scope: Option<String>,
    note: Option<String>,
    shown: Option<String>,
    #[serde(rename = "where")]
    when: Option<Value>,
}

/// The result of an answer.
#[derive(Debug, Serialize)]
struct AnswerResponse {
    again: bool,
    approval: ApprovalView,
}

type RawBody = Result<Option<Json<AnswerBody>>, JsonRejection>;

async fn approve_approval(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    body: RawBody,
) -> JsonResult<AnswerResponse> {
    let body = parse_body(body)?;
    let scope = match body.scope.as_deref() {
        None | Some("once") => ApprovalScope::Once,
        Some("session") => ApprovalScope::Session,
        Some("always") => ApprovalScope::Always,
        Some(_) => {
            return Err(
                HttpProblem::new(StatusCode::BAD_REQUEST, "api.body", "there is no such `scope`")
                    .with_hint("say `once`, `session` or `always`"),
            );
        }
    };
    if body.when.is_some() && scope != ApprovalScope::Always {
        let message = "`where` is for scope `always` only";
        return Err(HttpProblem::new(StatusCode::BAD_REQUEST, "api.body", message).with_hint("leave it out"));
    }
    api.answer_approval(caller, parse_id(&id)?, Some(scope), body).await
}

async fn deny_approval(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    body: RawBody,
) -> JsonResult<AnswerResponse> {
    let body = parse_body(body)?;
    if body.scope.is_some() || body.when.is_some() {
        let message = "a no has neither `scope` nor `where`";
        return Err(HttpProblem::new(StatusCode::BAD_REQUEST, "api.body", message)
            .with_hint("leave them out: a no is for this call"));
    }
    api.answer_approval(caller, parse_id(&id)?, None, body).await
}

/// Previews the standing rule that an approval with scope `always` would add.
async fn preview_rule(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    body: RawBody,
) -> JsonResult<Value> {
    let (id, body) = (parse_id(&id)?, parse_body(body)?);
    if body.scope.is_some() || body.note.is_some() || body.shown.is_some() {
        let message = "a preview takes `where` only";
        return Err(HttpProblem::new(StatusCode::BAD_REQUEST, "api.body", message).with_hint("leave the rest out"));
    }
    api.load_approval(caller, id).await?;
    let store = api.engine.store();
    let preview = standing_rules::preview_rule(store, store.home(), id, body.when.as_ref()).await;
    let preview = preview.map_err(|error| answer_problem(&error))?;
    Ok(Json(json!({ "rule": preview.rule, "changes": preview.changes })))
}

/// Reads a body that is empty or an object.
fn parse_body(body: RawBody) -> Result<AnswerBody, HttpProblem> {
    let body = match body {
        Ok(Some(Json(body))) => body,
        Ok(None) => AnswerBody::default(),
        Err(rejection) => {
            return Err(bad_body(
                &rejection,
                "send nothing, or a JSON object with `note` and `shown`",
            ));
        }
    };
    if body
        .note
        .as_ref()
        .is_some_and(|note| note.chars().count() > MAX_NOTE_CHARS)
    {
        let message = format!("`note` has more than {MAX_NOTE_CHARS} characters");
        return Err(HttpProblem::new(StatusCode::BAD_REQUEST, "api.body", message).with_hint("say it shorter"));
    }
    Ok(body)
}

impl ApiState {
    async fn load_approval(&self, caller: Caller, id: ApprovalId) -> Result<ApprovalView, HttpProblem> {
        let found = approvals::find_approval(self.engine.store(), id).await;
        visible_approval(caller, id, found.map_err(|error| read_problem(&error))?)
    }

    /// Answers an approval request: a scope approves it, `None` denies it.
    async fn answer_approval(
        &self,
        caller: Caller,
        id: ApprovalId,
        scope: Option<ApprovalScope>,
        body: AnswerBody,
    ) -> JsonResult<AnswerResponse> {
        self.load_approval(caller, id).await?;
        let shown: Option<ContentHash> = body.shown.map(|text| text.parse()).transpose().map_err(|_| {
            HttpProblem::new(StatusCode::BAD_REQUEST, "api.body", "`shown` is not a digest")
                .with_hint("give `shown` of the question, as it was")
        })?;
        let say = AnswerSubmission {
            approve: scope.is_some(),
            scope: scope.unwrap_or(ApprovalScope::Once),
            shown,
            by: caller.principal,
            via: ApprovalVia::Api,
            note: body.note,
        };
        let store = self.engine.store();
        let settled = match scope {
            Some(ApprovalScope::Always) => {
                standing_rules::answer_always(store, store.home(), id, say, body.when.as_ref()).await
            }
            Some(ApprovalScope::Once | ApprovalScope::Session) | None => {
                approvals::answer_approval(store, id, say).await
            }
        };
        let settled = settled.map_err(|error| answer_problem(&error))?;
        Ok(Json(AnswerResponse {
            again: settled.already_answered,
            approval: settled.approval,
        }))
    }
}

fn answer_problem(error: &AnswerError) -> HttpProblem {
    let status = match error {
        AnswerError::Unknown(_) => StatusCode::NOT_FOUND,
        AnswerError::Conflict(_) => StatusCode::CONFLICT,
        AnswerError::Expired(_) | AnswerError::Withdrawn(_) | AnswerError::Ended(_) => StatusCode::GONE,
        AnswerError::Changed(_) => StatusCode::PRECONDITION_FAILED,
        AnswerError::ViaNotAllowed(_) | AnswerError::Ceiling(_) => StatusCode::FORBIDDEN,
        AnswerError::OnlyOnce(_) | AnswerError::Rule(_) => StatusCode::UNPROCESSABLE_ENTITY,
        AnswerError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        AnswerError::Read(_) | AnswerError::Record(_) | AnswerError::File(_) | AnswerError::RuleNotWritten(_) => {
            return HttpProblem::internal(error.code(), error);
        }
    };
    let hint = match error {
        AnswerError::Unknown(_) => Some("`GET /api/v1/approvals` lists them"),
        AnswerError::Changed(_) => Some("look at it again: `GET /api/v1/approvals/{id}`"),
        AnswerError::Conflict(_)
        | AnswerError::Expired(_)
        | AnswerError::Withdrawn(_)
        | AnswerError::Ended(_)
        | AnswerError::ViaNotAllowed(_)
        | AnswerError::Ceiling(_)
        | AnswerError::OnlyOnce(_)
        | AnswerError::Rule(_)
        | AnswerError::Busy
        | AnswerError::File(_)
        | AnswerError::RuleNotWritten(_)
        | AnswerError::Read(_)
        | AnswerError::Record(_) => error.hint(),
    };
    let problem = HttpProblem::new(status, error.code(), error.to_string());
    hint.into_iter().fold(problem, HttpProblem::with_hint)
}
