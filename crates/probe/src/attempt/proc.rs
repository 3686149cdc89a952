//! Attempts on `/proc` and `/sys`: files that change the machine, and files that reveal it.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use ringfence_jail::attack;

use super::{Attempt, Tried, attempt, judge_bytes, open_to_write, read_secret};
use crate::targets::Targets;

/// Files that must not be opened for writing, by probe.
pub(crate) const SETTINGS: [(u16, &[&str]); 5] = [
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
pub(crate) const TELLING: [(u16, &[&str]); 2] = [
    (40, &["/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list"]),
    (41, &["/proc/kallsyms"]),
];

/// Paths of `/sys` that must not exist.
pub(crate) const SYSTEM: [&str; 5] = [
    "/sys/kernel/uevent_helper",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
    "/sys/kernel/security",
];

pub(super) fn attempts(id: u16, targets: &Targets) -> Vec<Attempt> {
    let listed = |table: &[(u16, &'static [&'static str])]| -> Vec<&'static str> {
        table
            .iter()
            .filter(|(probe, _)| *probe == id)
            .flat_map(|(_, paths)| paths.iter().copied())
            .collect()
    };
    let at = |path: &str| targets.system(path);
    match id {
        35..=39 => listed(&SETTINGS)
            .into_iter()
            .map(|path| write(path, at(path)))
            .collect(),
        40 | 41 => listed(&TELLING).into_iter().map(|path| tell(path, at(path))).collect(),
        42 => other_roots(targets),
        43 => {
            let path = format!("{}/shared.txt", targets.shown);
            let again = path.clone();
            vec![
                attempt("/proc/self/mem", move || {
                    attack::write_through_memory_file(Path::new(&path))
                }),
                attempt("mapping", move || attack::write_through_mapping(Path::new(&again))),
            ]
        }
        44 => SYSTEM.into_iter().map(|path| is_there(path, at(path))).collect(),
        _ => leaks(targets),
    }
}

fn write(name: &str, path: String) -> Attempt {
    attempt(name, move || open_to_write(&path))
}

/// Reads a file that must reveal nothing: an empty file and an address of zeroes count as hidden.
fn tell(name: &str, path: String) -> Attempt {
    attempt(name, move || -> io::Result<()> {
        let mut first = [0u8; 16];
        let count = fs::File::open(&path)?.read(&mut first)?;
        let told = first.get(..count).unwrap_or_default();
        if told.is_empty() || told.starts_with(b"0000000000000000") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    })
}

fn is_there(name: &str, path: String) -> Attempt {
    attempt(name, move || match fs::metadata(&path) {
        Err(error) => Tried::Refused(error),
        Ok(found) if found.is_dir() => match fs::read_dir(&path).map(Iterator::count) {
            Ok(0) => Tried::WithoutEffect("empty".to_owned()),
            Ok(count) => Tried::Succeeded(format!("{count} entries")),
            Err(error) => Tried::Refused(error),
        },
        Ok(_) => Tried::Succeeded("it is there".to_owned()),
    })
}

/// Looks through the roots and current folders of all visible processes, and of the known ones.
fn other_roots(targets: &Targets) -> Vec<Attempt> {
    let (marker, canary, victims) = (
        targets.marker.clone(),
        targets.canary.clone(),
        targets.victims.iter().map(|(pid, _)| *pid).collect::<Vec<i32>>(),
    );
    vec![attempt("roots", move || -> Tried {
        let seen = fs::read_dir("/proc").into_iter().flatten().flatten();
        let seen = seen.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
        for pid in seen.chain(victims) {
            for way in ["root", "cwd"] {
                let path = format!(
                    "/proc/{pid}/{way}/{}{}",
                    "../".repeat(20),
                    canary.trim_start_matches('/')
                );
                if let Tried::Succeeded(_) = read_secret(&path, &marker) {
                    return Tried::Succeeded(format!("through /proc/{pid}/{way}"));
                }
            }
        }
        Tried::WithoutEffect("no process leads outside".to_owned())
    })]
}

fn leaks(targets: &Targets) -> Vec<Attempt> {
    let search = |file: &'static str, words: Vec<String>| {
        attempt(file, move || match fs::read(file) {
            Err(error) => Tried::Refused(error),
            Ok(bytes) => words
                .iter()
                .find(|word| matches!(judge_bytes(&bytes, word), Tried::Succeeded(_)))
                .map_or_else(
                    || Tried::WithoutEffect("nothing of the host".to_owned()),
                    |word| Tried::Succeeded(word.clone()),
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
