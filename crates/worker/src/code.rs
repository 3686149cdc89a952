//! Runs TypeScript and JavaScript: the child inherits a warm engine, and confines itself before it reads a byte of the job.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use ringfence_jail::inside;
use ringfence_jail::seccomp::Filter;
use ringfence_wire::{
    BoundedList, BoundedText, CallTarget, EmittedFile, FromChild, JobFailure, JobKind, JobLanguage, JobOutcome,
    JobOutcomeKind, PipeStream, SourceDiagnostic, VALUE_CAP,
};

use crate::child::{diverged_fault, plain_fault, plain_outcome, value_too_large, with_advice};
use crate::js::{self, CallAnswer, EngineHost, JsEngine, JsEngineError, JsEngineLimits, JsProgram, ReplayInput};
use crate::pipe::{ChildPipe, ReceivedJob};
use crate::places::SandboxPlaces;

/// The stack of the engine, which is half of the process's 8 MiB.
const ENGINE_STACK: usize = 4 << 20;

const CANNOT_START: i32 = 72;

impl EngineHost for ChildPipe {
    fn stdout(&mut self, bytes: &[u8]) {
        self.write_stream(PipeStream::Stdout, bytes);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.write_stream(PipeStream::Stderr, bytes);
    }

    fn call(&mut self, ask: CallTarget, body: String) -> Option<u32> {
        ChildPipe::call(self, ask, body)
    }

    fn send_calls(&mut self) {
        ChildPipe::send_calls(self);
    }

    fn wait_for_answer(&mut self, until: Option<Instant>, due: Option<u64>) -> Option<(u32, CallAnswer)> {
        ChildPipe::wait_for_answer(self, until, due)
    }

    fn trace(&mut self, bytes: &[u8]) {
        ChildPipe::record_trace(self, bytes);
    }

    fn emit(&mut self, emit: EmittedFile) {
        ChildPipe::emit(self, emit);
    }
}

/// Makes an engine with the limits that every program gets.
pub(crate) fn new_engine(places: &SandboxPlaces) -> Result<JsEngine, JsEngineError> {
    let limits = JsEngineLimits {
        memory: None,
        stack: ENGINE_STACK,
    };
    JsEngine::with_workspace(limits, places.workspace())
}

/// Confines the process, waits for the job, and runs it.
pub(crate) fn run_code(
    shared: &Rc<RefCell<ChildPipe>>,
    engine: JsEngine,
    filter: &Filter,
    places: &SandboxPlaces,
) -> JobOutcome {
    if inside::restrict_files(&places.engine_paths()).is_err() || inside::install_filter(filter).is_err() {
        inside::exit_now(CANNOT_START);
    }
    let ReceivedJob {
        job,
        source,
        input,
        trace,
    } = {
        let mut pipe = shared.borrow_mut();
        pipe.send_message(&FromChild::Ready);
        let job = pipe.wait_for_job();
        pipe.queue_message(&FromChild::Started);
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
        inside::exit_now(CANNOT_START)
    };
    let args: Vec<String> = args.iter().map(|one| one.as_str().to_owned()).collect();
    let typescript = *language == JobLanguage::TypeScript;
    let program = JsProgram {
        source: &source,
        typescript,
        file_name: file_name.as_str(),
        args: &args,
        input: input.as_deref(),
        replay: ReplayInput {
            seed: *seed,
            clock: *clock,
            trace: &trace,
        },
    };
    let outcome = run_program(shared, engine, &program);
    let mut pipe = shared.borrow_mut();
    for stream in [PipeStream::Stdout, PipeStream::Stderr, PipeStream::Value] {
        pipe.end_stream(stream);
    }
    outcome
}

fn run_program(shared: &Rc<RefCell<ChildPipe>>, engine: JsEngine, program: &JsProgram<'_>) -> JobOutcome {
    let outside: Rc<RefCell<dyn EngineHost>> = Rc::clone(shared) as _;
    let finished = engine.run(program, outside).outcome;
    let mut pipe = shared.borrow_mut();
    let failed = |kind, fault: js::JsFault| plain_outcome(kind, 1, Some(wire_fault(fault)));
    match finished {
        js::JsOutcome::Completed { value_json } => {
            let value = value_json.filter(|value| value != "null");
            if value.as_ref().is_some_and(|value| value.len() as u64 > VALUE_CAP) {
                return value_too_large();
            }
            if let Some(value) = &value {
                pipe.queue_stream_bytes(PipeStream::Value, value.as_bytes());
            }
            JobOutcome {
                has_value: value.is_some(),
                ..plain_outcome(JobOutcomeKind::Completed, 0, None)
            }
        }
        js::JsOutcome::Failed(fault) => {
            // As with every interpreter, the error and its stack go to standard error too.
            let text = format!("{}: {}\n{}", fault.name, fault.message, fault.stack);
            pipe.write_stream(PipeStream::Stderr, format!("{}\n", text.trim_end()).as_bytes());
            failed(JobOutcomeKind::Failed, fault)
        }
        js::JsOutcome::ImportRefused(fault) => failed(JobOutcomeKind::ImportRefused, fault),
        js::JsOutcome::NotJson(fault) => failed(JobOutcomeKind::NotJson, fault),
        js::JsOutcome::SyntaxError(found) => {
            let diagnostics: Vec<SourceDiagnostic> = found.into_iter().map(wire_diagnostic).collect();
            JobOutcome {
                diagnostics: BoundedList::truncated(diagnostics),
                ..plain_outcome(JobOutcomeKind::SyntaxError, 1, None)
            }
        }
        js::JsOutcome::Diverged { calls } => plain_outcome(JobOutcomeKind::Diverged, 1, Some(diverged_fault(calls))),
        js::JsOutcome::OutOfMemory => plain_outcome(JobOutcomeKind::OutOfMemory, 1, None),
        js::JsOutcome::Stuck => {
            let message = "the program waits for a promise that nothing will resolve";
            let fault = plain_fault("program.stuck", message);
            plain_outcome(JobOutcomeKind::Stuck, 1, Some(fault))
        }
    }
}

fn wire_fault(fault: js::JsFault) -> JobFailure {
    let place = fault.position;
    JobFailure {
        code: BoundedText::truncated(fault.code),
        message: BoundedText::truncated(&with_advice(&fault.name, &fault.message, fault.hint.as_deref())),
        file: BoundedText::truncated(place.as_ref().map_or("", |place| &place.file)),
        line: place.as_ref().map_or(0, |place| place.line),
        column: place.as_ref().map_or(0, |place| place.column),
        call: fault.call,
    }
}

fn wire_diagnostic(found: js::SyntaxDiagnostic) -> SourceDiagnostic {
    let message = match &found.hint {
        Some(hint) => format!("{} ({hint})", found.message),
        None => found.message,
    };
    SourceDiagnostic {
        file: BoundedText::truncated(&found.file),
        line: found.line,
        column: found.column,
        code: BoundedText::truncated(&found.code),
        message: BoundedText::truncated(&message),
    }
}
