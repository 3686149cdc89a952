//! Programs against published tool servers of other projects.

use std::fs;

use serde_json::{Value, json};

use crate::setting::{Setting, tool};

/// Lets everything be read and nothing be written.
const POLICY: &str = "version: 1\ntools:\n  rules:\n    - { allow: 'everything.*' }\n    - { allow: 'files.*' }\n    - { deny: 'files.write_file' }\n";

/// A setting with both servers and a folder for one of them; `None`, with a message, where they are not installed.
fn setting() -> Option<Setting> {
    let script = |package: &str| {
        tool(&format!(
            "npm/node_modules/@modelcontextprotocol/{package}/dist/index.js"
        ))
    };
    let (everything, files) = (script("server-everything")?, script("server-filesystem")?);
    let setting = Setting::new();
    setting.write("shared/note.txt", "a note");
    let servers = json!({ "mcpServers": {
        "everything": { "command": "node", "args": [everything, "stdio"] },
        "files": { "command": "node", "args": [files, setting.work().join("shared")] },
    } });
    setting.write("servers.json", servers.to_string());
    setting.write("policy.yaml", POLICY);
    Some(setting)
}

fn run(setting: &Setting, file: &str, source: &str) -> Value {
    setting.write(file, source);
    let shared = ["--servers", "servers.json", "--policy", "policy.yaml"];
    let folder = setting.work().join("shared");
    let words = [&["run", file, "--json"][..], &shared, &["--", folder.to_str().unwrap()]];
    setting.json(&words.concat())
}

/// Checks the result of both programs and the records of the journal.
fn check(setting: &Setting, done: &Value) {
    assert_eq!(done["status"], "completed", "{done:#}");
    let expected = json!({
        "echo": "Echo: hello",
        "sum": "The sum of 2 and 3 is 5.",
        "weather": { "temperature": 33, "conditions": "Cloudy", "humidity": 82 },
        "note": { "content": "a note" },
        "listed": { "content": "[FILE] note.txt" },
        "outside": "tool.failed",
        "write": "tool.unknown",
    });
    assert_eq!(done["value"], expected, "{done:#}");
    let calls = done["calls"].as_array().unwrap();
    let mut seen: Vec<(&str, &str)> = calls
        .iter()
        .map(|call| (call["tool"].as_str().unwrap(), call["outcome"].as_str().unwrap()))
        .collect();
    seen.sort_unstable();
    let expected = [
        ("everything.echo", "ok"),
        ("everything.get-structured-content", "ok"),
        ("everything.get-sum", "ok"),
        ("files.list_directory", "ok"),
        ("files.read_text_file", "failed"),
        ("files.read_text_file", "ok"),
        ("files.write_file", "refused"),
    ];
    assert_eq!(seen, expected, "{done:#}");
    // A tool that is denied was not called: the file is not there.
    assert!(!setting.work().join("shared/new.txt").exists());

    let session = done["session_id"].as_str().unwrap();
    let shown = setting.run(&["audit", "show", session, "--json"]).stdout;
    let events: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().filter(|event| event["event"]["kind"] == kind).count();
    assert_eq!(
        (of("call_started"), of("call_ended"), of("call_refused")),
        (6, 6, 1),
        "{shown}"
    );
    assert_eq!(of("server_used"), 2, "{shown}");
    assert_eq!(setting.run(&["audit", "verify"]).code, Some(0));
    let kept = fs::read_to_string(setting.work().join("shared/note.txt")).unwrap();
    assert_eq!(kept, "a note");
}

#[test]
fn a_typescript_program_uses_servers_from_their_packages() {
    let Some(setting) = setting() else { return };
    let source = r#"
        import { everything, files } from "tools";
        const folder = args[0];
        const code = (call: Promise<unknown>) => call.then(() => "ok", error => (error as ToolError).code);
        const [echo, sum, weather] = await Promise.all([
            everything.echo({ message: "hello" }),
            everything.get_sum({ a: 2, b: 3 }),
            everything.get_structured_content({ location: "New York" }),
        ]);
        ({
            echo, sum, weather,
            note: await files.read_text_file({ path: `${folder}/note.txt` }),
            listed: await files.list_directory({ path: folder }),
            outside: await code(files.read_text_file({ path: "/etc/passwd" })),
            write: await code((files as any).write_file({ path: `${folder}/new.txt`, content: "x" })),
        });
    "#;
    let done = run(&setting, "real.ts", source);
    check(&setting, &done);
}

#[test]
fn a_python_program_uses_servers_from_their_packages() {
    let Some(setting) = setting() else { return };
    let source = r#"
import asyncio
from tools import everything, files

folder = args[0]

async def code(call):
    try:
        await call
    except ToolError as error:
        return error.code
    return "ok"

echo, sum, weather = await asyncio.gather(
    everything.echo(message="hello"),
    everything.get_sum(a=2, b=3),
    everything.get_structured_content(location="New York"),
)
{
    "echo": echo, "sum": sum, "weather": weather,
    "note": await files.read_text_file(path=f"{folder}/note.txt"),
    "listed": await files.list_directory(path=folder),
    "outside": await code(files.read_text_file(path="/etc/passwd")),
    "write": await code(files.write_file(path=f"{folder}/new.txt", content="x")),
}
"#;
    let done = run(&setting, "real.py", source);
    check(&setting, &done);
}

/// A setting with the memory server and the thinking server; `None`, with a message, where they are not installed.
fn thinking() -> Option<Setting> {
    let script = |package: &str| {
        tool(&format!(
            "npm/node_modules/@modelcontextprotocol/{package}/dist/index.js"
        ))
    };
    let (memory, thinking) = (script("server-memory")?, script("server-sequential-thinking")?);
    let setting = Setting::new();
    let graph = setting.work().join("graph.json");
    let servers = json!({ "mcpServers": {
        "memory": { "command": "node", "args": [memory], "env": { "MEMORY_FILE_PATH": graph } },
        "thinking": { "command": "node", "args": [thinking], "env": { "DISABLE_THOUGHT_LOGGING": "true" } },
    } });
    setting.write("servers.json", servers.to_string());
    let rules = "    - { allow: 'memory.*' }\n    - { allow: 'thinking.*' }\n    - { deny: 'memory.delete_*' }\n";
    setting.write("policy.yaml", format!("version: 1\ntools:\n  rules:\n{rules}"));
    Some(setting)
}

/// Checks the result of both programs and the file of the memory server.
fn check_thinking(setting: &Setting, done: &Value) {
    assert_eq!(done["status"], "completed", "{done:#}");
    let falcon = json!({ "name": "Falcon", "entityType": "project", "observations": ["is late", "needs chess sets"] });
    let expected = json!({
        "made": 2,
        "added": ["needs chess sets"],
        "found": [falcon],
        "relations": [{ "from": "Falcon", "to": "Acme", "relationType": "is built by" }],
        "thoughts": { "thoughtNumber": 2, "totalThoughts": 2, "nextThoughtNeeded": false, "branches": [], "thoughtHistoryLength": 2 },
        "wrong": "tool.arguments",
        "denied": "tool.unknown",
    });
    assert_eq!(done["value"], expected, "{done:#}");
    let kept = fs::read_to_string(setting.work().join("graph.json")).unwrap();
    assert!(
        kept.contains("needs chess sets") && kept.contains("is built by"),
        "{kept}"
    );
}

#[test]
fn a_typescript_program_remembers_and_thinks_with_servers_from_their_packages() {
    let Some(setting) = thinking() else { return };
    let source = r#"
        import { memory, thinking } from "tools";
        const code = (call: Promise<unknown>) => call.then(() => "ok", error => (error as ToolError).code);
        const made = await memory.create_entities({ entities: [
            { name: "Falcon", entityType: "project", observations: ["is late"] },
            { name: "Acme", entityType: "company", observations: [] },
        ] });
        await memory.create_relations({ relations: [{ from: "Falcon", to: "Acme", relationType: "is built by" }] });
        const added = await memory.add_observations({ observations: [{ entityName: "Falcon", contents: ["needs chess sets"] }] });
        const first: { thoughtHistoryLength: number } = await thinking.sequentialthinking({
            thought: "who plays?", nextThoughtNeeded: true, thoughtNumber: 1, totalThoughts: 2,
        });
        ({
            made: made.entities.length,
            added: added.results[0].addedObservations,
            found: (await memory.search_nodes({ query: "chess" })).entities,
            relations: (await memory.read_graph({})).relations,
            thoughts: await thinking.sequentialthinking({
                thought: "Falcon", nextThoughtNeeded: false, thoughtNumber: first.thoughtHistoryLength + 1, totalThoughts: 2,
            }),
            wrong: await code((memory as any).open_nodes({ names: "Falcon" })),
            denied: await code((memory as any).delete_entities({ entityNames: ["Falcon"] })),
        });
    "#;
    let done = run(&setting, "think.ts", source);
    check_thinking(&setting, &done);
}

#[test]
fn a_python_program_remembers_and_thinks_with_servers_from_their_packages() {
    let Some(setting) = thinking() else { return };
    let source = r#"
from tools import memory, thinking

async def code(call):
    try:
        await call
    except ToolError as error:
        return error.code
    return "ok"

made = await memory.create_entities(entities=[
    {"name": "Falcon", "entityType": "project", "observations": ["is late"]},
    {"name": "Acme", "entityType": "company", "observations": []},
])
await memory.create_relations(relations=[{"from": "Falcon", "to": "Acme", "relationType": "is built by"}])
added = await memory.add_observations(observations=[{"entityName": "Falcon", "contents": ["needs chess sets"]}])
first = await thinking.sequentialthinking(thought="who plays?", nextThoughtNeeded=True, thoughtNumber=1, totalThoughts=2)
{
    "made": len(made["entities"]),
    "added": added["results"][0]["addedObservations"],
    "found": (await memory.search_nodes(query="chess"))["entities"],
    "relations": (await memory.read_graph())["relations"],
    "thoughts": await thinking.sequentialthinking(
        thought="Falcon", nextThoughtNeeded=False, thoughtNumber=first["thoughtHistoryLength"] + 1, totalThoughts=2,
    ),
    "wrong": await code(memory.open_nodes(names="Falcon")),
    "denied": await code(memory.delete_entities(entityNames=["Falcon"])),
}
"#;
    let done = run(&setting, "think.py", source);
    check_thinking(&setting, &done);
}
