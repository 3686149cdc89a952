//! Tests of hosts with ambiguous spellings, and of names whose addresses change.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{ask, code, status};
use crate::rig::{Rig, rig, tests};

/// Allows everything public: a refusal here is for the spelling or the address.
const ALL: &str = "default: allow";

/// Requests a SOCKS5 tunnel. Returns the reply code.
async fn socks(rig: &Rig, kind: u8, host: &[u8], port: u16) -> u8 {
    let mut stream = rig.open();
    stream.write_all(&[5, 1, 0]).await.unwrap();
    let mut granted = [0; 2];
    stream.read_exact(&mut granted).await.unwrap();
    assert_eq!(granted, [5, 0]);
    let mut request = vec![5, 1, 0, kind];
    if kind == 3 {
        request.push(u8::try_from(host.len()).unwrap());
    }
    request.extend(host);
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await.unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).await.unwrap();
    reply[1]
}

async fn tunnel(rig: &Rig, place: &str) -> (u16, String) {
    let mut stream = rig.open();
    let answer = ask(
        &mut stream,
        &format!("CONNECT {place} HTTP/1.1\r\n\r\n").replace("1.1", "1.0"),
    )
    .await;
    (
        status(&answer),
        if status(&answer) == 200 {
            String::new()
        } else {
            code(&answer)
        },
    )
}

async fn get(rig: &Rig, host: &str) -> (u16, String) {
    let mut stream = rig.open();
    let answer = ask(
        &mut stream,
        &format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
    )
    .await;
    (
        status(&answer),
        if answer.contains("x-ringfence-code") {
            code(&answer)
        } else {
            String::new()
        },
    )
}

tests! {
    async fn a_host_that_is_not_canonical_is_refused_everywhere() {
        let rig = rig(ALL).await;
        for host in [
            "evil.example.com%00.web.example.com",
            "web%2eexample.com",
            "web..example.com",
            ".web.example.com",
            "user@web.example.com",
            "web.example.com@evil.example.com",
            "-web.example.com",
            "2130706433",
            "0177.1",
            "0x7f.1",
            "127.1",
            "0",
            "127.0.0.01",
            "[::ffff:127.0.0.1]",
            "[::127.0.0.1]",
            "[fe80::1%25lo]",
            "xn--a",
        ] {
            let (http, sort) = get(&rig, host).await;
            assert!((400..=403).contains(&http), "{host}: {http} {sort}");
            assert!(["net.host", "net.protocol"].contains(&sort.as_str()), "{host}: {sort}");
            let (http, sort) = tunnel(&rig, &format!("{host}:443")).await;
            assert_eq!((http, sort.as_str()), (400, "net.host"), "{host}");
        }
        for host in [
            b"evil.example.com\0.web.example.com".as_slice(),
            b"web.example.com\r\n",
            b"web.example.com ",
            b"web.example.com#",
            b"web.example.com/",
            b"web.example.com\\",
            b"web.example.com:80",
            "wéb.example.com".as_bytes(),
            "web\u{3002}example\u{ff0e}com".as_bytes(),
            "web\u{200b}.example.com".as_bytes(),
            b"\xff\xfe",
            b"0x7f000001",
            b"::ffff:127.0.0.1",
            b"",
        ] {
            assert_eq!(socks(&rig, 3, host, 443).await, 2, "{host:?}");
        }
        assert!(rig.names.asked().is_empty(), "nothing was asked for: {:?}", rig.names.asked());
        assert!(rig.world.connections().is_empty());
        let lines = rig.closed().await;
        assert!(lines.iter().all(|line| line.starts_with("refused")), "{lines:#?}");
        assert!(lines.iter().all(|line| !line.contains(['\0', '\r', '\n'])), "{lines:#?}");
    }

    async fn one_spelling_stands_for_all_that_mean_the_same() {
        let rig = rig("allowlist: [{ host: web.example.com, scheme: http }]").await;
        assert_eq!(get(&rig, "WEB.Example.COM").await.0, 200);
        assert_eq!(get(&rig, "web.example.com.").await.0, 200);
        let both = ["GET web.example.com /"; 2];
        assert_eq!(rig.world.requests(), both, "what was judged is what is sent");
        for host in ["web.example.com.evil.example.net", "notweb.example.com", "example.com", "a.web.example.com"] {
            assert_eq!(get(&rig, host).await, (403, "net.denied".to_owned()), "{host}");
        }
    }

    async fn an_address_that_is_not_public_is_refused_however_it_comes() {
        let rig = rig(ALL).await;
        for host in [
            "127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.9", "192.168.1.1", "0.0.0.0", "224.0.0.1",
            "255.255.255.255", "[::1]", "[fd00:ec2::254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]",
            "metadata.google.internal", "localhost", "a.localhost",
        ] {
            let (http, sort) = get(&rig, host).await;
            assert_eq!((http, sort.as_str()), (403, "net.denied"), "{host}");
            assert_eq!(tunnel(&rig, &format!("{host}:443")).await.0, 403, "{host}");
        }
        assert_eq!(socks(&rig, 1, &[127, 0, 0, 1], 80).await, 2);
        assert_eq!(socks(&rig, 1, &[169, 254, 169, 254], 80).await, 2);
        let mapped = "::ffff:10.1.2.3".parse::<std::net::Ipv6Addr>().unwrap();
        assert_eq!(socks(&rig, 4, &mapped.octets(), 80).await, 2);
        for (name, address) in [
            ("a.example.net", "10.1.2.3"),
            ("b.example.net", "127.0.0.1"),
            ("c.example.net", "169.254.169.254"),
            ("d.example.net", "::ffff:169.254.169.254"),
            ("e.example.net", "64:ff9b::a01:203"),
            ("f.example.net", "::1"),
        ] {
            rig.names.a(name, address);
            assert_eq!(get(&rig, name).await, (403, "net.address".to_owned()), "{name}");
            assert_eq!(tunnel(&rig, &format!("{name}:443")).await, (403, "net.address".to_owned()), "{name}");
            assert_eq!(socks(&rig, 3, name.as_bytes(), 443).await, 2, "{name}");
        }
        assert!(rig.world.connections().is_empty(), "{:?}", rig.world.connections());
    }

    async fn a_name_with_one_forbidden_address_is_refused_whole() {
        let rig = rig(ALL).await;
        rig.names.then("mixed.example.net", &["93.184.216.34", "10.1.2.3"]);
        rig.names.then("six.example.net", &["93.184.216.34", "fd00::1"]);
        for name in ["mixed.example.net", "six.example.net"] {
            assert_eq!(get(&rig, name).await, (403, "net.address".to_owned()), "{name}");
        }
        assert!(rig.world.connections().is_empty());
    }

    async fn a_name_that_turns_to_a_private_address_reaches_it_never() {
        let rig = rig(ALL).await;
        rig.names.then("turn.example.net", &["93.184.216.34"]);
        rig.names.then("turn.example.net", &["10.1.2.3"]);
        let answers = [get(&rig, "turn.example.net").await, get(&rig, "turn.example.net").await];
        assert_eq!(answers[0].0, 200, "{answers:?}");
        assert_eq!(answers[1], (403, "net.address".to_owned()));
        assert!(rig.world.connections().iter().all(|place| place.starts_with("93.")), "{:?}", rig.world.connections());
    }

    async fn a_tunnel_dials_only_what_was_judged() {
        let rig = rig("allowlist: [{ host: turn.example.net, ports: [80, 443], scheme: http }]").await;
        rig.names.then("turn.example.net", &["93.184.216.34"]);
        rig.names.then("turn.example.net", &["169.254.169.254"]);
        let mut stream = rig.open();
        crate::client::connect(&mut stream, "turn.example.net:80").await;
        let answer = ask(&mut stream, "GET / HTTP/1.1\r\nHost: turn.example.net\r\n\r\n").await;
        assert_eq!((status(&answer), code(&answer).as_str()), (403, "net.address"));
        assert!(rig.world.connections().is_empty());
    }

    async fn a_name_that_stands_for_a_denied_one_is_refused() {
        let rig = rig("default: allow, denylist: ['**.denied.example.org', { host: tracked.example.org, scheme: http }]").await;
        rig.names.alias("a.example.net", "x.denied.example.org", "93.184.216.34");
        rig.names.alias("b.example.net", "tracked.example.org", "93.184.216.34");
        rig.names.alias("c.example.net", "localhost", "93.184.216.34");
        rig.names.alias("d.example.net", "cdn.example.org", "93.184.216.34");
        for name in ["a.example.net", "b.example.net", "c.example.net"] {
            assert_eq!(get(&rig, name).await, (403, "net.denied".to_owned()), "{name}");
        }
        assert_eq!(get(&rig, "d.example.net").await.0, 200);
    }

    async fn a_name_without_an_answer_is_refused() {
        let rig = rig(ALL).await;
        assert_eq!(get(&rig, "nowhere.example.net").await, (502, "net.dns".to_owned()));
        let begun = std::time::Instant::now();
        assert_eq!(get(&rig, "silent.example.net").await, (502, "net.dns".to_owned()));
        assert!(begun.elapsed() < std::time::Duration::from_secs(7), "{:?}", begun.elapsed());
        assert_eq!(socks(&rig, 3, b"nowhere.example.net", 443).await, 4);
        let crossed = rig.egress.close().await.unwrap();
        assert!(crossed.listed_refusals.is_empty(), "a misspelt name is nobody's violation: {crossed:?}");
    }

    async fn a_private_network_is_reached_where_a_rule_opens_it() {
        let rig = rig("allowlist: [{ host: db.example.net, scheme: http, addresses: ['10.1.0.0/16'] }]").await;
        rig.names.then("db.example.net", &["10.1.2.3"]);
        assert_eq!(get(&rig, "db.example.net").await.0, 200);
        assert_eq!(get(&rig, "10.1.2.3").await.0, 403);
    }
}
