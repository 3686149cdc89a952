//! Clients that use too much: large, slow, many, or without reading.

use std::time::{Duration, Instant};

use ringfence_engine::storage::AccessScope;
use ringfence_server::HttpLimits;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::wire::{TEST_TIMEOUT, exchange, head, read_all, reply, send};
use crate::world::World;

/// The memory of this process, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn a_body_of_100_mb_is_refused_and_not_kept() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let before = memory();
    for chunked in [false, true] {
        let how = if chunked {
            ("Transfer-Encoding", "chunked")
        } else {
            ("Content-Length", "104857600")
        };
        for path in ["/api/v1/runs", "/mcp"] {
            let headers = [
                ("Authorization", me.bearer.as_str()),
                ("Content-Type", "application/json"),
                how,
            ];
            let stream = TcpStream::connect(world.address).await.unwrap();
            let (mut read, mut write) = stream.into_split();
            let sender = tokio::spawn({
                let text = head("POST", path, &headers);
                async move {
                    write.write_all(text.as_bytes()).await.unwrap();
                    let mib = vec![b' '; 1 << 20];
                    for _ in 0..100 {
                        let sent = async {
                            if chunked {
                                write.write_all(b"100000\r\n").await?;
                            }
                            write.write_all(&mib).await?;
                            if chunked {
                                write.write_all(b"\r\n").await?;
                            }
                            Ok::<(), std::io::Error>(())
                        };
                        if sent.await.is_err() {
                            return;
                        }
                    }
                }
            });
            let mut answer = Vec::new();
            let _ = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut answer).await;
            sender.await.unwrap();
            let answer = reply(&answer);
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (413, "http.size"),
                "{path} {chunked}"
            );
        }
    }
    let more = memory().saturating_sub(before);
    assert!(more < 40 << 20, "{more} bytes more");
}

#[tokio::test]
async fn the_configured_body_limit_is_the_only_one() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    for (mib, expected) in [(3, (200, String::new())), (5, (413, "http.size".to_owned()))] {
        let body = format!(r#"{{"language":"js","code":"1"{}}}"#, " ".repeat(mib << 20));
        let answer = me.send("POST", "/api/v1/runs", &body).await;
        let code = if answer.status == 200 {
            String::new()
        } else {
            answer.code()
        };
        assert_eq!((answer.status, code), expected, "{mib} MiB");
    }
    // A larger limit works too: no other limit refuses such a request.
    let limits = HttpLimits {
        body: 8 << 20,
        ..HttpLimits::default()
    };
    let world = World::with(limits).await;
    let me = world.holder("me", AccessScope::Agent).await;
    let body = format!(r#"{{"language":"js","code":"1"{}}}"#, " ".repeat(7 << 20));
    assert_eq!(me.send("POST", "/api/v1/runs", &body).await.status, 200);
}

#[tokio::test]
async fn bodies_together_have_a_weight() {
    let limits = HttpLimits {
        bodies: 8 << 10,
        ..HttpLimits::default()
    };
    let world = World::with(limits).await;
    let me = world.holder("me", AccessScope::Agent).await;
    let body = format!(r#"{{"language":"js","code":"1{}"}}"#, " ".repeat(20_000));
    let refused = me.send("POST", "/api/v1/runs", &body).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "http.full"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    // The memory is released.
    for _ in 0..5 {
        assert_eq!(me.run("js", "1").await.status, 200);
    }
}

#[tokio::test]
async fn a_client_that_sends_slowly_is_let_go() {
    let limits = HttpLimits {
        headers: Duration::from_millis(300),
        receive: Duration::from_millis(300),
        ..HttpLimits::default()
    };
    let world = World::with(limits).await;
    let me = world.holder("me", AccessScope::Agent).await;
    // Half a head without more, nothing at all, and single bytes at intervals.
    for begun in ["GET /healthz HTTP/1.1\r\nHost: local", ""] {
        let started = Instant::now();
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        read_all(&mut stream).await;
        assert!(started.elapsed() < Duration::from_secs(5), "{begun}");
    }
    let started = Instant::now();
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nX: ").await.unwrap();
    while stream.write_all(b"a").await.is_ok() {
        assert!(started.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The body never arrives.
    let headers = [("Authorization", me.bearer.as_str()), ("Content-Length", "100")];
    let text = head("POST", "/api/v1/runs", &headers) + "{";
    let answer = reply(&exchange(world.address, text.as_bytes()).await);
    assert_eq!((answer.status, answer.code().as_str()), (408, "http.slow"));
    assert_eq!(me.get("/api/v1/runs").await.status, 200);
}

#[tokio::test]
async fn headers_have_a_number_and_a_size() {
    let world = World::new().await;
    let many = (0..200).fold(String::new(), |text, n| text + "X-" + &n.to_string() + ": 1\r\n");
    let long = format!("X: {}\r\n", "a".repeat(200_000));
    for more in [many, long] {
        let text = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
        let answer = reply(&exchange(world.address, text.as_bytes()).await);
        assert_eq!(answer.status, 431);
    }
    assert_eq!(send(world.address, "GET", "/healthz", &[], "").await.status, 200);
}

#[tokio::test]
async fn one_token_has_its_share_and_others_have_theirs() {
    let limits = HttpLimits {
        requests: 2,
        ..HttpLimits::default()
    };
    let world = World::with(limits).await;
    let (me, other) = (
        world.holder("me", AccessScope::Agent).await,
        world.holder("other", AccessScope::Agent).await,
    );
    let streams = (
        me.events("/api/v1/events", &[]).await,
        me.events("/api/v1/events", &[]).await,
    );
    let refused = me.get("/api/v1/runs").await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "http.busy"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(other.get("/api/v1/runs").await.status, 200);
    drop(streams);
    let deadline = Instant::now() + Duration::from_secs(20);
    while me.get("/api/v1/runs").await.status != 200 {
        assert!(Instant::now() < deadline, "the places are not given back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_token_that_asks_too_often_is_told_when_to_come_back() {
    let limits = HttpLimits {
        rate: 1,
        ..HttpLimits::default()
    };
    let world = World::with(limits).await;
    let (me, other) = (
        world.holder("me", AccessScope::Viewer).await,
        world.holder("other", AccessScope::Viewer).await,
    );
    let mut refused = None;
    for _ in 0..20 {
        let reply = me.get("/api/v1/runs").await;
        if reply.status == 429 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.unwrap();
    assert_eq!(
        (refused.code().as_str(), refused.header("retry-after")),
        ("http.rate", Some("1"))
    );
    assert_eq!(other.get("/api/v1/runs").await.status, 200);
}

#[tokio::test]
async fn too_many_connections_are_turned_away_with_a_word() {
    let limits = HttpLimits {
        connections: 2,
        ..HttpLimits::default()
    };
    let world = World::with(limits).await;
    let me = world.holder("me", AccessScope::Viewer).await;
    let held = (
        me.events("/api/v1/events", &[]).await,
        me.events("/api/v1/events", &[]).await,
    );
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let answer = reply(&read_all(&mut stream).await);
    assert_eq!((answer.status, answer.code().as_str()), (503, "http.connections"));
    drop(held);
    let deadline = Instant::now() + Duration::from_secs(10);
    while send(world.address, "GET", "/healthz", &[], "").await.status != 200 {
        assert!(Instant::now() < deadline);
    }
}

#[tokio::test]
async fn half_sent_heads_make_room_for_a_request() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Viewer).await;
    // A stream in progress is not an idle connection, so it stays.
    let mut events = me.events("/api/v1/events", &[]).await;
    let mut held = Vec::new();
    for _ in 0..600 {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: local").await.unwrap();
        held.push(stream);
    }
    for _ in 0..3 {
        let asked = send(world.address, "GET", "/healthz", &[], "");
        let answer = tokio::time::timeout(Duration::from_secs(2), asked).await.unwrap();
        assert_eq!(answer.status, 200);
    }
    assert_eq!(me.get("/api/v1/runs").await.status, 200);
    let next = tokio::time::timeout(Duration::from_millis(300), events.next()).await;
    assert!(next != Ok(None), "a stream under way was closed to make room");
}

#[tokio::test]
async fn idle_connections_make_room_for_a_request() {
    let limits = HttpLimits {
        connections: 4,
        ..HttpLimits::default()
    };
    let world = World::with(limits).await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        stream.write_all(head("GET", "/healthz", &[]).as_bytes()).await.unwrap();
        let mut answer = [0; 1024];
        assert!(tokio::io::AsyncReadExt::read(&mut stream, &mut answer).await.unwrap() > 0);
        idle.push(stream);
    }
    let asked = send(world.address, "GET", "/healthz", &[], "");
    let answer = tokio::time::timeout(Duration::from_secs(2), asked).await.unwrap();
    assert_eq!(answer.status, 200);
    // The connection that was idle longest is closed; the newest still gets an answer.
    assert_eq!(read_all(&mut idle[0]).await, b"");
    let text = head("GET", "/healthz", &[("Connection", "close")]);
    idle[3].write_all(text.as_bytes()).await.unwrap();
    assert_eq!(reply(&read_all(&mut idle[3]).await).status, 200);
}

#[tokio::test]
async fn a_client_that_never_reads_is_let_go_and_gives_its_place_back() {
    let limits = HttpLimits {
        send: Duration::from_millis(500),
        requests: 1,
        ..HttpLimits::default()
    };
    let world = World::with(limits).await;
    let me = world.holder("me", AccessScope::Agent).await;
    let run = me.run("javascript", "console.log('x'.repeat(900_000))").await;
    let place = run.header("location").unwrap().to_owned();
    // Forty requests for nearly a megabyte at once, without reading any of it.
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let text = head("GET", &place, &[("Authorization", me.bearer.as_str())]).repeat(40);
    stream.write_all(text.as_bytes()).await.unwrap();
    let deadline = Instant::now() + TEST_TIMEOUT;
    tokio::time::sleep(Duration::from_secs(1)).await;
    while me.get("/api/v1/runs").await.status != 200 {
        assert!(Instant::now() < deadline, "it is still waited for");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(read_all(&mut stream).await.len() < 40 * 900_000);
}

#[tokio::test]
async fn refused_requests_leave_no_memory_behind() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let variables: serde_json::Map<_, _> = (0..60_000)
        .map(|number| (format!("K{number}"), "v".repeat(20).into()))
        .collect();
    let body = serde_json::json!({ "language": "js", "code": "1", "env": variables }).to_string();
    let names: serde_json::Map<_, _> = (0..5000).map(|number| (format!("{number:x}"), "".into())).collect();
    let misnamed = serde_json::json!({ "language": "js", "code": "1", "sandbox_policy": { "env": names } }).to_string();
    let refused = |answer: crate::wire::Reply, codes: &[&str]| {
        let told = answer.json();
        assert_eq!((answer.status, &told["status"]), (200, &"refused".into()), "{told}");
        assert!(codes.contains(&told["error"]["code"].as_str().unwrap()), "{told}");
        assert!(told.to_string().len() < 30 << 10);
    };
    for _ in 0..3 {
        refused(me.send("POST", "/api/v1/runs", &body).await, &["policy.size"]);
    }
    let before = memory();
    for _ in 0..15 {
        refused(me.send("POST", "/api/v1/runs", &body).await, &["policy.size"]);
        let misnamed = me.send("POST", "/api/v1/runs", &misnamed).await;
        refused(misnamed, &["policy.parse", "policy.bounds", "policy.ceiling"]);
    }
    let more = memory().saturating_sub(before);
    assert!(more < 96 << 20, "{more} bytes more");
}

#[tokio::test]
async fn a_flood_of_refused_runs_is_answered_with_429() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let body = r#"{"language":"js","code":"1","sandbox_policy":{"proc":{"mem_limit":"900GiB"}}}"#;
    let mut answers = 0;
    let last = loop {
        let answer = me.send("POST", "/api/v1/runs", body).await;
        answers += 1;
        if answer.status != 200 || answers > 150 {
            break answer;
        }
    };
    assert!(answers > 100, "{answers}");
    assert_eq!((last.status, last.code().as_str()), (429, "limit.refused"), "{last:?}");
    assert_eq!(last.header("retry-after"), Some("6"));
    assert!(last.json()["hint"].as_str().unwrap().contains("wait"), "{last:?}");
    assert_eq!(me.run("js", "1").await.status, 200);
}
