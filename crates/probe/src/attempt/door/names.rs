//! Names that mean one thing to the component that judges them and another to the one that dials them.

use std::io;
use std::net::Ipv6Addr;

use super::client::{Client, ask, tls};
use super::{Aims, Attempt, knock};

/// Names that lead to an address that is not allowed, or would if they were parsed carelessly.
const STRAY: [(u16, &[&str]); 5] = [
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

const NUMBERS: [&str; 11] = [
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

const SIXES: [&str; 11] = [
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

pub(super) fn attempts(id: u16, aims: &Aims) -> Vec<Attempt> {
    if let Some((_, names)) = STRAY.iter().find(|(known, _)| *known == id) {
        return names.iter().flat_map(|name| three_ways(name, 80, aims)).collect();
    }
    match id {
        103 => NUMBERS.iter().flat_map(|name| three_ways(name, 80, aims)).collect(),
        104 => sixes(aims),
        105 => three_ways("nip.example.com", 80, aims),
        106 => vec![
            again("rebind.example.com", aims),
            again_by_socks("rebound.example.com", aims),
        ],
        107 => three_ways("mixed.example.com", 80, aims),
        108 => three_ways("chain.example.com", 80, aims),
        109 => ["failing.example.com", "silent.example.com", "nowhere.example.com"]
            .iter()
            .map(|name| absolute(name, aims))
            .collect(),
        110 => redirects(aims),
        _ => Vec::new(),
    }
}

/// Requests a name as a proxy request, as a tunnel and by SOCKS.
fn three_ways(name: &'static str, port: u16, aims: &Aims) -> Vec<Attempt> {
    let connect = knock(
        format!("CONNECT {}", name.escape_debug()),
        aims,
        &[&aims.secret],
        move |client| {
            let target = [name.as_bytes(), format!(":{port}").as_bytes()].concat();
            through(client, client.tunnel(&target)?, port)
        },
    );
    let socks = knock(
        format!("SOCKS {}", name.escape_debug()),
        aims,
        &[&aims.secret],
        move |client| through(client, client.socks(name.as_bytes(), port)?, port),
    );
    vec![absolute(name, aims), connect, socks]
}

fn absolute(name: &'static str, aims: &Aims) -> Attempt {
    knock(
        format!("GET {}", name.escape_debug()),
        aims,
        &[&aims.secret],
        move |client| client.get(&format!("http://{name}/page"), ""),
    )
}

fn through(_: &Client, mut stream: std::net::TcpStream, port: u16) -> io::Result<Vec<u8>> {
    if port == 443 {
        return ask(
            &mut tls(stream, "evil.example.net", "http/1.1")?,
            "evil.example.net",
            "/page",
            "",
        );
    }
    ask(&mut stream, "allowed.example.com", "/page", "")
}

fn sixes(aims: &Aims) -> Vec<Attempt> {
    let mut all = Vec::new();
    for text in SIXES {
        all.push(knock(
            format!("CONNECT [{text}]"),
            aims,
            &[&aims.secret],
            move |client| through(client, client.tunnel(format!("[{text}]:80").as_bytes())?, 80),
        ));
        all.push(knock(format!("SOCKS6 {text}"), aims, &[&aims.secret], move |client| {
            let address: Ipv6Addr = text.parse().map_err(io::Error::other)?;
            through(
                client,
                client.socks_to(&[&[4], &address.octets()[..]].concat(), 80)?,
                80,
            )
        }));
    }
    for zoned in ["[::1%25lo]", "[::1%lo]", "[fe80::1%lo]"] {
        all.push(knock(
            format!("CONNECT {zoned}"),
            aims,
            &[&aims.secret],
            move |client| through(client, client.tunnel(format!("{zoned}:80").as_bytes())?, 80),
        ));
    }
    for four in [
        [127, 0, 0, 1],
        [169, 254, 169, 254],
        [10, 0, 1, 104],
        [100, 100, 100, 200],
        [0, 0, 0, 0],
    ] {
        all.push(knock(
            format!("SOCKS4 {four:?}"),
            aims,
            &[&aims.secret],
            move |client| through(client, client.socks_to(&[&[1], &four[..]].concat(), 80)?, 80),
        ));
    }
    all
}

/// Requests the same name repeatedly: its address changes in between.
fn again(name: &'static str, aims: &Aims) -> Attempt {
    knock("asked four times", aims, &[&aims.secret], move |client| {
        let mut all = Vec::new();
        for _ in 0..4 {
            all.extend(client.get(&format!("http://{name}/page"), "")?);
        }
        Ok(all)
    })
}

fn again_by_socks(name: &'static str, aims: &Aims) -> Attempt {
    knock("four tunnels", aims, &[&aims.secret], move |client| {
        let mut all = Vec::new();
        for _ in 0..4 {
            let asked = client
                .socks(name.as_bytes(), 80)
                .and_then(|mut way| ask(&mut way, name, "/page", ""));
            all.extend(asked.unwrap_or_default());
        }
        Ok(all)
    })
}

/// A client that follows every redirect.
fn redirects(aims: &Aims) -> Vec<Attempt> {
    const LEADS: [&str; 4] = [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1/",
        "http://evil.example.net/",
        "http://[fd00:ec2::254]/",
    ];
    let follow = |lead: &'static str| {
        knock(format!("to {lead}"), aims, &[&aims.secret], move |client| {
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
