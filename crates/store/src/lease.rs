//! Leases: the resources that a process creates on this machine, listed in a file that is locked while the process lives.
//!
//! A lease file gets its name only when it is locked, so a process that can lock it knows that the owner is dead. Every resource is noted
//! before it is created.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use ringfence_disk::FileLock;
use ringfence_journal::{LeaseId, NoEntropy};
use serde::{Deserialize, Serialize};

use crate::{stop, write_ahead};

/// A lease file larger than this is rewritten without removed resources.
const COMPACT_BYTES: u64 = 64 * 1024;

/// The age after which a file that never became a lease is removed.
const STALE_AGE: Duration = Duration::from_mins(1);

/// A resource on this machine that must not outlive its process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "resource", rename_all = "snake_case", deny_unknown_fields)]
pub enum LeasedResource {
    /// A control group of the kernel.
    Cgroup {
        /// The folder of the control group.
        path: PathBuf,
    },
    /// A folder with everything in it.
    Folder {
        /// The path of the folder.
        path: PathBuf,
    },
    /// A process that leads others.
    Process {
        /// The process id of the leader.
        pid: u32,
        /// The start time according to the kernel, so that a reused process id is not mistaken for it.
        start_ticks: u64,
    },
}

/// The holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseHolder {
    /// The id of the lease.
    pub lease: LeaseId,
    /// The id of the process that holds it.
    pub pid: u32,
    /// When the process acquired the lease.
    pub started: Timestamp,
}

/// One line of a lease file after the first.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LeaseLine {
    Made(LeasedResource),
    Gone(LeasedResource),
}

/// Why a lease cannot be acquired, updated or read.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The lease file cannot be used.
    #[error("cannot use the lease `{}`", path.display())]
    File {
        /// The path of the lease file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A line cannot be written as JSON, as when a path is not UTF-8.
    #[error("cannot note a resource in the lease `{}`", path.display())]
    Note {
        /// The path of the lease file.
        path: PathBuf,
        /// Why the line cannot be encoded.
        source: serde_json::Error,
    },
    /// The system gave no random bytes for an id.
    #[error("cannot make a lease")]
    Entropy(#[from] NoEntropy),
}

/// This process's claim on the resources that it creates. It ends with the process.
#[derive(Debug)]
pub struct Lease {
    holder: LeaseHolder,
    path: PathBuf,
    socket: UnixDatagram,
    file: Mutex<LeaseFile>,
}

#[derive(Debug)]
struct LeaseFile {
    file: File,
    bytes: u64,
    /// The last line was not written completely.
    torn: bool,
    resources: Vec<LeasedResource>,
}

impl Lease {
    /// Acquires a new lease in the data folder.
    pub fn acquire(home: &Path) -> Result<Lease, LeaseError> {
        let run = std::path::absolute(home)
            .map(|home| home.join("run"))
            .map_err(|source| LeaseError::File {
                path: home.to_owned(),
                source,
            })?;
        let id = LeaseId::generate()?;
        let holder = LeaseHolder {
            lease: id,
            pid: std::process::id(),
            started: Timestamp::now(),
        };
        let path = run.join(format!("{id}.lock"));
        let failed = |source| LeaseError::File {
            path: path.clone(),
            source,
        };
        let socket = stop::bind_socket(&run, id).map_err(failed)?;
        let file = publish(&path, &holder, &[])?;
        Ok(Lease {
            holder,
            path,
            socket,
            file: Mutex::new(file),
        })
    }

    /// The id that sessions of this process name as their owner.
    pub fn id(&self) -> LeaseId {
        self.holder.lease
    }

    /// The socket on which other processes notify this one.
    pub(crate) fn socket(&self) -> io::Result<UnixDatagram> {
        self.socket.try_clone()
    }

    /// Notes a resource that is about to be created.
    pub fn note_resource(&self, resource: LeasedResource) -> Result<(), LeaseError> {
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        self.append(&mut open, &LeaseLine::Made(resource.clone()))?;
        open.resources.push(resource);
        Ok(())
    }

    /// Notes that a resource was removed.
    pub fn forget_resource(&self, resource: &LeasedResource) -> Result<(), LeaseError> {
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = open.resources.iter().position(|known| known == resource) else {
            return Ok(());
        };
        open.resources.swap_remove(place);
        if open.bytes > COMPACT_BYTES {
            // The new file is locked before it takes the name; the old one is closed afterwards.
            *open = publish(&self.path, &self.holder, &open.resources)?;
            return Ok(());
        }
        self.append(&mut open, &LeaseLine::Gone(resource.clone()))
    }

    fn append(&self, open: &mut LeaseFile, line: &LeaseLine) -> Result<(), LeaseError> {
        let mut text = json_line(&self.path, line)?;
        if open.torn {
            text.insert(0, '\n');
        }
        let written = open.file.write_all(text.as_bytes());
        open.torn = written.is_err();
        open.bytes += text.len() as u64;
        written.map_err(|source| LeaseError::File {
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for Lease {
    /// A lease without resources leaves no file; otherwise the next start sweeps it.
    fn drop(&mut self) {
        let open = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        let socket = self.path.with_extension("sock");
        for path in [Some(&socket), open.resources.is_empty().then_some(&self.path)] {
            if let Some(Err(error)) = path.map(fs::remove_file) {
                tracing::debug!(%error, "a lease's file was gone already");
            }
        }
    }
}

/// Writes a complete lease file under a temporary name, locks it, then renames it.
fn publish(path: &Path, holder: &LeaseHolder, resources: &[LeasedResource]) -> Result<LeaseFile, LeaseError> {
    let failed = |source| LeaseError::File {
        path: path.to_owned(),
        source,
    };
    let new = path.with_extension("new");
    let mut file = OpenOptions::new()
        .append(true)
        .read(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .map_err(failed)?;
    file.lock().map_err(failed)?;
    let mut text = json_line(path, holder)?;
    for resource in resources {
        text.push_str(&json_line(path, &LeaseLine::Made(resource.clone()))?);
    }
    file.write_all(text.as_bytes()).map_err(failed)?;
    fs::rename(&new, path).map_err(failed)?;
    Ok(LeaseFile {
        file,
        bytes: text.len() as u64,
        torn: false,
        resources: resources.to_vec(),
    })
}

fn json_line(path: &Path, value: &impl Serialize) -> Result<String, LeaseError> {
    let mut text = serde_json::to_string(value).map_err(|source| LeaseError::Note {
        path: path.to_owned(),
        source,
    })?;
    text.push('\n');
    Ok(text)
}

/// How the owner of a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerEnd {
    /// It died in the middle of its work, or hands it over: what can be run again goes on.
    Died,
    /// It ended in good order: what it still ran has failed, and whoever asked for it was told.
    InOrder,
}

/// The owner that a session had, and how it ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormerOwner {
    pub(crate) lease: LeaseId,
    pub(crate) end: OwnerEnd,
}

/// The lease of a dead process. While this value lives, no other process sweeps it.
#[derive(Debug)]
pub struct DeadLease {
    id: LeaseId,
    holder: Option<LeaseHolder>,
    resources: Vec<LeasedResource>,
    path: PathBuf,
    /// Holds the lock; `None` if the lease file is missing and only its sessions are left.
    lock: Option<FileLock>,
}

impl DeadLease {
    /// A lease that sessions name although its file is missing.
    pub(crate) fn without_file(run: &Path, id: LeaseId) -> DeadLease {
        let path = run.join(format!("{id}.lock"));
        DeadLease {
            id,
            holder: None,
            resources: Vec::new(),
            path,
            lock: None,
        }
    }

    /// The id of the lease.
    pub fn id(&self) -> LeaseId {
        self.id
    }

    /// The former holder; `None` if the file was missing or unreadable.
    pub fn holder(&self) -> Option<&LeaseHolder> {
        self.holder.as_ref()
    }

    /// How its process ended: one that dies leaves the file, and one that ends in good order removes it.
    pub(crate) fn owner_end(&self) -> OwnerEnd {
        match self.lock {
            Some(_) => OwnerEnd::Died,
            None => OwnerEnd::InOrder,
        }
    }

    /// Resources that may be left, in the order in which they were created.
    pub fn resources(&self) -> &[LeasedResource] {
        &self.resources
    }

    /// Removes the lease's files, after all its resources are removed.
    pub(crate) fn remove(self) -> Result<(), LeaseError> {
        let socket = self.path.with_extension("sock");
        for path in [&socket, &self.path] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(LeaseError::File {
                        path: path.clone(),
                        source: error,
                    });
                }
                _ => {}
            }
        }
        drop(self.lock);
        Ok(())
    }
}

/// The leases whose processes are dead.
pub(crate) fn dead_leases(run: &Path) -> Result<Vec<DeadLease>, LeaseError> {
    let failed = |source| LeaseError::File {
        path: run.to_owned(),
        source,
    };
    let mut dead = Vec::new();
    for entry in fs::read_dir(run).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Some(id) = path.file_stem().and_then(|stem| stem.to_str()?.parse::<LeaseId>().ok()) else {
            continue;
        };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("lock") => dead.extend(try_lock_dead(path, id)?),
            Some("new" | "sock") => remove_stale(&path),
            _ => {}
        }
    }
    dead.sort_by_key(|lease| lease.id);
    Ok(dead)
}

/// The leases that have a write-ahead file, dead or alive.
pub(crate) fn leases_with_write_ahead(run: &Path) -> Vec<LeaseId> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| name.strip_suffix(write_ahead::SUFFIX)?.parse().ok())
        .collect()
}

/// The lease, if its process is dead: its lock is free, or it has no lock file.
pub(crate) fn lock_dead_lease(run: &Path, id: LeaseId) -> Option<DeadLease> {
    let path = run.join(format!("{id}.lock"));
    if !path.exists() {
        return Some(DeadLease::without_file(run, id));
    }
    match try_lock_dead(path, id) {
        Ok(dead) => dead,
        Err(error) => {
            tracing::warn!(%error, lease = %id, "it cannot be told whether its process lives");
            None
        }
    }
}

/// Whether the process of a lease is alive: it listens from before its file exists until its end, and a sweeper's lock does not hide that.
pub(crate) fn lives(run: &Path, id: LeaseId) -> bool {
    stop::is_heard(run, id)
}

/// Waits until the process that sweeps a dead lease has finished or died.
pub(crate) fn wait_for_sweeper(run: &Path, id: LeaseId) -> io::Result<()> {
    match File::open(run.join(format!("{id}.lock"))) {
        Ok(file) => file.lock_shared(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The lease, if its lock is free and the locked file is still the one with that name.
fn try_lock_dead(path: PathBuf, id: LeaseId) -> Result<Option<DeadLease>, LeaseError> {
    let failed = |source| LeaseError::File {
        path: path.clone(),
        source,
    };
    let Some(lock) = FileLock::try_existing(&path).map_err(failed)? else {
        return Ok(None);
    };
    let (holder, resources) = read_lease(lock.file()).map_err(failed)?;
    Ok(Some(DeadLease {
        id,
        holder,
        resources,
        path,
        lock: Some(lock),
    }))
}

/// Reads a lease file. A line that was cut off by a crash describes a resource that was not created yet.
fn read_lease(mut file: &File) -> io::Result<(Option<LeaseHolder>, Vec<LeasedResource>)> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let holder = lines.next().and_then(|first| serde_json::from_slice(first).ok());
    let mut resources = Vec::new();
    for line in lines {
        match serde_json::from_slice(line) {
            Ok(LeaseLine::Made(resource)) => resources.push(resource),
            Ok(LeaseLine::Gone(resource)) => resources.retain(|known| *known != resource),
            Err(error) => tracing::warn!(%error, "a line of a dead lease cannot be read"),
        }
    }
    Ok((holder, resources))
}

/// Removes the leftovers of a process that died while it acquired its lease.
fn remove_stale(path: &Path) {
    let lock = path.with_extension("lock");
    let old = fs::symlink_metadata(path)
        .and_then(|data| data.modified())
        .is_ok_and(|made| made.elapsed().is_ok_and(|age| age > STALE_AGE));
    if old && !lock.exists() {
        match fs::remove_file(path) {
            Ok(()) => tracing::info!(path = %path.display(), "removed a lease that never was"),
            Err(error) => tracing::warn!(%error, path = %path.display(), "cannot remove it"),
        }
    }
}

#[cfg(test)]
mod tests;
