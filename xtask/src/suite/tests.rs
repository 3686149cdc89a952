use clap::ValueEnum;

use super::{Arguments, Step, chosen};

#[test]
fn every_step_runs_in_order_unless_told_otherwise() {
    let all = Arguments {
        fast: false,
        only: Vec::new(),
    };
    assert_eq!(chosen(&all, true), Step::value_variants());
    let without_bench = chosen(&all, false);
    assert_eq!(without_bench.last(), Some(&Step::Examples));
}

#[test]
fn fast_installs_nothing() {
    let fast = Arguments {
        fast: true,
        only: Vec::new(),
    };
    assert_eq!(chosen(&fast, false).first(), Some(&Step::Format));
}

#[test]
fn chosen_steps_keep_their_order() {
    let some = Arguments {
        fast: false,
        only: vec![Step::Docs, Step::Format],
    };
    assert_eq!(chosen(&some, true), [Step::Format, Step::Docs]);
}
