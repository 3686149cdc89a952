//! The benchmark of discovery: recall beside plain BM25, time, and tokens, on labelled questions over real catalogs.
//! `--brief` reads the same data but times nothing.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::path::PathBuf;

use anyhow::{Result, ensure};
use ringfence_testkit::discovery::{cost, data::Folder, measure};
use ringfence_testkit::doors::{self, Program};

/// What ranking must win over plain BM25 in the same run.
const RECALL: f64 = 0.09;
const ALL: f64 = 0.11;
/// The most a task's context may be of the full schemas.
const SHARE: f64 = 0.02;

fn main() -> Result<()> {
    let brief = std::env::args().any(|one| one == "--brief");
    let place = std::env::var_os("RINGFENCE_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let folder = match Folder::find(&place) {
        Ok(folder) => folder,
        Err(missing) => {
            println!("discovery: not measured, {missing}");
            return Ok(());
        }
    };
    println!("| questions over | ranking | recall@10 | all@10 | tools in 10 slots | p50 ms | p95 ms |");
    println!("|---|---|---|---|---|---|---|");
    let mut wins = Vec::new();
    for set in folder.sets()? {
        let plain = measure::plain(&set);
        let ours = measure::ours(&set, brief)?;
        println!(
            "{}\n{}",
            plain.row(&set, "plain BM25, all fields", brief),
            ours.row(&set, "ringfence", brief)
        );
        println!(
            "| | gain | {:+.3} | {:+.3} | | | |",
            ours.recall - plain.recall,
            ours.all - plain.all
        );
        for (half, name) in [(0, "even"), (1, "odd")] {
            println!(
                "| | … {name} questions | {:+.3} | {:+.3} | | | |",
                ours.halves[half].0 - plain.halves[half].0,
                ours.halves[half].1 - plain.halves[half].1
            );
        }
        println!(
            "| | index of {} tools | {} ms to build | | | | |",
            set.tools(),
            ours.build.as_millis()
        );
        wins.push((set.name, ours.recall - plain.recall, ours.all - plain.all, ours.worst()));
    }
    // Those that clients show their model, and the output schemas that some show as well.
    let definitions = doors::cost(&Program::beside()?, 1)?;
    let costs = cost::of_tasks(&folder, definitions.input + definitions.output)?;
    println!("\n{costs}");
    for (name, recall, all, worst) in wins {
        ensure!(
            recall >= RECALL,
            "{name}: recall@10 is only {recall:+.3} over plain BM25"
        );
        ensure!(all >= ALL, "{name}: all@10 is only {all:+.3} over plain BM25");
        ensure!(
            brief || worst.as_micros() < 2_000,
            "{name}: p95 is {worst:?} a search, not under 2 ms"
        );
    }
    ensure!(
        costs.worst() <= SHARE,
        "a task's context is {:.2} % of the full schemas",
        costs.worst() * 100.0
    );
    Ok(())
}
