//! The test internet, as the machine's own clients see it.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::process::Command;

use ringfence_testkit::internet::{
    ALLOWED, DnsReply, EVIL, FakeWorld, Internet, STRANGER, enter_internet, private_arrivals,
};

const SECRET: &str = "ringfence-canary-of-the-internet";

fn open() -> (tempfile::TempDir, Internet) {
    let folder = tempfile::tempdir().unwrap();
    let world = FakeWorld::new(SECRET)
        .with_name("allowed.example.com", ALLOWED)
        .with_name("*.wild.example.com", ALLOWED)
        .with_name("evil.example.net", EVIL)
        .with_name("stranger.example.com", STRANGER)
        .with_replies(
            "alias.example.com",
            vec![DnsReply::Alias("allowed.example.com".to_owned())],
        )
        .with_replies("failing.example.com", vec![DnsReply::Fails])
        .with_replies(
            "rebinding.example.com",
            vec![
                DnsReply::At(vec![ALLOWED]),
                DnsReply::At(vec!["10.0.0.5".parse().unwrap()]),
            ],
        );
    let internet = Internet::open(folder.path(), world).unwrap();
    (folder, internet)
}

fn curl(args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("curl");
    command.env_clear().env("PATH", "/usr/bin:/bin");
    let output = command.args(["-sS", "--max-time", "10"]).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

#[test]
fn servers_answer_by_name_and_are_trusted() {
    if !enter_internet(concat!(module_path!(), "::servers_answer_by_name_and_are_trusted")) {
        return;
    }
    let (_folder, internet) = open();
    for (args, wanted) in [
        (
            &["http://allowed.example.com/page"][..],
            "allowed.example.com 93.184.216.34\n",
        ),
        (
            &["https://allowed.example.com/page"],
            "allowed.example.com 93.184.216.34\n",
        ),
        (
            &[
                "--http2",
                "-o",
                "/dev/null",
                "-w",
                "%{http_version}",
                "https://a.wild.example.com/page",
            ],
            "2",
        ),
        (&["http://alias.example.com/page"], "alias.example.com 93.184.216.34\n"),
        (
            &[
                "-L",
                "http://allowed.example.com/redirect?http://169.254.169.254/latest",
            ],
            "ringfence-canary-of-the-internet\n",
        ),
        (
            &[
                "-o",
                "/dev/null",
                "-w",
                "%{size_download}",
                "https://allowed.example.com/bytes/1000000",
            ],
            "1000000",
        ),
        (&["https://evil.example.net/"], "ringfence-canary-of-the-internet\n"),
    ] {
        assert_eq!(curl(args), (Some(0), wanted.to_owned()), "{args:?}");
    }
    assert_eq!(curl(&["https://stranger.example.com/"]).0, Some(60));
    assert_eq!(curl(&["http://failing.example.com/"]).0, Some(6));
    let (_, echo) = curl(&["-d", "body", "-H", "X-Own: 1", "https://allowed.example.com/echo/x?y"]);
    let echo: serde_json::Value = serde_json::from_str(&echo).unwrap();
    assert_eq!((&echo["body"], &echo["path"]), (&"body".into(), &"/echo/x?y".into()));
    let strayed = private_arrivals(&internet.traffic().arrivals());
    assert_eq!(strayed.len(), 1, "{strayed:?}");
    assert!(
        internet
            .traffic()
            .queries()
            .iter()
            .any(|one| one.name == "a.wild.example.com")
    );
}

#[test]
fn names_change_their_addresses() {
    if !enter_internet(concat!(module_path!(), "::names_change_their_addresses")) {
        return;
    }
    let (_folder, internet) = open();
    let look = || ("rebinding.example.com", 80).to_socket_addrs().unwrap().next().unwrap();
    assert_eq!(
        [look().ip().to_string(), look().ip().to_string()],
        ["93.184.216.34", "10.0.0.5"]
    );
    for host in [
        "127.0.0.1",
        "192.168.1.5",
        "100.100.100.200",
        "fd00:ec2::254",
        "64:ff9b::7f00:1",
        "8.8.4.4",
    ] {
        let mut stream = TcpStream::connect((host, 80)).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.contains(SECRET), "{host}: {text}");
    }
    assert_eq!(private_arrivals(&internet.traffic().arrivals()).len(), 5);
}
