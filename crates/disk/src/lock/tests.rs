use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::FileLock;

#[test]
fn one_has_the_lock_until_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("a.lock");
    let held = FileLock::acquire(&path).unwrap();
    assert!(FileLock::try_acquire(&path).unwrap().is_none());
    assert!(FileLock::try_existing(&path).unwrap().is_none());
    assert!(FileLock::acquire_within(&path, Duration::ZERO).unwrap().is_none());
    drop(held);
    assert!(FileLock::try_acquire(&path).unwrap().is_some());
    assert!(FileLock::try_existing(&path).unwrap().is_some());
}

#[test]
fn the_lock_of_a_file_that_is_not_there_is_nobodys() {
    let folder = tempfile::tempdir().unwrap();
    assert!(FileLock::try_existing(&folder.path().join("a.lock")).unwrap().is_none());
}

#[test]
fn a_removed_file_excludes_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lock");
    let _old = FileLock::acquire(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(FileLock::try_acquire(&path).unwrap().is_some());
}

/// Threads that take a lock and remove its file again are never two at once.
#[test]
fn whoever_waited_for_a_removed_file_waits_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lock");
    let inside = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let _lock = FileLock::acquire(&path).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    fs::remove_file(&path).unwrap();
                }
            });
        }
    });
}
