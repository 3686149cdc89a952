//! Runs: results, errors, long runs, and runs whose client disconnects.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::setting::{ME, Setting};

#[tokio::test]
async fn a_program_runs_and_both_forms_say_the_same() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let code = "console.log('hi'); files.write('out.txt', 'made'); ({ sum: 1 + 1 })";
    let result = client
        .call("sandboxed_code_run", json!({ "language": "ts", "code": code }))
        .await;
    let structured = &result["structuredContent"];
    assert_eq!(result["isError"], false);
    assert_eq!(structured["status"], "completed", "{structured}");
    assert_eq!(structured["value"], json!({ "sum": 2 }));
    assert_eq!(structured["stdout"], "hi\n");
    let id = structured["execution_id"].as_str().unwrap();
    assert_eq!(
        structured["links"]["files"],
        format!("ringfence://executions/{id}/files/{{path}}")
    );
    let text = result["content"][0]["text"].as_str().unwrap();
    for fact in [
        "completed",
        "value: {\"sum\":2}",
        "stdout:\nhi",
        "file out.txt (created, 4 bytes)",
        id,
    ] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    let link = &result["content"][1];
    assert_eq!(
        (&link["type"], &link["name"], &link["size"]),
        (&json!("resource_link"), &json!("out.txt"), &json!(4))
    );
    assert!(client.ended().await.is_ok());
}

#[tokio::test]
async fn every_language_runs_and_shell_stands_in_for_a_shell() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    assert_eq!(
        client.run("javascript", "[1, 2].map(x => x * 2)").await["value"],
        json!([2, 4])
    );
    assert_eq!(client.run("py", "sum(range(5))").await["value"], 10);
    let shell = client.run("sh", "echo out; echo err >&2; exit 3").await;
    assert_eq!(shell["status"], "failed");
    assert_eq!(
        (&shell["stdout"], &shell["stderr"], &shell["exit_code"]),
        (&json!("out\n"), &json!("err\n"), &json!(3))
    );
    // The alias of the tool's name works too.
    let result = client
        .call("sandboxed_code.run", json!({ "language": "js", "code": "7" }))
        .await;
    assert_eq!(result["structuredContent"]["value"], 7);
}

#[tokio::test]
async fn files_come_in_and_a_named_session_keeps_them() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let first = json!({
        "language": "shell", "code": "cat a.txt b/c.bin > d.txt", "session_id": "work",
        "files": { "a.txt": "one ", "b/c.bin": { "base64": "dHdv" } },
    });
    let first = client.call("sandboxed_code_run", first).await["structuredContent"].clone();
    assert_eq!(first["status"], "completed", "{first}");
    let second = json!({ "language": "ts", "code": "files.read('d.txt')", "session_id": first["session_id"] });
    assert_eq!(
        client.call("sandboxed_code_run", second).await["structuredContent"]["value"],
        "one two"
    );
}

#[tokio::test]
async fn faults_teach() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let failed = client
        .call("sandboxed_code_run", json!({ "language": "ts", "code": "null.x" }))
        .await;
    assert_eq!(failed["isError"], true);
    assert_eq!(failed["structuredContent"]["status"], "failed");
    let check = async |client: &mut Client, arguments: Value, code: &str, words: &str| {
        let result = client.call("sandboxed_code_run", arguments.clone()).await;
        assert_eq!(result["isError"], true, "{arguments}");
        let error = &result["structuredContent"]["error"];
        assert_eq!(error["code"], code, "{error}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(code) && text.contains(words), "{text}");
    };
    check(&mut client, json!({ "code": "1" }), "arguments.missing", "`python`").await;
    check(&mut client, json!({ "language": "ts" }), "arguments.missing", "code").await;
    check(
        &mut client,
        json!({ "language": "cobol", "code": "1" }),
        "arguments.invalid",
        "say `typescript`",
    )
    .await;
    check(
        &mut client,
        json!({ "language": "ts", "cod": "1" }),
        "arguments.unknown",
        "did you mean `code`?",
    )
    .await;
    check(
        &mut client,
        json!({ "language": "ts", "code": "1", "timeout": "soon" }),
        "arguments.invalid",
        "30s",
    )
    .await;
    let greedy = json!({
        "language": "ts", "code": "1",
        "sandbox_policy": { "proc": { "mem_limit": "8GiB" }, "net": { "enabled": true } },
    });
    check(&mut client, greedy.clone(), "policy.ceiling", "proc.mem_limit").await;
    check(&mut client, greedy, "policy.ceiling", "net.enabled").await;
    let misspelt = json!({ "language": "ts", "code": "1", "sandbox_policy": { "proc": { "memory": "1GiB" } } });
    check(&mut client, misspelt, "policy.parse", "memory").await;
    let slow = json!({ "language": "shell", "code": "sleep 30", "timeout": 0.3 });
    check(&mut client, slow, "limit.wall", "rule").await;
    let gone = json!({ "language": "ts", "code": "1", "session_id": "s_00000000000000000000000000" });
    check(&mut client, gone, "session.unknown", "short name").await;
}

#[tokio::test]
async fn a_large_result_is_cut_and_the_whole_of_it_can_be_read() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let code = "console.log('x'.repeat(100_000)); files.write('b.bin', 'text'); Array(20_000).fill('row')";
    let result = client
        .call("sandboxed_code_run", json!({ "language": "ts", "code": code }))
        .await;
    let structured = &result["structuredContent"];
    assert!(
        structured.to_string().len() <= 30 * 1024,
        "{}",
        structured.to_string().len()
    );
    assert!(result["content"].to_string().len() <= 32 * 1024);
    assert_eq!(
        structured["truncated"],
        json!({ "stdout": true, "stderr": false, "value": true })
    );
    let rows = structured["value"].as_array().unwrap();
    let notice = rows.last().unwrap().as_str().unwrap();
    assert!(
        notice.starts_with("⟦ringfence: 19,800 of 20,000 rows left out; the whole is at ringfence://"),
        "{notice}"
    );
    assert!(
        structured["stdout"].as_str().unwrap().contains("⟦ringfence: "),
        "{structured}"
    );
    let read = async |client: &mut Client, uri: &str| {
        let answer = client.ask("resources/read", json!({ "uri": uri })).await;
        answer["result"]["contents"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    };
    let stdout = read(&mut client, structured["links"]["stdout"].as_str().unwrap()).await;
    assert_eq!(stdout.len(), 100_001);
    let value = read(&mut client, structured["links"]["value"].as_str().unwrap()).await;
    assert_eq!(serde_json::from_str::<Vec<String>>(&value).unwrap().len(), 20_000);
    let file = structured["links"]["files"]
        .as_str()
        .unwrap()
        .replace("{path}", "b.bin");
    assert_eq!(read(&mut client, &file).await, "text");
    let missing = client
        .ask("resources/read", json!({ "uri": file.replace("b.bin", "c.bin") }))
        .await;
    assert_eq!(missing["error"]["code"], -32002);
    let templates = client.ask("resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 2);
}

/// The final status of an execution, if it has ended.
pub(crate) async fn status(setting: &Setting, id: &str) -> String {
    let id = id.parse().unwrap();
    match setting
        .engine
        .runs()
        .wait(ME, id, Duration::from_secs(10))
        .await
        .unwrap()
    {
        ringfence_engine::RunProgress::Ended(ended) => ended.unwrap().status.name().to_owned(),
        ringfence_engine::RunProgress::Running(_) => "running".to_owned(),
    }
}

/// The id of the running execution in the session of this name.
pub(crate) async fn running(setting: &Setting) -> String {
    loop {
        let open = ringfence_store::SessionQuery {
            state: Some(ringfence_journal::SessionState::Open),
            ..Default::default()
        };
        for session in setting.engine.store().list_sessions(open).await.unwrap() {
            for record in setting.engine.store().session_records(session.id).await.unwrap() {
                let event = record.event().unwrap();
                if event.kind.name() == "execution_started" {
                    return event.execution.unwrap().to_string();
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn cancelling_a_request_kills_the_run() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let run = json!({ "name": "sandboxed_code_run", "arguments": { "language": "shell", "code": "sleep 25" } });
    let request = client.begin("tools/call", run).await;
    let id = running(&setting).await;
    let cancelled =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": request } });
    let begun = Instant::now();
    client.send(&cancelled).await;
    assert_eq!(status(&setting, &id).await, "cancelled");
    assert!(begun.elapsed() < Duration::from_secs(8));
    // The MCP session still works.
    assert_eq!(client.run("ts", "2").await["value"], 2);
}

#[tokio::test]
async fn a_client_that_says_no_more_leaves_nothing_running() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let run = json!({ "name": "sandboxed_code_run", "arguments": { "language": "shell", "code": "sleep 25" } });
    client.begin("tools/call", run).await;
    let id = running(&setting).await;
    let begun = Instant::now();
    assert!(client.ended().await.is_ok());
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(status(&setting, &id).await, "cancelled");
}

#[tokio::test]
async fn what_was_asked_before_the_end_is_answered() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let run = json!({ "name": "sandboxed_code_run", "arguments": { "language": "ts", "code": "6 * 7" } });
    let id = client.begin("tools/call", run).await;
    client.end().await;
    let answer = client.answer(&id.into()).await;
    assert_eq!(answer["result"]["structuredContent"]["value"], 42);
    assert_eq!(client.hear().await, None);
}

#[tokio::test]
async fn progress_is_told_to_whoever_asks_for_it() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let code = "echo started; sleep 5";
    let run = json!({
        "name": "sandboxed_code_run", "arguments": { "language": "shell", "code": code },
        "_meta": { "progressToken": "p1" },
    });
    let answer = client.ask("tools/call", run).await;
    assert_eq!(answer["result"]["structuredContent"]["status"], "completed", "{answer}");
    let words: Vec<_> = client
        .heard
        .iter()
        .filter(|heard| heard["method"] == "notifications/progress")
        .collect();
    assert!((1..=4).contains(&words.len()), "{words:?}");
    let mut last = 0.0;
    for word in words {
        assert_eq!(word["params"]["progressToken"], "p1");
        assert!(
            word["params"]["message"].as_str().unwrap().ends_with("s: started"),
            "{word}"
        );
        let progress = word["params"]["progress"].as_f64().unwrap();
        assert!(progress > last);
        last = progress;
    }
}

#[tokio::test]
async fn waiting_for_a_run_gives_new_words_and_then_its_end() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let ask = super::setting::shell("echo one; sleep 2; echo two; sleep 1");
    let id = setting.engine.runs().begin(ME, ask).await.unwrap().to_string();
    let wait = |wait: Value| json!({ "execution_id": id, "wait": wait });
    let first = client.call("wait_run", wait(json!("1s"))).await;
    let structured = &first["structuredContent"];
    assert_eq!(
        (&first["isError"], &structured["status"]),
        (&json!(false), &json!("running")),
        "{first}"
    );
    assert_eq!(structured["stdout"], "one\n");
    assert!(
        structured["notices"][0].as_str().unwrap().contains("wait_run"),
        "{structured}"
    );
    assert!(first["content"][0]["text"].as_str().unwrap().contains("wait_run"));
    let last = client.call("wait_run", wait(json!(30))).await;
    let structured = &last["structuredContent"];
    assert_eq!(
        (&structured["status"], &structured["stdout"]),
        (&json!("completed"), &json!("one\ntwo\n"))
    );
}

#[tokio::test]
async fn waiting_with_cancel_kills() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let id = setting
        .engine
        .runs()
        .begin(ME, super::setting::shell("sleep 25"))
        .await
        .unwrap()
        .to_string();
    let ended = client
        .call("wait_run", json!({ "execution_id": id, "cancel": true }))
        .await;
    assert_eq!(ended["structuredContent"]["status"], "cancelled", "{ended}");
    assert_eq!(ended["isError"], true);
    let unknown = client
        .call("wait_run", json!({ "execution_id": "x_00000000000000000000000000" }))
        .await;
    assert_eq!(unknown["structuredContent"]["error"]["code"], "execution.unknown");
    let wrong = client.call("wait_run", json!({ "execution_id": "17" })).await;
    assert_eq!(wrong["structuredContent"]["error"]["code"], "arguments.invalid");
}

#[tokio::test]
async fn a_clients_own_names_for_a_call_are_written_down() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let run = json!({
        "name": "sandboxed_code_run", "arguments": { "language": "ts", "code": "1" },
        "_meta": { "claudecode/toolUseId": "toolu_01", "traceparent": traceparent },
    });
    let answer = client.ask("tools/call", run).await;
    let session = answer["result"]["structuredContent"]["session_id"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let records = setting.engine.store().session_records(session).await.unwrap();
    let started = records
        .iter()
        .map(|record| record.event().unwrap())
        .find(|event| event.kind.name() == "execution_started");
    let written = format!("{:?}", started.unwrap().kind);
    for word in ["test 1", "toolu_01", traceparent] {
        assert!(written.contains(word), "{word}: {written}");
    }
}

#[tokio::test]
async fn hints_name_what_a_client_can_send() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let arguments =
        json!({ "language": "js", "code": "for (;;) {}", "sandbox_policy": { "proc": { "cpu_time": "50ms" } } });
    let result = client.call("sandboxed_code_run", arguments).await;
    let hint = "raise it with `proc.cpu_time` in `sandbox_policy` if the operator's ceiling allows, or do less at once";
    assert_eq!(result["structuredContent"]["error"]["hint"], hint, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(hint) && !text.contains("--set"), "{text}");
}

#[tokio::test]
async fn a_draft_that_nothing_could_start_under_is_refused_by_its_key() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let big: serde_json::Map<String, Value> = (0..40)
        .map(|number| (format!("V{number}"), json!("x".repeat(1000))))
        .collect();
    for (draft, rule, says) in [
        (
            json!({ "proc": { "open_files": 3 } }),
            "proc.open_files",
            "`proc.open_files` is 3, the least is 16",
        ),
        (json!({ "env": big }), "env", "bytes, the most is 32768"),
    ] {
        let arguments = json!({ "language": "shell", "code": "echo no", "sandbox_policy": draft });
        let result = client.call("sandboxed_code_run", arguments).await;
        let error = &result["structuredContent"]["error"];
        assert_eq!(
            (&error["code"], &error["rule"]),
            (&json!("policy.bounds"), &json!(rule)),
            "{result}"
        );
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
        assert!(error["hint"].is_string(), "{error}");
    }
    let many: serde_json::Map<String, Value> = (0..10_001).map(|number| (format!("f{number}"), json!(""))).collect();
    let arguments = json!({ "language": "shell", "code": "echo no", "files": many });
    let error = client.call("sandboxed_code_run", arguments).await["structuredContent"]["error"].clone();
    assert_eq!(
        (&error["code"], &error["message"]),
        (
            &json!("arguments.invalid"),
            &json!("`files` has 10001 entries, the most is 10000")
        )
    );
    let arguments = json!({ "language": "shell", "code": "echo no", "files": { "a": "x", "a/b": "y" } });
    let error = client.call("sandboxed_code_run", arguments).await["structuredContent"]["error"].clone();
    assert_eq!(error["code"], "files.in", "{error}");
    assert!(error["hint"].as_str().unwrap().contains("a name of its own"), "{error}");
}

#[tokio::test]
async fn a_policy_without_programs_runs_code_and_refuses_shell_on_every_way_in() {
    let setting = Setting::without_programs().await;
    let mut client = setting.client().await;
    let refused = json!({ "code": "policy.programs", "rule": "proc.programs" });
    let check = |result: &Value, expected: &Value| {
        let error = &result["structuredContent"]["error"];
        assert_eq!(
            &json!({ "code": error["code"], "rule": error["rule"] }),
            expected,
            "{result}"
        );
        assert!(error["hint"].is_string(), "{error}");
    };
    let shell = json!({ "language": "shell", "code": "echo started" });
    check(&client.call("sandboxed_code_run", shell).await, &refused);
    let code = json!({ "language": "js", "code": "1 + 1", "session_id": "mine" });
    let result = client.call("sandboxed_code_run", code).await;
    assert_eq!(result["structuredContent"]["value"], 2, "{result}");
    let again = json!({ "language": "shell", "code": "echo started", "session_id": "mine" });
    check(&client.call("sandboxed_code_run", again).await, &refused);
    // The policy in force is the ceiling of requests.
    let more =
        json!({ "language": "shell", "code": "echo started", "sandbox_policy": { "proc": { "programs": "all" } } });
    let above = json!({ "code": "policy.ceiling", "rule": "proc.programs" });
    check(&client.call("sandboxed_code_run", more).await, &above);
    // A session that refused a request still works.
    let code = json!({ "language": "js", "code": "2 + 2", "session_id": "mine" });
    let result = client.call("sandboxed_code_run", code).await;
    assert_eq!(result["structuredContent"]["value"], 4, "{result}");
}

#[tokio::test]
async fn an_answer_has_the_rules_that_are_not_held_hard_and_a_resource_has_all() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let result = client
        .call("sandboxed_code_run", json!({ "language": "js", "code": "1 + 1" }))
        .await;
    let run = &result["structuredContent"];
    let short = run["enforcement"].as_array().unwrap();
    assert!(run["enforcement"].to_string().len() < 300, "{run}");
    assert!(
        short.iter().all(|one| one["by"] == "watch" || one["by"] == "rlimit"),
        "{run}"
    );
    let uri = format!(
        "ringfence://executions/{}/enforcement",
        run["execution_id"].as_str().unwrap()
    );
    let read = client.ask("resources/read", json!({ "uri": uri })).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    let all: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(
        all.contains(&json!({ "rule": "proc.syscalls", "by": "seccomp" })),
        "{read}"
    );
    assert!(all.len() > 10 && short.iter().all(|one| all.contains(one)), "{read}");
}
