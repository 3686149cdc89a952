//! Resources to which results link: complete outputs and files, readable only by their owner.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use ringfence_engine::{Engine, RunArtifact as Kept, RunProgress, WaitError};
use ringfence_journal::Principal;
use rmcp::model::{CacheScope, ErrorData, ReadResourceResponse, ReadResourceResult, ResourceContents};
use serde_json::json;

use super::resource_uri::{ResourcePart, ResourceUri};

/// The most bytes of one resource; larger ones are available through the API or the command line.
const MAX_RESOURCE_BYTES: usize = 8 * 1024 * 1024;

/// Reads the resource with this URI.
pub(super) async fn read_resource(
    engine: &Arc<Engine>,
    who: Principal,
    uri: &str,
) -> Result<ReadResourceResponse, ErrorData> {
    let none = || ErrorData::resource_not_found(format!("there is no resource `{uri}`"), Some(json!({ "uri": uri })));
    let link = ResourceUri::parse(uri).ok_or_else(none)?;
    let (part, media_type) = match &link.part {
        ResourcePart::Stdout => (Kept::Stdout, Some("text/plain".to_owned())),
        ResourcePart::Stderr => (Kept::Stderr, Some("text/plain".to_owned())),
        ResourcePart::Value => (Kept::Value, Some("application/json".to_owned())),
        ResourcePart::Enforcement => return enforcement_resource(engine, who, &link, uri).await.ok_or_else(none),
        ResourcePart::File(path) => {
            let path = path.parse().map_err(|_| none())?;
            let media_type = engine.runs().artifact_media_type(who, link.execution, &path).await;
            (Kept::File(path), media_type)
        }
    };
    let found = engine.runs().read_artifact(who, link.execution, part).await;
    let bytes = match found {
        Ok(Some(bytes)) => bytes,
        Ok(None) | Err(WaitError::Unknown(_)) => return Err(none()),
        Err(error @ (WaitError::Forgotten { .. } | WaitError::Elsewhere(_) | WaitError::NotResumable { .. })) => {
            return Err(ErrorData::resource_not_found(error.to_string(), None));
        }
        Err(error @ WaitError::Withheld(_)) => return Err(ErrorData::invalid_params(error.to_string(), None)),
        Err(error @ WaitError::Journal(_)) => return Err(ErrorData::internal_error(error.to_string(), None)),
    };
    if bytes.len() > MAX_RESOURCE_BYTES {
        let message = format!(
            "`{uri}` has {} bytes, and at most {MAX_RESOURCE_BYTES} are read at once",
            bytes.len()
        );
        return Err(ErrorData::invalid_params(message, None));
    }
    Ok(immutable_response(resource_contents(uri, media_type, bytes)))
}

/// The enforcement of each rule in an execution that has ended.
async fn enforcement_resource(
    engine: &Arc<Engine>,
    who: Principal,
    link: &ResourceUri,
    uri: &str,
) -> Option<ReadResourceResponse> {
    let progress = engine.runs().wait(who, link.execution, Duration::ZERO).await;
    let Ok(RunProgress::Ended(Ok(execution))) = progress else {
        return None;
    };
    let bytes = serde_json::to_vec(&execution.enforcement).ok()?;
    let media_type = Some("application/json".to_owned());
    Some(immutable_response(resource_contents(uri, media_type, bytes)))
}

/// A response that never changes and is private to its owner.
fn immutable_response(contents: ResourceContents) -> ReadResourceResponse {
    let mut result = ReadResourceResult::new(vec![contents]);
    result.ttl_ms = Some(60_000);
    result.cache_scope = Some(CacheScope::Private);
    result.into()
}

fn resource_contents(uri: &str, media_type: Option<String>, bytes: Vec<u8>) -> ResourceContents {
    let mime = |otherwise: &str| Some(media_type.unwrap_or_else(|| otherwise.to_owned()));
    match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::TextResourceContents {
            uri: uri.to_owned(),
            mime_type: mime("text/plain"),
            text,
            meta: None,
        },
        Err(error) => ResourceContents::BlobResourceContents {
            uri: uri.to_owned(),
            mime_type: mime("application/octet-stream"),
            blob: base64::engine::general_purpose::STANDARD.encode(error.as_bytes()),
            meta: None,
        },
    }
}
