//! The benchmark of waiting for an approval: the time to release a sandbox and to resume, the size on disk, and the cost of recording a
//! call. `--brief` does little of each, asserts no time, and installs nothing. `--keeping` measures only the cost of recording.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use ringfence_testkit::durable::{CALLS, Waiter, others, release, roads, start, weigh};
use ringfence_testkit::timing::milliseconds;

/// The most time from the decision to release a sandbox until it is free and that is recorded.
const SUSPEND: Duration = Duration::from_millis(2);
/// The most time from the answer to the end, beyond a fresh run.
const RESUME: Duration = Duration::from_millis(10);
/// The most bytes on disk of a waiting execution, beyond its results.
const WEIGHT: u64 = 64 * 1024;
/// The most time that a server with 10,000 of them takes to start.
const START: Duration = Duration::from_secs(1);
/// The most time that journal and recording may add to a call.
const KEPT: Duration = Duration::from_micros(60);

/// How much a run measures.
struct Size {
    rounds: usize,
    calls: u32,
    many: usize,
}

fn main() -> Result<()> {
    let [brief, keeping_only] = ["--brief", "--keeping"].map(|flag| std::env::args().any(|one| one == flag));
    let size = if brief {
        Size {
            rounds: 1,
            calls: 128,
            many: 200,
        }
    } else {
        Size {
            rounds: 15,
            calls: 6_400,
            many: 10_000,
        }
    };
    // One thread, as the `ringfence` program itself has.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if keeping_only {
        let mut missed = Vec::new();
        return runtime.block_on(keeping(&size, &mut missed));
    }
    let (each, missed) = runtime.block_on(measure(&size))?;
    // The size on disk does not depend on the machine.
    ensure!(each <= WEIGHT, "an execution that waits takes {each} bytes on disk");
    if brief {
        println!("\npeers: not in a brief run");
        return Ok(());
    }
    println!("\n{}", others()?);
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

/// Returns the bytes on disk of each waiting execution, and the goals that were missed.
async fn measure(size: &Size) -> Result<(u64, Vec<&'static str>)> {
    let mut missed = Vec::new();
    println!("| | measured | at most |\n|---|---|---|");
    suspending(size, &mut missed).await?;
    let each = waiting(size, &mut missed).await?;
    keeping(size, &mut missed).await?;
    Ok((each, missed))
}

/// The path of a program beside this one.
fn beside(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(name);
    ensure!(
        program.is_file(),
        "{} is missing: `cargo xtask bench durable` builds it",
        program.display()
    );
    Ok(program)
}

async fn suspending(size: &Size, missed: &mut Vec<&'static str>) -> Result<()> {
    let released = release(size.rounds).await?;
    println!(
        "| suspend a program that waits after {CALLS} calls: sandbox free {} ms, commit {} ms | {} ms | {} ms |",
        milliseconds(released.sandbox),
        milliseconds(released.commit),
        milliseconds(released.both),
        milliseconds(SUSPEND)
    );
    if released.both > SUSPEND {
        missed.push("suspend");
    }
    Ok(())
}

async fn waiting(size: &Size, missed: &mut Vec<&'static str>) -> Result<u64> {
    let folder = tempfile::tempdir()?;
    let waiter = Waiter::open(folder.path(), &beside("ringfence-upstream")?).await?;
    let resumed = waiter.resume(size.rounds).await?;
    let beyond = resumed.resumed.saturating_sub(resumed.fresh);
    println!(
        "| resume it, answer to end: {} ms; fresh run of the same {} ms, of its last call alone {} ms | {} ms beyond | {} ms |",
        milliseconds(resumed.resumed),
        milliseconds(resumed.fresh),
        milliseconds(resumed.least),
        milliseconds(beyond),
        milliseconds(RESUME)
    );
    if beyond > RESUME {
        missed.push("resume");
    }
    let one = waiter.waiting(1).await?;
    let home = waiter.leave().await?;
    let weight = weigh(&home, one, size.many).await?;
    println!(
        "| {} that wait, each on disk ({} bytes of it calls and results) | {} bytes | {WEIGHT} bytes |",
        weight.count, weight.results, weight.each
    );
    let started = start(&beside("ringfence")?, &home, size.rounds.min(5))?;
    println!(
        "| a server is there with {} that wait; with none {} ms | {} ms | {} ms |",
        weight.count,
        milliseconds(started.empty),
        milliseconds(started.full),
        milliseconds(START)
    );
    if started.full > START {
        missed.push("start");
    }
    Ok(weight.each)
}

async fn keeping(size: &Size, missed: &mut Vec<&'static str>) -> Result<()> {
    let roads = roads(&beside("ringfence-upstream")?, size.calls, size.rounds.min(7)).await?;
    let words = ["one by one", "64 at once"];
    for ((what, bare), kept) in words.into_iter().zip(roads.bare).zip(roads.kept) {
        let above = kept.saturating_sub(bare);
        println!(
            "| a call with journal and recorded result, {what}: {} µs; without {} µs | + {} µs | + {} µs |",
            kept.as_micros(),
            bare.as_micros(),
            above.as_micros(),
            KEPT.as_micros()
        );
        if above > KEPT {
            missed.push(what);
        }
    }
    Ok(())
}
