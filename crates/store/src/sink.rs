//! Audit sinks: every record is sent after its commit to files, syslog and remote sinks.
//!
//! Only a durable sink delays an act. Each sink has its own thread or task and a bounded queue; records that do not fit are counted, logged
//! and noted in the database.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::Duration;

use ringfence_journal::Record;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

mod file;
mod remote;
mod syslog;
mod tally;

pub use remote::Remote;
pub(crate) use remote::Taking;
pub use tally::Missed;
pub(crate) use tally::Tally;

use remote::Line;

/// Records that may be queued for a sink before further ones are dropped.
const QUEUE: usize = 4096;

/// How long shutdown waits for sinks that still have records.
const PATIENCE: Duration = Duration::from_secs(2);

/// The configuration of a local audit sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sink {
    /// A file of JSON lines, appended to; reopened after a rotation.
    File {
        /// The path of the file.
        path: PathBuf,
    },
    /// RFC 5424 messages on a datagram socket, such as `/dev/log`.
    Syslog {
        /// The path of the socket.
        path: PathBuf,
    },
}

/// Why a sink cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The file cannot be opened.
    #[error("cannot append to `{}`", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The socket cannot be reached.
    #[error("cannot reach syslog at `{}`", path.display())]
    Syslog {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the connection.
        source: io::Error,
    },
    /// The sink's thread cannot start.
    #[error("cannot start a sink's thread")]
    Thread(#[source] io::Error),
}

/// Writes one record to a local sink; on an error the record is dropped.
trait Drain: Send + 'static {
    fn send(&mut self, record: &Record) -> io::Result<()>;
}

pub(crate) struct Sinks {
    near: Vec<Feed>,
    far: Vec<Line>,
}

/// A sink on this machine, with its queue and thread.
struct Feed {
    tally: Arc<Tally>,
    queue: SyncSender<Arc<Record>>,
    thread: thread::JoinHandle<()>,
}

impl Sinks {
    /// Starts every sink; fails if one cannot be opened.
    pub(crate) fn start(sinks: &[Sink], remotes: Vec<Remote>) -> Result<Sinks, SinkError> {
        let near = sinks.iter().map(|sink| match sink {
            Sink::File { path } => {
                let drain = file::Lines::open(path.clone()).map_err(|source| SinkError::File {
                    path: path.clone(),
                    source,
                })?;
                Feed::start(format!("file `{}`", path.display()), drain)
            }
            Sink::Syslog { path } => {
                let drain = syslog::Syslog::open(path.clone()).map_err(|source| SinkError::Syslog {
                    path: path.clone(),
                    source,
                })?;
                Feed::start(format!("syslog `{}`", path.display()), drain)
            }
        });
        Ok(Sinks {
            near: near.collect::<Result<_, _>>()?,
            far: remotes.into_iter().map(Line::start).collect(),
        })
    }

    /// Queues committed records for all sinks; never waits. The caller must wait for the returned receipts.
    pub(crate) fn feed(&self, records: &[Record]) -> Taking {
        let mut taking = Taking::default();
        if self.near.is_empty() && self.far.is_empty() {
            return taking;
        }
        for record in records {
            let record = Arc::new(record.clone());
            for feed in &self.near {
                feed.tally.came(&record);
                if feed.queue.try_send(Arc::clone(&record)).is_err() {
                    feed.tally.missed(&record, "its queue is full");
                }
            }
            for line in &self.far {
                line.offer(&record, &mut taking);
            }
        }
        taking
    }

    /// The statistics of every sink.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = &Arc<Tally>> {
        let near = self.near.iter().map(|feed| &feed.tally);
        near.chain(self.far.iter().map(|line| &line.tally))
    }

    /// Waits for queued records up to the drain timeout.
    pub(crate) async fn finish(self) -> Vec<Arc<Tally>> {
        let deadline = Instant::now() + PATIENCE;
        let near = self.near.into_iter().map(Feed::end).collect::<Vec<_>>();
        let far = self.far.into_iter().map(Line::end).collect::<Vec<_>>();
        let mut tallies = Vec::new();
        for (tally, thread) in near {
            let joined = tokio::task::spawn_blocking(move || thread.join());
            if !matches!(tokio::time::timeout_at(deadline, joined).await, Ok(Ok(Ok(())))) {
                tally.abandoned();
            }
            tallies.push(tally);
        }
        for end in far {
            tallies.push(end.by(deadline).await);
        }
        for tally in &tallies {
            tally.say();
        }
        tallies
    }
}

impl Feed {
    fn start(name: String, mut drain: impl Drain) -> Result<Feed, SinkError> {
        let (queue, inbox) = mpsc::sync_channel::<Arc<Record>>(QUEUE);
        let tally = Arc::new(Tally::new(name));
        let counter = Arc::clone(&tally);
        let thread = thread::Builder::new()
            .name("audit-sink".to_owned())
            .spawn(move || {
                for record in inbox {
                    match drain.send(&record) {
                        Ok(()) => counter.taken(&record),
                        Err(error) => counter.missed(&record, &error.to_string()),
                    }
                }
            })
            .map_err(SinkError::Thread)?;
        Ok(Feed { tally, queue, thread })
    }

    /// Closes the queue; the thread ends after the last record.
    fn end(self) -> (Arc<Tally>, thread::JoinHandle<()>) {
        (self.tally, self.thread)
    }
}
