use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use super::{OrdinaryUser, UserFolder};
use crate::program::{self, BuiltProgram};
use crate::suite::install::is_root;

#[test]
fn the_user_is_read_from_the_password_file() {
    let passwd = "root:x:0:0::/root:/bin/sh\nringfence-test:x:990:991::/home/x:/usr/sbin/nologin\n";
    assert_eq!(OrdinaryUser::parse(passwd), Some(OrdinaryUser { id: 990, group: 991 }));
    assert_eq!(OrdinaryUser::parse("ringfence-tester:x:1:2::/:\n"), None);
    assert_eq!(OrdinaryUser::parse("ringfence-test:x\n"), None);
}

fn project() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let git = Command::new("git")
        .current_dir(root.path())
        .args(["init", "--quiet"])
        .status()
        .unwrap();
    assert!(git.success());
    fs::create_dir_all(root.path().join("crates/jail/testdata")).unwrap();
    fs::write(root.path().join("crates/jail/testdata/case"), "a case").unwrap();
    root
}

/// A stand-in for a test program, which prints its user and folder.
fn stand_in(root: &Path) -> BuiltProgram {
    let path = root.join("stand-in");
    let script = "#!/bin/sh\nid -u\ncat testdata/case\necho\ntouch \"$HOME/a\" \"$TMPDIR/b\" && echo \"$RINGFENCE_TEST_BIN\"\n\
                  touch \"$CARGO_MANIFEST_DIR/testdata/case2\" 2>/dev/null || echo closed\necho \"${SECRET:-none}\"\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let folder = root.join("crates/jail");
    BuiltProgram {
        package: "ringfence-jail".to_owned(),
        folder,
        name: "it".to_owned(),
        test: true,
        path,
    }
}

#[test]
fn a_test_program_runs_as_the_user_with_only_what_it_needs() {
    if !is_root().unwrap() {
        println!("SKIPPED: needs root");
        return;
    }
    let root = project();
    let test = stand_in(root.path());
    let user = OrdinaryUser {
        id: 64_990,
        group: 64_990,
    };
    let place = UserFolder::make(root.path(), user, &test.path).unwrap();
    let said = program::read_stdout(&mut place.command(root.path(), &test, user).unwrap()).unwrap();
    let ringfence = place.ringfence.display().to_string();
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        ["64990", "a case", &ringfence, "closed", "none"]
    );
    assert_eq!(fs::metadata(place.path("home")).unwrap().uid(), 64_990);
}
