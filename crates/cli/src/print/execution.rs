//! The end of an execution, for people: its value, what went wrong and by which rule, what was cut, what was tried.

use std::collections::BTreeMap;

use ringfence_engine::{Execution, FileReport, ViolationReport};
use ringfence_policy::visible;
use serde_json::value::RawValue;

use super::{Printer, bytes, count, escape, layout};
use crate::fault::Fault;

/// Attempts that are listed one by one; the journal has all.
const MOST_LISTED: usize = 8;
/// Places in the source that are listed.
const MOST_PLACES: usize = 10;

/// What the printer must know besides the execution itself.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    /// Standard output ended in the middle of a line.
    pub(crate) open_line: bool,
    /// The most that is kept of each output.
    pub(crate) output_limit: u64,
    /// Where files went.
    pub(crate) out: Option<&'a std::path::Path>,
}

impl Printer {
    /// Prints what `execution` leaves to say after its output was shown.
    pub(crate) fn execution(&self, execution: &Execution, around: &Around<'_>) -> Result<(), Fault> {
        self.value(execution.value.as_deref(), around.open_line)?;
        let cut = [
            ("stdout", execution.truncated.stdout),
            ("stderr", execution.truncated.stderr),
        ];
        for (stream, _) in cut.into_iter().filter(|(_, cut)| *cut) {
            let limit = bytes(around.output_limit);
            self.notice(&format!("{stream} was cut after {limit}: `proc.output`"));
        }
        if execution.truncated.value {
            self.notice("the value was cut: `proc.output`");
        }
        self.violations(&execution.violations);
        if let Some(out) = around.out
            && !execution.files.is_empty()
        {
            let files = count(execution.files.len() as u64, "file");
            self.notice(&format!("{files} copied to `{}`", out.display()));
        }
        if around.out.is_none() {
            self.emitted(&execution.files);
        }
        if let Some(error) = &execution.error {
            self.error(&error.message, error.hint.as_deref(), error.rule.as_deref());
            for place in execution.diagnostics.iter().skip(1).take(MOST_PLACES) {
                let (file, message) = (&place.file, &place.message);
                let words = format!("  {file}:{}:{}: {message}", place.line, place.column);
                self.aside(&escape::indented(&words));
            }
        }
        let usage = execution.usage;
        let memory = bytes(usage.peak_memory_bytes);
        let (status, session) = (execution.status.name(), execution.session_id);
        let times = format!("{} ms, {} ms of cpu, {memory}", usage.wall_ms, usage.cpu_ms);
        self.detail(&format!(
            "{status}: {times}; session {session}, policy `{}`",
            execution.policy.name
        ));
        Ok(())
    }

    /// What the program wants to go out and nobody takes.
    fn emitted(&self, files: &[FileReport]) {
        for file in files.iter().filter(|file| file.emitted).take(MOST_LISTED) {
            let media_type = file.media_type.as_deref().unwrap_or_default();
            let (path, size) = (visible(&file.path), bytes(file.bytes));
            self.notice(&format!(
                "`{path}` ({media_type}, {size}) is emitted: `--out DIR` copies it out"
            ));
        }
    }

    /// A value that is not null, on a line of its own.
    fn value(&self, value: Option<&RawValue>, open_line: bool) -> Result<(), Fault> {
        let text = match value.map(RawValue::get) {
            None | Some("null") => return Ok(()),
            Some(text) if self.stdout_is_terminal() => escape::json(&layout::pretty(text)),
            Some(text) => layout::compact(text),
        };
        self.exact(&format!("{}{text}\n", if open_line { "\n" } else { "" }))
    }

    /// Each attempt once, with how often it was made.
    fn violations(&self, violations: &[ViolationReport]) {
        let mut times: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
        for one in violations {
            *times.entry((&one.kind, &one.detail, &one.rule)).or_default() += 1;
        }
        for ((kind, detail, rule), times) in times.iter().take(MOST_LISTED) {
            let often = if *times > 1 {
                format!(" ({times} times)")
            } else {
                String::new()
            };
            let rule = if rule.is_empty() {
                String::new()
            } else {
                format!(": `{rule}`")
            };
            self.notice(&format!("refused {kind} `{detail}`{often}{rule}"));
        }
        if let Some(more) = times.len().checked_sub(MOST_LISTED).filter(|more| *more > 0) {
            self.notice(&format!("{more} more kinds of attempts were refused"));
        }
    }
}
