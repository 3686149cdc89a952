use std::process::Command;

use super::super::tally::Tally;
use super::{is_news, run, settle};
use crate::program;

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

#[test]
fn a_command_that_fails_fails_the_step() {
    assert!(run(&mut shell("exit 0")).is_ok());
    assert_eq!(
        run(&mut shell("exit 3")).unwrap_err().to_string(),
        "`sh -c exit 3` ended with exit status: 3"
    );
}

fn counted(script: &str) -> anyhow::Result<Tally> {
    settle(
        &program::relay(&mut shell(script), |_| true, std::io::sink(), std::io::sink())?,
        "sh",
    )
}

#[test]
fn tests_are_counted_and_skips_judged() {
    let result = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'";
    assert_eq!(counted(result).unwrap(), Tally { passed: 3, skipped: 0 });
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
        assert_eq!(is_news(line), news, "{line}");
    }
}
