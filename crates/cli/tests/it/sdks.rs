//! The protocol's own SDKs as clients on both transports: one conversation from handshake to end, in Python and in
//! TypeScript.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clients::{doors_under, node};
use crate::serving::{Door, serving};
use crate::setting::{Setting, spawned, tool, wait};

const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Everything of the company, but for one tool that a person is asked about.
const POLICY: &str =
    "version: 1\ntools:\n  rules:\n    - { allow: 'company.*' }\n    - { ask: 'company.block_customer' }\n";

/// The tools that every client is shown.
const TOOLS: [&str; 7] = [
    "search_tools",
    "list_tools",
    "describe_tools",
    "sandboxed_code_run",
    "wait_run",
    "save_skill",
    "list_skills",
];

/// The company under that policy.
fn asking() -> Setting {
    let setting = serving();
    setting.write("policy.yaml", POLICY);
    setting
}

/// Where a client finds the door, as its script takes it.
fn place(door: &Door) -> Value {
    match door {
        Door::Stdio(server) => json!({ "command": server.command, "args": server.args, "env": server.env }),
        Door::Http(url, secret) => json!({ "url": url, "headers": { "Authorization": format!("Bearer {secret}") } }),
    }
}

/// Holds the conversation: approves what it waits for, as a person at the command line, and gives back what came of it.
fn converse(setting: &Setting, mut client: Command) -> Value {
    client
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", setting.path("user"));
    client.current_dir(setting.work()).stdin(Stdio::null());
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawned(&mut client);
    let (sender, lines) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = thread::spawn(move || {
        output
            .lines()
            .map_while(Result::ok)
            .for_each(|line| drop(sender.send(line)));
    });
    let mut last = String::new();
    while let Ok(line) = lines.recv_timeout(TEST_TIMEOUT) {
        if let Some(id) = line.strip_prefix("waiting ") {
            let approved = setting.run(&["approvals", "approve", id]);
            assert_eq!(approved.code, Some(0), "{approved:?}");
        }
        last = line;
    }
    let output = wait(child, TEST_TIMEOUT);
    reader.join().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{last}\n{complaint}", output.status);
    serde_json::from_str(&last).unwrap_or_else(|error| panic!("{error}: {last}\n{complaint}"))
}

/// The conversation brought back what it must, at this door and by this revision of the protocol.
#[track_caller]
fn check(setting: &Setting, door: &Door, protocol: &str, mut done: Value) {
    let session = done["session"].take();
    for missing in ["no_tool", "no_resource"] {
        let message = done[missing]["message"].take();
        let said = message.as_str().unwrap_or_default();
        assert!(
            said.contains("no_such_tool") || said.contains("/nothing"),
            "{door:?} {missing}: {message}"
        );
    }
    let facts = |status: Value, code: &str| json!({ "is_error": true, "status": status, "code": code, "said": true });
    // The revision of 2026 has the code of wrong parameters where that of 2025 has one of its own.
    let no_resource = if protocol == "2025-11-25" { -32002 } else { -32602 };
    let expected = json!({
        "server": { "name": "ringfence", "protocol": protocol },
        "names": TOOLS,
        "refused": TOOLS,
        "found": ["company.list_customers", "company.block_customer"],
        "stub": true,
        "typed": { "ids": ["CUS-0001", "CUS-0002", "CUS-0003"], "first": "CUS-0001" },
        "calls": [["company.list_customers", "ok"], ["company.get_customer", "ok"]],
        "waited": "waiting_approval",
        "approved": "blocked",
        "progress": true,
        "cancelled": true,
        "after": "after\n",
        "session": null,
        "cut": true,
        "whole": ["application/json", 90_000],
        "templates": 2,
        "wrong": facts(Value::Null, "arguments.unknown"),
        "failed": facts(json!("failed"), "program.failed"),
        "no_tool": { "code": -32602, "message": null },
        "no_resource": { "code": no_resource, "message": null },
    });
    assert_eq!(done, expected, "{door:?} {protocol}");
    // The call that the client cancelled ended and is recorded as cancelled.
    let shown = setting
        .run(&["audit", "show", session.as_str().unwrap(), "--json"])
        .stdout;
    let events = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ended = events.filter(|event| event["event"]["kind"] == "execution_ended");
    let ended: Vec<Value> = ended.map(|event| event["event"]["status"].clone()).collect();
    assert_eq!(ended, ["cancelled", "completed"], "{door:?}: {shown}");
}

/// A TypeScript program beside the packages that it imports, as in anybody's project.
fn typescript(script: &str, protocol: &str) {
    doors_under(asking, |setting, door| {
        let (Some(node), Some(modules)) = (node(), tool("mcp/node_modules")) else {
            return;
        };
        let files = [
            (
                "conversation.mts",
                include_str!("../../testdata/clients/conversation.mts"),
            ),
            ("v1.mts", include_str!("../../testdata/clients/v1.mts")),
            ("v2.mts", include_str!("../../testdata/clients/v2.mts")),
        ];
        for (name, source) in files {
            setting.write(name, source);
        }
        std::os::unix::fs::symlink(modules, setting.work().join("node_modules")).unwrap();
        let mut client = Command::new(node);
        client.arg(script).arg(place(door).to_string());
        let done = converse(setting, client);
        check(setting, door, protocol, done);
    });
}

fn python(mode: &str, protocol: &str) {
    doors_under(asking, |setting, door| {
        let (Some(python), Some(packages)) = (tool("py/bin/python3"), tool("mcp-python")) else {
            return;
        };
        let script = setting.write("client.py", include_str!("../../testdata/clients/client.py"));
        let mut client = Command::new("/usr/bin/env");
        client.arg(format!("PYTHONPATH={}", packages.display())).arg(python);
        client.arg(script).arg(place(door).to_string()).arg(mode);
        let done = converse(setting, client);
        check(setting, door, protocol, done);
    });
}

#[test]
fn the_first_typescript_sdk_holds_a_conversation_at_both_doors() {
    typescript("v1.mts", "2025-11-25");
}

#[test]
fn the_second_typescript_sdk_holds_a_conversation_at_both_doors() {
    typescript("v2.mts", "2026-07-28");
}

#[test]
fn the_python_sdk_holds_a_conversation_at_both_doors_after_a_handshake() {
    python("legacy", "2025-11-25");
}

#[test]
fn the_python_sdk_holds_a_conversation_at_both_doors_without_one() {
    python("auto", "2026-07-28");
}
