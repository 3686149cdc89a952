//! Files that a program emits with its result. The paths are claims: the host itself checks what is there.

use serde::{Deserialize, Serialize};

use crate::bounded::BoundedText;
use crate::codec::InvalidMessage;
use crate::state::ProtocolViolation;

/// The most files that one execution may emit.
pub const MAX_EMITTED_FILES: usize = 64;

/// The most bytes in a path below the workspace.
const MAX_EMIT_PATH: usize = 4096;

/// The most bytes in a media type.
const MAX_MEDIA_TYPE: usize = 127;

/// A file that goes out with the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmittedFile {
    /// The path below the workspace: plain names joined by `/`.
    pub path: BoundedText<MAX_EMIT_PATH>,
    /// The media type, such as `text/csv`.
    pub media_type: BoundedText<MAX_MEDIA_TYPE>,
}

impl EmittedFile {
    /// Makes the message for the file at `path`, or fails if the path or the media type is invalid.
    pub fn new(path: &str, media_type: &str) -> Result<Self, InvalidMessage> {
        let emit = Self {
            path: BoundedText::try_from(path).map_err(|_| InvalidMessage::Path)?,
            media_type: BoundedText::try_from(media_type).map_err(|_| InvalidMessage::MediaType)?,
        };
        emit.check().map(|()| emit)
    }

    pub(crate) fn check(&self) -> Result<(), InvalidMessage> {
        let plain = |name: &str| !matches!(name, "" | "." | "..") && !name.chars().any(char::is_control);
        if !self.path.split('/').all(plain) {
            return Err(InvalidMessage::Path);
        }
        if !is_media_type(&self.media_type) {
            return Err(InvalidMessage::MediaType);
        }
        Ok(())
    }
}

/// Whether a text is a media type in its canonical form: two lower-case names, without parameters.
fn is_media_type(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let name = |name: &str| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(word) && bytes.all(|byte| word(byte) || b"!#$&^_.+-".contains(&byte))
    };
    text.len() <= MAX_MEDIA_TYPE && text.split_once('/').is_some_and(|(kind, one)| name(kind) && name(one))
}

/// The host's count of the files that an execution may still emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmitQuota {
    left: usize,
}

impl EmitQuota {
    /// The quota of code, which may emit the most files.
    pub fn for_code() -> Self {
        Self {
            left: MAX_EMITTED_FILES,
        }
    }

    /// The quota of a program or a script, which emits no files.
    pub fn none() -> Self {
        Self { left: 0 }
    }

    /// Counts one emitted file against the quota.
    pub fn count_file(&mut self) -> Result<(), ProtocolViolation> {
        self.left = self.left.checked_sub(1).ok_or(ProtocolViolation::TooManyEmits)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
