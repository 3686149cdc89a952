use super::TestTally;

fn tally(text: &str) -> TestTally {
    TestTally::from_output(&text.lines().map(str::to_owned).collect::<Vec<_>>())
}

fn ran(passed: u64, skipped: u64) -> TestTally {
    TestTally {
        passed,
        skipped,
        retried: 0,
    }
}

#[test]
fn results_of_several_programs_add_up() {
    let text = "test result: ok. 12 passed; 0 failed; 0 ignored\nnoise 5 passed\n\
                test result: ok. 3 passed; 0 failed; 1 ignored";
    assert_eq!(tally(text), ran(15, 0));
}

#[test]
fn nextests_summary_is_read() {
    let text =
        "    test result: ok. 1 passed; 0 failed\n     Summary [   0.047s] 48 tests run: 48 passed (1 slow), 2 skipped";
    assert_eq!(tally(text), ran(48, 0));
    assert_eq!(
        tally("     Summary [   1.2s] 1 test run: 1 passed, 0 skipped").passed,
        1
    );
}

#[test]
fn a_test_that_skipped_itself_did_not_run() {
    let seen = tally("    SKIPPED: no controllers\ntest result: ok. 3 passed; 0 failed");
    assert_eq!(seen, ran(3, 1));
    assert_eq!(seen.to_string(), "2 tests ran, 1 not possible on this machine");
}

#[test]
fn a_second_try_is_told() {
    for (counts, again) in [("1 flaky", 1), ("2 slow, 12 flaky", 12), ("2 slow", 0)] {
        let seen = tally(&format!(
            "     Summary [   1.2s] 50 tests run: 50 passed ({counts}), 0 skipped"
        ));
        assert_eq!((seen.passed, seen.retried), (50, again), "{counts}");
    }
    let seen = tally("     Summary [   1.2s] 5 tests run: 5 passed (1 flaky), 0 skipped");
    assert_eq!(
        seen.to_string(),
        "5 tests ran, 1 only at a second try: they want mending"
    );
}
