use futures::FutureExt as _;

use super::*;

#[test]
fn what_a_script_prints_is_json_or_text() {
    let check = |stdout: &str, value: &str| assert_eq!(stdout_as_json(stdout), value, "{stdout:?}");
    check("{\"a\": 1}\n", "{\"a\": 1}");
    check("12\n", "12");
    check("two words\n\n", "\"two words\"");
    check("{\"a\": 1} {}", "\"{\\\"a\\\": 1} {}\"");
    check("", "\"\"");
}

#[tokio::test]
async fn whoever_has_all_their_places_takes_nobody_elses() {
    let nests = NestedPermits::default();
    let (one, other) = (Principal::Local(1), Principal::Local(2));
    let mut taken = Vec::new();
    for _ in 0..MAX_EXECUTIONS_PER_DEPTH {
        taken.push(nests.acquire(one, 1).await.unwrap());
    }
    assert!(nests.acquire(one, 1).now_or_never().is_none());
    assert!(nests.acquire(one, 2).now_or_never().unwrap().is_some());
    assert!(nests.acquire(other, 1).now_or_never().unwrap().is_some());
    taken.pop();
    assert!(nests.acquire(one, 1).now_or_never().unwrap().is_some());
    assert!(nests.acquire(one, 0).await.is_none());
    assert!(nests.acquire(one, MAX_NESTING_DEPTH + 1).await.is_none());
}

#[tokio::test]
async fn principals_without_places_are_forgotten_and_others_are_not() {
    let nests = NestedPermits::default();
    let mut taken = Vec::new();
    for _ in 0..MAX_EXECUTIONS_PER_DEPTH {
        taken.push(nests.acquire(Principal::Local(0), 1).await.unwrap());
    }
    for who in 1..3 * u32::try_from(MAX_TRACKED_PRINCIPALS).unwrap() {
        nests.acquire(Principal::Local(who), 1).await.unwrap();
    }
    assert!(lock(&nests.0).len() <= MAX_TRACKED_PRINCIPALS);
    assert!(nests.acquire(Principal::Local(0), 1).now_or_never().is_none());
}
