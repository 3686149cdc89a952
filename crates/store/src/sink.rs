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
mod stats;
mod syslog;

pub use remote::RemoteSink;
pub(crate) use remote::SinkReceipts;
pub use stats::MissedRecords;
pub(crate) use stats::SinkStats;

use remote::RemoteSinkTask;

/// Records that may be queued for a sink before further ones are dropped.
const QUEUE_CAPACITY: usize = 4096;

/// How long shutdown waits for sinks that still have records.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The configuration of a local audit sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SinkConfig {
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
trait RecordSink: Send + 'static {
    fn send(&mut self, record: &Record) -> io::Result<()>;
}

pub(crate) struct SinkSet {
    local: Vec<LocalSink>,
    remote: Vec<RemoteSinkTask>,
}

/// A sink on this machine, with its queue and thread.
struct LocalSink {
    tally: Arc<SinkStats>,
    queue: SyncSender<Arc<Record>>,
    thread: thread::JoinHandle<()>,
}

impl SinkSet {
    /// Starts every sink; fails if one cannot be opened.
    pub(crate) fn start(sinks: &[SinkConfig], remotes: Vec<RemoteSink>) -> Result<SinkSet, SinkError> {
        let near = sinks.iter().map(|sink| match sink {
            SinkConfig::File { path } => {
                let drain = file::FileSink::open(path.clone()).map_err(|source| SinkError::File {
                    path: path.clone(),
                    source,
                })?;
                LocalSink::start(format!("file `{}`", path.display()), drain)
            }
            SinkConfig::Syslog { path } => {
                let drain = syslog::SyslogSink::open(path.clone()).map_err(|source| SinkError::Syslog {
                    path: path.clone(),
                    source,
                })?;
                LocalSink::start(format!("syslog `{}`", path.display()), drain)
            }
        });
        Ok(SinkSet {
            local: near.collect::<Result<_, _>>()?,
            remote: remotes.into_iter().map(RemoteSinkTask::start).collect(),
        })
    }

    /// Queues committed records for all sinks; never waits. The caller must wait for the returned receipts.
    pub(crate) fn offer(&self, records: &[Record]) -> SinkReceipts {
        let mut taking = SinkReceipts::default();
        if self.local.is_empty() && self.remote.is_empty() {
            return taking;
        }
        for record in records {
            let record = Arc::new(record.clone());
            for feed in &self.local {
                feed.tally.note_queued(&record);
                if feed.queue.try_send(Arc::clone(&record)).is_err() {
                    feed.tally.note_dropped(&record, "its queue is full");
                }
            }
            for line in &self.remote {
                line.offer(&record, &mut taking);
            }
        }
        taking
    }

    /// The statistics of every sink.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = &Arc<SinkStats>> {
        let near = self.local.iter().map(|feed| &feed.tally);
        near.chain(self.remote.iter().map(|line| &line.tally))
    }

    /// Waits for queued records up to the drain timeout.
    pub(crate) async fn finish(self) -> Vec<Arc<SinkStats>> {
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        let near = self.local.into_iter().map(LocalSink::close).collect::<Vec<_>>();
        let far = self.remote.into_iter().map(RemoteSinkTask::close).collect::<Vec<_>>();
        let mut tallies = Vec::new();
        for (tally, thread) in near {
            let joined = tokio::task::spawn_blocking(move || thread.join());
            if !matches!(tokio::time::timeout_at(deadline, joined).await, Ok(Ok(Ok(())))) {
                tally.note_abandoned();
            }
            tallies.push(tally);
        }
        for end in far {
            tallies.push(end.finish_by(deadline).await);
        }
        for tally in &tallies {
            tally.log_total();
        }
        tallies
    }
}

impl LocalSink {
    fn start(name: String, mut drain: impl RecordSink) -> Result<LocalSink, SinkError> {
        let (queue, inbox) = mpsc::sync_channel::<Arc<Record>>(QUEUE_CAPACITY);
        let tally = Arc::new(SinkStats::new(name));
        let counter = Arc::clone(&tally);
        let thread = thread::Builder::new()
            .name("audit-sink".to_owned())
            .spawn(move || {
                for record in inbox {
                    match drain.send(&record) {
                        Ok(()) => counter.note_delivered(&record),
                        Err(error) => counter.note_dropped(&record, &error.to_string()),
                    }
                }
            })
            .map_err(SinkError::Thread)?;
        Ok(LocalSink { tally, queue, thread })
    }

    /// Closes the queue; the thread ends after the last record.
    fn close(self) -> (Arc<SinkStats>, thread::JoinHandle<()>) {
        (self.tally, self.thread)
    }
}
