//! Three calls wait for approvals at once: one is approved, one denied, one expires, while the server is killed again and
//! again.

use ringfence_engine::approvals::ApprovalState;
use ringfence_journal::EventKind;
use serde_json::json;

use super::world::{RULES, World, summary};
use crate::setting::eventually;

const TYPESCRIPT: &str = r#"
console.log("start", Math.random(), Date.now());
const first = tools.log.note({ text: "first" });
const asked = ["one", "two", "three"].map((text) => tools.log.send.try({ text }));
console.log(await first, await tools.log.note({ text: "second" }));
const told = (await Promise.all(asked)).map((answer) => answer.ok ? answer.data : answer.error.code);
({ told, last: await tools.log.note({ text: "last" }) })
"#;

const PYTHON: &str = r#"
import asyncio, random, time
print("start", random.random(), time.time())
async def ask(text):
    try:
        return await tools.log.send(text=text)
    except ToolError as error:
        return error.code
first = asyncio.ensure_future(tools.log.note(text="first"))
asked = [asyncio.ensure_future(ask(text)) for text in ["one", "two", "three"]]
print(await first, await tools.log.note(text="second"))
told = await asyncio.gather(*asked)
{"told": told, "last": await tools.log.note(text="last")}
"#;

fn check(language: &str, code: &str) {
    let world = World::under(&RULES.replace("10m", "15s"));
    let server = world.serve();
    let run = server.begin(language, code);
    let said = server.waits(&run)["stdout"].as_str().unwrap().to_owned();
    world.suspended(&run);
    assert_eq!(world.pending(3).len(), 3);
    server.kill();

    // The answers arrive while no server runs.
    world.answer(world.pending_of("one").id, true).unwrap();
    let server = world.serve();
    world.answer(world.pending_of("two").id, false).unwrap();
    eventually("two answers are heard, and it waits for the third", || {
        let journal = world.journal(&run.session);
        let heard = journal
            .iter()
            .filter(|kind| matches!(kind, EventKind::ApprovalAnswered { .. }));
        let waits = matches!(journal.last(), Some(EventKind::ExecutionSuspended { .. }));
        (heard.count() == 2 && waits).then_some(())
    });
    assert_eq!(world.calls_of("send"), 1);
    server.kill();

    let server = world.serve();
    let ended = server.ended(&run);
    assert_eq!(
        ended["value"],
        json!({ "told": ["one", "approval.denied", "approval.timeout"], "last": "last" }),
        "{ended}"
    );
    let stdout = ended["stdout"].as_str().unwrap();
    assert!(stdout.starts_with(&said), "{said} is not what {stdout} begins with");
    assert_eq!(stdout.lines().count(), 2, "{stdout}");
    let states: Vec<_> = summary(&world.questions(None))
        .into_iter()
        .map(|one| (one.1, one.2))
        .collect();
    assert!(
        states.contains(&("rule".to_owned(), ApprovalState::Denied)),
        "{states:?}"
    );
    assert!(
        states.contains(&("rule".to_owned(), ApprovalState::Expired)),
        "{states:?}"
    );
    world.nothing_twice();
    let mut tools: Vec<String> = world.ledger().into_iter().map(|line| line.arguments).collect();
    tools.sort();
    let text = |text: &str| json!({ "text": text }).to_string();
    assert_eq!(tools, ["first", "last", "one", "second"].map(text));
    assert_eq!(server.end(), Some(0));
    world.verified();
}

#[test]
fn one_approved_one_denied_one_forgotten_and_the_server_killed_in_typescript() {
    check("typescript", TYPESCRIPT);
}

#[test]
fn one_approved_one_denied_one_forgotten_and_the_server_killed_in_python() {
    check("python", PYTHON);
}
