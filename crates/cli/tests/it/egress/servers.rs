//! A tool server in a sandbox with a network: its policy applies, its connections are recorded, and the operator's
//! ceiling limits it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ringfence_testkit::internet::FakeWorld;
use serde_json::{Value, json};

use super::world::{self, Net, enter_internet};

/// A server with one tool, which asks for a page with whatever the library finds in its variables.
const SERVER: &str = r#"
import json, sys, urllib.error, urllib.request
def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return json.loads(error.read())["code"]
    except OSError as error:
        return type(error).__name__
TOOL = {"name": "ask", "description": "Asks for a page.", "inputSchema": {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}}
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked.get("method"), asked.get("params", {})
    if "id" not in asked:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": ask(params["arguments"]["url"])}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no such method"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;

const ASK: &str = r#"
const ask = async (url) => (await tools.web.ask({ url })).trim();
[
    await ask("http://allowed.example.com/page"), await ask("https://allowed.example.com/page"),
    await ask("http://evil.example.net/"), await ask("http://169.254.169.254/"),
]
"#;

/// A world with the server, under this network, and what else is in it.
pub(super) fn with_server(network: &Value, more: impl FnOnce(FakeWorld) -> FakeWorld) -> Net {
    let net = Net::new(more);
    fs::set_permissions(net.setting.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    net.setting.write("web/server.py", SERVER);
    let guest = json!({ "version": 1, "net": network, "fs": { "mounts": [{ "path": "/srv", "access": "ro", "from": "web" }] } });
    let guest = net.setting.write("guest.json", guest.to_string());
    let servers = json!({ "mcpServers": { "web": { "command": "/usr/bin/python3", "args": ["/srv/server.py"], "policy": guest } } });
    net.setting.write("servers.json", servers.to_string());
    let mut policy = world::policy(&json!({ "enabled": false }));
    policy["tools"] = json!({ "default": "allow" });
    net.setting.write("policy.json", policy.to_string());
    net.setting.write("ask.js", ASK);
    net
}

const RUN: [&str; 7] = [
    "run",
    "--json",
    "--servers",
    "servers.json",
    "--policy",
    "policy.json",
    "ask.js",
];

fn opened() -> Value {
    json!({ "enabled": true, "allowlist": ["allowed.example.com", { "host": "allowed.example.com", "scheme": "http" }] })
}

#[test]
fn a_server_in_a_sandbox_reaches_what_its_own_policy_allows() {
    if !enter_internet(concat!(
        module_path!(),
        "::a_server_in_a_sandbox_reaches_what_its_own_policy_allows"
    )) {
        return;
    }
    let net = with_server(&opened(), |world| world);
    let done = net.ringfence(&RUN);
    let result: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    let page = "allowed.example.com 93.184.216.34";
    assert_eq!(
        result["value"],
        json!([page, page, "net.denied", "net.denied"]),
        "{result:#} {}",
        done.stderr
    );
    net.check_nobody_strayed();
    let events = net.ringfence(&["audit", "export"]).stdout;
    let session = result["session_id"].as_str().unwrap();
    let crossed: Vec<&str> = events
        .lines()
        .filter(|line| line.contains("\"kind\":\"egress_"))
        .collect();
    assert!(
        crossed
            .iter()
            .any(|line| line.contains("egress_started") && line.contains("allowed.example.com")),
        "{events}"
    );
    assert!(
        crossed
            .iter()
            .any(|line| line.contains("egress_refused") && line.contains("evil.example.net")),
        "{events}"
    );
    // They are the server's own, not of the session that called it, which has no network.
    assert!(crossed.iter().all(|line| !line.contains(session)), "{events}");
    let checked = net.ringfence(&["audit", "verify"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn a_server_in_a_sandbox_reaches_nothing_without_a_network() {
    if !enter_internet(concat!(
        module_path!(),
        "::a_server_in_a_sandbox_reaches_nothing_without_a_network"
    )) {
        return;
    }
    let net = with_server(&json!({ "enabled": false }), |world| world);
    let done = net.ringfence(&RUN);
    let result: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!(
        result["value"],
        json!(["URLError", "URLError", "URLError", "URLError"]),
        "{result:#}"
    );
    assert_eq!(net.internet.traffic().arrivals(), []);
}

#[test]
fn the_network_of_a_server_stays_under_the_operators_ceiling() {
    if !enter_internet(concat!(
        module_path!(),
        "::the_network_of_a_server_stays_under_the_operators_ceiling"
    )) {
        return;
    }
    let net = with_server(&opened(), |world| world);
    let ceiling = json!({ "ceiling": { "net": { "enabled": true, "allowlist": ["api.example.com"] }, "tools": { "default": "allow" } } });
    net.setting.write("ringfence.yaml", ceiling.to_string());
    let words: Vec<&str> = RUN.into_iter().chain(["--config", "ringfence.yaml"]).collect();
    let done = net.ringfence(&words);
    assert_eq!(done.code, Some(125), "{done:?}");
    let told = format!("{}{}", done.stdout, done.stderr);
    for word in ["policy.ceiling", "server `web`", "net"] {
        assert!(told.contains(word), "{word}: {done:?}");
    }
    assert_eq!(net.internet.traffic().arrivals(), []);
}
