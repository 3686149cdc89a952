use super::*;

fn good(text: &str) -> RequestHead {
    parse_head(text.as_bytes()).unwrap_or_else(|refusal| panic!("{text:?}: {refusal}"))
}

#[track_caller]
fn bad(text: &str) {
    let refused = parse_head(text.as_bytes());
    assert!(
        refused.as_ref().is_err_and(|refusal| refusal.code == "net.protocol"),
        "{text:?}: {refused:?}"
    );
}

#[test]
fn a_head_says_where_to_and_how_long() {
    let head =
        good("POST http://a.example/b?c HTTP/1.1\r\nHost:  a.example \r\nCONTENT-LENGTH: 12\r\nX: \u{fc}\r\n\r\n");
    let wanted = RequestHead {
        method: "POST".to_owned(),
        target: "http://a.example/b?c".to_owned(),
        host: Some("a.example".to_owned()),
        framing: BodyFraming::Length(12),
        upgrade: false,
    };
    assert_eq!(head, wanted);
    assert_eq!(
        good("GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\n\r\n").framing,
        BodyFraming::Chunked
    );
    assert_eq!(good("GET / HTTP/1.0\r\n\r\n").host, None);
    assert!(good("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: keep-alive, Upgrade\r\n\r\n").upgrade);
    assert!(!good("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n").upgrade);
}

#[test]
fn what_two_programs_could_read_in_two_ways_is_refused() {
    let host = "Host: a\r\n";
    for rest in [
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 1\r\nContent-Length: 1\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: \r\n",
        "Content-Length: 0x1\r\n",
        "Content-Length: 9999999999999999999\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: \r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer\u{0b}Encoding: chunked\r\n",
        "Host: b\r\n",
        " folded\r\n",
        "no colon\r\n",
        ": no name\r\n",
        "X: \u{7f}\r\n",
        "X: a\nY: b\r\n",
        "X: a\rY: b\r\n",
        "X: \0\r\n",
    ] {
        bad(&format!("GET / HTTP/1.1\r\n{host}{rest}\r\n"));
    }
    for first in [
        "GET /",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET / / HTTP/1.1",
        "get / HTTP/1.1",
        "GET / HTTP/2.0",
        "GET / http/1.1",
        "GET /\u{e9} HTTP/1.1",
        "",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1",
    ] {
        bad(&format!("{first}\r\n{host}\r\n"));
    }
    bad("GET / HTTP/1.1\r\n\r\n");
    bad("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
    bad(&format!(
        "GET / HTTP/1.1\r\n{host}{}\r\n",
        "X: y\r\n".repeat(MAX_HEAD_LINES)
    ));
}

#[test]
fn the_end_is_found_wherever_reading_stopped() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nbody\r\n\r\n";
    for from in 0..27 {
        assert_eq!(find_end(text, from), Some(27), "{from}");
    }
    assert_eq!(find_end(b"GET / HTTP/1.1\r\n\r", 0), None);
}

#[test]
fn an_authority_is_a_host_and_perhaps_a_port() {
    for (text, host, port) in [
        ("a.example", "a.example", None),
        ("A.Example.:8080", "a.example", Some(8080)),
        ("[2606:2800::1]:443", "2606:2800::1", Some(443)),
        ("[2606:2800::1]", "2606:2800::1", None),
        ("93.184.216.34:80", "93.184.216.34", Some(80)),
    ] {
        assert_eq!(parse_authority(text).unwrap(), (host.parse().unwrap(), port), "{text}");
    }
    for (text, code) in [
        ("", "net.host"),
        (":80", "net.host"),
        ("a:", "net.protocol"),
        ("a:0", "net.protocol"),
        ("a:65536", "net.protocol"),
        ("a:000080", "net.protocol"),
        ("a:8 0", "net.protocol"),
        ("::1:443", "net.protocol"),
        ("[::1", "net.host"),
        ("[a.example]:80", "net.host"),
        ("u@a.example:80", "net.host"),
        ("u:p@a.example:80", "net.protocol"),
        ("a.example\\@b.example", "net.host"),
        ("[::ffff:10.0.0.1]:80", "net.host"),
    ] {
        assert_eq!(parse_authority(text).unwrap_err().code, code, "{text}");
    }
}

#[test]
fn a_target_that_is_no_url_is_refused_for_its_host_first() {
    assert!(check_target("/a?b").is_ok() && check_target("http://a.example/b").is_ok() && check_target("*").is_ok());
    assert_eq!(check_target("http://a%00.example/b").unwrap_err().code, "net.host");
    assert_eq!(check_target("http://a.example/<b>").unwrap_err().code, "net.protocol");
}
