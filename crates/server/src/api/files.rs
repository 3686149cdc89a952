//! Downloads of the files of a run, for callers that may see them.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use ringfence_engine::RunArtifact;
use ringfence_journal::ExecutionId;
use ringfence_policy::RelPath;
use serde_json::json;

use super::openapi::json_operation;
use super::path_segment::Segment;
use super::runs::wait_problem;
use super::{ApiPath, SharedApi, parse_id};
use crate::http::auth::Caller;
use crate::http::problem::HttpProblem;

/// The media type of a file if the program declared none.
const DEFAULT_MEDIA_TYPE: &str = "application/octet-stream";

pub(super) fn paths() -> Vec<ApiPath> {
    let summary = "A file that a run made, changed or let go out";
    let mut shown = json_operation(summary, "200", &json!(true));
    shown["responses"]["200"]["content"] = json!({ "*/*": { "schema": { "type": "string", "format": "binary" } } });
    vec![ApiPath {
        route: "/api/v1/runs/{id}/files/{*path}",
        methods: get(download_file),
        operations: json!({ "get": shown }),
    }]
}

async fn download_file(
    State(api): SharedApi,
    Extension(caller): Extension<Caller>,
    Segment((id, path)): Segment<(String, String)>,
) -> Result<Response, HttpProblem> {
    let id: ExecutionId = parse_id(&id)?;
    let none = || {
        let message = format!("run `{id}` left no such file");
        HttpProblem::new(StatusCode::NOT_FOUND, "file.unknown", message).with_hint("`files` of the run lists them")
    };
    let path: RelPath = path.parse().map_err(|_| none())?;
    let owner = api.run_owner(caller, id).await?;
    let said = api.engine.runs().artifact_media_type(owner, id, &path).await;
    let found = api
        .engine
        .runs()
        .read_artifact(owner, id, RunArtifact::File(path))
        .await;
    let bytes = found.map_err(|error| wait_problem(&error))?.ok_or_else(none)?;
    let mut response = Body::from(bytes).into_response();
    let said = said.and_then(|said| HeaderValue::try_from(said).ok());
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        said.unwrap_or(HeaderValue::from_static(DEFAULT_MEDIA_TYPE)),
    );
    // A file from a program must not run as a page of this origin.
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    Ok(response)
}
