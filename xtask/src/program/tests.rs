use std::process::Command;

use super::{BuiltProgram, display_command, executable, read_stdout, run_relayed};

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

#[test]
fn a_command_is_shown_as_typed() {
    assert_eq!(display_command(&shell("exit 3")), "sh -c exit 3");
}

#[test]
fn reading_gives_standard_output_alone() {
    assert_eq!(read_stdout(&mut shell("echo data; echo noise >&2")).unwrap(), "data\n");
}

#[test]
fn reading_a_failure_names_the_command_and_what_it_said() {
    let error = read_stdout(&mut shell("echo because >&2; exit 3"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("sh -c") && error.contains("exit status: 3") && error.contains("because"),
        "{error}"
    );
}

#[test]
fn a_missing_program_is_named() {
    let error = read_stdout(&mut Command::new("/nowhere/no-such-program"))
        .unwrap_err()
        .to_string();
    assert_eq!(error, "cannot start `no-such-program`");
}

#[test]
fn watching_keeps_every_line_of_both_outputs_and_passes_on_what_is_wanted() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut command = shell("echo out; echo hidden; printf 'bad \\377 byte\\nlast' >&2; exit 4");
    let seen = run_relayed(&mut command, |line| line != "hidden", &mut out, &mut err).unwrap();
    assert_eq!(
        (out.as_slice(), err.as_slice()),
        (&b"out\n"[..], &b"bad \xff byte\nlast"[..])
    );
    assert_eq!(seen.status.code(), Some(4));
    assert_eq!(seen.lines, ["out", "hidden", "bad \u{fffd} byte", "last"]);
}

#[test]
fn a_flood_on_one_output_does_not_block_the_other() {
    let script = "i=0; while [ $i -lt 20000 ]; do echo out; echo err >&2; i=$((i+1)); done";
    let seen = run_relayed(&mut shell(script), |_| true, std::io::sink(), std::io::sink()).unwrap();
    assert_eq!(seen.lines.len(), 40_000);
}

#[test]
fn an_artifact_that_can_be_run_is_found_in_cargos_messages() {
    let message = r#"{"reason":"compiler-artifact","package_id":"path+file:///src/crates/cli#ringfence-cli@0.1.0",
        "manifest_path":"/src/crates/cli/Cargo.toml","target":{"kind":["test"],"name":"it"},
        "profile":{"test":true},"executable":"/src/target/debug/deps/it-1234"}"#;
    let expected = BuiltProgram {
        package: "ringfence-cli".to_owned(),
        folder: "/src/crates/cli".into(),
        name: "it".to_owned(),
        test: true,
        path: "/src/target/debug/deps/it-1234".into(),
    };
    assert_eq!(executable(message), Some(expected));
    assert_eq!(
        executable(&message.replace("\"/src/target/debug/deps/it-1234\"", "null")),
        None
    );
    assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
    assert_eq!(executable("not JSON"), None);
}
