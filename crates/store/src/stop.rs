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
use sqlx::Row as _;

use crate::database::{self, ReadError};
use crate::writer::Command;
use crate::{Lease, LeaseError, Store};

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
    match socket.send_to(b"stop", path) {
        // A full queue means that the owner has yet to look anyway.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        other => other.map(drop),
    }
}

impl Store {
    /// Asks for sessions to be stopped, and says of each open one that is meant who has it.
    pub async fn request_stop(&self, target: Target, by: Principal) -> Result<Vec<(SessionId, Owner)>, RecordError> {
        let meant = self.ask(|reply| Command::Stop { target, by, reply }).await?;
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

    /// The wishes to stop sessions of this lease, as they come.
    pub fn stops(self: &Arc<Self>, lease: &Lease) -> Result<Stops, LeaseError> {
        let path = self.home.run().join(format!("{}.sock", lease.id()));
        let failed = |source| LeaseError::File {
            path: path.clone(),
            source,
        };
        let socket = lease.socket().map_err(failed)?;
        let socket = tokio::net::UnixDatagram::from_std(socket).map_err(failed)?;
        Ok(Stops {
            store: Arc::clone(self),
            lease: lease.id(),
            socket,
            seen: 0,
            ready: Vec::new(),
            looked: false,
        })
    }
}

/// Waits for wishes to stop.
#[derive(Debug)]
pub struct Stops {
    store: Arc<Store>,
    lease: LeaseId,
    socket: tokio::net::UnixDatagram,
    /// Number of the last wish that was handed out.
    seen: i64,
    ready: Vec<Stop>,
    looked: bool,
}

impl Stops {
    /// The next session that should stop. Safe to drop while it waits.
    pub async fn next(&mut self) -> Result<Stop, ReadError> {
        loop {
            if let Some(stop) = self.ready.pop() {
                return Ok(stop);
            }
            // What was asked before anybody listened is found by the first look.
            if self.looked {
                self.woken().await?;
                self.looked = false;
            }
            self.look().await?;
            self.looked = true;
        }
    }

    async fn woken(&self) -> Result<(), ReadError> {
        let mut buffer = [0; 16];
        let failed = |error| ReadError::Database(sqlx::Error::Io(error));
        self.socket.recv(&mut buffer).await.map_err(failed)?;
        // One look answers all that was said until now.
        while self.socket.try_recv(&mut buffer).is_ok() {}
        Ok(())
    }

    async fn look(&mut self) -> Result<(), ReadError> {
        let mut reader = self.store.reader().await?;
        let rows = sqlx::query(
            "SELECT stops.n, stops.session, stops.principal FROM stops
             JOIN sessions ON sessions.id = stops.session
             WHERE sessions.lease = ? AND sessions.state = 'open' AND stops.n > ? ORDER BY stops.n DESC",
        )
        .bind(self.lease.to_string())
        .bind(self.seen)
        .fetch_all(reader.connection()?)
        .await
        .map_err(ReadError::Database)?;
        for row in &rows {
            let n: i64 = row.try_get("n").map_err(|_| ReadError::Row {
                table: "stops",
                column: "n",
            })?;
            self.seen = self.seen.max(n);
            self.ready.push(Stop {
                session: database::parsed(row, "stops", "session")?,
                by: database::parsed(row, "stops", "principal")?,
            });
        }
        Ok(())
    }
}
