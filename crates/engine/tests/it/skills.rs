//! Skills as programs use them: each call is an execution of its own, under the rules and with the history of its caller.

use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{Engine, ExecutionReport, ExecutionRequest, RunProgram};
use ringfence_journal::{Event, EventKind, ExecutionStatus, Principal};
use ringfence_sandbox::JobLanguage;
use ringfence_store::{SkillBody, SkillLanguage, SkillMeta, SkillName, SkillScope};
use serde_json::{Value, json};

use super::{engine, policy, typescript};

const ME: Principal = Principal::Local(1);

fn meta(name: &str, language: SkillLanguage) -> SkillMeta {
    SkillMeta::new(SkillName::parse(name).unwrap(), "What it does.", language)
}

fn save(engine: &Engine, meta: SkillMeta, source: &str) {
    let body = SkillBody {
        source: source.to_owned(),
        files: Vec::new(),
    };
    engine.store().skills().save(SkillScope::User(ME), meta, body).unwrap();
}

fn save_typescript(engine: &Engine, name: &str, source: &str) {
    save(engine, meta(name, SkillLanguage::TypeScript), source);
}

fn python(source: &str) -> ExecutionRequest {
    let program = RunProgram::Code {
        language: JobLanguage::Python,
        file_name: "main.py".to_owned(),
        source: source.to_owned(),
    };
    ExecutionRequest::new(policy(&[]), program)
}

async fn run(engine: &Engine, source: &str) -> ExecutionReport {
    engine.run(typescript(source, &[]), &mut ()).await.unwrap()
}

#[track_caller]
fn value(execution: &ExecutionReport) -> Value {
    assert_eq!(
        execution.status,
        ExecutionStatus::Completed,
        "{:?} {}",
        execution.error,
        execution.stderr
    );
    execution
        .value
        .as_ref()
        .map_or(Value::Null, |value| serde_json::from_str(value.get()).unwrap())
}

/// The refusal that a skill call gets: `[code, rule, message]`.
async fn told(engine: &Engine, call: &str, settings: &[(&str, &str)]) -> [String; 3] {
    let source =
        format!("await {call}.then((v) => ['ok', '', JSON.stringify(v)], (e) => [e.code, e.rule ?? '', e.message])");
    let execution = engine.run(typescript(&source, settings), &mut ()).await.unwrap();
    serde_json::from_value(value(&execution)).unwrap()
}

async fn events(engine: &Engine, execution: &ExecutionReport) -> Vec<Event> {
    let records = engine.store().session_records(execution.session_id).await.unwrap();
    records.iter().map(|record| record.event().unwrap()).collect()
}

/// The events of nested executions.
fn nested(events: &[Event]) -> Vec<&Event> {
    let is_nested = |event: &&Event| matches!(event.kind, EventKind::ExecutionStarted { parent: Some(_), .. });
    events.iter().filter(is_nested).collect()
}

#[tokio::test]
async fn each_language_calls_skills_of_each_language() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    save_typescript(
        &engine,
        "add-up",
        "export default async function (input: { a: number; b: number }) { return { sum: input.a + input.b, via: 'ts' }; }",
    );
    let in_python = "async def main(a, b=5):\n    return {'sum': a + b, 'via': 'py'}\n";
    save(&engine, meta("add-py", SkillLanguage::Python), in_python);
    save(&engine, meta("echo", SkillLanguage::Shell), "cat; echo");
    save(
        &engine,
        meta("plain", SkillLanguage::JavaScript),
        "export default [1, 2]",
    );
    let first = run(
        &engine,
        "import { plain } from 'skills'; \
         [await skills.add_up({ a: 1, b: 2 }), await skills.add_py({ a: 3 }), await skills.echo({ x: [1] }), await plain()]",
    )
    .await;
    let expected = json!([{ "sum": 3, "via": "ts" }, { "sum": 8, "via": "py" }, { "x": [1] }, [1, 2]]);
    assert_eq!(value(&first), expected);
    let source = "import skills\nfrom skills import add_py\n\
        [await skills.add_up(a=1, b=2), await add_py(a=3), await skills.echo(x=[1]), await skills.plain()]";
    let second = engine.run(python(source), &mut ()).await.unwrap();
    assert_eq!(value(&second), expected);
    let tools: Vec<&str> = first.calls.iter().map(|call| call.tool.as_str()).collect();
    assert_eq!(tools, ["skills.add-up", "skills.add-py", "skills.echo", "skills.plain"]);
    assert!(engine.store().verify(|_| {}).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_call_is_an_execution_of_its_own_in_the_session_of_its_caller() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let body = SkillBody {
        source: "export default () => [files.read('data/a.txt'), files.list(), args.length]".to_owned(),
        files: vec![("data/a.txt".parse().unwrap(), b"with it".to_vec())],
    };
    let about = meta("reader", SkillLanguage::TypeScript);
    engine.store().skills().save(SkillScope::Team, about, body).unwrap();
    let outer = run(&engine, "files.write('mine.txt', 'x'); await skills.reader()").await;
    // The skill has its own files, and not those of its caller.
    assert_eq!(value(&outer), json!(["with it", ["data/"], 0]));
    assert_eq!(outer.files.len(), 1);
    let events = events(&engine, &outer).await;
    let started = nested(&events);
    let [started] = started.as_slice() else {
        panic!("{started:?}")
    };
    let EventKind::ExecutionStarted {
        parent, program, files, ..
    } = &started.kind
    else {
        panic!()
    };
    assert_eq!(*parent, Some(outer.execution_id));
    assert_eq!(program.as_ref().unwrap().as_str(), "reader/program.ts");
    assert_eq!(files.len(), 1);
    assert_ne!(started.execution, Some(outer.execution_id));
    let names: Vec<(&str, bool)> = events
        .iter()
        .map(|event| (event.kind.name(), event.execution == started.execution))
        .collect();
    let expected = [
        ("session_opened", false),
        ("execution_started", false),
        ("call_started", false),
        ("execution_started", true),
        ("execution_ended", true),
        ("call_ended", false),
        ("execution_ended", false),
        ("session_closed", false),
    ];
    assert_eq!(names, expected);
    assert!(engine.store().verify(|_| {}).await.unwrap().is_ok());
}

#[tokio::test]
async fn an_error_names_the_skills_own_file_and_line() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    save_typescript(
        &engine,
        "thrower",
        "export default (input: {}) => {\n  throw new Error('no luck');\n}",
    );
    save(
        &engine,
        meta("raiser", SkillLanguage::Python),
        "def main():\n    return 1 / 0\n",
    );
    save_typescript(&engine, "broken", "export default (");
    save(&engine, meta("failing", SkillLanguage::Shell), "exit 3");
    let check = async |name: &str, expected: &str| {
        let [code, _, message] = told(&engine, &format!("skills.{name}"), &[]).await;
        assert_eq!(code, "skill.failed", "{message}");
        assert!(message.contains(expected), "{message}");
    };
    check("thrower()", "thrower/program.ts:2:13: Error: no luck").await;
    check("raiser()", "raiser/program.py:2:12: ZeroDivisionError").await;
    check("broken()", "broken/program.ts:1:").await;
    check("failing()", "skill `failing` ended with code 3").await;
    check("raiser({ much: 1 })", "unexpected keyword argument").await;
}

#[tokio::test]
async fn inputs_and_values_are_what_the_skill_says() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let about = SkillMeta {
        inputs: Some(json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] })),
        outputs: Some(json!({ "type": "array", "items": { "type": "integer" } })),
        ..meta("upto", SkillLanguage::Python)
    };
    save(
        &engine,
        about,
        "def main(n):\n    return [0] * n if n < 9 else {'much': n}\n",
    );
    assert_eq!(told(&engine, "skills.upto({ n: 2 })", &[]).await[2], "[0,0]");
    let [code, rule, message] = told(&engine, "skills.upto({ n: 'two' })", &[]).await;
    assert_eq!(
        (code.as_str(), rule.as_str()),
        ("tool.arguments", "inputSchema"),
        "{message}"
    );
    assert_eq!(told(&engine, "skills.upto()", &[]).await[0], "tool.arguments");
    let [code, rule, message] = told(&engine, "skills.upto({ n: 9 })", &[]).await;
    assert_eq!(
        (code.as_str(), rule.as_str()),
        ("skill.result", "metadata.outputs"),
        "{message}"
    );
    // A skill with invalid input is not even started.
    let refused = run(&engine, "await skills.upto({ n: 1.5 })").await;
    assert_eq!(refused.status, ExecutionStatus::Failed);
    assert_eq!(nested(&events(&engine, &refused).await), Vec::<&Event>::new());
}

#[tokio::test]
async fn skills_that_call_each_other_end_at_the_fourth() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let source = "export default async ({ n }: { n: number }) => \
        { try { return await skills.again({ n: n + 1 }) } catch (e) { return [n, e.code, e.rule] } }";
    save_typescript(&engine, "again", source);
    let outer = run(&engine, "await skills.again({ n: 1 })").await;
    assert_eq!(value(&outer), json!([4, "skill.depth", "builtin.skills"]));
    let events = events(&engine, &outer).await;
    assert_eq!(nested(&events).len(), 4);
    // Each was called by the one before.
    let mut parent = Some(outer.execution_id);
    for event in nested(&events) {
        let EventKind::ExecutionStarted { parent: by, .. } = &event.kind else {
            panic!()
        };
        assert_eq!(*by, parent);
        parent = event.execution;
    }
}

#[tokio::test]
async fn many_at_once_wait_for_places_and_not_for_each_other() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    save_typescript(&engine, "leaf", "export default ({ n }: { n: number }) => n * 2");
    let branch = "export default async ({ n }: { n: number }) => \
        (await Promise.all([1, 2].map((m) => skills.leaf({ n: n + m })))).reduce((a, b) => a + b)";
    save_typescript(&engine, "branch", branch);
    let outer = "const all = await Promise.all(Array.from({ length: 20 }, (_, n) => skills.branch({ n }))); all";
    let runs = (0..3).map(|_| run(&engine, outer));
    let done = tokio::time::timeout(Duration::from_mins(4), futures::future::join_all(runs)).await;
    let expected: Vec<u64> = (0..20).map(|n| 4 * n + 6).collect();
    for execution in done.expect("nobody waits for ever") {
        assert_eq!(value(&execution), json!(expected));
    }
    assert!(engine.store().verify(|_| {}).await.unwrap().is_ok());
}

#[tokio::test]
async fn what_is_stopped_takes_its_skills_with_it() {
    let home = tempfile::tempdir().unwrap();
    let engine = Arc::new(engine(home.path()).await);
    save_typescript(
        &engine,
        "sleeper",
        "export default () => new Promise((r) => setTimeout(r, 25_000))",
    );
    save_typescript(&engine, "outer", "export default () => skills.sleeper()");
    let running = Arc::clone(&engine);
    let run = tokio::spawn(async move { running.run(typescript("await skills.outer()", &[]), &mut ()).await });
    let begun = tokio::time::Instant::now();
    let started = async {
        loop {
            let sessions = engine
                .store()
                .list_sessions(ringfence_store::SessionQuery::default())
                .await
                .unwrap();
            if let Some(session) = sessions.first() {
                let executions = engine.store().session_executions(session.id).await.unwrap();
                if executions.len() == 3 {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), started).await.unwrap();
    engine.cancel_all();
    let execution = run.await.unwrap().unwrap();
    assert_eq!(execution.status, ExecutionStatus::Cancelled, "{:?}", execution.error);
    assert!(begun.elapsed() < Duration::from_secs(20));
    // Every one of them has an end, before the session has its own.
    let events = events(&engine, &execution).await;
    let ended = events
        .iter()
        .filter(|event| event.kind.name() == "execution_ended")
        .count();
    assert_eq!(ended, 3);
    assert_eq!(events.last().unwrap().kind.name(), "session_closed");
    assert_eq!(execution.calls.first().map(|call| call.outcome), Some("unknown"));
    assert!(engine.store().verify(|_| {}).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_program_that_has_finished_does_not_wait_for_its_skills() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let sleeper = "export default () => new Promise((r) => setTimeout(r, 25_000))";
    save_typescript(&engine, "sleeper", sleeper);
    let begun = tokio::time::Instant::now();
    let source = "import asyncio, skills\nall = [asyncio.ensure_future(skills.sleeper()) for _ in range(20)]\n\
        await asyncio.sleep(0.5)\n7";
    let execution = engine.run(python(source), &mut ()).await.unwrap();
    assert_eq!(value(&execution), json!(7));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(execution.calls.len(), 20);
    assert!(execution.calls.iter().all(|call| call.outcome != "ok"));
    let events = events(&engine, &execution).await;
    let count = |name: &str| events.iter().filter(|event| event.kind.name() == name).count();
    assert_eq!(count("call_started"), count("call_ended"));
    assert_eq!(count("execution_started"), count("execution_ended"));
    assert!(engine.store().verify(|_| {}).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_skill_has_its_callers_rules_and_limits_and_no_more() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let hungry = "export default () => { const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1)) }";
    save_typescript(&engine, "hungry", hungry);
    save_typescript(&engine, "endless", "export default () => { for (;;) {} }");
    save_typescript(&engine, "one", "export default () => 1");
    for (name, limit, rule, setting) in [
        ("hungry", "limit.memory", "proc.mem_limit", "64MiB"),
        ("endless", "limit.wall", "proc.wall_timeout", "2s"),
    ] {
        let [code, by, message] = told(&engine, &format!("skills.{name}()"), &[(rule, setting)]).await;
        assert_eq!((code.as_str(), by.as_str()), ("skill.failed", rule), "{message}");
        assert!(message.contains(limit), "{message}");
    }
    let twice = "(async () => { await skills.one(); await skills.one(); await skills.one() })()";
    let [code, rule, _] = told(&engine, twice, &[("tools.max_calls", "2")]).await;
    assert_eq!((code.as_str(), rule.as_str()), ("limit.calls", "tools.max_calls"));
    // Calls of skills that skills make are counted too.
    save_typescript(&engine, "two", "export default () => skills.one()");
    let [code, rule, message] = told(&engine, "skills.two()", &[("tools.max_calls", "1")]).await;
    assert_eq!(
        (code.as_str(), rule.as_str()),
        ("skill.failed", "tools.max_calls"),
        "{message}"
    );
    // What is denied is denied; the default of tools is not about skills.
    let [code, rule, _] = told(
        &engine,
        "skills.one()",
        &[("tools.rules", "[{ deny: \"skills.on*\" }]")],
    )
    .await;
    assert_eq!((code.as_str(), rule.as_str()), ("policy.denied", "tools.rules[0]"));
    assert_eq!(
        told(&engine, "skills.one()", &[("tools.default", "deny")]).await[0],
        "ok"
    );
}

#[tokio::test]
async fn a_skill_that_asks_for_more_than_its_caller_has_is_refused_by_the_key() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let needs = |draft: Value| SkillMeta {
        needs: Some(draft),
        ..meta("needy", SkillLanguage::TypeScript)
    };
    let check = async |draft: Value, settings: &[(&str, &str)], expected: (&str, &str)| {
        save(&engine, needs(draft.clone()), "export default () => 1");
        let [code, rule, message] = told(&engine, "skills.needy()", settings).await;
        assert_eq!((code.as_str(), rule.as_str()), expected, "{draft}: {message}");
    };
    check(
        json!({ "proc": { "mem_limit": "1GiB" } }),
        &[],
        ("skill.policy", "proc.mem_limit"),
    )
    .await;
    check(
        json!({ "proc": { "mem_limit": "1GiB" } }),
        &[("proc.mem_limit", "1GiB")],
        ("ok", ""),
    )
    .await;
    check(
        json!({ "net": { "enabled": true } }),
        &[],
        ("skill.policy", "net.enabled"),
    )
    .await;
    check(json!({ "proc": { "wall_timeout": "1s" } }), &[], ("ok", "")).await;
    check(
        json!({ "proc": { "mem_limit": "1GiB", "wall_timeout": "1h" } }),
        &[],
        ("skill.policy", "proc.mem_limit, proc.wall_timeout"),
    )
    .await;
}

#[tokio::test]
async fn hostile_calls_reach_no_skill() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    save_typescript(
        &engine,
        "size",
        "export default (input: { text: string }) => input.text.length",
    );
    for name in [
        "../size",
        "user/local-1/size",
        "size/1",
        "a.b",
        "",
        "SIZE",
        "size\\0",
        "tools.size",
        "*",
        "-",
        "_",
    ] {
        let [code, _, message] = told(&engine, &format!("skills[{}]()", Value::from(name)), &[]).await;
        assert!(
            ["skill.unknown", "tool.unknown"].contains(&code.as_str()),
            "{name}: {code} {message}"
        );
        assert!(message.len() < 300, "{message}");
    }
    let long = told(&engine, "skills['x'.repeat(5000)]()", &[]).await;
    assert_eq!(long[0], "tool.unknown");
    let [code, _, length] = told(&engine, "skills.size({ text: 'x'.repeat(15 << 20) })", &[]).await;
    assert_eq!(
        (code.as_str(), length.as_str()),
        ("ok", (15 << 20).to_string().as_str())
    );
    assert_eq!(
        told(&engine, "skills.size({ text: 'x'.repeat(17 << 20) })", &[]).await[0],
        "call.too_large"
    );
    for wrong in ["skills.size([1])", "skills.size('x')", "skills.size({ text: 'a' }, 2)"] {
        let refused = run(&engine, &format!("await {wrong}")).await;
        assert_eq!(refused.status, ExecutionStatus::Failed, "{wrong}");
    }
    // A value that is larger than a call may answer.
    save_typescript(&engine, "large", "export default () => 'x'.repeat(17 << 20)");
    assert_eq!(told(&engine, "skills.large()", &[]).await[0], "skill.failed");
}

#[tokio::test]
async fn a_tampered_skill_is_not_run_and_scopes_shadow_each_other() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let skills = engine.store().skills();
    for (scope, answer) in [
        (SkillScope::Team, "team"),
        (SkillScope::User(Principal::Local(2)), "somebody else"),
    ] {
        let body = SkillBody {
            source: format!("export default '{answer}'"),
            files: Vec::new(),
        };
        skills
            .save(scope, meta("who", SkillLanguage::TypeScript), body)
            .unwrap();
    }
    assert_eq!(told(&engine, "skills.who()", &[]).await[2], "\"team\"");
    save_typescript(&engine, "who", "export default 'mine'");
    assert_eq!(told(&engine, "skills.who()", &[]).await[2], "\"mine\"");
    let program = home.path().join("skills/user/local-1/who/1/program.ts");
    let mut writable = std::fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut writable, 0o600);
    std::fs::set_permissions(&program, writable).unwrap();
    std::fs::write(&program, "export default 'changed'").unwrap();
    assert_eq!(told(&engine, "skills.who()", &[]).await[0], "skill.damaged");
}
