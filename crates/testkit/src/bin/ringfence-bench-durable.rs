//! The benchmark of waiting for an approval: the time to release a sandbox and to resume, the size on disk, and the cost of recording a
//! call. `--brief` does little of each, asserts no time, and installs nothing. `--keeping` measures only the cost of recording.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use ringfence_testkit::durable::{
    CALLS, WaitingEngine, measure_call_costs, measure_peers, measure_release, measure_size, measure_startup,
};
use ringfence_testkit::timing::milliseconds;

/// The most time from the decision to release a sandbox until it is free and that is recorded.
const MAX_SUSPEND_TIME: Duration = Duration::from_millis(2);
/// The most time from the answer to the end, beyond a fresh run.
const MAX_RESUME_TIME: Duration = Duration::from_millis(10);
/// The most bytes on disk of a waiting execution, beyond its results.
const MAX_WAITING_BYTES: u64 = 64 * 1024;
/// The most time that a server with 10,000 of them takes to start.
const MAX_START_TIME: Duration = Duration::from_secs(1);
/// The most time that journal and recording may add to a call.
const MAX_KEEPING_TIME: Duration = Duration::from_micros(60);

/// How much a run measures.
struct DurableBenchSize {
    rounds: usize,
    calls: u32,
    many: usize,
}

fn main() -> Result<()> {
    let [brief, keeping_only] = ["--brief", "--keeping"].map(|flag| std::env::args().any(|one| one == flag));
    let size = if brief {
        DurableBenchSize {
            rounds: 1,
            calls: 128,
            many: 200,
        }
    } else {
        DurableBenchSize {
            rounds: 15,
            calls: 6_400,
            many: 10_000,
        }
    };
    // One thread, as the `ringfence` program itself has.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if keeping_only {
        let mut missed = Vec::new();
        return runtime.block_on(measure_keeping(&size, &mut missed));
    }
    let (each, missed) = runtime.block_on(measure(&size))?;
    // The size on disk does not depend on the machine.
    ensure!(
        each <= MAX_WAITING_BYTES,
        "an execution that waits takes {each} bytes on disk"
    );
    if brief {
        println!("\npeers: not in a brief run");
        return Ok(());
    }
    println!("\n{}", measure_peers()?);
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

/// Returns the bytes on disk of each waiting execution, and the goals that were missed.
async fn measure(size: &DurableBenchSize) -> Result<(u64, Vec<&'static str>)> {
    let mut missed = Vec::new();
    println!("| | measured | at most |\n|---|---|---|");
    measure_suspending(size, &mut missed).await?;
    let each = measure_waiting(size, &mut missed).await?;
    measure_keeping(size, &mut missed).await?;
    Ok((each, missed))
}

/// The path of a program beside this one.
fn sibling_program(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(name);
    ensure!(
        program.is_file(),
        "{} is missing: `cargo xtask bench durable` builds it",
        program.display()
    );
    Ok(program)
}

async fn measure_suspending(size: &DurableBenchSize, missed: &mut Vec<&'static str>) -> Result<()> {
    let released = measure_release(size.rounds).await?;
    println!(
        "| suspend a program that waits after {CALLS} calls: sandbox free {} ms, commit {} ms | {} ms | {} ms |",
        milliseconds(released.sandbox),
        milliseconds(released.commit),
        milliseconds(released.both),
        milliseconds(MAX_SUSPEND_TIME)
    );
    if released.both > MAX_SUSPEND_TIME {
        missed.push("suspend");
    }
    Ok(())
}

async fn measure_waiting(size: &DurableBenchSize, missed: &mut Vec<&'static str>) -> Result<u64> {
    let folder = tempfile::tempdir()?;
    let waiter = WaitingEngine::open(folder.path(), &sibling_program("ringfence-upstream")?).await?;
    let resumed = waiter.measure_resume(size.rounds).await?;
    let beyond = resumed.resumed.saturating_sub(resumed.fresh);
    println!(
        "| resume it, answer to end: {} ms; fresh run of the same {} ms, of its last call alone {} ms | {} ms beyond | {} ms |",
        milliseconds(resumed.resumed),
        milliseconds(resumed.fresh),
        milliseconds(resumed.least),
        milliseconds(beyond),
        milliseconds(MAX_RESUME_TIME)
    );
    if beyond > MAX_RESUME_TIME {
        missed.push("resume");
    }
    let one = waiter.start_waiting(1).await?;
    let home = waiter.shut_down().await?;
    let weight = measure_size(&home, one, size.many).await?;
    println!(
        "| {} that wait, each on disk ({} bytes of it calls and results) | {} bytes | {MAX_WAITING_BYTES} bytes |",
        weight.count, weight.results, weight.each
    );
    let started = measure_startup(&sibling_program("ringfence")?, &home, size.rounds.min(5))?;
    println!(
        "| a server is there with {} that wait; with none {} ms | {} ms | {} ms |",
        weight.count,
        milliseconds(started.empty),
        milliseconds(started.full),
        milliseconds(MAX_START_TIME)
    );
    if started.full > MAX_START_TIME {
        missed.push("start");
    }
    Ok(weight.each)
}

async fn measure_keeping(size: &DurableBenchSize, missed: &mut Vec<&'static str>) -> Result<()> {
    let roads = measure_call_costs(&sibling_program("ringfence-upstream")?, size.calls, size.rounds.min(7)).await?;
    let words = ["one by one", "64 at once"];
    for ((what, bare), kept) in words.into_iter().zip(roads.bare).zip(roads.kept) {
        let above = kept.saturating_sub(bare);
        println!(
            "| a call with journal and recorded result, {what}: {} µs; without {} µs | + {} µs | + {} µs |",
            kept.as_micros(),
            bare.as_micros(),
            above.as_micros(),
            MAX_KEEPING_TIME.as_micros()
        );
        if above > MAX_KEEPING_TIME {
            missed.push(what);
        }
    }
    Ok(())
}
