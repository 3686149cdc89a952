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
fn rounds(brisk: &AdaptiveSpin) -> usize {
    let mut wait = Box::pin(brisk.spin_or_sleep());
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
    let mut brisk = AdaptiveSpin {
        is_multiprocessor: true,
        ..AdaptiveSpin::new()
    };
    assert_eq!(rounds(&brisk), 0, "nothing came yet");
    let stirred = |brisk: &mut AdaptiveSpin| {
        for _ in 0..MIN_SPIN_STREAK {
            brisk.last_arrival = Instant::now();
            brisk.record_arrival();
        }
    };
    // A busy machine may use up the interval between two lines.
    let is_awake = (0..1000).any(|_| {
        stirred(&mut brisk);
        rounds(&brisk) > 0
    });
    assert!(is_awake);
    assert!(brisk.last_arrival.elapsed() > SPIN_INTERVAL);
    // No second permit while one is held.
    stirred(&mut brisk);
    let other = SpinPermit::try_acquire();
    assert!(other.is_some());
    assert_eq!(rounds(&brisk), 0);
    drop(other);
    // After a late arrival, the streak starts again.
    brisk.last_arrival = Instant::now().checked_sub(SPIN_INTERVAL * 2).unwrap();
    brisk.record_arrival();
    assert_eq!((brisk.streak, rounds(&brisk)), (0, 0));
    stirred(&mut brisk);
    brisk.is_multiprocessor = false;
    assert_eq!(rounds(&brisk), 0, "with one processor");
}
