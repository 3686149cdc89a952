//! Collected addresses that are meant to get past a careless proxy, and the URLs that browsers are tested with: none leads to a private
//! address, and none that is allowed is refused.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ringfence_policy::Host as Canonical;
use ringfence_testkit::internet::{ALLOWED, FakeWorld, Internet, enter_internet, private_arrivals, proxy};
use serde_json::Value;
use url::Url;

const SECRET: &str = "ringfence-canary-of-the-corpora";
/// Names in the collections that were made for private addresses.
const LEADING_INSIDE: [(&str, [u8; 4]); 12] = [
    ("localhost", [127, 0, 0, 1]),
    ("ip6-loopback", [127, 0, 0, 1]),
    ("169.254.169.254.nip.io", [169, 254, 169, 254]),
    ("1u.ms", [169, 254, 169, 254]),
    ("metadata.google.internal", [169, 254, 169, 254]),
    ("metadata", [169, 254, 169, 254]),
    ("instance-data", [169, 254, 169, 254]),
    ("redirect-server", [10, 0, 0, 5]),
    ("nicob.net", [192, 168, 1, 5]),
    (
        "62epax5fhvj3zzmzigyoe5ipkbn7fysllvges3a.302.r3dir.me",
        [100, 100, 100, 200],
    ),
    ("attacker", [10, 0, 0, 5]),
    ("domain", [10, 0, 0, 5]),
];

/// The collection of addresses, and the cases in the sources of the `url` package.
fn corpora() -> Option<(Vec<String>, Vec<String>)> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let place = std::env::var_os("RINGFENCE_DATA").map_or_else(|| PathBuf::from(own), PathBuf::from);
    let Ok(tricks) = std::fs::read_to_string(place.join("ssrf_urls.txt")) else {
        println!("SKIPPED: no tool data: `ssrf_urls.txt` is not in `{}`", place.display());
        return None;
    };
    let tricks = tricks.lines().map(str::to_owned).collect();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--locked",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let package = packages
        .iter()
        .find(|one| one["name"] == "url" && one["version"] == "2.5.8");
    let manifest = package.and_then(|one| one["manifest_path"].as_str()).map(PathBuf::from);
    let cases =
        manifest.and_then(|manifest| std::fs::read_to_string(manifest.with_file_name("tests/urltestdata.json")).ok());
    let Some(cases) = cases else {
        println!("SKIPPED: no tool data: the `url` package came without its tests");
        return None;
    };
    let cases: Value = serde_json::from_str(&cases).unwrap();
    let texts = cases
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|case| [case["input"].as_str(), case["href"].as_str()]);
    Some((tricks, texts.flatten().map(str::to_owned).collect()))
}

/// Sends bytes and returns what comes back.
fn say(at: SocketAddr, words: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // A server that refuses early reads no more.
    let _ = stream
        .write_all(words)
        .and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    heard
}

/// The part of a text that would be its host and port, however it is spelled.
fn authority(text: &str) -> &str {
    let rest = text.split_once("//").map_or(text, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

fn socks(name: &[u8], port: u16) -> Option<Vec<u8>> {
    let length = u8::try_from(name.len()).ok()?;
    let end = port.to_be_bytes();
    let get = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    Some([&[5, 1, 0, 5, 1, 0, 3, length], name, &end, get].concat())
}

/// Every way in which a program could send it.
fn ways(text: &str) -> Vec<Vec<u8>> {
    let whole = authority(text);
    let name = whole.rsplit('@').next().unwrap_or(whole);
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
    let mut all = vec![
        format!("GET {text} HTTP/1.1\r\nHost: {whole}\r\n\r\n").into_bytes(),
        format!("GET {text} HTTP/1.1\r\nHost: {name}\r\n\r\n").into_bytes(),
        format!("CONNECT {whole} HTTP/1.1\r\nHost: {whole}\r\n\r\nGET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes(),
        format!("CONNECT {host}:80 HTTP/1.1\r\nHost: {host}:80\r\n\r\nGET / HTTP/1.1\r\nHost: {host}\r\n\r\n")
            .into_bytes(),
    ];
    all.extend(socks(host.as_bytes(), 80));
    if let Ok(url) = Url::parse(text) {
        let host = url.host_str().unwrap_or_default();
        all.push(format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes());
        all.push(format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n").into_bytes());
        all.extend(socks(host.as_bytes(), 443));
    }
    all
}

/// Scheme, host name and port.
type Names = BTreeSet<(String, String, u16)>;

/// The names in the collections that are names to us as well, with the port.
fn names(texts: &[String]) -> Names {
    texts
        .iter()
        .filter_map(|text| Url::parse(text).ok())
        .filter(|url| ["http", "https"].contains(&url.scheme()))
        .filter_map(|url| {
            let host = url.host_str()?.to_owned();
            let name = matches!(host.parse::<Canonical>(), Ok(Canonical::Name(_)));
            let listed = name && !host.ends_with('.');
            listed.then(|| (url.scheme().to_owned(), host, url.port_or_known_default().unwrap_or(0)))
        })
        .filter(|(_, _, port)| *port > 0)
        .collect()
}

/// Requests every URL whose name is allowed and public, as clients do; returns how many there were.
fn allowed_go_out(at: SocketAddr, all: &[String], names: &Names) -> usize {
    let inside: BTreeSet<&str> = LEADING_INSIDE.iter().map(|(name, _)| *name).collect();
    let mut let_through = 0;
    for text in all {
        let Ok(mut url) = Url::parse(text) else { continue };
        let port = url.port_or_known_default().unwrap_or(0);
        let key = (
            url.scheme().to_owned(),
            url.host_str().unwrap_or_default().to_owned(),
            port,
        );
        if !names.contains(&key) || inside.contains(key.1.as_str()) {
            continue;
        }
        // Clients remove these parts too.
        url.set_fragment(None);
        url.set_username("").unwrap();
        url.set_password(None).unwrap();
        let place = url
            .port()
            .map_or_else(|| key.1.clone(), |port| format!("{}:{port}", key.1));
        let words = if key.0 == "http" {
            format!("GET {url} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n")
        } else {
            format!("CONNECT {}:{port} HTTP/1.1\r\nHost: {}:{port}\r\n\r\n", key.1, key.1)
        };
        let heard = say(at, words.as_bytes());
        let heard = String::from_utf8_lossy(&heard).to_ascii_lowercase();
        assert!(
            heard.starts_with("http/1.1 ") && !heard.contains("x-ringfence-code"),
            "{text}: {heard}"
        );
        let_through += 1;
    }
    let_through
}

#[test]
fn no_url_leads_inside_and_no_allowed_one_is_refused() {
    if !enter_internet(concat!(
        module_path!(),
        "::no_url_leads_inside_and_no_allowed_one_is_refused"
    )) {
        return;
    }
    let Some((tricks, cases)) = corpora() else { return };
    let folder = tempfile::tempdir().unwrap();
    let world = LEADING_INSIDE
        .iter()
        .fold(FakeWorld::new(SECRET).with_default(ALLOWED), |world, (name, at)| {
            world.with_name(name, IpAddr::from(*at))
        });
    let internet = Internet::open(folder.path(), world).unwrap();
    let all: Vec<String> = tricks.iter().chain(&cases).cloned().collect();
    let names = names(&all);
    let known = [80, 443, 8080, 8443, 22, 25, 6379];
    let ports: BTreeSet<u16> = names
        .iter()
        .map(|(_, _, port)| *port)
        .chain([9001, 2375, 2379, 11211, 81, 8000])
        .collect();
    for port in ports.into_iter().filter(|port| !known.contains(port)) {
        internet.listen(port).unwrap();
    }
    // All these names are allowed: only their addresses can be refused.
    let rule = |(scheme, host, port): &(String, String, u16)| serde_json::json!({"host": host, "scheme": scheme, "ports": [port]});
    let rules: Vec<Value> = names.iter().map(rule).collect();
    let text = serde_json::json!({"version": 1, "net": {"enabled": true, "allowlist": rules, "limits": {"rate": "1000000/min"}}});
    let policy = proxy::policy(&text.to_string()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (at, egress, _book) = runtime.block_on(proxy::serve(policy)).unwrap();
    let mut said = 0;
    for text in &all {
        for words in ways(text) {
            let heard = say(at, &words);
            let heard = String::from_utf8_lossy(&heard);
            assert!(!heard.contains(SECRET), "{text}: {heard}");
            said += 1;
        }
    }
    let strayed = private_arrivals(&internet.traffic().arrivals());
    assert!(strayed.is_empty(), "{strayed:?}");
    let strayed = internet.stray_arrivals(&[ALLOWED]);
    assert!(strayed.is_empty(), "{strayed:?}");
    let let_through = allowed_go_out(at, &all, &names);
    runtime.block_on(egress.close()).unwrap();
    println!(
        "{} URLs, said in {said} ways: none led inside; {let_through} allowed ones went out",
        all.len()
    );
    assert!(let_through > 50, "{let_through}");
}
