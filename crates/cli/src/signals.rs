//! Handles SIGINT, SIGTERM and SIGHUP. The first signal cancels what runs, so that it ends and is recorded; a second one,
//! or a timeout, ends this program.
//!
//! A separate thread waits for signals, so that they work while files are copied or a terminal is slow.

use std::io;
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The time after which a first signal ends this program; a run normally ends and is recorded sooner.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why the run should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelReason {
    /// No cancel request was made.
    None,
    /// The process received a signal.
    Signal,
    /// The reader of standard output is gone.
    ReaderGone,
}

/// A shared cancel request that can be polled and awaited.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(watch::Sender<CancelReason>);

impl Interrupt {
    /// Starts to listen for signals; after the first one this program ends within `patience`.
    pub(crate) fn listen(patience: Duration) -> io::Result<Interrupt> {
        let interrupt = Interrupt(watch::Sender::new(CancelReason::None));
        let heard = interrupt.clone();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || watch_signals(&heard, patience))?;
        Ok(interrupt)
    }

    /// Requests cancellation; only the first reason is kept.
    pub(crate) fn request(&self, wish: CancelReason) {
        self.0.send_if_modified(|known| {
            let first = *known == CancelReason::None;
            if first {
                *known = wish;
            }
            first
        });
    }

    /// The reason of the first cancel request so far.
    pub(crate) fn reason(&self) -> CancelReason {
        *self.0.borrow()
    }

    /// Waits until cancellation is requested; returns at once if it was.
    pub(crate) async fn requested(&self) {
        let mut receiver = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = receiver.wait_for(|wish| *wish != CancelReason::None).await;
    }
}

fn watch_signals(interrupt: &Interrupt, patience: Duration) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::warn!(%error, "cannot listen for signals"),
    };
    runtime.block_on(async {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let streams: io::Result<Vec<_>> = kinds.into_iter().map(signal).collect();
        let [mut interrupted, mut terminated, mut hung_up] = match streams.map(<[_; 3]>::try_from) {
            Ok(Ok(streams)) => streams,
            Ok(Err(_)) => return,
            Err(error) => return tracing::warn!(%error, "cannot listen for signals"),
        };
        let mut next = async || {
            tokio::select! {
                _ = interrupted.recv() => 2,
                _ = terminated.recv() => 15,
                _ = hung_up.recv() => 1,
            }
        };
        let number = next().await;
        interrupt.request(CancelReason::Signal);
        end_by_signal(tokio::time::timeout(patience, next()).await.unwrap_or(number));
    });
}

#[expect(
    clippy::exit,
    reason = "a second signal means now; sandboxes die with this process, and the next start sweeps"
)]
fn end_by_signal(signal: i32) -> ! {
    std::process::exit(128 + signal)
}
