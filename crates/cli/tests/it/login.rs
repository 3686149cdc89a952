//! Logs in to a remote server as a person does.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

use ringfence_testkit::upstream::{UpstreamMode, serve_on};
use serde_json::json;

use crate::setting::{Setting, wait};

/// A remote server that accepts only clients that logged in at its authority, which verifies the PKCE proof.
fn remote() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || serve_on(&listener, UpstreamMode::Echo, true));
    format!("http://{address}/mcp")
}

/// The answer of an address, head and body.
fn curl(args: &[&str]) -> String {
    let done = Command::new("curl")
        .args(["--silent", "--show-error", "--include"])
        .args(args)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn the_authority_of_these_tests_wants_the_proof_that_belongs_to_the_challenge() {
    let remote = remote();
    let origin = remote.trim_end_matches("/mcp");
    // The pair of RFC 7636, appendix B.
    let (proof, challenge) = (
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    );
    for (given, status) in [(proof, "200"), (challenge, "400")] {
        let asked = format!(
            "{origin}/authorize?redirect_uri=http://127.0.0.1:1/&state=s&code_challenge={challenge}&code_challenge_method=S256"
        );
        let sent = curl(&[&asked]);
        let code = sent.split("code=").nth(1).unwrap().split('&').next().unwrap();
        let form = format!("grant_type=authorization_code&code={code}&code_verifier={given}");
        let answer = curl(&["--data", &form, &format!("{origin}/token")]);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

#[test]
fn a_person_logs_in_and_programs_can_call_the_server() {
    let setting = Setting::new();
    let servers = json!({ "mcpServers": { "far": { "url": remote(), "auth": "oauth" } } });
    setting.write("servers.json", servers.to_string());
    setting.write("policy.yaml", "version: 1\ntools: { rules: [{ allow: 'far.*' }] }\n");
    setting.write("a.ts", "await (tools as any).far.echo({ text: 'in' })");
    let run = [
        "run",
        "a.ts",
        "--json",
        "--servers",
        "servers.json",
        "--policy",
        "policy.yaml",
    ];
    let before = setting.json(&run);
    assert_eq!(before["error"]["code"], "server.failed", "{before:#}");
    assert!(
        before["error"]["message"]
            .as_str()
            .unwrap()
            .contains("servers login far"),
        "{before:#}"
    );

    let mut login = setting.start(&["servers", "login", "far", "--servers", "servers.json"]);
    let mut words = BufReader::new(login.stderr.take().unwrap()).lines();
    let page = words.find_map(|line| Some(line.unwrap().trim().strip_prefix("http")?.to_owned()));
    let page = format!("http{}", page.unwrap());
    assert!(
        page.contains("code_challenge=") && page.contains("code_challenge_method=S256"),
        "{page}"
    );
    curl(&["--location", &page]);
    let done = wait(login, Duration::from_secs(30));
    assert!(done.status.success(), "{done:?}");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "logged in to `far`\n");

    let after = setting.json(&run);
    assert_eq!(after["value"], "in", "{after:#}");
    let vault = setting.run(&["vault", "list"]);
    assert!(
        vault.stdout.contains("oauth/far") && !vault.stdout.contains("access-"),
        "{vault:?}"
    );
}
