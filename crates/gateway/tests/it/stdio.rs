//! Tests of well-behaved programs: calls, listings, memory, the process itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use ringfence_gateway::{
    PinComparison, ProtocolEra, ServerCache, ServerError, ServerEvent, Servers, SpawnError, SpawnRequest,
    SpawnedServer, Spawner, UpstreamCallError, UpstreamHealth, UpstreamOptions, Upstreams,
};
use serde_json::json;

use crate::harness::{bench, bench_at, entry};

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_called_in_either_protocol() {
    let bench = bench(&json!({"old": entry("echo"), "new": entry("modern")}));
    for (server, era) in [("old", ProtocolEra::Legacy), ("new", ProtocolEra::Modern)] {
        assert!(matches!(bench.upstreams.health(server), Ok(UpstreamHealth::Idle)));
        assert_eq!(
            bench.value(server, "echo", json!({"text": "hello"})).await,
            json!("hello")
        );
        let data = bench.value(server, "structured", json!({"a": [1, null]})).await;
        assert_eq!(data, json!({"given": {"a": [1, null]}}));
        let condition = bench.upstreams.health(server).unwrap();
        assert!(
            matches!(condition, UpstreamHealth::Connected { era: Some(seen) } if seen == era),
            "{condition:?}"
        );
    }
    let image = bench.value("old", "image", json!({})).await;
    assert_eq!(
        image,
        json!([{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_only_the_environment_it_was_given() {
    let bench = bench(&json!({"one": entry("echo")}));
    let env = bench.value("one", "env", json!({})).await;
    let names: Vec<_> = env.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["PATH", "UPSTREAM_KEY"]);
    // The server was given it, and it does not come back.
    assert_eq!(env["UPSTREAM_KEY"], "[redacted]");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_starts_in_the_folder_of_its_entry() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(crate::harness::program(), folder.path().join("upstream")).unwrap();
    let entry = json!({"command": "/bin/sh", "args": ["-c", "exec ./upstream echo"]});
    let mut there = entry.clone();
    there["cwd"] = json!(folder.path());
    let bench = bench(&json!({"there": there, "elsewhere": entry}));
    assert_eq!(
        bench.value("there", "echo", json!({"text": "here"})).await,
        json!("here")
    );
    // The control: the current folder has no such program.
    let error = bench.upstreams.ensure_connected("elsewhere").await.unwrap_err();
    assert!(matches!(error, ServerError::Closed { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_errors_never_hold_a_credential() {
    let bench = bench(&json!({"one": entry("echo"), "two": entry("crash 0")}));
    let refused = bench.call("one", "refuse", json!({})).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "server `one` refused `refuse`: refused with [redacted] (-32602)"
    );
    let crashed = bench.call("two", "echo", json!({})).await.unwrap_err().to_string();
    assert!(
        crashed.contains("server `two`") && crashed.contains("exit code 1"),
        "{crashed}"
    );
    assert!(crashed.contains("its key was [redacted]"), "{crashed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_listing_is_remembered() {
    let entries = json!({"one": entry("echo"), "pins": entry("modern")});
    let first = bench(&entries);
    let (known, failed) = first.upstreams.list_unlisted().await;
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(known.catalog.tools().len(), 20);
    let again = bench_at(&entries, first.home.clone());
    assert_eq!(again.names(), first.names());
    assert!(!again.upstreams.is_fresh("one"));
    assert!(matches!(again.upstreams.health("one"), Ok(UpstreamHealth::Idle)));
    let other = bench_at(&json!({"one": entry("huge")}), first.home.clone());
    assert!(other.names().is_empty(), "another entry under the name begins anew");
    std::fs::write(first.home.path().join("catalog/one.json"), "{ broken").unwrap();
    let damaged = bench_at(&entries, first.home.clone());
    assert_eq!(damaged.names().len(), 10);
    let (known, _) = damaged.upstreams.list_unlisted().await;
    assert_eq!(known.catalog.tools().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_parallel_on_one_connection() {
    let bench = bench(&json!({"one": entry("echo")}));
    bench.upstreams.ensure_connected("one").await.unwrap();
    let start = Instant::now();
    let calls = (0..50).map(|_| bench.value("one", "slow", json!({"ms": 300})));
    let answers = futures::future::join_all(calls).await;
    assert!(answers.iter().all(|answer| *answer == json!("done")));
    // One after another they would take fifteen seconds.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_tool_is_seen_told_and_pinned() {
    let bench = bench(&json!({"one": entry("drift")}));
    let mut events = bench.upstreams.events();
    let (known, _) = bench.upstreams.list_unlisted().await;
    let echo = known.catalog.get("one.echo").unwrap();
    assert_eq!(bench.upstreams.pin(echo).unwrap(), PinComparison::New);
    assert_eq!(bench.upstreams.pin(echo).unwrap(), PinComparison::Same);
    bench.value("one", "change", json!({})).await;
    let event = tokio::time::timeout(Duration::from_secs(10), events.recv())
        .await
        .unwrap()
        .unwrap();
    let changed = ServerEvent::Changed {
        server: "one".to_owned(),
        changed: vec!["echo".to_owned()],
        added: vec![],
        gone: vec![],
    };
    assert_eq!(event, changed);
    let known = bench.upstreams.snapshot();
    let echo = known.catalog.get("one.echo").unwrap();
    assert!(matches!(
        bench.upstreams.pin(echo).unwrap(),
        PinComparison::Changed { .. }
    ));
    bench.upstreams.accept(echo).unwrap();
    assert_eq!(bench.upstreams.pin(echo).unwrap(), PinComparison::Same);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_changed_between_days_is_not_called_unseen() {
    let entries = json!({"one": entry("echo")});
    let first = bench(&entries);
    first.upstreams.list_unlisted().await;
    let path = first.home.path().join("catalog/one.json");
    let kept = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, kept.replace("Says the text again.", "Says it.")).unwrap();
    let second = bench_at(&entries, first.home.clone());
    let refused = second.call("one", "echo", json!({"text": "x"})).await.unwrap_err();
    assert!(matches!(refused, UpstreamCallError::Changed { .. }), "{refused}");
    assert_eq!(second.value("one", "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_a_program_started_dies_with_the_connection() {
    let bench = bench(&json!({"one": entry("echo")}));
    let child = bench.value("one", "child", json!({})).await;
    let process = format!("/proc/{}/cmdline", child["pid"]);
    let runs = || std::fs::read_to_string(&process).is_ok_and(|line| line.contains("sleep"));
    let deadline = Instant::now() + Duration::from_secs(10);
    // A process has no name for a moment while it is being started.
    while !runs() {
        assert!(Instant::now() < deadline, "the child never ran");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.upstreams.close();
    let deadline = Instant::now() + Duration::from_secs(10);
    while runs() {
        assert!(Instant::now() < deadline, "the child lives on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tools_are_taken_and_one_more_is_not() {
    let bench = bench(&json!({"huge": entry("huge"), "more": entry("too-many"), "endless": entry("endless")}));
    let (known, failed) = bench.upstreams.list_unlisted().await;
    assert_eq!(known.catalog.tools().len(), 10_000);
    let texts: Vec<String> = failed.values().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "server `endless`: more than 1000 pages of tools",
            "server `more`: more than 10000 tools"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_server_and_what_was_meant() {
    let mut sandboxed = entry("echo");
    sandboxed["policy"] = json!("small");
    let bench = bench(&json!({
        "absent": {"command": "no-such-program-anywhere"},
        "key": {"command": "x", "env": {"A": "env:NOT_SET"}},
        "boxed": sandboxed,
    }));
    for (server, text) in [
        ("absnt", "no server is named `absnt`; did you mean `absent`?"),
        (
            "absent",
            "server `absent`: cannot start `no-such-program-anywhere`: no such program on `PATH`",
        ),
        ("key", "server `key`: `env.A`: the variable `NOT_SET` is not set"),
        (
            "boxed",
            "server `boxed`: its policy `small` needs a sandbox, and there is none here",
        ),
    ] {
        let error = bench.upstreams.ensure_connected(server).await.unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    assert!(matches!(
        bench.upstreams.ensure_connected("nobody").await,
        Err(ServerError::Unknown { nearest: None, .. })
    ));
}

/// The cost of a call above the server's own: printed, and too small for a program to notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_one_after_another_are_cheap() {
    let bench = bench(&json!({"one": entry("echo")}));
    bench.upstreams.ensure_connected("one").await.unwrap();
    let start = Instant::now();
    for _ in 0..1_000 {
        assert_eq!(bench.value("one", "echo", json!({"text": "x"})).await, json!("x"));
    }
    let taken = start.elapsed();
    eprintln!("1,000 sequential calls: {taken:?}");
    assert!(taken < Duration::from_secs(20), "{taken:?}");
}

/// Starts programs without a sandbox, where a test needs none.
struct Bare;

impl Spawner for Bare {
    fn spawn<'a>(&'a self, spawn: SpawnRequest<'a>) -> BoxFuture<'a, Result<SpawnedServer, SpawnError>> {
        let mut command = tokio::process::Command::new(spawn.command);
        let piped = std::process::Stdio::piped;
        let command = command.args(spawn.args).stdin(piped()).stdout(piped()).stderr(piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let spawned = SpawnedServer {
            stdout: Box::new(child.stdout.take().unwrap()),
            stdin: Box::new(child.stdin.take().unwrap()),
            stderr: Some(Box::new(child.stderr.take().unwrap())),
            guard: Box::new(std::sync::Mutex::new(child)),
        };
        Box::pin(async { Ok(spawned) })
    }
}

#[tokio::test]
async fn the_last_words_of_a_server_in_a_sandbox_are_in_its_failure() {
    let script = "echo 'no module named x, key s3cr3t-value' >&2; exit 3";
    let entries = json!({"one": {
        "command": "/bin/sh", "args": ["-c", script], "env": {"UPSTREAM_KEY": "env:KEY"}, "policy": "fenced",
    }});
    let home = tempfile::tempdir().unwrap();
    let servers = Servers::from_section(&entries, home.path()).unwrap();
    let mut options = UpstreamOptions::new(Arc::new(|name| (name == "KEY").then(|| "s3cr3t-value".to_owned())));
    options.spawner = Some(Arc::new(Bare));
    let upstreams = Upstreams::new(servers, ServerCache::new(home.path()), options);
    let said = upstreams.ensure_connected("one").await.unwrap_err().to_string();
    assert!(said.contains("its last words:\nno module named x, key "), "{said}");
    assert!(!said.contains("s3cr3t-value"), "{said}");
}
