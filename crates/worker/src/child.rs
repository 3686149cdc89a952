//! The child of one execution: it joins its control groups, confines itself, warms its engine, and waits for the job.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use ringfence_jail::inside::{self, ProcessLimit};
use ringfence_jail::seccomp::Filter;
use ringfence_wire::{
    BoundedList, BoundedText, FromChild, JobFailure, JobLanguage, JobOutcome, JobOutcomeKind, PrepareCommand, VALUE_CAP,
};

use crate::js::JsEngine;
use crate::pipe::ChildPipe;
use crate::places::SandboxPlaces;
use crate::zygote::PythonChild;
use crate::{code, interpreter, program};

/// What a child starts with.
#[derive(Debug)]
pub(crate) struct ChildSetup<'a> {
    /// The child's end of the execution's pipe.
    pub(crate) pipe: OwnedFd,
    /// The task files of the control groups to join.
    pub(crate) tasks: Vec<OwnedFd>,
    /// A copy of the first process's engine, which only TypeScript and JavaScript use.
    pub(crate) engine: Option<JsEngine>,
    /// The Python process that the child speaks for.
    pub(crate) python: Option<PythonChild>,
    /// The command that this child was made for.
    pub(crate) preparation: PrepareCommand,
    /// The system call filter for the engine.
    pub(crate) engine_filter: &'a Filter,
    /// The folders of the sandbox.
    pub(crate) places: SandboxPlaces,
}

/// The exit code for a failure before the host can be told.
const CANNOT_CONFINE: i32 = 72;

/// Runs the child until it exits.
pub(crate) fn run(born: ChildSetup<'_>) -> ! {
    let Ok(pipe) = ChildPipe::new(born.pipe) else {
        inside::exit_now(CANNOT_CONFINE)
    };
    // The engine shares the pipe, because it writes output until the process ends.
    let shared = Rc::new(RefCell::new(pipe));
    if join_groups_and_confine(&born.tasks, &born.preparation).is_err() {
        inside::exit_now(CANNOT_CONFINE);
    }
    drop(born.tasks);
    let outcome = match born.preparation.language {
        JobLanguage::TypeScript | JobLanguage::JavaScript => match born.engine {
            Some(engine) => code::run_code(&shared, engine, born.engine_filter, &born.places),
            None => inside::exit_now(CANNOT_CONFINE),
        },
        JobLanguage::Python => match born.python {
            Some(python) => interpreter::run_python(&mut shared.borrow_mut(), python),
            None => inside::exit_now(CANNOT_CONFINE),
        },
        JobLanguage::Program => program::run_program(&mut shared.borrow_mut(), born.preparation.limits.private_memory),
    };
    let mut pipe = shared.borrow_mut();
    pipe.abandon_calls();
    pipe.queue_message(&FromChild::Done(outcome));
    pipe.flush();
    inside::exit_now(0)
}

/// Joins the control groups first, so that they count everything from here on, then sets the resource limits.
fn join_groups_and_confine(tasks: &[OwnedFd], preparation: &PrepareCommand) -> std::io::Result<()> {
    inside::keep_zombies();
    for task in tasks {
        inside::write_all(task.as_fd(), b"0")?;
    }
    let limits = &preparation.limits;
    // The child that speaks for a Python process is small and trusted; the Python process itself has the limits.
    if preparation.language != JobLanguage::Python {
        if let Some(bytes) = limits.address_space {
            inside::set_process_limit(ProcessLimit::AddressSpace, bytes)?;
        }
        if let Some(bytes) = limits.private_memory {
            inside::set_process_limit(ProcessLimit::PrivateMemory, bytes)?;
        }
    }
    inside::set_process_limit(ProcessLimit::CpuSeconds, u64::from(limits.cpu_seconds))
}

/// An outcome without a value, a signal or diagnostics.
pub(crate) fn plain_outcome(kind: JobOutcomeKind, exit_code: i32, error: Option<JobFailure>) -> JobOutcome {
    let diagnostics = BoundedList::truncated(Vec::new());
    JobOutcome {
        kind,
        exit_code,
        signal: None,
        has_value: false,
        error,
        diagnostics,
    }
}

/// A fault without a place in the source.
pub(crate) fn plain_fault(code: &str, message: &str) -> JobFailure {
    JobFailure {
        code: BoundedText::truncated(code),
        message: BoundedText::truncated(message),
        file: BoundedText::truncated(""),
        line: 0,
        column: 0,
        call: None,
    }
}

/// The text of an error, with advice for this place. The advice is part of the program's own message.
pub(crate) fn with_advice(name: &str, message: &str, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{name}: {message} ({advice})"),
        None => format!("{name}: {message}"),
    }
}

/// The fault of a program that does not repeat what it did before.
pub(crate) fn diverged_fault(calls: u32) -> JobFailure {
    let message =
        format!("the program does not repeat itself after call {calls}: it did something else when it ran before");
    plain_fault("replay.diverged", &message)
}

/// The outcome of a program whose value is longer than the host takes.
pub(crate) fn value_too_large() -> JobOutcome {
    let message = format!("the value is longer than {} MiB of JSON", VALUE_CAP >> 20);
    let fault = plain_fault("value.too_large", &message);
    plain_outcome(JobOutcomeKind::Failed, 1, Some(fault))
}
