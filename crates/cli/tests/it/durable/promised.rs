//! Accepted runs: a run that was answered with an id is found after its server was killed, and starts once.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::world::{World, send_all};

/// A program in the language for which no sandbox is ready; none can start while the workers are held.
const NOTE: &str = "await tools.log.note(text='once')";

#[test]
fn a_run_that_was_promised_is_found_after_its_server_was_killed() {
    let world = World::new();
    let server = world.serve();
    // The run cannot start: only its acceptance is recorded.
    let held = server.hold();
    let run = server.begin("python", NOTE);
    assert_eq!(world.standing(&run), None);
    server.kill();
    send_all(&held, Signal::KILL);
    let server = world.serve();
    let (status, told) = server.look(&run);
    assert_eq!((status, &told["code"]), (410, &json!("run.forgotten")), "{told}");
    assert!(told["message"].as_str().unwrap().contains("`lost`"), "{told}");
    let (status, told) = server.ask_operator("GET", &format!("/api/v1/runs/{}", run.execution), None);
    assert_eq!(status, 410, "{told}");
    // A run that was never accepted does not exist.
    let (status, told) = server.ask("GET", "/api/v1/runs/x_00000000000000000000000000", None);
    assert_eq!(status, 404, "{told}");
    assert_eq!(world.calls_of("note"), 0);
}

#[test]
fn of_two_servers_with_one_key_one_begins_the_run() {
    let world = World::new();
    let (first, second) = (world.serve(), world.serve());
    let ask = json!({ "language": "python", "code": NOTE });
    let held = first.hold();
    let (status, begun) = first.ask_keyed("a-key", "?wait=0", &ask);
    assert_eq!(status, 202, "{begun}");
    // The other server knows the accepted run, although it has not started.
    let (status, told) = second.ask_keyed("a-key", "", &ask);
    assert_eq!((status, &told["code"]), (409, &json!("run.elsewhere")), "{told}");
    let other = json!({ "language": "typescript", "code": "2" });
    let (status, told) = second.ask_keyed("a-key", "", &other);
    assert_eq!((status, &told["code"]), (422, &json!("run.key")), "{told}");
    send_all(&held, Signal::CONT);
    let (status, ended) = first.ask_keyed("a-key", "", &ask);
    assert_eq!(
        (status, &ended["execution_id"]),
        (200, &begun["execution_id"]),
        "{ended}"
    );
    assert_eq!(world.calls_of("note"), 1);
}

#[test]
fn a_key_whose_server_was_killed_before_the_run_began_begins_it() {
    let world = World::new();
    let (first, second) = (world.serve(), world.serve());
    let ask = json!({ "language": "python", "code": NOTE });
    let held = first.hold();
    let (status, begun) = first.ask_keyed("a-key", "?wait=0", &ask);
    assert_eq!(status, 202, "{begun}");
    first.kill();
    send_all(&held, Signal::KILL);
    let (status, ended) = second.ask_keyed("a-key", "", &ask);
    assert_eq!(
        (status, &ended["execution_id"]),
        (200, &begun["execution_id"]),
        "{ended}"
    );
    let (status, again) = second.ask_keyed("a-key", "", &ask);
    assert_eq!(
        (status, &again["execution_id"]),
        (200, &begun["execution_id"]),
        "{again}"
    );
    assert_eq!(world.calls_of("note"), 1);
}

#[test]
fn a_run_of_another_server_is_told_to_be_elsewhere_at_once() {
    let world = World::new();
    let (first, second) = (world.serve(), world.serve());
    let run = first.begin("typescript", "await tools.log.note({ text: 'begun' }); while (true) {}");
    crate::setting::eventually("it goes on", || (world.calls_of("note") == 1).then_some(()));
    let looks = (0..5).map(|_| {
        let started = Instant::now();
        let (status, told) = second.look(&run);
        assert_eq!((status, &told["code"]), (409, &json!("run.elsewhere")), "{told}");
        started.elapsed()
    });
    // Each request looked for the run during half a second.
    let shortest = looks.min().unwrap();
    assert!(shortest < Duration::from_millis(400), "{shortest:?}");
}

#[test]
fn a_run_that_goes_from_one_server_to_another_is_never_said_to_be_elsewhere() {
    let world = World::new();
    let server = world.serve();
    let run = server.begin("typescript", "await tools.log.send({ text: 'it' })");
    world.suspended(&run);
    let question = world.pending(1).remove(0);
    server.kill();
    let server = world.serve();
    std::thread::scope(|scope| {
        let looks: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let started = Instant::now();
                    loop {
                        let (status, told) = server.look(&run);
                        if status == 200 {
                            return told["value"].clone();
                        }
                        assert_eq!(status, 202, "{told}");
                        assert!(started.elapsed() < Duration::from_secs(40), "it never ends: {told}");
                    }
                })
            })
            .collect();
        world.answer(question.id, true).unwrap();
        for look in looks {
            assert_eq!(look.join().unwrap(), json!("it"));
        }
    });
    assert_eq!(world.calls_of("send"), 1);
}
