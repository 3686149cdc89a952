//! Attempts on `/proc` and `/sys`: files that change the machine, and files that reveal it.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use ringfence_jail::attack;

use super::{AttemptResult, ProbeAttempt, look_for_secret, new_attempt, open_to_write, read_secret};
use crate::targets::AttemptTargets;

/// Files that must not be opened for writing, by probe.
pub(crate) const PROTECTED_SETTINGS: [(u16, &[&str]); 5] = [
    (35, &["/proc/sys/kernel/core_pattern"]),
    (36, &["/proc/sys/kernel/modprobe"]),
    (37, &["/proc/sys/fs/binfmt_misc/register"]),
    (38, &["/proc/sysrq-trigger"]),
    (
        39,
        &[
            "/proc/sys/vm/overcommit_memory",
            "/proc/sys/vm/drop_caches",
            "/proc/sys/vm/panic_on_oom",
        ],
    ),
];

/// Files that must reveal nothing, by probe.
pub(crate) const TELLING_FILES: [(u16, &[&str]); 2] = [
    (40, &["/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list"]),
    (41, &["/proc/kallsyms"]),
];

/// Paths of `/sys` that must not exist.
pub(crate) const ABSENT_SYS_PATHS: [&str; 5] = [
    "/sys/kernel/uevent_helper",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
    "/sys/kernel/security",
];

pub(super) fn attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let listed = |table: &[(u16, &'static [&'static str])]| -> Vec<&'static str> {
        table
            .iter()
            .filter(|(probe, _)| *probe == id)
            .flat_map(|(_, paths)| paths.iter().copied())
            .collect()
    };
    let at = |path: &str| targets.system_path(path);
    match id {
        35..=39 => listed(&PROTECTED_SETTINGS)
            .into_iter()
            .map(|path| write_attempt(path, at(path)))
            .collect(),
        40 | 41 => listed(&TELLING_FILES)
            .into_iter()
            .map(|path| read_attempt(path, at(path)))
            .collect(),
        42 => other_root_attempts(targets),
        43 => {
            let path = format!("{}/shared.txt", targets.shown);
            let again = path.clone();
            vec![
                new_attempt("/proc/self/mem", move || {
                    attack::write_through_memory_file(Path::new(&path))
                }),
                new_attempt("mapping", move || attack::write_through_mapping(Path::new(&again))),
            ]
        }
        44 => ABSENT_SYS_PATHS
            .into_iter()
            .map(|path| presence_attempt(path, at(path)))
            .collect(),
        _ => leak_attempts(targets),
    }
}

fn write_attempt(name: &str, path: String) -> ProbeAttempt {
    new_attempt(name, move || open_to_write(&path))
}

/// Reads a file that must reveal nothing: an empty file and an address of zeroes count as hidden.
fn read_attempt(name: &str, path: String) -> ProbeAttempt {
    new_attempt(name, move || -> io::Result<()> {
        let mut first = [0u8; 16];
        let count = fs::File::open(&path)?.read(&mut first)?;
        let told = first.get(..count).unwrap_or_default();
        if told.is_empty() || told.starts_with(b"0000000000000000") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    })
}

fn presence_attempt(name: &str, path: String) -> ProbeAttempt {
    new_attempt(name, move || match fs::metadata(&path) {
        Err(error) => AttemptResult::Refused(error),
        Ok(found) if found.is_dir() => match fs::read_dir(&path).map(Iterator::count) {
            Ok(0) => AttemptResult::WithoutEffect("empty".to_owned()),
            Ok(count) => AttemptResult::Succeeded(format!("{count} entries")),
            Err(error) => AttemptResult::Refused(error),
        },
        Ok(_) => AttemptResult::Succeeded("it is there".to_owned()),
    })
}

/// Looks through the roots and current folders of all visible processes, and of the known ones.
fn other_root_attempts(targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let (marker, canary, victims) = (
        targets.marker.clone(),
        targets.canary.clone(),
        targets.victims.iter().map(|(pid, _)| *pid).collect::<Vec<i32>>(),
    );
    vec![new_attempt("roots", move || -> AttemptResult {
        let seen = fs::read_dir("/proc").into_iter().flatten().flatten();
        let seen = seen.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
        for pid in seen.chain(victims) {
            for way in ["root", "cwd"] {
                let path = format!(
                    "/proc/{pid}/{way}/{}{}",
                    "../".repeat(20),
                    canary.trim_start_matches('/')
                );
                if let AttemptResult::Succeeded(_) = read_secret(&path, &marker) {
                    return AttemptResult::Succeeded(format!("through /proc/{pid}/{way}"));
                }
            }
        }
        AttemptResult::WithoutEffect("no process leads outside".to_owned())
    })]
}

fn leak_attempts(targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let search = |file: &'static str, words: Vec<String>| {
        new_attempt(file, move || match fs::read(file) {
            Err(error) => AttemptResult::Refused(error),
            Ok(bytes) => words
                .iter()
                .find(|word| matches!(look_for_secret(&bytes, word), AttemptResult::Succeeded(_)))
                .map_or_else(
                    || AttemptResult::WithoutEffect("nothing of the host".to_owned()),
                    |word| AttemptResult::Succeeded(word.clone()),
                ),
        })
    };
    let sockets = vec![targets.abstract_socket.clone(), targets.socket.clone()];
    vec![
        search("/proc/self/mountinfo", targets.leaks.clone()),
        search("/proc/net/fib_trie", targets.addresses.clone()),
        search("/proc/net/unix", sockets),
    ]
}
