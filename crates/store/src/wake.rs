//! Wake events of a process: stop requests for its sessions, and answers to its questions. One listener on the lease's socket receives
//! both.
//!
//! The rows are authoritative; a datagram only triggers a read, so that waiting costs nothing.

use std::sync::Arc;

use ringfence_journal::{ApprovalId, LeaseId};

use crate::database::{self, QueryError};
use crate::query::{QueryRow, query};
use crate::stop::StopRequest;
use crate::{Lease, LeaseError, Store};

/// An event that a process must handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeEvent {
    /// A session must stop.
    Stop(StopRequest),
    /// A question was answered, in a session of this process or of no process.
    Answered(ApprovalId),
}

impl Store {
    /// Listens for the wake events of this lease. A lease has one listener.
    pub fn listen_for_wakes(self: &Arc<Self>, lease: &Lease) -> Result<WakeListener, LeaseError> {
        let path = self.home.run_folder().join(format!("{}.sock", lease.id()));
        let failed = |source| LeaseError::File {
            path: path.clone(),
            source,
        };
        let socket = lease.socket().map_err(failed)?;
        let socket = tokio::net::UnixDatagram::from_std(socket).map_err(failed)?;
        Ok(WakeListener {
            store: Arc::clone(self),
            lease: self.note_lease(lease),
            socket,
            stops: 0,
            answers: 0,
            ready: Vec::new(),
            looked: false,
        })
    }
}

/// Waits for the wake events of one lease.
#[derive(Debug)]
pub struct WakeListener {
    store: Arc<Store>,
    lease: LeaseId,
    socket: tokio::net::UnixDatagram,
    /// Row numbers of the last stop request and of the last answer that were returned.
    stops: i64,
    answers: i64,
    /// Events that were read and not returned yet; the next one is last.
    ready: Vec<WakeEvent>,
    looked: bool,
}

impl WakeListener {
    /// The next event. Cancel safe.
    pub async fn next(&mut self) -> Result<WakeEvent, QueryError> {
        loop {
            if let Some(wake) = self.ready.pop() {
                return Ok(wake);
            }
            // The first read finds the rows that were written before this listener existed.
            if self.looked {
                self.wait_for_datagram().await?;
                self.looked = false;
            }
            self.read_new_rows().await?;
            self.looked = true;
        }
    }

    async fn wait_for_datagram(&self) -> Result<(), QueryError> {
        let mut buffer = [0; 16];
        self.socket.recv(&mut buffer).await.map_err(QueryError::Wake)?;
        // One read covers all notifications until now.
        while self.socket.try_recv(&mut buffer).is_ok() {}
        Ok(())
    }

    async fn read_new_rows(&mut self) -> Result<(), QueryError> {
        let answers = self
            .rows_after(
                "SELECT answers.n, answers.approval FROM answers JOIN sessions ON sessions.id = answers.session
                 WHERE (sessions.lease = ?1 OR sessions.lease IS NULL) AND sessions.state = 'open' AND answers.n > ?2
                 ORDER BY answers.n DESC",
                self.answers,
            )
            .await?;
        for row in &answers {
            self.answers = self.answers.max(row_number(row, "answers")?);
            self.ready
                .push(WakeEvent::Answered(database::parse_column(row, "answers", "approval")?));
        }
        let stops = self
            .rows_after(
                "SELECT stops.n, stops.session, stops.principal FROM stops JOIN sessions ON sessions.id = stops.session
                 WHERE sessions.lease = ?1 AND sessions.state = 'open' AND stops.n > ?2 ORDER BY stops.n DESC",
                self.stops,
            )
            .await?;
        for row in &stops {
            self.stops = self.stops.max(row_number(row, "stops")?);
            self.ready.push(WakeEvent::Stop(StopRequest {
                session: database::parse_column(row, "stops", "session")?,
                by: database::parse_column(row, "stops", "principal")?,
            }));
        }
        Ok(())
    }

    async fn rows_after(&self, sql: &'static str, after: i64) -> Result<Vec<QueryRow>, QueryError> {
        let reader = self.store.reader().await;
        query(sql)
            .bind(self.lease.to_string())
            .bind(after)
            .fetch_all(&reader)
            .await
    }
}

fn row_number(row: &QueryRow, table: &'static str) -> Result<i64, QueryError> {
    row.get("n").map_err(|_| QueryError::Row { table, column: "n" })
}
