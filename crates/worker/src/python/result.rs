//! How a Python program ended, in its own words: parsed, cut, never believed.

use serde::{Deserialize, de::IgnoredAny};

use super::ReadError;

/// Longest text kept of an error.
const MAX_TEXT: usize = 16 * 1024;

/// An error as Python describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PythonError {
    /// The exception's class.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its text.
    pub message: String,
    /// The program's name, where the place is known.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
    /// The source line.
    pub text: Option<String>,
    /// The call whose refusal was not caught.
    pub call: Option<u32>,
}

/// How a Python program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PythonResult {
    /// It ran to its end; `None` is a value of null.
    Completed {
        /// The value; known to be JSON.
        value_json: Option<String>,
    },
    /// It raised; the traceback is on its standard error.
    Failed(PythonError),
    /// It never started.
    SyntaxError(PythonError),
    /// It ran, but JSON cannot hold its value.
    NotJson {
        /// What and where.
        error: PythonError,
        /// How to convert it.
        hint: Option<String>,
    },
    /// It imported what is not there.
    ImportRefused(PythonError),
    /// It called `sys.exit`.
    Exit {
        /// The exit code.
        code: u8,
    },
    /// It did not do what its trace says it did before.
    Diverged {
        /// Calls made until then.
        calls: u32,
        /// Where it differed.
        message: String,
    },
}

#[derive(Deserialize)]
struct RawResult {
    kind: Kind,
    #[serde(default)]
    value_json: Option<String>,
    #[serde(default)]
    exit_code: Option<u8>,
    #[serde(default)]
    error: Option<PythonError>,
    #[serde(default)]
    hint: Option<String>,
    #[serde(default)]
    calls: Option<u32>,
    #[serde(default)]
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Completed,
    Failed,
    SyntaxError,
    NotJson,
    ImportRefused,
    Exit,
    Diverged,
}

impl PythonResult {
    /// Reads a child's answer.
    pub fn from_frame(frame: &[u8]) -> Result<PythonResult, ReadError> {
        let raw: RawResult = serde_json::from_slice(frame).map_err(ReadError::Shape)?;
        let error = raw
            .error
            .map(PythonError::cut)
            .ok_or(ReadError::Missing { what: "its error" });
        let hint = raw.hint.map(cut);
        Ok(match raw.kind {
            Kind::Completed => {
                if let Some(text) = &raw.value_json {
                    serde_json::from_str::<IgnoredAny>(text).map_err(ReadError::Shape)?;
                }
                PythonResult::Completed {
                    value_json: raw.value_json,
                }
            }
            Kind::Failed => PythonResult::Failed(error?),
            Kind::SyntaxError => PythonResult::SyntaxError(error?),
            Kind::NotJson => PythonResult::NotJson { error: error?, hint },
            Kind::ImportRefused => PythonResult::ImportRefused(error?),
            Kind::Exit => {
                let code = raw.exit_code.ok_or(ReadError::Missing { what: "its exit code" })?;
                PythonResult::Exit { code }
            }
            Kind::Diverged => PythonResult::Diverged {
                calls: raw.calls.ok_or(ReadError::Missing { what: "its calls" })?,
                message: cut(raw.message.ok_or(ReadError::Missing { what: "its reason" })?),
            },
        })
    }
}

impl PythonError {
    fn cut(self) -> Self {
        PythonError {
            kind: cut(self.kind),
            message: cut(self.message),
            file: self.file.map(cut),
            text: self.text.map(cut),
            call: self.call,
            line: self.line,
            column: self.column,
        }
    }
}

pub(super) fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = text.floor_char_boundary(MAX_TEXT);
        text.truncate(end);
        text.push('…');
    }
    text
}
