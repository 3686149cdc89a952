//! Runs TypeScript and JavaScript: the child inherits a warm engine, and confines itself before it reads a byte of the job.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use ringfence_jail::inside;
use ringfence_jail::seccomp::Filter;
use ringfence_wire::{
    Ask, Diagnostic, Emit, Fault, FromChild, JobKind, Language, List, Outcome, OutcomeKind, Stream, Text, VALUE_CAP,
};

use crate::child::{advised, diverged, engine_places, plain_fault, plain_outcome, too_large};
use crate::js::{self, Again, Answered, Engine, EngineError, EngineLimits, Outside, Program};
use crate::pipe::{Given, Pipe};

/// The stack of the engine, which is half of the process's 8 MiB.
const ENGINE_STACK: usize = 4 << 20;

const CANNOT_START: i32 = 72;

impl Outside for Pipe {
    fn stdout(&mut self, bytes: &[u8]) {
        self.write(Stream::Stdout, bytes);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.write(Stream::Stderr, bytes);
    }

    fn call(&mut self, ask: Ask, body: String) -> Option<u32> {
        Pipe::call(self, ask, body)
    }

    fn send_calls(&mut self) {
        Pipe::send_calls(self);
    }

    fn wait_for_answer(&mut self, until: Option<Instant>, due: Option<u64>) -> Option<(u32, Answered)> {
        Pipe::wait_for_answer(self, until, due)
    }

    fn trace(&mut self, bytes: &[u8]) {
        Pipe::trace(self, bytes);
    }

    fn emit(&mut self, emit: Emit) {
        Pipe::emit(self, emit);
    }
}

/// Makes an engine with the limits that every program gets.
pub(crate) fn engine() -> Result<Engine, EngineError> {
    Engine::new(EngineLimits {
        memory: None,
        stack: ENGINE_STACK,
    })
}

/// Confines the process, waits for the job, and runs it.
pub(crate) fn run(shared: &Rc<RefCell<Pipe>>, engine: Engine, filter: &Filter) -> Outcome {
    if inside::confine(&engine_places()).is_err() || inside::install(filter).is_err() {
        inside::leave(CANNOT_START);
    }
    let Given {
        job,
        source,
        input,
        trace,
    } = {
        let mut pipe = shared.borrow_mut();
        pipe.tell(&FromChild::Ready);
        let job = pipe.job();
        pipe.tell_along(&FromChild::Started);
        job
    };
    let JobKind::Code {
        language,
        file_name,
        args,
        seed,
        clock,
        ..
    } = &job.kind
    else {
        inside::leave(CANNOT_START)
    };
    let args: Vec<String> = args.iter().map(|one| one.as_str().to_owned()).collect();
    let typescript = *language == Language::TypeScript;
    let program = Program {
        source: &source,
        typescript,
        file_name: file_name.as_str(),
        args: &args,
        input: input.as_deref(),
        again: Again {
            seed: *seed,
            clock: *clock,
            trace: &trace,
        },
    };
    let outcome = run_program(shared, engine, &program);
    let mut pipe = shared.borrow_mut();
    for stream in [Stream::Stdout, Stream::Stderr, Stream::Value] {
        pipe.end(stream);
    }
    outcome
}

fn run_program(shared: &Rc<RefCell<Pipe>>, engine: Engine, program: &Program<'_>) -> Outcome {
    let outside: Rc<RefCell<dyn Outside>> = Rc::clone(shared) as _;
    let finished = engine.run(program, outside).outcome;
    let mut pipe = shared.borrow_mut();
    let failed = |kind, fault: js::Fault| plain_outcome(kind, 1, Some(wire_fault(fault)));
    match finished {
        js::Outcome::Completed { value_json } => {
            let value = value_json.filter(|value| value != "null");
            if value.as_ref().is_some_and(|value| value.len() as u64 > VALUE_CAP) {
                return too_large();
            }
            if let Some(value) = &value {
                pipe.write_along(Stream::Value, value.as_bytes());
            }
            Outcome {
                has_value: value.is_some(),
                ..plain_outcome(OutcomeKind::Completed, 0, None)
            }
        }
        js::Outcome::Failed(fault) => {
            // As with every interpreter, the error and its stack go to standard error too.
            let text = format!("{}: {}\n{}", fault.name, fault.message, fault.stack);
            pipe.write(Stream::Stderr, format!("{}\n", text.trim_end()).as_bytes());
            failed(OutcomeKind::Failed, fault)
        }
        js::Outcome::ImportRefused(fault) => failed(OutcomeKind::ImportRefused, fault),
        js::Outcome::NotJson(fault) => failed(OutcomeKind::NotJson, fault),
        js::Outcome::SyntaxError(found) => {
            let diagnostics: Vec<Diagnostic> = found.into_iter().map(wire_diagnostic).collect();
            Outcome {
                diagnostics: List::cut(diagnostics),
                ..plain_outcome(OutcomeKind::SyntaxError, 1, None)
            }
        }
        js::Outcome::Diverged { calls } => plain_outcome(OutcomeKind::Diverged, 1, Some(diverged(calls))),
        js::Outcome::OutOfMemory => plain_outcome(OutcomeKind::OutOfMemory, 1, None),
        js::Outcome::Stuck => {
            let message = "the program waits for a promise that nothing will resolve";
            let fault = plain_fault("program.stuck", message);
            plain_outcome(OutcomeKind::Stuck, 1, Some(fault))
        }
    }
}

fn wire_fault(fault: js::Fault) -> Fault {
    let place = fault.position;
    Fault {
        code: Text::cut(fault.code),
        message: Text::cut(&advised(&fault.name, &fault.message, fault.hint.as_deref())),
        file: Text::cut(place.as_ref().map_or("", |place| &place.file)),
        line: place.as_ref().map_or(0, |place| place.line),
        column: place.as_ref().map_or(0, |place| place.column),
        call: fault.call,
    }
}

fn wire_diagnostic(found: js::Diagnostic) -> Diagnostic {
    let message = match &found.hint {
        Some(hint) => format!("{} ({hint})", found.message),
        None => found.message,
    };
    Diagnostic {
        file: Text::cut(&found.file),
        line: found.line,
        column: found.column,
        code: Text::cut(&found.code),
        message: Text::cut(&message),
    }
}
