//! The hogs, each with small limits of its own and the most that it may get.

use ringfence_sandbox::ExecutionLimit;

pub(super) const SMALL_WORKSPACE: (&str, &str) = (
    "fs.mounts",
    r#"[{"path": "/workspace", "access": "rw", "quota": "8MiB"}]"#,
);
pub(super) const TINY_WORKSPACE: (&str, &str) = (
    "fs.mounts",
    r#"[{"path": "/workspace", "access": "rw", "quota": "1MiB"}]"#,
);
pub(super) const FEW_PROCESSES: (&str, &str) = ("proc.fork_limit", "16");
pub(super) const SMALL_TEMPORARY: (&str, &str) =
    ("fs.mounts", r#"[{"path": "/tmp", "access": "rw", "quota": "8MiB"}]"#);
/// Places in memory raise the limit by their own sizes, so they are small too.
pub(super) const LITTLE_MEMORY: &[(&str, &str)] = &[("proc.mem_limit", "64MiB"), SMALL_WORKSPACE, SMALL_TEMPORARY];
pub(super) const LITTLE_OUTPUT: (&str, &str) = ("proc.output", "64KiB");
pub(super) const ONE_SECOND: (&str, &str) = ("proc.wall_timeout", "1s");

/// A hog and the most that it may get.
pub(super) struct ResourceHog {
    pub(super) part: &'static str,
    pub(super) settings: &'static [(&'static str, &'static str)],
    pub(super) words: &'static [&'static str],
    /// The limit whose verdict ends it; `None`: it is only refused.
    pub(super) limit: Option<ExecutionLimit>,
    /// The largest amount that it may report, in its own unit.
    pub(super) most: usize,
}

pub(super) const PROCESSES: &[ResourceHog] = &[ResourceHog {
    part: "processes",
    settings: &[FEW_PROCESSES],
    words: &["processes", "200"],
    limit: Some(ExecutionLimit::Processes),
    most: 24,
}];

pub(super) const THREADS: &[ResourceHog] = &[ResourceHog {
    part: "threads",
    settings: &[FEW_PROCESSES],
    words: &["threads", "200"],
    limit: Some(ExecutionLimit::Processes),
    most: 24,
}];

pub(super) const MEMORY: &[ResourceHog] = &[
    ResourceHog {
        part: "one",
        settings: LITTLE_MEMORY,
        words: &["memory", "256"],
        limit: Some(ExecutionLimit::Memory),
        most: 128,
    },
    ResourceHog {
        part: "many",
        settings: LITTLE_MEMORY,
        words: &["many", "8", "32"],
        limit: Some(ExecutionLimit::Memory),
        most: 128,
    },
    ResourceHog {
        part: "hidden",
        settings: LITTLE_MEMORY,
        words: &["hidden", "8", "32"],
        limit: Some(ExecutionLimit::Memory),
        most: 128,
    },
];

/// The places in memory are the program's to fill; everything else here counts as its memory.
pub(super) const OTHER_MEMORY: &[ResourceHog] = &[
    ResourceHog {
        part: "shared segments",
        settings: LITTLE_MEMORY,
        words: &["segments", "256"],
        limit: Some(ExecutionLimit::Memory),
        most: 128,
    },
    in_ten_processes("record locks", &["record-locks", "10"], 32),
    ResourceHog {
        part: "memory files",
        settings: LITTLE_MEMORY,
        words: &["memory-files"],
        limit: None,
        most: 0,
    },
    ResourceHog {
        part: "locked memory",
        settings: &[],
        words: &["locked"],
        limit: None,
        most: 1 << 20,
    },
    ResourceHog {
        part: "writable places",
        settings: &[SMALL_WORKSPACE, SMALL_TEMPORARY],
        words: &["places", "64"],
        limit: Some(ExecutionLimit::Disk),
        most: 33,
    },
];

/// Objects of the kernel, filled by ten processes and the one that starts them; the last one is memory within the group's
/// own limit, which has capacity for files in memory. Each has a probe of its own.
pub(super) const KERNEL_MEMORY: &[(u16, ResourceHog)] = &[
    (
        161,
        in_ten_processes("queues of unix sockets", &["unix-queues", "10"], 128),
    ),
    (162, in_ten_processes("netlink queues", &["netlink-queues", "10"], 128)),
    (163, in_ten_processes("UDP queues", &["udp-queues", "10"], 80)),
    (164, in_ten_processes("TCP buffers", &["tcp-buffers", "10"], 80)),
    (165, in_ten_processes("pipes", &["pipes", "10"], 128)),
    (166, in_ten_processes("event queues", &["event-queues", "10"], 128)),
    (167, in_ten_processes("page tables", &["page-tables", "10"], 128)),
    (
        176,
        in_ten_processes("unaccepted connections", &["unaccepted", "10"], 128),
    ),
    (
        177,
        in_ten_processes("datagrams held back", &["held-datagrams", "10"], 80),
    ),
    (178, in_ten_processes("error queues", &["error-queues", "10"], 80)),
    (
        168,
        ResourceHog {
            part: "room for files in memory",
            settings: &[
                ("proc.mem_limit", "64MiB"),
                (
                    "fs.mounts",
                    r#"[{"path": "/workspace", "access": "rw", "quota": "256MiB"}]"#,
                ),
            ],
            words: &["memory", "160"],
            limit: Some(ExecutionLimit::Memory),
            most: 96,
        },
    ),
];

const fn in_ten_processes(part: &'static str, words: &'static [&'static str], most: usize) -> ResourceHog {
    ResourceHog {
        part,
        settings: LITTLE_MEMORY,
        words,
        limit: Some(ExecutionLimit::Memory),
        most,
    }
}

const KEPT_WORKSPACE: &[(&str, &str)] = &[(
    "fs.mounts",
    r#"[{"path": "/workspace", "access": "rw", "quota": "8MiB", "keep": true}]"#,
)];

/// Hogs that fill a place on disk.
pub(super) const NAMELESS_FILES: &[ResourceHog] = &[
    ResourceHog {
        part: "files without a name",
        settings: KEPT_WORKSPACE,
        words: &["nameless", "64"],
        limit: Some(ExecutionLimit::Disk),
        most: 8,
    },
    ResourceHog {
        part: "files in connections that nobody accepted",
        settings: KEPT_WORKSPACE,
        words: &["sent", "200"],
        limit: Some(ExecutionLimit::Disk),
        most: 8,
    },
    ResourceHog {
        part: "files in a queue",
        settings: KEPT_WORKSPACE,
        words: &["queued", "200"],
        limit: Some(ExecutionLimit::Disk),
        most: 8,
    },
    ResourceHog {
        part: "files in mappings",
        settings: KEPT_WORKSPACE,
        words: &["mapped", "64"],
        limit: Some(ExecutionLimit::Disk),
        most: 8,
    },
    ResourceHog {
        part: "files of programs that run",
        settings: KEPT_WORKSPACE,
        words: &["running", "32"],
        limit: Some(ExecutionLimit::Disk),
        most: 8,
    },
];

/// Hogs that fill a place on disk, where no file system counts them.
pub(super) const FILES_ON_DISK: &[ResourceHog] = &[ResourceHog {
    part: "inodes on disk",
    settings: &[(
        "fs.mounts",
        r#"[{"path": "/workspace", "access": "rw", "quota": "1MiB", "keep": true}]"#,
    )],
    words: &["inodes", "4000"],
    limit: Some(ExecutionLimit::Inodes),
    most: 260,
}];

pub(super) const DISK: &[ResourceHog] = &[
    ResourceHog {
        part: "one file",
        settings: &[SMALL_WORKSPACE],
        words: &["file", "64"],
        limit: Some(ExecutionLimit::Disk),
        most: 8,
    },
    ResourceHog {
        part: "allocation",
        settings: &[SMALL_WORKSPACE],
        words: &["allocate", "64"],
        limit: Some(ExecutionLimit::Disk),
        most: 8,
    },
];

pub(super) const INODES: &[ResourceHog] = &[ResourceHog {
    part: "inodes",
    settings: &[TINY_WORKSPACE],
    words: &["inodes", "4000"],
    limit: Some(ExecutionLimit::Inodes),
    most: 260,
}];

pub(super) const DESCRIPTORS: &[ResourceHog] = &[ResourceHog {
    part: "descriptors",
    settings: &[("proc.open_files", "64")],
    words: &["descriptors", "1000"],
    limit: None,
    most: 64,
}];
