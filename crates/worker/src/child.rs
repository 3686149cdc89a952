//! The child of one execution: joins its control groups, fences itself in further, warms its engine, and waits for the job.

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

/// What a child is born with.
#[derive(Debug)]
pub(crate) struct Born<'a> {
    /// Its end of the execution's pipe.
    pub(crate) pipe: OwnedFd,
    /// The task files of its control groups.
    pub(crate) tasks: Vec<OwnedFd>,
    /// A copy of the first process's engine.
    pub(crate) engine: Option<Engine>,
    /// The Python process it speaks for.
    pub(crate) python: Option<PythonChild>,
    /// What it was made for.
    pub(crate) preparation: Preparation,
    /// The engine's filter.
    pub(crate) engine_filter: &'a Filter,
}

/// Exit codes for what goes wrong before the host can be told.
const CANNOT_CONFINE: i32 = 72;

/// Lives the child's life.
pub(crate) fn run(born: Born<'_>) -> ! {
    let Ok(pipe) = Pipe::new(born.pipe) else {
        inside::leave(CANNOT_CONFINE)
    };
    // Shared with the engine, which keeps its output until the process ends.
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

/// Joins the control groups before anything else, so that everything from here on is counted.
fn confine(tasks: &[OwnedFd], preparation: &Preparation) -> std::io::Result<()> {
    inside::keep_ended_children();
    for task in tasks {
        inside::write_all(task.as_fd(), b"0")?;
    }
    let limits = &preparation.limits;
    // The speaker of a Python process is small and trusted; the Python process has the limits.
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

/// Where code of the engine may read and write: the rest of the sandbox's files is not for it.
pub(crate) fn engine_places() -> [(CString, Use); 3] {
    [
        (c"/workspace".into(), Use::Write),
        (c"/tmp".into(), Use::Write),
        (c"/deps".into(), Use::Read),
    ]
}

/// An outcome without a value or a place in the source.
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

/// What an error says, with what might help in this place: advice of the program's own side, so it is part of its words.
pub(crate) fn advised(name: &str, message: &str, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{name}: {message} ({advice})"),
        None => format!("{name}: {message}"),
    }
}

/// A program that does not do again what it did before.
pub(crate) fn diverged(calls: u32) -> Fault {
    let message =
        format!("the program does not repeat itself after call {calls}: it did something else when it ran before");
    plain_fault("replay.diverged", &message)
}

/// A value that is longer than the host takes.
pub(crate) fn too_large() -> Outcome {
    let message = format!("the value is longer than {} MiB of JSON", VALUE_CAP >> 20);
    let fault = plain_fault("value.too_large", &message);
    plain_outcome(OutcomeKind::Failed, 1, Some(fault))
}
