//! Old records are removed, their signed heads stay, and a signed record names what was removed; a forged one is not believed.

use jiff::{SignedDuration, Timestamp};
use ringfence_journal::{EventKind, PolicyRef, Principal, Recorder as _, SessionId};
use rusqlite::Connection;

use crate::support::{World, closed, report, violation, world};

const WHO: Principal = Principal::Local(1000);

async fn past(world: &World) -> SessionId {
    let session = world.session().await;
    world.store.record(violation(session, "x")).await.unwrap();
    world.store.record(closed(session)).await.unwrap();
    session
}

fn later() -> Timestamp {
    Timestamp::now().saturating_add(SignedDuration::from_secs(60)).unwrap()
}

#[tokio::test]
async fn what_is_old_goes_and_the_journal_still_verifies_and_says_what_went() {
    let world = world().await;
    let (first, second) = (past(&world).await, past(&world).await);
    let open = world.session().await;
    let nothing = world.store.prune(first.created(), WHO).await.unwrap();
    assert_eq!((nothing.sessions, nothing.more), (0, false));
    assert_eq!(report(&world.store).await.sessions, 3);

    let pruned = world.store.prune(later(), WHO).await.unwrap();
    assert_eq!((pruned.sessions, pruned.records, pruned.more), (2, 6, false));
    assert!(pruned.bytes > 500);
    let found = report(&world.store).await;
    assert!(found.is_ok(), "{found:?}");
    assert_eq!((found.pruned_sessions, found.pruned_records), (2, 6));
    assert_eq!(found.sessions, 2, "the open one, and the record of this");
    for gone in [first, second] {
        assert!(world.store.session_records(gone).await.unwrap().is_empty());
        assert!(world.store.session(gone).await.unwrap().is_none());
    }
    world.store.record(violation(open, "y")).await.unwrap();

    // The records about the removal stay.
    let again = world.store.prune(later(), WHO).await.unwrap();
    assert_eq!(again.sessions, 0);
    let mut tail = world.store.tail_after(0).await.unwrap();
    let page = tail.page().await.unwrap();
    let pruned = page.iter().find_map(|numbered| {
        let EventKind::JournalPruned {
            sessions, records, by, ..
        } = numbered.record.event().unwrap().kind
        else {
            return None;
        };
        Some((sessions.len(), records, by))
    });
    assert_eq!(pruned, Some((2, 6, WHO)));
}

#[tokio::test]
async fn a_session_that_somebody_else_removed_is_not_taken_for_pruned() {
    let world = world().await;
    let first = past(&world).await;
    let pruned = world.store.prune(later(), WHO).await.unwrap();
    assert_eq!(pruned.sessions, 1);
    let second = past(&world).await;
    let path = world.home().join("ringfence.db");
    let other = Connection::open(path).unwrap();
    let sql = format!(
        "DELETE FROM events WHERE session = '{second}';
         INSERT INTO pruned SELECT '{second}', record FROM pruned WHERE session = '{first}'"
    );
    other.execute_batch(&sql).unwrap();
    let found = report(&world.store).await;
    assert!(!found.is_ok());
    assert_eq!(found.broken[0].session, second);
}

#[tokio::test]
async fn many_go_in_parts() {
    let world = world().await;
    for _ in 0..120 {
        past(&world).await;
    }
    let first = world.store.prune(later(), WHO).await.unwrap();
    assert_eq!((first.sessions, first.more), (100, true));
    let second = world.store.prune(later(), WHO).await.unwrap();
    assert_eq!((second.sessions, second.more), (20, false));
    let found = report(&world.store).await;
    assert!(found.is_ok(), "{found:?}");
    assert_eq!(found.pruned_sessions, 120);
}

#[tokio::test]
async fn policies_stay_as_long_as_a_session_that_ran_under_them() {
    let world = world().await;
    let policy = |digest: &str| PolicyRef {
        name: "own".into(),
        digest: digest.into(),
    };
    let (old, open) = (world.session().await, world.session().await);
    for (session, digests) in [
        (old, ["blake3:old", "blake3:both"]),
        (open, ["blake3:both", "blake3:open"]),
    ] {
        for digest in digests {
            world
                .store
                .keep_policy(session, policy(digest), "{}".into())
                .await
                .unwrap();
        }
    }
    world.store.record(closed(old)).await.unwrap();
    assert_eq!(world.store.prune(later(), WHO).await.unwrap().sessions, 1);
    let mut there = Vec::new();
    for digest in ["blake3:old", "blake3:both", "blake3:open", "blake3:0011"] {
        there.push(world.store.policy(digest).await.unwrap().is_some());
    }
    assert_eq!(there, [false, true, true, true]);
}
