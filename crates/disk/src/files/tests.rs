use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;

use super::{SecretFile, create_file, open_private, read_bounded, read_secret, replace_file, replace_file_synced};

#[test]
fn files_are_their_owners_alone_and_replaced_whole() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("deep/file.json");
    thread::scope(|scope| {
        for number in 0..4_u8 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..50 {
                    replace_file(path, &[b'0' + number; 10_000]).unwrap();
                }
            });
        }
    });
    let text = read_bounded(&path, 10_000).unwrap();
    assert!(text.len() == 10_000 && text.iter().all(|byte| *byte == text[0]));
    assert!(read_bounded(&path, 9_999).is_err());
    replace_file_synced(&path, b"synced").unwrap();
    assert_eq!(read_bounded(&path, 6).unwrap(), b"synced");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(home.path().join("deep")).unwrap().count(), 1);
}

#[test]
fn a_file_is_created_once() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("one");
    create_file(&path, b"first").unwrap();
    assert_eq!(
        create_file(&path, b"second").unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
    assert_eq!(fs::read(&path).unwrap(), b"first");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn opening_a_file_keeps_its_content() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("one");
    fs::write(&path, "first").unwrap();
    drop(open_private(&path).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"first");
}

#[test]
fn a_secret_is_read_only_where_its_owner_alone_can() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("key");
    assert!(matches!(read_secret(&path).unwrap(), SecretFile::Missing));
    create_file(&path, b"secret").unwrap();
    let SecretFile::Content(text) = read_secret(&path).unwrap() else {
        panic!()
    };
    assert_eq!(text.as_str(), "secret");
    for mode in [0o640, 0o604, 0o620, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let SecretFile::Exposed { mode: found } = read_secret(&path).unwrap() else {
            panic!("{mode:o}")
        };
        assert_eq!(found, mode);
    }
}
