//! A server on this machine often answers sooner than a thread that went to sleep for it would wake. So for a moment nobody
//! sleeps; where that was in vain, the next waits sleep at once.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// About what sleeping and waking take.
const MOMENT: Duration = Duration::from_micros(50);
/// So many waits sleep at once after one that was in vain: what is not near costs next to nothing.
const PAUSE: u32 = 32;

/// Whether answers were near.
#[derive(Debug, Default)]
pub(super) struct Near {
    /// Waits that still sleep at once.
    pause: AtomicU32,
}

impl Near {
    /// Waits for `answer`.
    pub(super) async fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        let pause = self.pause.load(Ordering::Relaxed);
        if pause > 0 {
            self.pause.store(pause - 1, Ordering::Relaxed);
            return answer.await;
        }
        let begun = Instant::now();
        while begun.elapsed() < MOMENT {
            if let Poll::Ready(answer) = futures::poll!(answer.as_mut()) {
                return answer;
            }
            // Looks at everything else too: the sockets, and the tasks that bring the answer.
            tokio::task::yield_now().await;
        }
        self.pause.store(PAUSE, Ordering::Relaxed);
        answer.await
    }
}

#[cfg(test)]
mod tests;
