//! Executions that cannot be resumed: a tool is gone, a recording was altered, the program depends on something
//! unrecorded. Each is refused or fails with its reason and calls nothing.

use std::fs;

use ringfence_engine::approvals::ApprovalState;
use ringfence_journal::EventKind;
use ringfence_testkit::front_clients::{ClientEra, StdioClient, structured_content};
use serde_json::{Value, json};

use super::world::World;

const ONE: &str = r#"
const before = await tools.log.note({ text: "before" });
const sent = await tools.log.send.try({ text: "it" });
[before, sent.ok ? sent.data : sent.error.code]
"#;

const THREADS: &str = "import threading
thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
await tools.log.send(text='it')";

#[test]
fn a_yes_for_a_tool_that_is_gone_calls_nothing() {
    let world = World::new();
    let server = world.serve();
    let run = server.begin("typescript", ONE);
    world.suspended(&run);
    server.kill();
    world.servers(&json!({ "other": world.entry() }));
    let server = world.serve();
    world.answer(world.pending(1)[0].id, true).unwrap();
    let ended = server.ended(&run);
    assert_eq!(ended["value"], json!(["before", "tool.unknown"]), "{ended}");
    let call = &ended["calls"][1];
    assert_eq!(
        (&call["number"], &call["outcome"]),
        (&json!(2), &json!("refused")),
        "{ended}"
    );
    assert_eq!(world.calls_of("send"), 0);
    world.nothing_twice();
}

#[test]
fn a_recording_that_was_tampered_with_is_not_run() {
    let world = World::new();
    let server = world.serve();
    let (run, other) = (
        server.begin("typescript", ONE),
        server.begin("typescript", &ONE.replace("\"it\"", "\"us\"")),
    );
    world.suspended(&run);
    world.suspended(&other);
    server.kill();
    let database = world.lock();
    // Replaces the program of this execution with that of another.
    let changed = database.execute(
        "UPDATE recordings SET request = (SELECT request FROM recordings WHERE execution = ?2) WHERE execution = ?1",
        [&run.execution, &other.execution],
    );
    assert_eq!(changed, Ok(1));
    database.execute_batch("COMMIT").unwrap();
    drop(database);
    world.answer(world.pending_of("it").id, true).unwrap();
    let server = world.serve();
    let (status, told) = crate::setting::eventually("it is given up", || {
        let (status, told) = server.look(&run);
        (status != 202).then_some((status, told))
    });
    assert_eq!(status, 410, "{told}");
    assert_eq!(world.calls_of("send"), 0);
    // The other execution is unaffected.
    world.answer(world.pending_of("us").id, true).unwrap();
    assert_eq!(server.ended(&other)["value"], json!(["before", "us"]));
    assert_eq!(world.calls_of("send"), 1);
    assert_eq!(server.end(), Some(0));
    world.verified();
}

#[test]
fn a_program_that_depends_on_an_address_is_failed_at_the_call_that_differs() {
    let world = World::new();
    let server = world.serve();
    let code = "here = id(object())\nfirst = await tools.log.note(text=\"before\")\n\
                second = await tools.log.send(text=f\"at {here}\")\n[first, second]";
    let run = server.begin("python", code);
    world.suspended(&run);
    server.kill();
    let server = world.serve();
    world.answer(world.pending(1)[0].id, true).unwrap();
    let ended = server.ended(&run);
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(ended["error"]["code"], "replay.diverged", "{ended}");
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("call 2"), "{message}");
    assert_eq!(world.calls_of("send"), 0);
    assert!(world.questions(Some(ApprovalState::Pending)).is_empty());
    world.nothing_twice();
}

#[test]
fn a_python_program_with_threads_keeps_its_sandbox_and_says_that_it_cannot_go_on() {
    let world = World::new();
    let server = world.serve();
    let code = THREADS;
    let run = server.begin("python", code);
    let question = world.pending(1).remove(0);
    let told = server.waits(&run);
    assert!(told["unrepeatable"].as_str().unwrap().contains("thread"), "{told}");
    let why = crate::setting::eventually("it is known that it cannot go on", || world.standing(&run)?.spoiled);
    assert!(why.contains("thread"), "{why}");
    world.answer(question.id, true).unwrap();
    assert_eq!(server.ended(&run)["value"], "it");
    assert_eq!(world.calls_of("send"), 1);
    // An execution whose server dies is lost, and its status tells so.
    let run = server.begin("python", code);
    world.pending(1);
    crate::setting::eventually("it is known that it cannot go on", || world.standing(&run)?.spoiled);
    server.kill();
    let server = world.serve();
    let (status, told) = server.look(&run);
    assert_eq!(status, 410, "{told}");
    assert_eq!(world.calls_of("send"), 1);
    // The new server withdraws the request when it cleans up.
    world.pending(0);
}

/// The rules with a network that leads nowhere.
fn with_network() -> World {
    World::under(&format!("{}net: {{ enabled: true }}\n", super::world::RULES))
}

#[test]
fn a_python_program_that_used_the_network_says_that_it_cannot_go_on() {
    let world = with_network();
    let server = world.serve();
    let code = "import socket
socket.create_connection(('127.0.0.1', 3128)).close()
await tools.log.send(text='it')";
    let run = server.begin("python", code);
    let question = world.pending(1).remove(0);
    let told = server.waits(&run);
    assert!(told["unrepeatable"].as_str().unwrap().contains("network"), "{told}");
    world.answer(question.id, true).unwrap();
    assert_eq!(server.ended(&run)["value"], "it");
    assert_eq!(world.calls_of("send"), 1);
}

#[test]
fn a_program_that_is_run_again_has_its_fetches_from_the_recording() {
    let world = with_network();
    let server = world.serve();
    let code = r#"
let told;
try { await fetch("https://nowhere.example/x", { method: "POST", body: "once" }); } catch (error) { told = [error.code, error.rule]; }
const sent = await tools.log.send.try({ text: "it" });
[told, sent.ok]
"#;
    let run = server.begin("typescript", code);
    world.suspended(&run);
    server.kill();
    let server = world.serve();
    world.answer(world.pending(1)[0].id, true).unwrap();
    let ended = server.ended(&run);
    assert_eq!(ended["value"], json!([["net.denied", "net.default"], true]), "{ended}");
    let kinds = world.journal(&run.session);
    let refused = kinds
        .iter()
        .filter(|kind| matches!(kind, EventKind::EgressRefused { .. }));
    assert_eq!(refused.count(), 1, "{kinds:#?}");
    world.nothing_twice();
}

/// Checks that an answer states, as a field and as text, that its execution does not outlive the server.
#[track_caller]
fn is_told_that_it_is_tied(told: &Value, why: &str) {
    assert_eq!(told["status"], "waiting_approval", "{told}");
    assert_eq!(told["approvals"][0]["tool"], "log.send", "{told}");
    assert!(told["unrepeatable"].as_str().unwrap().contains(why), "{told}");
    let notices = told["notices"].as_array().unwrap();
    let says = |notice: &Value| {
        let notice = notice.as_str().unwrap();
        notice.contains("lost if this server ends") && notice.contains(why)
    };
    assert!(notices.iter().any(says), "{told}");
}

#[test]
fn a_client_is_told_at_the_first_wait_that_a_program_cannot_go_on_elsewhere() {
    let world = World::new();
    let mut client = StdioClient::start(&mut world.setting.stdio(), ClientEra::Legacy).unwrap();
    let mut call = |tool: &str, ask: Value| structured_content(&client.call(tool, &ask).unwrap()).unwrap().clone();
    let mut run = |ask: Value| call("sandboxed_code_run", ask);
    run(json!({ "language": "typescript", "code": "files.write('big', 'x'.repeat(17 << 20))", "session_id": "work" }));
    let code = "await tools.log.send({ text: 'us' })";
    let large = run(json!({ "language": "typescript", "code": code, "session_id": "work" }));
    is_told_that_it_is_tied(&large, "16 MiB");
    let threads = run(json!({ "language": "python", "code": THREADS }));
    is_told_that_it_is_tied(&threads, "thread");
    for (begun, why) in [(large, "16 MiB"), (threads, "thread")] {
        let ask = json!({ "execution_id": begun["execution_id"], "wait": "0s" });
        let told = call("wait_run", ask);
        is_told_that_it_is_tied(&told, why);
        let question = begun["approvals"][0]["id"].as_str().unwrap().parse().unwrap();
        world.answer(question, true).unwrap();
        let ask = json!({ "execution_id": begun["execution_id"] });
        let ended = call("wait_run", ask);
        assert_eq!(ended["status"], "completed", "{ended}");
    }
    assert_eq!(world.calls_of("send"), 2);
}

#[test]
fn whoever_runs_a_program_is_told_that_it_cannot_go_on_elsewhere() {
    let world = World::new();
    world.setting.write("main.py", THREADS);
    let said = world.file("said");
    let args = [
        "run",
        "main.py",
        "--json",
        "--servers",
        "servers.json",
        "--policy",
        "policy.yaml",
    ];
    let mut command = world.setting.command(&args);
    let run = crate::setting::spawned(command.stderr(fs::File::create(&said).unwrap()));
    let question = world.pending(1).remove(0);
    // The answer states it while the execution waits, not only at the end.
    let told = crate::setting::eventually("it is told", || {
        let said = fs::read(&said).unwrap();
        let told = String::from_utf8_lossy(&said);
        let at = told.find("the program is lost if this command ends")?;
        told[at..].split_once('\n').map(|(line, _)| line.to_owned())
    });
    assert!(told.contains("thread"), "{told}");
    world.answer(question.id, true).unwrap();
    let output = crate::setting::wait(run, std::time::Duration::from_mins(1));
    let ended: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(ended["value"], "it", "{ended}");
}
