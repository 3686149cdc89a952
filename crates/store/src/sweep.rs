//! Sweeps dead processes: finds what they left and ends their sessions in the journal.

use ringfence_journal::{Event, Kind, LeaseId, NoEntropy, RecordError, Recorder as _, SessionId, Status, Text};

use crate::ahead::{self, MergeError};
use crate::database::{self, ReadError};
use crate::lease::{self, DeadLease};
use crate::session::AdoptError;
use crate::writer::Command;
use crate::{LeaseError, Store};

/// Why a sweep stopped. The completed part stays; the next sweep continues.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The leases cannot be read or removed.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The sessions cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An event cannot be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The write-ahead file of a dead process cannot be merged into the journal.
    #[error("cannot let the journal have what a dead process wrote ahead of it")]
    Merge(#[from] MergeError),
    /// The system gave no random bytes for an id.
    #[error("cannot name what was swept")]
    Entropy(#[from] NoEntropy),
}

/// How many resources of one kind were removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The kind of resource, such as `cgroup`.
    pub what: Text,
    /// How many of that kind were removed.
    pub count: u64,
}

impl Store {
    /// The leases of dead processes, each locked against other sweepers while held.
    pub async fn dead_leases(&self) -> Result<Vec<DeadLease>, SweepError> {
        let run = self.home.run();
        let mut dead = lease::dead_leases(&run)?;
        // A session's lease has its file before the session has its row.
        for id in self.leases_of_open_sessions().await? {
            if !run.join(format!("{id}.lock")).exists() {
                dead.push(DeadLease::without_file(&run, id));
            }
        }
        Ok(dead)
    }

    /// Merges the write-ahead file of a dead process before its sessions are changed.
    async fn take_over(&self, lease: LeaseId) -> Result<(), SweepError> {
        let (run, database) = (self.home.run(), self.home.database());
        if !ahead::file_of(&run, lease).exists() {
            return Ok(());
        }
        let merged =
            tokio::task::spawn_blocking(move || ahead::merge(&database::connect(&database)?, &run, lease)).await;
        Ok(merged.map_err(MergeError::Broken)??)
    }

    async fn leases_of_open_sessions(&self) -> Result<Vec<LeaseId>, ReadError> {
        let mut reader = self.reader().await?;
        let names: Vec<String> =
            sqlx::query_scalar("SELECT DISTINCT lease FROM sessions WHERE lease IS NOT NULL AND state <> 'closed'")
                .fetch_all(reader.connection()?)
                .await
                .map_err(ReadError::Database)?;
        let damaged = ReadError::Row {
            table: "sessions",
            column: "lease",
        };
        names
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_, _>>()
            .map_err(|_| damaged)
    }

    async fn sessions_of(&self, lease: LeaseId) -> Result<Vec<SessionId>, ReadError> {
        let mut reader = self.reader().await?;
        let names: Vec<String> = sqlx::query_scalar("SELECT id FROM sessions WHERE lease = ? ORDER BY id")
            .bind(lease.to_string())
            .fetch_all(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        let damaged = ReadError::Row {
            table: "sessions",
            column: "id",
        };
        names
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_, _>>()
            .map_err(|_| damaged)
    }

    /// Finishes a dead lease after its resources were removed: records the removal, closes its sessions as lost, and removes its file.
    /// Returns the lost sessions. A session whose running executions can all be run again is not lost: it is left to the process that
    /// resumes it.
    pub async fn bury(&self, dead: DeadLease, removed: &[Removed]) -> Result<Vec<SessionId>, SweepError> {
        self.take_over(dead.id()).await?;
        let sessions = self.sessions_of(dead.id()).await?;
        let mut lost = Vec::new();
        for session in sessions {
            let lease = dead.id();
            if !still_ours(self.end_called(session, lease).await)? {
                continue;
            }
            if self.send(|reply| Command::Spare { session, lease, reply }).await? {
                continue;
            }
            if !still_ours(self.take_from(session, lease).await)? {
                continue;
            }
            if self.keeps(session).await? {
                // The session outlives its process: only its running executions are lost.
                self.end_unfinished(session, Status::Lost).await?;
                self.park_session(session).await?;
                continue;
            }
            for kind in swept(removed, lease) {
                self.record(Event::host(session, None, kind)).await?;
            }
            let reason = Text::from("its process died");
            self.record(Event::host(session, None, Kind::SessionClosed { reason }))
                .await?;
            lost.push(session);
        }
        if lost.is_empty() {
            for part in removed.iter().filter(|part| part.count > 0) {
                let kind = Kind::Swept {
                    what: part.what.clone(),
                    count: part.count,
                    lease: dead.id(),
                };
                // There is no session to record it in: each event is a chain of its own.
                self.record(Event::host(SessionId::generate()?, None, kind)).await?;
            }
        }
        dead.remove()?;
        Ok(lost)
    }
}

/// Whether this process may end the session: no other has ended or resumed it meanwhile.
fn still_ours(taken: Result<(), AdoptError>) -> Result<bool, RecordError> {
    match taken {
        Ok(()) => Ok(true),
        Err(AdoptError::Record(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

/// The events about the sweep for one session; at least one, for the session itself.
fn swept(removed: &[Removed], lease: LeaseId) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = removed
        .iter()
        .filter(|part| part.count > 0)
        .map(|part| Kind::Swept {
            what: part.what.clone(),
            count: part.count,
            lease,
        })
        .collect();
    if kinds.is_empty() {
        kinds.push(Kind::Swept {
            what: Text::from("nothing"),
            count: 0,
            lease,
        });
    }
    kinds
}
