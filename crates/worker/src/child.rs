//! The child of one execution: it joins its control groups, confines itself, warms its engine, and waits for the job.

use std::cell::RefCell;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use ringfence_jail::Use;
use ringfence_jail::inside::{self, Limit};
use ringfence_jail::seccomp::Filter;
use ringfence_wire::{Fault, FromChild, Language, List, Outcome, OutcomeKind, Preparation, Text, VALUE_CAP};

use crate::js::Engine;
use crate::pipe::Pipe;
use crate::zygote::PythonChild;
use crate::{code, interpreter, program};

/// What a child starts with.
#[derive(Debug)]
pub(crate) struct Born<'a> {
    /// The child's end of the execution's pipe.
    pub(crate) pipe: OwnedFd,
    /// The task files of the control groups to join.
    pub(crate) tasks: Vec<OwnedFd>,
    /// A copy of the first process's engine, which only TypeScript and JavaScript use.
    pub(crate) engine: Option<Engine>,
    /// The Python process that the child speaks for.
    pub(crate) python: Option<PythonChild>,
    /// The command that this child was made for.
    pub(crate) preparation: Preparation,
    /// The system call filter for the engine.
    pub(crate) engine_filter: &'a Filter,
}

/// The exit code for a failure before the host can be told.
const CANNOT_CONFINE: i32 = 72;

/// Runs the child until it exits.
pub(crate) fn run(born: Born<'_>) -> ! {
    let Ok(pipe) = Pipe::new(born.pipe) else {
        inside::leave(CANNOT_CONFINE)
    };
    // The engine shares the pipe, because it writes output until the process ends.
    let shared = Rc::new(RefCell::new(pipe));
    if confine(&born.tasks, &born.preparation).is_err() {
        inside::leave(CANNOT_CONFINE);
    }
    drop(born.tasks);
    let outcome = match born.preparation.language {
        Language::TypeScript | Language::JavaScript => match born.engine {
            Some(engine) => code::run(&shared, engine, born.engine_filter),
            None => inside::leave(CANNOT_CONFINE),
        },
        Language::Python => match born.python {
            Some(python) => interpreter::run(&mut shared.borrow_mut(), python),
            None => inside::leave(CANNOT_CONFINE),
        },
        Language::Program => program::run(&mut shared.borrow_mut(), born.preparation.limits.private_memory),
    };
    let mut pipe = shared.borrow_mut();
    pipe.abandon_calls();
    pipe.tell_along(&FromChild::Done(outcome));
    pipe.flush();
    inside::leave(0)
}

/// Joins the control groups first, so that they count everything from here on, then sets the resource limits.
fn confine(tasks: &[OwnedFd], preparation: &Preparation) -> std::io::Result<()> {
    inside::keep_ended_children();
    for task in tasks {
        inside::write_all(task.as_fd(), b"0")?;
    }
    let limits = &preparation.limits;
    // The child that speaks for a Python process is small and trusted; the Python process itself has the limits.
    if preparation.language != Language::Python {
        if let Some(bytes) = limits.address_space {
            inside::limit(Limit::AddressSpace, bytes)?;
        }
        if let Some(bytes) = limits.private_memory {
            inside::limit(Limit::PrivateMemory, bytes)?;
        }
    }
    inside::limit(Limit::CpuSeconds, u64::from(limits.cpu_seconds))
}

/// The paths that the engine may read and write; it cannot open the sandbox's other files.
pub(crate) fn engine_places() -> [(CString, Use); 3] {
    [
        (c"/workspace".into(), Use::Write),
        (c"/tmp".into(), Use::Write),
        (c"/deps".into(), Use::Read),
    ]
}

/// An outcome without a value, a signal or diagnostics.
pub(crate) fn plain_outcome(kind: OutcomeKind, exit_code: i32, error: Option<Fault>) -> Outcome {
    let diagnostics = List::cut(Vec::new());
    Outcome {
        kind,
        exit_code,
        signal: None,
        has_value: false,
        error,
        diagnostics,
    }
}

/// A fault without a place in the source.
pub(crate) fn plain_fault(code: &str, message: &str) -> Fault {
    Fault {
        code: Text::cut(code),
        message: Text::cut(message),
        file: Text::cut(""),
        line: 0,
        column: 0,
        call: None,
    }
}

/// The text of an error, with advice for this place. The advice is part of the program's own message.
pub(crate) fn advised(name: &str, message: &str, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{name}: {message} ({advice})"),
        None => format!("{name}: {message}"),
    }
}

/// The fault of a program that does not repeat what it did before.
pub(crate) fn diverged(calls: u32) -> Fault {
    let message =
        format!("the program does not repeat itself after call {calls}: it did something else when it ran before");
    plain_fault("replay.diverged", &message)
}

/// The outcome of a program whose value is longer than the host takes.
pub(crate) fn too_large() -> Outcome {
    let message = format!("the value is longer than {} MiB of JSON", VALUE_CAP >> 20);
    let fault = plain_fault("value.too_large", &message);
    plain_outcome(OutcomeKind::Failed, 1, Some(fault))
}
