//! Reads the journal back.

use std::time::Duration;

use ringfence_journal::Recorder as _;
use ringfence_store::{ExportContents, Store};

use crate::support::{closed, report, violation, world};

#[tokio::test]
async fn an_export_has_every_record_and_head_as_a_line() {
    let world = world().await;
    let session = world.session().await;
    for _ in 0..1100 {
        world.store.record(violation(session, "a\nb")).await.unwrap();
    }
    world.store.record(closed(session)).await.unwrap();
    let mut bytes = Vec::new();
    let count = world
        .store
        .export(&mut bytes, ExportContents::RecordsAndHeads)
        .await
        .unwrap();
    assert_eq!(count, 1102);
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1103);
    assert_eq!(lines[0]["event"]["kind"], "session_opened");
    assert_eq!(lines[1101]["seq"], 1102);
    assert_eq!(lines[1102]["head"]["state"], "closed");
    let mut records = Vec::new();
    world.store.export(&mut records, ExportContents::Records).await.unwrap();
    assert_eq!(String::from_utf8(records).unwrap().lines().count(), 1102);
}

#[tokio::test]
async fn a_tail_gives_the_last_records_and_then_what_another_process_commits() {
    let world = world().await;
    let session = world.session().await;
    for number in 0..10 {
        world
            .store
            .record(violation(session, &number.to_string()))
            .await
            .unwrap();
    }
    // A reader in this process triggers a catch-up; other processes see what is committed.
    assert_eq!(world.store.session_records(session).await.unwrap().len(), 11);
    let reader = Store::open(world.home()).await.unwrap();
    let mut tail = reader.tail_last(3).await.unwrap();
    let page = tail.next_page().await.unwrap();
    assert_eq!(page.iter().map(|row| row.record.seq).collect::<Vec<_>>(), [9, 10, 11]);
    assert!(tail.page().await.unwrap().is_empty());
    let (next, recorded) = tokio::join!(
        tokio::time::timeout(Duration::from_secs(5), tail.next_page()),
        world.store.record(violation(session, "new")),
    );
    let next = next.unwrap().unwrap();
    assert_eq!(next[0].record.hash, recorded.unwrap().hash);
    let mut resumed = reader.tail_after(next[0].n - 1).await.unwrap();
    assert_eq!(resumed.page().await.unwrap(), next);
}

#[tokio::test]
async fn an_empty_journal_is_whole() {
    let world = world().await;
    let report = report(&world.store).await;
    assert!(report.is_ok());
    assert_eq!((report.sessions, report.marked), (0, true));
    assert!(
        world
            .store
            .tail_last(10)
            .await
            .unwrap()
            .page()
            .await
            .unwrap()
            .is_empty()
    );
}
