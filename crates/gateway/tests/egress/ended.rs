//! Tests of TLS that the proxy terminates because rules require inspection.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::client::TlsStream;

use crate::client::{ask, code, connect, shake, status, tls};
use crate::rig::{Rig, rig, tests};

const RULES: &str =
    "allowlist: [{ host: web.example.com, methods: [GET], paths: ['/repos/**', '/socket', '/redirect', '/forged'] }]";

async fn tunnel(rig: &Rig, place: &str, alpn: &str) -> TlsStream<DuplexStream> {
    let mut stream = rig.open();
    connect(&mut stream, place).await;
    let name = place.split(':').next().unwrap();
    shake(stream, tls(rig.egress.ca_certificate(), &[alpn]), name)
        .await
        .unwrap()
}

async fn two(rig: &Rig) -> SendRequest<Full<Bytes>> {
    let stream = tunnel(rig, "web.example.com:443", "h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// Sends a request over HTTP/2. Returns the status and the refusal's code.
async fn over_two(sender: &mut SendRequest<Full<Bytes>>, method: &str, uri: &str, host: Option<&str>) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(uri);
    if let Some(host) = host {
        request = request.header("host", host);
    }
    let response = sender
        .send_request(request.body(Full::default()).unwrap())
        .await
        .unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let sort = head
        .headers
        .get("x-ringfence-code")
        .map(|code| code.to_str().unwrap().to_owned());
    if let Some(sort) = &sort {
        let told: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(told["code"], sort.as_str());
    }
    (head.status.as_u16(), sort.unwrap_or_default())
}

tests! {
    async fn methods_and_paths_are_judged_inside_tls() {
        let rig = rig(RULES).await;
        let mut stream = tunnel(&rig, "web.example.com:443", "http/1.1").await;
        let host = "Host: web.example.com\r\n";
        for (line, wanted) in [
            ("GET /repos/a/b?c=d", ""),
            ("HEAD /repos/a", ""),
            ("POST /repos/a", "net.denied"),
            ("GET /users/a", "net.denied"),
            ("GET /repos/../users/a", "net.path"),
            ("GET /repos/%2e%2e/users", "net.path"),
            ("GET /repos/a%2fb", "net.path"),
            ("GET /repos//a", "net.path"),
            ("GET /repos/%c0%ae%c0%ae/users", "net.path"),
            ("GET /repos/%ef%bc%8e%ef%bc%8e/users", "net.path"),
            ("GET /repos/%e2%80%a5/users", "net.path"),
            ("GET /repos/..%ef%bc%8fusers", "net.path"),
            ("GET /repos/%c3%a9", ""),
            ("GET /repos/a;b", "net.path"),
            ("PROPFIND /repos/a", "net.denied"),
            ("GET /repos/%7Euser", ""),
        ] {
            stream.write_all(format!("{line} HTTP/1.1\r\n{host}\r\n").as_bytes()).await.unwrap();
            let answered = if line.starts_with("HEAD") { head_only(&mut stream).await } else { crate::client::answer(&mut stream).await };
            if wanted.is_empty() {
                assert_eq!(status(&answered), 200, "{line}: {answered}");
            } else {
                assert_eq!(code(&answered), wanted, "{line}");
            }
        }
        let answered = ask(&mut stream, &format!("GET /repos/a HTTP/1.1\r\n{host}X-HTTP-Method-Override: DELETE\r\n\r\n")).await;
        assert_eq!(code(&answered), "net.denied");
        let expected = ["GET web.example.com /repos/a/b?c=d", "HEAD web.example.com /repos/a", "GET web.example.com /repos/%C3%A9", "GET web.example.com /repos/~user"];
        assert_eq!(rig.world.requests(), expected, "what was judged is what is sent");
        assert_eq!(rig.world.connections().len(), 1);
        assert_eq!(rig.world.last()["version"], "HTTP/2.0", "the best that both sides speak");
        drop(stream);
        let lines = rig.closed().await;
        assert_eq!(lines[0], "started https://web.example.com:443 GET /repos/a/b at 93.184.216.34", "no query is kept");
        assert!(lines.contains(&"refused https://web.example.com:443 POST /repos/a net.denied net.default".to_owned()), "{lines:#?}");
    }

    async fn http_2_is_judged_request_by_request() {
        let rig = rig(RULES).await;
        let mut sender = two(&rig).await;
        let good = "https://web.example.com/repos/a";
        assert_eq!(over_two(&mut sender, "GET", good, None).await, (200, String::new()));
        assert_eq!(over_two(&mut sender, "HEAD", good, None).await, (200, String::new()));
        let answer = head_over_two(&mut sender, "https://web.example.com/users").await;
        assert_eq!(answer, (403, "net.denied".to_owned()));
        assert_eq!(over_two(&mut sender, "DELETE", good, None).await, (403, "net.denied".to_owned()));
        let mismatch = (421, "net.authority".to_owned());
        assert_eq!(over_two(&mut sender, "GET", "https://other.example.com/repos/a", None).await, mismatch);
        assert_eq!(over_two(&mut sender, "GET", good, Some("other.example.com")).await, mismatch);
        assert_eq!(over_two(&mut sender, "GET", "https://web.example.com:444/repos/a", None).await, mismatch);
        assert_eq!(over_two(&mut sender, "GET", "http://web.example.com/repos/a", None).await, mismatch);
        assert_eq!(over_two(&mut sender, "GET", "https://WEB.example.com./repos/b", None).await.0, 200);
        assert_eq!(rig.world.requests(), ["GET web.example.com /repos/a", "HEAD web.example.com /repos/a", "GET web.example.com /repos/b"]);
    }

    async fn the_authority_of_each_request_is_the_tunnels() {
        let rig = rig("allowlist: [{ host: web.example.com, methods: [GET] }, other.example.com]").await;
        let mut stream = tunnel(&rig, "web.example.com:443", "http/1.1").await;
        for host in ["other.example.com", "web.example.com:8443", "web.example.com.evil.example.net"] {
            let answered = ask(&mut stream, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
            assert_eq!((status(&answered), code(&answered).as_str()), (421, "net.authority"), "{host}");
        }
        let answered = ask(&mut stream, "GET / HTTP/1.1\r\nHost: web.example.com:443\r\n\r\n").await;
        assert_eq!(status(&answered), 200);
    }

    async fn a_host_that_speaks_only_http_1_serves_many_requests_at_once() {
        let rig = rig("allowlist: [{ host: old.example.com, ports: [8443], methods: [GET] }]").await;
        rig.names.a("old.example.com", "93.184.216.34");
        let stream = tunnel(&rig, "old.example.com:8443", "h2").await;
        let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let all = (0..20).map(|number| {
            let mut sender = sender.clone();
            async move { over_two(&mut sender, "GET", &format!("https://old.example.com:8443/{number}"), None).await }
        });
        let answers = futures::future::join_all(all).await;
        assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
        assert_eq!(rig.world.requests().len(), 20);
        assert_eq!(rig.world.last()["version"], "HTTP/1.1");
    }

    async fn a_host_with_a_wrong_certificate_is_not_spoken_to() {
        let rig = rig("allowlist: [{ host: web.example.com, ports: [9443], methods: [GET] }]").await;
        let mut stream = tunnel(&rig, "web.example.com:9443", "http/1.1").await;
        let answered = ask(&mut stream, "GET / HTTP/1.1\r\nHost: web.example.com:9443\r\n\r\n").await;
        assert_eq!((status(&answered), code(&answered).as_str()), (502, "net.tls"));
        assert!(rig.world.requests().is_empty());
        drop(stream);
        let lines = rig.closed().await;
        assert_eq!(lines[1..], ["ended - net.tls"], "{lines:#?}");
    }

    async fn only_this_session_trusts_its_certificates() {
        let rig = rig(RULES).await;
        let other = crate::rig::rig_beside(&rig, RULES);
        assert_ne!(rig.egress.ca_certificate(), other.ca_certificate());
        let mut stream = rig.open();
        connect(&mut stream, "web.example.com:443").await;
        let error = shake(stream, tls(other.ca_certificate(), &[]), "web.example.com").await.unwrap_err();
        assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
        assert!(rig.world.connections().is_empty());
    }

    async fn a_websocket_is_judged_as_its_get_and_then_carried() {
        let rig = rig(RULES).await;
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let mut stream = tunnel(&rig, "web.example.com:443", "http/1.1").await;
        let answered = ask(&mut stream, &format!("GET /socket HTTP/1.1\r\nHost: web.example.com\r\n{upgrade}{key}\r\n")).await;
        assert_eq!(status(&answered), 101, "{answered}");
        stream.write_all(b"hello").await.unwrap();
        let mut echo = [0; 5];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(&echo, b"hello");
        drop(stream);
        assert_eq!(rig.closed().await, ["started https://web.example.com:443 GET /socket at 93.184.216.34", "ended 101 -"]);
        // Without permission for the path there is no upgrade.
        let mut stream = tunnel(&rig, "web.example.com:443", "http/1.1").await;
        let answered = ask(&mut stream, &format!("GET /else HTTP/1.1\r\nHost: web.example.com\r\n{upgrade}{key}\r\n")).await;
        assert_eq!(code(&answered), "net.denied");
        // A host with an invalid WebSocket answer is rejected.
        let mut stream = tunnel(&rig, "web.example.com:443", "http/1.1").await;
        let other = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
        let answered = ask(&mut stream, &format!("GET /socket HTTP/1.1\r\nHost: web.example.com\r\n{upgrade}{other}\r\n")).await;
        assert_eq!((status(&answered), code(&answered).as_str()), (502, "net.unreachable"));
    }

    async fn a_redirect_is_passed_on_and_judged_when_it_is_followed() {
        let rig = rig("allowlist: [{ host: web.example.com, scheme: http }]").await;
        let mut stream = rig.open();
        let answered = ask(&mut stream, "GET http://web.example.com/redirect HTTP/1.1\r\nHost: web.example.com\r\n\r\n").await;
        assert_eq!(status(&answered), 302);
        assert!(answered.contains("169.254.169.254"));
        let followed = ask(&mut stream, "GET http://169.254.169.254/latest HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n").await;
        assert_eq!((status(&followed), code(&followed).as_str()), (403, "net.denied"));
        assert_eq!(rig.world.connections().len(), 1);
    }

    async fn no_answer_from_outside_looks_like_our_own() {
        let rig = rig(RULES).await;
        let mut stream = tunnel(&rig, "web.example.com:443", "http/1.1").await;
        let answered = ask(&mut stream, "GET /forged HTTP/1.1\r\nHost: web.example.com\r\n\r\n").await;
        assert_eq!(status(&answered), 200);
        assert!(!answered.contains("x-ringfence-code") && !answered.contains("x-hop"), "{answered}");
    }

    async fn what_needs_a_person_is_refused() {
        let rig = rig("default: ask").await;
        let mut stream = rig.open();
        let answered = ask(&mut stream, "CONNECT web.example.com:443 HTTP/1.1\r\nHost: web.example.com\r\n\r\n").await;
        assert_eq!((status(&answered), code(&answered).as_str()), (403, "approval.needed"));
    }
}

/// Sends HEAD over HTTP/2: the refusal has no body, and its code is in the head.
async fn head_over_two(sender: &mut SendRequest<Full<Bytes>>, uri: &str) -> (u16, String) {
    let request = Request::head(uri).body(Full::default()).unwrap();
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    assert!(body.collect().await.unwrap().to_bytes().is_empty());
    let sort = head.headers["x-ringfence-code"].to_str().unwrap();
    (head.status.as_u16(), sort.to_owned())
}

/// Reads a response to HEAD, which has a length and no body.
async fn head_only(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(read).unwrap()
}
