//! Turns what a program threw into the error that its author reads.
use rquickjs::{CaughtError, Ctx, Exception, Value};

use super::{JsOutcome, host::NativeState, prelude::PreludeHooks};

/// A place in the source, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramPosition {
    /// The name of the source.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The column, counted from 1.
    pub column: u32,
}

/// A mistake that kept the program from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxDiagnostic {
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
pub struct JsFault {
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
    pub position: Option<ProgramPosition>,
    /// The stack, one `    at …` line per frame.
    pub stack: String,
}

const FAILED: &str = "program.failed";
const IMPORT_REFUSED: &str = "import.refused";
const NOT_JSON: &str = "value.not_json";
/// The most bytes of a name or message: a program may throw anything.
const MAX_TEXT: usize = 16 * 1024;

impl JsFault {
    pub(super) fn plain(name: &str, message: &str) -> Self {
        JsFault {
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

pub(super) fn import_refused(specifier: &str, position: Option<ProgramPosition>) -> JsFault {
    JsFault {
        code: IMPORT_REFUSED,
        position,
        ..JsFault::plain("ImportError", &format!("cannot import `{specifier}`"))
    }
}

pub(super) fn not_json(message: &str, hint: &str) -> JsFault {
    JsFault {
        code: NOT_JSON,
        hint: (!hint.is_empty()).then(|| hint.to_owned()),
        ..JsFault::plain("TypeError", message)
    }
}

/// The outcome of a run that ended with this thrown value.
pub(super) fn outcome_of_throw<'js>(
    ctx: &Ctx<'js>,
    host: &NativeState,
    hooks: &PreludeHooks,
    thrown: Value<'js>,
) -> JsOutcome {
    if ran_out_of_memory(ctx, host, hooks, &thrown) {
        return JsOutcome::OutOfMemory;
    }
    let fault = describe(ctx, host, hooks, thrown);
    if fault.name == "ReferenceError" {
        if let Some(rest) = fault.message.strip_prefix("could not load module '") {
            let specifier = rest.trim_end_matches('\'');
            return JsOutcome::ImportRefused(JsFault {
                stack: fault.stack,
                ..import_refused(specifier, fault.position)
            });
        }
        if fault.message.starts_with("require is not defined") {
            return JsOutcome::ImportRefused(JsFault {
                code: IMPORT_REFUSED,
                ..fault
            });
        }
    }
    JsOutcome::Failed(fault)
}

/// The outcome when the engine refuses the module's text: a syntax error that the transpiler does not look for.
pub(super) fn outcome_of_compile_error<'js>(
    ctx: &Ctx<'js>,
    host: &NativeState,
    hooks: &PreludeHooks,
    thrown: Exception<'js>,
) -> JsOutcome {
    let ended = outcome_of_throw(ctx, host, hooks, thrown.into_object().into_value());
    let JsOutcome::Failed(fault) = ended else { return ended };
    if fault.name != "SyntaxError" {
        return JsOutcome::Failed(fault);
    }
    let (line, column) = fault
        .position
        .as_ref()
        .map_or((1, 1), |place| (place.line, place.column));
    JsOutcome::SyntaxError(vec![SyntaxDiagnostic {
        file: host.file().to_owned(),
        line,
        column,
        code: "syntax".to_owned(),
        message: fault.message,
        hint: None,
    }])
}

/// The outcome when the value has no JSON form, or memory is exhausted.
pub(super) fn outcome_of_unserializable<'js>(
    ctx: &Ctx<'js>,
    host: &NativeState,
    hooks: &PreludeHooks,
    caught: CaughtError<'js>,
) -> JsOutcome {
    let thrown = match caught {
        CaughtError::Exception(thrown) => thrown.into_object().into_value(),
        CaughtError::Value(thrown) => thrown,
        CaughtError::Error(error) => return JsOutcome::NotJson(not_json(&error.to_string(), "")),
    };
    let ended = outcome_of_throw(ctx, host, hooks, thrown);
    let JsOutcome::Failed(fault) = ended else { return ended };
    let hint = "return plain objects, lists, strings and numbers";
    let message = format!("the value is not JSON: {}", fault.message);
    JsOutcome::NotJson(JsFault {
        stack: fault.stack,
        ..not_json(&message, hint)
    })
}

fn describe<'js>(ctx: &Ctx<'js>, host: &NativeState, hooks: &PreludeHooks, thrown: Value<'js>) -> JsFault {
    let error = thrown
        .as_object()
        .and_then(|object| Exception::from_object(object.clone()));
    let Some(error) = error else {
        let shown = truncate_text(hooks.describe(ctx, thrown));
        return JsFault::plain("Uncaught", &shown);
    };
    let object = error.as_object();
    let name = hooks
        .text_property(ctx, object, "name")
        .unwrap_or_else(|| "Error".to_owned());
    let message = hooks.text_property(ctx, object, "message").unwrap_or_default();
    let trace = host.map_stack(&hooks.text_property(ctx, object, "stack").unwrap_or_default());
    let position = trace.place.map(|(line, column)| ProgramPosition {
        file: host.file().to_owned(),
        line,
        column,
    });
    let fault = JsFault {
        position,
        stack: truncate_text(trace.text),
        ..JsFault::plain(&truncate_text(name), &truncate_text(message))
    };
    // Only the number of the call, and never its failure: a program can claim anything, and the host has the facts.
    let call = (fault.name == "ToolError")
        .then(|| hooks.text_property(ctx, object, "call"))
        .flatten();
    JsFault {
        call: call.and_then(|call| call.parse().ok()),
        ..fault
    }
}

fn truncate_text(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = text.floor_char_boundary(MAX_TEXT);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Whether memory is exhausted. Near its limit the engine may have no memory left for an error object, and throws null.
fn ran_out_of_memory<'js>(ctx: &Ctx<'js>, host: &NativeState, hooks: &PreludeHooks, thrown: &Value<'js>) -> bool {
    if let Some(object) = thrown.as_object() {
        return Exception::from_object(object.clone()).is_some()
            && hooks.text_property(ctx, object, "name").as_deref() == Some("InternalError")
            && hooks
                .text_property(ctx, object, "message")
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
