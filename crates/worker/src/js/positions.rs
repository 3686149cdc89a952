//! Maps places in the text that ran back to places in the text that was written.
use std::fmt::Write as _;

/// Turns byte offsets of a text into lines and columns.
#[derive(Debug)]
pub(super) struct LineIndex<'a> {
    text: &'a str,
}

impl<'a> LineIndex<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        LineIndex { text }
    }

    /// The line and column of a byte offset, both from 1; columns count characters.
    pub(super) fn position(&self, offset: u32) -> (u32, u32) {
        let mut end = usize::try_from(offset).unwrap_or(usize::MAX).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &self.text[..end];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count();
        let column = before[start..].chars().count();
        (to_u32(line + 1), to_u32(column + 1))
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[derive(Debug, Clone, Copy)]
struct PositionMapping {
    ran: (u32, u32),
    written: (u32, u32),
}

/// A flattened source map, sorted by place in the text that ran. Numbers are from 0 inside, and from 1 in its functions.
#[derive(Debug, Default)]
pub(super) struct SourceMap {
    mappings: Vec<PositionMapping>,
}

impl SourceMap {
    /// Builds the map from tokens `(ran line, ran column, written line, written column)`, all from 0.
    pub(super) fn new(tokens: impl Iterator<Item = (u32, u32, u32, u32)>) -> Self {
        let mut mappings: Vec<_> = tokens
            .map(|(ran_line, ran_column, line, column)| PositionMapping {
                ran: (ran_line, ran_column),
                written: (line, column),
            })
            .collect();
        mappings.sort_by_key(|mapping| mapping.ran);
        SourceMap { mappings }
    }

    /// The written place for a place that ran. Without a mapping the place stays as it is.
    pub(super) fn original(&self, line: u32, column: u32) -> (u32, u32) {
        let ran = (line.saturating_sub(1), column.saturating_sub(1));
        let after = self.mappings.partition_point(|mapping| mapping.ran <= ran);
        let nearest = after
            .checked_sub(1)
            .and_then(|index| self.mappings.get(index))
            .filter(|mapping| mapping.ran.0 == ran.0)
            .or_else(|| self.mappings.get(after).filter(|mapping| mapping.ran.0 == ran.0));
        match nearest {
            Some(mapping) => (mapping.written.0 + 1, mapping.written.1 + 1),
            None => (line, column),
        }
    }
}

/// A line of an engine's stack trace.
#[derive(Debug, PartialEq, Eq)]
enum StackFrame<'a> {
    Program { function: &'a str, line: u32, column: u32 },
    Ours,
    Other(&'a str),
}

/// A stack trace as its reader sees it, with the place of the error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MappedStack {
    /// Lines of the form `    at name (file:line:column)`, each ended by a newline.
    pub(super) text: String,
    /// The line and column of the innermost place in the program.
    pub(super) place: Option<(u32, u32)>,
}

/// Parses an engine's stack, drops our own frames, and maps the program's frames to the original source.
pub(super) fn map_stack<'p>(stack: &str, file: &str, positions: impl Fn() -> &'p SourceMap) -> MappedStack {
    let mut trace = MappedStack::default();
    for line in stack.lines() {
        match parse_frame(line, file) {
            StackFrame::Program { function, line, column } => {
                let (line, column) = positions().original(line, column);
                trace.place.get_or_insert((line, column));
                let name = if matches!(function, "" | "<anonymous>" | "<module>") {
                    String::new()
                } else {
                    format!("{function} ")
                };
                let place = format!("{file}:{line}:{column}");
                let written = if name.is_empty() {
                    writeln!(trace.text, "    at {place}")
                } else {
                    writeln!(trace.text, "    at {name}({place})")
                };
                debug_assert!(written.is_ok(), "writing to a string cannot fail");
            }
            StackFrame::Ours => {}
            StackFrame::Other(text) => {
                trace.text.push_str(text);
                trace.text.push('\n');
            }
        }
    }
    trace
}

fn parse_frame<'a>(line: &'a str, file: &str) -> StackFrame<'a> {
    let Some(rest) = line.trim_start().strip_prefix("at ") else {
        return StackFrame::Other(line);
    };
    let (function, place) = match rest.split_once(" (") {
        Some((function, place)) => (function, place.strip_suffix(')').unwrap_or(place)),
        None => ("", rest),
    };
    if place.starts_with(super::prelude::FILE_PREFIX) {
        return StackFrame::Ours;
    }
    let parsed = place
        .strip_prefix(file)
        .and_then(|rest| rest.strip_prefix(':'))
        .and_then(|rest| {
            let (line, column) = rest.split_once(':')?;
            Some((line.parse().ok()?, column.parse().ok()?))
        });
    match parsed {
        Some((line, column)) => StackFrame::Program { function, line, column },
        None => StackFrame::Other(line),
    }
}

#[cfg(test)]
mod tests;
