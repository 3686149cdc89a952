//! Stop requests between processes.

use std::time::Duration;

use ringfence_journal::{Principal, Recorder as _};
use ringfence_store::{StopOwner, StopRequest, StopTarget, Store};

use crate::support::{closed, world};

const ME: Principal = Principal::Local(7);

#[tokio::test]
async fn the_owner_of_a_session_is_told_at_once() {
    let world = world().await;
    let (one, two) = (world.session().await, world.session().await);
    let mut stops = world.store.listen_for_stops(&world.lease).unwrap();
    let other = Store::open(world.home()).await.unwrap();
    // Nothing was requested yet.
    let waited = tokio::time::timeout(Duration::from_millis(20), stops.next()).await;
    assert!(waited.is_err());
    let asked = other.request_stop(StopTarget::Session(two), ME).await.unwrap();
    assert_eq!(asked, [(two, StopOwner::Notified)]);
    let soon = tokio::time::timeout(Duration::from_secs(10), stops.next()).await;
    assert_eq!(soon.unwrap().unwrap(), StopRequest { session: two, by: ME });
    world.store.record(closed(two)).await.unwrap();
    let all = other.request_stop(StopTarget::All, ME).await.unwrap();
    assert_eq!(all, [(one, StopOwner::Notified)]);
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
    world
        .store
        .request_stop(StopTarget::Session(session), ME)
        .await
        .unwrap();
    let mut stops = world.store.listen_for_stops(&world.lease).unwrap();
    let soon = tokio::time::timeout(Duration::from_secs(10), stops.next()).await;
    assert_eq!(soon.unwrap().unwrap().session, session);
}

#[tokio::test]
async fn a_session_that_nobody_has_is_said_to_be_nobodys() {
    let world = world().await;
    let (left, orphan) = (world.session().await, world.session().await);
    world.store.release_session(left).await.unwrap();
    std::fs::remove_file(world.home().join(format!("run/{}.sock", world.lease.id()))).unwrap();
    let mut asked = world.store.request_stop(StopTarget::All, ME).await.unwrap();
    asked.sort_by_key(|(session, _)| *session);
    let mut expected = [(left, StopOwner::Unowned), (orphan, StopOwner::Dead)];
    expected.sort_by_key(|(session, _)| *session);
    assert_eq!(asked, expected);
    world.store.record(closed(orphan)).await.unwrap();
    assert!(
        world
            .store
            .request_stop(StopTarget::Session(orphan), ME)
            .await
            .unwrap()
            .is_empty()
    );
}
