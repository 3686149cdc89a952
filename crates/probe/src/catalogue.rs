//! The catalogue of probes. Their numbers come from the catalogue that the project was built against and never change.

mod egress;
mod resources;

/// What a probe attacks, as a class with a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeClass {
    /// A: files outside the root.
    Files,
    /// B: links and races.
    Links,
    /// C: secrets in homes, projects and environments.
    Secrets,
    /// D: `/proc` and `/sys`.
    Proc,
    /// E: processes outside the sandbox.
    Processes,
    /// F: interfaces of the kernel.
    Kernel,
    /// G: devices and terminals.
    Devices,
    /// H: limits on resources.
    Resources,
    /// I: the network, directly.
    Network,
    /// J: the network egress, by names.
    Names,
    /// K: the network egress, by protocols.
    Protocols,
    /// L: data that leaves without a connection of its own.
    Leaks,
    /// M: credentials that the proxy attaches.
    Credentials,
    /// N: local sockets of the machine's services.
    Sockets,
    /// O: control groups and namespaces.
    Groups,
    /// P: the orchestrator that runs the sandbox.
    Orchestrator,
}

impl ProbeClass {
    /// The letter that results show, from `A` to `P`.
    pub const fn letter(self) -> char {
        match self {
            ProbeClass::Files => 'A',
            ProbeClass::Links => 'B',
            ProbeClass::Secrets => 'C',
            ProbeClass::Proc => 'D',
            ProbeClass::Processes => 'E',
            ProbeClass::Kernel => 'F',
            ProbeClass::Devices => 'G',
            ProbeClass::Resources => 'H',
            ProbeClass::Network => 'I',
            ProbeClass::Names => 'J',
            ProbeClass::Protocols => 'K',
            ProbeClass::Leaks => 'L',
            ProbeClass::Credentials => 'M',
            ProbeClass::Sockets => 'N',
            ProbeClass::Groups => 'O',
            ProbeClass::Orchestrator => 'P',
        }
    }

    /// The title of the class, for people.
    pub const fn title(self) -> &'static str {
        match self {
            ProbeClass::Files => "files outside the root",
            ProbeClass::Links => "links and races",
            ProbeClass::Secrets => "secrets",
            ProbeClass::Proc => "/proc and /sys",
            ProbeClass::Processes => "other processes",
            ProbeClass::Kernel => "kernel interfaces",
            ProbeClass::Devices => "devices and terminals",
            ProbeClass::Resources => "resources",
            ProbeClass::Network => "network, directly",
            ProbeClass::Names => "the door out, by names",
            ProbeClass::Protocols => "the door out, by protocols",
            ProbeClass::Leaks => "data without a connection",
            ProbeClass::Credentials => "credentials at the door",
            ProbeClass::Sockets => "local sockets",
            ProbeClass::Groups => "control groups and namespaces",
            ProbeClass::Orchestrator => "whoever runs the sandbox",
        }
    }
}

/// How a probe is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeMethod {
    /// By a program in the sandbox that makes attempts and reports.
    Inside,
    /// By a program that takes too much, judged from outside.
    Abuse,
    /// By what the host does with the files and processes that a program left.
    Outside,
    /// By a program at the network egress, in an internet of its own.
    Egress,
    /// By this whole program and its journal, as a user has them.
    Records,
    /// Not yet: there is nothing to attack, for this reason.
    NotApplicable(&'static str),
}

/// One probe of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The number of the probe, which never changes.
    pub id: u16,
    /// The class of what it attacks.
    pub class: ProbeClass,
    /// What the probe tries, as a phrase for people.
    pub name: &'static str,
    /// The rule of the policy, or the mechanism, that should stop it.
    pub(crate) by: &'static str,
    pub(crate) method: ProbeMethod,
}

impl Probe {
    /// Whether [`run_egress_probes`](crate::run_egress_probes) makes it, at the network egress.
    pub fn is_egress(&self) -> bool {
        self.method == ProbeMethod::Egress
    }

    /// Whether [`run_records_probes`](crate::run_records_probes) makes it, on the recorded journal.
    pub fn is_records(&self) -> bool {
        self.method == ProbeMethod::Records
    }

    /// Whether [`run_sandbox_probes`](crate::run_sandbox_probes) makes it, with nothing but sandboxes.
    pub fn is_sandbox(&self) -> bool {
        !self.is_egress() && !self.is_records()
    }
}

type ProbeRow = (u16, &'static str, &'static str, ProbeMethod);

use ProbeMethod::{Inside, NotApplicable, Outside, Records};

const NO_ARCHIVES: ProbeMethod =
    NotApplicable("files travel one by one under checked names; no archive is packed or unpacked");

const FILES: &[ProbeRow] = &[
    (1, "read a host file by its path", "namespace", Inside),
    (2, "walk up out of the workspace", "namespace", Inside),
    (3, "write outside the workspace", "namespace+landlock", Inside),
    (4, "write to a read-only folder", "namespace+landlock", Inside),
    (5, "chroot and climb out", "seccomp", Inside),
    (6, "open a host file by handle", "seccomp", Inside),
    (7, "learn file handles", "seccomp", Inside),
    (8, "mount, bind, remount, pivot_root", "seccomp", Inside),
    (9, "fsopen, open_tree, move_mount, mount_setattr", "seccomp", Inside),
    (10, "overlay in a nested user namespace", "seccomp", Inside),
    (11, "inherited descriptors and current folder", "namespace", Inside),
    (12, "overwrite the runtime", "namespace", Inside),
    (13, "hard link to a file outside", "namespace", Inside),
    (14, "unmount what hides something", "seccomp", Inside),
];

const LINKS: &[ProbeRow] = &[
    (
        15,
        "a link that the host follows when it takes files out",
        "namespace",
        Outside,
    ),
    (16, "write through a link", "namespace+landlock", Inside),
    (
        17,
        "swap a folder and a link while the host copies",
        "namespace",
        Outside,
    ),
    (18, "rename the folder above something hidden", "namespace", Inside),
    (19, "make a denied name that was not there", "namespace", Inside),
    (20, "make a file that a deny glob names", "namespace", Outside),
    (21, "archive with names that climb", "", NO_ARCHIVES),
    (22, "archive with a link, then a file below it", "", NO_ARCHIVES),
    (23, "setuid file with a second name leaves", "namespace", Outside),
    (
        24,
        "fifo, device or socket among the results",
        "namespace+seccomp",
        Outside,
    ),
];

const SECRETS: &[ProbeRow] = &[
    (25, "~/.ssh", "namespace", Inside),
    (26, "cloud credentials", "namespace", Inside),
    (27, "cluster credentials", "namespace", Inside),
    (28, "container registry credentials", "namespace", Inside),
    (29, "netrc, git, npm and PyPI credentials", "namespace", Inside),
    (30, "browser profiles and keyrings", "namespace", Inside),
    (31, "write a shell's start file", "namespace+landlock", Inside),
    (32, "write git hooks and configuration", "namespace+landlock", Inside),
    (
        33,
        "write files that tools load by themselves",
        "namespace+landlock",
        Inside,
    ),
    (34, "secrets in environments", "namespace", Inside),
];

const PROC: &[ProbeRow] = &[
    (35, "write core_pattern", "namespace+landlock", Inside),
    (36, "write modprobe", "namespace+landlock", Inside),
    (37, "register a binary format", "namespace+landlock", Inside),
    (38, "sysrq-trigger", "namespace+landlock", Inside),
    (39, "write memory settings", "namespace+landlock", Inside),
    (40, "read kcore, kmsg, keys, timer_list", "namespace", Inside),
    (41, "read kernel symbols", "namespace", Inside),
    (42, "roots and folders of other processes", "namespace", Inside),
    (43, "write a read-only file through /proc/self/mem", "landlock", Inside),
    (44, "uevent_helper, firmware, debugfs, tracefs", "namespace", Inside),
    (45, "host paths, addresses and sockets in lists", "namespace", Inside),
];

const PROCESSES: &[ProbeRow] = &[
    (46, "trace a process", "seccomp", Inside),
    (47, "read and write another's memory", "seccomp", Inside),
    (48, "take another's descriptor", "seccomp", Inside),
    (49, "signal the supervisor", "namespace", Inside),
    (50, "compare processes", "seccomp", Inside),
    (51, "gain privileges", "namespace", Inside),
];

const KERNEL: &[ProbeRow] = &[
    (52, "io_uring", "seccomp", Inside),
    (53, "operations of a ring", "seccomp", Inside),
    (54, "bpf", "seccomp", Inside),
    (55, "userfaultfd", "seccomp", Inside),
    (56, "keyrings", "seccomp", Inside),
    (57, "performance events", "seccomp", Inside),
    (58, "a new user namespace", "seccomp", Inside),
    (59, "join a namespace", "seccomp", Inside),
    (60, "modules and kernels", "seccomp", Inside),
    (61, "the machine's clock", "seccomp", Inside),
    (62, "personalities", "seccomp", Inside),
    (63, "32-bit and x32 system calls", "seccomp", Inside),
    (64, "rare socket families", "seccomp", Inside),
    (65, "packet filters and traffic control", "seccomp", Inside),
];

const OTHERS: &[ProbeRow] = &[
    (174, "leases and notices on shared files", "seccomp", Inside),
    (175, "limits of other processes", "seccomp", Inside),
];

const DEVICES: &[ProbeRow] = &[
    (66, "make a device node", "seccomp", Inside),
    (67, "open the machine's devices", "namespace", Inside),
    (68, "push characters into a terminal", "seccomp", Inside),
    (69, "paste into a console", "seccomp", Inside),
    (
        70,
        "terminal sequences in output",
        "",
        NotApplicable("a sandbox hands out bytes; whoever shows them on a terminal cleans them"),
    ),
    (71, "shared memory as a channel or for programs", "namespace", Inside),
];

const NETWORK: &[ProbeRow] = &[
    (89, "TCP to a public address", "namespace", Inside),
    (90, "UDP to a resolver", "namespace", Inside),
    (91, "ICMP", "namespace", Inside),
    (92, "raw and packet sockets", "namespace+seccomp", Inside),
    (93, "TCP to a public IPv6 address", "namespace", Inside),
    (94, "services on the host's own addresses", "namespace", Inside),
    (95, "cloud metadata", "namespace", Inside),
    (96, "QUIC", "namespace", Inside),
    (97, "listen and be reached", "namespace", Outside),
];

const SOCKETS: &[ProbeRow] = &[
    (141, "sockets of container engines", "namespace", Inside),
    (142, "abstract sockets of the host", "namespace", Inside),
    (143, "a socket left in a shown folder", "namespace", Inside),
    (144, "descriptors passed in", "namespace", Inside),
    (145, "vsock", "seccomp", Inside),
    (146, "agents and desktop sockets", "namespace", Inside),
];

const GROUPS: &[ProbeRow] = &[
    (147, "release_agent", "namespace", Inside),
    (148, "mount control groups in a nested namespace", "seccomp", Inside),
    (149, "leave one's control group", "namespace", Inside),
    (150, "capabilities of nested namespaces", "seccomp", Inside),
    (151, "join the worker's network", "seccomp", Inside),
    (152, "files that belong to root on the host", "namespace", Outside),
];

const ORCHESTRATOR: &[ProbeRow] = &[
    (153, "names that climb", "policy", Outside),
    (154, "another sandbox's files", "namespace", Outside),
    (
        155,
        "end while running, twice, and while files are taken out",
        "watch",
        Outside,
    ),
    (156, "files that go in by a trick", "policy+quota", Outside),
    (157, "times that are none", "policy", Outside),
    (158, "a policy above its ceiling", "policy", Outside),
    (
        159,
        "a level raised by the text of a task",
        "",
        NotApplicable("there are no tasks in words yet"),
    ),
    (160, "the supervisor is killed", "namespace", Outside),
    (211, "a path in letters that look like others", "policy", Outside),
    (212, "a number above a ceiling that does not name it", "policy", Outside),
    (
        221,
        "files of holes, many entries and deep folders are left for the host",
        "watch",
        Outside,
    ),
    (222, "many large calls at once", "wire", Outside),
    (
        223,
        "stop the processes that serve a program",
        "proc.wall_timeout",
        Outside,
    ),
];

const RECORDS: &[ProbeRow] = &[
    (191, "refused calls fill journal, answer and memory", "gateway", Records),
    (192, "a journal that was rolled back", "journal", Records),
    (193, "a refusal that the host never issued", "journal", Records),
];

const SHOWN_SECRETS: &[ProbeRow] = &[
    (181, "a hidden thing by any spelling of a mount", "policy", Outside),
    (182, "a hidden file that the host replaces", "namespace", Outside),
    (
        185,
        "a hidden file of a folder that is shown twice",
        "namespace",
        Outside,
    ),
    (186, "a hidden name that the host makes later", "namespace", Outside),
];

const SHOWN_SOCKETS: &[ProbeRow] = &[(
    183,
    "a socket that appears later in a shown folder",
    "namespace",
    Outside,
)];

const KEPT_LINKS: &[ProbeRow] = &[(
    184,
    "links in a kept place, with a mount below it",
    "namespace",
    Outside,
)];

const ALL_PROBES: &[(ProbeClass, &[ProbeRow])] = &[
    (ProbeClass::Files, FILES),
    (ProbeClass::Links, LINKS),
    (ProbeClass::Secrets, SECRETS),
    (ProbeClass::Proc, PROC),
    (ProbeClass::Processes, PROCESSES),
    (ProbeClass::Kernel, KERNEL),
    (ProbeClass::Devices, DEVICES),
    (ProbeClass::Resources, resources::RESOURCES),
    (ProbeClass::Resources, resources::KERNEL_MEMORY),
    (ProbeClass::Processes, OTHERS),
    (ProbeClass::Network, NETWORK),
    (ProbeClass::Names, egress::NAMES),
    (ProbeClass::Protocols, egress::PROTOCOLS),
    (ProbeClass::Leaks, egress::LEAKS),
    (ProbeClass::Credentials, egress::CREDENTIALS),
    (ProbeClass::Sockets, SOCKETS),
    (ProbeClass::Groups, GROUPS),
    (ProbeClass::Orchestrator, ORCHESTRATOR),
    (ProbeClass::Orchestrator, RECORDS),
    (ProbeClass::Secrets, SHOWN_SECRETS),
    (ProbeClass::Sockets, SHOWN_SOCKETS),
    (ProbeClass::Links, KEPT_LINKS),
];

/// Every probe, by number.
pub fn catalogue() -> impl Iterator<Item = Probe> {
    ALL_PROBES.iter().flat_map(|(class, rows)| {
        rows.iter().map(|(id, name, by, how)| Probe {
            id: *id,
            class: *class,
            name,
            by,
            method: *how,
        })
    })
}

#[cfg(test)]
mod tests;
