//! Runs a Python program from the child's side: the job goes to the Python process, and its output and result go to the host.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use ringfence_jail::inside;
use ringfence_wire::{Diagnostic, Fault, FromChild, JobKind, List, Outcome, OutcomeKind, Stream, Text, VALUE_CAP};

use serde_json::value::RawValue;

use crate::bridge::Bridge;
use crate::child::{advised, diverged, plain_fault, plain_outcome, too_large};
use crate::network;
use crate::pipe::{Given, Pipe};
use crate::python::{Frames, PythonError, PythonJob, PythonResult, is_ready};
use crate::relay::Relay;
use crate::zygote::PythonChild;

const CANNOT_RUN: i32 = 75;
/// A value's JSON text is itself a string in the frame, so escapes may make it longer.
const FRAME_CAP: usize = 64 << 20;

/// Waits for the job, hands it to the Python process, and relays that process until its end.
pub(crate) fn run(pipe: &mut Pipe, python: PythonChild) -> Outcome {
    let mut stream = UnixStream::from(python.stream);
    let mut frames = Frames::new(FRAME_CAP);
    match frames.read_frame(&mut stream) {
        Ok(Some(frame)) if is_ready(&frame) => {}
        // The Python process could not confine itself; the host sees the pipe close before the child is ready.
        _ => inside::leave(CANNOT_RUN),
    }
    pipe.tell(&FromChild::Ready);
    let given = pipe.job();
    pipe.tell_along(&FromChild::Started);
    if let Some(network) = &given.job.network
        && let Err(error) = network::prepare(pipe, network)
    {
        let fault = plain_fault("program.network", &error.to_string());
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Value] {
            pipe.end(stream);
        }
        return plain_outcome(OutcomeKind::Failed, 126, Some(fault));
    }
    let sent = frame(&given).map(|frame| stream.write_all(&frame).is_ok());
    let mut relay = Relay::new(None, python.stdout, python.stderr);
    let followed = Bridge::new(stream, frames).and_then(|mut bridge| {
        relay.run(pipe, &mut bridge)?;
        Ok(bridge.into_result())
    });
    let outcome = match (sent, followed) {
        (Ok(true), Ok(Some(result))) => judge(pipe, result),
        (Err(fault), ..) => plain_outcome(OutcomeKind::Failed, 1, Some(*fault)),
        _ => {
            let message = "the Python process ended without an answer";
            plain_outcome(OutcomeKind::Failed, 1, Some(plain_fault("python.ended", message)))
        }
    };
    pipe.end(Stream::Value);
    outcome
}

fn frame(given: &Given) -> Result<Vec<u8>, Box<Fault>> {
    let Given {
        job,
        source,
        input,
        trace,
    } = given;
    let input = input.as_deref().map(serde_json::from_str::<&RawValue>).transpose();
    let input = input.map_err(|error| Box::new(plain_fault("program.input", &error.to_string())))?;
    let JobKind::Code {
        file_name,
        args,
        seed,
        clock,
        ..
    } = &job.kind
    else {
        inside::leave(CANNOT_RUN)
    };
    let args: Vec<String> = args.iter().map(|one| one.as_str().to_owned()).collect();
    let env: BTreeMap<String, String> = job
        .env
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_str().to_owned()))
        .collect();
    let has_network = job.network.is_some();
    let job = PythonJob {
        source,
        file_name: file_name.as_str(),
        args: &args,
        input,
        env: &env,
        workspace: Path::new(job.cwd.as_str()),
        deps: Path::new("/deps"),
        seed: *seed,
        clock: *clock,
        trace,
        network: has_network,
    };
    job.to_frame()
        .map_err(|error| Box::new(plain_fault("program.too_large", &error.to_string())))
}

fn judge(pipe: &mut Pipe, result: PythonResult) -> Outcome {
    let failed = |kind, code, error: &PythonError, advice: Option<&str>| {
        plain_outcome(kind, 1, Some(fault(code, error, advice)))
    };
    match result {
        PythonResult::Completed { value_json } => {
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
        PythonResult::Failed(error) if error.kind == "MemoryError" => plain_outcome(OutcomeKind::OutOfMemory, 1, None),
        PythonResult::Failed(error) => failed(OutcomeKind::Failed, "program.failed", &error, None),
        PythonResult::SyntaxError(error) => {
            let diagnostic = Diagnostic {
                file: Text::cut(error.file.as_deref().unwrap_or_default()),
                line: error.line.unwrap_or(0),
                column: error.column.unwrap_or(0),
                code: Text::cut(&error.kind),
                message: Text::cut(&error.message),
            };
            let diagnostics = List::cut(vec![diagnostic]);
            Outcome {
                diagnostics,
                ..plain_outcome(OutcomeKind::SyntaxError, 1, None)
            }
        }
        PythonResult::NotJson { error, hint } => {
            failed(OutcomeKind::NotJson, "value.not_json", &error, hint.as_deref())
        }
        PythonResult::ImportRefused(error) => failed(OutcomeKind::ImportRefused, "import.refused", &error, None),
        PythonResult::Diverged { calls, message } => {
            let message = format!("the program does not repeat itself after call {calls}: {message}");
            let fault = Fault {
                message: Text::cut(&message),
                ..diverged(calls)
            };
            plain_outcome(OutcomeKind::Diverged, 1, Some(fault))
        }
        PythonResult::Exit { code: 0 } => plain_outcome(OutcomeKind::Completed, 0, None),
        PythonResult::Exit { code } => plain_outcome(OutcomeKind::Failed, i32::from(code), None),
    }
}

fn fault(code: &str, error: &PythonError, advice: Option<&str>) -> Fault {
    Fault {
        code: Text::cut(code),
        message: Text::cut(&advised(&error.kind, &error.message, advice)),
        file: Text::cut(error.file.as_deref().unwrap_or_default()),
        line: error.line.unwrap_or(0),
        column: error.column.unwrap_or(0),
        call: error.call,
    }
}
