//! The benchmark of the front doors: the tokens of our tools, how fast the program answers over standard input and output and over HTTP,
//! how soon the server is ready. `--brief` runs each a few times, for correctness only, and installs nothing.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::time::Duration;

use anyhow::{Result, ensure};
use ringfence_testkit::front_door_bench::{
    BenchProgram, ToolTokenCost, concurrent_calls, measure_startup, peers, sequential_calls, tool_token_cost,
};
use ringfence_testkit::timing::milliseconds;

/// The most tokens of names, descriptions and input schemas, and of output schemas.
const MAX_TOKENS: usize = 1_500;
/// The most time of a median sequential call, and of a hundred of them.
const MAX_CALL_TIME: Duration = Duration::from_millis(3);
const MAX_HUNDRED_TIME: Duration = Duration::from_millis(300);
/// The least rate in calls per second, and the most time of 99 % of the calls, with all clients at once.
const MIN_CALL_RATE: f64 = 300.0;
const MAX_SLOW_CALL_TIME: Duration = Duration::from_millis(250);
/// The most time until the first answer, and the most memory then.
const MAX_START_TIME: Duration = Duration::from_millis(150);
const MAX_MEMORY_BYTES: u64 = 40_000_000;
const CLIENTS: usize = 32;
const SERVERS: usize = 50;

fn main() -> Result<()> {
    let brief = std::env::args().any(|one| one == "--brief");
    let program = BenchProgram::find()?;
    let mut missed = Vec::new();
    println!("| | measured | at most |\n|---|---|---|");
    measure_tokens(&program)?;
    measure_stdio(&program, brief, &mut missed)?;
    measure_http(&program, brief, &mut missed)?;
    measure_starts(&program, brief, &mut missed)?;
    if brief {
        println!("\npeers: not in a brief run");
        return Ok(());
    }
    println!("\n{}", peers::measure()?);
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

fn measure_tokens(program: &BenchProgram) -> Result<()> {
    let costs = [1, 100, 10_000].map(|tools| tool_token_cost(program, tools));
    let [one, hundred, many] = costs;
    let (one, hundred, many): (ToolTokenCost, ToolTokenCost, ToolTokenCost) = (one?, hundred?, many?);
    ensure!(
        one == hundred && one == many,
        "our tools cost {one:?}, {hundred:?}, {many:?}"
    );
    println!(
        "| tokens of our {} tools, the same from 1 to 10,000 upstream tools: input, output | {}, {} | {MAX_TOKENS}, {MAX_TOKENS} |",
        one.tools, one.input, one.output
    );
    // The tokens of tools do not depend on the machine.
    ensure!(
        one.tools >= 5 && one.input <= MAX_TOKENS && one.output <= MAX_TOKENS,
        "our tools are too few, or cost too much: {one:?}"
    );
    Ok(())
}

fn measure_stdio(program: &BenchProgram, brief: bool, missed: &mut Vec<&'static str>) -> Result<()> {
    let (middle, hundred) = sequential_calls(program, if brief { 1 } else { 9 })?;
    println!(
        "| `1+1` over stdio, middle | {} ms | {} ms |",
        milliseconds(middle),
        MAX_CALL_TIME.as_millis()
    );
    println!(
        "| 100 in a row | {} ms | {} ms |",
        milliseconds(hundred),
        MAX_HUNDRED_TIME.as_millis()
    );
    if middle > MAX_CALL_TIME || hundred > MAX_HUNDRED_TIME {
        missed.push("stdio");
    }
    Ok(())
}

fn measure_http(program: &BenchProgram, brief: bool, missed: &mut Vec<&'static str>) -> Result<()> {
    let (calls, within) = if brief {
        (3, Duration::ZERO)
    } else {
        (usize::MAX, Duration::from_secs(10))
    };
    let flood = concurrent_calls(program, CLIENTS, calls, within)?;
    println!(
        "| the same over HTTP, {CLIENTS} clients at once | {:.0} calls/s, p50 {} ms, p99 {} ms, {} of {} failed | {MIN_CALL_RATE:.0} calls/s or more, p99 {} ms, none |",
        flood.rate,
        milliseconds(flood.middle),
        milliseconds(flood.slowest),
        flood.failed.len(),
        flood.calls,
        MAX_SLOW_CALL_TIME.as_millis()
    );
    ensure!(flood.failed.is_empty(), "calls failed: {}", flood.failed.join("; "));
    if flood.rate < MIN_CALL_RATE || flood.slowest > MAX_SLOW_CALL_TIME {
        missed.push("http");
    }
    Ok(())
}

fn measure_starts(program: &BenchProgram, brief: bool, missed: &mut Vec<&'static str>) -> Result<()> {
    let (time, memory) = measure_startup(program, SERVERS, if brief { 1 } else { 11 })?;
    println!(
        "| start to first answer, {SERVERS} servers configured and none needed | {} ms, {} MB | {} ms, {} MB |",
        milliseconds(time),
        memory.div_ceil(1_000_000),
        MAX_START_TIME.as_millis(),
        MAX_MEMORY_BYTES / 1_000_000
    );
    if time > MAX_START_TIME || memory > MAX_MEMORY_BYTES {
        missed.push("start");
    }
    Ok(())
}
