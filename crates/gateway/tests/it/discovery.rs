//! Tests of unknown tools, and of the search index that is built ahead.

use std::sync::Arc;
use std::time::Duration;

use ringfence_gateway::{Gateway, ObservedTypes, PassError, ServerEvent};
use serde_json::json;

use crate::book::Road;
use crate::harness::{Bench, bench, bench_at, entry};

/// Returns the hint for a call of an unknown tool.
async fn hint(road: &Road, server: &str, tool: &str) -> String {
    let (desk, _inbox) = road.desk();
    match road.pass(desk).call(1, server, tool, "{}", b"").await {
        Err(PassError::Refused(told)) => {
            assert_eq!(told.code, "tool.unknown");
            assert_eq!(told.message, format!("there is no tool `{server}.{tool}`"));
            told.hint.unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_unknown_tool_names_those_like_it_that_may_be_seen() {
    let bench = bench(&json!({"one": entry("echo")}));
    let all = Road::new(&bench, "tools: { default: allow }");
    let near = hint(&all, "one", "structure").await;
    assert!(near.starts_with("did you mean `one.structured`?"), "{near}");
    // A wrong server name gets hints too.
    let near = hint(&all, "once", "structured").await;
    assert!(near.starts_with("did you mean `one.structured`?"), "{near}");
    let far = hint(&all, "one", "zzzz").await;
    assert!(far.starts_with("`search("), "{far}");
}

#[tokio::test]
async fn a_hidden_tool_is_named_to_nobody() {
    let bench = bench(&json!({"one": entry("echo")}));
    let rules = "tools: { default: allow, rules: [{ deny: 'one.structured' }] }";
    let road = Road::new(&bench, rules);
    // A hidden tool and a missing one get the same answer, also once the server is known.
    for _ in 0..2 {
        for tool in ["structure", "structured", "structureds"] {
            let hint = hint(&road, "one", tool).await;
            assert!(!hint.contains("structured"), "{tool}: {hint}");
        }
        bench.upstreams.refresh(None).await;
    }
}

/// Waits until the index of the current catalog is built without a search.
async fn ready(gateway: &Gateway) -> Vec<String> {
    loop {
        if let Some(indexed) = gateway.ready_index() {
            let tools = indexed.catalog().tools().iter();
            return tools.map(|tool| tool.name.as_str().to_owned()).collect();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn gateway(bench: &Bench) -> Arc<Gateway> {
    Arc::new(Gateway::new(
        bench.upstreams.clone(),
        ObservedTypes::open(bench.home.path()),
    ))
}

#[tokio::test]
async fn a_server_that_cannot_be_listed_is_told_once() {
    let bench = bench(&json!({"gone": {"command": "/nowhere/at/all"}, "one": entry("echo")}));
    let gateway = gateway(&bench);
    let mut events = bench.upstreams.events();
    for _ in 0..3 {
        let known = gateway.searchable_catalog().await;
        assert!(known.catalog().server("one").is_some() && known.catalog().server("gone").is_none());
    }
    let told = events.try_recv().unwrap();
    assert!(
        matches!(&told, ServerEvent::Unlisted { server, .. } if server == "gone"),
        "{told:?}"
    );
    let text = told.to_string();
    assert!(
        text.starts_with("server `gone`: ") && text.ends_with("`ringfence servers test gone` says more"),
        "{text}"
    );
    let more = events.try_recv();
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test]
async fn the_index_is_made_before_anybody_searches_and_again_when_tools_change() {
    let entries = json!({"one": entry("echo"), "two": entry("echo")});
    let first = bench(&json!({"one": entry("echo")}));
    first.upstreams.refresh(None).await;
    // Another process with the cache of one of the two servers, which connects to none by itself.
    let bench = bench_at(&entries, Arc::clone(&first.home));
    let gateway = gateway(&bench);
    assert!(gateway.ready_index().is_none());
    gateway.spawn_indexer();
    let names = ready(&gateway).await;
    assert!(
        names.contains(&"one.echo".to_owned()) && !names.contains(&"two.echo".to_owned()),
        "{names:?}"
    );
    bench.upstreams.refresh(Some("two")).await;
    let names = ready(&gateway).await;
    assert!(
        names.contains(&"one.echo".to_owned()) && names.contains(&"two.echo".to_owned()),
        "{names:?}"
    );
    // A search uses exactly that index.
    let made = gateway.ready_index().unwrap();
    assert!(Arc::ptr_eq(&made, &gateway.searchable_catalog().await));
}
