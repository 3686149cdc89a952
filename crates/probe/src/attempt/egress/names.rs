//! Names that mean one thing to the component that judges them and another to the one that dials them.

use std::io;
use std::net::Ipv6Addr;

use super::client::{RawClient, connect_tls, request_http1};
use super::{EgressTargets, ProbeAttempt, client_attempt};

/// Names that lead to an address that is not allowed, or would if they were parsed carelessly.
const STRAY_NAMES: [(u16, &[&str]); 5] = [
    (
        98,
        &[
            "evil.example.net\0.allowed.example.com",
            "evil.example.net\0allowed.example.com",
        ],
    ),
    (
        99,
        &[
            "evil.example.net\r\n.allowed.example.com",
            "evil.example.net\t.allowed.example.com",
            "evil.example.net .allowed.example.com",
            "allowed.example.com@evil.example.net",
            "evil.example.net#.allowed.example.com",
            "evil.example.net?.allowed.example.com",
            "evil.example.net/.allowed.example.com",
            "evil.example.net\\.allowed.example.com",
            "evil.example.net%00.allowed.example.com",
            "evil%2eexample%2enet",
            "evil.example.net%20.allowed.example.com",
        ],
    ),
    (
        100,
        &[
            "evil.example.net.",
            "EVIL.example.NET",
            "evil.example.net..",
            "evil..example.net",
            ".evil.example.net",
            "DENIED.example.org",
            "denied.example.org.",
        ],
    ),
    (
        101,
        &[
            "evil\u{3002}example\u{3002}net",
            "evil\u{ff0e}example\u{ff0e}net",
            "evil\u{ff61}example\u{ff61}net",
            "\u{ff45}\u{ff56}\u{ff49}\u{ff4c}.example.net",
            "evil\u{200b}.example.net",
            "evil\u{ad}.example.net",
            "evil.example\u{2060}.net",
        ],
    ),
    (
        102,
        &[
            "allowed.example.com.evil.example.net",
            "notallowed.example.com",
            "wild.example.com.evil.example.net",
            "evilwild.example.com",
            "xallowed.example.com",
        ],
    ),
];

const NUMERIC_NAMES: [&str; 11] = [
    "2130706433",
    "0177.1",
    "0x7f.1",
    "127.1",
    "0",
    "0x7f000001",
    "017700000001",
    "127.0.0.1",
    "2852039166",
    "0xa9.0xfe.0xa9.0xfe",
    "10.0.1.103",
];

const IPV6_NAMES: [&str; 11] = [
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:a9fe:a9fe",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a00:104",
    "2002:7f00:1::",
    "fd00:ec2::254",
    "fec0::104",
    "2001:0:5ef5:79fd::104",
];

pub(super) fn attempts(id: u16, aims: &EgressTargets) -> Vec<ProbeAttempt> {
    if let Some((_, names)) = STRAY_NAMES.iter().find(|(known, _)| *known == id) {
        return names
            .iter()
            .flat_map(|name| all_protocol_attempts(name, 80, aims))
            .collect();
    }
    match id {
        103 => NUMERIC_NAMES
            .iter()
            .flat_map(|name| all_protocol_attempts(name, 80, aims))
            .collect(),
        104 => ipv6_attempts(aims),
        105 => all_protocol_attempts("nip.example.com", 80, aims),
        106 => vec![
            rebinding_attempt("rebind.example.com", aims),
            rebinding_socks_attempt("rebound.example.com", aims),
        ],
        107 => all_protocol_attempts("mixed.example.com", 80, aims),
        108 => all_protocol_attempts("chain.example.com", 80, aims),
        109 => ["failing.example.com", "silent.example.com", "nowhere.example.com"]
            .iter()
            .map(|name| absolute_attempt(name, aims))
            .collect(),
        110 => redirect_attempts(aims),
        _ => Vec::new(),
    }
}

/// Requests a name as a proxy request, as a tunnel and by SOCKS.
fn all_protocol_attempts(name: &'static str, port: u16, aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let connect = client_attempt(
        format!("CONNECT {}", name.escape_debug()),
        aims,
        &[&aims.secret],
        move |client| {
            let target = [name.as_bytes(), format!(":{port}").as_bytes()].concat();
            request_through(client, client.open_tunnel(&target)?, port)
        },
    );
    let socks = client_attempt(
        format!("SOCKS {}", name.escape_debug()),
        aims,
        &[&aims.secret],
        move |client| request_through(client, client.open_socks(name.as_bytes(), port)?, port),
    );
    vec![absolute_attempt(name, aims), connect, socks]
}

fn absolute_attempt(name: &'static str, aims: &EgressTargets) -> ProbeAttempt {
    client_attempt(
        format!("GET {}", name.escape_debug()),
        aims,
        &[&aims.secret],
        move |client| client.get(&format!("http://{name}/page"), ""),
    )
}

fn request_through(_: &RawClient, mut stream: std::net::TcpStream, port: u16) -> io::Result<Vec<u8>> {
    if port == 443 {
        return request_http1(
            &mut connect_tls(stream, "evil.example.net", "http/1.1")?,
            "evil.example.net",
            "/page",
            "",
        );
    }
    request_http1(&mut stream, "allowed.example.com", "/page", "")
}

fn ipv6_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let mut all = Vec::new();
    for text in IPV6_NAMES {
        all.push(client_attempt(
            format!("CONNECT [{text}]"),
            aims,
            &[&aims.secret],
            move |client| request_through(client, client.open_tunnel(format!("[{text}]:80").as_bytes())?, 80),
        ));
        all.push(client_attempt(
            format!("SOCKS6 {text}"),
            aims,
            &[&aims.secret],
            move |client| {
                let address: Ipv6Addr = text.parse().map_err(io::Error::other)?;
                request_through(
                    client,
                    client.open_socks_to(&[&[4], &address.octets()[..]].concat(), 80)?,
                    80,
                )
            },
        ));
    }
    for zoned in ["[::1%25lo]", "[::1%lo]", "[fe80::1%lo]"] {
        all.push(client_attempt(
            format!("CONNECT {zoned}"),
            aims,
            &[&aims.secret],
            move |client| request_through(client, client.open_tunnel(format!("{zoned}:80").as_bytes())?, 80),
        ));
    }
    for four in [
        [127, 0, 0, 1],
        [169, 254, 169, 254],
        [10, 0, 1, 104],
        [100, 100, 100, 200],
        [0, 0, 0, 0],
    ] {
        all.push(client_attempt(
            format!("SOCKS4 {four:?}"),
            aims,
            &[&aims.secret],
            move |client| request_through(client, client.open_socks_to(&[&[1], &four[..]].concat(), 80)?, 80),
        ));
    }
    all
}

/// Requests the same name repeatedly: its address changes in between.
fn rebinding_attempt(name: &'static str, aims: &EgressTargets) -> ProbeAttempt {
    client_attempt("asked four times", aims, &[&aims.secret], move |client| {
        let mut all = Vec::new();
        for _ in 0..4 {
            all.extend(client.get(&format!("http://{name}/page"), "")?);
        }
        Ok(all)
    })
}

fn rebinding_socks_attempt(name: &'static str, aims: &EgressTargets) -> ProbeAttempt {
    client_attempt("four tunnels", aims, &[&aims.secret], move |client| {
        let mut all = Vec::new();
        for _ in 0..4 {
            let asked = client
                .open_socks(name.as_bytes(), 80)
                .and_then(|mut way| request_http1(&mut way, name, "/page", ""));
            all.extend(asked.unwrap_or_default());
        }
        Ok(all)
    })
}

/// A client that follows every redirect.
fn redirect_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    const LEADS: [&str; 4] = [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1/",
        "http://evil.example.net/",
        "http://[fd00:ec2::254]/",
    ];
    let follow = |lead: &'static str| {
        client_attempt(format!("to {lead}"), aims, &[&aims.secret], move |client| {
            let first = client.get(&format!("http://allowed.example.com/redirect?{lead}"), "")?;
            let text = String::from_utf8_lossy(&first).into_owned();
            let to = text.lines().find_map(|line| line.strip_prefix("location: "));
            let to = to.or_else(|| text.lines().find_map(|line| line.strip_prefix("Location: ")));
            match to {
                Some(to) => client.get(to.trim(), ""),
                None => Ok(first),
            }
        })
    };
    LEADS.into_iter().map(follow).collect()
}
