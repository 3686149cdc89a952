//! Files that a program names to go out with its result. The names are claims: the host looks for itself what is there.

use serde::{Deserialize, Serialize};

use crate::bounded::Text;
use crate::codec::Unfit;
use crate::turn::OutOfTurn;

/// The most files that one execution names.
pub const EMITS_MAX: usize = 64;

/// The most bytes of a path below the workspace.
const EMIT_PATH: usize = 4096;

/// The most bytes of a media type.
const MEDIA_TYPE: usize = 127;

/// A file that is to go out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emit {
    /// Where it is: names below the workspace, joined by `/`.
    pub path: Text<EMIT_PATH>,
    /// What it is, such as `text/csv`.
    pub media_type: Text<MEDIA_TYPE>,
}

impl Emit {
    /// The file at `path`, if both are as they must be.
    pub fn new(path: &str, media_type: &str) -> Result<Self, Unfit> {
        let emit = Self {
            path: Text::try_from(path).map_err(|_| Unfit::Path)?,
            media_type: Text::try_from(media_type).map_err(|_| Unfit::MediaType)?,
        };
        emit.check().map(|()| emit)
    }

    pub(crate) fn check(&self) -> Result<(), Unfit> {
        let plain = |name: &str| !matches!(name, "" | "." | "..") && !name.chars().any(char::is_control);
        if !self.path.split('/').all(plain) {
            return Err(Unfit::Path);
        }
        if !is_media_type(&self.media_type) {
            return Err(Unfit::MediaType);
        }
        Ok(())
    }
}

/// Whether a text is a media type in its one form: two names in lower case, without parameters.
fn is_media_type(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let name = |name: &str| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(word) && bytes.all(|byte| word(byte) || b"!#$&^_.+-".contains(&byte))
    };
    text.len() <= MEDIA_TYPE && text.split_once('/').is_some_and(|(kind, one)| name(kind) && name(one))
}

/// The host's view of how many files an execution may still name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emits {
    left: usize,
}

impl Emits {
    /// Of code.
    pub fn of_code() -> Self {
        Self { left: EMITS_MAX }
    }

    /// Of what names none: a program or a script.
    pub fn none() -> Self {
        Self { left: 0 }
    }

    /// The child named one.
    pub fn emit(&mut self) -> Result<(), OutOfTurn> {
        self.left = self.left.checked_sub(1).ok_or(OutOfTurn::TooManyEmits)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
