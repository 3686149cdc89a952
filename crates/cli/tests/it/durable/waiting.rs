//! A waiting execution has no process, can be cancelled, and does not keep its server from ending.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ringfence_engine::approvals::{ApprovalQuery, ApprovalState};
use ringfence_journal::EventKind;
use ringfence_store::{Lease, Store};
use ringfence_testkit::front_clients::{ClientEra, HttpClient, StdioClient, structured_content};
use ringfence_testkit::waiting::WaitingOriginal;
use rustix::process::Signal;
use serde_json::json;

use super::world::{World, wait};
use crate::setting::eventually;

const ONE: &str = r#"
const before = await tools.log.note({ text: "before" });
const sent = await tools.log.send.try({ text: "it" });
[before, sent.ok ? sent.data : sent.error.code]
"#;

#[test]
fn what_waits_has_no_process() {
    let world = World::new();
    let server = world.serve();
    // As many runs that do not wait, so that the same number of sandboxes is kept ready.
    let code = "await tools.log.slow({ ms: 1500 })";
    let busy: Vec<_> = (0..6).map(|_| server.begin("typescript", code)).collect();
    for run in &busy {
        server.ended(run);
    }
    let still = || {
        let mut counts = [usize::MAX, usize::MAX, 0];
        eventually("its processes come to rest", || {
            counts.rotate_left(1);
            std::thread::sleep(Duration::from_millis(150));
            counts[2] = server.workers().len();
            (counts[0] == counts[1] && counts[1] == counts[2]).then_some(counts[2])
        })
    };
    let before = still();
    let runs: Vec<_> = (0..6).map(|_| server.begin("typescript", ONE)).collect();
    for run in &runs {
        world.suspended(run);
    }
    let after = still();
    assert!(after <= before, "{before} processes, then {after} while six wait");
    assert_eq!(world.pending(6).len(), 6);
    for question in world.pending(6) {
        world.answer(question.id, true).unwrap();
    }
    for run in &runs {
        assert_eq!(server.ended(run)["value"], json!(["before", "it"]));
    }
    assert_eq!(world.calls_of("send"), 6);
}

#[test]
fn a_program_with_more_questions_than_a_page_rests_until_it_is_answered() {
    let world = World::new();
    let server = world.serve();
    let code = "const all = [...Array(1100).keys()].map((n) => tools.log.send.try({ text: `${n}` }));
        await Promise.race(all); await Promise.all(all)";
    let run = server.begin("typescript", code);
    let rested = || {
        let kinds = world.journal(&run.session);
        kinds
            .iter()
            .filter(|kind| matches!(kind, EventKind::ExecutionSuspended { .. }))
            .count()
    };
    eventually("it gave up its sandbox", || (rested() == 1).then_some(()));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(rested(), 1);
    // The oldest request is not on the first page.
    let page = world.list(ApprovalQuery::default());
    let before = page.last().map(|last| last.id);
    let which = ApprovalQuery {
        before,
        ..ApprovalQuery::default()
    };
    let first = world.list(which).pop().unwrap();
    assert_eq!(page.len(), 1000);
    world.answer(first.id, false).unwrap();
    eventually("it goes on, and rests again", || (rested() == 2).then_some(()));
    let (status, ended) = server.ask("POST", &format!("/api/v1/runs/{}/cancel", run.execution), None);
    assert_eq!((status, &ended["status"]), (200, &json!("cancelled")), "{ended}");
    assert_eq!(world.calls_of("send"), 0);
}

/// Creates `count` copies of a waiting execution, after `change` edited its request.
fn copies(world: &World, count: usize, change: impl FnOnce(&mut Vec<u8>), wake: Option<Timestamp>) -> Vec<String> {
    let server = world.serve();
    let run = server.begin("typescript", ONE);
    world.suspended(&run);
    let home = world.setting.home();
    server.kill();
    wait(async {
        let store = Arc::new(Store::open(&home).await.unwrap());
        let lease = Arc::new(Lease::acquire(&home).unwrap());
        let mut original = WaitingOriginal::load(&store, run.execution.parse().unwrap())
            .await
            .unwrap();
        change(original.request());
        let made = original.copies(&store, &lease, count, wake).await.unwrap();
        store.close().await;
        made.iter().map(ToString::to_string).collect()
    })
}

#[test]
fn ten_thousand_that_wait_do_not_hold_up_a_server() {
    let world = World::new();
    let made = copies(&world, 10_000, |_| {}, None);
    assert_eq!(made.len(), 10_000);
    let started = Instant::now();
    let server = world.serve();
    let mut client = HttpClient::connect(server.address(), None, ClientEra::Legacy).unwrap();
    let reply = client.send("GET", "/healthz", &[], b"").unwrap();
    let took = started.elapsed();
    assert_eq!(reply.status, 200);
    // The bound is wide for a debug build on a busy machine; `cargo xtask bench durable` holds it to one second.
    assert!(took < Duration::from_secs(6), "{took:?}");
    // The server still works.
    let run = server.begin("typescript", ONE);
    let question = eventually("its question", || {
        let (_, now) = server.look(&run);
        now["approvals"][0]["id"].as_str().map(|id| id.parse().unwrap())
    });
    world.answer(question, false).unwrap();
    assert_eq!(server.ended(&run)["value"], json!(["before", "approval.denied"]));
    assert_eq!(world.calls_of("send"), 0);
}

#[test]
fn a_recording_whose_code_was_changed_fails_at_the_call_that_differs() {
    let world = World::new();
    let change = |request: &mut Vec<u8>| {
        let (old, new) = (br#"text: \"before\""#, br#"text: \"behind\""#);
        let at = request.windows(old.len()).position(|part| part == old).unwrap();
        request[at..at + new.len()].copy_from_slice(new);
    };
    let made = copies(&world, 1, change, Some(Timestamp::now()));
    let server = world.serve();
    let run = super::world::Begun {
        execution: made[0].clone(),
        session: String::new(),
    };
    let ended = server.ended(&run);
    assert_eq!(ended["error"]["code"], "replay.diverged", "{ended}");
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("call 1"), "{message}");
    assert_eq!(world.calls_of("note"), 1);
    assert_eq!(world.calls_of("send"), 0);
}

#[test]
fn what_waits_can_be_cancelled() {
    for killed in [false, true] {
        let world = World::new();
        let mut server = world.serve();
        let run = server.begin("typescript", ONE);
        world.suspended(&run);
        if killed {
            server.kill();
            server = world.serve();
        }
        let (status, ended) = server.ask("POST", &format!("/api/v1/runs/{}/cancel", run.execution), None);
        assert_eq!((status, &ended["status"]), (200, &json!("cancelled")), "{ended}");
        assert!(world.questions(Some(ApprovalState::Pending)).is_empty());
        assert_eq!(world.calls_of("send"), 0);
        assert_eq!(server.end(), Some(0));
        world.verified();
    }
}

#[test]
fn a_client_that_waits_for_a_run_hears_that_people_are_asked_and_can_end_it() {
    let world = World::new();
    let mut client = StdioClient::start(&mut world.setting.stdio(), ClientEra::Legacy).unwrap();
    let begun = client
        .call("sandboxed_code_run", &json!({ "language": "typescript", "code": ONE }))
        .unwrap();
    let begun = structured_content(&begun).unwrap();
    assert_eq!(begun["status"], "waiting_approval", "{begun}");
    assert_eq!(begun["approvals"][0]["tool"], "log.send");
    let id = begun["execution_id"].as_str().unwrap();
    let ended = client.request(
        "tools/call",
        json!({ "name": "wait_run", "arguments": { "execution_id": id, "cancel": true } }),
    );
    let ended = ended.unwrap();
    assert_eq!(structured_content(&ended).unwrap()["status"], "cancelled", "{ended}");
    assert_eq!(world.calls_of("send"), 0);
}

#[test]
fn a_server_that_ends_in_good_order_leaves_what_waits_to_the_next() {
    for stays in [false, true] {
        let world = World::new();
        let server = world.serve();
        let mut ask = json!({ "language": "typescript", "code": ONE });
        if stays {
            ask["session_id"] = json!("work");
        }
        let run = server.begin_with(&ask);
        world.suspended(&run);
        let started = Instant::now();
        assert_eq!(server.end(), Some(0));
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        let question = world.pending(1).remove(0);
        let server = world.serve();
        assert_eq!(server.waits(&run)["approvals"][0]["id"], json!(question.id), "{stays}");
        world.answer(question.id, true).unwrap();
        assert_eq!(server.ended(&run)["value"], json!(["before", "it"]), "{stays}");
        world.nothing_twice();
        assert_eq!(server.end(), Some(0));
        world.verified();
    }
}

#[test]
fn what_waits_in_a_session_with_files_goes_on_also_where_only_a_ceiling_asks() {
    let world = World::under("version: 1\ntools: { rules: [{ allow: 'log.*' }], drift: deny }\n");
    let config = world.file("user/.config/ringfence/ringfence.yaml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    let ceiling = "ceiling: { tools: { rules: [{ allow: 'log.*' }, { ask: log.send }] } }\n";
    std::fs::write(config, ceiling).unwrap();
    let server = world.serve();
    let in_it = |code: &str| json!({ "language": "typescript", "code": code, "session_id": "work" });
    let mut first = in_it("files.write('old', 'there')");
    // A client's policy stays under the ceiling.
    first["sandbox_policy"] = json!({ "tools": { "drift": "deny" } });
    server.ended(&server.begin_with(&first));
    let run = server.begin_with(&in_it(
        "files.write('new', 'made'); const sent = await tools.log.send({ text: 'it' }); [sent, files.read('old'), files.list()]",
    ));
    world.suspended(&run);
    server.kill();
    let server = world.serve();
    world.answer(world.pending(1)[0].id, true).unwrap();
    let ended = server.ended(&run);
    assert_eq!(ended["value"], json!(["it", "there", ["new", "old"]]), "{ended}");
    world.nothing_twice();
    assert_eq!(server.end(), Some(0));
    world.verified();
}

#[test]
fn what_is_answered_while_the_database_is_locked_goes_on_afterwards() {
    for killed in [false, true] {
        let world = World::new();
        let mut server = world.serve();
        let run = server.begin("typescript", ONE);
        world.suspended(&run);
        if killed {
            server.kill();
            server = world.serve();
        }
        let question = world.pending(1).remove(0);
        server.signal(Signal::STOP);
        world.answer(question.id, true).unwrap();
        let database = world.lock();
        server.signal(Signal::CONT);
        // Longer than a commit waits for another process.
        std::thread::sleep(Duration::from_secs(7));
        drop(database);
        assert_eq!(server.ended(&run)["value"], json!(["before", "it"]), "{killed}");
        world.nothing_twice();
        assert_eq!(server.end(), Some(0));
        world.verified();
    }
}

#[test]
fn what_a_neighbour_left_that_died_just_now_goes_on_when_it_is_asked_for() {
    let world = World::new();
    let (neighbour, server) = (world.serve(), world.serve());
    let run = neighbour.begin(
        "typescript",
        "await tools.log.slow({ ms: 20000 }).catch((error) => error.code)",
    );
    eventually("its call is under way", || (world.calls_of("slow") == 1).then_some(()));
    let (status, told) = server.look(&run);
    assert!(
        status != 202 && told.to_string().contains("another process"),
        "{status} {told}"
    );
    neighbour.kill();
    // A process that was killed while it forked leaves its lease to the child for a moment.
    eventually("it goes on", || (server.look(&run).0 == 202).then_some(()));
    // The result of the interrupted call is unknown.
    world.answer(world.pending(1)[0].id, false).unwrap();
    assert_eq!(server.ended(&run)["status"], "completed");
    assert_eq!(world.calls_of("slow"), 1);
}
