//! Tests of limits, slow programs, and a journal that cannot be written.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{ask, code, connect, shake, status, tls};
use crate::rig::{limited, policy, rig, tests};

const WEB: &str = "allowlist: [web.example.com, { host: web.example.com, scheme: http }]";
const GET: &str = "GET http://web.example.com/ HTTP/1.1\r\nHost: web.example.com\r\n\r\n";

tests! {
    async fn connections_at_once_are_limited() {
        let rig = limited(WEB, "connections: 2").await;
        let mut first = rig.open();
        let mut second = rig.open();
        connect(&mut first, "web.example.com:443").await;
        connect(&mut second, "web.example.com:443").await;
        for _ in 0..3 {
            let answered = ask(&mut rig.open(), GET).await;
            assert_eq!((status(&answered), code(&answered).as_str()), (429, "limit.connections"));
        }
        let lines = rig.closed().await;
        assert_eq!(lines.iter().filter(|line| line.contains("limit.connections")).count(), 1, "{lines:#?}");
        drop(first);
        let let_in = async {
            while status(&ask(&mut rig.open(), GET).await) != 200 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), let_in).await.expect("its place is given back");
    }

    async fn requests_and_connections_in_a_minute_are_limited() {
        let rig = limited(WEB, "rate: 3/min").await;
        let mut stream = rig.open();
        for _ in 0..2 {
            assert_eq!(status(&ask(&mut stream, GET).await), 200);
        }
        connect(&mut rig.open(), "web.example.com:443").await;
        for _ in 0..3 {
            let answered = ask(&mut stream, GET).await;
            assert_eq!((status(&answered), code(&answered).as_str()), (429, "limit.rate"));
        }
        let answered = ask(&mut rig.open(), "CONNECT web.example.com:443 HTTP/1.1\r\nHost: web.example.com\r\n\r\n").await;
        assert_eq!(status(&answered), 429);
        let lines = rig.closed().await;
        assert_eq!(lines.iter().filter(|line| line.contains("limit.rate")).count(), 1, "{lines:#?}");
        assert_eq!(rig.world.requests().len(), 2);
    }

    async fn bytes_are_limited_over_the_whole_session() {
        let rig = limited(WEB, "bytes: 100000B").await;
        let mut stream = rig.open();
        stream.write_all(GET.replace("com/ ", "com/endless ").as_bytes()).await.unwrap();
        let mut got = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut got)).await.expect("cut off");
        assert!(got.len() < 120_000, "{}", got.len());
        let answered = ask(&mut rig.open(), GET).await;
        assert_eq!((status(&answered), code(&answered).as_str()), (403, "limit.egress"));
        let lines = rig.closed().await;
        assert!(lines.contains(&"ended 200 limit.egress".to_owned()), "{lines:#?}");
        assert_eq!(rig.world.requests().len(), 1);
    }

    async fn a_raw_tunnel_is_cut_at_the_limit_too() {
        let rig = limited(WEB, "bytes: 100000B").await;
        let mut stream = rig.open();
        connect(&mut stream, "web.example.com:443").await;
        let mut stream = shake(stream, tls(&rig.world.pem, &["http/1.1"]), "web.example.com").await.unwrap();
        stream.write_all(b"GET /endless HTTP/1.1\r\nHost: web.example.com\r\n\r\n").await.unwrap();
        let mut got = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut got)).await.expect("cut off");
        assert!(got.len() < 120_000, "{}", got.len());
        assert_eq!(rig.closed().await[1..], ["ended - limit.egress"]);
    }

    async fn another_execution_of_the_session_has_the_same_limits_and_its_own_numbers() {
        let rig = limited(WEB, "rate: 2/min").await;
        let other = std::sync::Arc::new(rig.egress.for_execution(ringfence_journal::ExecutionId::generate().unwrap(), policy(&format!("{WEB}, limits: {{ rate: 2/min }}"))));
        assert_eq!(rig.egress.ca_certificate(), other.ca_certificate());
        let (mut near, far) = tokio::io::duplex(1 << 16);
        let serving = std::sync::Arc::clone(&other);
        tokio::spawn(async move { serving.serve(far).await });
        assert_eq!(status(&ask(&mut near, GET).await), 200);
        assert_eq!(status(&ask(&mut rig.open(), GET).await), 200);
        assert_eq!(status(&ask(&mut rig.open(), GET).await), 429);
        drop(near);
        rig.closed().await;
        let events = rig.book.events.lock().unwrap();
        let executions: std::collections::BTreeSet<String> = events.iter().map(|event| format!("{:?}", event.execution)).collect();
        assert_eq!(executions.len(), 2);
    }

    async fn what_cannot_be_written_down_does_not_happen() {
        let rig = rig(WEB).await;
        let mut kept = rig.open();
        assert_eq!(status(&ask(&mut kept, GET).await), 200);
        let mut tunnel = rig.open();
        connect(&mut tunnel, "web.example.com:443").await;
        let before = rig.world.connections().len();
        rig.book.full.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        let mut got = String::new();
        kept.write_all(GET.as_bytes()).await.unwrap();
        let _ = kept.read_to_string(&mut got).await;
        assert_eq!(got, "", "no answer, and no request");
        let failed = tokio::time::timeout(Duration::from_secs(5), rig.egress.wait_for_failure()).await;
        assert!(failed.is_ok(), "whoever runs the execution is told");
        assert!(shake(tunnel, tls(&rig.world.pem, &[]), "web.example.com").await.is_err());
        assert!(ask(&mut rig.open(), GET).await.is_empty());
        assert_eq!(rig.world.requests().len(), 1);
        assert_eq!(rig.world.connections().len(), before, "nothing more was dialled");
        assert!(rig.egress.close().await.is_err());
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    async fn a_refusal_that_cannot_be_written_is_not_told() {
        let rig = rig(WEB).await;
        rig.book.full.store(true, Ordering::SeqCst);
        let answered = ask(&mut rig.open(), "CONNECT other.example.com:443 HTTP/1.1\r\nHost: other.example.com\r\n\r\n").await;
        assert_eq!(answered, "");
        assert!(rig.egress.close().await.is_err());
    }

    async fn a_hundred_connections_at_once_are_served() {
        let rig = rig(WEB).await;
        let all = (0..100).map(|_| {
            let mut stream = rig.open();
            async move { status(&ask(&mut stream, GET).await) }
        });
        let answers = futures::future::join_all(all).await;
        assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
        assert_eq!(rig.world.requests().len(), 100);
    }
}
