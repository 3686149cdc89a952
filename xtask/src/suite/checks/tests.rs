use std::process::Command;

use super::super::test_tally::TestTally;
use super::{checked_tally, is_reported, run_command, run_with_retry};
use crate::program;

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

#[test]
fn a_command_that_fails_fails_the_step() {
    assert!(run_command(&mut shell("exit 0")).is_ok());
    assert_eq!(
        run_command(&mut shell("exit 3")).unwrap_err().to_string(),
        "`sh -c exit 3` ended with exit status: 3"
    );
}

fn counted(script: &str) -> anyhow::Result<TestTally> {
    checked_tally(
        &program::run_relayed(&mut shell(script), |_| true, std::io::sink(), std::io::sink())?,
        "sh",
    )
}

#[test]
fn tests_are_counted_and_skips_judged() {
    let result = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'";
    assert_eq!(counted(result).unwrap().passed, 3);
    assert_eq!(
        counted(&format!("{result}; exit 101")).unwrap_err().to_string(),
        "`sh` ended with exit status: 101"
    );
    let error = counted(&format!("{result}; echo 'SKIPPED: felt like it'"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("felt like it"), "{error}");
}

#[test]
fn the_frame_around_a_test_is_no_news() {
    for (line, news) in [
        ("    running 1 test", false),
        ("    test a::b ... ok", false),
        ("    test a::b ... FAILED", true),
        ("  stdout ───", false),
        ("    SKIPPED: needs root", true),
        ("    thread 'a::b' panicked at src/a.rs:1:1:", true),
        ("", false),
        ("test result: ok. 12 passed; 0 failed", true),
    ] {
        assert_eq!(is_reported(line), news, "{line}");
    }
}

/// A test program with one test, which fails as often as there are lines in a file.
fn flaky(times: usize) -> (tempfile::TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("left");
    std::fs::write(&left, "x\n".repeat(times)).unwrap();
    let script = r#"echo "test b ... ok"
        if [ -s "$0" ]; then sed -i 1d "$0"; echo "test a ... FAILED"; echo "test result: FAILED. 1 passed; 1 failed"; exit 101; fi
        echo "test result: ok. 1 passed; 0 failed""#;
    let mut command = shell(script);
    command.arg(left);
    (folder, command)
}

#[test]
fn a_test_that_fails_twice_fails_the_step_and_once_is_told() {
    for (times, expected) in [(0, Some(0)), (1, Some(1)), (2, None)] {
        let (_folder, mut command) = flaky(times);
        let counted = run_with_retry("sh", |_| {
            program::run_relayed(&mut command, |_| true, std::io::sink(), std::io::sink())
        });
        assert_eq!(counted.ok().map(|tally| tally.retried), expected, "{times}");
    }
}
