use std::process::Command;

use super::super::tally::Tally;
use super::{run, settle};
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
        &program::relay(&mut shell(script), std::io::sink(), std::io::sink())?,
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
