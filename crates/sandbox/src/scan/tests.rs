use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use super::*;

fn folder_with(files: &[(&str, u32)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, mode) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
    }
    folder
}

fn globs(texts: &[&str]) -> Vec<Glob> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn hidden(places: &[Place]) -> Vec<(&str, HiddenKind)> {
    let mut found: Vec<(&str, HiddenKind)> = places
        .iter()
        .filter_map(|place| {
            if let Place::Hidden { path, kind } = place {
                Some((path.as_str(), *kind))
            } else {
                None
            }
        })
        .collect();
    found.sort_unstable_by_key(|(path, _)| *path);
    found
}

#[test]
fn what_the_policy_names_is_hidden_folders_whole() {
    let folder = folder_with(&[
        ("a.py", 0o644),
        (".env", 0o644),
        (".ssh/id", 0o644),
        ("deep/er/key.pem", 0o644),
    ]);
    let places = folder_at(&folder, &["**/.env*", "**/.ssh/**", "**/*.pem"]).unwrap();
    let expected = [
        ("/deps/.env", HiddenKind::File),
        ("/deps/.ssh", HiddenKind::Folder),
        ("/deps/deep/er/key.pem", HiddenKind::File),
    ];
    assert_eq!(hidden(&places), expected);
}

fn folder_at(folder: &tempfile::TempDir, deny: &[&str]) -> Result<Vec<Place>, ScanError> {
    super::folder(folder.path(), "/deps", &globs(deny))
}

#[test]
fn sockets_and_pipes_are_no_way_out() {
    let folder = folder_with(&[("a.py", 0o644)]);
    let _listener = UnixListener::bind(folder.path().join("host.sock")).unwrap();
    let places = folder_at(&folder, &[]).unwrap();
    assert_eq!(hidden(&places), [("/deps/host.sock", HiddenKind::File)]);
}

#[test]
fn a_file_that_the_sandbox_could_not_read_is_named() {
    let folder = folder_with(&[("fine", 0o644), ("locked", 0o000)]);
    let error = folder_at(&folder, &[]).unwrap_err();
    assert!(
        matches!(&error, ScanError::Unreadable { path } if path.ends_with("locked")),
        "{error:?}"
    );
    assert_eq!(
        hidden(&folder_at(&folder, &["locked"]).unwrap()),
        [("/deps/locked", HiddenKind::File)]
    );
}
