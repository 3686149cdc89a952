//! The speed of a detector in processor time: other work on the machine does not count.

use std::fs;

use anyhow::{Context, Result};
use ringfence_hygiene::Detector;

const PIECE_BYTES: usize = 10_000;

/// Joins texts and cuts them into pieces of 10 KB.
pub fn pieces<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for text in texts {
        if pieces.last().is_some_and(|last| last.len() + text.len() > PIECE_BYTES) {
            pieces.push(String::new());
        }
        if let Some(last) = pieces.last_mut() {
            last.push_str(text);
            last.push('\n');
        }
    }
    pieces
}

/// The speed in megabytes per second, the best of some rounds.
pub fn megabytes_per_second(detector: &Detector, pieces: &[String]) -> Result<f64> {
    let bytes: usize = pieces.iter().map(String::len).sum();
    let rounds = (20_000_000 / bytes.max(1)).max(1);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let begun = thread_cpu_time()?;
        let mut found = 0;
        for _ in 0..rounds {
            found += pieces.iter().map(|piece| detector.find(piece).len()).sum::<usize>();
        }
        std::hint::black_box(found);
        let took = thread_cpu_time()?.saturating_sub(begun);
        #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
        let each = took as f64 / (bytes * rounds) as f64;
        best = best.min(each);
    }
    Ok(1000.0 / best)
}

/// The nanoseconds that this thread ran on a processor.
fn thread_cpu_time() -> Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").context("cannot read the thread's time")?;
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().context("cannot read the thread's time")
}
