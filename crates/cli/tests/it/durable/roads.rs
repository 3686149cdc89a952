//! Kill -9 at every step of a call. After each, a call with a known result continues by itself, one with an unknown
//! result is shown to a person, and the upstream's ledger has a call twice only if a person approved that.

use std::fs;

use ringfence_engine::approvals::ApprovalState;
use ringfence_journal::EventKind;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::world::{Begun, Server, World, send_all, summary};
use crate::setting::eventually;

/// The step at which the server is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The event of the call is not written yet.
    BeforeTheEvent,
    /// The event is written, and the upstream has not received the call.
    AfterTheEvent,
    /// The event is in the write-ahead file and the upstream has the call, but the database lacks the event.
    AheadOfTheDatabase,
    /// The upstream works on the call.
    UpstreamWorks,
    /// The upstream has answered, and the result is not written.
    BeforeTheResultIsKept,
    /// The result is written, and the program has not received it.
    BeforeTheAnswer,
    /// The program has received the result.
    AfterTheAnswer,
}

/// The answer of a person about a call with an unknown effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Person {
    Again,
    Leave,
}

/// A program with a call that waits for a file, one that waits for another, a pause, and a call that does not wait.
fn code(language: &str, world: &World, pause: u32) -> String {
    let [hold, gate] = ["hold", "gate"].map(|name| json!(world.file(name)));
    match language {
        "python" => format!(
            "import asyncio, time\nprint(time.time())\nfirst = await tools.log.wait_for(file={hold})\nawait asyncio.sleep(1 / 1000)\n\
             try:\n    second = await tools.log.wait_for(file={gate})\nexcept ToolError as error:\n    second = error.code\n\
             print(second, time.time())\nawait asyncio.sleep({pause} / 1000)\nthird = await tools.log.note(text=\"after\")\n\
             [first, second, third]"
        ),
        _ => format!(
            "console.log(Date.now()); const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));\n\
             const first = await tools.log.wait_for({{ file: {hold} }}); await sleep(1);\n\
             const second = await tools.log.wait_for.try({{ file: {gate} }});\n\
             console.log(second.ok, Date.now()); await sleep({pause});\n\
             const third = await tools.log.note({{ text: \"after\" }});\n\
             [first, second.ok ? second.data : second.error.code, third]"
        ),
    }
}

/// How often the upstreams received the call that waits for this file.
fn heard_of(world: &World, name: &str) -> usize {
    let arguments = json!({ "file": world.file(name) }).to_string();
    world.ledger().iter().filter(|line| line.arguments == arguments).count()
}

impl Step {
    /// The pause of the program after the call in milliseconds, so that the test can see it has the result before it
    /// continues.
    fn pause(self) -> u32 {
        if self == Step::AfterTheAnswer { 5000 } else { 1 }
    }

    fn is_unknown(self) -> bool {
        matches!(
            self,
            Step::AfterTheEvent | Step::AheadOfTheDatabase | Step::UpstreamWorks | Step::BeforeTheResultIsKept
        )
    }

    /// How often the upstream has received the call when the server is dead.
    fn heard(self) -> usize {
        usize::from(!matches!(self, Step::BeforeTheEvent | Step::AfterTheEvent))
    }

    /// Kills the server at this step.
    fn kill(self, world: &World, server: Server, run: &Begun) {
        let works_at = |name: &str| eventually("the upstream works", || (heard_of(world, name) == 1).then_some(()));
        let started = |kind: &EventKind| matches!(kind, EventKind::CallStarted { number: 2, .. });
        let ended = |number: u64| move |kind: &EventKind| matches!(kind, EventKind::CallEnded { number: n, .. } if *n == number);
        let gate = world.file("gate");
        // The program is held in the call before, so that the test can hold other parts before the next call.
        works_at("hold");
        let held = server.hold();
        fs::write(world.file("hold"), "").unwrap();
        world.written(&run.session, "the call before has ended", ended(1));
        let go_on = || send_all(&held, Signal::CONT);
        match self {
            Step::BeforeTheEvent => {
                server.dies_at_its_next_write_after(go_on);
                server.kill();
            }
            Step::AfterTheEvent => {
                send_all(&server.upstreams(), Signal::STOP);
                go_on();
                world.written(&run.session, "the call has started", started);
                server.kill();
            }
            Step::AheadOfTheDatabase => {
                let lock = world.lock();
                go_on();
                works_at("gate");
                server.kill();
                drop(lock);
                assert!(!world.committed(&run.session, "call_started", 2));
            }
            Step::UpstreamWorks => {
                go_on();
                works_at("gate");
                server.kill();
            }
            Step::BeforeTheResultIsKept => {
                go_on();
                works_at("gate");
                world.written(&run.session, "the call has started", started);
                server.dies_at_its_next_write_after(|| fs::write(&gate, "").unwrap());
                server.kill();
            }
            Step::BeforeTheAnswer => {
                go_on();
                works_at("gate");
                server.hold();
                fs::write(&gate, "").unwrap();
                world.written(&run.session, "the result is written", ended(2));
                server.kill();
            }
            Step::AfterTheAnswer => {
                go_on();
                fs::write(&gate, "").unwrap();
                eventually("the program has it", || {
                    let (_, now) = server.look(run);
                    let said = now["stdout"].as_str().unwrap_or_default();
                    (said.lines().count() == 2).then_some(())
                });
                server.hold();
                world.written(&run.session, "the result is written", ended(2));
                server.kill();
            }
        }
        fs::write(gate, "").unwrap();
    }
}

fn check(language: &str, step: Step, person: Person) {
    let world = World::new();
    let server = world.serve();
    let run = server.begin(language, &code(language, &world, step.pause()));
    step.kill(&world, server, &run);
    world.left_by_all();
    assert_eq!(heard_of(&world, "gate"), step.heard(), "{step:?}");

    let server = world.serve();
    let (status, now) = server.look(&run);
    assert_eq!(status, 202, "{step:?}: {now}");
    let mut heard = step.heard().max(1);
    let mut second = "there";
    if step.is_unknown() {
        let pending = world.pending(1);
        assert_eq!(summary(&pending), [(2, "unknown".to_owned(), ApprovalState::Pending)]);
        assert_eq!(pending[0].arguments, json!({ "file": world.file("gate") }));
        match person {
            Person::Again => heard = step.heard() + 1,
            Person::Leave => (heard, second) = (step.heard(), "tool.unknown_effect"),
        }
        world.answer(pending[0].id, person == Person::Again).unwrap();
    }
    let ended = server.ended(&run);
    assert_eq!(ended["value"], json!(["there", second, "after"]), "{step:?}: {ended}");
    assert_eq!(heard_of(&world, "gate"), heard, "{step:?}");
    assert_eq!((heard_of(&world, "hold"), world.calls_of("note")), (1, 1), "{step:?}");
    let numbers: Vec<&Value> = ended["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["number"])
        .collect();
    assert_eq!(numbers, [&json!(1), &json!(2), &json!(3)], "{ended}");
    assert_eq!(ended["stdout"].as_str().unwrap().lines().count(), 2, "{ended}");
    assert_eq!(world.questions(Some(ApprovalState::Pending)).len(), 0);
    assert_eq!(server.end(), Some(0));
    world.verified();
}

#[test]
fn a_call_that_a_rule_asks_for_is_made_again_after_one_yes() {
    let rules = "
version: 1
tools: { rules: [{ ask: log.wait_for }] }
approvals: { timeout: 10m, by: [inbox] }
";
    let world = World::under(rules);
    let server = world.serve();
    let gate = world.file("gate");
    let run = server.begin(
        "typescript",
        &format!("await tools.log.wait_for({{ file: {} }})", json!(gate)),
    );
    world.answer(world.pending(1)[0].id, true).unwrap();
    eventually("the upstream works", || (heard_of(&world, "gate") == 1).then_some(()));
    server.kill();
    world.left_by_all();

    let server = world.serve();
    let (status, now) = server.look(&run);
    assert_eq!(status, 202, "{now}");
    let pending = world.pending(1);
    assert_eq!(summary(&pending), [(1, "unknown".to_owned(), ApprovalState::Pending)]);
    fs::write(gate, "").unwrap();
    world.answer(pending[0].id, true).unwrap();
    let ended = server.ended(&run);
    assert_eq!(
        (&ended["status"], &ended["value"]),
        (&json!("completed"), &json!("there")),
        "{ended}"
    );
    // Two requests in total, and the call was made twice, as a person approved.
    assert_eq!((world.questions(None).len(), heard_of(&world, "gate")), (2, 2));
    assert_eq!(server.end(), Some(0));
    world.verified();
}

#[test]
fn killed_before_the_event_of_a_call() {
    check("typescript", Step::BeforeTheEvent, Person::Leave);
}

#[test]
fn killed_after_the_event_of_a_call_and_a_person_says_again() {
    check("typescript", Step::AfterTheEvent, Person::Again);
}

#[test]
fn killed_after_the_event_of_a_call_and_a_person_says_no() {
    check("python", Step::AfterTheEvent, Person::Leave);
}

#[test]
fn killed_while_the_database_lacks_what_is_safe() {
    check("typescript", Step::AheadOfTheDatabase, Person::Again);
    check("python", Step::AheadOfTheDatabase, Person::Leave);
}

#[test]
fn killed_while_the_upstream_works_and_a_person_says_again() {
    check("typescript", Step::UpstreamWorks, Person::Again);
}

#[test]
fn killed_while_the_upstream_works_and_a_person_says_no() {
    check("typescript", Step::UpstreamWorks, Person::Leave);
    check("python", Step::UpstreamWorks, Person::Leave);
}

#[test]
fn killed_before_the_result_is_kept_and_a_person_says_again() {
    check("python", Step::BeforeTheResultIsKept, Person::Again);
}

#[test]
fn killed_before_the_result_is_kept_and_a_person_says_no() {
    check("typescript", Step::BeforeTheResultIsKept, Person::Leave);
}

#[test]
fn killed_before_the_program_has_the_answer() {
    check("typescript", Step::BeforeTheAnswer, Person::Leave);
    check("python", Step::BeforeTheAnswer, Person::Leave);
}

#[test]
fn killed_after_the_program_has_the_answer() {
    check("typescript", Step::AfterTheAnswer, Person::Leave);
    check("python", Step::AfterTheAnswer, Person::Leave);
}
