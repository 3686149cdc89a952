//! The `timeout` of a run and the operator's ceiling give the same answer on every transport.

use ringfence_testkit::front_clients::{ClientEra, HttpClient, StdioClient, structured_content};
use serde_json::{Value, json};

use crate::serving::serving;
use crate::setting::Setting;

/// Checks the refusal on one transport of a timeout above the ceiling.
#[track_caller]
fn check_refused(door: &str, execution: &Value) {
    let error = &execution["error"];
    let facts = json!([execution["status"], error["code"], error["rule"]]);
    assert_eq!(
        facts,
        json!(["refused", "policy.ceiling", "proc.wall_timeout"]),
        "{door}: {execution:#}"
    );
    let said = error["message"].as_str().unwrap();
    // A client's word is its `timeout`; a policy file has the key itself.
    let asked = if door == "found" {
        "`proc.wall_timeout`"
    } else {
        "`timeout`"
    };
    assert!(
        said.contains(asked) && said.contains("10m") && said.contains("30s"),
        "{door}: {said}"
    );
}

/// Requests a run on each transport of a new server.
fn at_doors(setting: &impl Fn() -> Setting, more: &[&str], ask: &Value, check: impl Fn(&str, &Value)) {
    let setting = &setting();
    let mut stdio = StdioClient::start(
        &mut setting.command(&setting.serve_args(&[&["--stdio"], more].concat())),
        ClientEra::Modern,
    )
    .unwrap();
    let call = json!({ "name": "sandboxed_code_run", "arguments": ask });
    let answer = stdio.request("tools/call", call.clone()).unwrap();
    check("stdio", structured_content(&answer).unwrap());
    let (server, secret) = setting.serve_http(more);
    let mut http = HttpClient::start(&server.address, Some(&secret), ClientEra::Legacy).unwrap();
    check(
        "http",
        structured_content(&http.request("tools/call", call).unwrap()).unwrap(),
    );
    let headers = [
        ("Authorization", format!("Bearer {secret}")),
        ("Content-Type", "application/json".to_owned()),
    ];
    let reply = http
        .send("POST", "/api/v1/runs", &headers, ask.to_string().as_bytes())
        .unwrap();
    check("api", &serde_json::from_slice(&reply.body).unwrap());
}

#[test]
fn more_time_than_the_ceiling_has_is_refused_by_its_key_at_every_door() {
    let ask = json!({ "language": "javascript", "code": "1", "timeout": "10m" });
    at_doors(&serving, &[], &ask, check_refused);
    // An open session does not raise the limit.
    let ask = json!({ "language": "javascript", "code": "1", "timeout": "10m", "session_id": "open" });
    at_doors(&serving, &[], &ask, check_refused);
    let setting = serving();
    // A policy file in the folder is untrusted too.
    setting.write("sandbox.policy.yaml", "proc: { wall_timeout: 10m }\n");
    setting.write("main.js", "1");
    check_refused("found", &setting.json(&["run", "main.js", "--json"]));
    // A limit on the command line is explicit, so it is not refused.
    setting.write("sandbox.policy.yaml", "proc: { mem_limit: 256MiB }\n");
    let own = setting.json(&["run", "main.js", "--json", "--timeout", "10m"]);
    assert_eq!(own["status"], "completed", "{own:#}");
}

#[test]
fn time_that_the_ceiling_has_is_given_to_the_run_that_asks_for_it() {
    let hasty = || {
        let setting = serving();
        setting.write("policy.yaml", "version: 1\nproc: { wall_timeout: 1s }\n");
        setting.write("ringfence.yaml", "ceiling: { proc: { wall_timeout: 1m } }\n");
        setting
    };
    let (setting, more) = (&hasty, ["--config", "ringfence.yaml"]);
    let slow = json!({ "language": "shell", "code": "sleep 1.5; echo done" });
    at_doors(setting, &more, &slow, |door, execution| {
        assert_eq!(execution["error"]["code"], "limit.wall", "{door}: {execution:#}");
    });
    let mut patient = slow.clone();
    patient["timeout"] = json!("1m");
    at_doors(setting, &more, &patient, |door, execution| {
        assert_eq!(execution["stdout"], "done\n", "{door}: {execution:#}");
    });
    // A draft may also limit the program's own time, while `timeout` limits the time with all waiting.
    let mut both = slow;
    both["timeout"] = json!("10m");
    both["sandbox_policy"] = json!({ "proc": { "wall_timeout": "30s" } });
    at_doors(setting, &more, &both, |door, execution| {
        assert_eq!(execution["stdout"], "done\n", "{door}: {execution:#}");
    });
}
