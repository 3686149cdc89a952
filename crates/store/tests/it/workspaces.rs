//! Sessions with a workspace: owned by one process at a time, and open without one.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ringfence_journal::{ExecutionId, ExecutionStatus, Principal, RecordError, Recorder as _, SessionId, SessionState};
use ringfence_store::{AdoptError, Lease, NewSession, NewWorkspace, Store};

use crate::recordings::begin_in;
use crate::support::{World, closed, opening, started, suspended, world};

const WHO: Principal = Principal::Local(1000);

fn kept(session: SessionId, name: Option<&str>) -> NewSession {
    NewSession {
        keeping: Some(NewWorkspace {
            name: name.map(str::to_owned),
            keep: Duration::from_hours(1),
        }),
        ..opening(session)
    }
}

async fn open(world: &World, name: Option<&str>) -> SessionId {
    let session = SessionId::generate().unwrap();
    world
        .store
        .open_session(&world.lease, kept(session, name))
        .await
        .unwrap();
    session
}

#[tokio::test]
async fn a_session_is_entered_by_one_lease_and_only_once_it_is_left() {
    let world = world().await;
    let id = open(&world, Some("work")).await;
    let other = Store::open(world.home()).await.unwrap();
    let second = Lease::acquire(world.home()).unwrap();
    let refused = other.enter_session(&second, id).await.unwrap_err();
    assert!(matches!(refused, AdoptError::Owned { .. }), "{refused:?}");
    let holder = other.session(id).await.unwrap().unwrap().lease.unwrap();
    assert_eq!(other.lease_holder(holder).unwrap().pid, std::process::id());
    world.store.note_workspace(id, 4096, 3).await.unwrap();
    world.store.park_session(id).await.unwrap();
    other.enter_session(&second, id).await.unwrap();
    let row = other.session_named(WHO, "work").await.unwrap().unwrap();
    let workspace = row.workspace.unwrap();
    assert_eq!((row.id, workspace.bytes, workspace.files), (id, 4096, 3));
    assert_eq!(other.session_named(Principal::Local(1), "work").await.unwrap(), None);
}

#[tokio::test]
async fn a_name_is_taken_once_and_free_when_its_session_is_over() {
    let world = world().await;
    let id = open(&world, Some("work")).await;
    let again = SessionId::generate().unwrap();
    let error = world
        .store
        .open_session(&world.lease, kept(again, Some("work")))
        .await
        .unwrap_err();
    assert!(
        matches!(error, RecordError::NotOwned { session } if session == id),
        "{error:?}"
    );
    assert_eq!(world.store.workspace_count(WHO).await.unwrap(), 1);
    world.store.record(closed(id)).await.unwrap();
    assert_eq!(world.store.workspace_count(WHO).await.unwrap(), 0);
    open(&world, Some("work")).await;
}

#[tokio::test]
async fn a_session_outlives_its_dead_process_and_what_ran_in_it_is_lost() {
    let world = world().await;
    let execution = ExecutionId::generate().unwrap();
    let id = open(&world, None).await;
    world.store.record(started(id, execution)).await.unwrap();
    let World { store, lease, folder } = world;
    // Simulates what the kernel does for a killed process: the lock goes, the file stays.
    lease
        .note_resource(ringfence_store::LeasedResource::Folder {
            path: folder.path().join("none"),
        })
        .unwrap();
    drop(lease);
    let dead = store.dead_leases().await.unwrap().remove(0);
    assert_eq!(store.finish_dead_lease(dead, &[]).await.unwrap(), []);
    let row = store.session(id).await.unwrap().unwrap();
    assert_eq!((row.state, row.lease), (SessionState::Open, None));
    let run = store.execution(execution).await.unwrap().unwrap();
    assert_eq!(run.status, ExecutionStatus::Lost);
}

#[tokio::test]
async fn only_what_nobody_has_and_is_past_its_time_is_over() {
    let world = world().await;
    let id = open(&world, None).await;
    let later = Timestamp::now() + SignedDuration::from_hours(2);
    let over = |at| world.store.expired_workspaces(at, 10);
    assert_eq!(over(later).await.unwrap(), []);
    world.store.park_session(id).await.unwrap();
    assert_eq!(over(later).await.unwrap(), [id]);
    assert_eq!(over(Timestamp::now()).await.unwrap(), []);
    // The process that owns the session checks again.
    let is_over = |at| world.store.is_workspace_expired(id, at);
    world.store.enter_session(&world.lease, id).await.unwrap();
    assert!(is_over(later).await.unwrap());
    assert!(!is_over(Timestamp::now()).await.unwrap());
}

#[tokio::test]
async fn a_session_that_waits_for_a_person_is_not_over_before_nobody_is_waited_for() {
    let world = world().await;
    let id = open(&world, Some("work")).await;
    let execution = begin_in(&world.store, id).await;
    crate::approvals::ask(&world.store, id, execution, SignedDuration::from_hours(10)).await;
    let asked = suspended(id, execution);
    world.store.suspend(asked, None, Vec::new()).await.unwrap();
    world.store.release_session(id).await.unwrap();
    let check = async |hours, expected: bool| {
        let at = Timestamp::now() + SignedDuration::from_hours(hours);
        let found = world.store.expired_workspaces(at, 10).await.unwrap();
        assert_eq!(!found.is_empty(), expected, "{hours}");
        assert_eq!(
            world.store.is_workspace_expired(id, at).await.unwrap(),
            expected,
            "{hours}"
        );
    };
    check(2, false).await;
    check(12, true).await;
    // The caller learns what the session waits for; nothing of it is dropped.
    let refused = world.store.enter_session(&world.lease, id).await.unwrap_err();
    assert!(matches!(refused, AdoptError::Unfinished { execution: one, .. } if one == execution));
    assert_eq!(world.store.session(id).await.unwrap().unwrap().lease, None);
}
