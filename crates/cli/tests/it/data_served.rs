//! Redaction for clients of MCP and the API: while a program runs, afterwards, and from the next server.

use std::fs;

use ringfence_testkit::front_clients::{ClientEra, HttpClient, StdioClient};
use serde_json::{Value, json};

use crate::durable::world::World;
use crate::setting::eventually;

const VALUES: [&str; 3] = ["ann.lee@example.com", "bo.ek@example.org", "4111 1111 1111 1111"];

/// One tool receives the values, and the session keeps its files.
const RULES: &str = "
version: 1
fs: { mounts: [{ path: /workspace, access: rw, quota: 4MiB, keep: true }, { path: /tmp, access: rw, quota: 1MiB }] }
tools: { default: allow }
data: { pii: { reveal_to: [log.send] } }
";

/// Fails if a client received a value.
#[track_caller]
fn clean(what: &str, got: &Value) {
    let text = got.to_string();
    for value in VALUES {
        assert!(!text.contains(value), "{what}: {value} in {text}");
    }
}

/// The only alias in a text.
#[track_caller]
fn alias(text: &Value) -> String {
    let text = text.as_str().unwrap_or_else(|| panic!("no text: {text}"));
    let start = text.find('‹').unwrap_or_else(|| panic!("no alias: {text}"));
    let end = text[start..]
        .find('›')
        .unwrap_or_else(|| panic!("no whole alias: {text}"));
    text[start..start + end + '›'.len_utf8()].to_owned()
}

/// A program that outputs a value in every way it can, with pauses in between.
fn says_everything(gate: &str) -> String {
    format!(
        r#"
const ann = await tools.log.note({{ text: "ann.lee@example.com" }});
console.log("out", ann, "bo.ek@example.org");
console.error("err", ann, "4111 1111 1111 1111");
files.write("list.csv", `email,card\n${{ann}},4111 1111 1111 1111\n`);
files.write("inner/own.txt", "bo.ek@example.org");
await tools.log.wait_for({{ file: "{gate}" }});
({{ ann, own: "bo.ek@example.org", ["bo.ek@example.org"]: [{{ deep: "card 4111 1111 1111 1111" }}] }});
"#
    )
}

#[test]
fn the_api_shows_aliases_while_a_program_runs_and_when_it_is_over() {
    let world = World::under(RULES);
    let server = world.serve();
    let gate = world.file("go");
    let run = server.begin("typescript", &says_everything(gate.to_str().unwrap()));
    let said = eventually("it has printed", || {
        let (status, now) = server.look(&run);
        assert_eq!(status, 202, "{now}");
        clean("progress", &now);
        now["stdout"]
            .as_str()
            .is_some_and(|out| out.contains("out"))
            .then_some(now)
    });
    assert!(said["stdout"].as_str().unwrap().contains("‹email:"), "{said}");
    fs::write(gate, "").unwrap();
    let ended = server.ended(&run);
    assert_eq!(ended["status"], "completed", "{ended}");
    clean("result", &ended);
    let ann = alias(&ended["value"]["ann"]);
    assert!(ended["stdout"].as_str().unwrap().contains(&ann), "{ended}");
    assert!(ended["stderr"].as_str().unwrap().contains(&ann), "{ended}");
    assert!(ended["stderr"].as_str().unwrap().contains("‹card:"), "{ended}");
    for code in [
        "throw new Error('no bo.ek@example.org')",
        "await tools.log.note({ text: 4111, to: 'bo.ek@example.org' } as never)",
        "files.read('bo.ek@example.org')",
    ] {
        let failed = server.ended(&server.begin("typescript", code));
        assert_eq!(failed["status"], "failed", "{failed}");
        clean(code, &failed);
    }
    for path in ["/api/v1/runs", "/api/v1/sessions"] {
        clean(path, &server.ask_operator("GET", path, None).1);
    }
    world.verified();
}

#[test]
fn mcp_shows_aliases_in_results_and_files() {
    let world = World::under(RULES);
    let setting = &world.setting;
    let (served, secret) = setting.serve_http(&["--direct", "log.*"]);
    for era in [ClientEra::Legacy, ClientEra::Modern] {
        let mut client = HttpClient::start(&served.address, Some(&secret), era).unwrap();
        let gate = world.file(&format!("go-{era:?}"));
        fs::write(&gate, "").unwrap();
        let code = says_everything(gate.to_str().unwrap());
        let asked = json!({ "language": "typescript", "code": code });
        let result = client.call("sandboxed_code_run", &asked).unwrap();
        clean("result", &result);
        let structured = &result["structuredContent"];
        assert_eq!(structured["status"], "completed", "{result}");
        assert!(
            result["content"][0]["text"].as_str().unwrap().contains("‹email:"),
            "{result}"
        );

        let id = structured["execution_id"].as_str().unwrap();
        let waited = client.call("wait_run", &json!({ "execution_id": id })).unwrap();
        clean("wait_run", &waited);
        for part in ["stdout", "stderr", "value", "files/list.csv", "files/inner/own.txt"] {
            let uri = format!("ringfence://executions/{id}/{part}");
            let read = client.request("resources/read", json!({ "uri": uri })).unwrap();
            clean(part, &read);
            alias(&read["contents"][0]["text"]);
        }
    }
    world.verified();
}

#[test]
fn clients_see_none_of_the_real_values_that_a_program_works_on() {
    let world = World::under("version: 1\ntools: { default: allow }\ndata: { pii: { inside: real } }\n");
    let (served, secret) = world.setting.serve_http(&[]);
    let mut client = HttpClient::start(&served.address, Some(&secret), ClientEra::Modern).unwrap();
    let code = r#"
const said = await tools.log.note({ text: '{"customers":[{"name":"Ann Lee"},{"name":"Bo Ek"}]}' }) as any;
const names = said.customers.map((one: any) => one.name);
console.log(names.join(", "));
files.write("names.txt", names.join("\n"));
({ names, isReal: names[0] === ["Ann", "Lee"].join(" ") });
"#;
    let asked = json!({ "language": "typescript", "code": code });
    let result = client.call("sandboxed_code_run", &asked).unwrap();
    let structured = &result["structuredContent"];
    assert_eq!(structured["value"]["isReal"], true, "{result}");
    let id = structured["execution_id"].as_str().unwrap();
    let mut seen = vec![result.to_string()];
    for part in ["stdout", "value", "files/names.txt"] {
        let uri = format!("ringfence://executions/{id}/{part}");
        let read = client.request("resources/read", json!({ "uri": uri })).unwrap();
        alias(&read["contents"][0]["text"]);
        seen.push(read.to_string());
    }
    for text in seen {
        assert!(!text.contains("Ann Lee") && !text.contains("Bo Ek"), "{text}");
    }
    world.verified();
}

#[test]
fn a_tool_passed_through_by_itself_gives_aliases_and_takes_them_back() {
    let world = World::under(RULES);
    let (served, secret) = world.setting.serve_http(&["--direct", "log.*"]);
    let mut client = HttpClient::start(&served.address, Some(&secret), ClientEra::Legacy).unwrap();
    let asked = json!({ "text": "write to ann.lee@example.com" });
    let noted = client.call("log__note", &asked).unwrap();
    clean("note", &noted);
    let ann = alias(&noted["content"][0]["text"]);
    let sent = client
        .call("log__send", &json!({ "text": format!("Dear {ann}") }))
        .unwrap();
    clean("send", &sent);
    assert!(sent["content"][0]["text"].as_str().unwrap().contains(&ann), "{sent}");
    let last = world.ledger().pop().unwrap();
    assert!(last.arguments.contains("Dear ann.lee@example.com"), "{last:?}");
    // A call with an alias that was never issued is refused and reaches no upstream.
    let invented = json!({ "name": "log__send", "arguments": { "text": "Dear ‹email:zzzzzz›" } });
    let refused = client.request("tools/call", invented).unwrap();
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(world.ledger().len(), 2);
}

#[test]
fn progress_that_a_client_is_told_of_has_aliases() {
    let world = World::under(RULES);
    let mut client = StdioClient::start(&mut world.setting.stdio(), ClientEra::Legacy).unwrap();
    let code = "echo to ann.lee@example.com; sleep 5";
    let params = json!({
        "name": "sandboxed_code_run", "arguments": { "language": "shell", "code": code },
        "_meta": { "progressToken": "p" },
    });
    client.send_request("tools/call", params).unwrap();
    let mut words = Vec::new();
    let answer = loop {
        let heard = client.receive().unwrap().unwrap();
        clean("message", &heard);
        if heard["method"] != "notifications/progress" {
            break heard;
        }
        words.push(heard["params"]["message"].clone());
    };
    assert_eq!(answer["result"]["structuredContent"]["status"], "completed", "{answer}");
    let said = alias(&answer["result"]["structuredContent"]["stdout"]);
    assert!(!words.is_empty());
    for word in &words {
        assert_eq!(alias(word), said, "{words:?}");
    }
}

#[test]
fn a_session_that_goes_on_in_another_process_knows_its_aliases() {
    let world = World::under(RULES);
    let ask = |session: &str, code: &str| json!({ "language": "typescript", "code": code, "session_id": session });
    let note = "await tools.log.note({ text: 'ann.lee@example.com' })";
    let server = world.serve();
    let first = server.ended(&server.begin_with(&ask("crm", note)));
    let ann = alias(&first["value"]);
    // The server is killed, not ended: what a client has seen is recorded before.
    server.kill();

    let server = world.serve();
    let send = format!("await tools.log.send({{ text: 'Dear {ann}' }})");
    let second = server.ended(&server.begin_with(&ask("crm", &send)));
    assert_eq!(second["session_id"], first["session_id"], "{second}");
    assert_eq!(second["value"], format!("Dear {ann}"), "{second}");
    let last = world.ledger().pop().unwrap();
    assert_eq!(
        last.arguments,
        json!({ "text": "Dear ann.lee@example.com" }).to_string()
    );
    let again = server.ended(&server.begin_with(&ask("crm", note)));
    assert_eq!(again["value"], ann, "the same value, the same alias");
    // In every other session the alias has no value.
    let other = server.ended(&server.begin_with(&ask("other", &send)));
    assert_eq!(other["error"]["code"], "data.alias", "{other}");
    let unlinked = server.ended(&server.begin_with(&ask("other", note)));
    assert_ne!(alias(&unlinked["value"]), ann);
    assert_eq!(world.calls_of("send"), 1);
    world.verified();
}
