use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake, Waker};

use super::*;

/// Counts how often its waker is called.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// How often a wait yields before it sleeps.
fn rounds(brisk: &Brisk) -> usize {
    let mut wait = Box::pin(brisk.wait());
    let count = Arc::<Count>::default();
    let waker = Waker::from(Arc::clone(&count));
    for round in 0.. {
        let Poll::Pending = wait.as_mut().poll(&mut Context::from_waker(&waker));
        if count.0.swap(0, Ordering::Relaxed) == 0 {
            return round;
        }
    }
    unreachable!("a moment ends")
}

#[test]
fn one_stays_awake_for_a_moment_and_only_where_that_pays() {
    let mut brisk = Brisk {
        possible: true,
        ..Brisk::new()
    };
    assert_eq!(rounds(&brisk), 0, "nothing came yet");
    let stirred = |brisk: &mut Brisk| {
        for _ in 0..PAYS {
            brisk.since = Instant::now();
            brisk.stir();
        }
    };
    // A busy machine may use up the interval between two lines.
    let is_awake = (0..1000).any(|_| {
        stirred(&mut brisk);
        rounds(&brisk) > 0
    });
    assert!(is_awake);
    assert!(brisk.since.elapsed() > MOMENT);
    // No second permit while one is held.
    stirred(&mut brisk);
    let other = Awake::alone();
    assert!(other.is_some());
    assert_eq!(rounds(&brisk), 0);
    drop(other);
    // After a late arrival, the streak starts again.
    brisk.since = Instant::now().checked_sub(MOMENT * 2).unwrap();
    brisk.stir();
    assert_eq!((brisk.in_time, rounds(&brisk)), (0, 0));
    stirred(&mut brisk);
    brisk.possible = false;
    assert_eq!(rounds(&brisk), 0, "with one processor");
}
