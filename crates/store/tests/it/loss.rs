//! A journal that lacks the newest signed head is not written: not at opening, not while it is open, not after more heads.

use std::fs;
use std::path::Path;

use ringfence_journal::{EventKind, LossCause, Principal, Recorder as _, SessionId};
use ringfence_store::{JournalLoss, Lease, OpenStoreError, Store, accept_loss};
use rusqlite::Connection;

use crate::support::{closed, opening, report, violation};

const WHO: Principal = Principal::Local(1000);

/// One session that is opened, used and closed: one signed head.
async fn run(home: &Path) -> SessionId {
    let store = Store::open(home).await.unwrap();
    let lease = Lease::acquire(home).unwrap();
    let session = SessionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    store.record(closed(session)).await.unwrap();
    store.close().await;
    session
}

/// A copy of the current database.
fn copy(home: &Path) -> Vec<u8> {
    fs::read(home.join("ringfence.db")).unwrap()
}

/// Restores an older copy of the database.
fn put_back(home: &Path, copy: &[u8]) {
    for side in ["ringfence.db-wal", "ringfence.db-shm"] {
        let _ = fs::remove_file(home.join(side));
    }
    fs::write(home.join("ringfence.db"), copy).unwrap();
}

async fn refused(home: &Path) -> JournalLoss {
    let error = Store::open(home).await.unwrap_err();
    assert_eq!(error.code(), "journal.lost", "{error}");
    assert!(error.hint().unwrap().contains("ringfence audit accept-loss"));
    let OpenStoreError::Lost { loss, .. } = error else {
        panic!("{error}");
    };
    loss
}

#[tokio::test]
async fn a_database_that_was_rolled_back_is_not_written_until_that_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    run(home).await;
    let older = copy(home);
    let lost = run(home).await;
    put_back(home, &older);
    assert_eq!(refused(home).await, JournalLoss::RolledBack { marked: 2, found: 1 });

    // A reader sees the remaining records; nothing is written.
    let store = Store::open_to_read(home).await.unwrap();
    assert!(store.loss().is_some() && !report(&store).await.is_ok());
    let lease = Lease::acquire(home).unwrap();
    let session = SessionId::generate().unwrap();
    let error = store.open_session(&lease, opening(session)).await.unwrap_err();
    assert_eq!(error.code(), "journal.lost");
    store.close().await;
    assert_eq!(refused(home).await, JournalLoss::RolledBack { marked: 2, found: 1 });

    let accepted = accept_loss(home, WHO).unwrap().unwrap();
    assert_eq!(accepted.loss, JournalLoss::RolledBack { marked: 2, found: 1 });
    assert_eq!(accept_loss(home, WHO).unwrap(), None, "once is enough");
    run(home).await;
    run(home).await;
    let store = Store::open(home).await.unwrap();
    assert!(report(&store).await.is_ok());
    assert!(store.session_records(lost).await.unwrap().is_empty());
    let records = store.session_records(accepted.record).await.unwrap();
    let EventKind::LossAccepted {
        marked,
        found,
        cause,
        by,
    } = records[0].event().unwrap().kind
    else {
        panic!("{records:?}");
    };
    assert_eq!((marked, found, cause, by), (Some(2), 1, LossCause::Operator, WHO));
}

#[tokio::test]
async fn a_database_that_is_rolled_back_while_it_is_open_is_not_written_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    run(home).await;
    run(home).await;
    let store = Store::open(home).await.unwrap();
    let lease = Lease::acquire(home).unwrap();
    let session = SessionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    let path = home.join("ringfence.db");
    let other = Connection::open(path).unwrap();
    let sql =
        "DELETE FROM events WHERE session IN (SELECT session FROM heads WHERE n = 2); DELETE FROM heads WHERE n = 2";
    other.execute_batch(sql).unwrap();
    let error = store.record(closed(session)).await.unwrap_err();
    assert_eq!(error.code(), "journal.lost");
    assert!(error.hint().unwrap().contains("accept-loss"));
    let error = store.record(violation(session, "x")).await.unwrap_err();
    assert_eq!(error.code(), "journal.lost", "also what is not signed");

    // Another process accepts the loss, and this one continues.
    accept_loss(home, WHO).unwrap().unwrap();
    store.record(closed(session)).await.unwrap();
    assert!(report(&store).await.is_ok());
}

#[tokio::test]
async fn a_database_that_another_file_took_the_place_of_is_not_written_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    run(home).await;
    let older = copy(home);
    let store = Store::open(home).await.unwrap();
    let lease = Lease::acquire(home).unwrap();
    let session = SessionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    fs::write(home.join("other.db"), &older).unwrap();
    fs::rename(home.join("other.db"), home.join("ringfence.db")).unwrap();
    let error = store.record(closed(session)).await.unwrap_err();
    assert_eq!(error.code(), "journal.lost");
    assert!(error.to_string().contains("started again"), "{error}");
}

#[tokio::test]
async fn a_mark_that_is_gone_or_damaged_is_a_loss_and_one_that_lags_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let mark = home.join("keys/journal.mark");
    run(home).await;
    let older = fs::read(&mark).unwrap();
    run(home).await;
    // Simulates a process that died between the head and the mark.
    fs::write(&mark, &older).unwrap();
    run(home).await;
    for damage in [None, Some(""), Some("garbage")] {
        match damage {
            None => fs::remove_file(&mark).unwrap(),
            Some(text) => fs::write(&mark, text).unwrap(),
        }
        let JournalLoss::MarkGone { found } = refused(home).await else {
            panic!("{damage:?}");
        };
        assert!(found >= 3);
        accept_loss(home, WHO).unwrap().unwrap();
        run(home).await;
    }
    assert!(report(&Store::open(home).await.unwrap()).await.is_ok());
}

#[tokio::test]
async fn a_database_that_is_gone_is_made_anew_only_when_that_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    run(home).await;
    for side in ["ringfence.db", "ringfence.db-wal", "ringfence.db-shm"] {
        let _ = fs::remove_file(home.join(side));
    }
    assert_eq!(refused(home).await, JournalLoss::DatabaseGone { marked: 1 });
    assert!(!home.join("ringfence.db").exists());
    let accepted = accept_loss(home, WHO).unwrap().unwrap();
    assert_eq!(accepted.loss, JournalLoss::DatabaseGone { marked: 1 });
    run(home).await;
    assert!(report(&Store::open(home).await.unwrap()).await.is_ok());
}

#[tokio::test]
async fn what_a_power_cut_took_before_it_reached_the_disk_is_written_down_and_locks_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    run(home).await;
    let older = copy(home);
    // The sync mark that an earlier boot left.
    let boot = home.join("keys/journal.boot");
    let mark = fs::read_to_string(home.join("keys/journal.mark")).unwrap();
    let on_disk = mark.trim_end().replacen('{', "{\"boot\":\"another\",", 1);
    run(home).await;
    fs::write(&boot, &on_disk).unwrap();
    put_back(home, &older);
    run(home).await;
    let store = Store::open(home).await.unwrap();
    let found = report(&store).await;
    assert!(found.is_ok());
    assert_eq!(found.accepted_losses, 1);
    let causes: Vec<LossCause> = found.losses.iter().map(|loss| loss.cause).collect();
    assert_eq!(causes, [LossCause::PowerCut]);
    let mut tail = store.tail_after(0).await.unwrap();
    let page = tail.page().await.unwrap();
    let kinds = page.iter().map(|numbered| numbered.record.event().unwrap().kind);
    let accepted: Vec<EventKind> = kinds
        .filter(|kind| matches!(kind, EventKind::LossAccepted { .. }))
        .collect();
    assert!(
        matches!(
            accepted[..],
            [EventKind::LossAccepted {
                marked: Some(2),
                found: 1,
                cause: LossCause::PowerCut,
                ..
            }]
        ),
        "{accepted:?}"
    );
    drop(tail);
    store.close().await;
    // A power cut cannot have removed what had reached the disk.
    run(home).await;
    let mark = fs::read_to_string(home.join("keys/journal.mark")).unwrap();
    fs::write(&boot, mark.trim_end().replacen('{', "{\"boot\":\"another\",", 1)).unwrap();
    put_back(home, &older);
    assert!(matches!(refused(home).await, JournalLoss::RolledBack { found: 1, .. }));
}

#[tokio::test]
async fn a_stop_is_noted_whatever_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    run(home).await;
    let older = copy(home);
    run(home).await;
    put_back(home, &older);
    let store = Store::open_to_read(home).await.unwrap();
    store.request_stop(ringfence_store::StopTarget::All, WHO).await.unwrap();
}
