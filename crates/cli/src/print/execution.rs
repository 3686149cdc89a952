//! Prints the end of an execution as text: its value, the error with its rule, truncated output and refused attempts.

use std::collections::BTreeMap;

use ringfence_engine::{Execution, FileReport, ViolationReport};
use ringfence_policy::visible;
use ringfence_sandbox::LeftBehind;
use serde_json::value::RawValue;

use super::{Printer, bytes, count, escape, layout};
use crate::fault::Fault;

/// The most refused attempts or files to list; the journal and `--json` have all.
const MOST_LISTED: usize = 8;
/// The factor over its output limit at which a program is killed, so a program that ended itself printed less.
const FLOOD: u64 = 16;
/// The most error locations in the source to list.
const MOST_PLACES: usize = 10;

/// What the printer needs to know beside the execution itself.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    /// Whether standard output ended in the middle of a line.
    pub(crate) open_line: bool,
    /// The most bytes that are kept of each output stream.
    pub(crate) output_limit: u64,
    /// The folder that files were copied to; `None` without `--out`.
    pub(crate) out: Option<&'a std::path::Path>,
}

impl Printer {
    /// Prints everything about `execution` that is not its live output.
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

    /// Warns about truncated output, with the rule and the remedy; also with `--quiet`, so that a part does not pass for
    /// the whole.
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

    /// Prints the files that the program emitted and that nothing copied out.
    fn emitted(&self, files: &[FileReport]) {
        for file in files.iter().filter(|file| file.emitted).take(MOST_LISTED) {
            let media_type = file.media_type.as_deref().unwrap_or_default();
            let (path, size) = (visible(&file.path), bytes(file.bytes));
            self.notice(&format!(
                "`{path}` ({media_type}, {size}) is emitted: `--out DIR` copies it out"
            ));
        }
    }

    /// Prints each file that was not copied to the folder, and the reason.
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

    /// Prints a value that is not null on a line of its own.
    fn value(&self, value: Option<&RawValue>, open_line: bool) -> Result<(), Fault> {
        let text = match value.map(RawValue::get) {
            None | Some("null") => return Ok(()),
            Some(text) if self.stdout_is_terminal() => escape::json(&layout::pretty(text)),
            Some(text) => layout::compact(text),
        };
        self.exact(&format!("{}{text}\n", if open_line { "\n" } else { "" }))
    }

    /// Prints each distinct attempt once, with its number of repetitions.
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
            // The detail of a file attempt already quotes the name.
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
