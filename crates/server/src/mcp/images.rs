//! Small images that a program lets go out: the answer itself shows them, beside their links.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ringfence_engine::{Engine, Execution, FileReport, Part};
use ringfence_journal::Principal;
use rmcp::model::{CallToolResult, ContentBlock};

use super::cut;

/// The most bytes of one image.
const MOST: u64 = 256 * 1024;

/// Puts them behind the words of an answer, as far as there is room in it.
pub(super) async fn add(engine: &Engine, who: Principal, execution: &Execution, answer: &mut CallToolResult) {
    let said = answer
        .structured_content
        .as_ref()
        .map_or(0, |said| said.to_string().len());
    let mut room = execution.most.unwrap_or(cut::ANSWER).saturating_sub(said);
    let mut at = answer.content.len().min(1);
    for file in execution.files.iter().filter(|file| file.bytes <= MOST) {
        let Some(kind) = file.media_type.as_deref().filter(|kind| is_shown(kind)) else {
            continue;
        };
        let fits = base64::encoded_len(usize::try_from(file.bytes).unwrap_or(usize::MAX), true);
        let Some(left) = fits.and_then(|bytes| room.checked_sub(bytes)) else {
            continue;
        };
        if let Some(bytes) = image(engine, who, execution, file).await {
            answer
                .content
                .insert(at, ContentBlock::image(STANDARD.encode(bytes), kind));
            at += 1;
            room = left;
        }
    }
}

/// The bytes of an image, if the rules about data let it be seen and it is one. Whoever reads its link is told why not.
async fn image(engine: &Engine, who: Principal, execution: &Execution, file: &FileReport) -> Option<Vec<u8>> {
    let part = Part::File(file.path.parse().ok()?);
    let bytes = engine.artifact(who, execution.execution_id, part).await.ok()??;
    let kind = file.media_type.as_deref()?;
    // What is text was made clean as text: it is no image, whatever it says of itself.
    let is_image = begins_as(kind, &bytes) && std::str::from_utf8(&bytes).is_err();
    is_image.then_some(bytes)
}

fn is_shown(kind: &str) -> bool {
    matches!(kind, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Whether bytes begin as those of such an image do.
fn begins_as(kind: &str, bytes: &[u8]) -> bool {
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
