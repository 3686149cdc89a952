//! The shutdown of the server: runs may finish, nothing new starts, no connection stays.

use std::time::{Duration, Instant};

use ringfence_engine::storage::AccessScope;
use ringfence_server::HttpLimits;
use serde_json::json;
use tokio::net::TcpStream;

use crate::world::World;

#[tokio::test]
async fn what_runs_may_end_and_nothing_new_begins() {
    let mut world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let mut events = me.events("/api/v1/events", &[]).await;
    let run = tokio::spawn({
        let me = me.clone();
        async move { me.run("shell", "sleep 1; echo done").await }
    });
    // The program runs once the start is recorded.
    while events.next().await.unwrap().1["event"]["kind"] != "execution_started" {}
    world.stop();
    let run = run.await.unwrap();
    assert_eq!((run.status, &run.json()["stdout"]), (200, &json!("done\n")));
    let address = world.address;
    // Streams end; the remaining events can be read after the next start.
    while events.next().await.is_some() {}
    world.ended().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn what_does_not_end_in_time_is_ended() {
    let limits = HttpLimits {
        drain: Duration::from_millis(300),
        ..HttpLimits::default()
    };
    let mut world = World::with(limits).await;
    let me = world.holder("me", AccessScope::Agent).await;
    let mut events = me.events("/api/v1/events", &[]).await;
    let run = tokio::spawn({
        let me = me.clone();
        async move { me.run("shell", "sleep 25").await }
    });
    while events.next().await.unwrap().1["event"]["kind"] != "execution_started" {}
    let started = Instant::now();
    world.stop();
    assert_eq!(run.await.unwrap().json()["status"], "cancelled");
    world.ended().await;
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_conversation_of_the_older_era_does_not_hold_the_server() {
    let mut world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } });
    let headers = [
        ("Authorization", me.bearer.as_str()),
        ("Accept", "application/json, text/event-stream"),
    ];
    let hello = crate::wire::send(world.address, "POST", "/mcp", &headers, &body.to_string()).await;
    assert_eq!(hello.status, 200);
    assert!(hello.header("mcp-session-id").is_some());
    world.stop();
    world.ended().await;
}
