//! The stream of events: no loss, no duplicates, no events of others.

use ringfence_engine::storage::AccessScope;

use crate::world::World;

#[tokio::test]
async fn a_stream_that_breaks_goes_on_where_it_broke() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    let runner = tokio::spawn({
        let me = me.clone();
        async move {
            for _ in 0..12 {
                me.run("javascript", "1").await;
            }
        }
    });
    let mut seen = Vec::new();
    // 12 runs with 4 events each, read five at a time by a client that disconnects each time.
    while seen.len() < 48 {
        let last = seen.last().copied().unwrap_or(0_u64).to_string();
        let mut events = operator.events("/api/v1/events", &[("Last-Event-ID", &last)]).await;
        for _ in 0..5.min(48 - seen.len()) {
            let (id, data) = events.next().await.unwrap();
            assert!(data["event"]["kind"].is_string());
            seen.push(id);
        }
    }
    runner.await.unwrap();
    let all: Vec<u64> = (1..=48).collect();
    assert_eq!(seen, all);
}

#[tokio::test]
async fn a_stream_shows_what_is_the_callers_own() {
    let world = World::new().await;
    let (me, other) = (
        world.holder("me", AccessScope::Agent).await,
        world.holder("other", AccessScope::Agent).await,
    );
    let mut live = me.events("/api/v1/events", &[]).await;
    let mut blind = other.events("/api/v1/events?after=0", &[]).await;
    let session = me.run("javascript", "1").await.json()["session_id"].clone();
    for kind in [
        "session_opened",
        "execution_started",
        "execution_ended",
        "session_closed",
    ] {
        let (_, data) = live.next().await.unwrap();
        assert_eq!((&data["event"]["kind"], &data["session"]), (&kind.into(), &session));
    }
    // The stream starts at the first event, also for a session that has ended.
    let path = format!("/api/v1/sessions/{}/events", session.as_str().unwrap());
    me.run("javascript", "2").await;
    let mut of_session = me.events(&path, &[]).await;
    let (first, data) = of_session.next().await.unwrap();
    assert_eq!(data["seq"], 1);
    let mut resumed = me.events(&path, &[("Last-Event-ID", &first.to_string())]).await;
    assert_eq!(resumed.next().await.unwrap().1["seq"], 2);
    let nothing = tokio::time::timeout(std::time::Duration::from_millis(500), blind.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

#[tokio::test]
async fn an_event_that_never_was_cannot_be_gone_on_from() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    for id in ["7", "-1", "x", ""] {
        let headers = [("Authorization", me.bearer.as_str()), ("Last-Event-ID", id)];
        let reply = crate::wire::send(world.address, "GET", "/api/v1/events", &headers, "").await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "events.id"), "{id}");
    }
}
