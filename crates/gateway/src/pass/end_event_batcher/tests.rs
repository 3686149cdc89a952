use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::*;

/// A recorder that is as slow as the test wants.
#[derive(Clone)]
struct Slow {
    leave: Arc<Semaphore>,
    begun: Arc<AtomicUsize>,
    fails: bool,
}

impl EventWriter<u8> for Slow {
    async fn write_event(&self, _: u8) -> Result<(), RecordError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.leave.acquire().await.unwrap().forget();
        if self.fails { Err(RecordError::Ended) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_another_is_writing_is_waited_for() {
    for fails in [false, true] {
        let slow = Slow {
            leave: Arc::new(Semaphore::new(0)),
            begun: Arc::default(),
            fails,
        };
        let ends = EndEventBatcher::new(slow.clone());
        ends.add(1);
        tokio::time::sleep(MAX_BATCH_DELAY * 2).await;
        assert_eq!(slow.begun.load(Ordering::SeqCst), 1, "the moment is over");
        // The control: nothing is pending any more.
        assert!(ends.flush().await.is_ok());
        let all = ends.flush_all();
        tokio::pin!(all);
        let early = tokio::time::timeout(MAX_BATCH_DELAY * 10, &mut all).await;
        assert!(early.is_err(), "it is not written yet");
        slow.leave.add_permits(1);
        assert_eq!(all.await.is_err(), fails);
    }
}
