use std::fs;
use std::path::Path;
use std::process::Command;

use super::{ProjectFile, ProjectTree};

fn git(root: &Path, arguments: &[&str]) {
    let status = Command::new("git").current_dir(root).args(arguments).status().unwrap();
    assert!(status.success(), "git {arguments:?}");
}

#[test]
fn what_git_tracks_or_would_track_is_the_tree() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, bytes: &[u8]| {
        let place = root.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, bytes).unwrap();
    };
    git(root.path(), &["init", "--quiet"]);
    write(".gitignore", b"/target\n");
    write("target/out.rs", b"built");
    write("src/tracked.rs", b"tracked");
    write("src/gone.rs", b"gone");
    write("picture.png", b"\x89PNG\0\xff");
    git(root.path(), &["add", "."]);
    fs::remove_file(root.path().join("src/gone.rs")).unwrap();
    write("a name.rs", b"new");
    std::os::unix::fs::symlink("/etc/passwd", root.path().join("link.rs")).unwrap();

    let tree = ProjectTree::read(root.path()).unwrap();
    let seen: Vec<_> = tree
        .files()
        .iter()
        .map(|file| (file.path.as_str(), file.text.as_str()))
        .collect();
    let expected = [
        (".gitignore", "/target\n"),
        ("a name.rs", "new"),
        ("picture.png", ""),
        ("src/tracked.rs", "tracked"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_folder_without_git_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    assert!(ProjectTree::read(root.path()).is_err());
}

#[test]
fn a_test_is_known_by_its_place() {
    for (path, test) in [
        ("crates/policy/src/path/tests.rs", true),
        ("crates/store/tests/it/main.rs", true),
        ("crates/worker/src/js/tests/errors.rs", true),
        ("crates/testkit/src/lib.rs", false),
        ("crates/policy/src/testdata.rs", false),
    ] {
        let file = ProjectFile {
            path: path.to_owned(),
            text: String::new(),
        };
        assert_eq!(file.is_test(), test, "{path}");
    }
}

#[test]
fn a_file_knows_its_member() {
    for (path, member) in [
        ("crates/jail/src/lib.rs", Some("jail")),
        ("xtask/src/main.rs", Some("xtask")),
        ("README.md", None),
        ("fuzz/fuzz_targets/wire.rs", None),
    ] {
        let file = ProjectFile {
            path: path.to_owned(),
            text: String::new(),
        };
        assert_eq!(file.member(), member, "{path}");
    }
}
