//! Runs a Python program from the child's side: the job goes to the Python process, and its output and result go to the host.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use ringfence_jail::inside;
use ringfence_wire::{
    BoundedList, BoundedText, FromChild, JobFailure, JobKind, JobOutcome, JobOutcomeKind, PipeStream, SourceDiagnostic,
    VALUE_CAP,
};

use serde_json::value::RawValue;

use crate::bridge::PythonBridge;
use crate::child::{diverged_fault, plain_fault, plain_outcome, value_too_large, with_advice};
use crate::network;
use crate::pipe::{ChildPipe, ReceivedJob};
use crate::python::{FrameBuffer, PythonError, PythonJob, PythonResult, is_ready};
use crate::relay::ProcessRelay;
use crate::zygote::PythonChild;

const CANNOT_RUN: i32 = 75;
/// A value's JSON text is itself a string in the frame, so escapes may make it longer.
const MAX_FRAME_BYTES: usize = 64 << 20;

/// Waits for the job, hands it to the Python process, and relays that process until its end.
pub(crate) fn run_python(pipe: &mut ChildPipe, python: PythonChild) -> JobOutcome {
    let mut stream = UnixStream::from(python.stream);
    let mut frames = FrameBuffer::new(MAX_FRAME_BYTES);
    match frames.read_frame(&mut stream) {
        Ok(Some(frame)) if is_ready(&frame) => {}
        // The Python process could not confine itself; the host sees the pipe close before the child is ready.
        _ => inside::exit_now(CANNOT_RUN),
    }
    pipe.send_message(&FromChild::Ready);
    let given = pipe.wait_for_job();
    pipe.queue_message(&FromChild::Started);
    if let Some(network) = &given.job.network
        && let Err(error) = network::prepare_network(pipe, network)
    {
        let fault = plain_fault("program.network", &error.to_string());
        for stream in [PipeStream::Stdout, PipeStream::Stderr, PipeStream::Value] {
            pipe.end_stream(stream);
        }
        return plain_outcome(JobOutcomeKind::Failed, 126, Some(fault));
    }
    let sent = job_frame(&given).map(|frame| stream.write_all(&frame).is_ok());
    let mut relay = ProcessRelay::new(None, python.stdout, python.stderr);
    let followed = PythonBridge::new(stream, frames).and_then(|mut bridge| {
        relay.run(pipe, &mut bridge)?;
        Ok(bridge.into_result())
    });
    let outcome = match (sent, followed) {
        (Ok(true), Ok(Some(result))) => outcome_of_result(pipe, result),
        (Err(fault), ..) => plain_outcome(JobOutcomeKind::Failed, 1, Some(*fault)),
        _ => {
            let message = "the Python process ended without an answer";
            plain_outcome(JobOutcomeKind::Failed, 1, Some(plain_fault("python.ended", message)))
        }
    };
    pipe.end_stream(PipeStream::Value);
    outcome
}

fn job_frame(given: &ReceivedJob) -> Result<Vec<u8>, Box<JobFailure>> {
    let ReceivedJob {
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
        inside::exit_now(CANNOT_RUN)
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

fn outcome_of_result(pipe: &mut ChildPipe, result: PythonResult) -> JobOutcome {
    let failed = |kind, code, error: &PythonError, advice: Option<&str>| {
        plain_outcome(kind, 1, Some(python_fault(code, error, advice)))
    };
    match result {
        PythonResult::Completed { value_json } => {
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
        PythonResult::Failed(error) if error.kind == "MemoryError" => {
            plain_outcome(JobOutcomeKind::OutOfMemory, 1, None)
        }
        PythonResult::Failed(error) => failed(JobOutcomeKind::Failed, "program.failed", &error, None),
        PythonResult::SyntaxError(error) => {
            let diagnostic = SourceDiagnostic {
                file: BoundedText::truncated(error.file.as_deref().unwrap_or_default()),
                line: error.line.unwrap_or(0),
                column: error.column.unwrap_or(0),
                code: BoundedText::truncated(&error.kind),
                message: BoundedText::truncated(&error.message),
            };
            let diagnostics = BoundedList::truncated(vec![diagnostic]);
            JobOutcome {
                diagnostics,
                ..plain_outcome(JobOutcomeKind::SyntaxError, 1, None)
            }
        }
        PythonResult::NotJson { error, hint } => {
            failed(JobOutcomeKind::NotJson, "value.not_json", &error, hint.as_deref())
        }
        PythonResult::ImportRefused(error) => failed(JobOutcomeKind::ImportRefused, "import.refused", &error, None),
        PythonResult::Diverged { calls, message } => {
            let message = format!("the program does not repeat itself after call {calls}: {message}");
            let fault = JobFailure {
                message: BoundedText::truncated(&message),
                ..diverged_fault(calls)
            };
            plain_outcome(JobOutcomeKind::Diverged, 1, Some(fault))
        }
        PythonResult::Exit { code: 0 } => plain_outcome(JobOutcomeKind::Completed, 0, None),
        PythonResult::Exit { code } => plain_outcome(JobOutcomeKind::Failed, i32::from(code), None),
    }
}

fn python_fault(code: &str, error: &PythonError, advice: Option<&str>) -> JobFailure {
    JobFailure {
        code: BoundedText::truncated(code),
        message: BoundedText::truncated(&with_advice(&error.kind, &error.message, advice)),
        file: BoundedText::truncated(error.file.as_deref().unwrap_or_default()),
        line: error.line.unwrap_or(0),
        column: error.column.unwrap_or(0),
        call: error.call,
    }
}
