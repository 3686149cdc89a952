//! Attempts on other processes and on privileges.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;

use ringfence_jail::attack;
use rustix::process::{getpid, getppid};

use super::{AttemptResult, ProbeAttempt, new_attempt};
use crate::targets::AttemptTargets;

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

fn parent_pid() -> i32 {
    getppid().map_or(1, |pid| pid.as_raw_nonzero().get())
}

pub(super) fn attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    match id {
        46 => vec![
            new_attempt("a child", || {
                attack::spawn_victim().and_then(|child| attack::seize(child.pid()))
            }),
            new_attempt("the first process", || attack::seize(1)),
            new_attempt("oneself", attack::become_traced),
        ],
        47 => vec![
            new_attempt("read the parent", || attack::read_memory_of(parent_pid())),
            new_attempt("read the first process", || attack::read_memory_of(1)),
            new_attempt("write", attack::write_own_memory),
        ],
        48 => vec![
            new_attempt("the first process", || attack::copy_descriptor(1)),
            new_attempt("the parent", || attack::copy_descriptor(parent_pid())),
        ],
        49 => targets
            .victims
            .iter()
            .map(|(pid, start)| signal_attempt(*pid, *start))
            .collect(),
        50 => vec![new_attempt("kcmp", || {
            attack::compare_processes(own_pid(), parent_pid())
        })],
        _ => privilege_attempts(),
    }
}

/// Signal 0 tests whether a signal could be sent, and sends none. A process with the same number may belong to a neighbour:
/// that one has another start time.
fn signal_attempt(pid: i32, start: u64) -> ProbeAttempt {
    new_attempt(format!("process {pid}"), move || match attack::signal(pid, 0) {
        Ok(()) if start_ticks(pid).is_ok_and(|found| found != start) => {
            AttemptResult::WithoutEffect("that number is another's".to_owned())
        }
        other => other.into(),
    })
}

/// The start time of a process, in ticks since the machine booted.
pub(crate) fn start_ticks(pid: i32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = text.rsplit_once(')').map(|(_, after)| after);
    let field = after.and_then(|after| after.split_whitespace().nth(19));
    field
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn privilege_attempts() -> Vec<ProbeAttempt> {
    let field = |name: &'static str, safe: fn(&str) -> bool| {
        new_attempt(name, move || match status_field(name) {
            Err(error) => AttemptResult::Refused(error),
            Ok(value) if safe(&value) => AttemptResult::WithoutEffect(value),
            Ok(value) => AttemptResult::Succeeded(value),
        })
    };
    let none = |value: &str| value.chars().all(|one| one == '0');
    vec![
        field("NoNewPrivs", |value| value == "1"),
        field("CapEff", none),
        field("CapPrm", none),
        field("CapInh", none),
        field("CapBnd", none),
        field("CapAmb", none),
        new_attempt("setuid mounts", check_setuid_mounts),
        new_attempt("setresuid", || attack::set_user(0)),
    ]
}

fn status_field(name: &str) -> io::Result<String> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')));
    line.map(|value| value.trim().to_owned())
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Checks that every mount ignores setuid bits, except the jail's own files, on which no program can set one.
fn check_setuid_mounts() -> AttemptResult {
    let Ok(text) = fs::read_to_string("/proc/self/mountinfo") else {
        return AttemptResult::Refused(io::ErrorKind::PermissionDenied.into());
    };
    let open: Vec<&str> = text
        .lines()
        .filter(|line| {
            line.split(' ')
                .nth(5)
                .is_none_or(|options| !options.split(',').any(|option| option == "nosuid"))
        })
        .filter_map(|line| line.split(' ').nth(4))
        // A device that covers a hidden file is not a program.
        .filter(|point| fs::metadata(point).is_ok_and(|found| !found.file_type().is_char_device()))
        .collect();
    if open.is_empty() {
        AttemptResult::WithoutEffect("all are nosuid".to_owned())
    } else {
        AttemptResult::Succeeded(open.join(", "))
    }
}
