//! Small images that a program emits are part of the result, besides their links.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ringfence_engine::{Engine, ExecutionReport, FileReport, RunArtifact};
use ringfence_journal::Principal;
use rmcp::model::{CallToolResult, ContentBlock};

use super::truncate;

/// The most bytes of one image.
const MAX_IMAGE_BYTES: u64 = 256 * 1024;

/// Adds the images after the text of a result, as far as there is space.
pub(super) async fn add_images(
    engine: &Engine,
    who: Principal,
    execution: &ExecutionReport,
    answer: &mut CallToolResult,
) {
    let said = answer
        .structured_content
        .as_ref()
        .map_or(0, |said| said.to_string().len());
    let mut room = execution
        .most
        .unwrap_or(truncate::MAX_ANSWER_BYTES)
        .saturating_sub(said);
    let mut at = answer.content.len().min(1);
    for file in execution.files.iter().filter(|file| file.bytes <= MAX_IMAGE_BYTES) {
        let Some(kind) = file.media_type.as_deref().filter(|kind| is_supported_type(kind)) else {
            continue;
        };
        let fits = base64::encoded_len(usize::try_from(file.bytes).unwrap_or(usize::MAX), true);
        let Some(left) = fits.and_then(|bytes| room.checked_sub(bytes)) else {
            continue;
        };
        if let Some(bytes) = load_image(engine, who, execution, file).await {
            answer
                .content
                .insert(at, ContentBlock::image(STANDARD.encode(bytes), kind));
            at += 1;
            room = left;
        }
    }
}

/// The bytes of an image, if it is one and the data rules allow it. Its link states the reason otherwise.
async fn load_image(
    engine: &Engine,
    who: Principal,
    execution: &ExecutionReport,
    file: &FileReport,
) -> Option<Vec<u8>> {
    let part = RunArtifact::File(file.path.parse().ok()?);
    let bytes = engine
        .runs()
        .read_artifact(who, execution.execution_id, part)
        .await
        .ok()??;
    let kind = file.media_type.as_deref()?;
    // Text was cleaned as text, so it is never an image, whatever type it declares.
    let is_image = has_signature(kind, &bytes) && std::str::from_utf8(&bytes).is_err();
    is_image.then_some(bytes)
}

fn is_supported_type(kind: &str) -> bool {
    matches!(kind, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Whether bytes have the signature of this type of image.
fn has_signature(kind: &str, bytes: &[u8]) -> bool {
    match kind {
        "image/png" => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => bytes.starts_with(b"\xff\xd8\xff"),
        "image/gif" => bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
        "image/webp" => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
