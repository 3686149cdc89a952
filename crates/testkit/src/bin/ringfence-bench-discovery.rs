//! The benchmark of discovery: recall beside plain BM25, time, and tokens, on labelled questions over real catalogs. `--brief` reads the
//! same data but times nothing.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::path::PathBuf;

use anyhow::{Result, ensure};
use ringfence_testkit::discovery::cost;
use ringfence_testkit::discovery::data::{DiscoveryFolder, DiscoverySet};
use ringfence_testkit::discovery::measure::{self, DiscoveryScore, RecallScore};
use ringfence_testkit::front_door_bench::{self, BenchProgram};

/// The gain in recall that ranking must have over plain BM25 in the same run.
const MIN_RECALL_GAIN: f64 = 0.09;
const MIN_ALL_GAIN: f64 = 0.11;
/// The largest share of the full schemas that a task's context may be.
const MAX_CONTEXT_SHARE: f64 = 0.02;

fn main() -> Result<()> {
    let brief = std::env::args().any(|one| one == "--brief");
    let place = std::env::var_os("RINGFENCE_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let folder = match DiscoveryFolder::find(&place) {
        Ok(folder) => folder,
        Err(missing) => {
            println!("discovery: not measured, {missing}");
            return Ok(());
        }
    };
    println!(
        "| questions over | ranking | recall@10, slots | all@10, slots | tools in 10 slots | recall@10, strict | all@10, strict \
         | p50 ms | p95 ms |\n|---|---|---|---|---|---|---|---|---|"
    );
    let mut wins = Vec::new();
    for set in folder.sets()? {
        let plain = measure::measure_plain(&set);
        let ours = measure::measure_ours(&set, brief)?;
        println!(
            "{}\n{}",
            plain.row(&set, "plain BM25, all fields", brief),
            ours.row(&set, "ringfence", brief)
        );
        let whole = measure::measure_ours_unsplit(&set)?;
        println!(
            "{}",
            whole.row(&set, "ringfence, the whole request as one intent", true)
        );
        print_details(&set, &plain, &ours);
        let (recall, all) = (ours.slots.mean - plain.slots.mean, ours.slots.all - plain.slots.all);
        wins.push((set.name, recall, all, ours.slow_time()));
    }
    // The definitions that clients show their model, and the output schemas that some show as well.
    let definitions = front_door_bench::tool_token_cost(&BenchProgram::find()?, 1)?;
    let costs = cost::measure_tasks(&folder, definitions.input + definitions.output)?;
    println!("\n{costs}");
    for (name, recall, all, worst) in wins {
        ensure!(
            recall >= MIN_RECALL_GAIN,
            "{name}: recall@10 is only {recall:+.3} over plain BM25"
        );
        ensure!(all >= MIN_ALL_GAIN, "{name}: all@10 is only {all:+.3} over plain BM25");
        ensure!(
            brief || worst.as_micros() < 2_000,
            "{name}: p95 is {worst:?} a search, not under 2 ms"
        );
    }
    ensure!(
        costs.worst() <= MAX_CONTEXT_SHARE,
        "a task's context is {:.2} % of the full schemas",
        costs.worst() * 100.0
    );
    Ok(())
}

/// Prints the gain over plain BM25, recall by language, and the time to build the index.
fn print_details(set: &DiscoverySet, plain: &DiscoveryScore, ours: &DiscoveryScore) {
    let gain = |slots: (RecallScore, RecallScore), strict: Option<(RecallScore, RecallScore)>| {
        let of = |(ours, plain): (RecallScore, RecallScore)| {
            format!("{:+.3} | {:+.3}", ours.mean - plain.mean, ours.all - plain.all)
        };
        format!(
            "{} | | {} | | |",
            of(slots),
            strict.map_or_else(|| " | ".to_owned(), of)
        )
    };
    let strict = (ours.strict, plain.strict);
    println!("| | gain | {}", gain((ours.slots, plain.slots), Some(strict)));
    for (half, name) in [(0, "even"), (1, "odd")] {
        println!(
            "| | … {name} questions | {}",
            gain((ours.halves[half], plain.halves[half]), None)
        );
    }
    let [slots, strict] = ours.languages;
    println!(
        "| | described in Chinese, labels | {:.3} | | | {:.3} | | | |\n| | in other languages, labels | {:.3} | | | {:.3} | | | |",
        slots.chinese.part(),
        strict.chinese.part(),
        slots.others.part(),
        strict.others.part()
    );
    println!(
        "| | index of {} tools | {} ms to build | | | | | | |",
        set.tools(),
        ours.build.as_millis()
    );
}
