//! Every probe, on a sandbox of the built-in policy.

use std::path::Path;

use ringfence_policy::{Ceiling, Draft};
use ringfence_probe::{ProbeFinding, ProbeOutcome, catalogue, run_sandbox_probes};
use ringfence_sandbox::{Backend, BackendKind};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_broken() {
    let policy = Draft::builtin().under(&Ceiling::unlimited()).unwrap();
    let backend = Backend::new(
        BackendKind::default(),
        &format!("ringfence-escape-{}", std::process::id()),
    )
    .unwrap();
    let exe = Path::new(env!("CARGO_BIN_EXE_ringfence-probe-attempt"));
    let started = std::time::Instant::now();
    let report = Box::pin(run_sandbox_probes(&backend, &policy, exe, &mut |_| {}))
        .await
        .unwrap();
    println!("{}{} ms", report.table(), started.elapsed().as_millis());
    let broken: Vec<_> = report
        .probes
        .iter()
        .filter(|one| one.outcome == ProbeOutcome::Broken)
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let ids: Vec<u16> = report.probes.iter().map(|one| one.id).collect();
    let wanted = catalogue().filter(ringfence_probe::Probe::is_sandbox);
    let mut wanted: Vec<u16> = wanted.map(|probe| probe.id).collect();
    wanted.sort_unstable();
    assert_eq!(ids, wanted);
    let soft = |one: &&ProbeFinding| one.outcome == ProbeOutcome::Unenforceable;
    let unexcused: Vec<_> = report
        .probes
        .iter()
        .filter(soft)
        .filter(|one| !is_excused(one))
        .collect();
    assert!(unexcused.is_empty(), "{unexcused:#?}");
    let absent: Vec<u16> = report
        .probes
        .iter()
        .filter(|one| one.outcome == ProbeOutcome::NotApplicable)
        .map(|one| one.id)
        .collect();
    assert_eq!(absent, [21, 22, 70, 159]);
}

/// What a machine without control groups for this user cannot enforce: parts of a processor.
fn is_excused(finding: &ProbeFinding) -> bool {
    finding.id == 83 && finding.by != "cgroup"
}
