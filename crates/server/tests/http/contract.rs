//! Checks the JSON API against its own document with curl: every path and method, with requests that the document allows and with
//! all kinds that it does not.

mod cases;
mod curl;
mod schema;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use jsonschema::Validator;
use ringfence_engine::storage::AccessScope;
use serde_json::{Value, json};

use self::cases::{Operation, operations};
use self::curl::{Request, Response};
use crate::world::{Holder, World};

/// Workspaces are kept, so that there is one to remove; every letter needs an approval.
const MORE: &str =
    "fs: { mounts: [{ path: /workspace, access: rw, quota: 8MiB, keep: true }] }\napprovals: { timeout: 5m }";

/// Refusals of requests that the document allows, because of the state: a text may be no valid cursor, id or digest, and an
/// answer is accepted once.
const ALLOWED_REFUSALS: &[&str] = &[
    "delete /api/v1/skills/{id} session.unknown",
    "delete /api/v1/skills/{id} skill.unknown",
    "get /api/v1/approvals api.cursor",
    "get /api/v1/approvals api.query",
    "get /api/v1/runs api.cursor",
    "get /api/v1/runs api.query",
    "get /api/v1/runs/{id}/events events.id",
    "get /api/v1/sessions api.cursor",
    "get /api/v1/skills arguments.invalid",
    "get /api/v1/skills session.name",
    "get /api/v1/skills/{id} session.name",
    "post /api/v1/approvals/{id}/approve api.body",
    "post /api/v1/approvals/{id}/approve approval.conflict",
    "post /api/v1/approvals/{id}/deny api.body",
    "post /api/v1/runs arguments.invalid",
    "post /api/v1/skills arguments.missing",
    "post /api/v1/skills session.unknown",
    "post /api/v1/skills skill.name",
    "put /api/v1/sessions/{id}/policy policy.ceiling",
];

/// Every error code that a client gets in this test.
const CODES: &[&str] = &[
    "api.body",
    "api.cursor",
    "api.id",
    "api.key",
    "api.path",
    "api.query",
    "approval.rule",
    "approval.unknown",
    "arguments.invalid",
    "arguments.missing",
    "arguments.unknown",
    "auth.form",
    "auth.invalid",
    "auth.missing",
    "events.id",
    "file.unknown",
    "http.method",
    "http.size",
    "job.size",
    "policy.parse",
    "run.unknown",
    "session.fixed",
    "session.name",
    "session.unknown",
    "skill.format",
    "skill.name",
    "skill.quota",
    "skill.unknown",
    "tool.arguments",
];

/// One resource of each kind.
struct Things {
    run: Value,
    long: Value,
    session: Value,
    kept: Value,
    questions: Vec<Value>,
    skill: String,
}

impl Things {
    async fn make(holder: &Holder, name: &str) -> Things {
        let code = "files.write('made.txt', 'made'); console.log('hi'); 42";
        let run = holder.run("javascript", code).await.json();
        assert_eq!(run["status"], "completed", "{run}");
        let kept = begun(holder, &format!("kept-{name}"), "echo kept > kept.txt", "45").await;
        assert_eq!(kept["status"], "completed", "{kept}");
        end(holder, &kept).await;
        let mut questions = Vec::new();
        for number in 0..3 {
            let code = format!("await tools.mail.send({{ to: '{name}-{number}' }})");
            let asks = holder.run("typescript", &code).await.json();
            questions.push(asks["approvals"][0]["id"].clone());
        }
        let skill = json!({ "name": format!("adds-{name}"), "description": "Adds.", "language": "typescript", "code": "export default 1" });
        let saved = holder.send("POST", "/api/v1/skills", &skill.to_string()).await;
        assert_eq!(saved.status, 200, "{saved:?}");
        Things {
            run: run["execution_id"].clone(),
            long: begun(holder, &format!("long-{name}"), "sleep 50", "0").await["execution_id"].clone(),
            session: begun(holder, &format!("open-{name}"), "true", "45").await["session_id"].clone(),
            kept: kept["session_id"].clone(),
            questions,
            skill: format!("adds-{name}"),
        }
    }

    /// The id for the path of an operation.
    fn id(&self, operation: &Operation<'_>) -> String {
        let question = |number: usize| &self.questions[number];
        let id = match (operation.method, operation.path) {
            (_, "/api/v1/runs/{id}/cancel") => &self.long,
            (_, "/api/v1/sessions/{id}/workspace") => &self.kept,
            (_, "/api/v1/approvals/{id}/approve") => question(0),
            (_, "/api/v1/approvals/{id}/deny") => question(1),
            (_, path) if path.starts_with("/api/v1/runs/") => &self.run,
            (_, path) if path.starts_with("/api/v1/sessions/") => &self.session,
            (_, path) if path.starts_with("/api/v1/approvals/") => question(2),
            _ => return self.skill.clone(),
        };
        id.as_str().unwrap().to_owned()
    }
}

/// Starts a shell script in a session of this name and waits for it.
async fn begun(holder: &Holder, session: &str, code: &str, wait: &str) -> Value {
    let body = json!({ "language": "shell", "code": code, "session_id": session }).to_string();
    holder
        .send("POST", &format!("/api/v1/runs?wait={wait}"), &body)
        .await
        .json()
}

/// Stops the session of a run, and waits until no process owns it.
async fn end(holder: &Holder, run: &Value) {
    let place = format!("/api/v1/sessions/{}", run["session_id"].as_str().unwrap());
    for _ in 0..500 {
        if holder.send("DELETE", &place, "").await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{place} never ended");
}

/// A minimal body of an operation, with sensible values where the schema does not restrict them.
fn body(operation: &Operation<'_>) -> Option<Value> {
    match (operation.method, operation.path) {
        ("post", "/api/v1/runs") => Some(json!({ "language": "javascript", "code": "1 + 1" })),
        ("post", "/api/v1/skills") => Some(
            json!({ "name": "adds", "description": "Adds.", "language": "typescript", "code": "export default 1" }),
        ),
        _ => operation.least(),
    }
}

async fn send(address: SocketAddr, requests: Vec<Request>) -> Vec<Response> {
    tokio::task::spawn_blocking(move || curl::send(address, &requests))
        .await
        .unwrap()
}

/// Checks responses against the document, and records what it saw.
struct Judge<'a> {
    document: &'a Value,
    validators: HashMap<String, Validator>,
    complaints: Vec<String>,
    codes: BTreeSet<String>,
}

impl Judge<'_> {
    /// Checks a response; returns the error code, if it has one.
    fn judge(&mut self, operation: &Operation<'_>, what: &str, response: &Response) -> Option<String> {
        let text = String::from_utf8_lossy(&response.body);
        let shown = format!(
            "{} {}: {what}: {} ({}, curl {}) {text:.300}",
            operation.method, operation.path, response.status, response.content_type, response.exit
        );
        let is_ended = response.exit == 0 || operation.is_stream() && response.exit == 28;
        if !is_ended || !(200..500).contains(&response.status) {
            self.complaints.push(format!("no proper answer: {shown}"));
            return None;
        }
        let described = &operation.described["responses"];
        let status = response.status.to_string();
        let is_error = response.status >= 400;
        let Some(documented) = described
            .get(&status)
            .or_else(|| described.get("default").filter(|_| is_error))
        else {
            self.complaints
                .push(format!("a status that the document has not: {shown}"));
            return None;
        };
        let kind = response.content_type.split(';').next().unwrap_or_default();
        let content = documented.get("content");
        let media = content.and_then(|content| content.get(kind).or_else(|| content.get("*/*")));
        match media.map(|media| &media["schema"]) {
            Some(schema) if kind == "application/json" && schema["type"] != "string" => {
                self.read(schema, response, &shown);
            }
            Some(_) => {}
            None if content.is_none() && response.body.is_empty() => {}
            None => self
                .complaints
                .push(format!("content that the document has not: {shown}")),
        }
        is_error.then(|| self.refusal(response, &shown))
    }

    fn read(&mut self, schema: &Value, response: &Response, shown: &str) {
        let Ok(value) = serde_json::from_slice::<Value>(&response.body) else {
            self.complaints.push(format!("no JSON: {shown}"));
            return;
        };
        let validator = self.validators.entry(schema.to_string());
        let validator = validator.or_insert_with(|| schema::validator(self.document, schema));
        for error in validator.iter_errors(&value).take(3) {
            let message = format!("{} at `{}`", error, error.instance_path());
            self.complaints
                .push(format!("not as the document says: {message:.300}: {shown}"));
        }
    }

    fn refusal(&mut self, response: &Response, shown: &str) -> String {
        let value: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let code = value["code"].as_str().unwrap_or_default().to_owned();
        let is_code = code
            .split_once('.')
            .is_some_and(|(kind, what)| !kind.is_empty() && !what.is_empty());
        let is_said = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty() && text.len() < 2_000);
        // A message that names the missing part needs no hint.
        let has_hint = value.get("hint").is_some_and(|hint| hint.is_null() || is_said(hint));
        if !is_code || !is_said(&value["message"]) || !has_hint {
            self.complaints
                .push(format!("not a code, a message and a hint: {shown}"));
        }
        self.codes.insert(code.clone());
        code
    }

    fn end(&self) {
        let all = self.complaints.join("\n");
        assert!(
            self.complaints.is_empty(),
            "{} complaints\n{all:.20000}",
            self.complaints.len()
        );
    }
}

fn judge(document: &Value) -> Judge<'_> {
    Judge {
        document,
        validators: HashMap::new(),
        complaints: Vec::new(),
        codes: BTreeSet::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_answers_what_its_document_says() {
    let world = World::asking(MORE).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    let document = operator.get("/api/v1/openapi.json").await.json();
    let things = Things::make(&operator, "valid").await;
    let mut all = operations(&document);
    // Operations that remove something come last.
    all.sort_by_key(|operation| operation.method == "delete");
    let mut judge = judge(&document);
    let mut refused = BTreeSet::new();
    for operation in &all {
        let requests = operation.valid(&operator.bearer, &things.id(operation), body(operation).as_ref());
        let responses = send(world.address, requests.clone()).await;
        assert!(
            responses.iter().any(|response| (200..300).contains(&response.status)),
            "{operation:?} never answers: {responses:?}"
        );
        for (request, response) in requests.iter().zip(&responses) {
            let what = format!(
                "{} {}",
                request.path,
                String::from_utf8_lossy(request.body.as_deref().unwrap_or_default())
            );
            let code = judge.judge(operation, &what, response);
            refused.extend(code.map(|code| format!("{} {} {code}", operation.method, operation.path)));
        }
    }
    judge.end();
    let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
    assert_eq!(refused, ALLOWED_REFUSALS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_wrong_with_a_request_is_said_in_one_shape() {
    let world = World::asking(MORE).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    let document = operator.get("/api/v1/openapi.json").await.json();
    let things = Things::make(&operator, "invalid").await;
    let mut judge = judge(&document);
    let mut all = operations(&document);
    all.sort_by_key(|operation| operation.method == "delete");
    for operation in &all {
        let wrong = operation.invalid(&operator.bearer, &things.id(operation), body(operation).as_ref());
        let responses = send(world.address, wrong.iter().map(|wrong| wrong.request.clone()).collect()).await;
        for (wrong, response) in wrong.iter().zip(&responses) {
            judge.judge(operation, &wrong.what, response);
            // A readable request without meaning may have another status than an unreadable one.
            let is_as_expected = |status| status == response.status || (status, response.status) == (400, 422);
            if wrong.status.is_some_and(|status| !is_as_expected(status)) {
                let text = String::from_utf8_lossy(&response.body);
                let (method, path, what) = (operation.method, operation.path, &wrong.what);
                let complaint = format!(
                    "{method} {path}: {what}: {} instead of {:?}: {text:.200}",
                    response.status, wrong.status
                );
                judge.complaints.push(complaint);
            }
        }
    }
    // The server still works.
    let after = operator.run("javascript", "1 + 1").await.json();
    assert_eq!(after["value"], 2, "{after}");
    judge.end();
    let codes: Vec<&str> = judge.codes.iter().map(String::as_str).collect();
    assert_eq!(codes, CODES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scope_that_is_too_small_is_refused_at_every_operation() {
    let world = World::asking(MORE).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    let document = operator.get("/api/v1/openapi.json").await.json();
    let things = Things::make(&operator, "scopes").await;
    let mut judge = judge(&document);
    for scope in [AccessScope::Viewer, AccessScope::Agent] {
        let holder = world.holder(&scope.to_string(), scope).await;
        for operation in &operations(&document) {
            let request = operation.request(&holder.bearer, &things.id(operation), body(operation).as_ref());
            let response = send(world.address, vec![request]).await.remove(0);
            let code = judge.judge(operation, &scope.to_string(), &response);
            let is_people = operation.path.starts_with("/api/v1/approvals");
            let is_rule = operation.path == "/api/v1/sessions/{id}/policy";
            let refused = match scope {
                AccessScope::Viewer => operation.method != "get" || is_people,
                AccessScope::Agent | AccessScope::Operator => is_people || is_rule,
            };
            assert_eq!(
                code.as_deref() == Some("auth.scope"),
                refused,
                "{scope} {operation:?} {response:?}"
            );
            // A resource of another principal is unknown to an agent, and nobody sees the skills of another.
            if operation.path.contains("{id}") && !refused {
                let is_missing = response.status == 404;
                let is_own = scope == AccessScope::Agent || operation.path.starts_with("/api/v1/skills");
                assert_eq!(
                    is_missing,
                    is_own,
                    "{scope} {} {}",
                    operation.path,
                    String::from_utf8_lossy(&response.body)
                );
            }
        }
    }
    judge.end();
}
