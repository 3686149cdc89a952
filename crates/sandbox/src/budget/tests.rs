use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const MIB: u64 = 1 << 20;

fn budget(limits: BudgetLimits) -> Arc<Budget<u32>> {
    let free = || {
        Some(MachineMemory {
            total: u64::MAX,
            available: u64::MAX,
        })
    };
    Arc::new(Budget::with_probe(Box::new(move || limits), Box::new(free)))
}

fn limits(memory: u64, queue: Duration) -> BudgetLimits {
    BudgetLimits {
        memory: memory * MIB,
        runs: 64,
        reserve: 64 * MIB,
        queue,
    }
}

fn request(who: u32, memory: u64) -> BudgetRequest<u32> {
    BudgetRequest {
        who,
        memory: memory * MIB,
        depth: 0,
    }
}

fn taken(budget: &Budget<u32>) -> (u64, usize) {
    let state = budget.lock();
    (state.promised, state.runs)
}

const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_millis(20);

#[test]
fn a_small_machine_carries_several_and_a_large_one_many() {
    let promised = 784 * MIB;
    let at_once = |gib: u64, processors| {
        let memory = MachineMemory {
            total: gib << 30,
            available: gib << 30,
        };
        let limits = BudgetLimits::for_machine(memory, processors);
        (limits.memory / promised, limits.runs)
    };
    assert_eq!(at_once(2, 1), (2, 32));
    assert_eq!(at_once(4, 2), (4, 64));
    assert_eq!(at_once(64, 16), (80, 512));
}

#[tokio::test]
async fn no_more_is_promised_than_there_is_and_who_waits_too_long_is_told_why() {
    let budget = budget(limits(1000, SHORT));
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(budget.admit(request(1, 300)).await.unwrap());
    }
    let refused = budget.admit(request(1, 300)).await.unwrap_err();
    assert_eq!(
        (refused.shortage, refused.promised, refused.runs),
        (Shortage::Memory, 900 * MIB, 3)
    );
    assert!(refused.to_string().contains("900 of 1000 MiB"), "{refused}");
    held.pop();
    held.push(budget.admit(request(1, 300)).await.unwrap());
    let few = self::budget(BudgetLimits {
        runs: 1,
        ..limits(1000, SHORT)
    });
    let one = few.admit(request(1, 1)).await.unwrap();
    assert_eq!(few.admit(request(1, 1)).await.unwrap_err().shortage, Shortage::Runs);
    drop(one);
    few.admit(request(1, 1)).await.unwrap();
}

#[tokio::test]
async fn whoever_waits_goes_when_there_is_a_place() {
    let budget = budget(limits(1000, LONG));
    let first = budget.admit(request(1, 800)).await.unwrap();
    let waits = tokio::spawn({
        let budget = Arc::clone(&budget);
        async move { budget.admit(request(1, 800)).await.map(drop) }
    });
    while budget.lock().queue.is_empty() {
        tokio::task::yield_now().await;
    }
    drop(first);
    waits.await.unwrap().unwrap();
    assert_eq!(taken(&budget), (0, 0));
    assert!(budget.lock().shares.is_empty());
}

#[tokio::test]
async fn one_that_wants_more_than_there_is_runs_alone() {
    let budget = budget(limits(1000, SHORT));
    let large = budget.admit(request(1, 5000)).await.unwrap();
    assert_eq!(
        budget.admit(request(2, 1)).await.unwrap_err().shortage,
        Shortage::Memory
    );
    drop(large);
    budget.admit(request(2, 1)).await.unwrap();
}

#[tokio::test]
async fn free_memory_counts_also_where_others_took_it() {
    let free = Arc::new(AtomicU64::new(1000 * MIB));
    let measured = Arc::clone(&free);
    let measure = move || {
        Some(MachineMemory {
            total: u64::MAX,
            available: measured.load(Ordering::Relaxed),
        })
    };
    let budget = Arc::new(Budget::with_probe(
        Box::new(|| limits(10_000, SHORT)),
        Box::new(measure),
    ));
    let one = budget.admit(request(1, 400)).await.unwrap();
    let other = budget.admit(request(1, 400)).await.unwrap();
    free.store(200 * MIB, Ordering::Relaxed);
    tokio::time::sleep(MEASURE_INTERVAL).await;
    assert_eq!(
        budget.admit(request(1, 400)).await.unwrap_err().shortage,
        Shortage::Free
    );
    drop((one, other));
    // The only execution is admitted whatever it asks for: its real need is unknown.
    budget.admit(request(1, 400)).await.unwrap();
}

#[tokio::test]
async fn one_principal_leaves_room_and_the_one_that_has_least_goes_first() {
    let budget = budget(limits(1000, SHORT));
    let mut greedy = Vec::new();
    drop(budget.admit(request(2, 1)).await.unwrap());
    while let Ok(one) = budget.admit(request(1, 100)).await {
        greedy.push(one);
    }
    assert_eq!(greedy.len(), 7);
    let other = budget.admit(request(2, 200)).await.unwrap();
    assert_eq!(
        budget.admit(request(1, 100)).await.unwrap_err().shortage,
        Shortage::Share
    );
    drop(other);
    let state = budget.lock();
    assert_eq!(state.runs, 7);
}

#[tokio::test]
async fn of_two_that_wait_the_one_with_less_goes_first() {
    let budget = budget(limits(1000, LONG));
    drop(budget.admit(request(2, 1)).await.unwrap());
    let mut greedy = Vec::new();
    for _ in 0..3 {
        greedy.push(budget.admit(request(1, 200)).await.unwrap());
    }
    let rest = budget.admit(request(3, 300)).await.unwrap();
    let (order, mut went) = tokio::sync::mpsc::unbounded_channel();
    for who in [1, 2] {
        let (own, order) = (Arc::clone(&budget), order.clone());
        tokio::spawn(async move {
            let place = own.admit(request(who, 150)).await.unwrap();
            order.send(who).unwrap();
            drop(place);
        });
        while budget.lock().queue.len() < usize::try_from(who).unwrap() {
            tokio::task::yield_now().await;
        }
    }
    greedy.pop();
    assert_eq!((went.recv().await, went.recv().await), (Some(2), Some(1)));
    drop(rest);
}

#[tokio::test]
async fn what_others_wait_for_always_goes() {
    let budget = budget(limits(1000, SHORT));
    let outer = budget.admit(request(1, 1000)).await.unwrap();
    let inner = BudgetRequest {
        depth: 1,
        ..request(1, 1000)
    };
    let nested = budget.admit(inner).await.unwrap();
    assert_eq!(budget.admit(inner).await.unwrap_err().shortage, Shortage::Memory);
    drop(nested);
    budget.admit(inner).await.unwrap();
    drop(outer);
}

#[tokio::test]
async fn what_stands_without_running_keeps_what_it_holds() {
    let budget = budget(limits(1000, SHORT));
    let standing = budget.admit(request(1, 900)).await.unwrap().shrink_to_idle(50 * MIB);
    assert_eq!(taken(&budget), (50 * MIB, 0));
    let one = budget.admit(request(1, 900)).await.unwrap();
    assert_eq!(
        budget.admit(request(1, 100)).await.unwrap_err().shortage,
        Shortage::Memory
    );
    drop(standing);
    budget.admit(request(1, 100)).await.unwrap();
    drop(one);
    assert_eq!(taken(&budget), (0, 0));
}

#[tokio::test]
async fn whoever_goes_away_leaves_the_queue() {
    let budget = budget(limits(1000, LONG));
    let held = budget.admit(request(1, 900)).await.unwrap();
    let waits = budget.admit(request(1, 900));
    assert!(tokio::time::timeout(SHORT, waits).await.is_err());
    assert!(budget.lock().queue.is_empty());
    drop(held);
}
