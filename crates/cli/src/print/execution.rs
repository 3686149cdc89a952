//! Prints the end of an execution as text: its value, the error with its rule, truncated output and refused attempts.

use std::collections::BTreeMap;

use ringfence_engine::{ExecutionReport, FileReport, ViolationReport};
use ringfence_policy::escape_invisible;
use ringfence_sandbox::UncopiedFiles;
use serde_json::value::RawValue;

use super::{Printer, byte_text, counted, escape, layout};
use crate::fault::CliFault;

/// The most refused attempts or files to list; the journal and `--json` have all.
const MAX_LISTED_VIOLATIONS: usize = 8;
/// The factor over its output limit at which a program is killed, so a program that ended itself printed less.
const OUTPUT_KILL_FACTOR: u64 = 16;
/// The most error locations in the source to list.
const MAX_LISTED_LOCATIONS: usize = 10;

/// What the printer needs to know beside the execution itself.
#[derive(Debug)]
pub(crate) struct PrintContext<'a> {
    /// Whether standard output ended in the middle of a line.
    pub(crate) is_line_open: bool,
    /// The most bytes that are kept of each output stream.
    pub(crate) output_limit: u64,
    /// The folder that files were copied to; `None` without `--out`.
    pub(crate) out: Option<&'a std::path::Path>,
}

impl Printer {
    /// Prints everything about `execution` that is not its live output.
    pub(crate) fn print_execution(
        &self,
        execution: &ExecutionReport,
        around: &PrintContext<'_>,
    ) -> Result<(), CliFault> {
        self.print_value(execution.value.as_deref(), around.is_line_open)?;
        self.print_truncation(execution, around.output_limit);
        if let Some(out) = around.out {
            self.print_violations(execution.violations.iter().filter(|one| one.kind != "file"));
            if !execution.files.is_empty() {
                let files = counted(execution.files.len() as u64, "file");
                self.notice(&format!("{files} copied to `{}`", out.display()));
            }
            self.print_left_behind(&execution.left_behind);
        } else {
            self.print_violations(&execution.violations);
            self.print_emitted(&execution.files);
        }
        if let Some(error) = &execution.error {
            self.print_error(&error.message, error.hint.as_deref(), error.rule.as_deref());
            for place in execution.diagnostics.iter().skip(1).take(MAX_LISTED_LOCATIONS) {
                let (file, message) = (&place.file, &place.message);
                let words = format!("  {file}:{}:{}: {message}", place.line, place.column);
                self.print_to_stderr(&escape::escape_indented(&words));
            }
        }
        let usage = execution.usage;
        let memory = byte_text(usage.peak_memory_bytes);
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
    pub(crate) fn print_truncation(&self, execution: &ExecutionReport, output_limit: u64) {
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
            let limit = byte_text(output_limit);
            let enough = byte_text(output_limit.saturating_mul(OUTPUT_KILL_FACTOR)).replace(' ', "");
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
    fn print_emitted(&self, files: &[FileReport]) {
        for file in files.iter().filter(|file| file.emitted).take(MAX_LISTED_VIOLATIONS) {
            let media_type = file.media_type.as_deref().unwrap_or_default();
            let (path, size) = (escape_invisible(&file.path), byte_text(file.bytes));
            self.notice(&format!(
                "`{path}` ({media_type}, {size}) is emitted: `--out DIR` copies it out"
            ));
        }
    }

    /// Prints each file that was not copied to the folder, and the reason.
    fn print_left_behind(&self, left: &UncopiedFiles) {
        for file in left.files.iter().take(MAX_LISTED_VIOLATIONS) {
            let path = escape_invisible(&file.path).replace('`', "\\u{60}");
            self.notice(&format!("`{path}` was left behind: {}; {}", file.reason, file.hint));
        }
        let more = left.files.len().saturating_sub(MAX_LISTED_VIOLATIONS) as u64 + left.more;
        if more > 0 {
            let files = counted(more, "more file");
            self.notice(&format!("{files} left behind; `--json` lists them"));
        }
    }

    /// Prints a value that is not null on a line of its own.
    fn print_value(&self, value: Option<&RawValue>, open_line: bool) -> Result<(), CliFault> {
        let text = match value.map(RawValue::get) {
            None | Some("null") => return Ok(()),
            Some(text) if self.stdout_is_terminal() => escape::escape_json(&layout::pretty(text)),
            Some(text) => layout::compact(text),
        };
        self.print_exact(&format!("{}{text}\n", if open_line { "\n" } else { "" }))
    }

    /// Prints each distinct attempt once, with its number of repetitions.
    fn print_violations<'a>(&self, violations: impl IntoIterator<Item = &'a ViolationReport>) {
        let mut times: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
        for one in violations {
            *times.entry((&one.kind, &one.detail, &one.rule)).or_default() += 1;
        }
        for ((kind, detail, rule), times) in times.iter().take(MAX_LISTED_VIOLATIONS) {
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
        if let Some(more) = times.len().checked_sub(MAX_LISTED_VIOLATIONS).filter(|more| *more > 0) {
            self.notice(&format!("{more} more kinds of attempts were refused"));
        }
    }
}
