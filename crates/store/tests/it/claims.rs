//! Promised runs: found again, and started once.

use ringfence_journal::{ContentHash, Event, EventKind, ExecutionId, ExecutionStatus, Principal, Recorder as _};
use ringfence_store::{IdempotencyClaim, IdempotencyKey, IdempotencyOutcome, Lease, Store};

use crate::support::{World, started, world};

const ME: Principal = Principal::Local(1000);

fn claim(key: Option<&str>, asked: &str) -> IdempotencyClaim {
    IdempotencyClaim {
        principal: ME,
        execution: ExecutionId::generate().unwrap(),
        key: key.map(|name| IdempotencyKey {
            name: name.to_owned(),
            asked: ContentHash::digest(asked.as_bytes()),
        }),
    }
}

async fn status(world: &World, execution: ExecutionId) -> Option<Option<ExecutionStatus>> {
    let promise = world.store.promise(execution).await.unwrap();
    promise.map(|promise| promise.status)
}

#[tokio::test]
async fn a_promise_is_there_until_the_run_starts_or_is_refused() {
    let world = world().await;
    let session = world.session().await;
    let (starts, refused, late) = (claim(None, ""), claim(None, ""), claim(None, ""));
    for one in [&starts, &refused, &late] {
        let claimed = world
            .store
            .claim_idempotency_key(&world.lease, one.clone())
            .await
            .unwrap();
        assert_eq!(claimed, IdempotencyOutcome::New);
        assert_eq!(status(&world, one.execution).await, Some(None));
    }
    world.store.record(started(session, starts.execution)).await.unwrap();
    assert_eq!(status(&world, starts.execution).await, None);
    for (execution, code) in [(refused.execution, "policy.programs"), (late.execution, "limit.wall")] {
        let kind = EventKind::Refused {
            code: code.into(),
            rule: "r".into(),
            hint: None,
        };
        world
            .store
            .record(Event::from_host(session, Some(execution), kind))
            .await
            .unwrap();
    }
    assert_eq!(
        status(&world, refused.execution).await,
        Some(Some(ExecutionStatus::Refused))
    );
    assert_eq!(
        status(&world, late.execution).await,
        Some(Some(ExecutionStatus::TimedOut))
    );
}

#[tokio::test]
async fn of_two_processes_with_one_key_one_begins_the_run() {
    let world = world().await;
    let other = Store::open(world.home()).await.unwrap();
    let lease = Lease::acquire(world.home()).unwrap();
    let (one, two) = (claim(Some("key"), "1"), claim(Some("key"), "1"));
    let (first, second) = tokio::join!(
        world.store.claim_idempotency_key(&world.lease, one.clone()),
        other.claim_idempotency_key(&lease, two.clone())
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(
        (first, second) == (IdempotencyOutcome::New, IdempotencyOutcome::SameRequest(one.execution))
            || (first, second) == (IdempotencyOutcome::SameRequest(two.execution), IdempotencyOutcome::New),
        "{first:?} {second:?}"
    );
    let otherwise = other
        .claim_idempotency_key(&lease, claim(Some("key"), "2"))
        .await
        .unwrap();
    assert!(
        matches!(otherwise, IdempotencyOutcome::OtherRequest(_)),
        "{otherwise:?}"
    );
}

#[tokio::test]
async fn a_promise_whose_process_is_gone_is_taken_over_once() {
    let world = world().await;
    let gone = Lease::acquire(world.home()).unwrap();
    let (gone_id, promised) = (gone.id(), claim(Some("key"), "1"));
    world
        .store
        .claim_idempotency_key(&gone, promised.clone())
        .await
        .unwrap();
    assert!(world.store.lives(gone_id) && world.store.lives(world.lease.id()));
    drop(gone);
    assert!(!world.store.lives(gone_id));
    let again = world
        .store
        .claim_idempotency_key(&world.lease, claim(Some("key"), "1"))
        .await
        .unwrap();
    assert_eq!(again, IdempotencyOutcome::SameRequest(promised.execution));
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
        world
            .store
            .claim_idempotency_key(&world.lease, one.clone())
            .await
            .unwrap();
        let kind = EventKind::Refused {
            code: "policy.programs".into(),
            rule: "r".into(),
            hint: None,
        };
        let event = Event::from_host(session, Some(one.execution), kind);
        world.store.record(event).await.unwrap();
        one.execution
    };
    let first = refuse().await;
    for _ in 1..MAX {
        refuse().await;
    }
    assert_eq!(status(&world, first).await, Some(Some(ExecutionStatus::Refused)));
    let last = refuse().await;
    assert_eq!(status(&world, first).await, None);
    assert_eq!(status(&world, last).await, Some(Some(ExecutionStatus::Refused)));
}
