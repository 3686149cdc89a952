use clap::ValueEnum;

use super::{SuiteArguments, SuiteStep, chosen_steps};

#[test]
fn every_step_runs_in_order_unless_told_otherwise() {
    let all = SuiteArguments {
        fast: false,
        only: Vec::new(),
    };
    assert_eq!(chosen_steps(&all), SuiteStep::value_variants());
}

#[test]
fn fast_installs_nothing() {
    let fast = SuiteArguments {
        fast: true,
        only: Vec::new(),
    };
    assert_eq!(chosen_steps(&fast).first(), Some(&SuiteStep::Format));
}

#[test]
fn chosen_steps_keep_their_order() {
    let some = SuiteArguments {
        fast: false,
        only: vec![SuiteStep::Docs, SuiteStep::Format],
    };
    assert_eq!(chosen_steps(&some), [SuiteStep::Format, SuiteStep::Docs]);
}
