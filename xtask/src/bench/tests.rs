use std::collections::BTreeSet;

use clap::ValueEnum;

use super::BenchPart;
use crate::program;

#[test]
fn every_benchmark_is_a_part() {
    let folder = program::workspace().join("crates/testkit/src/bin");
    let there: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.starts_with("ringfence-bench"))
        .collect();
    let run: BTreeSet<String> = BenchPart::value_variants()
        .iter()
        .map(|part| part.program().to_owned())
        .collect();
    assert_eq!(there, run);
}
