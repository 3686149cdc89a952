//! Cursors of paged answers: opaque to the client, and valid only for the same query on the same catalog.

use thiserror::Error;

/// A cursor that was not issued by this program, or that belongs to another query or another state of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this cursor belongs to another question, or the tools have changed since; ask again without a cursor")]
pub struct BadCursor;

/// The query and catalog that a cursor is bound to.
pub(crate) struct CursorScope(blake3::Hasher);

impl CursorScope {
    /// Binds a cursor to a kind of query and to the catalog with this fingerprint.
    pub(crate) fn new(kind: &str, fingerprint: [u8; 8]) -> CursorScope {
        let mut place = CursorScope(blake3::Hasher::new());
        place.0.update(&fingerprint);
        place.with_part(kind)
    }

    /// Adds a part that must be the same for the cursor to be valid.
    pub(crate) fn with_part(mut self, part: &str) -> CursorScope {
        self.0
            .update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(part.as_bytes());
        self
    }

    /// The cursor of the page that starts at `position`.
    pub(crate) fn encode(&self, position: usize) -> String {
        format!("{position:x}-{}", self.signed_cursor(position))
    }

    /// The position at which the cursor's page starts; 0 without a cursor.
    pub(crate) fn decode(&self, cursor: Option<&str>) -> Result<usize, BadCursor> {
        let Some(cursor) = cursor else { return Ok(0) };
        let (position, _) = cursor.split_once('-').ok_or(BadCursor)?;
        let position = usize::from_str_radix(position, 16).map_err(|_| BadCursor)?;
        if self.encode(position) == cursor {
            Ok(position)
        } else {
            Err(BadCursor)
        }
    }

    fn signed_cursor(&self, position: usize) -> String {
        let mut hasher = self.0.clone();
        hasher.update(&u64::try_from(position).unwrap_or(u64::MAX).to_le_bytes());
        hasher.finalize().to_hex().get(..16).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests;
