//! Real clients in the sandbox with a small internet of their own: allowed requests work as everywhere, and nothing else
//! does.

mod changing;
mod clients;
mod fetch;
mod learning;
mod packages;
mod probes;
mod python;
mod secrets;
mod servers;
mod world;

use serde_json::{Value, json};

use world::Net;

/// One request by curl, with what the program's result says.
fn curl(net: &Net, policy: &Value, words: &[&str]) -> Value {
    let all: Vec<&str> = ["curl", "-sS", "--max-time", "20"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    net.exec(policy, &all)
}

fn allowed() -> Value {
    world::policy(&json!({
        "enabled": true,
        "allowlist": [
            "allowed.example.com",
            { "host": "allowed.example.com", "scheme": "http" },
            { "host": "api.example.com", "methods": ["GET"], "paths": ["/echo/**"] },
        ],
    }))
}

#[test]
fn curl_reaches_what_is_allowed_in_every_way() {
    if !world::enter_internet(concat!(module_path!(), "::curl_reaches_what_is_allowed_in_every_way")) {
        return;
    }
    let net = Net::new(|world| world);
    let page = "allowed.example.com 93.184.216.34\n";
    for words in [
        &["http://allowed.example.com/page"][..],
        &["https://allowed.example.com/page"],
        &["--http1.1", "https://allowed.example.com/page"],
        &["-x", "socks5h://127.0.0.1:3128", "https://allowed.example.com/page"],
        &["-x", "socks5h://127.0.0.1:3128", "http://allowed.example.com/page"],
        &["-p", "-x", "http://127.0.0.1:3128", "http://allowed.example.com/page"],
    ] {
        let result = curl(&net, &allowed(), words);
        assert_eq!(
            (&result["stdout"], &result["exit_code"]),
            (&json!(page), &json!(0)),
            "{words:?}: {result}"
        );
        assert_eq!(result["violations"], json!([]), "{words:?}: {result}");
        assert!(
            result["usage"]["egress_bytes"].as_u64() > Some(0),
            "{words:?}: {result}"
        );
    }
    let version = curl(
        &net,
        &allowed(),
        &[
            "--http2",
            "-o",
            "/dev/null",
            "-w",
            "%{http_version}",
            "https://allowed.example.com/page",
        ],
    );
    assert_eq!(version["stdout"], "2", "{version}");
    // Where requests are read, too.
    let read = curl(
        &net,
        &allowed(),
        &[
            "--http2",
            "-w",
            " %{http_version}",
            "https://api.example.com/echo/1?x=y",
        ],
    );
    let text = read["stdout"].as_str().unwrap();
    assert!(
        text.ends_with(" 2") && text.contains("\"path\":\"/echo/1?x=y\""),
        "{read}"
    );
    let length = curl(
        &net,
        &allowed(),
        &[
            "-o",
            "/dev/null",
            "-w",
            "%{size_download}",
            "https://allowed.example.com/bytes/20000000",
        ],
    );
    assert_eq!(length["stdout"], "20000000", "{length}");
    net.check_nobody_strayed();
}

#[test]
fn what_is_not_allowed_is_refused_in_words_and_written_down() {
    if !world::enter_internet(concat!(
        module_path!(),
        "::what_is_not_allowed_is_refused_in_words_and_written_down"
    )) {
        return;
    }
    let net = Net::new(|world| world);
    let refused = curl(
        &net,
        &allowed(),
        &["-w", "\n%{http_code}", "http://evil.example.net/x?y"],
    );
    let text = refused["stdout"].as_str().unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{refused}"));
    assert_eq!((status, &body["code"]), ("403", &json!("net.denied")), "{refused}");
    assert!(
        body["message"].as_str().unwrap().contains("evil.example.net"),
        "{refused}"
    );
    let violation = &refused["violations"][0];
    assert_eq!(violation["kind"], "net", "{refused}");
    assert!(
        violation["detail"].as_str().unwrap().contains("evil.example.net"),
        "{refused}"
    );
    // A refused upgrade to another protocol also tells the reason.
    let wish = [
        "-H",
        "Connection: Upgrade",
        "-H",
        "Upgrade: websocket",
        "http://evil.example.net/",
    ];
    let wished = curl(&net, &allowed(), &wish);
    assert!(wished["stdout"].as_str().unwrap().contains("net.denied"), "{wished}");
    let tries = [
        &["https://evil.example.net/"][..],
        &["-x", "socks5h://127.0.0.1:3128", "http://evil.example.net/"],
        &["--fail", "http://169.254.169.254/latest/meta-data/"],
        &["-k", "https://10.0.0.5/"],
        &[
            "-L",
            "--fail",
            "http://allowed.example.com/redirect?http://169.254.169.254/",
        ],
        &["--fail", "https://api.example.com/other"],
        &["--fail", "-X", "POST", "-d", "x", "https://api.example.com/echo/1"],
        &["--noproxy", "*", "http://93.184.216.34/page"],
        &["https://stranger.example.com/"],
    ];
    for words in tries {
        let result = curl(&net, &allowed(), words);
        assert_ne!(result["exit_code"], json!(0), "{words:?}: {result}");
        assert!(!result.to_string().contains(world::SECRET), "{words:?}: {result}");
    }
    net.check_nobody_strayed();
    let asked: Vec<String> = net
        .internet
        .traffic()
        .queries()
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert!(
        !asked.iter().any(|name| name.contains("evil")),
        "resolved before it was decided: {asked:?}"
    );
    let events = net.ringfence(&["audit", "export"]);
    assert!(events.stdout.contains("evil.example.net"), "{events:?}");
}

#[test]
fn nothing_leaves_where_the_policy_has_no_network() {
    if !world::enter_internet(concat!(
        module_path!(),
        "::nothing_leaves_where_the_policy_has_no_network"
    )) {
        return;
    }
    let net = Net::new(|world| world);
    let result = curl(
        &net,
        &world::policy(&json!({ "enabled": false })),
        &["http://allowed.example.com/page"],
    );
    assert_ne!(result["exit_code"], json!(0), "{result}");
    let variables = net.exec(&world::policy(&json!({ "enabled": false })), &["env"]);
    assert!(
        !variables["stdout"].as_str().unwrap().to_lowercase().contains("proxy"),
        "{variables}"
    );
    assert_eq!(net.internet.traffic().arrivals(), []);
}
