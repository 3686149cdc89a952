//! Repeated requests with the same idempotency key.

use ringfence_engine::storage::AccessScope;
use serde_json::json;

use crate::wire::{Reply, send};
use crate::world::{Holder, World};

async fn ask(world: &World, me: &Holder, key: &str, code: &str) -> Reply {
    let headers = [("Authorization", me.bearer.as_str()), ("Idempotency-Key", key)];
    let body = json!({ "language": "javascript", "code": code }).to_string();
    send(world.address, "POST", "/api/v1/runs", &headers, &body).await
}

#[tokio::test]
async fn a_request_that_is_sent_again_begins_no_second_run() {
    let world = World::new().await;
    let (me, other) = (
        world.holder("me", AccessScope::Agent).await,
        world.holder("other", AccessScope::Agent).await,
    );
    // An impatient client repeats its request at once.
    let code = "1 + 1";
    let (first, second) = tokio::join!(ask(&world, &me, "a-key", code), ask(&world, &me, "a-key", code));
    assert_eq!((first.status, second.status), (200, 200), "{first:?} {second:?}");
    assert_eq!(first.json()["value"], 2);
    assert_eq!(first.json()["execution_id"], second.json()["execution_id"]);
    let replayed = [&first, &second].map(|reply| reply.header("idempotent-replayed"));
    assert!(
        replayed.contains(&None) && replayed.contains(&Some("true")),
        "{replayed:?}"
    );
    // The same request later, and another request with the same key.
    let third = ask(&world, &me, "a-key", code).await;
    assert_eq!(third.json(), first.json());
    let otherwise = ask(&world, &me, "a-key", "3").await;
    assert_eq!((otherwise.status, otherwise.code().as_str()), (422, "run.key"));
    assert_eq!(
        me.get("/api/v1/runs").await.json()["items"].as_array().unwrap().len(),
        1
    );
    // A key belongs to its principal.
    let theirs = ask(&world, &other, "a-key", "3").await;
    assert_eq!((theirs.status, &theirs.json()["value"]), (200, &json!(3)));
    for key in ["", &"x".repeat(256), "schlüssel"] {
        let wrong = ask(&world, &me, key, "1").await;
        assert_eq!((wrong.status, wrong.code().as_str()), (400, "api.key"), "{key}");
    }
}
