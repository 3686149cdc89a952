//! Past runs: replayed offline, judged by another policy, and used to learn a policy.

use std::time::Duration;

use ringfence_testkit::front_clients::structured_content;
use serde_json::{Value, json};

use crate::durable::upstream;
use crate::durable::world::{Begun, World};
use crate::setting::{Done, Setting, eventually, wait};

/// A setting with a ledger upstream and a policy.
fn setting(policy: &str) -> Setting {
    let setting = Setting::new();
    let ledger = setting.path("ledger");
    let entry = json!({ "command": upstream(), "args": ["ledger"], "env": { "LEDGER": ledger }, "policy": "host" });
    setting.write("servers.json", json!({ "mcpServers": { "log": entry } }).to_string());
    setting.write("policy.yaml", policy);
    setting
}

/// Runs a program to its end.
fn run(setting: &Setting, program: &str, source: &str) -> Value {
    setting.write(program, source);
    let args = [
        "run",
        program,
        "--servers",
        "servers.json",
        "--policy",
        "policy.yaml",
        "--json",
    ];
    let done = setting.run(&args);
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

fn text<'a>(run: &'a Value, key: &str) -> &'a str {
    run[key].as_str().unwrap_or_else(|| panic!("{key}: {run:#}"))
}

#[track_caller]
fn says(done: &Done, code: i32, words: &[&str]) {
    assert_eq!(done.code, Some(code), "{done:?}");
    for word in words {
        assert!(
            done.stdout.contains(word) || done.stderr.contains(word),
            "{word}: {done:?}"
        );
    }
}

#[test]
fn a_call_with_an_alias_is_not_judged_by_it() {
    let setting = setting("version: 1\ntools: { default: allow }\ndata: { pii: { reveal_to: [log.send] } }\n");
    let source = r#"
        const said = await tools.log.note({ text: "name,email\nAnn Lee,ann.lee@example.com\n" });
        const to = said.trim().split("\n")[1].split(",")[1];
        await tools.log.send({ text: to });
        to;
    "#;
    let run = run(&setting, "mail.ts", source);
    assert_eq!(run["status"], "completed", "{run:#}");
    assert!(text(&run, "value").starts_with("‹email:"), "{run:#}");
    let session = text(&run, "session_id");
    setting.write(
        "other.yaml",
        "version: 1\ntools: { default: allow, rules: [{ deny: log.send, where: { text: { equals: ann.lee@example.com } } }] }\n",
    );
    let hidden = "depends on a value that is hidden (`text`)";
    let against = ["session", "replay", session, "--against", "other.yaml"];
    says(&setting.run(&against), 0, &[hidden, "tools.rules[0]"]);
    let told = setting.json(&[&against[..], &["--json"]].concat());
    let call = &told[0]["calls"][1];
    assert_eq!(
        call["against"],
        json!({ "verdict": null, "rule": "tools.rules[0]", "differs": null, "depends_on": "text" }),
        "{told:#}"
    );
    assert_eq!(told[0]["calls"][0]["against"]["verdict"], "allow", "{told:#}");
    let explain = ["policy", "explain", "--tool", "log.send", "--session", session];
    says(
        &setting.run(&[&explain[..], &["--policy", "other.yaml"]].concat()),
        0,
        &[hidden],
    );
    let learnt = setting.run(&["policy", "learn", session]);
    says(
        &learnt,
        0,
        &["allow: log.send", "# needs more: log.send: a condition on `text`"],
    );
    assert!(!learnt.stdout.contains('‹'), "{learnt:?}");
}

#[test]
fn what_was_refused_was_not_called_before() {
    let setting = setting(
        "version: 1\ntools: { rules: [{ allow: 'log.*' }, { deny: log.note, where: { text: { equals: no } } }, { ask: log.send, after: log.note }] }\n",
    );
    let source = r#"
        const first = await tools.log.note.try({ text: "no" });
        const sent = await tools.log.send({ text: "it" });
        await tools.log.note({ text: "yes" });
        [first.error.code, sent];
    "#;
    let run = run(&setting, "mail.ts", source);
    assert_eq!(run["value"], json!(["policy.denied", "it"]), "{run:#}");
    let session = text(&run, "session_id");
    let explain = [
        "policy",
        "explain",
        "--tool",
        "log.send",
        "--session",
        session,
        "--json",
    ];
    let told = setting.json(&explain);
    assert_eq!(
        (&told["calls"][0]["verdict"], &told["calls"][0]["rule"]),
        (&json!("allow"), &json!("tools.rules[0]")),
        "{told:#}"
    );
    let told = setting.json(&["session", "replay", session, "--against", "policy.yaml", "--json"]);
    let differs: Vec<&Value> = told[0]["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["against"]["differs"])
        .collect();
    assert_eq!(differs, [&json!(false); 3], "{told:#}");
}

/// Asks for every letter.
const ASKS: &str = "version: 1\ntools: { rules: [{ allow: 'log.*' }, { ask: log.send }] }\n";

#[test]
fn a_call_that_was_asked_for_and_made_is_no_difference_under_the_same_policy() {
    let setting = setting(ASKS);
    let source = "const a = await tools.log.send({ text: 'it' }); const b = await tools.log.send.try({ text: 'us' }); [a, b.error?.code]";
    setting.write("mail.ts", source);
    let args = [
        "run",
        "mail.ts",
        "--servers",
        "servers.json",
        "--policy",
        "policy.yaml",
        "--json",
    ];
    let running = setting.start(&args);
    for (answer, text) in [("approve", "it"), ("deny", "us")] {
        let question = eventually("it is asked", || {
            let found = setting.json(&["approvals", "list", "--json"]);
            let found = found
                .as_array()?
                .iter()
                .find(|one| one["arguments"]["text"] == text)?
                .clone();
            Some(found["id"].as_str()?.to_owned())
        });
        says(&setting.run(&["approvals", answer, &question]), 0, &[]);
    }
    let output = wait(running, Duration::from_mins(1));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(run["value"], json!(["it", "approval.denied"]), "{run:#}");
    let ledger = std::fs::read_to_string(setting.path("ledger")).unwrap();
    let session = text(&run, "session_id");
    let differs = |policy: &str| {
        let told = setting.json(&["session", "replay", session, "--against", policy, "--json"]);
        assert_eq!(told[0]["same"], true, "{told:#}");
        let calls = told[0]["calls"].as_array().unwrap().clone();
        let differs: Vec<Value> = calls.iter().map(|call| call["against"]["differs"].clone()).collect();
        json!(differs)
    };
    assert_eq!(differs("policy.yaml"), json!([false, false]));
    setting.write("open.yaml", "version: 1\ntools: { default: allow }\n");
    assert_eq!(differs("open.yaml"), json!([false, true]));
    setting.write("shut.yaml", "version: 1\ntools: { default: deny }\n");
    assert_eq!(differs("shut.yaml"), json!([true, false]));
    assert_eq!(std::fs::read_to_string(setting.path("ledger")).unwrap(), ledger);
}

#[test]
fn one_that_cannot_be_run_again_does_not_keep_the_others_from_it() {
    let world = World::new();
    let server = world.serve();
    let begin = |language: &str, code: &str| {
        server.begin_with(&json!({ "language": language, "code": code, "session_id": "work" }))
    };
    let plain = begin("typescript", "await tools.log.note({ text: 'one' })");
    server.ended(&plain);
    let shell = begin("shell", "true");
    server.ended(&shell);
    let threads = "import threading\nthread = threading.Thread(target=lambda: None)\nthread.start()\nthread.join()\n\
                   await tools.log.send(text=\"it\")";
    let spoiled = begin("python", threads);
    let question = world.pending_of("it");
    eventually("it is known that it cannot go on", || world.standing(&spoiled)?.spoiled);
    world.answer(question.id, true).unwrap();
    server.ended(&spoiled);
    let waits = begin("typescript", "await tools.log.send({ text: 'us' })");
    world.suspended(&waits);
    server.kill();
    let replay = ["session", "replay", &plain.session];
    let done = world.setting.run(&replay);
    let id = |run: &Begun| run.execution.clone();
    let lines = [
        format!("{}  same", id(&plain)),
        format!("{}  not run again  (nothing is kept", id(&shell)),
        format!("{}  not run again  (execution", id(&spoiled)),
        format!(
            "{}  not run again  (execution `{}` is not over)",
            id(&waits),
            id(&waits)
        ),
    ];
    says(&done, 1, &lines.each_ref().map(String::as_str));
    let told = world.setting.run(&[&replay[..], &["--json"]].concat());
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let codes: Vec<&Value> = told
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["error"]["code"])
        .collect();
    let expected = [
        json!(null),
        json!("replay.unkept"),
        json!("replay.spoiled"),
        json!("replay.unfinished"),
    ];
    assert_eq!(codes, expected.each_ref(), "{told:#}");
    // Asked for alone, it is an error.
    let alone = world.setting.run(&["session", "replay", &spoiled.execution]);
    says(&alone, 1, &["cannot be run again"]);
    assert_eq!(world.calls_of("send"), 1);
}

#[test]
fn programs_of_each_language_do_the_same_again_also_when_they_failed() {
    let setting = setting("version: 1\ntools: { default: allow }\n");
    let python = "import asyncio, random, time, uuid\n\
                  print(time.time(), random.random(), uuid.uuid4())\n\
                  texts = [str(random.random()) for _ in range(8)]\n\
                  await asyncio.gather(*(tools.log.note(text=text) for text in texts))";
    let typescript = "const texts = [1, 2, 3].map(() => String(Math.random())); console.log(Date.now());\n\
                      await Promise.all(texts.map((text) => tools.log.note({ text })))";
    let cases = [
        ("works.py", python.to_owned(), "completed", "8 calls"),
        (
            "fails.py",
            format!("{python}\nraise ValueError(str(time.time()))"),
            "failed",
            "8 calls",
        ),
        ("works.ts", typescript.to_owned(), "completed", "3 calls"),
        (
            "fails.ts",
            format!("{typescript};\nthrow new Error(String(Date.now()))"),
            "failed",
            "3 calls",
        ),
    ];
    for (program, source, status, calls) in cases {
        let run = run(&setting, program, &source);
        assert_eq!(run["status"], status, "{run:#}");
        let ledger = std::fs::read_to_string(setting.path("ledger")).unwrap();
        let again = setting.run(&["session", "replay", text(&run, "execution_id")]);
        says(&again, 0, &["same", calls, "nothing was called"]);
        assert_eq!(
            std::fs::read_to_string(setting.path("ledger")).unwrap(),
            ledger,
            "{program}"
        );
    }
}

#[test]
fn a_run_that_does_not_repeat_itself_is_told_where_it_differs() {
    let setting = setting("version: 1\ntools: { default: allow }\n");
    // Where an object lies in memory is recorded nowhere.
    let said = run(&setting, "says.py", "print(id(object()))");
    let again = setting.run(&["session", "replay", text(&said, "session_id")]);
    says(&again, 1, &["differs", "  stdout: ", " before, ", " now"]);
    let asked = run(
        &setting,
        "asks.py",
        "here = id(object())\nawait tools.log.note(text=f\"at {here}\")",
    );
    let replay = ["session", "replay", text(&asked, "session_id")];
    says(
        &setting.run(&replay),
        1,
        &["differs", "does not repeat itself at call 1"],
    );
    let told = setting.run(&[&replay[..], &["--json"]].concat());
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let named: Vec<&Value> = told[0]["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["what"])
        .collect();
    assert_eq!(
        (&told[0]["same"], named[0]),
        (&json!(false), &json!("call")),
        "{told:#}"
    );
    assert_eq!(
        std::fs::read_to_string(setting.path("ledger")).unwrap().lines().count(),
        1
    );
}

#[test]
fn a_run_that_was_interrupted_is_shown_so_and_goes_on_when_a_client_waits_for_it() {
    let world = World::new();
    let server = world.serve();
    let code = "const first = await tools.log.note({ text: 'before' });\n\
                await new Promise((done) => setTimeout(done, 3000));\n\
                const second = await tools.log.note({ text: 'after' }); [first, second]";
    let run = server.begin("typescript", code);
    world.written(&run.session, "the first call has ended", |kind| {
        matches!(kind, ringfence_journal::EventKind::CallEnded { number: 1, .. })
    });
    server.kill();
    let shown = world.setting.run(&["session", "show", &run.session]);
    says(
        &shown,
        0,
        &["interrupted: its process died", "`ringfence serve`", &run.execution],
    );
    let told = world.setting.json(&["session", "show", &run.session, "--json"]);
    assert_eq!(told["interrupted"], json!([run.execution]), "{told:#}");
    let server = world.serve();
    let mut client = server.client();
    let ended = eventually("it goes on to its end", || {
        let waited = client
            .call("wait_run", &json!({ "execution_id": run.execution }))
            .unwrap();
        let now = structured_content(&waited).unwrap().clone();
        assert!(
            ["running", "completed"].contains(&now["status"].as_str().unwrap()),
            "{now:#}"
        );
        (now["status"] == "completed").then_some(now)
    });
    assert_eq!(ended["value"], json!(["before", "after"]), "{ended:#}");
    assert_eq!(world.calls_of("note"), 2);
    world.nothing_twice();
    let shown = world.setting.run(&["session", "show", &run.session]);
    assert!(!shown.stdout.contains("interrupted"), "{shown:?}");
    world.verified();
}
