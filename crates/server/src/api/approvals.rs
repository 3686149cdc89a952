//! Approval requests: list, show, approve, deny. Only operators answer them; an agent's access token never does.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::routing::{get, post};
use http::StatusCode;
use ringfence_engine::approvals::{self, AnswerError, ApprovalState, Approvals, Say, Shown};
use ringfence_engine::standing;
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia, Hash};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::document::{described, list, one, one_of, text};
use super::segment::Segment;
use super::{Answer, Api, Page, Path, Shared, Which, bad_body, bad_query, page, parsed, unread};
use crate::http::auth::Caller;
use crate::http::problem::Problem;

/// The most characters of a note.
const NOTE: usize = 1000;

pub(super) fn paths() -> Vec<Path> {
    let states = one_of(&["pending", "approved", "denied", "expired", "withdrawn"]);
    vec![
        Path {
            at: "/api/v1/approvals",
            methods: get(all),
            described: json!({
                "get": list("Questions to people, newest first", "Approval", &[("session", text()), ("state", states)]),
            }),
        },
        Path {
            at: "/api/v1/approvals/{id}",
            methods: get(show),
            described: json!({ "get": one("A question, and what was answered", "Approval") }),
        },
        Path {
            at: "/api/v1/approvals/{id}/approve",
            methods: post(approve),
            described: json!({ "post": answers("Let the call go on", true) }),
        },
        Path {
            at: "/api/v1/approvals/{id}/preview",
            methods: post(preview),
            described: json!({ "post": previews() }),
        },
        Path {
            at: "/api/v1/approvals/{id}/deny",
            methods: post(deny),
            described: json!({ "post": answers("Refuse the call", false) }),
        },
    ]
}

fn answers(summary: &str, approves: bool) -> Value {
    let mut asked = json!({
        "note": { "type": "string", "maxLength": NOTE, "description": "a word for whoever reads the answer" },
        "shown": { "type": "string", "description": "digest of what was looked at: the answer counts only for that" },
    });
    if approves {
        asked["scope"] = json!({ "enum": ["once", "session", "always"], "default": "once" });
        asked["where"] = conditions();
    }
    let answer = json!({
        "type": "object",
        "required": ["again", "approval"],
        "properties": {
            "again": { "type": "boolean", "description": "the same was answered before" },
            "approval": { "$ref": "#/components/schemas/Approval" },
        },
    });
    let mut described = described(summary, "200", &answer);
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

fn conditions() -> Value {
    json!({
        "type": "object",
        "description": "with scope `always`: which calls, as `where` of a rule says it; without, those with these very arguments",
    })
}

fn previews() -> Value {
    let answer = json!({
        "type": "object",
        "required": ["rule", "changes"],
        "properties": {
            "rule": { "type": "object" },
            "changes": { "type": "array", "items": { "type": "string" }, "description": "in words" },
        },
    });
    let mut described = described(
        "The rule that scope `always` would write, and what it changes",
        "200",
        &answer,
    );
    let schema = json!({ "type": "object", "properties": { "where": conditions() }, "additionalProperties": false });
    described["requestBody"] = json!({ "required": false, "content": { "application/json": { "schema": schema } } });
    described
}

/// The schema of an approval request.
pub(super) fn schema() -> Value {
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

async fn all(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    query: Result<Query<Which>, QueryRejection>,
) -> Answer<Page<Shown>> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let limit = which.limit();
    let questions = Approvals {
        principal: caller.view(),
        session: which.session,
        state: which.state.as_deref().map(state).transpose()?,
        before: which.before()?,
        limit: Some(limit + 1),
        ..Approvals::default()
    };
    let rows = approvals::list(api.engine.store(), questions).await;
    let rows = rows.map_err(|error| unread(&error))?;
    Ok(Json(page(rows, limit, |row| row.id.to_string(), |row| row)))
}

fn state(text: &str) -> Result<ApprovalState, Problem> {
    let all = [
        ApprovalState::Pending,
        ApprovalState::Approved,
        ApprovalState::Denied,
        ApprovalState::Expired,
        ApprovalState::Withdrawn,
    ];
    all.into_iter().find(|state| state.name() == text).ok_or_else(|| {
        Problem::new(StatusCode::BAD_REQUEST, "api.query", "there is no such `state`")
            .hint("say `pending`, `approved`, `denied`, `expired` or `withdrawn`")
    })
}

async fn show(State(api): Shared, Extension(caller): Extension<Caller>, Segment(id): Segment<String>) -> Answer<Shown> {
    let id = parsed(&id)?;
    let found = approvals::look(api.engine.store(), id).await;
    seen(caller, id, found.map_err(|error| unread(&error))?).map(Json)
}

/// An approval request that the caller may see. One of another principal counts as unknown.
fn seen(caller: Caller, id: ApprovalId, found: Option<Shown>) -> Result<Shown, Problem> {
    let found = found.filter(|shown| caller.sees(shown.principal));
    found.ok_or_else(|| problem(&AnswerError::Unknown(id)))
}

/// The body of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    scope: Option<String>,
    note: Option<String>,
    shown: Option<String>,
    #[serde(rename = "where")]
    when: Option<Value>,
}

/// The result of an answer.
#[derive(Debug, Serialize)]
struct Taken {
    again: bool,
    approval: Shown,
}

type Given = Result<Option<Json<Body>>, JsonRejection>;

async fn approve(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    body: Given,
) -> Answer<Taken> {
    let body = given(body)?;
    let scope = match body.scope.as_deref() {
        None | Some("once") => ApprovalScope::Once,
        Some("session") => ApprovalScope::Session,
        Some("always") => ApprovalScope::Always,
        Some(_) => {
            return Err(
                Problem::new(StatusCode::BAD_REQUEST, "api.body", "there is no such `scope`")
                    .hint("say `once`, `session` or `always`"),
            );
        }
    };
    if body.when.is_some() && scope != ApprovalScope::Always {
        let message = "`where` is for scope `always` only";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "api.body", message).hint("leave it out"));
    }
    api.answer(caller, parsed(&id)?, Some(scope), body).await
}

async fn deny(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    body: Given,
) -> Answer<Taken> {
    let body = given(body)?;
    if body.scope.is_some() || body.when.is_some() {
        let message = "a no has neither `scope` nor `where`";
        return Err(
            Problem::new(StatusCode::BAD_REQUEST, "api.body", message).hint("leave them out: a no is for this call")
        );
    }
    api.answer(caller, parsed(&id)?, None, body).await
}

/// Previews the standing rule that an approval with scope `always` would add.
async fn preview(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    body: Given,
) -> Answer<Value> {
    let (id, body) = (parsed(&id)?, given(body)?);
    if body.scope.is_some() || body.note.is_some() || body.shown.is_some() {
        let message = "a preview takes `where` only";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "api.body", message).hint("leave the rest out"));
    }
    api.approval(caller, id).await?;
    let store = api.engine.store();
    let preview = standing::preview(store, store.home(), id, body.when.as_ref()).await;
    let preview = preview.map_err(|error| problem(&error))?;
    Ok(Json(json!({ "rule": preview.rule, "changes": preview.changes })))
}

/// Reads a body that is empty or an object.
fn given(body: Given) -> Result<Body, Problem> {
    let body = match body {
        Ok(Some(Json(body))) => body,
        Ok(None) => Body::default(),
        Err(rejection) => {
            return Err(bad_body(
                &rejection,
                "send nothing, or a JSON object with `note` and `shown`",
            ));
        }
    };
    if body.note.as_ref().is_some_and(|note| note.chars().count() > NOTE) {
        let message = format!("`note` has more than {NOTE} characters");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "api.body", message).hint("say it shorter"));
    }
    Ok(body)
}

impl Api {
    async fn approval(&self, caller: Caller, id: ApprovalId) -> Result<Shown, Problem> {
        let found = approvals::show(self.engine.store(), id).await;
        seen(caller, id, found.map_err(|error| unread(&error))?)
    }

    /// Answers an approval request: a scope approves it, `None` denies it.
    async fn answer(&self, caller: Caller, id: ApprovalId, scope: Option<ApprovalScope>, body: Body) -> Answer<Taken> {
        self.approval(caller, id).await?;
        let shown: Option<Hash> = body.shown.map(|text| text.parse()).transpose().map_err(|_| {
            Problem::new(StatusCode::BAD_REQUEST, "api.body", "`shown` is not a digest")
                .hint("give `shown` of the question, as it was")
        })?;
        let say = Say {
            approve: scope.is_some(),
            scope: scope.unwrap_or(ApprovalScope::Once),
            shown,
            by: caller.principal,
            via: ApprovalVia::Api,
            note: body.note,
        };
        let store = self.engine.store();
        let settled = match scope {
            Some(ApprovalScope::Always) => standing::answer(store, store.home(), id, say, body.when.as_ref()).await,
            Some(ApprovalScope::Once | ApprovalScope::Session) | None => approvals::answer(store, id, say).await,
        };
        let settled = settled.map_err(|error| problem(&error))?;
        Ok(Json(Taken {
            again: settled.again,
            approval: settled.approval,
        }))
    }
}

fn problem(error: &AnswerError) -> Problem {
    let status = match error {
        AnswerError::Unknown(_) => StatusCode::NOT_FOUND,
        AnswerError::Conflict(_) => StatusCode::CONFLICT,
        AnswerError::Expired(_) | AnswerError::Withdrawn(_) | AnswerError::Ended(_) => StatusCode::GONE,
        AnswerError::Changed(_) => StatusCode::PRECONDITION_FAILED,
        AnswerError::Way(_) | AnswerError::Ceiling(_) => StatusCode::FORBIDDEN,
        AnswerError::Once(_) | AnswerError::Rule(_) => StatusCode::UNPROCESSABLE_ENTITY,
        AnswerError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        AnswerError::Read(_) | AnswerError::Record(_) | AnswerError::File(_) | AnswerError::Unplaced(_) => {
            return Problem::ours(error.code(), error);
        }
    };
    let hint = match error {
        AnswerError::Unknown(_) => Some("`GET /api/v1/approvals` lists them"),
        AnswerError::Changed(_) => Some("look at it again: `GET /api/v1/approvals/{id}`"),
        AnswerError::Conflict(_)
        | AnswerError::Expired(_)
        | AnswerError::Withdrawn(_)
        | AnswerError::Ended(_)
        | AnswerError::Way(_)
        | AnswerError::Ceiling(_)
        | AnswerError::Once(_)
        | AnswerError::Rule(_)
        | AnswerError::Busy
        | AnswerError::File(_)
        | AnswerError::Unplaced(_)
        | AnswerError::Read(_)
        | AnswerError::Record(_) => error.hint(),
    };
    let problem = Problem::new(status, error.code(), error.to_string());
    hint.into_iter().fold(problem, Problem::hint)
}
