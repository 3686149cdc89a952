//! Tests of CONNECT and SOCKS5: the traffic of a tunnel must match its grant.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{answer, ask, code, connect, shake, status, tls};
use crate::rig::{rig, rig_with, tests};

const WEB: &str = "allowlist: [web.example.com, 93.184.216.35]";

/// Reads the rest of a stream.
async fn rest(mut stream: impl tokio::io::AsyncRead + Unpin) -> Vec<u8> {
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    let _ = tokio::time::timeout(std::time::Duration::from_secs(10), read)
        .await
        .expect("closed in time");
    rest
}

/// Returns a `ClientHello` with `encrypted_client_hello`.
fn hiding(name: &str) -> Vec<u8> {
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = rustls::ClientConnection::new(std::sync::Arc::new(tls("", &[])), name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    let mut place = 5 + 4 + 2 + 32;
    place += 1 + usize::from(bytes[place]);
    place += 2 + usize::from(u16::from_be_bytes([bytes[place], bytes[place + 1]]));
    place += 1 + usize::from(bytes[place]);
    // Type (outer), cipher suite, key number, key share, and payload.
    let outer = [&[0, 0, 1, 0, 1, 7, 0, 32][..], &[9; 32], &[0, 32], &[5; 32]].concat();
    let extension = [&[0xfe, 0x0d, 0, 74][..], &outer].concat();
    for at in [3, 7, place] {
        let length = u16::from_be_bytes([bytes[at], bytes[at + 1]]) + 78;
        bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }
    bytes.splice(place + 2..place + 2, extension);
    bytes
}

tests! {
    async fn tls_goes_through_untouched_in_both_versions_of_http() {
        let rig = rig(WEB).await;
        for alpn in ["http/1.1", "h2"] {
            let mut stream = rig.open();
            connect(&mut stream, "web.example.com:443").await;
            // The world's own certificate: nothing terminates TLS in between.
            let mut stream = shake(stream, tls(&rig.world.pem, &[alpn]), "web.example.com").await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(alpn.as_bytes()));
            if alpn == "http/1.1" {
                let answered = ask(&mut stream, "GET /in HTTP/1.1\r\nHost: web.example.com\r\n\r\n").await;
                assert_eq!(status(&answered), 200);
            }
        }
        let lines = rig.closed().await;
        let started = "started https://web.example.com:443 at 93.184.216.34";
        assert_eq!(lines.iter().filter(|line| *line == started).count(), 2, "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| *line == "ended - -").count(), 2, "{lines:#?}");
        let crossed = rig.egress.close().await.unwrap();
        assert!(crossed.bytes_out > 500 && crossed.bytes_in > 500, "{crossed:?}");
    }

    async fn socks_carries_tls_too() {
        let rig = rig(WEB).await;
        let mut stream = rig.open();
        stream.write_all(&[5, 2, 2, 0]).await.unwrap();
        let mut request = vec![5, 1, 0, 3, 15];
        request.extend(b"web.example.com\x01\xbb");
        stream.write_all(&request).await.unwrap();
        let mut replies = [0; 12];
        stream.read_exact(&mut replies).await.unwrap();
        assert_eq!(replies, [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        let mut stream = shake(stream, tls(&rig.world.pem, &[]), "web.example.com").await.unwrap();
        assert_eq!(status(&ask(&mut stream, "GET / HTTP/1.1\r\nHost: web.example.com\r\n\r\n").await), 200);
    }

    async fn a_tunnel_is_refused_before_it_is_granted() {
        let rig = rig(WEB).await;
        for (place, wanted) in [
            ("other.example.com:443", "net.denied"),
            ("web.example.com:22", "net.denied"),
            ("web.example.com:25", "net.denied"),
            ("web.example.com:80", "net.denied"),
            ("web.example.com", "net.protocol"),
            ("web.example.com:0", "net.protocol"),
            ("web.example.com:65536", "net.protocol"),
            ("web.example.com:+443", "net.protocol"),
            ("web.example.com:443:443", "net.protocol"),
            ("http://web.example.com:443", "net.protocol"),
        ] {
            let mut stream = rig.open();
            let answered = ask(&mut stream, &format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n")).await;
            assert_eq!(code(&answered), wanted, "{place}");
            assert!(rest(stream).await.is_empty(), "the connection is closed");
        }
        let mut stream = rig.open();
        let answered = ask(&mut stream, "CONNECT web.example.com:443 HTTP/1.1\r\nHost: other.example.com:443\r\n\r\n").await;
        assert_eq!((status(&answered), code(&answered).as_str()), (400, "net.authority"));
        assert!(rig.names.asked().is_empty() && rig.world.connections().is_empty());
    }

    async fn tls_must_name_the_tunnels_host() {
        let rig = rig("allowlist: [web.example.com, other.example.com, 93.184.216.35]").await;
        for (place, name, wanted) in [
            ("web.example.com:443", Some("other.example.com"), "net.sni"),
            ("web.example.com:443", None, "net.sni"),
            ("93.184.216.35:443", Some("web.example.com"), "net.sni"),
        ] {
            let mut stream = rig.open();
            connect(&mut stream, place).await;
            let mut config = tls(&rig.world.pem, &[]);
            config.enable_sni = name.is_some();
            let error = shake(stream, config, name.unwrap_or("web.example.com")).await.unwrap_err();
            assert!(error.to_string().contains("alert"), "{error}");
            let lines = rig.closed().await;
            assert!(lines.last().unwrap().contains(wanted), "{lines:#?}");
        }
        assert!(rig.world.connections().is_empty(), "nothing was dialled: {:?}", rig.world.connections());
        // A host that is an address has no server name.
        let mut stream = rig.open();
        connect(&mut stream, "93.184.216.35:443").await;
        let mut config = tls(&rig.world.pem, &[]);
        config.enable_sni = false;
        let _ = shake(stream, config, "web.example.com").await;
        assert_eq!(rig.world.connections(), ["93.184.216.35:443"]);
    }

    async fn tls_that_may_hide_another_name_does_not_go_out_unseen() {
        let rig = rig(WEB).await;
        let mut stream = rig.open();
        connect(&mut stream, "web.example.com:443").await;
        stream.write_all(&hiding("web.example.com")).await.unwrap();
        let answered = rest(stream).await;
        assert_eq!(answered, [0x15, 3, 3, 0, 2, 2, 49], "an alert");
        let lines = rig.closed().await;
        assert!(lines.iter().any(|line| line.contains("net.ech builtin.ech")), "{lines:#?}");
        assert!(rig.world.connections().is_empty());
    }

    async fn a_request_for_another_host_is_seen_where_all_tls_is_ended() {
        let rig = rig(&format!("{WEB}, inspect: all")).await;
        // The proxy's own part of the handshake: a hidden name has no effect.
        let mut stream = rig.open();
        connect(&mut stream, "web.example.com:443").await;
        stream.write_all(&hiding("web.example.com")).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 0x16);
        drop(stream);
        let mut stream = rig.open();
        connect(&mut stream, "web.example.com:443").await;
        let mut stream = shake(stream, tls(rig.egress.ca_certificate(), &["http/1.1"]), "web.example.com").await.unwrap();
        // Where no rule needs it, an odd path or method is not the proxy's concern.
        let answered = ask(&mut stream, "PROPFIND /a//b/%c0%ae HTTP/1.1\r\nHost: web.example.com\r\n\r\n").await;
        assert_eq!(status(&answered), 200, "{answered}");
        let answered = ask(&mut stream, "GET / HTTP/1.1\r\nHost: api.openai.com\r\n\r\n").await;
        assert_eq!((status(&answered), code(&answered).as_str()), (421, "net.authority"));
    }

    async fn what_is_neither_tls_nor_http_does_not_go_out() {
        let rig = rig("allowlist: [web.example.com, { host: web.example.com, scheme: http, ports: [443] }]").await;
        for bytes in [
            b"SSH-2.0-OpenSSH_9.9\r\n".as_slice(),
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"EHLO\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x00\x05hello",
            b"\x15\x03\x01\x00\x02\x02\x28",
            b"get / http/1.1\r\n\r\n",
        ] {
            let mut stream = rig.open();
            connect(&mut stream, "web.example.com:443").await;
            stream.write_all(bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            rest(stream).await;
            let lines = rig.closed().await;
            assert!(lines.last().is_some_and(|line| line.contains("net.protocol")), "{bytes:?}: {lines:#?}");
        }
        assert!(rig.world.connections().is_empty());
    }

    async fn plain_http_in_a_tunnel_for_tls_is_refused() {
        let rig = rig(WEB).await;
        let mut stream = rig.open();
        connect(&mut stream, "web.example.com:443").await;
        let answered = ask(&mut stream, "GET / HTTP/1.1\r\nHost: web.example.com\r\n\r\n").await;
        assert_eq!((status(&answered), code(&answered).as_str()), (403, "net.denied"));
        assert!(rig.world.connections().is_empty());
    }

    async fn plain_requests_in_a_tunnel_are_judged_one_by_one() {
        let rig = rig("allowlist: [{ host: web.example.com, scheme: http, methods: [GET] }]").await;
        let mut stream = rig.open();
        connect(&mut stream, "web.example.com:80").await;
        let host = "Host: web.example.com\r\n";
        assert_eq!(status(&ask(&mut stream, &format!("GET /1 HTTP/1.1\r\n{host}\r\n")).await), 200);
        let answered = ask(&mut stream, &format!("DELETE /2 HTTP/1.1\r\n{host}\r\n")).await;
        assert_eq!((status(&answered), code(&answered).as_str()), (403, "net.denied"));
        let answered = ask(&mut stream, "GET /3 HTTP/1.1\r\nHost: other.example.com\r\n\r\n").await;
        assert_eq!((status(&answered), code(&answered).as_str()), (421, "net.authority"));
        let answered = ask(&mut stream, "GET http://other.example.com/4 HTTP/1.1\r\nHost: web.example.com\r\n\r\n").await;
        assert_eq!((status(&answered), code(&answered).as_str()), (421, "net.authority"));
        assert_eq!(status(&ask(&mut stream, &format!("GET /5 HTTP/1.1\r\n{host}\r\n")).await), 200);
        assert_eq!(rig.world.requests(), ["GET web.example.com /1", "GET web.example.com /5"]);
        assert_eq!(rig.world.connections().len(), 1, "the connection is used again");
    }

    async fn a_tunnel_inside_a_connection_of_requests_is_refused() {
        let rig = rig("default: allow").await;
        let mut stream = rig.open();
        let request = "GET http://web.example.com/ HTTP/1.1\r\nHost: web.example.com\r\n\r\n";
        assert_eq!(status(&ask(&mut stream, request).await), 200);
        let answered = ask(&mut stream, "CONNECT other.example.com:443 HTTP/1.1\r\nHost: other.example.com\r\n\r\n").await;
        assert_eq!((status(&answered), code(&answered).as_str()), (400, "net.protocol"));
    }

    async fn without_trust_what_must_be_seen_is_refused_before_it_is_granted() {
        let net = "allowlist: [other.example.com, { host: web.example.com, methods: [GET] }]";
        let rig = rig_with(net, |settings| settings.trust = false).await;
        assert_eq!(rig.egress.ca_certificate(), "");
        assert!(rig.variables().iter().all(|(name, _)| name != "SSL_CERT_FILE"));
        let mut stream = rig.open();
        let answered = ask(&mut stream, "CONNECT web.example.com:443 HTTP/1.1\r\nHost: web.example.com:443\r\n\r\n").await;
        assert_eq!(code(&answered), "net.tls");
        connect(&mut rig.open(), "other.example.com:443").await;
    }

    async fn a_host_that_does_not_answer_ends_the_tunnel_with_a_word() {
        let rig = rig("allowlist: [{ host: web.example.com, ports: [444] }]").await;
        let mut stream = rig.open();
        connect(&mut stream, "web.example.com:444").await;
        let error = shake(stream, tls(&rig.world.pem, &[]), "web.example.com").await.unwrap_err();
        assert!(error.to_string().contains("alert"), "{error}");
        assert_eq!(rig.closed().await[1..], ["ended - net.unreachable"]);
    }

    async fn other_commands_of_socks_are_not_there() {
        let rig = rig(WEB).await;
        for (bytes, wanted) in [
            (b"\x05\x01\x00\x05\x02\x00\x01\x01\x02\x03\x04\x00\x50".as_slice(), [5, 0, 5, 7]),
            (b"\x05\x01\x00\x05\x03\x00\x01\x01\x02\x03\x04\x00\x50", [5, 0, 5, 7]),
            (b"\x05\x01\x00\x05\x01\x00\x09\x01\x02\x03\x04\x00\x50", [5, 0, 5, 8]),
        ] {
            let mut stream = rig.open();
            stream.write_all(bytes).await.unwrap();
            let mut reply = [0; 4];
            stream.read_exact(&mut reply).await.unwrap();
            assert_eq!(reply, wanted);
        }
        let mut stream = rig.open();
        stream.write_all(b"\x05\x01\x02").await.unwrap();
        assert_eq!(rest(stream).await, [5, 0xff]);
    }

    async fn a_head_that_can_be_read_in_two_ways_is_refused() {
        let rig = rig("default: allow").await;
        let url = "http://web.example.com/";
        let host = "Host: web.example.com\r\n";
        for head in [
            format!("POST {url} HTTP/1.1\r\n{host}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            format!("POST {url} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"),
            format!("POST {url} HTTP/1.1\r\n{host}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
            format!("POST {url} HTTP/1.1\r\n{host}Content-Length: 3, 3\r\n\r\nabc"),
            format!("POST {url} HTTP/1.1\r\n{host}Content-Length: +3\r\n\r\nabc"),
            format!("POST {url} HTTP/1.1\r\n{host}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            format!("POST {url} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            format!("GET {url} HTTP/1.1\r\n{host}Host: other.example.com\r\n\r\n"),
            format!("GET {url} HTTP/1.1\r\n{host}{host}\r\n"),
            format!("GET {url} HTTP/1.1\r\n\r\n"),
            format!("GET {url} HTTP/1.1\r\n{host}X-A: 1\r\n folded\r\n\r\n"),
            format!("GET {url} HTTP/1.1\r\n{host}X-A : 1\r\n\r\n"),
            format!("GET {url} HTTP/1.1\r\n{host}X-A: 1\nX-B: 2\r\n\r\n"),
            format!("GET {url} HTTP/1.1\r\n{host}X-A: a\0b\r\n\r\n"),
            format!("GET {url} HTTP/1.1\r\n{host}X-A: a\rb\r\n\r\n"),
            format!("GET  {url} HTTP/1.1\r\n{host}\r\n"),
            format!("GET {url} HTTP/1.1 \r\n{host}\r\n"),
            format!("GET {url} HTTP/3.0\r\n{host}\r\n"),
            format!("GET {url}a b HTTP/1.1\r\n{host}\r\n"),
            format!("GET / HTTP/1.1\r\n{host}\r\n"),
            format!("GET https://web.example.com/ HTTP/1.1\r\n{host}\r\n"),
            format!("GET ftp://web.example.com/ HTTP/1.1\r\n{host}\r\n"),
            format!("GET {url} HTTP/1.1\r\n{host}X-Long: {}\r\n\r\n", "x".repeat(70_000)),
        ] {
            let mut stream = rig.open();
            let (mut read, mut write) = tokio::io::split(&mut stream);
            let sent = async { let _ = write.write_all(head.as_bytes()).await; };
            let ((), answered) = tokio::join!(sent, answer(&mut read));
            let short: String = head.chars().take(200).collect();
            assert_eq!((status(&answered), code(&answered).as_str()), (400, "net.protocol"), "{short}");
        }
        let answered = ask(&mut rig.open(), &format!("GET {url} HTTP/1.1\r\nHost: other.example.com\r\n\r\n")).await;
        assert_eq!((status(&answered), code(&answered).as_str()), (400, "net.authority"));
        assert!(rig.world.connections().is_empty() && rig.names.asked().is_empty());
    }

    async fn bytes_behind_a_request_are_a_request_of_their_own_or_nothing() {
        let rig = rig("allowlist: [{ host: web.example.com, scheme: http }]").await;
        let mut stream = rig.open();
        let two = "POST http://web.example.com/1 HTTP/1.1\r\nHost: web.example.com\r\nContent-Length: 3\r\n\r\nabc\
            GET http://other.example.com/2 HTTP/1.1\r\nHost: other.example.com\r\n\r\n";
        let first = ask(&mut stream, two).await;
        assert_eq!(status(&first), 200);
        assert_eq!(rig.world.last()["body"], "abc");
        assert_eq!(code(&answer(&mut stream).await), "net.denied");
        // A body with invalid chunks is cut off.
        let bad = "POST http://web.example.com/3 HTTP/1.1\r\nHost: web.example.com\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabcX\r\n0\r\n\r\nGET http://web.example.com/4 HTTP/1.1\r\nHost: web.example.com\r\n\r\n";
        stream.write_all(bad.as_bytes()).await.unwrap();
        rest(stream).await;
        let requests = rig.world.requests();
        assert!(!requests.iter().any(|request| request.ends_with("/4")), "{requests:?}");
        // A valid body arrives complete.
        let mut stream = rig.open();
        let good = "POST http://web.example.com/5 HTTP/1.1\r\nHost: web.example.com\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(status(&ask(&mut stream, good).await), 200);
        assert_eq!(rig.world.last()["body"], "abc0123456789");
    }
}
