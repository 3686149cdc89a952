//! Attempts on control groups, and on namespaces through `/proc`.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use ringfence_jail::attack::{self, MountedFilesystem};

use super::{ProbeAttempt, nest_namespaces, new_attempt, open_to_write};
use crate::targets::AttemptTargets;

const NEW_MOUNTS: i32 = 0x0002_0000;
const NEW_NAMES: i32 = 0x0400_0000;
const NEW_GROUPS: i32 = 0x0200_0000;

/// Files that make the host start a program when a group is empty.
pub(crate) const RELEASE: [&str; 3] = [
    "/sys/fs/cgroup/memory/release_agent",
    "/sys/fs/cgroup/pids/notify_on_release",
    "/sys/fs/cgroup/release_agent",
];
/// Files that move a process to another group.
pub(crate) const MEMBERS: [&str; 4] = [
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/unified/cgroup.procs",
    "/sys/fs/cgroup/memory/tasks",
    "/sys/fs/cgroup/pids/tasks",
];

pub(super) fn attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let write = |name: &str| {
        let path = targets.system_path(name);
        new_attempt(name, move || open_to_write(&path))
    };
    match id {
        147 => RELEASE.into_iter().map(write).collect(),
        148 => {
            let scratch = PathBuf::from(&targets.scratch);
            vec![new_attempt("nested mount", move || -> io::Result<()> {
                nest_namespaces(NEW_MOUNTS | NEW_GROUPS)?;
                attack::mount_new(
                    &MountedFilesystem {
                        kind: "cgroup2".to_owned(),
                        options: String::new(),
                    },
                    &scratch,
                )
            })]
        }
        149 => MEMBERS.into_iter().map(write).collect(),
        150 => vec![
            new_attempt("use a capability", || {
                nest_namespaces(NEW_NAMES)?;
                attack::set_host_name()
            }),
            new_attempt("nested twice", || {
                nest_namespaces(0)?;
                nest_namespaces(0)
            }),
        ],
        151 => {
            let first = std::iter::once(1);
            first
                .chain(targets.victims.iter().map(|(pid, _)| *pid))
                .map(|pid| {
                    new_attempt(format!("process {pid}"), move || {
                        let namespace: OwnedFd = File::open(format!("/proc/{pid}/ns/net"))?.into();
                        attack::join_namespace(&namespace)
                    })
                })
                .collect()
        }
        _ => Vec::new(),
    }
}
