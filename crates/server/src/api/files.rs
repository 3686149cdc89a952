//! Downloads of the files of a run, for callers that may see them.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use ringfence_engine::Part;
use ringfence_journal::ExecutionId;
use ringfence_policy::RelPath;
use serde_json::json;

use super::document::described;
use super::runs::gone;
use super::segment::Segment;
use super::{Path, Shared, parsed};
use crate::http::auth::Caller;
use crate::http::problem::Problem;

/// The media type of a file if the program declared none.
const UNSAID: &str = "application/octet-stream";

pub(super) fn paths() -> Vec<Path> {
    let summary = "A file that a run made, changed or let go out";
    let mut shown = described(summary, "200", &json!(true));
    shown["responses"]["200"]["content"] = json!({ "*/*": { "schema": { "type": "string", "format": "binary" } } });
    vec![Path {
        at: "/api/v1/runs/{id}/files/{*path}",
        methods: get(download),
        described: json!({ "get": shown }),
    }]
}

async fn download(
    State(api): Shared,
    Extension(caller): Extension<Caller>,
    Segment((id, path)): Segment<(String, String)>,
) -> Result<Response, Problem> {
    let id: ExecutionId = parsed(&id)?;
    let none = || {
        let message = format!("run `{id}` left no such file");
        Problem::new(StatusCode::NOT_FOUND, "file.unknown", message).hint("`files` of the run lists them")
    };
    let path: RelPath = path.parse().map_err(|_| none())?;
    let owner = api.owner(caller, id).await?;
    let said = api.engine.media_type(owner, id, &path).await;
    let found = api.engine.artifact(owner, id, Part::File(path)).await;
    let bytes = found.map_err(|error| gone(&error))?.ok_or_else(none)?;
    let mut response = Body::from(bytes).into_response();
    let said = said.and_then(|said| HeaderValue::try_from(said).ok());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, said.unwrap_or(HeaderValue::from_static(UNSAID)));
    // A file from a program must not run as a page of this origin.
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    Ok(response)
}
