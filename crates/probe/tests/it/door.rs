//! The egress probes without a fence: with a naive proxy, every one succeeds.

use std::path::Path;

use ringfence_probe::{AttackSetup, ProbeOutcome, catalogue, run_egress_probes};

use crate::bare::EXE;

#[test]
fn every_probe_at_the_door_can_succeed_without_the_fence() {
    let findings = run_egress_probes(Path::new(EXE), AttackSetup::Open).unwrap();
    let ids: Vec<u16> = findings.iter().map(|one| one.id).collect();
    let wanted: Vec<u16> = catalogue()
        .filter(ringfence_probe::Probe::is_egress)
        .map(|probe| probe.id)
        .collect();
    assert_eq!(ids, wanted);
    let vain: Vec<_> = findings
        .iter()
        .filter(|one| one.outcome != ProbeOutcome::Broken)
        .collect();
    assert!(vain.is_empty(), "controls that did not succeed: {vain:#?}");
    let unheard: Vec<_> = findings.iter().filter(|one| one.detail.contains("heard of")).collect();
    assert!(unheard.is_empty(), "controls that were not made: {unheard:#?}");
    println!("{} probes at the door succeed without the fence", findings.len());
}
