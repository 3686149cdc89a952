//! The benchmark of the front doors: the tokens of our tools, how fast the program answers over standard input and output and over HTTP,
//! how soon the server is ready. `--brief` runs each a few times, for correctness only, and installs nothing.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::time::Duration;

use anyhow::{Result, ensure};
use ringfence_testkit::doors::{Cost, Program, cost, flood, one_by_one, peers, start};
use ringfence_testkit::timing::milliseconds;

/// The most tokens of names, descriptions and input schemas, and of output schemas.
const TOKENS: usize = 1_500;
/// The most time of a median sequential call, and of a hundred of them.
const ONE: Duration = Duration::from_millis(3);
const HUNDRED: Duration = Duration::from_millis(300);
/// The least rate in calls per second, and the most time of 99 % of the calls, with all clients at once.
const RATE: f64 = 300.0;
const SLOWEST: Duration = Duration::from_millis(250);
/// The most time until the first answer, and the most memory then.
const START: Duration = Duration::from_millis(150);
const MEMORY: u64 = 40_000_000;
const CLIENTS: usize = 32;
const SERVERS: usize = 50;

fn main() -> Result<()> {
    let brief = std::env::args().any(|one| one == "--brief");
    let program = Program::beside()?;
    let mut missed = Vec::new();
    println!("| | measured | at most |\n|---|---|---|");
    tokens(&program)?;
    stdio(&program, brief, &mut missed)?;
    http(&program, brief, &mut missed)?;
    starts(&program, brief, &mut missed)?;
    if brief {
        println!("\npeers: not in a brief run");
        return Ok(());
    }
    println!("\n{}", peers::measure()?);
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

fn tokens(program: &Program) -> Result<()> {
    let costs = [1, 100, 10_000].map(|tools| cost(program, tools));
    let [one, hundred, many] = costs;
    let (one, hundred, many): (Cost, Cost, Cost) = (one?, hundred?, many?);
    ensure!(
        one == hundred && one == many,
        "our tools cost {one:?}, {hundred:?}, {many:?}"
    );
    println!(
        "| tokens of our {} tools, the same from 1 to 10,000 upstream tools: input, output | {}, {} | {TOKENS}, {TOKENS} |",
        one.tools, one.input, one.output
    );
    // The tokens of tools do not depend on the machine.
    ensure!(
        one.tools >= 5 && one.input <= TOKENS && one.output <= TOKENS,
        "our tools are too few, or cost too much: {one:?}"
    );
    Ok(())
}

fn stdio(program: &Program, brief: bool, missed: &mut Vec<&'static str>) -> Result<()> {
    let (middle, hundred) = one_by_one(program, if brief { 1 } else { 9 })?;
    println!(
        "| `1+1` over stdio, middle | {} ms | {} ms |",
        milliseconds(middle),
        ONE.as_millis()
    );
    println!(
        "| 100 in a row | {} ms | {} ms |",
        milliseconds(hundred),
        HUNDRED.as_millis()
    );
    if middle > ONE || hundred > HUNDRED {
        missed.push("stdio");
    }
    Ok(())
}

fn http(program: &Program, brief: bool, missed: &mut Vec<&'static str>) -> Result<()> {
    let (calls, within) = if brief {
        (3, Duration::ZERO)
    } else {
        (usize::MAX, Duration::from_secs(10))
    };
    let flood = flood(program, CLIENTS, calls, within)?;
    println!(
        "| the same over HTTP, {CLIENTS} clients at once | {:.0} calls/s, p50 {} ms, p99 {} ms, {} of {} failed | {RATE:.0} calls/s or more, p99 {} ms, none |",
        flood.rate,
        milliseconds(flood.middle),
        milliseconds(flood.slowest),
        flood.failed.len(),
        flood.calls,
        SLOWEST.as_millis()
    );
    ensure!(flood.failed.is_empty(), "calls failed: {}", flood.failed.join("; "));
    if flood.rate < RATE || flood.slowest > SLOWEST {
        missed.push("http");
    }
    Ok(())
}

fn starts(program: &Program, brief: bool, missed: &mut Vec<&'static str>) -> Result<()> {
    let (time, memory) = start(program, SERVERS, if brief { 1 } else { 11 })?;
    println!(
        "| start to first answer, {SERVERS} servers configured and none needed | {} ms, {} MB | {} ms, {} MB |",
        milliseconds(time),
        memory.div_ceil(1_000_000),
        START.as_millis(),
        MEMORY / 1_000_000
    );
    if time > START || memory > MEMORY {
        missed.push("start");
    }
    Ok(())
}
