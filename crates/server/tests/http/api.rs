//! The JSON API: runs and sessions of two principals, pages, the document.

use std::time::Duration;

use ringfence_engine::storage::AccessScope;
use serde_json::{Value, json};

use crate::wire::{exchange, head, send};
use crate::world::{Holder, World};

#[tokio::test]
async fn a_run_is_begun_shown_listed_and_belongs_to_its_principal() {
    let world = World::new().await;
    let (me, other) = (
        world.holder("me", AccessScope::Agent).await,
        world.holder("other", AccessScope::Agent).await,
    );
    let operator = world.holder("operator", AccessScope::Operator).await;
    let run = me.run("typescript", "console.log('hi'); 6 * 7").await;
    assert_eq!(run.status, 200, "{run:?}");
    let (body, place) = (run.json(), run.header("location").unwrap().to_owned());
    assert_eq!(
        (&body["status"], &body["value"], &body["stdout"]),
        (&json!("completed"), &json!(42), &json!("hi\n"))
    );
    assert_eq!(me.get(&place).await.json(), body);
    assert_eq!(operator.get(&place).await.json(), body);
    let hidden = other.get(&place).await;
    assert_eq!((hidden.status, hidden.code().as_str()), (404, "run.unknown"));
    let cancelled = other.send("POST", &format!("{place}/cancel"), "").await;
    assert_eq!(cancelled.status, 404);

    let session = format!("/api/v1/sessions/{}", body["session_id"].as_str().unwrap());
    assert_eq!(
        me.get(&session).await.json()["newest"][0]["execution_id"],
        body["execution_id"]
    );
    for path in [session.clone(), format!("{session}/events")] {
        let hidden = other.get(&path).await;
        assert_eq!(
            (hidden.status, hidden.code().as_str()),
            (404, "session.unknown"),
            "{path}"
        );
    }
    assert_eq!(other.send("DELETE", &session, "").await.status, 404);
    let count = |reply: Value| reply["items"].as_array().unwrap().len();
    for (holder, seen) in [(&me, 1), (&other, 0), (&operator, 1)] {
        assert_eq!(count(holder.get("/api/v1/runs").await.json()), seen);
        assert_eq!(count(holder.get("/api/v1/sessions").await.json()), seen);
    }
}

#[tokio::test]
async fn a_program_gets_the_arguments_the_input_and_the_variables_of_its_request() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let ask = async |body: Value| me.send("POST", "/api/v1/runs", &body.to_string()).await;
    let shell = ask(json!({
        "language": "shell", "code": "cat; echo \"$1 $2 $COLOUR\"",
        "args": ["a", "b c"], "stdin": "read\n", "env": { "COLOUR": "red" },
    }))
    .await;
    assert_eq!(shell.json()["stdout"], "read\na b c red\n", "{shell:?}");
    let python = ask(json!({
        "language": "python", "code": "import os\n[args, os.environ['COLOUR']]",
        "args": ["a"], "sandbox_policy": { "env": { "COLOUR": "red", "SIZE": "9" } }, "env": { "COLOUR": "blue" },
    }))
    .await;
    assert_eq!(python.json()["value"], json!([["a"], "blue"]), "{python:?}");
    for (name, value) in [("args", json!({})), ("stdin", json!(7)), ("env", json!(["A=b"]))] {
        let mut body = json!({ "language": "shell", "code": "true" });
        body[name] = value;
        let refused = ask(body).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "arguments.invalid"),
            "{refused:?}"
        );
        assert!(refused.body.contains(&format!("`{name}`")), "{refused:?}");
    }
    let unread = ask(json!({ "language": "python", "code": "1", "stdin": "x" })).await;
    assert_eq!(
        (unread.status, unread.code().as_str()),
        (400, "arguments.invalid"),
        "{unread:?}"
    );
    let too_much = ask(json!({ "language": "shell", "code": "true", "env": { "A": 7 } })).await;
    assert_eq!(too_much.json()["status"], "refused", "{too_much:?}");
}

#[tokio::test]
async fn output_that_was_cut_is_fetched_whole_or_in_part_by_its_owner() {
    let world = World::new().await;
    let (me, other) = (
        world.holder("me", AccessScope::Agent).await,
        world.holder("other", AccessScope::Agent).await,
    );
    let run = me
        .run(
            "javascript",
            "for (let n = 0; n < 9000; n++) console.log('line ' + n); 'x'.repeat(90000)",
        )
        .await;
    assert_eq!(run.json()["truncated"]["stdout"], true, "{run:?}");
    let place = run.header("location").unwrap();
    let whole = me.get(&format!("{place}/stdout")).await;
    assert_eq!((whole.status, whole.header("accept-ranges")), (200, Some("bytes")));
    assert!(whole.body.starts_with("line 0\nline 1\n") && whole.body.ends_with("line 8999\n"));
    // Reading does not consume the output.
    assert_eq!(me.get(&format!("{place}/stdout")).await.body, whole.body);
    let part = me.get_range(&format!("{place}/stdout"), "bytes=7-12").await;
    assert_eq!((part.status, part.body.as_str()), (206, "line 1"));
    let value = me.get(&format!("{place}/value")).await;
    assert_eq!(value.json(), json!("x".repeat(90_000)));
    assert_eq!(me.get(&format!("{place}/stderr")).await.body, "");
    for name in ["stdout", "stderr", "value"] {
        let hidden = other.get(&format!("{place}/{name}")).await;
        assert_eq!((hidden.status, hidden.code().as_str()), (404, "run.unknown"));
    }
}

#[tokio::test]
async fn files_of_a_run_are_downloaded_as_what_they_are_and_run_nowhere() {
    let world = World::new().await;
    let (me, other) = (
        world.holder("me", AccessScope::Agent).await,
        world.holder("other", AccessScope::Agent).await,
    );
    let code = "files.write('plain.bin', 'made'); emit('<script>', { name: 'out/page one.html' })";
    let run = me.run("typescript", code).await;
    let place = run.header("location").unwrap().to_owned();
    let files = &run.json()["files"];
    assert_eq!(
        (&files[0]["type"], &files[1].get("type")),
        (&json!("text/html"), &None),
        "{files}"
    );
    for (path, media_type, body) in [
        ("out/page%20one.html", "text/html", "<script>"),
        ("plain.bin", "application/octet-stream", "made"),
    ] {
        let path = format!("{place}/files/{path}");
        let reply = me.get(&path).await;
        assert_eq!((reply.status, reply.body.as_str()), (200, body), "{reply:?}");
        for (header, expected) in [
            ("content-type", media_type),
            ("content-disposition", "attachment"),
            ("content-security-policy", "sandbox"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(reply.header(header), Some(expected), "{reply:?}");
        }
        assert_eq!(other.get(&path).await.code(), "run.unknown");
    }
    for path in ["missing", "..%2Fplain.bin", "out", "%2Fetc%2Fpasswd", "a%0Ab"] {
        let reply = me.get(&format!("{place}/files/{path}")).await;
        assert_ne!(reply.status, 200, "{path} {reply:?}");
    }
}

#[tokio::test]
async fn a_run_with_many_files_lists_the_first_and_hands_out_all() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let code = "const name = 'n'.repeat(150); for (let i = 1000; i < 3000; i++) files.write(name + i, 'made')";
    let run = me.run("typescript", code).await;
    let place = run.header("location").unwrap().to_owned();
    for reply in [run, me.get(&place).await] {
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert!(reply.body.len() < 200_000, "{} bytes", reply.body.len());
        let body = reply.json();
        let listed = body["files"].as_array().unwrap().len();
        assert_eq!(
            body["truncated"]["files"],
            json!(2000 - listed),
            "{}",
            body["truncated"]
        );
    }
    let last = me.get(&format!("{place}/files/{}2999", "n".repeat(150))).await;
    assert_eq!((last.status, last.body.as_str()), (200, "made"), "{last:?}");
}

#[tokio::test]
async fn what_is_asked_wrongly_is_said() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let cases = [
        ("POST", "/api/v1/runs", "{", 400, "api.body"),
        ("POST", "/api/v1/runs", "[]", 400, "api.body"),
        ("POST", "/api/v1/runs", r#"{"code":"1"}"#, 400, "arguments.missing"),
        (
            "POST",
            "/api/v1/runs",
            r#"{"code":"1","language":"cobol"}"#,
            400,
            "arguments.invalid",
        ),
        (
            "POST",
            "/api/v1/runs",
            r#"{"code":"1","language":"js","x":1}"#,
            400,
            "arguments.unknown",
        ),
        (
            "POST",
            "/api/v1/runs?wait=soon",
            r#"{"code":"1","language":"js"}"#,
            400,
            "api.query",
        ),
        ("GET", "/api/v1/runs?cursor=1", "", 400, "api.cursor"),
        ("GET", "/api/v1/runs?colour=red", "", 400, "api.query"),
        ("GET", "/api/v1/sessions?state=gone", "", 400, "api.query"),
        ("GET", "/api/v1/runs/1", "", 400, "api.id"),
        (
            "GET",
            "/api/v1/sessions/s_00000000000000000000000000",
            "",
            404,
            "session.unknown",
        ),
        (
            "GET",
            "/api/v1/runs/x_00000000000000000000000000",
            "",
            404,
            "run.unknown",
        ),
        ("GET", "/api/v2", "", 404, "http.path"),
        ("PUT", "/api/v1/runs", "", 405, "http.method"),
    ];
    for (method, path, body, status, code) in cases {
        let reply = me.send(method, path, body).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (status, code),
            "{method} {path} {body}"
        );
    }
    // A draft above the ceiling gives a refused run that names each key.
    let body = json!({ "code": "1", "language": "js", "sandbox_policy": { "proc": { "mem_limit": "64GiB" } } });
    let refused = me.send("POST", "/api/v1/runs", &body.to_string()).await.json();
    assert_eq!(
        (&refused["status"], &refused["error"]["rule"]),
        (&json!("refused"), &json!("proc.mem_limit"))
    );
}

async fn begun(holder: &Holder, code: &str) -> Value {
    let body = json!({ "language": "shell", "code": code, "session_id": "work" }).to_string();
    let reply = holder.send("POST", "/api/v1/runs?wait=0", &body).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    reply.json()
}

#[tokio::test]
async fn a_run_that_goes_on_is_cancelled_by_its_owner_or_an_operator() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    for holder in [&me, &operator] {
        let run = begun(&me, "sleep 25").await;
        let place = format!("/api/v1/runs/{}", run["execution_id"].as_str().unwrap());
        running(&me, &place).await;
        let ended = holder.send("POST", &format!("{place}/cancel"), "").await;
        assert_eq!((ended.status, &ended.json()["status"]), (200, &json!("cancelled")));
    }
}

/// Waits until the journal has a run.
async fn running(holder: &Holder, place: &str) {
    let id = place.rsplit('/').next().unwrap();
    for _ in 0..500 {
        let listed = holder.get("/api/v1/runs").await;
        if listed.body.contains(id) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{place} never ran");
}

#[tokio::test]
async fn a_session_is_stopped_and_what_runs_in_it_dies() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let run = begun(&me, "sleep 25").await;
    let place = format!("/api/v1/runs/{}", run["execution_id"].as_str().unwrap());
    running(&me, &place).await;
    let session = format!("/api/v1/sessions/{}", run["session_id"].as_str().unwrap());
    let stopped = me.send("DELETE", &session, "").await;
    assert_eq!((stopped.status, &stopped.json()["state"]), (202, &json!("stopping")));
    let ended = me.get(&format!("{place}?wait=20")).await.json();
    assert_eq!(ended["status"], "cancelled", "{ended}");
    for _ in 0..500 {
        if me.get(&session).await.json()["state"] == "closed" {
            let again = me.send("DELETE", &session, "").await;
            assert_eq!((again.status, &again.json()["state"]), (200, &json!("closed")));
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never closed");
}

#[tokio::test]
async fn a_client_that_leaves_before_it_hears_of_its_run_leaves_nothing_running() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let body = json!({ "language": "shell", "code": "sleep 25" }).to_string();
    let length = body.len().to_string();
    let headers = [
        ("Authorization", me.bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Content-Length", &length),
    ];
    let text = head("POST", "/api/v1/runs", &headers) + &body;
    let mut stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, text.as_bytes())
        .await
        .unwrap();
    let status = async || me.get("/api/v1/runs").await.json()["items"][0]["status"].clone();
    let mut left = Some(stream);
    for _ in 0..1000 {
        match status().await.as_str() {
            Some("running") => drop(left.take()),
            Some("cancelled") => return,
            Some(other) => panic!("{other}"),
            None => {}
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it goes on");
}

#[tokio::test]
async fn a_list_is_paged_and_every_row_comes_once() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(me.run("javascript", "1").await.json()["execution_id"].clone());
    }
    made.reverse();
    let mut seen = Vec::new();
    let mut path = "/api/v1/runs?limit=2".to_owned();
    loop {
        let page = me.get(&path).await.json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        seen.extend(items.iter().map(|item| item["execution_id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/runs?limit=2&cursor={next}");
    }
    assert_eq!(seen, made);
}

#[tokio::test]
async fn the_document_names_every_path_and_method_and_no_other() {
    let world = World::new().await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    let document = operator.get("/api/v1/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 22, "{:?}", paths.keys());
    for (path, described) in paths {
        for method in ["get", "post", "put", "patch", "delete"] {
            let path = path.replace("{id}", "wrong").replace("{path}", "x");
            // A stream has no end, so an invalid parameter is refused before it starts.
            let path = format!("{path}?after=x&wait=x&limit=x");
            let reply = operator.send(&method.to_uppercase(), &path, "").await;
            let known = described.get(method).is_some();
            assert_eq!(reply.status == 405, !known, "{method} {path} {reply:?}");
            assert_ne!((known, reply.status), (true, 404), "{method} {path}");
        }
    }
    // Every reference has its target.
    let text = document.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
}

#[tokio::test]
async fn what_the_client_says_of_its_trace_is_in_the_journal() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [
        ("Authorization", me.bearer.as_str()),
        ("traceparent", parent),
        ("User-Agent", "t/1"),
    ];
    let run = send(
        world.address,
        "POST",
        "/api/v1/runs",
        &headers,
        r#"{"language":"js","code":"1"}"#,
    )
    .await;
    let session = run.json()["session_id"].as_str().unwrap().parse().unwrap();
    let records = world.engine.store().session_records(session).await.unwrap();
    let started = records
        .iter()
        .find(|record| record.json.contains("execution_started"))
        .unwrap();
    let started: Value = serde_json::from_str(&started.json).unwrap();
    assert_eq!(started["client"], json!({ "name": "t/1", "traceparent": parent }));
}

#[tokio::test]
async fn numbers_of_runs_and_requests_are_counted() {
    let world = World::new().await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    operator.run("javascript", "1").await;
    operator.run("javascript", "throw new Error('no')").await;
    let text = operator.get("/metrics").await;
    assert!(
        text.header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    for line in [
        "ringfence_runs_total{status=\"completed\"} 1",
        "ringfence_runs_total{status=\"failed\"} 1",
        "ringfence_run_seconds_count 2",
        "ringfence_http_requests_total{route=\"/api/v1/runs\",status=\"200\"} 2",
        "ringfence_sessions_open 0",
    ] {
        assert!(text.body.contains(line), "{line}\n{}", text.body);
    }
    assert!(text.body.contains("ringfence_pool_hits_total") && text.body.ends_with("# EOF\n"));
}

#[tokio::test]
async fn bytes_that_are_no_request_are_answered_and_nobody_else_notices() {
    let world = World::new().await;
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\0",
        b"GET / HTTP/9.9\r\n\r\n",
    ] {
        let answer = exchange(world.address, bytes).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4") || answer.starts_with(b"HTTP/1.1 5"));
    }
    let me = world.holder("me", AccessScope::Agent).await;
    assert_eq!(me.get("/api/v1/runs").await.status, 200);
}

#[tokio::test]
async fn what_a_request_asks_for_and_cannot_have_is_its_own_fault() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let ask = |more: Value| {
        let mut body = json!({ "language": "shell", "code": "echo no" });
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        body.to_string()
    };
    let many: serde_json::Map<String, Value> = (0..10_001).map(|number| (format!("f{number}"), json!(""))).collect();
    for (more, status, code) in [
        (json!({ "files": many }), 400, "arguments.invalid"),
        (json!({ "files": { "a": "x", "a/b": "y" } }), 422, "files.in"),
    ] {
        let reply = me.send("POST", "/api/v1/runs", &ask(more)).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{reply:?}");
        assert!(reply.json()["hint"].is_string(), "{reply:?}");
    }
    let few = json!({ "sandbox_policy": { "proc": { "open_files": 3 } } });
    let reply = me.send("POST", "/api/v1/runs", &ask(few)).await;
    let body = reply.json();
    assert_eq!(
        (&body["status"], &body["error"]["code"], &body["error"]["rule"]),
        (&json!("refused"), &json!("policy.bounds"), &json!("proc.open_files")),
        "{reply:?}"
    );
    let engines = json!({ "sandbox_policy": { "proc": { "programs": "none" } } });
    let reply = me.send("POST", "/api/v1/runs", &ask(engines)).await;
    let body = reply.json();
    assert_eq!(
        (&body["status"], &body["error"]["code"], &body["error"]["rule"]),
        (&json!("refused"), &json!("policy.programs"), &json!("proc.programs")),
        "{reply:?}"
    );
    let slow = json!({ "code": "while :; do :; done", "sandbox_policy": { "proc": { "cpu_time": "50ms" } } });
    let body = me.send("POST", "/api/v1/runs", &ask(slow)).await.json();
    let hint = body["error"]["hint"].as_str().unwrap();
    assert!(
        hint.contains("`proc.cpu_time` in `sandbox_policy`") && !hint.contains("--set"),
        "{body}"
    );
}

#[tokio::test]
async fn times_in_lists_have_one_width() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    assert_eq!(me.run("js", "1").await.status, 200);
    let run = me.get("/api/v1/runs").await.json()["items"][0].clone();
    let session = me.get("/api/v1/sessions").await.json()["items"][0].clone();
    for time in [&run["started"], &run["ended"], &session["created"], &session["used"]] {
        let text = time.as_str().unwrap();
        assert!(text.len() == 27 && text.ends_with('Z'), "{text}");
    }
}
