//! Ctrl-C and its kin: the first ends what runs and lets it be written down; the second, or a long wait, ends this program.
//!
//! They are heard on a thread of their own, so that they work while files are copied or a terminal is slow.

use std::io;
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Whatever runs has ended and is written down by then, unless something of ours is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Why what runs should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nobody wishes it.
    None,
    /// A signal came.
    Signal,
    /// Whoever read the output is gone.
    ReaderGone,
}

/// Somebody's wish that what runs should end, to be looked at and to be waited for.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(watch::Sender<Wish>);

impl Interrupt {
    /// Begins to listen for signals; after the first, this program ends within `patience`.
    pub(crate) fn listen(patience: Duration) -> io::Result<Interrupt> {
        let interrupt = Interrupt(watch::Sender::new(Wish::None));
        let heard = interrupt.clone();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || hear(&heard, patience))?;
        Ok(interrupt)
    }

    /// Wishes it.
    pub(crate) fn wish(&self, wish: Wish) {
        self.0.send_if_modified(|known| {
            let first = *known == Wish::None;
            if first {
                *known = wish;
            }
            first
        });
    }

    /// What was wished so far.
    pub(crate) fn wished(&self) -> Wish {
        *self.0.borrow()
    }

    /// Waits for a wish.
    pub(crate) async fn requested(&self) {
        let mut receiver = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = receiver.wait_for(|wish| *wish != Wish::None).await;
    }
}

fn hear(interrupt: &Interrupt, patience: Duration) {
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
        interrupt.wish(Wish::Signal);
        end(tokio::time::timeout(patience, next()).await.unwrap_or(number));
    });
}

#[expect(
    clippy::exit,
    reason = "a second signal means now; sandboxes die with this process, and the next start sweeps"
)]
fn end(signal: i32) -> ! {
    std::process::exit(128 + signal)
}
