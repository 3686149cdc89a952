//! Sweeps dead processes: finds what they left and ends their sessions in the journal.

use ringfence_journal::{
    CleanText, Event, EventKind, ExecutionStatus, LeaseId, NoEntropy, RecordError, Recorder as _, SessionId,
};

use crate::database::{self, QueryError};
use crate::lease::{self, DeadLease, FormerOwner, OwnerEnd};
use crate::query::query;
use crate::session::AdoptError;
use crate::write_ahead::{self, MergeError};
use crate::writer::WriterCommand;
use crate::{LeaseError, Store};

/// Why a sweep stopped. The completed part stays; the next sweep continues.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The leases cannot be read or removed.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The sessions cannot be read.
    #[error(transparent)]
    Read(#[from] QueryError),
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
pub struct RemovedResources {
    /// The kind of resource, such as `cgroup`.
    pub what: CleanText,
    /// How many of that kind were removed.
    pub count: u64,
}

impl Store {
    /// The leases of dead processes, each locked against other sweepers while held.
    pub async fn dead_leases(&self) -> Result<Vec<DeadLease>, SweepError> {
        let run = self.home.run_folder();
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
    async fn merge_write_ahead(&self, lease: LeaseId) -> Result<(), SweepError> {
        let (run, database) = (self.home.run_folder(), self.home.database_path());
        if !write_ahead::file_path(&run, lease).exists() {
            return Ok(());
        }
        let merged =
            tokio::task::spawn_blocking(move || write_ahead::merge(&database::connect(&database)?, &run, lease)).await;
        Ok(merged.map_err(MergeError::Broken)??)
    }

    async fn leases_of_open_sessions(&self) -> Result<Vec<LeaseId>, QueryError> {
        let reader = self.reader().await;
        let rows = query("SELECT DISTINCT lease FROM sessions WHERE lease IS NOT NULL AND state <> 'closed'")
            .fetch_all(&reader)
            .await?;
        rows.iter()
            .map(|row| database::parse_column(row, "sessions", "lease"))
            .collect()
    }

    async fn lease_sessions(&self, lease: LeaseId) -> Result<Vec<SessionId>, QueryError> {
        let reader = self.reader().await;
        let rows = query("SELECT id FROM sessions WHERE lease = ? ORDER BY id")
            .bind(lease.to_string())
            .fetch_all(&reader)
            .await?;
        rows.iter()
            .map(|row| database::parse_column(row, "sessions", "id"))
            .collect()
    }

    /// Finishes a dead lease after its resources were removed: records the removal, closes its sessions as lost, and removes its file.
    /// Returns the lost sessions. A session whose running executions can all be run again is not lost: it is left to the process that
    /// resumes it; where its process ended in good order, only if all of them wait for somebody.
    pub async fn finish_dead_lease(
        &self,
        dead: DeadLease,
        removed: &[RemovedResources],
    ) -> Result<Vec<SessionId>, SweepError> {
        self.merge_write_ahead(dead.id()).await?;
        let sessions = self.lease_sessions(dead.id()).await?;
        let mut lost = Vec::new();
        for session in sessions {
            let lease = dead.id();
            if !is_still_ours(self.end_called_skills(session, lease).await)? {
                continue;
            }
            if self
                .send(|reply| WriterCommand::LeaveUnfinished {
                    session,
                    from: FormerOwner {
                        lease,
                        end: dead.owner_end(),
                    },
                    reply,
                })
                .await?
            {
                continue;
            }
            if !is_still_ours(self.take_over_session(session, lease).await)? {
                continue;
            }
            if self.keeps_workspace(session).await? {
                // The session outlives its process: only its running executions are lost.
                self.end_unfinished(session, ExecutionStatus::Lost).await?;
                self.park_session(session).await?;
                continue;
            }
            for kind in sweep_events(removed, lease) {
                self.record(Event::from_host(session, None, kind)).await?;
            }
            let reason = CleanText::from(match dead.owner_end() {
                OwnerEnd::Died => "its process died",
                OwnerEnd::InOrder => "its process ended and could not write its end",
            });
            self.record(Event::from_host(session, None, EventKind::SessionClosed { reason }))
                .await?;
            lost.push(session);
        }
        if lost.is_empty() {
            for part in removed.iter().filter(|part| part.count > 0) {
                let kind = EventKind::Swept {
                    what: part.what.clone(),
                    count: part.count,
                    lease: dead.id(),
                };
                // There is no session to record it in: each event is a chain of its own.
                self.record(Event::from_host(SessionId::generate()?, None, kind))
                    .await?;
            }
        }
        dead.remove()?;
        Ok(lost)
    }
}

/// Whether this process may end the session: no other has ended or resumed it meanwhile.
fn is_still_ours(taken: Result<(), AdoptError>) -> Result<bool, RecordError> {
    match taken {
        Ok(()) => Ok(true),
        Err(AdoptError::Record(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

/// The events about the sweep for one session; at least one, for the session itself.
fn sweep_events(removed: &[RemovedResources], lease: LeaseId) -> Vec<EventKind> {
    let mut kinds: Vec<EventKind> = removed
        .iter()
        .filter(|part| part.count > 0)
        .map(|part| EventKind::Swept {
            what: part.what.clone(),
            count: part.count,
            lease,
        })
        .collect();
    if kinds.is_empty() {
        kinds.push(EventKind::Swept {
            what: CleanText::from("nothing"),
            count: 0,
            lease,
        });
    }
    kinds
}
