//! Every change behind the store's back is detected and named.

use ringfence_journal::{BrokenLink, ChainFault, ExecutionId, HeadFault, Recorder as _, SessionId, VerificationReport};
use rusqlite::Connection;

use crate::support::{World, closed, ended, report, started, violation, world};

/// A session of 1,200 records (several pages), signed at records 3 and 1,200, and another.
async fn tampered(sql: &'static str) -> (World, SessionId, VerificationReport) {
    let world = world().await;
    let session = world.session().await;
    let execution = ExecutionId::generate().unwrap();
    world.store.record(started(session, execution)).await.unwrap();
    world.store.record(ended(session, execution)).await.unwrap();
    for _ in 4..1200 {
        world.store.record(violation(session, "x")).await.unwrap();
    }
    world.store.record(closed(session)).await.unwrap();
    let other = world.session().await;
    world.store.record(closed(other)).await.unwrap();
    assert!(report(&world.store).await.is_ok());
    let path = world.home().join("ringfence.db");
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
    assert!(connection.total_changes() > 0);
    connection.close().unwrap();
    let found = report(&world.store).await;
    (world, session, found)
}

async fn check(sql: &'static str, number: u64, fault: ChainFault) {
    let (_world, session, report) = tampered(sql).await;
    assert_eq!(report.broken_sessions, 1, "{sql}");
    assert_eq!(report.broken[0].session, session);
    assert_eq!(report.broken[0].broken, Some(BrokenLink { number, fault }), "{sql}");
}

async fn check_heads(sql: &'static str, number: u64, fault: HeadFault) {
    let (_world, _, report) = tampered(sql).await;
    assert_eq!(report.broken_head, Some(BrokenLink { number, fault }), "{sql}");
}

#[tokio::test]
async fn changed_records_are_found() {
    let json = "UPDATE events SET json = replace(json, 'syscall', 'sysco') WHERE seq = 700";
    check(json, 700, ChainFault::Hash).await;
    check(
        "UPDATE events SET hash = zeroblob(32) WHERE seq = 700",
        700,
        ChainFault::Hash,
    )
    .await;
    check(
        "UPDATE events SET prev = zeroblob(32) WHERE seq = 501",
        501,
        ChainFault::Link,
    )
    .await;
}

#[tokio::test]
async fn removed_records_are_found() {
    let gap = ChainFault::Gap { expected: 700 };
    check("DELETE FROM events WHERE seq = 700", 700, gap).await;
    let cut = ChainFault::Cut { head: 2, seq: 1200 };
    check("DELETE FROM events WHERE seq > 1000", 1001, cut).await;
    let whole = "DELETE FROM events WHERE session = (SELECT min(session) FROM events)";
    check(whole, 1, ChainFault::Cut { head: 1, seq: 3 }).await;
}

#[tokio::test]
async fn moved_records_are_found() {
    // Listings start at number one, so they omit a record before it.
    let hidden = "UPDATE events SET n = -n WHERE session = (SELECT min(session) FROM events)";
    check(hidden, 1, ChainFault::Moved).await;
    let later = "UPDATE events SET n = 100000 WHERE seq = 700";
    check(later, 701, ChainFault::Moved).await;
}

#[tokio::test]
async fn changed_and_removed_heads_are_found() {
    check_heads("DELETE FROM heads WHERE n = 1", 1, HeadFault::Gap { expected: 1 }).await;
    check_heads("DELETE FROM heads WHERE n = 3", 3, HeadFault::Cut { marked: 3 }).await;
    check_heads("UPDATE heads SET seq = 4 WHERE n = 1", 1, HeadFault::Signature).await;
    check_heads("UPDATE heads SET closed = 1 WHERE n = 1", 1, HeadFault::Signature).await;
    check_heads(
        "UPDATE heads SET signature = zeroblob(64) WHERE n = 2",
        2,
        HeadFault::Signature,
    )
    .await;
}

#[tokio::test]
async fn a_swapped_key_is_found() {
    let world = world().await;
    let session = world.session().await;
    world.store.record(closed(session)).await.unwrap();
    world.store.close().await;
    let key = world.home().join("keys/journal.key");
    std::fs::write(&key, ringfence_journal::HeadSigner::generate().unwrap().to_text()).unwrap();
    let store = ringfence_store::Store::open(world.home()).await.unwrap();
    let found = report(&store).await.broken_head;
    assert_eq!(
        found,
        Some(BrokenLink {
            number: 1,
            fault: HeadFault::Signature
        })
    );
}

#[tokio::test]
async fn a_row_that_is_no_record_at_all_is_an_error_with_its_place() {
    let (_world, _, _) = {
        let world = world().await;
        let session = world.session().await;
        let path = world.home().join("ringfence.db");
        let connection = Connection::open(path).unwrap();
        connection.execute_batch("UPDATE events SET hash = x'00'").unwrap();
        let error = world.store.verify(|_| ()).await.unwrap_err();
        assert_eq!(error.code(), "store.damaged");
        assert!(error.to_string().contains("column `hash`"), "{error}");
        (world, session, connection)
    };
}
