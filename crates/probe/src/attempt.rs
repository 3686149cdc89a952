//! The attacker's side: it runs inside the sandbox, makes each attempt in a process of its own, and reports the result.

mod devices;
pub(crate) mod egress;
mod files;
mod groups;
pub(crate) mod hog;
mod ipc;
mod kernel;
mod kernel_memory;
mod kernel_objects;
pub(crate) mod network;
pub(crate) mod peers;
mod proc;
pub(crate) mod secrets;
pub(crate) mod supervisor;
mod unfenced;
mod unnamed_files;

use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ringfence_jail::attack::{self, ForkedResult, ProcessEnd};
use serde::{Deserialize, Serialize};

use crate::targets::AttemptTargets;

/// The name of the hidden entry through which the program runs as its own attacker.
pub const ATTEMPT_ENTRY: &str = "probe-attempt";

/// The longest time that an attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of an attempt.
#[derive(Debug)]
pub(crate) enum AttemptResult {
    /// The action succeeded; the text says what it achieved.
    Succeeded(String),
    /// The kernel or the host refused the action with this error.
    Refused(io::Error),
    /// The action was allowed and had no effect.
    WithoutEffect(String),
}

impl From<io::Result<()>> for AttemptResult {
    fn from(result: io::Result<()>) -> AttemptResult {
        result.map_or_else(AttemptResult::Refused, |()| AttemptResult::Succeeded(String::new()))
    }
}

/// One attempt of a probe.
pub(crate) struct ProbeAttempt {
    part: String,
    action: Box<dyn FnOnce() -> AttemptResult>,
}

/// Makes an attempt that is reported under the name `part`.
pub(crate) fn new_attempt<T: Into<AttemptResult>>(
    part: impl Into<String>,
    act: impl FnOnce() -> T + 'static,
) -> ProbeAttempt {
    ProbeAttempt {
        part: part.into(),
        action: Box::new(|| act().into()),
    }
}

/// The report of one attempt, which the host reads as a JSON line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptLine {
    /// The number of the probe.
    pub(crate) id: u16,
    /// The name of the attempt in its probe.
    pub(crate) part: String,
    /// The outcome, as the attacker reports it.
    pub(crate) outcome: ReportedOutcome,
    /// The error number of a refusal; `None` for any other outcome.
    pub(crate) errno: Option<i32>,
    /// What the attempt saw, for people.
    pub(crate) detail: String,
}

/// The outcome of an attempt, as the attacker reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReportedOutcome {
    Succeeded,
    Refused,
    WithoutEffect,
    /// The kernel ended the process of the attempt.
    Killed,
    /// The attempt did not end in time.
    Stuck,
}

/// Runs the mode that the first argument names.
pub fn attempt_main(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["try", targets, ids @ ..] => run_attempts(targets, ids),
        ["hog", what, rest @ ..] => hog::run_hog(what, rest),
        ["supervise", name] => supervisor::run_supervisor(name),
        ["rehearse", folder, ids @ ..] => unfenced::run_unfenced(folder, ids),
        ["knock", aims, ids @ ..] => egress::run_egress_attempts(aims, ids),
        ["door", field, folder, program] => {
            crate::egress::run_in_namespace(field, Path::new(folder), Path::new(program))
        }
        ["nobody", program, rest @ ..] => crate::egress::exec_unprivileged(program, rest),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this entry is for the probes",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The process that started this one reads the exit code if the error cannot be written.
            let _ = writeln!(io::stderr(), "{ATTEMPT_ENTRY}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_attempts(targets: &str, ids: &[&str]) -> io::Result<()> {
    let targets: AttemptTargets = serde_json::from_slice(&std::fs::read(targets)?)?;
    for id in ids {
        let id: u16 = id.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        for one in attempts(id, &targets) {
            run_attempt(id, one)?;
        }
    }
    Ok(())
}

/// The attempts of a probe.
pub(crate) fn attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    match id {
        1..=24 => files::attempts(id, targets),
        25..=34 => secrets::attempts(id, targets),
        35..=45 => proc::attempts(id, targets),
        46..=51 => peers::attempts(id, targets),
        52..=65 => kernel::attempts(id, targets),
        66..=71 => devices::attempts(id, targets),
        87 | 88 => hog::attempts(id),
        89..=97 => network::attempts(id, targets),
        141..=146 => ipc::attempts(id, targets),
        147..=152 => groups::attempts(id, targets),
        171..=175 => kernel_objects::attempts(id, targets),
        _ => Vec::new(),
    }
}

/// Makes an attempt in a process of its own, so that its death is noticed and its success changes no other process.
fn run_attempt(id: u16, attempt: ProbeAttempt) -> io::Result<()> {
    run_attempt_within(ATTEMPT_TIMEOUT, id, attempt)
}

/// Makes an attempt that may take as long as `patience`.
fn run_attempt_within(patience: Duration, id: u16, attempt: ProbeAttempt) -> io::Result<()> {
    let ProbeAttempt { part, action: act } = attempt;
    let name = part.clone();
    let ended = attack::run_in_child(patience, move || {
        let line = match act() {
            AttemptResult::Succeeded(detail) => AttemptLine {
                id,
                part,
                outcome: ReportedOutcome::Succeeded,
                errno: None,
                detail,
            },
            AttemptResult::WithoutEffect(detail) => AttemptLine {
                id,
                part,
                outcome: ReportedOutcome::WithoutEffect,
                errno: None,
                detail,
            },
            AttemptResult::Refused(error) => AttemptLine {
                id,
                part,
                outcome: ReportedOutcome::Refused,
                errno: error.raw_os_error(),
                detail: error.to_string(),
            },
        };
        i32::from(print_json_line(&line).is_err())
    })?;
    let (outcome, detail) = match ended {
        ForkedResult::Ended(ProcessEnd::Exited(0)) => return Ok(()),
        ForkedResult::Ended(ProcessEnd::Exited(code)) => (
            ReportedOutcome::Stuck,
            format!("it left with {code} and without a word"),
        ),
        ForkedResult::Ended(ProcessEnd::Killed(signal)) => (ReportedOutcome::Killed, format!("signal {signal}")),
        ForkedResult::TooLong => (ReportedOutcome::Stuck, "no end".to_owned()),
    };
    print_json_line(&AttemptLine {
        id,
        part: name,
        outcome,
        errno: None,
        detail,
    })
}

/// Prints one JSON line.
pub(crate) fn print_json_line(line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Reads a file that may be a secret.
pub(crate) fn read_secret(path: &str, marker: &str) -> AttemptResult {
    match std::fs::read(path) {
        Err(error) => AttemptResult::Refused(error),
        Ok(bytes) => look_for_secret(&bytes, marker),
    }
}

/// Whether bytes hold a secret.
pub(crate) fn look_for_secret(bytes: &[u8], marker: &str) -> AttemptResult {
    if bytes.windows(marker.len()).any(|window| window == marker.as_bytes()) {
        AttemptResult::Succeeded("a secret of the host was read".to_owned())
    } else if bytes.is_empty() {
        AttemptResult::WithoutEffect("empty".to_owned())
    } else {
        AttemptResult::WithoutEffect("it holds no secret".to_owned())
    }
}

/// Opens an existing file for writing and writes nothing: opening is enough to succeed. What covers hidden files is the
/// exception, where all that is written is lost.
pub(crate) fn open_to_write(path: &str) -> AttemptResult {
    const NULL: u64 = 0x103;
    let opened = std::fs::File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.metadata());
    match opened {
        Err(error) => AttemptResult::Refused(error),
        Ok(found) if found.rdev() == NULL => AttemptResult::WithoutEffect("written to nowhere".to_owned()),
        Ok(_) => AttemptResult::Succeeded(String::new()),
    }
}

/// Enters a user namespace of its own, with `more` namespaces in it, in which the process keeps a user.
pub(crate) fn nest_namespaces(more: i32) -> io::Result<()> {
    const NEW_USER: i32 = 0x1000_0000;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    attack::unshare(NEW_USER | more)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
