//! Runs any program: finds it on the path, starts it with exactly the environment of the job, and watches it until it ends.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ringfence_jail::inside::{self, ForkSide, ProcessEnd, WaitMode};
use ringfence_jail::seccomp::{Filter, Profile};
use ringfence_wire::{FromChild, Job, JobKind, JobOutcome, JobOutcomeKind, PipeStream, StdinMode};

use crate::child::{plain_fault, plain_outcome};
use crate::network;
use crate::pipe::{ChildPipe, ReceivedJob};
use crate::relay::{ExitHandle, ProcessRelay, RelayProgress};

/// The kernel accepts no single argument of 128 KiB or more.
const MAX_SCRIPT_BYTES: usize = 128 * 1024 - 1;

const CANNOT_RUN: i32 = 73;

struct ProgramCommand {
    path: PathBuf,
    argv: Vec<String>,
    env: Vec<(String, String)>,
    cwd: String,
}

/// Waits for the job and runs it. `memory` limits each process where no control group counts memory.
pub(crate) fn run_program(pipe: &mut ChildPipe, memory: Option<u64>) -> JobOutcome {
    pipe.send_message(&FromChild::Ready);
    let ReceivedJob { job, source, .. } = pipe.wait_for_job();
    pipe.queue_message(&FromChild::Started);
    let outcome = match connect_network(pipe, &job).and_then(|()| resolve_command(&job, &source)) {
        Ok(command) => start_and_watch(pipe, &command, job.stdin),
        Err(outcome) => {
            end_streams(pipe);
            *outcome
        }
    };
    pipe.end_stream(PipeStream::Value);
    match memory {
        Some(memory) if outcome.kind == JobOutcomeKind::Failed && has_reached_memory(memory) => {
            plain_outcome(JobOutcomeKind::OutOfMemory, outcome.exit_code, None)
        }
        _ => outcome,
    }
}

/// Whether a failed program ran out of memory: one of its processes had more than three quarters of the limit.
fn has_reached_memory(memory: u64) -> bool {
    inside::max_child_memory().is_ok_and(|largest| largest > memory / 4 * 3)
}

fn end_streams(pipe: &mut ChildPipe) {
    pipe.end_stream(PipeStream::Stdout);
    pipe.end_stream(PipeStream::Stderr);
}

/// Sets up the program's network, if the job has one.
fn connect_network(pipe: &mut ChildPipe, job: &Job) -> Result<(), Box<JobOutcome>> {
    let Some(wanted) = &job.network else {
        return Ok(());
    };
    network::prepare_network(pipe, wanted).map_err(|error| {
        let fault = plain_fault("program.network", &error.to_string());
        Box::new(plain_outcome(JobOutcomeKind::Failed, 126, Some(fault)))
    })
}

fn resolve_command(job: &Job, source: &str) -> Result<ProgramCommand, Box<JobOutcome>> {
    let argv: Vec<String> = match &job.kind {
        JobKind::Program { argv } => argv.iter().map(|one| one.as_str().to_owned()).collect(),
        JobKind::Shell { file_name, args, .. } => {
            if source.len() > MAX_SCRIPT_BYTES || source.contains('\0') {
                let message = "a shell script is text of less than 128 KiB";
                let fault = plain_fault("program.too_large", message);
                return Err(Box::new(plain_outcome(JobOutcomeKind::Failed, 2, Some(fault))));
            }
            let first = [shell_for(file_name, source), "-c", source, file_name.as_str()].map(str::to_owned);
            first
                .into_iter()
                .chain(args.iter().map(|one| one.as_str().to_owned()))
                .collect()
        }
        JobKind::Code { .. } => inside::exit_now(CANNOT_RUN),
    };
    let env: Vec<(String, String)> = job
        .env
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_str().to_owned()))
        .collect();
    let search = env
        .iter()
        .find(|(name, _)| name == "PATH")
        .map_or("", |(_, value)| value.as_str());
    let name = argv.first().map_or("", String::as_str);
    let Some(path) = find_program(name, search, job.cwd.as_str()) else {
        let message = match &job.kind {
            JobKind::Shell { .. } => format!("the script is for `{name}`, which this machine does not have"),
            JobKind::Code { .. } | JobKind::Program { .. } => {
                format!("no program `{name}` in the sandbox; `PATH` is {search}")
            }
        };
        let fault = plain_fault("program.not_found", &message);
        return Err(Box::new(plain_outcome(JobOutcomeKind::NoSuchProgram, 127, Some(fault))));
    };
    let cwd = job.cwd.as_str().to_owned();
    Ok(ProgramCommand { path, argv, env, cwd })
}

/// The shell for a script: bash if the file's ending or the first line names it, else `/bin/sh`. The one never replaces the other.
fn shell_for(file_name: &str, source: &str) -> &'static str {
    let first_line = source.lines().next().unwrap_or_default();
    let interpreter = first_line.strip_prefix("#!").map(str::split_whitespace);
    let says_bash =
        |mut words: std::str::SplitWhitespace<'_>| words.any(|word| word == "bash" || word.ends_with("/bash"));
    let ending = Path::new(file_name).extension();
    if ending.is_some_and(|ending| ending == "bash") || interpreter.is_some_and(says_bash) {
        "bash"
    } else {
        "/bin/sh"
    }
}

fn find_program(name: &str, search: &str, cwd: &str) -> Option<PathBuf> {
    let runnable =
        |path: &Path| fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        let path = Path::new(cwd).join(name);
        return runnable(&path).then_some(path);
    }
    search
        .split(':')
        .map(|folder| Path::new(folder).join(name))
        .find(|path| runnable(path))
}

fn start_and_watch(pipe: &mut ChildPipe, command: &ProgramCommand, stdin: StdinMode) -> JobOutcome {
    match try_start_and_watch(pipe, command, stdin) {
        Ok(outcome) => outcome,
        Err(error) => {
            end_streams(pipe);
            let message = format!("cannot start `{}`: {error}", command.path.display());
            plain_outcome(
                JobOutcomeKind::Failed,
                126,
                Some(plain_fault("program.start", &message)),
            )
        }
    }
}

fn try_start_and_watch(pipe: &mut ChildPipe, command: &ProgramCommand, mode: StdinMode) -> io::Result<JobOutcome> {
    let (stdin_reader, stdin) = match mode {
        StdinMode::Empty => (OwnedFd::from(fs::File::open("/dev/null")?), None),
        StdinMode::Stream => {
            let (reader, writer) = io::pipe()?;
            (reader.into(), Some(writer))
        }
    };
    let (stdout, stdout_writer) = io::pipe()?;
    let (stderr, stderr_writer) = io::pipe()?;
    // A successful start closes this pipe; a failed one writes its error number to it.
    let (mut trouble, trouble_writer) = io::pipe()?;
    let pid = match inside::fork()? {
        ForkSide::Child => {
            let ends = [stdin_reader.as_fd(), stdout_writer.as_fd(), stderr_writer.as_fd()];
            let error = become_command(command, ends);
            let number = error.raw_os_error().unwrap_or(5).to_le_bytes();
            // If this write fails the parent sees an ordinary exit with 127.
            let _ = inside::write_all(trouble_writer.as_fd(), &number);
            inside::exit_now(127)
        }
        ForkSide::Parent(pid) => pid,
    };
    drop((stdin_reader, stdout_writer, stderr_writer, trouble_writer));
    let mut number = [0; 4];
    if trouble.read_exact(&mut number).is_ok() {
        inside::wait_for_child(pid, WaitMode::Forever)?;
        return Err(io::Error::from_raw_os_error(i32::from_le_bytes(number)));
    }
    let mut ending = None;
    let mut sign = ExitHandle {
        handle: inside::child_handle(pid)?,
        check_exit: || match inside::wait_for_child(pid, WaitMode::Now) {
            Ok(None) => RelayProgress::Running,
            Ok(Some((_, ended))) => {
                ending = Some(ended);
                RelayProgress::Ended
            }
            Err(_) => RelayProgress::Ended,
        },
    };
    ProcessRelay::new(stdin, stdout, stderr).run(pipe, &mut sign)?;
    Ok(outcome_of_exit(ending))
}

fn outcome_of_exit(ending: Option<ProcessEnd>) -> JobOutcome {
    match ending {
        Some(ProcessEnd::Exited(0)) => plain_outcome(JobOutcomeKind::Completed, 0, None),
        Some(ProcessEnd::Exited(code)) => plain_outcome(JobOutcomeKind::Failed, code, None),
        Some(ProcessEnd::Killed(signal)) => JobOutcome {
            signal: Some(signal),
            ..plain_outcome(JobOutcomeKind::Failed, 128 + signal, None)
        },
        None => plain_outcome(JobOutcomeKind::Failed, 1, None),
    }
}

fn become_command(command: &ProgramCommand, ends: [std::os::fd::BorrowedFd<'_>; 3]) -> io::Error {
    for (end, number) in ends.into_iter().zip(0..) {
        if let Err(error) = inside::dup_onto(end, number) {
            return error;
        }
    }
    if let Err(error) = std::env::set_current_dir(&command.cwd) {
        return error;
    }
    if let Err(error) = inside::install_filter(&Filter::for_profile(Profile::Started)) {
        return error;
    }
    match inside::become_program(&command.path, &command.argv, &command.env) {
        Err(inside::ExecError::Refused(error)) => error,
        Err(inside::ExecError::Nul(error)) => error.into(),
    }
}
