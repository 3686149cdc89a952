//! Where the host's secrets are: an attempt knows the way, so that only the fence can keep it from them.

use serde::{Deserialize, Serialize};

/// Everything an attempt aims at. Inside a sandbox these are the machine's own places; a control aims at copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Targets {
    /// How every secret begins.
    pub(crate) marker: String,
    /// A file outside every mount.
    pub(crate) canary: String,
    /// What stands before the machine's own files (`/proc/sys/…`): nothing, or a folder with copies.
    pub(crate) system: String,
    /// Folders that are not the program's to write in.
    pub(crate) outside: Vec<String>,
    /// A folder of the host that is shown read-only.
    pub(crate) shown: String,
    /// Homes of people.
    pub(crate) homes: Vec<String>,
    /// The program's own folder; a mount.
    pub(crate) scratch: String,
    /// Programs of the runtime that must not be overwritten.
    pub(crate) runtimes: Vec<String>,
    /// Mounts that hide something.
    pub(crate) masks: Vec<String>,
    /// Processes outside: number, and when they started, in the kernel's ticks.
    pub(crate) victims: Vec<(i32, u64)>,
    /// The only names that may be in an environment.
    pub(crate) env: Vec<String>,
    /// Words that must be in no list of mounts or sockets.
    pub(crate) leaks: Vec<String>,
    /// The port of a listener on the host's loopback.
    pub(crate) port: u16,
    /// Addresses of the host, such as `10.0.0.2`.
    pub(crate) addresses: Vec<String>,
    /// The name of an abstract socket of the host.
    pub(crate) abstract_socket: String,
    /// The path of a socket of the host, outside every mount.
    pub(crate) socket: String,
    /// The folder of shared memory.
    pub(crate) shared_memory: String,
}

impl Targets {
    /// One of the machine's own files, or its copy.
    pub(crate) fn system(&self, path: &str) -> String {
        format!("{}{path}", self.system)
    }
}
