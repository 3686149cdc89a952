//! Turns the diagnostics of a checker into the errors that the author of a program sees, in the lines of that program.

use serde::Deserialize;
use serde_json::Value;

use crate::{CheckerKind, TypeErrorLocation};

/// The most errors of one report; the others are dropped.
const MAX_ERRORS: usize = 50;
/// The maximum length of a message in bytes; a longer one is truncated.
const MAX_MESSAGE_BYTES: usize = 2000;
const ERROR_SEVERITY: u64 = 1;

/// The answer to a `textDocument/diagnostic` request.
#[derive(Debug, Deserialize)]
pub(crate) struct DiagnosticReport {
    #[serde(default)]
    items: Vec<ReportedDiagnostic>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportedDiagnostic {
    range: DiagnosticRange,
    severity: Option<u64>,
    code: Option<Value>,
    message: String,
    related_information: Option<Vec<RelatedMessage>>,
}

#[derive(Debug, Deserialize)]
struct DiagnosticRange {
    start: DiagnosticPosition,
}

#[derive(Debug, Deserialize)]
struct DiagnosticPosition {
    line: u32,
    character: u32,
}

#[derive(Debug, Deserialize)]
struct RelatedMessage {
    message: String,
}

impl DiagnosticReport {
    /// Returns the errors of the report, ordered by position.
    pub(crate) fn errors(self, kind: CheckerKind, file: &str, source: &str) -> Vec<TypeErrorLocation> {
        let lines: Vec<&str> = source.split('\n').collect();
        let blocking = |item: &ReportedDiagnostic| {
            item.severity.unwrap_or(ERROR_SEVERITY) == ERROR_SEVERITY && !item.is_allowed(kind)
        };
        let mut errors: Vec<TypeErrorLocation> = self
            .items
            .into_iter()
            .filter(blocking)
            .map(|item| item.into_location(kind, file, &lines))
            .collect();
        errors.sort_by_key(|error| (error.line, error.column));
        errors.truncate(MAX_ERRORS);
        errors
    }
}

impl ReportedDiagnostic {
    /// Whether this error comes from strictness of the language that programs here do not need to meet.
    fn is_allowed(&self, kind: CheckerKind) -> bool {
        match (kind, &self.code) {
            // A short script does not have to declare every type. The compiler's own switch for this would type `[]` as
            // an array of `never`.
            (CheckerKind::TypeScript, Some(Value::Number(code))) => {
                code.as_u64().is_some_and(|code| (7000..7100).contains(&code))
            }
            (CheckerKind::Python, Some(Value::String(code))) => match code.as_str() {
                // The top level of a program is asynchronous here; elsewhere the interpreter reports the same error
                // before it runs.
                "invalid-syntax" => self.message.contains("outside of an asynchronous function"),
                // The interpreter resolves libraries; the checker knows only the stubs of tools.
                "import-not-found" | "unresolved-import" => !self.message.contains("`tools"),
                _ => false,
            },
            _ => false,
        }
    }

    fn into_location(self, kind: CheckerKind, file: &str, lines: &[&str]) -> TypeErrorLocation {
        let DiagnosticPosition { line, character } = self.range.start;
        let text = usize::try_from(line).ok().and_then(|line| lines.get(line));
        let column = text.map_or(character, |text| characters_before(text, character));
        let code = match self.code {
            Some(Value::Number(code)) if kind == CheckerKind::TypeScript => format!("TS{code}"),
            Some(Value::String(code)) => clean_message(&code),
            _ => "error".to_owned(),
        };
        // The text after an empty line explains how to configure the checker.
        let mut message = clean_message(self.message.split("\n\n").next().unwrap_or_default());
        for related in self.related_information.unwrap_or_default() {
            if related.message.starts_with("The expected type comes from") {
                message.push('\n');
                message.push_str(&clean_message(&related.message));
            }
        }
        TypeErrorLocation {
            file: file.to_owned(),
            line: line.saturating_add(1),
            column: column.saturating_add(1),
            code,
            message: truncate_message(message),
        }
    }
}

/// The number of characters of `text` before its UTF-16 unit `units`.
fn characters_before(text: &str, units: u32) -> u32 {
    let mut left = u64::from(units);
    let before = text.chars().take_while(|character| {
        let enters = left > 0;
        left = left.saturating_sub(character.len_utf16() as u64);
        enters
    });
    u32::try_from(before.count()).unwrap_or(u32::MAX)
}

fn clean_message(text: &str) -> String {
    text.chars().filter(|one| *one == '\n' || !one.is_control()).collect()
}

fn truncate_message(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES)
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
