//! Stop requests across processes: a row names what must stop, a datagram notifies the owner.
//!
//! The row is authoritative; the datagram only wakes the process that owns the session, so that waiting costs nothing.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_journal::{LeaseId, Principal, RecordError, SessionId};

use crate::database::QueryError;
use crate::writer::WriterCommand;
use crate::{Lease, LeaseError, Store, WakeEvent, WakeListener};

/// The target of a stop request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopTarget {
    /// One session by its id.
    Session(SessionId),
    /// All open sessions of the data folder.
    All,
}

/// The owner of a session that must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOwner {
    /// A living process, which was notified.
    Notified,
    /// A process that is gone: a sweep will end the session.
    Dead,
    /// No process: adopt the session to close it.
    Unowned,
}

/// A stop request, as the owner of the session receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopRequest {
    /// The session that must stop.
    pub session: SessionId,
    /// The principal who requested the stop.
    pub by: Principal,
}

/// Opens the folder and addresses the socket through its descriptor: a socket path has at most 108 bytes.
fn short_socket_path(run: &Path, lease: LeaseId) -> io::Result<(File, PathBuf)> {
    let folder = File::open(run)?;
    let path = format!("/proc/self/fd/{}/{lease}.sock", folder.as_raw_fd());
    Ok((folder, path.into()))
}

/// Binds the socket on which a lease is notified.
pub(crate) fn bind_socket(run: &Path, lease: LeaseId) -> io::Result<UnixDatagram> {
    let (_folder, path) = short_socket_path(run, lease)?;
    let socket = UnixDatagram::bind(path)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn notify(run: &Path, lease: LeaseId) -> io::Result<()> {
    let (_folder, path) = short_socket_path(run, lease)?;
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match socket.send_to(b"look", path) {
        // A full queue means that the owner has not yet read earlier notifications.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        other => other.map(drop),
    }
}

/// Whether a process listens on a lease. An unclear error counts as alive.
pub(crate) fn is_heard(run: &Path, lease: LeaseId) -> bool {
    let connected = short_socket_path(run, lease).and_then(|(_folder, path)| UnixDatagram::unbound()?.connect(path));
    !matches!(
        connected.map_err(|error| error.kind()),
        Err(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
    )
}

/// Notifies every process with a lease in this folder.
pub(crate) fn notify_all(run: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(run)? {
        let path = entry?.path();
        let socket = path.extension().is_some_and(|extension| extension == "sock");
        let lease = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if let Some(lease) = lease.filter(|_| socket)
            && let Err(error) = notify(run, lease)
        {
            tracing::debug!(%lease, %error, "nobody listens on this lease");
        }
    }
    Ok(())
}

impl Store {
    /// Requests that sessions stop. Returns each affected open session with its owner.
    pub async fn request_stop(
        &self,
        target: StopTarget,
        by: Principal,
    ) -> Result<Vec<(SessionId, StopOwner)>, RecordError> {
        let meant = self.send(|reply| WriterCommand::Stop { target, by, reply }).await?;
        let run = self.home.run_folder();
        let mut told: HashMap<LeaseId, StopOwner> = HashMap::new();
        let owners = meant.into_iter().map(|(session, lease)| {
            let owner = match lease {
                None => StopOwner::Unowned,
                Some(lease) => *told.entry(lease).or_insert_with(|| match notify(&run, lease) {
                    Ok(()) => StopOwner::Notified,
                    Err(error) => {
                        tracing::info!(%lease, %error, "nobody listens on this lease");
                        StopOwner::Dead
                    }
                }),
            };
            (session, owner)
        });
        Ok(owners.collect())
    }

    /// Listens for stop requests to sessions of this lease. A lease has one listener: this one, or [`Store::listen_for_wakes`].
    pub fn listen_for_stops(self: &Arc<Self>, lease: &Lease) -> Result<StopListener, LeaseError> {
        self.listen_for_wakes(lease).map(StopListener)
    }
}

/// Waits for stop requests.
#[derive(Debug)]
pub struct StopListener(WakeListener);

impl StopListener {
    /// The next stop request. Cancel safe.
    pub async fn next(&mut self) -> Result<StopRequest, QueryError> {
        loop {
            if let WakeEvent::Stop(stop) = self.0.next().await? {
                return Ok(stop);
            }
        }
    }
}
