//! The attacks of `mcpsec` on gateways, each turned into an action and tried on the real program.
//! `docs/security/mcpsec.md` names every attack and argues which ones do not apply.

use std::collections::BTreeMap;
use std::fs;

use mcpsec::attacks::{AttackTest, all_tests};
use ringfence_testkit::front_clients::{ClientEra, HttpClient, StdioClient, structured_content};
use serde_json::{Value, json};

use crate::setting::{Setting, finish};

/// Attacks whose answer is an argument and no act.
const ARGUED: [&str; 17] = [
    "A1.1", "A1.2", "A1.3", "A1.4", "A1.5", "A1.6", "A1.7", "A1.8", "A2.7", "A3.2", "A4.1", "A4.2", "A4.3", "A4.4",
    "A4.5", "A4.6", "A4.7",
];

/// A tool server that answers what a file beside it says, defines its tools as another says, and asks its client when told to.
const SERVER: &str = r#"
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
def read(name): return json.load(open(os.path.join(here, name)))
def say(message): print(json.dumps(dict({"jsonrpc": "2.0"}, **message)), flush=True)
def asked(method, params):
    say({"id": "ask", "method": method, "params": params})
    answer = json.loads(sys.stdin.readline())
    return {"content": [{"type": "text", "text": "refused" if "error" in answer else "answered"}]}
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if "id" not in message or method is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "small", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": read("tools.json")[sys.argv[1]]}
    elif method == "tools/call" and sys.argv[1] == "asking":
        result = asked(params["arguments"]["method"], params["arguments"]["params"])
    elif method == "tools/call":
        result = read("answer.json")
    else:
        say({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        continue
    say({"id": message["id"], "result": result})
"#;

const POLICY: &str = r#"
version: 1
tools:
  rules:
    - { allow: file.read, where: { path: { under: /tmp/ } }, rate: 60/min }
    - { allow: http.request, where: { url: { host: allowed.com } } }
    - { allow: db.query }
    - { allow: drifting.read_file }
    - { allow: asking.ask }
    - { allow: slow.match, where: { text: { matches: "^(a+)+b$" } } }
    - { deny: "bash.*" }
    - { ask: "bash.*" }
    - { allow: "bash.*" }
    - { ask: admin.delete_database }
  drift: deny
"#;

const CONFIG: &str = "listen: { address: '127.0.0.1:0', limits: { body: 1MiB } }\n";

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "A tool.", "inputSchema": {"type": "object"}})
}

fn setting() -> Setting {
    let setting = Setting::new();
    setting.write("server.py", SERVER);
    setting.write("policy.yaml", POLICY);
    setting.write("config.yaml", CONFIG);
    answer(&setting, &json!({"content": [{"type": "text", "text": "ok"}]}));
    let tools = json!({"file": [tool("read")], "http": [tool("request")], "db": [tool("query"), tool("connect")], "bash": [tool("exec")],
        "admin": [tool("action"), tool("delete_database")], "drifting": [tool("read_file")], "asking": [tool("ask")], "slow": [tool("match")]});
    setting.write("tools.json", tools.to_string());
    let script = setting.work().join("server.py");
    let entry = |name: &String| {
        (
            name.clone(),
            json!({"command": "/usr/bin/python3", "args": [script, name]}),
        )
    };
    let servers: BTreeMap<String, Value> = tools.as_object().unwrap().keys().map(entry).collect();
    setting.write("servers.json", json!({"mcpServers": servers}).to_string());
    setting
}

fn answer(setting: &Setting, content: &Value) {
    setting.write("answer.json", content.to_string());
}

/// The program for one act, as one client sees it.
fn client(setting: &Setting) -> StdioClient {
    let mut command = setting.stdio();
    command.stderr(std::process::Stdio::null());
    StdioClient::start(&mut command, ClientEra::Modern).unwrap()
}

/// A call from a program in the sandbox: what came of it, as the attacks read it.
fn call(client: &mut StdioClient, tool: &str, function: &str, parameters: &Value) -> Value {
    let code = format!(
        "let seen; try {{ seen = {{ verdict: 'Allow', value: await tools[{}][{}]({parameters}) }} }} \
         catch (error) {{ seen = {{ verdict: 'Deny', code: error.code ?? String(error), rule: error.rule ?? null }} }} seen",
        json!(tool),
        json!(function)
    );
    let ran = client.request(
        "tools/call",
        json!({"name": "sandboxed_code_run", "arguments": {"language": "javascript", "code": code}}),
    );
    let ran = ran.unwrap();
    let ran = structured_content(&ran).unwrap();
    // A name that cannot be a tool's ends the program before it calls.
    if ran["value"].is_null() {
        json!({"verdict": "Deny", "error": ran["error"]})
    } else {
        ran["value"].clone()
    }
}

/// A call of a tool that changed or appeared, by a client that knew the earlier tools.
fn changed(function: &str) -> Value {
    let setting = setting();
    let before = call(&mut client(&setting), "drifting", "read_file", &json!({}));
    assert_eq!(before["verdict"], "Allow", "{before}");
    let mut tools: Value = serde_json::from_slice(&fs::read(setting.work().join("tools.json")).unwrap()).unwrap();
    let mut name = "read_file";
    match function {
        "tool_annotation_change" => tools["drifting"][0]["annotations"] = json!({"destructiveHint": true}),
        "schema_change_check" => {
            tools["drifting"][0]["inputSchema"]["properties"] = json!({"exfil_url": {"type": "string"}});
        }
        _ => {
            name = "exfiltrate_data";
            tools["drifting"].as_array_mut().unwrap().push(tool(name));
        }
    }
    setting.write("tools.json", tools.to_string());
    call(&mut client(&setting), "drifting", name, &json!({}))
}

/// A record of the journal that somebody changed.
fn tampered() -> Value {
    let setting = setting();
    call(&mut client(&setting), "db", "query", &json!({}));
    let change = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n\
        db.execute(\"UPDATE events SET json = replace(json, 'db.query', 'db.quern') WHERE json LIKE '%db.query%'\")\ndb.commit()\nprint(db.total_changes)";
    let database = fs::read_dir(setting.home())
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let database = database
        .into_iter()
        .find(|path| path.extension().is_some_and(|kind| kind == "db"))
        .unwrap();
    let mut python = std::process::Command::new("/usr/bin/python3");
    python
        .args(["-c", change])
        .arg(database)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let done = finish(python, &[]);
    assert_ne!(done.stdout.trim(), "0", "{done:?}");
    let verified = setting.run(&["audit", "verify"]);
    json!({"valid": verified.code == Some(0)})
}

fn records() -> Vec<Value> {
    let setting = setting();
    let mut client = client(&setting);
    call(&mut client, "db", "query", &json!({"a": 1}));
    call(&mut client, "db", "query", &json!({"a": 2}));
    drop(client);
    let exported = setting.run(&["audit", "export"]);
    exported
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A message over HTTP to a door that takes a mebibyte.
fn posted(payload: &Value) -> u16 {
    let setting = setting();
    let config = setting.work().join("config.yaml");
    let (served, secret) = setting.serve_http(&["--config", &config.to_string_lossy()]);
    let mut client = HttpClient::connect(&served.address, Some(&secret), ClientEra::Modern).unwrap();
    let request = ClientEra::Modern.request(
        1,
        "tools/call",
        json!({"name": "sandboxed_code_run", "arguments": {"code": payload.to_string()}}),
    );
    client
        .post(
            &request.to_string(),
            &[("Mcp-Method", "tools/call"), ("Mcp-Name", "sandboxed_code_run")],
        )
        .unwrap()
        .status
}

/// Whether one token's session is another's.
fn isolated() -> Value {
    let setting = setting();
    let (served, first) = setting.serve_http(&[]);
    let other = setting
        .run(&["token", "create", "--name", "other", "--scope", "agent"])
        .stdout
        .trim()
        .to_owned();
    let run = |secret: &str, code: &str, session: &str| {
        let mut client = HttpClient::start(&served.address, Some(secret), ClientEra::Modern).unwrap();
        let arguments = json!({"language": "shell", "code": code, "session_id": session});
        let ran = client
            .request(
                "tools/call",
                json!({"name": "sandboxed_code_run", "arguments": arguments}),
            )
            .unwrap();
        structured_content(&ran).unwrap().clone()
    };
    let made = run(&first, "echo secret > kept; echo made", "mine");
    assert_eq!(made["stdout"], "made\n", "{made}");
    let (named, known) = (made["session_id"].as_str().unwrap(), run(&first, "cat kept", "mine"));
    assert_eq!(known["stdout"], "secret\n", "{known}");
    let stolen = [run(&other, "cat kept", "mine"), run(&other, "cat kept", named)];
    let leaked = stolen.iter().any(|ran| ran.to_string().contains("secret\\n"));
    json!({"verdict": if leaked { "Allow" } else { "Deny" }})
}

/// Whether a program's calls have a rate: the first is made, one of the others is not.
fn limited(client: &mut StdioClient, parameters: &Value) -> bool {
    let code = format!(
        "let made = 0; try {{ for (; made < 100; made += 1) await tools.file.read({parameters}) }} catch (error) {{ }} made"
    );
    let ran = client
        .call("sandboxed_code_run", &json!({"language": "javascript", "code": code}))
        .unwrap();
    let made = structured_content(&ran).unwrap()["value"].as_u64().unwrap();
    made > 0 && made < 100
}

/// The act that an attack stands for: what the gateway says, and its status.
fn act(test: &AttackTest) -> (Value, u16) {
    let field = |name: &str| test.payload[name].as_str().unwrap();
    let (tool, function, parameters) = (field("tool"), field("function"), &test.payload["parameters"]);
    let setting = setting();
    let refused = |refused: bool| json!({"verdict": if refused { "Deny" } else { "Allow" }});
    let ask = |method: &str, params: Value| {
        let seen = call(
            &mut client(&setting),
            "asking",
            "ask",
            &json!({"method": method, "params": params}),
        );
        refused(seen["value"] == "refused")
    };
    match (tool, function) {
        ("vellaveto", "tool_annotation_change" | "schema_change_check" | "rug_pull_check") => (changed(function), 200),
        ("vellaveto", "self_approval_check") => {
            (call(&mut client(&setting), "admin", "delete_database", parameters), 200)
        }
        ("vellaveto", "session_isolation_check") => (isolated(), 200),
        ("vellaveto", "audit_verify") => (tampered(), 200),
        ("vellaveto", "audit_entries") => {
            let entry = |record: Value| json!({"entry_hash": record["hash"]});
            (
                json!({"entries": records().into_iter().map(entry).collect::<Vec<_>>()}),
                200,
            )
        }
        ("vellaveto", "audit_collision_check") => {
            let records = records();
            (json!({"hash_a": records[0]["hash"], "hash_b": records[1]["hash"]}), 200)
        }
        ("vellaveto", "regex_compile") => (
            call(
                &mut client(&setting),
                "slow",
                "match",
                &json!({"text": parameters["test_input"]}),
            ),
            200,
        ),
        ("vellaveto", "elicitation_check") => (
            ask(
                "elicitation/create",
                json!({"message": "?", "requestedSchema": parameters["requestedSchema"]}),
            ),
            200,
        ),
        ("vellaveto", "sampling_check") => (ask("sampling/createMessage", parameters.clone()), 200),
        ("vellaveto", "resource_read") => {
            let read = client(&setting).request("resources/read", json!({"uri": parameters["uri"]}));
            (refused(read.is_err()), 200)
        }
        _ if test.id == "A10.2" => (json!({}), posted(parameters)),
        _ if test.id == "A10.4" => (json!({"rate_limited": limited(&mut client(&setting), parameters)}), 200),
        _ => {
            if let Some(content) = test
                .payload
                .get("_test_response")
                .filter(|content| content.get("content").is_some())
            {
                answer(&setting, content);
            }
            (call(&mut client(&setting), tool, function, parameters), 200)
        }
    }
}

/// A gateway that refuses everything would hold all attacks.
#[test]
fn what_the_policy_allows_is_allowed() {
    let setting = setting();
    let mut client = client(&setting);
    for (tool, function, parameters) in [
        ("file", "read", json!({"path": "/tmp/a"})),
        ("http", "request", json!({"url": "https://allowed.com/a"})),
        ("db", "query", json!({})),
        ("slow", "match", json!({"text": "aaab"})),
    ] {
        let seen = call(&mut client, tool, function, &parameters);
        assert_eq!(seen, json!({"verdict": "Allow", "value": "ok"}), "{tool}");
    }
}

#[test]
fn every_attack_that_applies_is_held_and_the_others_are_argued() {
    let page = include_str!("../../../../docs/security/mcpsec.md");
    let attacks = all_tests();
    assert_eq!(attacks.len(), 64);
    let mut broken = Vec::new();
    for attack in &attacks {
        assert!(
            page.contains(&format!("| {} |", attack.id)),
            "{} is not on the page",
            attack.id
        );
        if ARGUED.contains(&attack.id) {
            continue;
        }
        let (body, status) = act(attack);
        if !(attack.check_fn)(&body, status) {
            broken.push(format!("{} {}: {status} {body}", attack.id, attack.name));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
