//! The probes of the network boundary and of records, run with the real program.

use std::path::Path;

use ringfence_probe::{AttackSetup, ProbeFinding, ProbeOutcome, run_egress_probes, run_records_probes};

use crate::setting::program;

#[test]
fn nothing_at_the_door_is_broken() {
    let findings = run_egress_probes(Path::new(&program()), AttackSetup::Fenced).unwrap();
    check_held(&findings);
    assert_eq!(findings.len(), 43);
}

#[test]
fn nothing_of_records_is_broken() {
    let findings = run_records_probes(Path::new(&program())).unwrap();
    check_held(&findings);
    assert_eq!(findings.len(), 3);
}

#[track_caller]
fn check_held(findings: &[ProbeFinding]) {
    for one in findings {
        eprintln!(
            "{:>3}  {:<8} {:<50} {}",
            one.id,
            one.outcome.name(),
            one.name,
            one.detail
        );
    }
    let broken: Vec<_> = findings
        .iter()
        .filter(|one| one.outcome != ProbeOutcome::Held)
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}
