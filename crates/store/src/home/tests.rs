use std::sync::Barrier;
use std::thread;

use ringfence_journal::ContentHash;

use super::*;

fn mark(n: u64) -> HeadMark {
    HeadMark {
        n,
        hash: ContentHash::digest(&n.to_le_bytes()),
    }
}

#[test]
fn what_is_made_belongs_to_the_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::prepare(&folder.path().join("deep/home")).unwrap();
    home.signer(DatabasePresence::Missing).unwrap();
    home.create_database().unwrap();
    home.start_mark().unwrap();
    home.advance_mark(mark(1)).unwrap();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(home.path().to_owned()), 0o700);
    assert_eq!(mode(home.keys_folder()), 0o700);
    assert_eq!(mode(home.run_folder()), 0o700);
    for file in [home.key_path(), home.mark_path(), home.database_path()] {
        assert_eq!(mode(file), 0o600);
    }
}

#[test]
fn a_folder_that_others_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = Home::prepare(folder.path()).unwrap_err();
    assert_eq!(error.code(), "store.exposed");
    assert!(error.hint().is_some());
}

#[test]
fn a_folder_that_others_can_read_is_closed_to_them_unless_it_holds_other_things() {
    let folder = tempfile::tempdir().unwrap();
    let open = || fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mode = || fs::metadata(folder.path()).unwrap().mode() & 0o777;
    // An empty folder, and one that has our data, is closed.
    open();
    assert_eq!(
        (restrict_permissions(folder.path()).unwrap(), mode()),
        (Some(0o755), 0o700)
    );
    assert_eq!(restrict_permissions(folder.path()).unwrap(), None);
    open();
    Home::prepare(folder.path()).unwrap();
    assert_eq!(mode(), 0o700);
    open();
    assert_eq!(
        (restrict_permissions(folder.path()).unwrap(), mode()),
        (Some(0o755), 0o700)
    );
    // A folder with foreign content stays as it is.
    fs::remove_dir_all(folder.path().join("keys")).unwrap();
    open();
    assert_eq!((restrict_permissions(folder.path()).unwrap(), mode()), (None, 0o755));
    assert_eq!(restrict_permissions(&folder.path().join("none")).unwrap(), None);
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::prepare(folder.path()).unwrap();
    home.signer(DatabasePresence::Missing).unwrap();
    fs::set_permissions(home.key_path(), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(
        home.signer(DatabasePresence::Present).unwrap_err().code(),
        "store.exposed"
    );
}

#[test]
fn all_who_come_first_get_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::prepare(folder.path()).unwrap();
    let barrier = Barrier::new(8);
    let keys: Vec<_> = thread::scope(|scope| {
        let make = || {
            barrier.wait();
            home.signer(DatabasePresence::Missing).unwrap().public()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert_eq!(fs::read_dir(home.keys_folder()).unwrap().count(), 1);
}

#[test]
fn a_mark_never_moves_back() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::prepare(folder.path()).unwrap();
    assert_eq!(home.read_mark().unwrap(), None);
    assert!(
        home.advance_mark(mark(1)).is_err(),
        "a mark that is gone is not made anew"
    );
    home.start_mark().unwrap();
    for n in [9, 10, 3, 100_000, 99_999] {
        home.advance_mark(mark(n)).unwrap();
    }
    assert_eq!(home.read_mark().unwrap(), Some(mark(100_000)));
    home.start_mark().unwrap();
    assert_eq!(home.read_mark().unwrap(), Some(mark(100_000)), "there is one");
    fs::write(home.mark_path(), "garbage").unwrap();
    assert!(home.read_mark().is_err());
}
