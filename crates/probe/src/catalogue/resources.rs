//! The probes that take too much: of what belongs to a process, and of what the kernel keeps.

use super::ProbeMethod::{Abuse, Inside, Outside};
use super::ProbeRow;

pub(super) const RESOURCES: &[ProbeRow] = &[
    (72, "fork bomb", "proc.fork_limit", Abuse),
    (73, "thread bomb", "proc.fork_limit", Abuse),
    (74, "memory hog", "proc.mem_limit", Abuse),
    (75, "memory that is no process's", "proc.mem_limit", Abuse),
    (76, "fill the disk", "fs.mounts.quota", Abuse),
    (77, "fill the inodes", "fs.mounts.quota", Abuse),
    (78, "very deep folders", "namespace", Abuse),
    (79, "use up descriptors", "proc.open_files", Abuse),
    (80, "flood the output", "proc.output", Abuse),
    (81, "complain for ever with the output closed", "proc.output", Abuse),
    (82, "never end", "proc.wall_timeout", Abuse),
    (83, "use every processor", "proc.cpu_quota", Abuse),
    (84, "leave a daemon behind", "namespace", Abuse),
    (85, "leave orphans unreaped", "namespace", Abuse),
    (86, "survive the supervisor", "namespace", Outside),
    (87, "use up watchers, timers and request pools", "rlimit", Inside),
    (88, "core dumps", "rlimit", Inside),
];

/// Kernel memory that belongs to no process.
pub(super) const KERNEL_MEMORY: &[ProbeRow] = &[
    (161, "memory in queues of unix sockets", "proc.mem_limit", Abuse),
    (162, "memory in netlink queues", "proc.mem_limit", Abuse),
    (163, "memory in UDP queues", "proc.mem_limit", Abuse),
    (164, "memory in TCP buffers", "proc.mem_limit", Abuse),
    (165, "memory in pipes", "proc.mem_limit", Abuse),
    (166, "memory in event queues", "proc.mem_limit", Abuse),
    (167, "memory in page tables", "proc.mem_limit", Abuse),
    (168, "the room for files in memory", "proc.mem_limit", Abuse),
    (169, "deleted files that something keeps, on disk", "watch", Abuse),
    (170, "fill the inodes of a place on disk", "watch", Abuse),
    (171, "memory in options of sockets", "seccomp", Inside),
    (172, "tables and rules without a bound", "seccomp", Inside),
    (173, "reserve disk without writing it", "seccomp", Inside),
    (
        176,
        "memory in connections that nobody accepts",
        "proc.mem_limit",
        Abuse,
    ),
    (177, "memory in datagrams that are held back", "proc.mem_limit", Abuse),
    (178, "memory in queues of errors", "proc.mem_limit", Abuse),
];
