//! The result of a Python program, as its own process reports it: parsed, truncated and never trusted.

use serde::{Deserialize, de::IgnoredAny};

use super::PythonReadError;

/// The most bytes of each text of an error.
const MAX_TEXT: usize = 16 * 1024;

/// An error as Python describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PythonError {
    /// The name of the exception's class.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text of the exception.
    pub message: String,
    /// The name of the source, if the place is known.
    pub file: Option<String>,
    /// The line, from 1, if the place is known.
    pub line: Option<u32>,
    /// The column, from 1, if the place is known.
    pub column: Option<u32>,
    /// The text of the source line, if the place is known.
    pub text: Option<String>,
    /// The call whose failure the program did not catch.
    pub call: Option<u32>,
}

/// How a Python program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PythonResult {
    /// The program ran to its end.
    Completed {
        /// The value as valid JSON; `None` for null.
        value_json: Option<String>,
    },
    /// The program raised an exception; the traceback is on its standard error.
    Failed(PythonError),
    /// The source could not be compiled.
    SyntaxError(PythonError),
    /// The program ran, but JSON cannot hold its value.
    NotJson {
        /// The problem and the part of the value that has it.
        error: PythonError,
        /// Advice on how to convert the value.
        hint: Option<String>,
    },
    /// The program imported a module that does not exist.
    ImportRefused(PythonError),
    /// The program called `sys.exit`.
    Exit {
        /// The exit code, 0 for success.
        code: u8,
    },
    /// The program did something other than its trace says.
    Diverged {
        /// How many calls it had made by then.
        calls: u32,
        /// What differed from the trace.
        message: String,
    },
}

#[derive(Deserialize)]
struct RawPythonResult {
    kind: PythonResultKind,
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
enum PythonResultKind {
    Completed,
    Failed,
    SyntaxError,
    NotJson,
    ImportRefused,
    Exit,
    Diverged,
}

impl PythonResult {
    /// Decodes the result frame of a child.
    pub fn from_frame(frame: &[u8]) -> Result<PythonResult, PythonReadError> {
        let raw: RawPythonResult = serde_json::from_slice(frame).map_err(PythonReadError::Shape)?;
        let error = raw
            .error
            .map(PythonError::truncated)
            .ok_or(PythonReadError::Missing { what: "its error" });
        let hint = raw.hint.map(truncate_text);
        Ok(match raw.kind {
            PythonResultKind::Completed => {
                if let Some(text) = &raw.value_json {
                    serde_json::from_str::<IgnoredAny>(text).map_err(PythonReadError::Shape)?;
                }
                PythonResult::Completed {
                    value_json: raw.value_json,
                }
            }
            PythonResultKind::Failed => PythonResult::Failed(error?),
            PythonResultKind::SyntaxError => PythonResult::SyntaxError(error?),
            PythonResultKind::NotJson => PythonResult::NotJson { error: error?, hint },
            PythonResultKind::ImportRefused => PythonResult::ImportRefused(error?),
            PythonResultKind::Exit => {
                let code = raw
                    .exit_code
                    .ok_or(PythonReadError::Missing { what: "its exit code" })?;
                PythonResult::Exit { code }
            }
            PythonResultKind::Diverged => PythonResult::Diverged {
                calls: raw.calls.ok_or(PythonReadError::Missing { what: "its calls" })?,
                message: truncate_text(raw.message.ok_or(PythonReadError::Missing { what: "its reason" })?),
            },
        })
    }
}

impl PythonError {
    fn truncated(self) -> Self {
        PythonError {
            kind: truncate_text(self.kind),
            message: truncate_text(self.message),
            file: self.file.map(truncate_text),
            text: self.text.map(truncate_text),
            call: self.call,
            line: self.line,
            column: self.column,
        }
    }
}

pub(super) fn truncate_text(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = text.floor_char_boundary(MAX_TEXT);
        text.truncate(end);
        text.push('…');
    }
    text
}
