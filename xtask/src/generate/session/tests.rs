use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{SESSION_STEPS, session_picture};

/// A program that prints its arguments on both streams and ends `exec` with the given status.
fn program(folder: &Path, status: i32) -> PathBuf {
    let place = folder.join("ringfence");
    let script = format!(
        "#!/bin/sh\necho \"out $1 $HOME\" | sed \"s|$PWD|home|\"\necho \"err $1\" >&2\nif [ \"$1\" = exec ]; then exit {status}; fi\n"
    );
    fs::write(&place, script).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    place
}

#[test]
fn every_command_is_shown_with_what_it_prints() {
    let folder = tempfile::tempdir().unwrap();
    let picture = session_picture(&program(folder.path(), 1)).unwrap();
    assert_eq!(picture.matches(r#"class="typed">$ "#).count(), SESSION_STEPS.len());
    for text in ["version: 1", "out run home", "err run", "out exec home", "err audit"] {
        assert!(picture.contains(&format!(">{text}</text>")), "{text}: {picture}");
    }
}

#[test]
fn a_command_that_ends_otherwise_is_an_error_and_not_another_picture() {
    let folder = tempfile::tempdir().unwrap();
    let error = session_picture(&program(folder.path(), 125)).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("exit status: 125") && text.contains("err exec"), "{text}");
}
