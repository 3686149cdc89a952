use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{FILES, REFERENCE_FILE, SCHEMA_FILE, differing_files, generated_content, subcommands};

const HELP: &str = "Runs programs

Usage: ringfence [OPTIONS] <COMMAND>

Commands:
  run     Run a program
          in a sandbox
  policy  About policies

  help    Print this message

Options:
  -h, --help  Print help
";

#[test]
fn commands_are_read_from_the_help() {
    assert_eq!(subcommands(HELP), ["run", "policy"]);
    assert_eq!(
        subcommands("Usage: ringfence run\n\nOptions:\n  -h\n"),
        Vec::<&str>::new()
    );
}

/// A program with one group of commands, whose help prints the width that it gets.
fn program(folder: &Path) -> PathBuf {
    let place = folder.join("ringfence");
    let script = r#"#!/bin/sh
case "$*" in
  "policy schema") echo '{"type":"object"}' ;;
  "--help") printf 'Top %s  \n\nCommands:\n  policy  P\n  run     R\n  help    H\n\nOptions:\n  -h\n' "$COLUMNS" ;;
  "policy --help") printf 'Group\n\nCommands:\n  schema  S\n' ;;
  "policy schema --help" | "run --help") echo "Leaf $1" ;;
  "run "* | "audit "*) echo "Session $1" ;;
  "exec "*) echo "Session $1"; exit 1 ;;
  *) echo "unexpected: $*" >&2; exit 2 ;;
esac
"#;
    fs::write(&place, script).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    place
}

#[test]
fn the_reference_walks_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let text = generated_content(&program(folder.path()), REFERENCE_FILE).unwrap();
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with("## ")).collect();
    let expected = [
        "## `ringfence`",
        "## `ringfence policy`",
        "## `ringfence policy schema`",
        "## `ringfence run`",
    ];
    assert_eq!(headings, expected);
    assert!(text.contains("```text\nTop 100\n\nCommands:"), "{text}");
    assert!(text.contains("```text\nLeaf run\n```\n"), "{text}");
}

#[test]
fn a_file_that_differs_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    for file in FILES {
        let place = folder.path().join(file);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, generated_content(&program, file).unwrap()).unwrap();
    }
    assert_eq!(
        differing_files(folder.path(), &program, &FILES).unwrap(),
        Vec::<&str>::new()
    );
    fs::write(folder.path().join(SCHEMA_FILE), "{}").unwrap();
    assert_eq!(differing_files(folder.path(), &program, &FILES).unwrap(), [SCHEMA_FILE]);
}

#[test]
fn a_program_that_fails_is_an_error_and_not_an_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    let place = program(folder.path());
    fs::write(&place, "#!/bin/sh\nexit 2\n").unwrap();
    assert!(generated_content(&place, SCHEMA_FILE).is_err());
}
