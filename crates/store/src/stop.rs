//! The kill switch across processes: a row says what should stop, a datagram says look.
//!
//! The row is the truth; the datagram only wakes the process that has the session, so that
//! waiting costs nothing.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_journal::{LeaseId, Principal, RecordError, SessionId};

use crate::database::ReadError;
use crate::writer::Command;
use crate::{Lease, LeaseError, Store, Wake, Wakes};

/// What should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// One session.
    Session(SessionId),
    /// Every open session.
    All,
}

/// Who has a session that should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A living process, which was told.
    Told,
    /// A process that is gone: a sweep will end the session.
    Gone,
    /// Nobody: adopt it to close it.
    Nobody,
}

/// A wish to stop, as its session's owner gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// The session.
    pub session: SessionId,
    /// Who asked.
    pub by: Principal,
}

/// Binds and sends through the folder's descriptor: a socket's path has room for 108 bytes only.
fn short(run: &Path, lease: LeaseId) -> io::Result<(File, PathBuf)> {
    let folder = File::open(run)?;
    let path = format!("/proc/self/fd/{}/{lease}.sock", folder.as_raw_fd());
    Ok((folder, path.into()))
}

/// The socket on which a lease is told to look.
pub(crate) fn bind(run: &Path, lease: LeaseId) -> io::Result<UnixDatagram> {
    let (_folder, path) = short(run, lease)?;
    let socket = UnixDatagram::bind(path)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn tell(run: &Path, lease: LeaseId) -> io::Result<()> {
    let (_folder, path) = short(run, lease)?;
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match socket.send_to(b"look", path) {
        // A full queue means that the owner has yet to look anyway.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        other => other.map(drop),
    }
}

/// Whether somebody listens on a lease. What cannot be told is taken for life.
pub(crate) fn is_heard(run: &Path, lease: LeaseId) -> bool {
    let connected = short(run, lease).and_then(|(_folder, path)| UnixDatagram::unbound()?.connect(path));
    !matches!(
        connected.map_err(|error| error.kind()),
        Err(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
    )
}

/// Tells whoever lives in this folder to look.
pub(crate) fn tell_all(run: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(run)? {
        let path = entry?.path();
        let socket = path.extension().is_some_and(|extension| extension == "sock");
        let lease = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if let Some(lease) = lease.filter(|_| socket)
            && let Err(error) = tell(run, lease)
        {
            tracing::debug!(%lease, %error, "nobody listens on this lease");
        }
    }
    Ok(())
}

impl Store {
    /// Asks for sessions to be stopped, and says of each open one that is meant who has it.
    pub async fn request_stop(&self, target: Target, by: Principal) -> Result<Vec<(SessionId, Owner)>, RecordError> {
        let meant = self.send(|reply| Command::Stop { target, by, reply }).await?;
        let run = self.home.run();
        let mut told: HashMap<LeaseId, Owner> = HashMap::new();
        let owners = meant.into_iter().map(|(session, lease)| {
            let owner = match lease {
                None => Owner::Nobody,
                Some(lease) => *told.entry(lease).or_insert_with(|| match tell(&run, lease) {
                    Ok(()) => Owner::Told,
                    Err(error) => {
                        tracing::info!(%lease, %error, "nobody listens on this lease");
                        Owner::Gone
                    }
                }),
            };
            (session, owner)
        });
        Ok(owners.collect())
    }

    /// The wishes to stop sessions of this lease, as they come. A lease has one listener: this, or [`Store::wakes`].
    pub fn stops(self: &Arc<Self>, lease: &Lease) -> Result<Stops, LeaseError> {
        self.wakes(lease).map(Stops)
    }
}

/// Waits for wishes to stop.
#[derive(Debug)]
pub struct Stops(Wakes);

impl Stops {
    /// The next session that should stop. Safe to drop while it waits.
    pub async fn next(&mut self) -> Result<Stop, ReadError> {
        loop {
            if let Wake::Stop(stop) = self.0.next().await? {
                return Ok(stop);
            }
        }
    }
}
