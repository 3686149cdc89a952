//! Promised runs: found again, and started once.

use ringfence_journal::{Event, ExecutionId, Hash, Kind, Principal, Recorder as _, Status};
use ringfence_store::{Claim, Claimed, Key, Lease, Store};

use crate::support::{World, started, world};

const ME: Principal = Principal::Local(1000);

fn claim(key: Option<&str>, asked: &str) -> Claim {
    Claim {
        principal: ME,
        execution: ExecutionId::generate().unwrap(),
        key: key.map(|name| Key {
            name: name.to_owned(),
            asked: Hash::of(asked.as_bytes()),
        }),
    }
}

async fn status(world: &World, execution: ExecutionId) -> Option<Option<Status>> {
    let promise = world.store.promise(execution).await.unwrap();
    promise.map(|promise| promise.status)
}

#[tokio::test]
async fn a_promise_is_there_until_the_run_starts_or_is_refused() {
    let world = world().await;
    let session = world.session().await;
    let (starts, refused, late) = (claim(None, ""), claim(None, ""), claim(None, ""));
    for one in [&starts, &refused, &late] {
        let claimed = world.store.claim(&world.lease, one.clone()).await.unwrap();
        assert_eq!(claimed, Claimed::Now);
        assert_eq!(status(&world, one.execution).await, Some(None));
    }
    world.store.record(started(session, starts.execution)).await.unwrap();
    assert_eq!(status(&world, starts.execution).await, None);
    for (execution, code) in [(refused.execution, "policy.programs"), (late.execution, "limit.wall")] {
        let kind = Kind::Refused {
            code: code.into(),
            rule: "r".into(),
            hint: None,
        };
        world
            .store
            .record(Event::host(session, Some(execution), kind))
            .await
            .unwrap();
    }
    assert_eq!(status(&world, refused.execution).await, Some(Some(Status::Refused)));
    assert_eq!(status(&world, late.execution).await, Some(Some(Status::TimedOut)));
}

#[tokio::test]
async fn of_two_processes_with_one_key_one_begins_the_run() {
    let world = world().await;
    let other = Store::open(world.home()).await.unwrap();
    let lease = Lease::acquire(world.home()).unwrap();
    let (one, two) = (claim(Some("key"), "1"), claim(Some("key"), "1"));
    let (first, second) = tokio::join!(
        world.store.claim(&world.lease, one.clone()),
        other.claim(&lease, two.clone())
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(
        (first, second) == (Claimed::Now, Claimed::Before(one.execution))
            || (first, second) == (Claimed::Before(two.execution), Claimed::Now),
        "{first:?} {second:?}"
    );
    let otherwise = other.claim(&lease, claim(Some("key"), "2")).await.unwrap();
    assert!(matches!(otherwise, Claimed::Otherwise(_)), "{otherwise:?}");
}

#[tokio::test]
async fn a_promise_whose_process_is_gone_is_taken_over_once() {
    let world = world().await;
    let gone = Lease::acquire(world.home()).unwrap();
    let (gone_id, promised) = (gone.id(), claim(Some("key"), "1"));
    world.store.claim(&gone, promised.clone()).await.unwrap();
    assert!(world.store.lives(gone_id) && world.store.lives(world.lease.id()));
    drop(gone);
    assert!(!world.store.lives(gone_id));
    let again = world.store.claim(&world.lease, claim(Some("key"), "1")).await.unwrap();
    assert_eq!(again, Claimed::Before(promised.execution));
    let other = Lease::acquire(world.home()).unwrap();
    let mut taken = Vec::new();
    for lease in [&world.lease, &other] {
        taken.push(world.store.reclaim(promised.execution, gone_id, lease).await.unwrap());
    }
    assert_eq!(taken, [true, false]);
}

#[tokio::test]
async fn runs_that_never_start_are_remembered_up_to_a_number() {
    const MAX: usize = 10_000;
    let world = world().await;
    let session = world.session().await;
    let refuse = async || {
        let one = claim(None, "");
        world.store.claim(&world.lease, one.clone()).await.unwrap();
        let kind = Kind::Refused {
            code: "policy.programs".into(),
            rule: "r".into(),
            hint: None,
        };
        let event = Event::host(session, Some(one.execution), kind);
        world.store.record(event).await.unwrap();
        one.execution
    };
    let first = refuse().await;
    for _ in 1..MAX {
        refuse().await;
    }
    assert_eq!(status(&world, first).await, Some(Some(Status::Refused)));
    let last = refuse().await;
    assert_eq!(status(&world, first).await, None);
    assert_eq!(status(&world, last).await, Some(Some(Status::Refused)));
}
