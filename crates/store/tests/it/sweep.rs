//! Sweeps of dead processes.

use ringfence_journal::{Event, EventKind, ExecutionStatus, Recorder as _, SessionId, SessionState, SessionSummary};
use ringfence_store::{Lease, LeasedResource, RemovedResources, StopOwner, StopTarget};

use crate::process::{lines, start};
use crate::support::{report, violation, world};

#[tokio::test]
async fn what_a_killed_process_left_is_found_ended_and_journalled() {
    let world = world().await;
    let neighbour = world.session().await;
    let mut child = start("write for ever", world.home());
    // Its pipe stays open until it is killed.
    let mut said = lines(&mut child);
    let session: SessionId = said.next().unwrap()[0].parse().unwrap();
    assert!(world.store.dead_leases().await.unwrap().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();

    let mut dead = world.store.dead_leases().await.unwrap();
    assert_eq!(dead.len(), 1);
    let dead = dead.remove(0);
    assert_eq!(
        dead.resources(),
        [LeasedResource::Folder {
            path: "/nowhere/left".into()
        }]
    );
    let removed = [RemovedResources {
        what: "folder".into(),
        count: 1,
    }];
    assert_eq!(world.store.finish_dead_lease(dead, &removed).await.unwrap(), [session]);

    let listed = world.store.session(session).await.unwrap().unwrap();
    assert_eq!((listed.state, listed.lease), (SessionState::Lost, None));
    assert_eq!(
        world.store.session_executions(session).await.unwrap()[0].status,
        ExecutionStatus::Lost
    );
    let records = world.store.session_records(session).await.unwrap();
    let events: Vec<_> = records.iter().map(|record| record.event().unwrap()).collect();
    let names: Vec<_> = events.iter().rev().take(2).map(|event| event.kind.name()).collect();
    assert_eq!(names, ["session_closed", "swept"]);
    let summary = SessionSummary::from_events(&events).unwrap();
    assert_eq!(
        (summary.state, summary.executions[0].status),
        (SessionState::Lost, ExecutionStatus::Lost)
    );
    assert!(report(&world.store).await.is_ok());

    assert!(world.store.dead_leases().await.unwrap().is_empty());
    // The other process continues.
    world.store.record(violation(neighbour, "")).await.unwrap();
    let listed = world.store.session(neighbour).await.unwrap().unwrap();
    assert_eq!(listed.state, SessionState::Open);
}

#[tokio::test]
async fn a_session_whose_lease_has_no_file_is_lost_too() {
    let world = world().await;
    let session = world.session().await;
    let other = ringfence_store::Store::open(world.home()).await.unwrap();
    std::fs::remove_file(world.home().join(format!("run/{}.lock", world.lease.id()))).unwrap();
    let mut dead = other.dead_leases().await.unwrap();
    assert_eq!(other.finish_dead_lease(dead.remove(0), &[]).await.unwrap(), [session]);
    // The former owner can no longer write to it.
    let error = world.store.record(violation(session, "")).await.unwrap_err();
    assert_eq!(error.code(), "session.closed");
    assert!(report(&other).await.is_ok());
}

#[tokio::test]
async fn a_sweep_that_died_half_way_is_finished_by_the_next() {
    let world = world().await;
    let session = world.session().await;
    let kind = EventKind::Swept {
        what: "cgroup".into(),
        count: 1,
        lease: world.lease.id(),
    };
    world.store.record(Event::from_host(session, None, kind)).await.unwrap();
    let other = ringfence_store::Store::open(world.home()).await.unwrap();
    std::fs::remove_file(world.home().join(format!("run/{}.lock", world.lease.id()))).unwrap();
    let mut dead = other.dead_leases().await.unwrap();
    assert_eq!(other.finish_dead_lease(dead.remove(0), &[]).await.unwrap(), [session]);
    assert!(other.dead_leases().await.unwrap().is_empty());
    let listed = other.session(session).await.unwrap().unwrap();
    assert_eq!((listed.state, listed.lease), (SessionState::Lost, None));
}

#[tokio::test]
async fn what_was_swept_for_no_session_is_journalled_too() {
    let world = world().await;
    let lease = Lease::acquire(world.home()).unwrap();
    lease
        .note_resource(LeasedResource::Folder {
            path: "/nowhere".into(),
        })
        .unwrap();
    drop(lease);
    let mut dead = world.store.dead_leases().await.unwrap();
    let removed = [RemovedResources {
        what: "folder".into(),
        count: 1,
    }];
    assert!(
        world
            .store
            .finish_dead_lease(dead.remove(0), &removed)
            .await
            .unwrap()
            .is_empty()
    );
    let page = world.store.tail_last(1).await.unwrap().page().await.unwrap();
    assert_eq!(page[0].record.event().unwrap().kind.name(), "swept");
    let report = report(&world.store).await;
    assert_eq!((report.is_ok(), report.heads), (true, 1));
}

#[tokio::test]
async fn another_process_is_told_to_stop_and_does() {
    let world = world().await;
    let mut child = start("stop", world.home());
    let mut said = lines(&mut child);
    let ready = said.next().unwrap();
    let session: SessionId = ready[0].parse().unwrap();
    let began = std::time::Instant::now();
    let by = ringfence_journal::Principal::Local(1);
    let asked = world
        .store
        .request_stop(StopTarget::Session(session), by)
        .await
        .unwrap();
    assert_eq!(asked, [(session, StopOwner::Notified)]);
    assert_eq!(said.next().unwrap(), [session.to_string(), "stopped".to_owned()]);
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(10), "{took:?}");
    child.wait().unwrap();
}
