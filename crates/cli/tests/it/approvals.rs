//! Calls that need an approval: requested, answered from the command line, withdrawn, and resumed after a crash.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::Duration;

use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::setting::{Done, Running, Setting, eventually, finish, spawned, wait};

const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// A tool server that sends letters and keeps its own list of the ones it sent.
const SERVER: &str = r#"
import json, sys
TOOLS = [
    {"name": "send", "description": "Sends a letter.", "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}},
    {"name": "list", "description": "Lists letters.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
def call(name, args):
    with open(sys.argv[1], "a") as log:
        log.write(name + " " + args.get("to", "") + "\n")
    return {"content": [{"type": "text", "text": "sent to " + args.get("to", "")}]}
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked.get("method"), asked.get("params", {})
    if "id" not in asked:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "mail", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = call(params["name"], params.get("arguments", {}))
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no such method"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;

const POLICY: &str = "version: 1\ntools:\n  rules:\n    - { allow: 'mail.list' }\n    - { ask: 'mail.send' }\n";

/// A program that sends one letter and returns the result.
const ONE: &str = "console.log('begins'); const sent = await tools.mail.send({ to: 'ann' }); ({ sent })";

pub(crate) fn setting() -> Setting {
    let setting = Setting::new();
    fs::set_permissions(setting.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let server = setting.write("server.py", SERVER);
    let log = setting.work().join("sent.log");
    let servers = json!({ "mcpServers": { "mail": { "command": "/usr/bin/python3", "args": [server, log] } } });
    setting.write("servers.json", servers.to_string());
    setting.write("policy.yaml", POLICY);
    setting
}

fn start(setting: &Setting, source: &str, more: &[&str]) -> Running {
    setting.write("main.ts", source);
    let mut args = vec!["run", "main.ts", "--servers", "servers.json", "--policy", "policy.yaml"];
    args.extend(more);
    setting.start(&args)
}

fn ended(child: Running) -> Done {
    let output = wait(child, TEST_TIMEOUT);
    Done {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: Duration::ZERO,
    }
}

/// The letters sent, according to the server's own list.
pub(crate) fn sent(setting: &Setting) -> Vec<String> {
    let log = fs::read_to_string(setting.work().join("sent.log")).unwrap_or_default();
    let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Waits for this many pending requests and returns them.
pub(crate) fn waiting(setting: &Setting, count: usize) -> Vec<Value> {
    eventually("questions wait", || {
        let done = setting.run(&["approvals", "list", "--json"]);
        let found: Vec<Value> = serde_json::from_str(&done.stdout).ok()?;
        (found.len() == count).then_some(found)
    })
}

fn id(question: &Value) -> &str {
    question["id"].as_str().unwrap()
}

fn good(done: &Done) {
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_call_waits_for_a_person_and_goes_on_as_if_nothing_had_happened() {
    let setting = setting();
    let run = start(&setting, ONE, &[]);
    let questions = waiting(&setting, 1);
    let question = &questions[0];
    assert_eq!(
        (
            &question["tool"],
            &question["arguments"],
            &question["rule"],
            &question["program"]
        ),
        (
            &json!("mail.send"),
            &json!({ "to": "ann" }),
            &json!("tools.rules[1]"),
            &json!("main.ts")
        ),
        "{question:#}"
    );
    let listed = setting.run(&["approvals", "list"]).stdout;
    for word in [
        id(question),
        "mail.send",
        "main.ts",
        "left",
        question["session_id"].as_str().unwrap(),
    ] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    let shown = setting.run(&["approvals", "show", id(question)]).stdout;
    for word in [
        "pending",
        "mail.send",
        "\"to\": \"ann\"",
        "tools.rules[1]",
        "approvals approve",
        "approvals deny",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let session = question["session_id"].as_str().unwrap();
    let standing = eventually("its sandbox is given up", || {
        let standing = setting.run(&["session", "show", session]).stdout;
        standing.contains("waiting_approval").then_some(standing)
    });
    assert!(
        standing.contains(&format!("approvals show {}", id(question))),
        "{standing}"
    );
    let listed = setting.json(&["session", "list", "--json"]);
    assert_eq!(listed[0]["waiting"], 1, "{listed:#}");
    assert!(sent(&setting).is_empty());
    let approved = setting.run(&["approvals", "approve", id(question), "--note", "fine"]);
    good(&approved);
    assert!(approved.stdout.contains("approved (once)"), "{approved:?}");
    let done = ended(run);
    good(&done);
    assert_eq!(done.stdout.matches("begins").count(), 1, "{done:?}");
    assert!(done.stdout.contains("sent to ann"), "{done:?}");
    assert_eq!(done.stderr.matches("waiting: `mail.send`").count(), 1, "{done:?}");
    assert_eq!(done.stderr.matches("goes on: ").count(), 1, "{done:?}");
    assert_eq!(sent(&setting), ["send ann"]);
    let shown = setting.json(&["approvals", "show", id(question), "--json"]);
    assert_eq!(
        (&shown["state"], &shown["answer"]["via"], &shown["answer"]["note"]),
        (&json!("approved"), &json!("cli"), &json!("fine")),
        "{shown:#}"
    );
    good(&setting.run(&["audit", "verify"]));
}

/// Runs the program at a terminal and types `keys` at each question; returns the exit code and what the terminal showed.
fn at_a_terminal(setting: &Setting, source: &str, keys: &[&str]) -> (Option<i32>, String) {
    setting.write("main.ts", source);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    unlockpt(&master).unwrap();
    let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let args = ["run", "main.ts", "--servers", "servers.json", "--policy", "policy.yaml"];
    let mut command = setting.command(&args);
    let mut child = spawned(command.stdin(terminal()).stderr(terminal()).stdout(terminal()));
    drop(command);
    let mut master = File::from(master);
    let (mut shown, mut asked, mut piece) = (String::new(), 0, [0; 4096]);
    // Reading fails once the last holder of the terminal is gone.
    while let Ok(read @ 1..) = master.read(&mut piece) {
        shown.push_str(&String::from_utf8_lossy(&piece[..read]));
        while asked < shown.matches("N]").count() {
            master.write_all(keys[asked].as_bytes()).unwrap();
            asked += 1;
        }
    }
    (child.wait().unwrap().code(), shown)
}

#[test]
fn whoever_runs_a_program_at_a_terminal_is_asked_right_there() {
    let setting = setting();
    let two = "const tell = (to: string) => tools.mail.send({ to }).then(() => 'yes', (error) => error.code);
        [await tell('ann'), await tell('bob')].join(' and ')";
    let (code, shown) = at_a_terminal(&setting, two, &["y\n", "\n"]);
    assert_eq!(code, Some(0), "{shown}");
    for words in [
        "may it call `mail.send`",
        "\"to\": \"ann\"",
        "tools.rules[1]",
        "was approved",
        "was denied",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(shown.contains("yes and approval.denied"), "{shown}");
    assert_eq!(sent(&setting), ["send ann"]);
    let all = setting.json(&["approvals", "list", "--all", "--json"]);
    assert_eq!(all[0]["answer"]["via"], "cli", "{all:#}");
    // The session shows its calls without the journal.
    let session = setting.json(&["session", "list", "--json"])[0].clone();
    assert_eq!(
        (&session["last_run"]["program"], &session["last_run"]["status"]),
        (&json!("main.ts"), &json!("completed")),
        "{session:#}"
    );
    let listed = setting.run(&["session", "list"]).stdout;
    for word in ["LAST PROGRAM", "main.ts", "completed"] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    let shown = setting
        .run(&["session", "show", session["id"].as_str().unwrap()])
        .stdout;
    for words in ["call 1: mail.send ok", "call 2: mail.send refused, approval.denied"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn what_was_typed_before_a_question_does_not_answer_it() {
    let setting = setting();
    let two = "const tell = (to: string) => tools.mail.send({ to }).then(() => 'yes', (error) => error.code);
        [await tell('ann'), await tell('bob')].join(' and ')";
    let (code, shown) = at_a_terminal(&setting, two, &["y\ny\ny\n", "\n"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("yes and approval.denied"), "{shown}");
    assert_eq!(sent(&setting), ["send ann"]);
}

#[test]
fn a_call_that_is_not_shown_whole_is_not_allowed_at_the_terminal() {
    let setting = setting();
    let long = "const to = 'a'.repeat(3000) + 'bob';
        await tools.mail.send({ to }).then(() => 'yes', (error) => error.code)";
    let (code, shown) = at_a_terminal(&setting, long, &["y\n\n"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("not all of it is shown here"), "{shown}");
    assert!(shown.contains("approval.denied"), "{shown}");
    assert!(sent(&setting).is_empty());
}

#[test]
fn a_person_sees_the_code_that_asks() {
    let setting = setting();
    let source = format!("// \u{202e}\u{1b}[2Jevil\n{ONE}\n//{}", "x".repeat(100_000));
    let run = start(&setting, &source, &["--json"]);
    let question = waiting(&setting, 1).remove(0);
    let code = question["code"].as_str().unwrap();
    assert!(question["source"].is_null(), "{question:#}");
    let listed = setting.run(&["approvals", "list"]).stdout;
    assert!(listed.contains(&format!("main.ts {}", &code[..8])), "{listed}");
    let shown = setting.json(&["approvals", "show", id(&question), "--json"]);
    let text = shown["source"]["text"].as_str().unwrap();
    assert!(text.contains(ONE) && text.len() < 70_000, "{text}");
    assert!(!text.contains('\u{202e}') && !text.contains('\u{1b}'), "{text}");
    assert_eq!(
        (&shown["source"]["is_cut"], &shown["code"]),
        (&json!(true), &json!(code))
    );
    let printed = setting.run(&["approvals", "show", id(&question)]).stdout;
    assert!(printed.contains(&format!("  | {ONE}")), "{printed}");
    assert!(
        printed.contains("there is more of it") && printed.contains(code),
        "{printed}"
    );
    good(&setting.run(&["approvals", "approve", id(&question)]));
    good(&ended(run));
    // The journal has the same digest of the code.
    let session = question["session_id"].as_str().unwrap();
    let journal = setting.run(&["audit", "show", session, "--json"]).stdout;
    assert!(journal.contains(code), "{journal}");
}

#[test]
fn a_no_is_an_error_that_says_so_and_nothing_is_sent() {
    let setting = setting();
    let source = "try { await tools.mail.send({ to: 'ann' }) } catch (e) { ({ code: e.code, message: e.message }) }";
    let source = format!("let told; {}; told", source.replace("({ code", "told = ({ code"));
    let run = start(&setting, &source, &["--json"]);
    let question = waiting(&setting, 1).remove(0);
    let denied = setting.run(&["approvals", "deny", id(&question), "--note", "not on a Monday"]);
    good(&denied);
    let done = ended(run);
    let told: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert_eq!(told["value"]["code"], "approval.denied", "{told:#}");
    assert!(
        told["value"]["message"].as_str().unwrap().contains("not on a Monday"),
        "{told:#}"
    );
    assert!(done.stderr.contains("was denied"), "{done:?}");
    assert!(sent(&setting).is_empty());
}

#[test]
fn of_three_parallel_calls_one_is_approved_one_denied_and_one_not_answered() {
    let setting = setting();
    let source = "const all = await Promise.allSettled(['ann', 'bob', 'cid'].map(to => tools.mail.send({ to }))); \
        all.map(one => one.status === 'fulfilled' ? one.value : one.reason.code)";
    let run = start(&setting, source, &["--json", "--set", "approvals.timeout=10s"]);
    let questions = waiting(&setting, 3);
    let to = |name: &str| id(questions.iter().find(|one| one["arguments"]["to"] == name).unwrap());
    good(&setting.run(&["approvals", "approve", to("ann")]));
    good(&setting.run(&["approvals", "deny", to("bob")]));
    let done = ended(run);
    let told: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert_eq!(
        told["value"],
        json!(["sent to ann", "approval.denied", "approval.timeout"]),
        "{told:#}"
    );
    assert_eq!(sent(&setting), ["send ann"]);
    let late = setting.run(&["approvals", "approve", to("cid")]);
    assert_eq!(late.code, Some(1), "{late:?}");
    assert!(late.stderr.contains("too late"), "{late:?}");
}

#[test]
fn of_two_who_answer_at_once_one_does_and_the_other_is_told() {
    let setting = setting();
    let run = start(&setting, ONE, &["--json"]);
    let question = waiting(&setting, 1).remove(0);
    let answers = ["approve", "deny"].map(|word| {
        let command = setting.command(&["approvals", word, id(&question)]);
        thread::spawn(move || finish(command, &[]))
    });
    let answers = answers.map(|answer| answer.join().unwrap());
    let taken: Vec<_> = answers.iter().filter(|done| done.code == Some(0)).collect();
    assert_eq!(taken.len(), 1, "{answers:?}");
    let other = answers.iter().find(|done| done.code != Some(0)).unwrap();
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(
        other.stderr.contains("already") && other.stderr.contains("the first answer stands"),
        "{other:?}"
    );
    let done = ended(run);
    let was_approved = taken[0].stdout.contains("approved");
    assert_eq!(sent(&setting).len(), usize::from(was_approved), "{done:?}");
    // The same answer again is no conflict.
    let word = if was_approved { "approve" } else { "deny" };
    let again = setting.run(&["approvals", word, id(&question)]);
    good(&again);
    assert!(again.stdout.contains("as before"), "{again:?}");
}

#[test]
fn an_answer_counts_only_for_what_was_shown_and_only_where_somebody_waits() {
    let setting = setting();
    let none = setting.run(&["approvals", "list"]);
    good(&none);
    assert!(none.stderr.contains("nothing waits"), "{none:?}");
    let run = start(&setting, ONE, &[]);
    let question = waiting(&setting, 1).remove(0);
    let other = "0".repeat(64);
    let cases = [
        (
            vec!["approve", id(&question), "--shown", &other],
            1,
            "not what the answer was given for",
        ),
        (
            vec!["approve", id(&question), "--shown", "0000000000000000"],
            1,
            "not what the answer was given for",
        ),
        (vec!["approve", id(&question), "--shown", "nonsense"], 1, "no digest"),
        (
            vec!["approve", "a_00000000000000000000000000"],
            1,
            "there is no question",
        ),
        (vec!["deny", "letters"], 1, "approvals list"),
        (vec!["show", "a_00000000000000000000000000"], 1, "there is no question"),
    ];
    for (args, code, word) in cases {
        let args: Vec<&str> = ["approvals"].into_iter().chain(args).collect();
        let done = setting.run(&args);
        assert_eq!(done.code, Some(code), "{args:?} {done:?}");
        assert!(done.stderr.contains(word), "{args:?} {done:?}");
    }
    // Ctrl-C cancels a waiting run.
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let done = ended(run);
    assert_eq!(done.code, Some(130), "{done:?}");
    let late = setting.run(&["approvals", "approve", id(&question)]);
    assert_eq!(late.code, Some(1), "{late:?}");
    assert!(
        late.stderr.contains("hint: nothing waits for this answer any more"),
        "{late:?}"
    );
    assert!(sent(&setting).is_empty());
    let all = setting.json(&["approvals", "list", "--all", "--json"]);
    assert_eq!(all.as_array().unwrap().len(), 1, "{all:#}");
}

#[test]
fn a_yes_for_the_session_is_asked_once() {
    let setting = setting();
    let source = "const all = []; for (const to of ['ann', 'bob', 'cid']) all.push(await tools.mail.send({ to })); all";
    let run = start(&setting, source, &["--json"]);
    let question = waiting(&setting, 1).remove(0);
    good(&setting.run(&["approvals", "approve", id(&question), "--for", "session"]));
    let done = ended(run);
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        told["value"],
        json!(["sent to ann", "sent to bob", "sent to cid"]),
        "{told:#}"
    );
    assert_eq!(sent(&setting), ["send ann", "send bob", "send cid"]);
}

#[test]
fn where_only_the_client_may_answer_the_command_line_may_not() {
    let setting = setting();
    let run = start(
        &setting,
        ONE,
        &[
            "--json",
            "--set",
            "approvals.by=[client]",
            "--set",
            "approvals.timeout=8s",
        ],
    );
    let question = waiting(&setting, 1).remove(0);
    let refused = setting.run(&["approvals", "approve", id(&question)]);
    assert_eq!(refused.code, Some(126), "{refused:?}");
    assert!(refused.stderr.contains("rule: approvals.by"), "{refused:?}");
    let done = ended(run);
    assert!(done.stdout.contains("approval.timeout"), "{done:?}");
}

#[test]
fn a_yes_for_good_is_a_rule_that_is_shown_first() {
    let setting = setting();
    let run = start(&setting, ONE, &["--json"]);
    let question = waiting(&setting, 1).remove(0);
    let rules = setting.home().join("rules.yaml");
    let unsure = setting.run(&["approvals", "approve", id(&question), "--always"]);
    assert_eq!(unsure.code, Some(1), "{unsure:?}");
    for word in ["mail.send", "ann", "add `--yes`"] {
        assert!(unsure.stderr.contains(word), "{word}: {unsure:?}");
    }
    assert!(!rules.exists());
    let wrong = [
        "approvals",
        "approve",
        id(&question),
        "--always",
        "--yes",
        "--where",
        r#"{"to":{"equals":"bob"}}"#,
    ];
    let wrong = setting.run(&wrong);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stderr.contains("do not hold for this very call"), "{wrong:?}");
    assert!(!rules.exists());
    good(&setting.run(&["approvals", "approve", id(&question), "--always", "--yes"]));
    assert!(fs::read_to_string(&rules).unwrap().contains("mail.send"));
    good(&ended(run));
    let journal = setting.run(&["audit", "tail", "-n", "20"]);
    assert!(journal.stdout.contains("approved (always) by local:"), "{journal:?}");
    // The same call needs no second approval; another call does.
    good(&ended(start(&setting, ONE, &["--json"])));
    for (to, verdict, rule) in [("ann", "allow", "rules.yaml[0]"), ("bob", "ask", "tools.rules[")] {
        let args = json!({ "to": to }).to_string();
        let explain = [
            "policy",
            "explain",
            "--policy",
            "policy.yaml",
            "--servers",
            "servers.json",
        ];
        let told = setting.json(&[&explain[..], &["--tool", "mail.send", "--args", &args, "--json"]].concat());
        assert_eq!(told["verdict"], verdict, "{told:#}");
        assert!(told["rule"].as_str().unwrap().starts_with(rule), "{told:#}");
    }
    let other = start(&setting, &ONE.replace("ann", "bob"), &["--json"]);
    let question = waiting(&setting, 1).remove(0);
    good(&setting.run(&["approvals", "deny", id(&question)]));
    ended(other);
    assert_eq!(sent(&setting), ["send ann", "send ann"]);
    assert_eq!(fs::read_to_string(setting.work().join("policy.yaml")).unwrap(), POLICY);
}

#[test]
fn a_yes_for_good_is_refused_where_the_ceiling_asks_as_well() {
    let setting = setting();
    setting.write("sandbox.policy.yaml", POLICY);
    setting.write(
        "ringfence.yaml",
        "ceiling: { tools: { default: allow, rules: [{ ask: mail.send, after: mail.list }] } }\n",
    );
    setting.write(
        "main.ts",
        ONE.replace("const sent", "await tools.mail.list({}); const sent"),
    );
    let args = [
        "run",
        "main.ts",
        "--servers",
        "servers.json",
        "--config",
        "ringfence.yaml",
    ];
    let run = setting.start(&args);
    let question = waiting(&setting, 1).remove(0);
    let refused = setting.run(&["approvals", "approve", id(&question), "--always", "--yes"]);
    assert_eq!(refused.code, Some(126), "{refused:?}");
    for word in ["a rule would not do", "rule: ceiling.tools.rules[0]", "approve it once"] {
        assert!(refused.stderr.contains(word), "{word}: {refused:?}");
    }
    assert_eq!(waiting(&setting, 1)[0]["id"], question["id"]);
    assert!(!setting.home().join("rules.yaml").exists());
    good(&setting.run(&["approvals", "approve", id(&question)]));
    good(&ended(run));
}

#[test]
fn a_yes_for_good_writes_no_personal_data_unless_a_person_says_it() {
    let setting = setting();
    let run = start(&setting, &ONE.replace("ann", "ann.lee@example.com"), &["--json"]);
    let question = waiting(&setting, 1).remove(0);
    assert_eq!(question["arguments"]["to"], "ann.lee@example.com", "{question}");
    let always = ["approvals", "approve", id(&question), "--always", "--yes"];
    let refused = setting.run(&always);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("personal data"), "{refused:?}");
    let rules = setting.home().join("rules.yaml");
    assert!(!rules.exists());
    let conditions = r#"{"to":{"matches":".*@example[.]com"}}"#;
    good(&setting.run(&[&always[..], &["--where", conditions]].concat()));
    good(&ended(run));
    let written = fs::read_to_string(&rules).unwrap();
    assert!(
        written.contains("example[.]com") && !written.contains("ann.lee"),
        "{written}"
    );
}

#[test]
fn what_a_session_called_teaches_rules_and_is_explained() {
    let setting = setting();
    let run = start(&setting, ONE, &["--json"]);
    let question = waiting(&setting, 1).remove(0);
    good(&setting.run(&["approvals", "approve", id(&question)]));
    let done = ended(run);
    good(&done);
    let run: Value = serde_json::from_str(&done.stdout).unwrap();
    let session = run["session_id"].as_str().unwrap();
    let learnt = setting.json(&["policy", "learn", session, "--json"]);
    let rule = &learnt["policy"]["tools"]["rules"][0];
    assert_eq!(rule["allow"], "mail.send", "{learnt:#}");
    assert_eq!(rule["where"]["to"]["equals"], "ann", "{learnt:#}");
    let said = setting.run(&["policy", "explain", "--tool", "mail.send", "--session", session]);
    good(&said);
    assert!(said.stdout.contains("ask   by `tools.rules"), "{said:?}");
    assert!(said.stdout.contains(r#"{"to":"ann"}"#), "{said:?}");
}

#[test]
fn what_past_runs_kept_is_forgotten_in_time_by_runs_too() {
    let setting = setting();
    setting.write("main.ts", "1");
    let run = || {
        let ended = setting.json(&["run", "main.ts", "--json"]);
        ended["session_id"].as_str().unwrap().to_owned()
    };
    let kept = |session: &str| -> i64 {
        let database = rusqlite::Connection::open(setting.home().join("ringfence.db")).unwrap();
        let sql = "SELECT count(*) FROM recordings WHERE session = ?";
        database.query_row(sql, [session], |row| row.get(0)).unwrap()
    };
    let first = run();
    assert_eq!(kept(&first), 1);
    let database = rusqlite::Connection::open(setting.home().join("ringfence.db")).unwrap();
    let sql = "UPDATE sessions SET used = '2026-01-01T00:00:00Z' WHERE id = ?";
    assert_eq!(database.execute(sql, [&first]), Ok(1));
    drop(database);
    // The run looks for the answer only at intervals.
    let second = run();
    assert_eq!((kept(&first), kept(&second)), (1, 1));
    fs::remove_file(setting.home().join("run/trimmed")).unwrap();
    let third = run();
    assert_eq!((kept(&first), kept(&second), kept(&third)), (0, 1, 1));
}

#[test]
fn a_past_run_is_run_again_and_nothing_is_called() {
    let setting = setting();
    let source = "const all = await Promise.all([1, 2, 3].map(() => tools.mail.list({}))); \
        console.log(Date.now(), Math.random()); all.length";
    let done = ended(start(&setting, source, &["--json"]));
    let run: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(run["value"], 3, "{run:#}");
    let calls = sent(&setting).len();
    let session = run["session_id"].as_str().unwrap();
    let again = setting.run(&["session", "replay", session]);
    good(&again);
    assert!(
        again.stdout.contains("same") && again.stdout.contains("3 calls"),
        "{again:?}"
    );
    setting.write(
        "other.yaml",
        "version: 1\ntools:\n  rules:\n    - { ask: 'mail.list' }\n",
    );
    let execution = run["execution_id"].as_str().unwrap();
    let against = setting.json(&["session", "replay", execution, "--against", "other.yaml", "--json"]);
    let first = &against[0]["calls"][0];
    assert_eq!(
        (
            &first["against"]["verdict"],
            &first["against"]["differs"],
            &first["outcome"]
        ),
        (&json!("ask"), &json!(true), &json!("ok")),
        "{against:#}"
    );
    assert_eq!(sent(&setting).len(), calls);
    good(&setting.run(&["session", "rm", session]));
    let gone = setting.run(&["session", "replay", session]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.stderr.contains("nothing is kept"), "{gone:?}");
    let unknown = setting.run(&["session", "replay", "letters"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
}

#[test]
fn a_timeout_counts_the_time_that_a_run_waits_for_a_person() {
    let setting = setting();
    let run = start(&setting, ONE, &["--timeout", "2s"]);
    assert_eq!(waiting(&setting, 1).len(), 1);
    let done = ended(run);
    assert_eq!(done.code, Some(124), "{done:?}");
    assert!(
        done.stderr
            .contains("rule: timeout\nhint: give it a longer `--timeout`"),
        "{done:?}"
    );
    assert!(sent(&setting).is_empty() && waiting(&setting, 0).is_empty());
    // The program's own time limit is paused while it waits.
    let run = start(&setting, ONE, &["--timeout", "1m", "--set", "proc.wall_timeout=1s"]);
    let questions = waiting(&setting, 1);
    thread::sleep(Duration::from_millis(1500));
    good(&setting.run(&["approvals", "approve", id(&questions[0])]));
    good(&ended(run));
}
