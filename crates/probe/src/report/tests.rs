use super::{ProbeFinding, ProbeOutcome, ProbeReport};
use crate::catalogue::ProbeClass;

fn report() -> ProbeReport {
    let finding = |id, class, outcome| ProbeFinding {
        id,
        class,
        name: "a try",
        outcome,
        by: "seccomp".to_owned(),
        detail: "EPERM".to_owned(),
    };
    ProbeReport {
        probes: vec![
            finding(1, ProbeClass::Files, ProbeOutcome::Held),
            finding(52, ProbeClass::Kernel, ProbeOutcome::NotApplicable),
        ],
    }
}

#[test]
fn a_report_is_one_object_with_fixed_keys() {
    let expected = serde_json::json!({"probes": [
        {"id": 1, "class": "A", "name": "a try", "outcome": "held", "by": "seccomp", "detail": "EPERM"},
        {"id": 52, "class": "F", "name": "a try", "outcome": "not_applicable", "by": "seccomp", "detail": "EPERM"},
    ]});
    assert_eq!(serde_json::to_value(report()).unwrap(), expected);
}

#[test]
fn the_table_groups_by_class_and_counts() {
    let table = report().table();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "A  files outside the root");
    assert_eq!(lines[2], "F  kernel interfaces");
    assert_eq!(
        lines[4],
        "2 probes: 1 held, 0 broken, 0 unenforceable, 1 not applicable"
    );
}
