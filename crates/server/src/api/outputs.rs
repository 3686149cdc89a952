//! Downloads of the whole output and value of a run, also if its answer is truncated. Range requests get a part.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{ACCEPT_RANGES, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RANGE};
use http::{HeaderMap, HeaderValue, StatusCode};
use ringfence_engine::RunArtifact;
use ringfence_journal::ExecutionId;
use serde_json::{Value, json};

use super::openapi::json_operation;
use super::path_segment::Segment;
use super::runs::wait_problem;
use super::{ApiPath, SharedApi, parse_id};
use crate::http::auth::Caller;
use crate::http::problem::HttpProblem;

/// An output of a run with its own path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputKind {
    Stdout,
    Stderr,
    Value,
}

impl OutputKind {
    fn artifact(self) -> RunArtifact {
        match self {
            OutputKind::Stdout => RunArtifact::Stdout,
            OutputKind::Stderr => RunArtifact::Stderr,
            OutputKind::Value => RunArtifact::Value,
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            OutputKind::Stdout | OutputKind::Stderr => "text/plain; charset=utf-8",
            OutputKind::Value => "application/json",
        }
    }
}

pub(super) fn paths() -> Vec<ApiPath> {
    let path = |at: &'static str, kind: OutputKind, summary: &str| {
        let handler = move |state: SharedApi, caller: Extension<Caller>, id: Segment<String>, headers: HeaderMap| {
            download_output(kind, state, caller, id, headers)
        };
        ApiPath {
            route: at,
            methods: get(handler),
            operations: json!({ "get": output_operation(kind, summary) }),
        }
    };
    vec![
        path(
            "/api/v1/runs/{id}/stdout",
            OutputKind::Stdout,
            "All that a run printed; `Range` asks for a part",
        ),
        path(
            "/api/v1/runs/{id}/stderr",
            OutputKind::Stderr,
            "All that a run printed as errors; `Range` asks for a part",
        ),
        path(
            "/api/v1/runs/{id}/value",
            OutputKind::Value,
            "The whole value of a run; `Range` asks for a part",
        ),
    ]
}

fn output_operation(kind: OutputKind, summary: &str) -> Value {
    let mut shown = json_operation(summary, "200", &json!(true));
    let (media_type, _) = kind.media_type().split_once(';').unwrap_or((kind.media_type(), ""));
    let content = json!({ media_type: { "schema": { "type": "string" } } });
    shown["responses"]["200"]["content"] = content.clone();
    shown["responses"]["206"] = json!({ "description": "The part that `Range` asked for", "content": content });
    let range = json!({ "type": "string", "pattern": "^bytes=" });
    shown["parameters"] = json!([{ "name": "Range", "in": "header", "schema": range }]);
    shown
}

async fn download_output(
    kind: OutputKind,
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment<String>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let id: ExecutionId = parse_id(&id)?;
    let owner = api.run_owner(caller, id).await?;
    let found = api.engine.runs().read_artifact(owner, id, kind.artifact()).await;
    let bytes = found.map_err(|error| wait_problem(&error))?.ok_or_else(|| {
        let message = format!("run `{id}` has not ended, or ended without this output");
        HttpProblem::new(StatusCode::NOT_FOUND, "output.none", message)
            .with_hint("`GET /api/v1/runs/{id}?wait=45` waits for its end")
    })?;
    let mut response = ranged_response(bytes, headers.get(RANGE));
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        return Ok(response);
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind.media_type()));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // Output of a program must not run as a page of this origin.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    Ok(response)
}

/// Responds with the bytes that a `Range` header requests. Several ranges, or units other than bytes, get the whole output.
fn ranged_response(bytes: Vec<u8>, range: Option<&HeaderValue>) -> Response {
    let total = bytes.len();
    let asked = range
        .and_then(|range| range.to_str().ok())
        .and_then(|range| http_range_header::parse_range_header(range).ok());
    let Some(asked) = asked else {
        return Body::from(bytes).into_response();
    };
    match asked.validate(total as u64).as_deref() {
        Ok([one]) => {
            let (from, to) = (*one.start(), *one.end());
            let bounds = usize::try_from(from).ok().zip(usize::try_from(to).ok());
            let part = bounds.and_then(|(from, to)| bytes.get(from..=to)).unwrap_or_default();
            let place = format!("bytes {from}-{to}/{total}");
            let mut response = (StatusCode::PARTIAL_CONTENT, Body::from(part.to_vec())).into_response();
            set_content_range(&mut response, &place);
            response
        }
        Ok(_) => Body::from(bytes).into_response(),
        Err(_) => {
            let message = format!("the output has {total} bytes, and no such part");
            let problem = HttpProblem::new(StatusCode::RANGE_NOT_SATISFIABLE, "output.range", message);
            let mut response = problem.with_hint("`Content-Range` says how long it is").into_response();
            set_content_range(&mut response, &format!("bytes */{total}"));
            response
        }
    }
}

fn set_content_range(response: &mut Response, place: &str) {
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(CONTENT_RANGE, place);
    }
}

#[cfg(test)]
mod tests;
