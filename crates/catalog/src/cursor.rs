//! Where an answer goes on: opaque to whoever holds it, good for the same question to the same catalog only.

use thiserror::Error;

/// A cursor that is none of ours, or is for another question or another state of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this cursor belongs to another question, or the tools have changed since; ask again without a cursor")]
pub struct BadCursor;

/// What a cursor is for.
pub(crate) struct Place(blake3::Hasher);

impl Place {
    /// A question of this kind to a catalog of this fingerprint.
    pub(crate) fn new(kind: &str, fingerprint: [u8; 8]) -> Place {
        let mut place = Place(blake3::Hasher::new());
        place.0.update(&fingerprint);
        place.and(kind)
    }

    /// And this, which must be the same for the cursor to be good.
    pub(crate) fn and(mut self, part: &str) -> Place {
        self.0
            .update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(part.as_bytes());
        self
    }

    /// The cursor that goes on at `position`.
    pub(crate) fn write(&self, position: usize) -> String {
        format!("{position:x}-{}", self.seal(position))
    }

    /// Where a cursor goes on; 0 without one.
    pub(crate) fn read(&self, cursor: Option<&str>) -> Result<usize, BadCursor> {
        let Some(cursor) = cursor else { return Ok(0) };
        let (position, _) = cursor.split_once('-').ok_or(BadCursor)?;
        let position = usize::from_str_radix(position, 16).map_err(|_| BadCursor)?;
        if self.write(position) == cursor {
            Ok(position)
        } else {
            Err(BadCursor)
        }
    }

    fn seal(&self, position: usize) -> String {
        let mut hasher = self.0.clone();
        hasher.update(&u64::try_from(position).unwrap_or(u64::MAX).to_le_bytes());
        hasher.finalize().to_hex().get(..16).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests;
