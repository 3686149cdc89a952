//! The attacker's side: it runs inside the sandbox, makes each attempt in a process of its own, and reports the result.

mod devices;
pub(crate) mod door;
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
mod rehearse;
pub(crate) mod secrets;
pub(crate) mod supervise;
mod unnamed_files;

use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ringfence_jail::attack::{self, Ending, Forked};
use serde::{Deserialize, Serialize};

use crate::targets::Targets;

/// The name of the hidden entry through which the program runs as its own attacker.
pub const ENTRY: &str = "probe-attempt";

/// The longest time that an attempt may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of an attempt.
#[derive(Debug)]
pub(crate) enum Tried {
    /// The action succeeded; the text says what it achieved.
    Succeeded(String),
    /// The kernel or the host refused the action with this error.
    Refused(io::Error),
    /// The action was allowed and had no effect.
    WithoutEffect(String),
}

impl From<io::Result<()>> for Tried {
    fn from(result: io::Result<()>) -> Tried {
        result.map_or_else(Tried::Refused, |()| Tried::Succeeded(String::new()))
    }
}

/// One attempt of a probe.
pub(crate) struct Attempt {
    part: String,
    act: Box<dyn FnOnce() -> Tried>,
}

/// Makes an attempt that is reported under the name `part`.
pub(crate) fn attempt<T: Into<Tried>>(part: impl Into<String>, act: impl FnOnce() -> T + 'static) -> Attempt {
    Attempt {
        part: part.into(),
        act: Box::new(|| act().into()),
    }
}

/// The report of one attempt, which the host reads as a JSON line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The number of the probe.
    pub(crate) id: u16,
    /// The name of the attempt in its probe.
    pub(crate) part: String,
    /// The outcome, as the attacker reports it.
    pub(crate) outcome: Heard,
    /// The error number of a refusal; `None` for any other outcome.
    pub(crate) errno: Option<i32>,
    /// What the attempt saw, for people.
    pub(crate) detail: String,
}

/// The outcome of an attempt, as the attacker reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Heard {
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
        ["try", targets, ids @ ..] => try_all(targets, ids),
        ["hog", what, rest @ ..] => hog::run(what, rest),
        ["supervise", name] => supervise::run(name),
        ["rehearse", folder, ids @ ..] => rehearse::run(folder, ids),
        ["knock", aims, ids @ ..] => door::run(aims, ids),
        ["door", field, folder, program] => crate::door::inside(field, Path::new(folder), Path::new(program)),
        ["nobody", program, rest @ ..] => crate::door::as_nobody(program, rest),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this entry is for the probes",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The process that started this one reads the exit code if the error cannot be written.
            let _ = writeln!(io::stderr(), "{ENTRY}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_all(targets: &str, ids: &[&str]) -> io::Result<()> {
    let targets: Targets = serde_json::from_slice(&std::fs::read(targets)?)?;
    for id in ids {
        let id: u16 = id.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        for one in attempts(id, &targets) {
            try_one(id, one)?;
        }
    }
    Ok(())
}

/// The attempts of a probe.
pub(crate) fn attempts(id: u16, targets: &Targets) -> Vec<Attempt> {
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
fn try_one(id: u16, attempt: Attempt) -> io::Result<()> {
    try_within(PATIENCE, id, attempt)
}

/// Makes an attempt that may take as long as `patience`.
fn try_within(patience: Duration, id: u16, attempt: Attempt) -> io::Result<()> {
    let Attempt { part, act } = attempt;
    let name = part.clone();
    let ended = attack::fork_and(patience, move || {
        let line = match act() {
            Tried::Succeeded(detail) => Line {
                id,
                part,
                outcome: Heard::Succeeded,
                errno: None,
                detail,
            },
            Tried::WithoutEffect(detail) => Line {
                id,
                part,
                outcome: Heard::WithoutEffect,
                errno: None,
                detail,
            },
            Tried::Refused(error) => Line {
                id,
                part,
                outcome: Heard::Refused,
                errno: error.raw_os_error(),
                detail: error.to_string(),
            },
        };
        i32::from(say(&line).is_err())
    })?;
    let (outcome, detail) = match ended {
        Forked::Ended(Ending::Exited(0)) => return Ok(()),
        Forked::Ended(Ending::Exited(code)) => (Heard::Stuck, format!("it left with {code} and without a word")),
        Forked::Ended(Ending::Killed(signal)) => (Heard::Killed, format!("signal {signal}")),
        Forked::TooLong => (Heard::Stuck, "no end".to_owned()),
    };
    say(&Line {
        id,
        part: name,
        outcome,
        errno: None,
        detail,
    })
}

/// Prints one JSON line.
pub(crate) fn say(line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Reads a file that may be a secret.
pub(crate) fn read_secret(path: &str, marker: &str) -> Tried {
    match std::fs::read(path) {
        Err(error) => Tried::Refused(error),
        Ok(bytes) => judge_bytes(&bytes, marker),
    }
}

/// Whether bytes hold a secret.
pub(crate) fn judge_bytes(bytes: &[u8], marker: &str) -> Tried {
    if bytes.windows(marker.len()).any(|window| window == marker.as_bytes()) {
        Tried::Succeeded("a secret of the host was read".to_owned())
    } else if bytes.is_empty() {
        Tried::WithoutEffect("empty".to_owned())
    } else {
        Tried::WithoutEffect("it holds no secret".to_owned())
    }
}

/// Opens an existing file for writing and writes nothing: opening is enough to succeed. What covers hidden files is the
/// exception, where all that is written is lost.
pub(crate) fn open_to_write(path: &str) -> Tried {
    const NULL: u64 = 0x103;
    let opened = std::fs::File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.metadata());
    match opened {
        Err(error) => Tried::Refused(error),
        Ok(found) if found.rdev() == NULL => Tried::WithoutEffect("written to nowhere".to_owned()),
        Ok(_) => Tried::Succeeded(String::new()),
    }
}

/// Enters a user namespace of its own, with `more` namespaces in it, in which the process keeps a user.
pub(crate) fn nest(more: i32) -> io::Result<()> {
    const NEW_USER: i32 = 0x1000_0000;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    attack::unshare(NEW_USER | more)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
