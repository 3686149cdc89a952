//! Stop requests between processes.

use std::time::Duration;

use ringfence_journal::{Principal, Recorder as _};
use ringfence_store::{Owner, Stop, Store, Target};

use crate::support::{closed, world};

const ME: Principal = Principal::Local(7);

#[tokio::test]
async fn the_owner_of_a_session_is_told_at_once() {
    let world = world().await;
    let (one, two) = (world.session().await, world.session().await);
    let mut stops = world.store.stops(&world.lease).unwrap();
    let other = Store::open(world.home()).await.unwrap();
    // Nothing was requested yet.
    let waited = tokio::time::timeout(Duration::from_millis(20), stops.next()).await;
    assert!(waited.is_err());
    let asked = other.request_stop(Target::Session(two), ME).await.unwrap();
    assert_eq!(asked, [(two, Owner::Told)]);
    let soon = tokio::time::timeout(Duration::from_secs(10), stops.next()).await;
    assert_eq!(soon.unwrap().unwrap(), Stop { session: two, by: ME });
    world.store.record(closed(two)).await.unwrap();
    let all = other.request_stop(Target::All, ME).await.unwrap();
    assert_eq!(all, [(one, Owner::Told)]);
    let soon = tokio::time::timeout(Duration::from_secs(10), stops.next()).await;
    assert_eq!(soon.unwrap().unwrap().session, one);
    // Each request is returned once.
    assert!(
        tokio::time::timeout(Duration::from_millis(20), stops.next())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn what_was_asked_before_anybody_listened_is_found() {
    let world = world().await;
    let session = world.session().await;
    world.store.request_stop(Target::Session(session), ME).await.unwrap();
    let mut stops = world.store.stops(&world.lease).unwrap();
    let soon = tokio::time::timeout(Duration::from_secs(10), stops.next()).await;
    assert_eq!(soon.unwrap().unwrap().session, session);
}

#[tokio::test]
async fn a_session_that_nobody_has_is_said_to_be_nobodys() {
    let world = world().await;
    let (left, orphan) = (world.session().await, world.session().await);
    world.store.release_session(left).await.unwrap();
    std::fs::remove_file(world.home().join(format!("run/{}.sock", world.lease.id()))).unwrap();
    let mut asked = world.store.request_stop(Target::All, ME).await.unwrap();
    asked.sort_by_key(|(session, _)| *session);
    let mut expected = [(left, Owner::Nobody), (orphan, Owner::Gone)];
    expected.sort_by_key(|(session, _)| *session);
    assert_eq!(asked, expected);
    world.store.record(closed(orphan)).await.unwrap();
    assert!(
        world
            .store
            .request_stop(Target::Session(orphan), ME)
            .await
            .unwrap()
            .is_empty()
    );
}
