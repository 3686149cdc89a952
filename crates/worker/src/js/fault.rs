//! Turns what a program threw into the error that its author reads.
use rquickjs::{CaughtError, Ctx, Exception, Value};

use super::{Outcome, host::Host, prelude::Hooks};

/// A place in the source, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The name of the source.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The column, counted from 1.
    pub column: u32,
}

/// A mistake that kept the program from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The name of the source.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The column, counted from 1.
    pub column: u32,
    /// A TypeScript code such as `TS(1005)`, else `syntax`.
    pub code: String,
    /// The mistake as a sentence for people.
    pub message: String,
    /// Advice on how to fix it, if there is any.
    pub hint: Option<String>,
}

/// An error as its reader sees it: places are those of the original source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `program.failed`, `import.refused` or `value.not_json`.
    pub code: &'static str,
    /// The error's class, such as `TypeError`.
    pub name: String,
    /// The text of the error.
    pub message: String,
    /// Advice on how to fix it, if there is any.
    pub hint: Option<String>,
    /// The call whose failure the program did not catch.
    pub call: Option<u32>,
    /// The innermost place in the program's source.
    pub position: Option<Position>,
    /// The stack, one `    at …` line per frame.
    pub stack: String,
}

const FAILED: &str = "program.failed";
const IMPORT_REFUSED: &str = "import.refused";
const NOT_JSON: &str = "value.not_json";
/// The most bytes of a name or message: a program may throw anything.
const MAX_TEXT: usize = 16 * 1024;

impl Fault {
    pub(super) fn plain(name: &str, message: &str) -> Self {
        Fault {
            code: FAILED,
            name: name.to_owned(),
            message: message.to_owned(),
            hint: None,
            call: None,
            position: None,
            stack: String::new(),
        }
    }
}

pub(super) fn import_refused(specifier: &str, position: Option<Position>) -> Fault {
    Fault {
        code: IMPORT_REFUSED,
        position,
        ..Fault::plain("ImportError", &format!("cannot import `{specifier}`"))
    }
}

pub(super) fn not_json(message: &str, hint: &str) -> Fault {
    Fault {
        code: NOT_JSON,
        hint: (!hint.is_empty()).then(|| hint.to_owned()),
        ..Fault::plain("TypeError", message)
    }
}

/// The outcome of a run that ended with this thrown value.
pub(super) fn outcome<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks, thrown: Value<'js>) -> Outcome {
    if ran_out_of_memory(ctx, host, hooks, &thrown) {
        return Outcome::OutOfMemory;
    }
    let fault = describe(ctx, host, hooks, thrown);
    if fault.name == "ReferenceError" {
        if let Some(rest) = fault.message.strip_prefix("could not load module '") {
            let specifier = rest.trim_end_matches('\'');
            return Outcome::ImportRefused(Fault {
                stack: fault.stack,
                ..import_refused(specifier, fault.position)
            });
        }
        if fault.message.starts_with("require is not defined") {
            return Outcome::ImportRefused(Fault {
                code: IMPORT_REFUSED,
                ..fault
            });
        }
    }
    Outcome::Failed(fault)
}

/// The outcome when the engine refuses the module's text: a syntax error that the transpiler does not look for.
pub(super) fn not_compiled<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks, thrown: Exception<'js>) -> Outcome {
    let ended = outcome(ctx, host, hooks, thrown.into_object().into_value());
    let Outcome::Failed(fault) = ended else { return ended };
    if fault.name != "SyntaxError" {
        return Outcome::Failed(fault);
    }
    let (line, column) = fault
        .position
        .as_ref()
        .map_or((1, 1), |place| (place.line, place.column));
    Outcome::SyntaxError(vec![Diagnostic {
        file: host.file().to_owned(),
        line,
        column,
        code: "syntax".to_owned(),
        message: fault.message,
        hint: None,
    }])
}

/// The outcome when the value has no JSON form, or memory is exhausted.
pub(super) fn unprintable<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks, caught: CaughtError<'js>) -> Outcome {
    let thrown = match caught {
        CaughtError::Exception(thrown) => thrown.into_object().into_value(),
        CaughtError::Value(thrown) => thrown,
        CaughtError::Error(error) => return Outcome::NotJson(not_json(&error.to_string(), "")),
    };
    let ended = outcome(ctx, host, hooks, thrown);
    let Outcome::Failed(fault) = ended else { return ended };
    let hint = "return plain objects, lists, strings and numbers";
    let message = format!("the value is not JSON: {}", fault.message);
    Outcome::NotJson(Fault {
        stack: fault.stack,
        ..not_json(&message, hint)
    })
}

fn describe<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks, thrown: Value<'js>) -> Fault {
    let error = thrown
        .as_object()
        .and_then(|object| Exception::from_object(object.clone()));
    let Some(error) = error else {
        let shown = cut(hooks.describe(ctx, thrown));
        return Fault::plain("Uncaught", &shown);
    };
    let object = error.as_object();
    let name = hooks.text(ctx, object, "name").unwrap_or_else(|| "Error".to_owned());
    let message = hooks.text(ctx, object, "message").unwrap_or_default();
    let trace = host.trace(&hooks.text(ctx, object, "stack").unwrap_or_default());
    let position = trace.place.map(|(line, column)| Position {
        file: host.file().to_owned(),
        line,
        column,
    });
    let fault = Fault {
        position,
        stack: cut(trace.text),
        ..Fault::plain(&cut(name), &cut(message))
    };
    // Only the number of the call, and never its failure: a program can claim anything, and the host has the facts.
    let call = (fault.name == "ToolError")
        .then(|| hooks.text(ctx, object, "call"))
        .flatten();
    Fault {
        call: call.and_then(|call| call.parse().ok()),
        ..fault
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = text.floor_char_boundary(MAX_TEXT);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Whether memory is exhausted. Near its limit the engine may have no memory left for an error object, and throws null.
fn ran_out_of_memory<'js>(ctx: &Ctx<'js>, host: &Host, hooks: &Hooks, thrown: &Value<'js>) -> bool {
    if let Some(object) = thrown.as_object() {
        return Exception::from_object(object.clone()).is_some()
            && hooks.text(ctx, object, "name").as_deref() == Some("InternalError")
            && hooks
                .text(ctx, object, "message")
                .is_some_and(|message| message.starts_with("out of memory"));
    }
    let reached = |limit| peak_memory().is_none_or(|peak| peak > limit / 4 * 3);
    thrown.is_null() && host.memory_limit.is_some_and(reached)
}

/// The most memory that this process ever had, in bytes: by now the heap itself may be free again.
fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}
