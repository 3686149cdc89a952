//! The end of an execution, for people: its value, what went wrong and by which rule, what was cut, what was tried.

use std::collections::BTreeMap;

use ringfence_engine::{Execution, FileReport, ViolationReport};
use ringfence_policy::visible;
use ringfence_sandbox::LeftBehind;
use serde_json::value::RawValue;

use super::{Printer, bytes, count, escape, layout};
use crate::fault::Fault;

/// Attempts that are listed one by one; the journal has all.
const MOST_LISTED: usize = 8;
/// A program that prints so many times its limit is ended, so one that was not has printed less.
const FLOOD: u64 = 16;
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
        self.truncation(execution, around.output_limit);
        if let Some(out) = around.out {
            self.violations(execution.violations.iter().filter(|one| one.kind != "file"));
            if !execution.files.is_empty() {
                let files = count(execution.files.len() as u64, "file");
                self.notice(&format!("{files} copied to `{}`", out.display()));
            }
            self.left_behind(&execution.left_behind);
        } else {
            self.violations(&execution.violations);
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

    /// What of its output is missing, by which rule, and what helps. Never silenced: who reads a part must not take it for all.
    pub(crate) fn truncation(&self, execution: &Execution, output_limit: u64) {
        let (cut, whole) = (execution.truncated, execution.whole.as_deref());
        let is_ended = execution
            .error
            .as_ref()
            .is_some_and(|error| error.code == "limit.output");
        let streams = [
            ("stdout", cut.stdout, whole.is_some_and(|whole| whole.stdout.is_some())),
            ("stderr", cut.stderr, whole.is_some_and(|whole| whole.stderr.is_some())),
            ("value", cut.value, true),
        ];
        for (part, _, is_kept) in streams.into_iter().filter(|(_, is_cut, _)| *is_cut) {
            let limit = bytes(output_limit);
            let enough = bytes(output_limit.saturating_mul(FLOOD)).replace(' ', "");
            self.warning(&if is_kept {
                format!("{part} is cut in this answer: `data.return`; the answer says how much is missing, and where more of it is")
            } else if is_ended {
                format!("{part} was cut after {limit}: `proc.output`")
            } else {
                format!(
                    "{part} was cut after {limit}: `proc.output`; `--set proc.output={enough}` is enough for all of it, \
                     or write a file and take it out with `--out`"
                )
            });
        }
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

    /// What did not go to the folder, file by file, and why.
    fn left_behind(&self, left: &LeftBehind) {
        for file in left.files.iter().take(MOST_LISTED) {
            let path = visible(&file.path).replace('`', "\\u{60}");
            self.notice(&format!("`{path}` was left behind: {}; {}", file.reason, file.hint));
        }
        let more = left.files.len().saturating_sub(MOST_LISTED) as u64 + left.more;
        if more > 0 {
            let files = count(more, "more file");
            self.notice(&format!("{files} left behind; `--json` lists them"));
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
    fn violations<'a>(&self, violations: impl IntoIterator<Item = &'a ViolationReport>) {
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
            // What is said of a file quotes its name alone.
            let what = match *kind {
                "file" => (*detail).to_owned(),
                _ => format!("`{detail}`"),
            };
            self.notice(&format!("refused {kind} {what}{often}{rule}"));
        }
        if let Some(more) = times.len().checked_sub(MOST_LISTED).filter(|more| *more > 0) {
            self.notice(&format!("{more} more kinds of attempts were refused"));
        }
    }
}
