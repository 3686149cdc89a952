//! Text output: data to standard output, everything else to standard error, colour only on a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::json;

use crate::args::{FaultFormat, Verbosity};
use crate::fault::{CliFault, EXIT_REFUSED, io_error_text};

pub(crate) mod escape;
pub(crate) mod event;
pub(crate) mod execution;
pub(crate) mod hint;
mod layout;
pub(crate) mod live;

/// Prints to both output streams, with the verbosity and the colour setting of this process.
#[derive(Debug)]
pub(crate) struct Printer {
    words: Verbosity,
    stdout: io::Stdout,
    stderr: io::Stderr,
    plain: bool,
}

/// The emphasis of a word where colour is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Good,
    Bad,
    Warn,
    Strong,
    Faint,
}

/// The escape sequence that starts each style, in the order of the variants, then the one that ends any style.
const STYLES: [&str; 6] = [
    "\u{1b}[32m",
    "\u{1b}[1;31m",
    "\u{1b}[33m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[0m",
];

impl Printer {
    pub(crate) fn new(words: Verbosity, plain: bool) -> Printer {
        Printer {
            words,
            stdout: io::stdout(),
            stderr: io::stderr(),
            plain,
        }
    }

    /// Whether standard output is a terminal, so that a person reads it.
    pub(crate) fn stdout_is_terminal(&self) -> bool {
        self.stdout.is_terminal()
    }

    /// Whether standard error is a terminal, so that a person reads it.
    pub(crate) fn stderr_is_terminal(&self) -> bool {
        self.stderr.is_terminal()
    }

    /// Prints a line of text to standard output.
    pub(crate) fn print_line(&self, text: &str) -> Result<(), CliFault> {
        self.print_escaped(&format!("{text}\n"))
    }

    /// Prints text to standard output; escapes what a program or a server could have put into it.
    pub(crate) fn print_escaped(&self, text: &str) -> Result<(), CliFault> {
        let own: &[&str] = if self.stdout_is_terminal() && !self.plain {
            &STYLES
        } else {
            &[]
        };
        self.print_exact(&escape::escape_own(text, own))
    }

    /// Prints text for programs to standard output, unchanged.
    pub(crate) fn print_exact(&self, text: &str) -> Result<(), CliFault> {
        let mut stdout = self.stdout.lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|error| write_fault(&error))
    }

    /// Prints a value as JSON: indented on a terminal, else on one line.
    pub(crate) fn print_json(&self, value: &impl serde::Serialize) -> Result<(), CliFault> {
        let text = if self.stdout_is_terminal() {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        let text = text.map_err(|error| CliFault::internal("output.json", format!("cannot print as JSON: {error}")))?;
        self.print_exact(&format!("{}\n", self.escape_for_stdout(&text)))
    }

    /// Escapes in JSON text what a terminal would act on; the value stays the same.
    fn escape_for_stdout(&self, json: &str) -> String {
        if self.stdout_is_terminal() {
            escape::escape_json(json)
        } else {
            json.to_owned()
        }
    }

    /// Prints a notice to standard error, unless `--quiet` is set.
    pub(crate) fn notice(&self, text: &str) {
        if !self.words.quiet {
            self.print_to_stderr(&format!("notice: {}", escape::escape_indented(text)));
        }
    }

    /// Prints a warning to standard error, even with `--quiet`.
    pub(crate) fn warning(&self, text: &str) {
        self.print_to_stderr(&format!("warning: {}", escape::escape_indented(text)));
    }

    /// Prints a detail to standard error, only with `--verbose`.
    pub(crate) fn detail(&self, text: &str) {
        if self.words.verbose > 0 {
            self.print_to_stderr(&escape::escape_indented(text));
        }
    }

    /// Prints a line to standard error; escapes what a program could have put into it.
    pub(crate) fn print_to_stderr(&self, text: &str) {
        // A failed write is ignored: standard error is gone.
        let _ = writeln!(self.stderr.lock(), "{}", escape::escape_text(text));
    }

    /// Prints the fault in the given format and returns its exit code.
    pub(crate) fn print_fault(&self, fault: &CliFault, shape: FaultFormat) -> ExitCode {
        let told = match shape {
            FaultFormat::Text => Ok(()),
            FaultFormat::ExecutionJson => self.print_json(&fault_json(fault)),
        };
        if told.is_ok() && !fault.message.is_empty() {
            self.print_error(&fault.message, fault.hint.as_deref(), fault.rule.as_deref());
        }
        ExitCode::from(fault.exit)
    }

    /// Prints an error with its rule and hint to standard error.
    pub(crate) fn print_error(&self, message: &str, hint: Option<&str>, rule: Option<&str>) {
        let label = |word: &str, style| {
            if self.stderr_is_terminal() {
                self.styled(word, style)
            } else {
                word.to_owned()
            }
        };
        let mut lines = vec![format!(
            "{} {}",
            label("error:", Style::Bad),
            escape::escape_indented(message)
        )];
        lines.extend(rule.map(|rule| format!("{} {}", label("rule:", Style::Strong), escape::escape_indented(rule))));
        let hint = hint.map(hint::for_terminal);
        lines.extend(hint.map(|hint| format!("{} {}", label("hint:", Style::Strong), escape::escape_indented(&hint))));
        let _ = writeln!(self.stderr.lock(), "{}", lines.join("\n"));
    }

    /// Adds the style to a word if standard output shows colour.
    pub(crate) fn paint(&self, word: &str, style: Style) -> String {
        if self.stdout_is_terminal() {
            self.styled(word, style)
        } else {
            word.to_owned()
        }
    }

    fn styled(&self, word: &str, style: Style) -> String {
        if self.plain {
            return word.to_owned();
        }
        let [good, bad, warn, strong, faint, end] = STYLES;
        let begin = match style {
            Style::Good => good,
            Style::Bad => bad,
            Style::Warn => warn,
            Style::Strong => strong,
            Style::Faint => faint,
        };
        format!("{begin}{word}{end}")
    }
}

/// The fault for a failed write to standard output.
pub(crate) fn write_fault(error: &io::Error) -> CliFault {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CliFault::reader_gone();
    }
    CliFault::internal(
        "output.write",
        format!("cannot write to standard output: {}", io_error_text(error)),
    )
}

/// The object that `--json` prints for a fault before an execution began.
fn fault_json(fault: &CliFault) -> serde_json::Value {
    json!({
        "execution_id": null,
        "session_id": null,
        "status": if fault.exit == EXIT_REFUSED { "refused" } else if fault.exit == crate::fault::EXIT_CANCELLED { "cancelled" } else { "failed" },
        "exit_code": fault.exit,
        "value": null,
        "stdout": "",
        "stderr": "",
        "error": { "code": fault.code, "message": fault.message, "hint": fault.hint.as_deref().map(hint::for_terminal), "rule": fault.rule },
        "diagnostics": [],
        "calls": [],
        "files": [],
        "violations": [],
        "truncated": { "stdout": false, "stderr": false, "value": false },
        "usage": { "wall_ms": 0, "cpu_ms": 0, "peak_memory_bytes": 0, "calls": 0, "egress_bytes": 0 },
        "tokens": null,
        "enforcement": [],
        "policy": null,
    })
}

/// A number with its noun, such as `1 file` or `2 files`.
pub(crate) fn counted(number: u64, one: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {one}s")
    }
}

/// A time in UTC with a precision of seconds.
pub(crate) fn moment(at: impl std::fmt::Display) -> String {
    let text = at.to_string();
    let seconds = text.split('.').next().unwrap_or(&text);
    seconds.trim_end_matches('Z').replace('T', " ")
}

/// The distance between a time and now, in a suitable unit such as `90s` or `3h`.
pub(crate) fn distance_text(moment: impl Into<SystemTime>) -> String {
    let (moment, now) = (moment.into(), SystemTime::now());
    let away = moment.duration_since(now).or_else(|_| now.duration_since(moment));
    let seconds = away.map_or(0, |away| away.as_secs());
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number of bytes in a suitable unit, such as `1.5 MiB`.
pub(crate) fn byte_text(number: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, size)| number >= *size) {
        Some((unit, size)) if number.is_multiple_of(*size) => format!("{} {unit}", number / size),
        Some((unit, size)) => format!("{}.{} {unit}", number / size, (number % size) * 10 / size),
        None => format!("{number} B"),
    }
}
