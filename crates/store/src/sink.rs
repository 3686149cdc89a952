//! Live sinks: every record goes on after its commit to files and syslog.
//!
//! A sink never delays an act: each has a thread and a bounded queue of its own, and what does
//! not fit is counted and said in the log.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use ringfence_journal::Record;
use serde::{Deserialize, Serialize};

mod file;
mod syslog;

/// Records that may wait for a sink before they are dropped.
const QUEUE: usize = 4096;

/// How long the end waits for a sink that still has lines.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where records go besides the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sink {
    /// Lines of JSON, appended; opened again when the file was rotated.
    File {
        /// The file.
        path: PathBuf,
    },
    /// RFC 5424 messages on a datagram socket, such as `/dev/log`.
    Syslog {
        /// The socket.
        path: PathBuf,
    },
}

/// Why a sink cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Its file cannot be opened.
    #[error("cannot append to `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Its socket cannot be reached.
    #[error("cannot reach syslog at `{}`", path.display())]
    Syslog {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Its thread cannot start.
    #[error("cannot start a sink's thread")]
    Thread(#[source] io::Error),
}

/// What takes one record; an error means that the record was dropped.
trait Outlet: Send + 'static {
    fn send(&mut self, record: &Record) -> io::Result<()>;
}

pub(crate) struct Sinks(Vec<Feed>);

struct Feed {
    name: String,
    queue: SyncSender<Arc<Record>>,
    dropped: Arc<AtomicU64>,
    thread: thread::JoinHandle<()>,
}

impl Sinks {
    /// Opens every sink; one that cannot be opened stops the start.
    pub(crate) fn start(sinks: &[Sink]) -> Result<Sinks, SinkError> {
        let feeds = sinks.iter().map(|sink| match sink {
            Sink::File { path } => {
                let outlet = file::Lines::open(path.clone()).map_err(|source| SinkError::File {
                    path: path.clone(),
                    source,
                })?;
                Feed::start(format!("file `{}`", path.display()), outlet)
            }
            Sink::Syslog { path } => {
                let outlet = syslog::Syslog::open(path.clone()).map_err(|source| SinkError::Syslog {
                    path: path.clone(),
                    source,
                })?;
                Feed::start(format!("syslog `{}`", path.display()), outlet)
            }
        });
        feeds.collect::<Result<_, _>>().map(Sinks)
    }

    /// Hands committed records on; never waits.
    pub(crate) fn feed(&self, records: &[Record]) {
        if self.0.is_empty() {
            return;
        }
        for record in records {
            let record = Arc::new(record.clone());
            for feed in &self.0 {
                match feed.queue.try_send(Arc::clone(&record)) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                        count(&feed.dropped, &feed.name);
                    }
                }
            }
        }
    }

    /// Waits a while for what the sinks still have.
    pub(crate) async fn finish(self) {
        for Feed {
            name,
            queue,
            dropped,
            thread,
        } in self.0
        {
            drop(queue);
            let joined = tokio::task::spawn_blocking(move || thread.join());
            if !matches!(tokio::time::timeout(PATIENCE, joined).await, Ok(Ok(Ok(())))) {
                tracing::warn!(sink = name, "the sink did not finish in time");
            }
            let dropped = dropped.load(Ordering::Relaxed);
            if dropped > 0 {
                tracing::warn!(sink = name, dropped, "records were not delivered to a sink");
            }
        }
    }
}

/// Counts a dropped record; says so at the first, and at each power of two.
fn count(dropped: &AtomicU64, name: &str) {
    let total = dropped.fetch_add(1, Ordering::Relaxed) + 1;
    if total.is_power_of_two() {
        tracing::warn!(sink = name, dropped = total, "records are not delivered to a sink");
    }
}

impl Feed {
    fn start(name: String, mut outlet: impl Outlet) -> Result<Feed, SinkError> {
        let (queue, inbox) = mpsc::sync_channel::<Arc<Record>>(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let (counter, label) = (Arc::clone(&dropped), name.clone());
        let thread = thread::Builder::new()
            .name("audit-sink".to_owned())
            .spawn(move || {
                for record in inbox {
                    if let Err(error) = outlet.send(&record) {
                        tracing::debug!(sink = label, %error, "a record was not delivered");
                        count(&counter, &label);
                    }
                }
            })
            .map_err(SinkError::Thread)?;
        Ok(Feed {
            name,
            queue,
            dropped,
            thread,
        })
    }
}
