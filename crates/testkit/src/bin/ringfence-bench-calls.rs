//! The benchmark of tool calls from confined programs, beside bare clients and peers, all in one run. `--brief` makes each call once,
//! asserts no time, and installs nothing. `--sequential` makes only the sequential calls, and prints the processor time of each client:
//! that is meaningful on a busy machine too.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ringfence_sandbox::JobLanguage;
use ringfence_testkit::calls::{
    BareClient, CallPath, DirectClient, PAGING_CALLS, calls_program, measure_peers, paging_program, workflow_program,
};
use ringfence_testkit::timing::{median_of, milliseconds};
use serde_json::{Map, Value, json};

/// The most time that a program's calls may take above a bare client's.
const MAX_OVERHEAD: Duration = Duration::from_millis(120);
/// The share of time that one program must save against the same calls made one by one.
const MIN_SAVING: f64 = 0.8;
/// The most bytes that a model may read of the paging program and its result.
const MAX_TEXT_BYTES: usize = 30 * 1024;

/// Calls of one program. None may be lost, in a brief run either.
const CALLS: usize = 1_000;

/// How much a run measures.
struct CallBenchSize {
    rounds: usize,
    /// The time of a model's answer, simulated by sleep.
    model: Duration,
    brief: bool,
    sequential: bool,
}

fn main() -> Result<()> {
    let [brief, sequential] = ["--brief", "--sequential"].map(|flag| std::env::args().any(|one| one == flag));
    let size = CallBenchSize {
        rounds: if brief { 1 } else { 9 },
        model: if brief {
            Duration::from_millis(10)
        } else {
            Duration::from_secs(1)
        },
        brief,
        sequential,
    };
    // One thread, as the `ringfence` program itself has.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(&size))
}

async fn measure(size: &CallBenchSize) -> Result<()> {
    let upstream = upstream()?;
    let bare = BareClient::connect(&upstream).await?;
    let direct = DirectClient::connect(&upstream).await?;
    let road = CallPath::open(&upstream).await?;
    println!("| {CALLS} calls of an echo server over stdio | median ms | above the bare client |");
    println!("|---|---|---|");
    let above = measure_sequential(size, &bare, &direct, &road).await?;
    if size.sequential {
        road.shut_down().await;
        return Ok(());
    }
    let (alone, together) = measure_concurrent(size, &road).await?;
    let python = measure_python(size, &road).await?;
    println!("| the same, from Python (no goal) | {} | |", milliseconds(python));
    let less = measure_workflow(size, &bare, &road).await?;
    let text = measure_paging(&road).await?;
    road.shut_down().await;
    if size.brief {
        println!("\npeers: not in a brief run");
    } else {
        println!("\n{}", measure_peers(&upstream, CALLS)?);
    }
    ensure!(
        text < MAX_TEXT_BYTES,
        "a model would read {text} bytes of the paging program"
    );
    if size.brief {
        return Ok(());
    }
    ensure!(
        together < alone,
        "calls at once take {together:?}, one by one {alone:?}"
    );
    ensure!(
        less >= MIN_SAVING,
        "one program takes only {:.0} % less than its calls one by one",
        less * 100.0
    );
    ensure!(
        above <= MAX_OVERHEAD,
        "calls of a program take {above:?} above the bare client"
    );
    Ok(())
}

/// The echo server beside this program.
fn upstream() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let upstream = here.with_file_name("ringfence-upstream");
    ensure!(
        upstream.is_file(),
        "{} is missing: `cargo xtask bench calls` builds it",
        upstream.display()
    );
    Ok(upstream)
}

/// Measures the clients in turns, so that all see the same machine; returns how much the program takes above the bare client.
async fn measure_sequential(
    size: &CallBenchSize,
    bare: &BareClient,
    direct: &DirectClient,
    road: &CallPath,
) -> Result<Duration> {
    let source = calls_program(JobLanguage::TypeScript, CALLS, false);
    let (mut alone, mut clients, mut programs) = (Vec::new(), Vec::new(), Vec::new());
    let mut busy = [Duration::ZERO; 3];
    for _ in 0..=size.rounds {
        let begun = thread_cpu_time()?;
        alone.push(bare.time_calls(CALLS).await?);
        let bare_done = thread_cpu_time()?;
        clients.push(direct.time_calls(CALLS).await?);
        let direct_done = thread_cpu_time()?;
        programs.push(run_counted(road, JobLanguage::TypeScript, &source, CALLS).await?);
        let done = thread_cpu_time()?;
        busy = [
            bare_done.saturating_sub(begun),
            direct_done.saturating_sub(bare_done),
            done.saturating_sub(direct_done),
        ];
    }
    let least = |times: &[Duration]| times.iter().min().copied().unwrap_or_default();
    if size.sequential {
        println!(
            "least of each: {:?} {:?} {:?}",
            least(&alone),
            least(&clients),
            least(&programs)
        );
        println!("on a processor, last round: {busy:?}");
    }
    // The first round is warm-up.
    let [alone, client, program] = [alone, clients, programs].map(|mut times| {
        times.remove(0);
        median_of(times)
    });
    println!("| bare rmcp client, one by one | {} | |", milliseconds(alone));
    println!(
        "| our upstream client, no policy, no journal | {} | {} |",
        milliseconds(client),
        signed(client, alone)
    );
    println!(
        "| a TypeScript program in its fence, policy and journal, start and end included | {} | **{}** (at most {}) |",
        milliseconds(program),
        signed(program, alone),
        milliseconds(MAX_OVERHEAD)
    );
    Ok(program.saturating_sub(alone))
}

/// The processor time of this thread.
fn thread_cpu_time() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = text.split_whitespace().next().context("no times of this thread")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}

/// Measures calls one by one and concurrent calls of a TypeScript program.
async fn measure_concurrent(size: &CallBenchSize, road: &CallPath) -> Result<(Duration, Duration)> {
    let one_by_one = calls_program(JobLanguage::TypeScript, CALLS, false);
    let together = calls_program(JobLanguage::TypeScript, CALLS, true);
    let (mut alone, mut all) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        alone.push(run_counted(road, JobLanguage::TypeScript, &one_by_one, CALLS).await?);
        all.push(run_counted(road, JobLanguage::TypeScript, &together, CALLS).await?);
    }
    let (alone, all) = (median_of(alone), median_of(all));
    println!(
        "| the same in one `Promise.all`, none lost | {} | one by one {} ({:.1}×) |",
        milliseconds(all),
        milliseconds(alone),
        alone.as_secs_f64() / all.as_secs_f64()
    );
    Ok((alone, all))
}

async fn measure_python(size: &CallBenchSize, road: &CallPath) -> Result<Duration> {
    let source = calls_program(JobLanguage::Python, CALLS, false);
    let mut times = Vec::new();
    for _ in 0..size.rounds.min(5) {
        times.push(run_counted(road, JobLanguage::Python, &source, CALLS).await?);
    }
    Ok(median_of(times))
}

/// Runs a program whose value is the number of right answers.
async fn run_counted(road: &CallPath, language: JobLanguage, source: &str, count: usize) -> Result<Duration> {
    let ran = road.run(language, source, count).await?;
    ensure!(ran.value == json!(count), "{} of {count} answers are right", ran.value);
    Ok(ran.time)
}

/// Measures ten tools as one program, and one by one with a model's answer before each; returns the share of time saved.
async fn measure_workflow(size: &CallBenchSize, bare: &BareClient, road: &CallPath) -> Result<f64> {
    let started = Instant::now();
    tokio::time::sleep(size.model).await;
    let ran = road.run(JobLanguage::TypeScript, workflow_program(), 10).await?;
    let program = started.elapsed();
    ensure!(
        ran.value["draft"] == json!(500),
        "the workflow went wrong: {}",
        ran.value
    );
    let started = Instant::now();
    for (tool, arguments) in steps() {
        tokio::time::sleep(size.model).await;
        bare.call(tool, arguments).await?;
    }
    let one_by_one = started.elapsed();
    let less = 1.0 - program.as_secs_f64() / one_by_one.as_secs_f64();
    println!(
        "| ten tools as one program, a model's answer taken as {} ms | {} | ten direct calls {}: **{:.1} % less** (at least {:.0} %) |",
        size.model.as_millis(),
        milliseconds(program),
        milliseconds(one_by_one),
        less * 100.0,
        MIN_SAVING * 100.0
    );
    Ok(less)
}

/// The ten calls of the workflow.
fn steps() -> impl Iterator<Item = (&'static str, Map<String, Value>)> {
    let half = [
        ("echo", json!({ "text": "quarterly report" })),
        ("structured", json!({ "title": "quarterly report" })),
        ("slow", json!({ "ms": 1 })),
        ("big", json!({ "bytes": 500 })),
        ("list_records", json!({ "limit": 20 })),
    ];
    [half.clone(), half]
        .into_iter()
        .flatten()
        .map(|(tool, arguments)| (tool, arguments.as_object().cloned().unwrap_or_default()))
}

/// Measures paging from 10,000 records to 20 rows; returns the bytes that a model reads: program and full result.
async fn measure_paging(road: &CallPath) -> Result<usize> {
    let ran = road
        .run(JobLanguage::TypeScript, paging_program(), PAGING_CALLS)
        .await?;
    ensure!(
        ran.value["seen"] == json!(10_000),
        "records are missing: {}",
        ran.value["seen"]
    );
    let rows = ran.value["rows"].as_array().context("no rows")?.len();
    ensure!(rows == 20, "{rows} rows");
    let text = paging_program().len() + serde_json::to_string(&ran.execution)?.len();
    let inside: u64 = ran.execution.calls.iter().map(|call| call.bytes_out).sum();
    println!(
        "| 10,000 records in {PAGING_CALLS} pages, filtered and grouped to 20 rows | {} | {text} bytes of program and result (under {MAX_TEXT_BYTES}), {inside} bytes stayed inside |",
        milliseconds(ran.time)
    );
    Ok(text)
}

fn signed(time: Duration, base: Duration) -> String {
    format!("{:+.3}", (time.as_secs_f64() - base.as_secs_f64()) * 1000.0)
}
