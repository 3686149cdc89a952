//! The benchmark of egress: a download through the gateway beside the same one through a plain proxy, the time that the hop adds to an
//! answer, a hundred concurrent connections, and the cost while idle. `--brief` is for correctness only.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::time::Duration;

use anyhow::{Result, ensure};
use ringfence_testkit::egress::{EgressRoute, EgressRoutes, enter_internet, run_plain_proxy};
use ringfence_testkit::timing::milliseconds;

/// The least share of a plain proxy's speed.
const MIN_SPEED_RATIO: f64 = 0.5;
/// The most time that the hop may add to the median answer.
const MAX_HOP_TIME: Duration = Duration::from_millis(1);
const CONCURRENT_CONNECTIONS: usize = 100;
/// Milliseconds in a tick of the processor's clock.
const TICK_MILLIS: u64 = 10;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--plain-proxy") {
        return run_plain_proxy();
    }
    let brief = words.iter().any(|word| word == "--brief");
    if !enter_internet()? {
        return Ok(());
    }
    let roads = EgressRoutes::open()?;
    let mut missed = Vec::new();
    println!("| | through the pipe | plain proxy | at most, or at least |\n|---|---|---|---|");
    measure_speed(&roads, brief, &mut missed)?;
    measure_hop(&roads, brief, &mut missed)?;
    let time = roads.concurrent_time(CONCURRENT_CONNECTIONS)?;
    println!(
        "| {CONCURRENT_CONNECTIONS} connections at once, each held for a second | {} ms | | all answered |",
        time.as_millis()
    );
    let (with, without) = roads.idle_ticks()?;
    println!(
        "| processor time of a quiet program in four seconds: with an open tunnel, without a network | {} ms | {} ms | {} ms more |",
        with * TICK_MILLIS,
        without * TICK_MILLIS,
        2 * TICK_MILLIS
    );
    if with > without + 2 {
        missed.push("idle");
    }
    if brief {
        return Ok(());
    }
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

fn measure_speed(roads: &EgressRoutes, brief: bool, missed: &mut Vec<&'static str>) -> Result<()> {
    let (bytes, times) = if brief { (64 << 20, 1) } else { (1 << 30, 5) };
    for scheme in ["http", "https"] {
        let (mut pipe, mut plain) = (Vec::new(), Vec::new());
        // In turns, so that both see the same machine.
        for _ in 0..times {
            plain.push(roads.download(EgressRoute::Plain, scheme, bytes)?);
            pipe.push(roads.download(EgressRoute::Pipe, scheme, bytes)?);
        }
        let (pipe, plain) = (median_of(pipe), median_of(plain));
        let ratio = pipe / plain.max(1.0);
        println!(
            "| download by {scheme} | {:.0} MB/s | {:.0} MB/s | {MIN_SPEED_RATIO} of it: {ratio:.2} |",
            pipe / 1e6,
            plain / 1e6
        );
        if ratio < MIN_SPEED_RATIO {
            missed.push("speed");
        }
    }
    Ok(())
}

fn measure_hop(roads: &EgressRoutes, brief: bool, missed: &mut Vec<&'static str>) -> Result<()> {
    let count = if brief { 20 } else { 1000 };
    for (what, scheme) in [
        ("an answer in an open tunnel", "https"),
        ("a request that is judged and written down", "http"),
    ] {
        let plain = roads.small_answer_time(EgressRoute::Plain, scheme, count)?;
        let pipe = roads.small_answer_time(EgressRoute::Pipe, scheme, count)?;
        let added = pipe.saturating_sub(plain);
        println!(
            "| {what}, middle of {count} | {} ms | {} ms | {} ms added: {} ms |",
            milliseconds(pipe),
            milliseconds(plain),
            MAX_HOP_TIME.as_millis(),
            milliseconds(added)
        );
        if added >= MAX_HOP_TIME && scheme == "https" {
            missed.push("hop");
        }
    }
    Ok(())
}

fn median_of(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
