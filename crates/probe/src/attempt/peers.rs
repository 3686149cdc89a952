//! Attempts on other processes and on privileges.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;

use ringfence_jail::attack;
use rustix::process::{getpid, getppid};

use super::{Attempt, Tried, attempt};
use crate::targets::Targets;

fn own() -> i32 {
    getpid().as_raw_nonzero().get()
}

fn parent() -> i32 {
    getppid().map_or(1, |pid| pid.as_raw_nonzero().get())
}

pub(super) fn attempts(id: u16, targets: &Targets) -> Vec<Attempt> {
    match id {
        46 => vec![
            attempt("a child", || {
                attack::spare_child().and_then(|child| attack::seize(child.pid()))
            }),
            attempt("the first process", || attack::seize(1)),
            attempt("oneself", attack::become_traced),
        ],
        47 => vec![
            attempt("read the parent", || attack::read_memory_of(parent())),
            attempt("read the first process", || attack::read_memory_of(1)),
            attempt("write", attack::write_own_memory),
        ],
        48 => vec![
            attempt("the first process", || attack::descriptor_of(1)),
            attempt("the parent", || attack::descriptor_of(parent())),
        ],
        49 => targets.victims.iter().map(|(pid, start)| reach(*pid, *start)).collect(),
        50 => vec![attempt("kcmp", || attack::compare_processes(own(), parent()))],
        _ => privileges(),
    }
}

/// Signal 0 tests whether a signal could be sent, and sends none. A process with the same number may belong to a neighbour:
/// that one has another start time.
fn reach(pid: i32, start: u64) -> Attempt {
    attempt(format!("process {pid}"), move || match attack::signal(pid, 0) {
        Ok(()) if started(pid).is_ok_and(|found| found != start) => {
            Tried::WithoutEffect("that number is another's".to_owned())
        }
        other => other.into(),
    })
}

/// The start time of a process, in ticks since the machine booted.
pub(crate) fn started(pid: i32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = text.rsplit_once(')').map(|(_, after)| after);
    let field = after.and_then(|after| after.split_whitespace().nth(19));
    field
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn privileges() -> Vec<Attempt> {
    let field = |name: &'static str, safe: fn(&str) -> bool| {
        attempt(name, move || match status_field(name) {
            Err(error) => Tried::Refused(error),
            Ok(value) if safe(&value) => Tried::WithoutEffect(value),
            Ok(value) => Tried::Succeeded(value),
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
        attempt("setuid mounts", setuid_mounts),
        attempt("setresuid", || attack::set_user(0)),
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
fn setuid_mounts() -> Tried {
    let Ok(text) = fs::read_to_string("/proc/self/mountinfo") else {
        return Tried::Refused(io::ErrorKind::PermissionDenied.into());
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
        Tried::WithoutEffect("all are nosuid".to_owned())
    } else {
        Tried::Succeeded(open.join(", "))
    }
}
