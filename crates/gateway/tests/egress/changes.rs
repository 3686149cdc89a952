//! Tests of policy changes during a session.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{ask, code, connect, shake, status, tls};
use crate::rig::{policy, rig, tests};

const BOTH: &str = "allowlist: [web.example.com, other.example.com, { host: web.example.com, scheme: http }]";
const ENDLESS: &str = "GET /endless HTTP/1.1\r\nHost: web.example.com\r\n\r\n";
const GET: &str = "GET http://web.example.com/ HTTP/1.1\r\nHost: web.example.com\r\n\r\n";

/// Reads until nothing more comes. Returns whether the stream ended.
async fn ends(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> bool {
    let drain = async {
        let mut buffer = vec![0; 65536];
        while let Ok(1..) = stream.read(&mut buffer).await {}
    };
    tokio::time::timeout(Duration::from_secs(20), drain).await.is_ok()
}

tests! {
    async fn a_change_closes_what_it_forbids_and_nothing_else() {
        let rig = rig(BOTH).await;
        let mut open = Vec::new();
        for host in ["web.example.com", "other.example.com"] {
            let mut stream = rig.open();
            connect(&mut stream, &format!("{host}:443")).await;
            let mut stream = shake(stream, tls(&rig.world.pem, &["http/1.1"]), host).await.unwrap();
            stream.write_all(ENDLESS.as_bytes()).await.unwrap();
            let mut some = [0; 2000];
            stream.read_exact(&mut some).await.unwrap();
            open.push(stream);
        }
        let mut plain = rig.open();
        plain.write_all(GET.replace("com/ ", "com/endless ").as_bytes()).await.unwrap();
        let mut some = [0; 2000];
        plain.read_exact(&mut some).await.unwrap();
        rig.egress.change_policy(policy("allowlist: [other.example.com]")).await;
        assert!(ends(&mut open[0]).await && ends(&mut plain).await, "what is forbidden is closed");
        open[1].read_exact(&mut some).await.unwrap();
        let answered = ask(&mut rig.open(), GET).await;
        assert_eq!((status(&answered), code(&answered).as_str()), (403, "net.denied"));
        drop(open);
        let lines = rig.closed().await;
        assert_eq!(lines.iter().filter(|line| line.ends_with("net.denied")).count(), 2, "{lines:#?}");
    }

    async fn rules_that_want_to_see_end_a_tunnel_that_was_not_seen() {
        let rig = rig(BOTH).await;
        let mut stream = rig.open();
        connect(&mut stream, "web.example.com:443").await;
        let mut stream = shake(stream, tls(&rig.world.pem, &["http/1.1"]), "web.example.com").await.unwrap();
        rig.egress.change_policy(policy("allowlist: [{ host: web.example.com, methods: [GET] }]")).await;
        assert!(ends(&mut stream).await);
    }

    async fn a_kept_connection_is_judged_by_the_rules_of_the_moment() {
        let rig = rig(BOTH).await;
        let mut stream = rig.open();
        assert_eq!(status(&ask(&mut stream, GET).await), 200);
        rig.egress.change_policy(policy("allowlist: [{ host: web.example.com, scheme: http, methods: [POST] }]")).await;
        assert_eq!(code(&ask(&mut stream, GET).await), "net.denied");
        rig.egress.change_policy(policy("allowlist: [{ host: '*.example.com', scheme: http }]")).await;
        assert_eq!(status(&ask(&mut stream, &GET.replace("web.", "other.")).await), 200);
    }

    async fn a_change_reaches_ended_tls_and_its_websockets() {
        let rig = rig("allowlist: [{ host: web.example.com, methods: [GET] }]").await;
        let mut streams = Vec::new();
        for _ in 0..2 {
            let mut stream = rig.open();
            connect(&mut stream, "web.example.com:443").await;
            streams.push(shake(stream, tls(rig.egress.ca_certificate(), &["http/1.1"]), "web.example.com").await.unwrap());
        }
        let upgrade = "GET /socket HTTP/1.1\r\nHost: web.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        assert_eq!(status(&ask(&mut streams[0], upgrade).await), 101);
        streams[1].write_all(ENDLESS.as_bytes()).await.unwrap();
        let mut some = [0; 2000];
        streams[1].read_exact(&mut some).await.unwrap();
        rig.egress.change_policy(policy("allowlist: [{ host: web.example.com, methods: [POST] }]")).await;
        for stream in &mut streams {
            assert!(ends(stream).await);
        }
        let lines = rig.closed().await;
        assert_eq!(lines.iter().filter(|line| line.ends_with("net.denied")).count(), 2, "{lines:#?}");
    }

    async fn a_program_that_does_not_read_does_not_keep_a_forbidden_connection() {
        let rig = rig("allowlist: [{ host: web.example.com, methods: [GET] }, { host: web.example.com, scheme: http }]").await;
        let mut plain = rig.open();
        plain.write_all(GET.replace("com/ ", "com/flood ").as_bytes()).await.unwrap();
        let mut ended = rig.open();
        connect(&mut ended, "web.example.com:443").await;
        let mut ended = shake(ended, tls(rig.egress.ca_certificate(), &["http/1.1"]), "web.example.com").await.unwrap();
        ended.write_all(ENDLESS.replace("endless", "flood").as_bytes()).await.unwrap();
        // Both responses have begun, and continue until the reader stops.
        let mut some = [0; 2000];
        plain.read_exact(&mut some).await.unwrap();
        ended.read_exact(&mut some).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let begun = std::time::Instant::now();
        rig.egress.change_policy(policy("allowlist: [other.example.com]")).await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        let lines = rig.closed().await;
        assert_eq!(lines.iter().filter(|line| *line == "ended 200 net.denied").count(), 2, "{lines:#?}");
        assert!(ends(&mut plain).await && ends(&mut ended).await);
    }

    async fn addresses_are_judged_again() {
        let rig = rig("allowlist: [{ host: db.example.net, scheme: http, addresses: ['10.1.0.0/16'] }]").await;
        rig.names.a("db.example.net", "10.1.2.3");
        let mut stream = rig.open();
        let request = "GET http://db.example.net/endless HTTP/1.1\r\nHost: db.example.net\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut some = [0; 2000];
        stream.read_exact(&mut some).await.unwrap();
        rig.egress.change_policy(policy("allowlist: [{ host: db.example.net, scheme: http }]")).await;
        assert!(ends(&mut stream).await);
        assert_eq!(code(&ask(&mut rig.open(), request).await), "net.address");
    }

    async fn changes_while_requests_come_never_let_one_through_that_is_forbidden() {
        let rig = Arc::new(rig(BOTH).await);
        let asking = {
            let rig = Arc::clone(&rig);
            tokio::spawn(async move {
                for number in 0..200 {
                    ask(&mut rig.open(), &GET.replace("com/ ", &format!("com/{number} "))).await;
                }
            })
        };
        for _ in 0..20 {
            rig.egress.change_policy(policy("allowlist: [other.example.com]")).await;
            let started = rig.started();
            rig.closed().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(rig.started(), started, "nothing starts while it is forbidden");
            rig.egress.change_policy(policy(BOTH)).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        asking.await.unwrap();
        // A request that left before a change may arrive at any time after it; one that never started never arrives.
        let lines = rig.book.lines();
        for request in rig.world.requests() {
            let path = request.rsplit(' ').next().unwrap();
            let started = format!("started http://web.example.com:80 GET {path} at 93.184.216.34");
            assert!(lines.contains(&started), "{request}: {lines:#?}");
        }
    }
}
