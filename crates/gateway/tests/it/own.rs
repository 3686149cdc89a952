//! Tests of a built-in server beside the configured ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::BoxFuture;
use ringfence_catalog::{Catalog, ServerHints, ServerListing, Tool, ToolDefinition};
use ringfence_gateway::{ApprovalOutcome, BuiltinAnswer, BuiltinCall, BuiltinServer, PassError, RequestRefusal};
use ringfence_journal::{ApprovalScope, CallOutcome};
use serde_json::json;

use crate::book::{Pass, Road};
use crate::harness::{bench, entry};

fn tool(edition: u32) -> Arc<Tool> {
    let definition = ToolDefinition {
        name: "work".to_owned(),
        title: None,
        description: String::new(),
        input: json!({ "type": "object" }),
        output: None,
        hints: ServerHints::default(),
        tags: vec![edition.to_string()],
    };
    let catalog = Catalog::new([ServerListing {
        server: "skills".to_owned(),
        description: String::new(),
        tools: vec![definition],
    }]);
    Arc::new(catalog.tools()[0].clone())
}

/// Adds a built-in tool of this edition; its calls end at once, or when they are told to.
fn with_own(pass: Arc<Pass>, edition: &Arc<AtomicU32>, waits: bool) -> Arc<Pass> {
    let edition = Arc::clone(edition);
    let find = move |_, _| -> BoxFuture<'static, _> {
        let tool = tool(edition.load(Ordering::SeqCst));
        Box::pin(async move { Ok(tool) })
    };
    let call = move |call: BuiltinCall| -> BoxFuture<'static, BuiltinAnswer> {
        Box::pin(async move {
            if waits {
                let _ = call.cancelled.await;
                return Err((CallOutcome::Unknown, RequestRefusal::new("skill.gone", "told to end")));
            }
            Ok("1".to_owned())
        })
    };
    let pass = Arc::into_inner(pass).unwrap();
    Arc::new(pass.with_builtin(BuiltinServer::new("skills", find, call)))
}

fn spawn(
    pass: &Arc<Pass>,
    number: u32,
    name: (&'static str, &'static str),
    body: &'static str,
) -> tokio::task::JoinHandle<Result<String, PassError>> {
    let pass = Arc::clone(pass);
    tokio::spawn(async move { pass.call(number, name.0, name.1, body, b"").await })
}

#[track_caller]
fn code(stopped: Result<String, PassError>) -> String {
    match stopped {
        Err(PassError::Refused(told)) => told.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_program_that_finished_has_its_tools_seen_out_and_not_our_own() {
    let bench = bench(&json!({ "one": entry("echo") }));
    let road = Road::new(
        &bench,
        "tools: { default: allow, rules: [{ ask: skills.work, where: { ask: { equals: true } } }] }",
    );
    let (desk, mut inbox) = road.desk();
    let pass = with_own(road.pass(desk), &Arc::default(), true);
    let asked = spawn(&pass, 1, ("skills", "work"), r#"{"ask":true}"#);
    let (_, _answer) = inbox.next().await;
    let ours = spawn(&pass, 2, ("skills", "work"), "{}");
    let theirs = spawn(&pass, 3, ("one", "slow"), r#"{"ms":300}"#);
    while road.book.kinds().iter().filter(|kind| **kind == "call_started").count() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    pass.finish();
    assert_eq!(code(ours.await.unwrap()), "skill.gone");
    assert_eq!(code(asked.await.unwrap()), "approval.withdrawn");
    theirs.await.unwrap().unwrap();
    // A later call ends as well.
    assert_eq!(code(pass.call(4, "skills", "work", "{}", b"").await), "skill.gone");
    pass.close().await.unwrap();
}

#[tokio::test]
async fn a_yes_for_the_session_holds_for_the_definition_that_was_shown() {
    let bench = bench(&json!({}));
    let road = Road::new(&bench, "tools: { rules: [{ ask: skills.work }] }");
    let (desk, mut inbox) = road.desk();
    let edition = Arc::<AtomicU32>::default();
    let pass = with_own(road.pass(desk), &edition, false);
    let first = spawn(&pass, 1, ("skills", "work"), "{}");
    let yes = ApprovalOutcome::Approved {
        scope: ApprovalScope::Session,
    };
    inbox.next().await.1.send(yes).unwrap();
    assert_eq!(first.await.unwrap().unwrap(), "1");
    pass.call(2, "skills", "work", "{}", b"").await.unwrap();
    edition.store(2, Ordering::SeqCst);
    let other = spawn(&pass, 3, ("skills", "work"), "{}");
    inbox
        .next()
        .await
        .1
        .send(ApprovalOutcome::Denied { note: None })
        .unwrap();
    assert_eq!(code(other.await.unwrap()), "approval.denied");
    assert_eq!(pass.close().await.unwrap().listed.len(), 3);
}
