//! The paths of the host's secrets: attempts know them, so that only the fence can keep the secrets safe.

use serde::{Deserialize, Serialize};

/// Everything an attempt aims at. Inside a sandbox these are the machine's own paths; a control aims at copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptTargets {
    /// The prefix of every secret.
    pub(crate) marker: String,
    /// The path of a file outside every mount.
    pub(crate) canary: String,
    /// The prefix of the machine's own files (`/proc/sys/…`): empty, or a folder with copies.
    pub(crate) system: String,
    /// Folders that the program must not write to.
    pub(crate) outside: Vec<String>,
    /// A folder of the host that is shown read-only.
    pub(crate) shown: String,
    /// The home folders of users.
    pub(crate) homes: Vec<String>,
    /// The program's own folder, which is a mount.
    pub(crate) scratch: String,
    /// Programs of the runtime that must not be overwritten.
    pub(crate) runtimes: Vec<String>,
    /// Mount points that hide something.
    pub(crate) masks: Vec<String>,
    /// Processes outside: their number and their start time in the kernel's ticks.
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

impl AttemptTargets {
    /// The path of one of the machine's own files, or of its copy.
    pub(crate) fn system_path(&self, path: &str) -> String {
        format!("{}{path}", self.system)
    }
}
