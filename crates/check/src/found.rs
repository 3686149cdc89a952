//! Turns the diagnostics of a checker into the errors that the author of a program sees, in the lines of that program.

use serde::Deserialize;
use serde_json::Value;

use crate::{Kind, Location};

/// The most errors of one report; the others are dropped.
const MOST: usize = 50;
/// The maximum length of a message in bytes; a longer one is truncated.
const LONGEST: usize = 2000;
const ERROR: u64 = 1;

/// The answer to a `textDocument/diagnostic` request.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    range: Range,
    severity: Option<u64>,
    code: Option<Value>,
    message: String,
    related_information: Option<Vec<Related>>,
}

#[derive(Debug, Deserialize)]
struct Range {
    start: Position,
}

#[derive(Debug, Deserialize)]
struct Position {
    line: u32,
    character: u32,
}

#[derive(Debug, Deserialize)]
struct Related {
    message: String,
}

impl Report {
    /// Returns the errors of the report, ordered by position.
    pub(crate) fn errors(self, kind: Kind, file: &str, source: &str) -> Vec<Location> {
        let lines: Vec<&str> = source.split('\n').collect();
        let blocking = |item: &Item| item.severity.unwrap_or(ERROR) == ERROR && !item.is_allowed(kind);
        let mut errors: Vec<Location> = self
            .items
            .into_iter()
            .filter(blocking)
            .map(|item| item.located(kind, file, &lines))
            .collect();
        errors.sort_by_key(|error| (error.line, error.column));
        errors.truncate(MOST);
        errors
    }
}

impl Item {
    /// Whether this error comes from strictness of the language that programs here do not need to meet.
    fn is_allowed(&self, kind: Kind) -> bool {
        match (kind, &self.code) {
            // A short script does not have to declare every type. The compiler's own switch for this would type `[]` as
            // an array of `never`.
            (Kind::TypeScript, Some(Value::Number(code))) => {
                code.as_u64().is_some_and(|code| (7000..7100).contains(&code))
            }
            (Kind::Python, Some(Value::String(code))) => match code.as_str() {
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

    fn located(self, kind: Kind, file: &str, lines: &[&str]) -> Location {
        let Position { line, character } = self.range.start;
        let text = usize::try_from(line).ok().and_then(|line| lines.get(line));
        let column = text.map_or(character, |text| characters(text, character));
        let code = match self.code {
            Some(Value::Number(code)) if kind == Kind::TypeScript => format!("TS{code}"),
            Some(Value::String(code)) => clean(&code),
            _ => "error".to_owned(),
        };
        // The text after an empty line explains how to configure the checker.
        let mut message = clean(self.message.split("\n\n").next().unwrap_or_default());
        for related in self.related_information.unwrap_or_default() {
            if related.message.starts_with("The expected type comes from") {
                message.push('\n');
                message.push_str(&clean(&related.message));
            }
        }
        Location {
            file: file.to_owned(),
            line: line.saturating_add(1),
            column: column.saturating_add(1),
            code,
            message: cut(message),
        }
    }
}

/// The number of characters of `text` before its UTF-16 unit `units`.
fn characters(text: &str, units: u32) -> u32 {
    let mut left = u64::from(units);
    let before = text.chars().take_while(|character| {
        let enters = left > 0;
        left = left.saturating_sub(character.len_utf16() as u64);
        enters
    });
    u32::try_from(before.count()).unwrap_or(u32::MAX)
}

fn clean(text: &str) -> String {
    text.chars().filter(|one| *one == '\n' || !one.is_control()).collect()
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
