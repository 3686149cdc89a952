use clap::ValueEnum;

use super::{Arguments, Step, chosen};

#[test]
fn every_step_runs_in_order_unless_told_otherwise() {
    let all = Arguments {
        fast: false,
        only: Vec::new(),
    };
    assert_eq!(chosen(&all), Step::value_variants());
}

#[test]
fn fast_installs_nothing() {
    let fast = Arguments {
        fast: true,
        only: Vec::new(),
    };
    assert_eq!(chosen(&fast).first(), Some(&Step::Format));
}

#[test]
fn chosen_steps_keep_their_order() {
    let some = Arguments {
        fast: false,
        only: vec![Step::Docs, Step::Format],
    };
    assert_eq!(chosen(&some), [Step::Format, Step::Docs]);
}
