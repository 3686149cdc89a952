//! Every probe, on a sandbox of the built-in policy.

use std::path::Path;

use ringfence_policy::{Ceiling, Draft};
use ringfence_probe::{Outcome, run};
use ringfence_sandbox::Native;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_broken() {
    let policy = Draft::builtin().under(&Ceiling::own_word()).unwrap();
    let native = Native::new(&format!("ringfence-escape-{}", std::process::id())).unwrap();
    let exe = Path::new(env!("CARGO_BIN_EXE_ringfence-probe-attempt"));
    let started = std::time::Instant::now();
    let report = Box::pin(run(&native, &policy, exe, &mut |_| {})).await.unwrap();
    println!("{}{} ms", report.table(), started.elapsed().as_millis());
    let broken: Vec<_> = report
        .probes
        .iter()
        .filter(|one| one.outcome == Outcome::Broken)
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}
