//! Median times, and a table of them.

use std::time::{Duration, Instant};

use anyhow::Result;

/// The median time of `work` over `count` runs, after a first one that does not count.
pub fn time_median(count: usize, mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    work()?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        work()?;
        times.push(started.elapsed());
    }
    Ok(median_of(times))
}

/// The median of `times`; zero where there are none.
pub fn median_of(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A row of the table: what was measured, its time, the goal, and peers.
#[derive(Debug, Clone)]
pub struct TimingRow {
    /// The name of the measurement.
    pub what: &'static str,
    /// The median of its times.
    pub time: Duration,
    /// The most that the time may be; none where there is no goal.
    pub most: Option<Duration>,
    /// Peers measured in the same run.
    pub beside: Vec<(&'static str, Duration)>,
}

/// The table as Markdown.
pub fn table(rows: &[TimingRow]) -> String {
    let mut text = String::from("| | median ms | at most ms | beside it (ms, ratio) |\n|---|---|---|---|\n");
    for row in rows {
        let most = row.most.map_or_else(|| "–".to_owned(), milliseconds);
        let beside: Vec<String> = row
            .beside
            .iter()
            .map(|(name, time)| {
                let ratio = row.time.as_secs_f64() / time.as_secs_f64().max(f64::EPSILON);
                format!("{name} {} ({ratio:.2}×)", milliseconds(*time))
            })
            .collect();
        let line = format!(
            "| {} | {} | {most} | {} |\n",
            row.what,
            milliseconds(row.time),
            beside.join(", ")
        );
        text.push_str(&line);
    }
    text
}

/// A duration in milliseconds with three digits.
pub fn milliseconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1000.0)
}
