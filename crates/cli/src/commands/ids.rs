//! Resolves ids that a person gives whole or by their beginning.

use ringfence_journal::SessionId;
use ringfence_store::{IdKind, Store};

use super::parse_session_id;
use crate::fault::{CliFault, EXIT_CHECK_FAILED};

/// The most ids to list where a beginning matches several.
const MAX_CANDIDATES: u32 = 8;
/// The length of a whole id in characters.
const ID_LENGTH: usize = 28;

/// Resolves a session by its id or by the beginning of it.
pub(crate) async fn resolve_session_id(store: &Store, text: &str) -> Result<SessionId, CliFault> {
    parse_session_id(&resolve_id(store, text, &[IdKind::Session]).await?)
}

/// Finds the one id of these kinds that begins with `text`. If none does, returns `text` unchanged, and the caller
/// reports what is wrong with it.
pub(crate) async fn resolve_id(store: &Store, text: &str, kinds: &[IdKind]) -> Result<String, CliFault> {
    let is_beginning = |kind: &&IdKind| text.starts_with(kind.prefix()) && text.len() < ID_LENGTH;
    let Some(kind) = kinds.iter().find(is_beginning) else {
        return Ok(text.to_owned());
    };
    let found = store.ids_starting_with(*kind, text, MAX_CANDIDATES + 1).await?;
    match found.as_slice() {
        [] => Ok(text.to_owned()),
        [one] => Ok(one.clone()),
        several => {
            let shown = several.iter().take(MAX_CANDIDATES as usize);
            let mut lines: Vec<String> = shown.map(|id| format!("  {id}")).collect();
            if several.len() > lines.len() {
                lines.push("  and more".to_owned());
            }
            let message = format!("several ids begin with `{text}`:\n{}", lines.join("\n"));
            Err(CliFault::internal("id.ambiguous", message)
                .with_hint("write more of it")
                .with_exit(EXIT_CHECK_FAILED))
        }
    }
}
