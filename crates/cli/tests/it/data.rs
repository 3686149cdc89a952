//! Redaction of personal data end to end: the real program, a real tool server, and what each side sees.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::durable::upstream;
use crate::setting::{Done, Setting};

/// Reads customers with one tool and sends a message with another; only the two tools see the address.
const PROGRAM: &str = r#"
const said = await tools.log.note({ text: "name,email\nAnn Lee,ann.lee@example.com\nBo Ek,bo.ek@example.org\n" });
const addresses = said.trim().split("\n").slice(1).map((line: string) => line.split(",")[1]);
for (const to of addresses) await tools.log.send({ text: `Dear ${to}, hello` });
console.log("wrote to", ...addresses);
({ said, addresses });
"#;

const REVEAL: &str = "
version: 1
tools: { default: allow }
data: { pii: { reveal_to: [log.send] } }
";

struct World {
    setting: Setting,
    ledger: PathBuf,
}

impl World {
    fn new(policy: &str) -> World {
        let setting = Setting::new();
        let ledger = setting.path("ledger");
        let entry = json!({ "command": upstream(), "args": ["ledger"], "env": { "LEDGER": ledger }, "policy": "host" });
        let nasty = json!({ "command": upstream(), "args": ["nasty"], "policy": "host" });
        setting.write(
            "servers.json",
            json!({ "mcpServers": { "log": entry, "nasty": nasty } }).to_string(),
        );
        setting.write("rules.yaml", policy);
        World { setting, ledger }
    }

    fn run(&self, program: &str, source: &str, more: &[&str]) -> Done {
        self.setting.write(program, source);
        let args = ["run", program, "--servers", "servers.json", "--policy", "rules.yaml"];
        self.setting.run(&[&args, more].concat())
    }

    fn json(&self, program: &str, source: &str) -> Value {
        let done = self.run(program, source, &["--json"]);
        serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
    }

    fn events(&self) -> Vec<Value> {
        let lines = self.setting.run(&["audit", "export"]).stdout;
        let record = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        lines.lines().map(|line| record(line)["event"].clone()).collect()
    }

    /// All files of the data folder as one byte string.
    fn home(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut folders = vec![self.setting.home()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(bytes) = fs::read(&path) {
                    all.extend(bytes);
                }
            }
        }
        all
    }
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

#[test]
fn the_model_sees_no_address_the_tool_gets_the_true_ones_and_the_journal_has_neither() {
    let world = World::new(REVEAL);
    let result = world.json("mail.ts", PROGRAM);
    assert_eq!(result["status"], "completed", "{result}");
    let shown = result.to_string();
    assert!(!shown.contains("example.com") && !shown.contains("Ann Lee"), "{shown}");
    assert_eq!(result["value"]["addresses"].as_array().unwrap().len(), 2);
    assert!(result["stdout"].as_str().unwrap().contains("‹email:"), "{shown}");

    let ledger = fs::read_to_string(&world.ledger).unwrap();
    for address in ["ann.lee@example.com", "bo.ek@example.org"] {
        assert!(ledger.contains(&format!("Dear {address}, hello")), "{ledger}");
        assert!(!contains(&world.home(), address), "{address} is kept");
    }
    let events = world.events();
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert!(
        kinds.contains(&"data_hidden") && kinds.contains(&"data_revealed"),
        "{kinds:?}"
    );
    let found = events.iter().find(|event| event["kind"] == "data_hidden").unwrap();
    assert_eq!(
        found["found"],
        json!([{ "count": 2, "what": "email" }, { "count": 2, "what": "name" }])
    );
}

#[test]
fn a_plain_run_is_its_owners_view() {
    let world = World::new(REVEAL);
    let shown = world.run("mail.ts", PROGRAM, &["--quiet"]).stdout;
    assert!(
        shown.contains("wrote to ann.lee@example.com bo.ek@example.org"),
        "{shown}"
    );
    assert!(
        shown.contains(r#""addresses":["ann.lee@example.com","bo.ek@example.org"]"#),
        "{shown}"
    );
    assert!(!shown.contains('‹'), "{shown}");
}

#[test]
fn python_works_on_aliases_too() {
    let world = World::new(REVEAL);
    let source = "
from tools import log
said = await log.note(text='{\"customer\": {\"name\": \"Ann Lee\", \"email\": \"ann.lee@example.com\"}}')
await log.send(text=said['customer']['email'])
said
";
    let result = world.json("mail.py", source);
    assert_eq!(result["status"], "completed", "{result}");
    assert!(!result.to_string().contains("ann.lee"), "{result}");
    let ledger = fs::read_to_string(&world.ledger).unwrap();
    assert!(
        ledger.lines().last().unwrap().contains("ann.lee@example.com"),
        "{ledger}"
    );
}

const REAL: &str = "
version: 1
tools: { default: allow }
data: { pii: { inside: real } }
";

/// Computes with the values, and prints them where no key tells what they are.
const WORKS: &str = r#"
const said: any = await tools.log.note({ text: JSON.stringify({
  customers: [{ name: "Zoë Lee", phone: 5550100, dob: "1980-02-03" }, { name: "Bo Ek", phone: 5550101, dob: "1981-03-04" }],
}) });
const names = said.customers.map((one: any) => one.name).sort();
const numbers = said.customers.map((one: any) => one.phone);
console.log(names.join("; "), numbers[0], said.customers[0].dob);
console.error(`hello ${names[0]}`);
files.write("names.txt", names.join("\n"));
({ names, numbers, lengths: names.map((one: string) => one.length), [names[1]]: numbers[1] + 1, isReal: names[1] === "Zoë Lee" });
"#;

#[test]
fn a_program_works_on_real_values_and_the_model_sees_none_of_them() {
    let world = World::new(REAL);
    let result = world.json("real.ts", WORKS);
    assert_eq!(result["status"], "completed", "{result}");
    assert_eq!(result["value"]["isReal"], true, "{result}");
    assert_eq!(result["value"]["lengths"], json!([5, 7]), "{result}");
    let shown = result.to_string();
    for value in ["Zoë", "Bo Ek", "5550100", "5550101", "1980-02-03"] {
        assert!(!shown.contains(value), "{value} in {shown}");
        if value.is_ascii() {
            assert!(!contains(&world.home(), value), "{value} is kept");
        }
    }
    // The same value has the same alias everywhere.
    let bo = result["value"]["names"][0].as_str().unwrap();
    assert!(bo.starts_with("‹name:"), "{shown}");
    assert!(result["stdout"].as_str().unwrap().starts_with(bo), "{shown}");
    assert_eq!(result["stderr"], format!("hello {bo}\n"), "{shown}");
    assert_eq!(result["value"]["numbers"].as_array().unwrap().len(), 2);

    let failed = world.json(
        "fails.ts",
        r#"const { customer } = await tools.log.note({ text: '{"customer": {"name": "Ann Lee"}}' }) as any;
throw new Error(`no such customer: ${customer.name}`);"#,
    );
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("‹name:") && !message.contains("Ann Lee"), "{failed}");

    // A replay redacts too, according to who reads it.
    let session = result["session_id"].as_str().unwrap();
    let again = world.setting.run(&["session", "replay", session, "--json"]).stdout;
    let replayed: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(replayed[0]["execution"]["value"]["isReal"], true, "{again}");
    for value in ["Zoë", "Bo Ek", "5550100", "5550101", "1980-02-03"] {
        assert!(!again.contains(value), "{value} in {again}");
    }

    let owner = world.run("real.ts", WORKS, &["--quiet"]).stdout;
    assert!(owner.contains("Bo Ek; Zoë Lee 5550100 1980-02-03"), "{owner}");
    assert!(!owner.contains('‹'), "{owner}");
}

#[test]
fn what_a_python_program_prints_as_json_has_aliases() {
    let world = World::new(REAL);
    let source = "
import json
from tools import log
said = await log.note(text='{\"customer\": {\"name\": \"Zoë Lee\"}}')
print(json.dumps([said['customer']['name']]))
len(said['customer']['name'])
";
    let result = world.json("real.py", source);
    assert_eq!(result["value"], 7, "{result}");
    let printed = result["stdout"].as_str().unwrap();
    assert!(printed.starts_with("[\"‹name:"), "{result}");
}

#[test]
fn what_a_run_teaches_a_model_has_no_values() {
    let source = "await tools.log.note({ text: 'ann.lee@example.com' }); await tools.log.send({ text: 'plain' });";
    for (policy, plain) in [(REVEAL, true), (REAL, false)] {
        let world = World::new(policy);
        let done = world.run("teach.ts", source, &["--json", "--learn"]);
        let result: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
        let learnt = result["learnt"].to_string();
        assert!(learnt.contains("log.note") && learnt.contains("log.send"), "{learnt}");
        assert!(!done.stdout.contains("ann.lee"), "{done:?}");
        assert_eq!(learnt.contains("plain"), plain, "{learnt}");
        let own = world.setting.run(&["policy", "learn"]).stdout;
        assert!(own.contains("ann.lee@example.com"), "{own}");
    }
}

#[test]
fn a_file_for_the_owner_has_the_values() {
    let world = World::new(REVEAL);
    let source = r#"
const said = await tools.log.note({ text: "ann.lee@example.com" });
files.write("list.txt", `to: ${said}\n`);
"#;
    let output = world.run("list.ts", source, &["--out", "out", "--quiet"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(
        fs::read_to_string(world.setting.work().join("out/list.txt")).unwrap(),
        "to: ann.lee@example.com\n"
    );
}

#[test]
fn block_holds_the_result_back() {
    let world = World::new("version: 1\ntools: { default: allow }\ndata: { pii: { mode: block } }\n");
    let result = world.json("mail.py", "print('ann.lee@example.com')\n'bo.ek@example.org'\n");
    assert_eq!(
        (&result["status"], &result["error"]["code"]),
        (&json!("failed"), &json!("data.blocked")),
        "{result}"
    );
    assert_eq!(result["error"]["rule"], "data.pii.mode");
    assert!(!result.to_string().contains("example"), "{result}");
    assert!(!contains(&world.home(), "ann.lee@example.com"));
}

#[test]
fn a_nasty_result_is_capped_neutralised_and_written_down() {
    let world = World::new("version: 1\ntools: { default: allow }\nproc: { wall_timeout: 120s }\n");
    let source = r#"
const said: Record<string, unknown> = {};
for (const [what, count] of [["rows", 10_000_000], ["string", 1_000_000_000], ["deep", 100_000], ["bytes", 0]] as const) {
  const answer = await tools.nasty.say.try({ what, count });
  said[what] = answer.error ? answer.error.code : answer.value;
}
for (const what of ["escapes", "notice", "alias"]) said[what] = await tools.nasty.say({ what });
const some = await tools.nasty.say({ what: "rows", count: 5_000 });
said.kept = some.rows.length;
said.some = some.rows;
said;
"#;
    let result = world.json("nasty.ts", source);
    assert_eq!(result["status"], "completed", "{result}");
    let value = &result["value"];
    for (what, code) in [
        ("rows", "limit.result"),
        ("string", "tool.unknown_effect"),
        ("deep", "limit.depth"),
        ("bytes", "server.failed"),
    ] {
        assert_eq!(value[what], code, "{what}");
    }
    assert_eq!(value["kept"], 5_000);
    let rows = value["some"].as_array().unwrap();
    assert_eq!(rows.len(), 201);
    let notice = rows.last().unwrap().as_str().unwrap();
    assert!(
        notice.starts_with("⟦ringfence: 4,800 of 5,000 rows left out; the whole is at "),
        "{notice}"
    );
    let whole = notice.trim_end_matches('⟧').rsplit(' ').next().unwrap();
    let whole: Value = serde_json::from_str(&fs::read_to_string(whole).unwrap()).unwrap();
    assert_eq!(whole["some"].as_array().unwrap().len(), 5_000);

    let shown = result.to_string();
    assert!(!shown.contains("\\u001b") && !shown.contains('\u{202e}'), "{shown}");
    assert_eq!(
        value["notice"].as_str().unwrap().matches('⟦').count(),
        0,
        "{}",
        value["notice"]
    );
    assert!(
        !value["alias"].as_str().unwrap().contains("zzzzzz"),
        "{}",
        value["alias"]
    );
    let events = world.events();
    assert!(
        events
            .iter()
            .any(|event| event["kind"] == "data_capped" && event["part"] == "value")
    );
    let ended: Vec<&Value> = events.iter().filter(|event| event["kind"] == "call_ended").collect();
    assert_eq!(ended.len(), 8);
    assert_eq!(
        ended.iter().filter(|event| event["outcome"] != "ok").count(),
        4,
        "{ended:?}"
    );
}

#[test]
fn a_notice_says_truly_what_is_where_it_points() {
    let world = World::new(REVEAL);
    let place = |text: &str| -> PathBuf {
        let (_, rest) = text.rsplit_once(" at ").unwrap_or_else(|| panic!("no place: {text}"));
        rest[..rest.find('⟧').unwrap()].into()
    };
    let lines = "for (let n = 0; n < 2000; n++) console.log(`line ${n} to DE89 3704 0044 0532 0130 00`);";
    let cut = world.run("cut.ts", lines, &["--json", "--set", "proc.output=8KiB"]);
    let cut: Value = serde_json::from_str(&cut.stdout).unwrap();
    let printed = cut["stdout"].as_str().unwrap();
    assert!(
        printed.contains("there was more, and as much as was kept is at"),
        "{printed}"
    );
    assert!(!printed.contains("DE89"), "{printed}");
    let kept = fs::read_to_string(place(printed)).unwrap();
    // The line at the truncation limit is withheld: half an account number would not be detected.
    assert!(
        kept.starts_with("line 0 to ‹iban:") && kept.ends_with("›\n") && !kept.contains("DE89"),
        "{kept}"
    );
    let whole = world.json("whole.ts", lines);
    let printed = whole["stdout"].as_str().unwrap();
    assert!(printed.contains("; the whole is at "), "{printed}");
    let kept = fs::read_to_string(place(printed)).unwrap();
    assert_eq!(kept.lines().count(), 2000);

    let deep = "let deep: any = 'ann.lee@example.com'; for (let n = 0; n < 200; n++) deep = [deep]; deep";
    let deep = world.json("deep.ts", deep);
    let kept = fs::read_to_string(place(&deep["value"].to_string())).unwrap();
    assert!(
        kept.starts_with(&"[".repeat(200)) && kept.ends_with(&"]".repeat(200)),
        "{kept}"
    );
    assert!(kept.contains("‹email:") && !kept.contains("ann.lee"), "{kept}");
}

#[test]
fn a_person_resolves_an_alias_while_its_session_is_open_and_each_time_is_an_event() {
    let setting = Setting::new();
    let keep = "fs.mounts=[{path: /workspace, access: rw, quota: 16MiB, keep: true}]";
    let args = [
        "exec",
        "--json",
        "--session",
        "mine",
        "--set",
        keep,
        "--",
        "echo",
        "to ann.lee@example.com",
    ];
    let object = setting.json(&args);
    let stdout = object["stdout"].as_str().unwrap();
    let alias = stdout.trim().strip_prefix("to ").unwrap();
    assert!(alias.starts_with("‹email:"), "{object}");
    let id = object["session_id"].as_str().unwrap();
    let bare = alias.trim_start_matches('‹').trim_end_matches('›');
    for (given, session) in [(alias, "mine"), (bare, id)] {
        let done = setting.run(&["data", "reveal", given, "--session", session]);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(0), "ann.lee@example.com\n"),
            "{done:?}"
        );
    }
    let revealed = || {
        let lines = setting.run(&["audit", "export"]).stdout;
        let events = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone());
        events
            .filter(|event| event["kind"] == "alias_revealed")
            .collect::<Vec<Value>>()
    };
    let events = revealed();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(
        events.iter().all(|event| event["alias"] == alias && event["of"] == id),
        "{events:?}"
    );
    assert!(
        setting
            .run(&["audit", "tail"])
            .stdout
            .contains(&format!("{alias} of session {id}, to a person"))
    );
    assert_eq!(setting.run(&["audit", "verify"]).code, Some(0));
    // An unknown alias is not resolved, and writes no event.
    for wrong in ["‹email:zzzz›", "ann", "text"] {
        let done = setting.run(&["data", "reveal", wrong, "--session", "mine"]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
        assert!(done.stderr.contains("has no alias"), "{done:?}");
    }
    // With its session an alias loses its value for good.
    setting.run(&["session", "rm", "mine"]);
    let done = setting.run(&["data", "reveal", alias, "--session", id]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
    assert!(
        done.stderr.contains("is over") && done.stderr.contains("hint: "),
        "{done:?}"
    );
    assert_eq!(revealed().len(), 2);
}
