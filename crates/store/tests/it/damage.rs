//! A damaged, missing, newer or foreign journal is reported and never replaced.

use std::fs;
use std::path::Path;

use ringfence_journal::Recorder as _;
use ringfence_store::{OpenStoreError, Store};
use rusqlite::Connection;

use crate::support::{World, closed, violation, world};

/// Damages the data folder of a closed store, and opens it again.
async fn reopen(harm: impl FnOnce(&Path)) -> OpenStoreError {
    let world = world().await;
    fill(&world).await;
    let database = world.home().join("ringfence.db");
    harm(&database);
    let before = fs::read(&database).ok();
    let error = Store::open(world.home()).await.unwrap_err();
    assert_eq!(fs::read(&database).ok(), before, "the file was touched");
    assert!(error.hint().is_some());
    error
}

async fn fill(world: &World) {
    let session = world.session().await;
    for _ in 0..200 {
        world.store.record(violation(session, &"x".repeat(1000))).await.unwrap();
    }
    world.store.record(closed(session)).await.unwrap();
    world.store.close().await;
    assert!(!world.home().join("ringfence.db-wal").exists());
}

#[tokio::test]
async fn garbage_is_damage() {
    let error = reopen(|path| fs::write(path, "garbage ".repeat(1000)).unwrap()).await;
    assert_eq!(error.code(), "store.damaged", "{error:?}");
}

#[tokio::test]
async fn a_file_cut_short_is_damage() {
    for keep in [10, 4096, 40_960] {
        let cut = |path: &Path| {
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            assert!(file.metadata().unwrap().len() > keep);
            file.set_len(keep).unwrap();
        };
        let error = reopen(cut).await;
        assert_eq!(error.code(), "store.damaged", "{keep}: {error:?}");
    }
}

#[tokio::test]
async fn an_empty_or_missing_file_is_damage_once_something_was_signed() {
    let error = reopen(|path| fs::write(path, "").unwrap()).await;
    assert_eq!(error.code(), "journal.lost", "{error:?}");
    let error = reopen(|path| fs::remove_file(path).unwrap()).await;
    assert_eq!(error.code(), "journal.lost", "{error:?}");
    assert!(error.to_string().contains("remembers signed head 1"), "{error}");
}

#[tokio::test]
async fn a_missing_or_broken_key_is_never_replaced() {
    let key = |path: &Path| path.with_file_name("keys").join("journal.key");
    let error = reopen(|path| fs::remove_file(key(path)).unwrap()).await;
    assert_eq!(error.code(), "store.key", "{error:?}");
    let error = reopen(|path| fs::write(key(path), "ringfence-journal-key-1 00\n").unwrap()).await;
    assert_eq!(error.code(), "store.key", "{error:?}");
}

#[tokio::test]
async fn a_folder_in_the_databases_place_is_refused() {
    let swap = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    assert_eq!(reopen(swap).await.code(), "store.folder");
}

fn change(path: &Path, sql: &'static str) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
    connection.close().unwrap();
}

#[tokio::test]
async fn a_newer_database_is_refused() {
    let world = world().await;
    world.store.close().await;
    change(&world.home().join("ringfence.db"), "PRAGMA user_version = 99");
    let error = Store::open(world.home()).await.unwrap_err();
    assert_eq!(error.code(), "store.version");
    assert!(error.to_string().contains("version 99"), "{error}");
}

#[tokio::test]
async fn another_programs_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path()).await.unwrap());
    let home = folder.path().join("other");
    fs::create_dir_all(home.join("keys")).unwrap();
    fs::copy(folder.path().join("keys/journal.key"), home.join("keys/journal.key")).unwrap();
    change(&home.join("ringfence.db"), "CREATE TABLE music (title TEXT)");
    let error = Store::open(&home).await.unwrap_err();
    assert!(matches!(error, OpenStoreError::NotOurs { .. }), "{error:?}");
}
