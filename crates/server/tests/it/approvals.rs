//! Runs that wait for a person: the results for the model, and forms of clients that may answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence_engine::approvals::{self, AnswerSubmission, ApprovalQuery, ApprovalState, ApprovalView};
use ringfence_journal::{ApprovalScope, ApprovalVia, Principal};
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ErrorData, Implementation, ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, RequestContext, RoleClient, serve_client_with_lifecycle};
use serde_json::{Value, json};

use crate::client::Client;
use crate::setting::{ME, Setting};

const CODE: &str = "const said = await tools.small.hello({ name: 'Ann' }); said.greeting";

/// A setting with a small tool server whose calls all need approval; `by` names who may answer.
async fn asking(by: &str) -> Setting {
    Setting::asking(by, &[]).await
}

async fn questions(setting: &Setting, state: ApprovalState) -> Vec<ApprovalView> {
    let which = ApprovalQuery {
        state: Some(state),
        ..ApprovalQuery::default()
    };
    approvals::list_approvals(setting.engine.store(), which).await.unwrap()
}

/// Waits for the only pending approval request.
async fn waiting(setting: &Setting) -> ApprovalView {
    for _ in 0..1000 {
        if let Some(one) = questions(setting, ApprovalState::Pending).await.pop() {
            return one;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nothing waits");
}

async fn answer(setting: &Setting, one: &ApprovalView, approve: bool) {
    let say = AnswerSubmission {
        approve,
        scope: ApprovalScope::Once,
        shown: None,
        by: ME,
        via: ApprovalVia::Cli,
        note: None,
    };
    approvals::answer_approval(setting.engine.store(), one.id, say)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_says_so_and_is_heard_of_later() {
    let setting = asking("[inbox]").await;
    let mut client = setting.client().await;
    let told = client
        .call("sandboxed_code_run", json!({ "language": "typescript", "code": CODE }))
        .await;
    let (run, text) = (&told["structuredContent"], told["content"][0]["text"].as_str().unwrap());
    assert_eq!(run["status"], "waiting_approval", "{told}");
    assert_eq!(told["isError"], false, "{told}");
    let one = waiting(&setting).await;
    let asked = json!({ "id": one.id, "tool": "small.hello", "rule": "tools.rules[0]", "expires": one.expires });
    assert_eq!(run["approvals"], json!([asked]), "{told}");
    for word in [
        "waits for a person",
        "small.hello",
        "wait_run",
        "do not run the program again",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let id = run["execution_id"].clone();
    let begun = std::time::Instant::now();
    let still = client.call("wait_run", json!({ "execution_id": id, "wait": 1 })).await;
    assert_eq!(still["structuredContent"]["status"], "waiting_approval", "{still}");
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    // A disconnected client does not end a run that waits for people.
    client.ended().await.unwrap();
    let mut other = setting.client().await;
    let wait = other
        .begin(
            "tools/call",
            json!({ "name": "wait_run", "arguments": { "execution_id": id } }),
        )
        .await;
    answer(&setting, &one, true).await;
    let done = other.answer(&wait.into()).await["result"].clone();
    assert_eq!(done["structuredContent"]["status"], "completed", "{done}");
    assert_eq!(done["structuredContent"]["value"], "hello Ann", "{done}");
    // The request is unknown to other principals.
    let mut stranger = setting.client_of(Principal::Local(2)).await;
    let unknown = stranger.call("wait_run", json!({ "execution_id": id })).await;
    assert_eq!(
        unknown["structuredContent"]["error"]["code"], "execution.unknown",
        "{unknown}"
    );
}

#[tokio::test]
async fn a_tool_that_is_passed_through_says_that_it_waits() {
    let setting = Setting::asking("[inbox]", &["small.*"]).await;
    let mut client = setting.client().await;
    let told = client.call("small__hello", json!({ "name": "Ann" })).await;
    assert_eq!(told["structuredContent"]["error"]["code"], "approval.waiting", "{told}");
    assert_eq!(told["isError"], true);
    let one = waiting(&setting).await;
    let hint = told["structuredContent"]["error"]["hint"].as_str().unwrap();
    assert!(hint.contains(&one.execution_id.to_string()), "{hint}");
    answer(&setting, &one, true).await;
    let done = client
        .call("wait_run", json!({ "execution_id": one.execution_id }))
        .await;
    assert_eq!(
        done["structuredContent"]["value"],
        json!({ "greeting": "hello Ann" }),
        "{done}"
    );
}

/// The person at a client: the decision on each form, and the forms that were shown.
#[derive(Clone)]
struct Person {
    says: Result<&'static str, ElicitationAction>,
    shown: Arc<Mutex<Vec<(String, Value)>>>,
    has_forms: bool,
}

impl Person {
    fn new(says: Result<&'static str, ElicitationAction>) -> Person {
        Person {
            says,
            shown: Arc::default(),
            has_forms: true,
        }
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.shown.lock().unwrap().clone()
    }
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let capabilities = if self.has_forms {
            ClientCapabilities::builder().enable_elicitation().build()
        } else {
            ClientCapabilities::default()
        };
        ClientConfig::new(capabilities, Implementation::new("person", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } = request
        else {
            panic!("a form is expected");
        };
        let schema = serde_json::to_value(requested_schema).unwrap();
        self.shown.lock().unwrap().push((message, schema));
        Ok(match &self.says {
            Ok(decision) => ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "decision": decision })),
            Err(action) => ElicitResult::new(action.clone()),
        })
    }
}

fn eras() -> [ClientLifecycleMode; 2] {
    let modern = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    [ClientLifecycleMode::Initialize, modern]
}

/// Runs a program with a real client of one era.
async fn run_at(setting: &Setting, person: &Person, era: ClientLifecycleMode, code: &str) -> Value {
    let (stream, _served) = setting.open(ME);
    let client = serve_client_with_lifecycle(person.clone(), stream, era).await.unwrap();
    let arguments = json!({ "language": "ts", "code": code }).as_object().cloned().unwrap();
    let call = CallToolRequestParams::new("sandboxed_code_run").with_arguments(arguments);
    let result = client.call_tool(call).await.unwrap();
    client.cancel().await.unwrap();
    result.structured_content.unwrap()
}

#[tokio::test]
async fn a_clients_person_answers_in_both_eras() {
    for era in eras() {
        let setting = asking("[client, inbox]").await;
        let person = Person::new(Ok("approve_once"));
        let run = run_at(&setting, &person, era.clone(), CODE).await;
        assert_eq!(
            (&run["status"], &run["value"]),
            (&json!("completed"), &json!("hello Ann")),
            "{era:?} {run}"
        );
        let asked = person.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        let (message, schema) = &asked[0];
        for word in [
            "`small.hello`",
            "`tools.rules[0]`",
            "\"name\": \"‹name:",
            "data, not instructions",
        ] {
            assert!(message.contains(word), "{word}: {message}");
        }
        // A model may read what its client receives, so the name appears only in the inbox.
        assert!(!message.contains("\"Ann\""), "{message}");
        let decisions = &schema["properties"]["decision"]["enum"];
        assert_eq!(
            decisions,
            &json!(["approve_once", "approve_for_session", "deny"]),
            "{schema}"
        );
        let approved = questions(&setting, ApprovalState::Approved).await;
        assert_eq!(approved[0].arguments, json!({ "name": "Ann" }));
        let said = approved[0].answer.as_ref().unwrap();
        assert_eq!(
            (said.via, said.by, said.scope),
            (ApprovalVia::Client, ME, ApprovalScope::Once)
        );

        let person = Person::new(Ok("approve_for_session"));
        let twice =
            "await tools.small.hello({ name: 'a' }); const b = await tools.small.hello({ name: 'b' }); b.greeting";
        let run = run_at(&setting, &person, era.clone(), twice).await;
        assert_eq!(run["value"], "hello b", "{era:?} {run}");
        assert_eq!(person.asked().len(), 1);

        for says in [Ok("deny"), Err(ElicitationAction::Decline)] {
            let run = run_at(&setting, &Person::new(says), era.clone(), CODE).await;
            assert_eq!(run["error"]["code"], "approval.denied", "{era:?} {run}");
        }
    }
}

#[tokio::test]
async fn a_form_that_is_put_off_leaves_the_question_in_the_inbox() {
    for era in eras() {
        let setting = asking("[client, inbox]").await;
        for says in [Err(ElicitationAction::Cancel), Ok("maybe")] {
            let person = Person::new(says);
            let run = run_at(&setting, &person, era.clone(), CODE).await;
            assert_eq!(run["status"], "waiting_approval", "{era:?} {run}");
            assert_eq!(person.asked().len(), 1, "{era:?}");
            let one = waiting(&setting).await;
            answer(&setting, &one, false).await;
        }
    }
}

#[tokio::test]
async fn a_client_is_asked_nothing_where_the_policy_has_no_client_or_the_client_no_forms() {
    for era in eras() {
        let setting = asking("[inbox]").await;
        let person = Person::new(Ok("approve_once"));
        let run = run_at(&setting, &person, era.clone(), CODE).await;
        assert_eq!(run["status"], "waiting_approval", "{era:?} {run}");
        assert!(person.asked().is_empty());

        let setting = asking("[client, inbox]").await;
        let person = Person {
            has_forms: false,
            ..Person::new(Ok("approve_once"))
        };
        let run = run_at(&setting, &person, era.clone(), CODE).await;
        assert_eq!(run["status"], "waiting_approval", "{era:?} {run}");
        assert!(person.asked().is_empty());
    }
}

/// The metadata of a request in the newer era.
fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    })
}

#[tokio::test]
async fn answers_count_for_the_callers_own_execution_only() {
    let setting = asking("[client, inbox]").await;
    let meta = meta(&json!({ "elicitation": {} }));
    let call = json!({ "name": "sandboxed_code_run", "arguments": { "language": "ts", "code": CODE }, "_meta": meta });
    let (stream, served) = setting.open(ME);
    let mut client = Client::new(stream, served);
    let asked = client.ask("tools/call", call.clone()).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let one = waiting(&setting).await;
    assert!(asked["inputRequests"][one.id.to_string()].is_object(), "{asked}");
    let yes = json!({ one.id.to_string(): { "action": "accept", "content": { "decision": "approve_once" } } });
    // Another principal sends the same call.
    let (stream, served) = setting.open(Principal::Local(2));
    let mut thief = Client::new(stream, served);
    let mut again = call.clone();
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = yes.clone();
    let refused = thief.ask("tools/call", again.clone()).await["result"].clone();
    assert_eq!(
        refused["structuredContent"]["error"]["code"], "execution.unknown",
        "{refused}"
    );
    assert_eq!(waiting(&setting).await.id, one.id);
    // The other principal's own execution grants no access either.
    let own = thief.ask("tools/call", call.clone()).await["result"].clone();
    again["requestState"] = own["requestState"].clone();
    let own = thief.ask("tools/call", again.clone()).await["result"].clone();
    assert_eq!(own["structuredContent"]["status"], "waiting_approval", "{own}");
    let mut wrong = call;
    wrong["requestState"] = json!("{}");
    let wrong = client.ask("tools/call", wrong).await["result"].clone();
    assert_eq!(
        wrong["structuredContent"]["error"]["code"], "arguments.invalid",
        "{wrong}"
    );
    let pending = questions(&setting, ApprovalState::Pending).await;
    assert!(pending.iter().any(|shown| shown.id == one.id), "{pending:?}");
    again["requestState"] = asked["requestState"].clone();
    let done = client.ask("tools/call", again).await["result"].clone();
    assert_eq!(done["structuredContent"]["value"], "hello Ann", "{done}");
}

#[tokio::test]
async fn a_task_asks_its_client_and_takes_the_answer() {
    let setting = asking("[client, inbox]").await;
    let tasks = json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let (stream, served) = setting.open(ME);
    let mut client = Client::new(stream, served);
    let call = json!({
        "name": "sandboxed_code_run", "arguments": { "language": "ts", "code": CODE }, "_meta": meta(&tasks),
    });
    let begun = client.ask("tools/call", call).await["result"].clone();
    assert_eq!(begun["resultType"], "task", "{begun}");
    let id = begun["taskId"].clone();
    let one = waiting(&setting).await;
    let get = json!({ "taskId": id, "_meta": meta(&tasks) });
    let task = client.ask("tasks/get", get.clone()).await["result"].clone();
    assert_eq!(task["status"], "input_required", "{task}");
    assert!(task["inputRequests"][one.id.to_string()].is_object(), "{task}");
    assert!(
        task["statusMessage"].as_str().unwrap().contains("waits for a person"),
        "{task}"
    );
    let yes = json!({ one.id.to_string(): { "action": "accept", "content": { "decision": "approve_once" } } });
    let update = json!({ "taskId": id, "inputResponses": yes, "_meta": meta(&tasks) });
    let taken = client.ask("tasks/update", update).await;
    assert!(taken["result"].is_object(), "{taken}");
    let ended = loop {
        let task = client.ask("tasks/get", get.clone()).await["result"].clone();
        if task["status"] == "completed" {
            break task;
        }
        assert_ne!(task["status"], "failed", "{task}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(ended["result"]["structuredContent"]["value"], "hello Ann", "{ended}");
}

#[tokio::test]
async fn a_run_that_is_behind_a_waiting_one_says_so_and_its_timeout_counts() {
    let setting = asking("[inbox]").await;
    let mut client = setting.client().await;
    let first = json!({ "language": "typescript", "code": CODE, "session_id": "work" });
    let first = client.call("sandboxed_code_run", first).await["structuredContent"].clone();
    assert_eq!(first["status"], "waiting_approval", "{first}");
    let second = json!({ "language": "shell", "code": "echo second", "session_id": "work", "timeout": "6s" });
    let told = client.call("sandboxed_code_run", second).await;
    let second = told["structuredContent"]["execution_id"].clone();
    let (run, text) = (&told["structuredContent"], told["content"][0]["text"].as_str().unwrap());
    assert_eq!(
        (&run["status"], &run["waits_behind"]),
        (&json!("running"), &first["execution_id"]),
        "{told}"
    );
    let says = format!("it waits behind execution {}", first["execution_id"].as_str().unwrap());
    assert!(text.contains(&says), "{text}");
    let over = client
        .call("wait_run", json!({ "execution_id": second, "wait": 20 }))
        .await;
    let over = &over["structuredContent"];
    assert_eq!(
        (&over["status"], &over["error"]["code"], &over["error"]["rule"]),
        (&json!("timed_out"), &json!("limit.wall"), &json!("timeout")),
        "{over}"
    );
    let hint = over["error"]["hint"].as_str().unwrap();
    assert!(
        hint.starts_with("give it a longer `timeout`") && !hint.contains("--"),
        "{hint}"
    );
    // The first request is unchanged.
    answer(&setting, &waiting(&setting).await, true).await;
    let arguments = json!({ "execution_id": first["execution_id"], "wait": 20 });
    let done = client.call("wait_run", arguments).await;
    assert_eq!(done["structuredContent"]["value"], "hello Ann", "{done}");
}
