//! Approval requests through the API: who sees them, who answers them, and the responses.

use std::time::Duration;

use ringfence_engine::storage::AccessScope;
use serde_json::{Value, json};

use crate::world::{Holder, World};

const CODE: &str = "await tools.mail.send({ to: 'ann' })";

/// Waits for the only pending approval request.
async fn waiting(operator: &Holder) -> Value {
    for _ in 0..1000 {
        let page = operator.get("/api/v1/approvals?state=pending").await.json();
        if let Some(one) = page["items"].get(0) {
            return one.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nothing waits");
}

fn at(one: &Value, what: &str) -> String {
    format!("/api/v1/approvals/{}{what}", one["id"].as_str().unwrap())
}

#[tokio::test]
async fn an_operator_answers_and_an_agent_never_does() {
    let world = World::asking("").await;
    let me = world.holder("me", AccessScope::Agent).await;
    let viewer = world.holder("viewer", AccessScope::Viewer).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    let run = me.run("typescript", CODE).await;
    assert_eq!(run.status, 202, "{run:?}");
    let place = run.header("location").unwrap().to_owned();
    let told = run.json();
    assert_eq!(told["status"], "waiting_approval", "{told}");
    assert_eq!(told["approvals"][0]["tool"], "mail.send", "{told}");
    let one = waiting(&operator).await;
    assert_eq!(
        (&one["arguments"], &one["state"], &one["execution_id"]),
        (&json!({ "to": "ann" }), &json!("pending"), &told["execution_id"]),
        "{one}"
    );
    // A single request includes the code that asks.
    let mut single = operator.get(&at(&one, "")).await.json();
    let source = single.as_object_mut().unwrap().remove("source");
    assert_eq!(source, Some(json!({ "text": CODE, "is_cut": false })));
    assert_eq!(single, one);
    assert!(one["code"].is_string(), "{one}");

    for holder in [&me, &viewer] {
        for path in ["/api/v1/approvals".to_owned(), at(&one, "")] {
            let refused = holder.get(&path).await;
            assert_eq!((refused.status, refused.code().as_str()), (403, "auth.scope"), "{path}");
        }
        for word in ["/approve", "/deny"] {
            let refused = holder.send("POST", &at(&one, word), "{}").await;
            assert_eq!((refused.status, refused.code().as_str()), (403, "auth.scope"), "{word}");
        }
    }

    let body = json!({ "scope": "once", "note": "fine", "shown": one["shown"] }).to_string();
    let taken = operator.send("POST", &at(&one, "/approve"), &body).await;
    assert_eq!(
        (taken.status, &taken.json()["again"]),
        (200, &json!(false)),
        "{taken:?}"
    );
    let again = operator.send("POST", &at(&one, "/approve"), "").await;
    assert_eq!((again.status, &again.json()["again"]), (200, &json!(true)), "{again:?}");
    let other = operator.send("POST", &at(&one, "/deny"), "").await;
    assert_eq!((other.status, other.code().as_str()), (409, "approval.conflict"));
    let done = me.get(&format!("{place}?wait=30")).await.json();
    assert_eq!(
        (&done["status"], &done["value"]),
        (&json!("completed"), &json!("sent to ann")),
        "{done}"
    );
    let said = operator.get(&at(&one, "")).await.json();
    assert_eq!(
        (&said["state"], &said["answer"]["via"], &said["answer"]["note"]),
        (&json!("approved"), &json!("api"), &json!("fine"))
    );
    assert_eq!(said["answer"]["by"], format!("token:{}", operator.id), "{said}");
}

#[tokio::test]
async fn what_is_wrong_with_an_answer_is_said() {
    let world = World::asking("approvals: { timeout: 8s }").await;
    let me = world.holder("me", AccessScope::Agent).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    let place = me.run("typescript", CODE).await.header("location").unwrap().to_owned();
    let one = waiting(&operator).await;
    let other = json!({ "shown": "0".repeat(64) }).to_string();
    let nobody = "/api/v1/approvals/a_00000000000000000000000000".to_owned();
    let cases = [
        (at(&one, "/approve"), other.as_str(), 412, "approval.changed"),
        (at(&one, "/approve"), r#"{"shown":"x"}"#, 400, "api.body"),
        (at(&one, "/approve"), r#"{"scope":"for ever"}"#, 400, "api.body"),
        (at(&one, "/approve"), r#"{"where":{}}"#, 400, "api.body"),
        (
            at(&one, "/approve"),
            r#"{"scope":"always","where":{"to":{"equals":"bob"}}}"#,
            422,
            "approval.rule",
        ),
        (at(&one, "/preview"), r#"{"scope":"always"}"#, 400, "api.body"),
        (at(&one, "/approve"), r#"{"approve":true}"#, 400, "api.body"),
        (at(&one, "/deny"), r#"{"scope":"once"}"#, 400, "api.body"),
        (format!("{nobody}/approve"), "{}", 404, "approval.unknown"),
        ("/api/v1/approvals/letters/deny".to_owned(), "{}", 400, "api.id"),
    ];
    for (path, body, status, code) in cases {
        let reply = operator.send("POST", &path, body).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{path} {body}");
    }
    let wrong = operator.get("/api/v1/approvals?state=asleep").await;
    assert_eq!((wrong.status, wrong.code().as_str()), (400, "api.query"));
    let done = me.get(&format!("{place}?wait=30")).await.json();
    assert_eq!(done["error"]["code"], "approval.timeout", "{done}");
    let late = operator.send("POST", &at(&one, "/approve"), "").await;
    assert_eq!((late.status, late.code().as_str()), (410, "approval.expired"));

    // The run that asked has ended.
    let place = me.run("typescript", CODE).await.header("location").unwrap().to_owned();
    let one = waiting(&operator).await;
    assert_eq!(me.send("POST", &format!("{place}/cancel"), "").await.status, 200);
    let late = operator.send("POST", &at(&one, "/approve"), "").await;
    assert_eq!(late.status, 410, "{late:?}");
}

#[tokio::test]
async fn of_many_who_answer_at_once_one_does() {
    let world = World::asking("").await;
    let me = world.holder("me", AccessScope::Agent).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    me.run("typescript", CODE).await;
    let one = waiting(&operator).await;
    let answers = (0..8).map(|number| {
        let (operator, path) = (
            operator.clone(),
            at(&one, if number % 2 == 0 { "/approve" } else { "/deny" }),
        );
        tokio::spawn(async move { operator.send("POST", &path, "").await })
    });
    let mut first = 0;
    for answer in answers.collect::<Vec<_>>() {
        let reply = answer.await.unwrap();
        match reply.status {
            200 => first += usize::from(reply.json()["again"] == false),
            409 => assert_eq!(reply.code(), "approval.conflict"),
            _ => panic!("{reply:?}"),
        }
    }
    assert_eq!(first, 1);
}

#[tokio::test]
async fn a_yes_for_good_is_shown_first_and_asked_no_more() {
    let world = World::asking("").await;
    let me = world.holder("me", AccessScope::Agent).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    me.run("typescript", CODE).await;
    let one = waiting(&operator).await;
    assert_eq!(me.send("POST", &at(&one, "/preview"), "").await.status, 403);
    let shown = operator.send("POST", &at(&one, "/preview"), "").await;
    assert_eq!(shown.status, 200, "{shown:?}");
    let shown = shown.json();
    assert_eq!(shown["rule"]["where"], json!({ "to": { "equals": "ann" } }), "{shown}");
    assert!(!shown["changes"].as_array().unwrap().is_empty(), "{shown}");
    assert_eq!(waiting(&operator).await["id"], one["id"]);
    let taken = operator
        .send("POST", &at(&one, "/approve"), r#"{"scope":"always"}"#)
        .await;
    assert_eq!(taken.status, 200, "{taken:?}");
    assert_eq!(taken.json()["approval"]["answer"]["scope"], "always", "{taken:?}");
    let again = me.run("typescript", CODE).await;
    assert_eq!(
        (again.status, &again.json()["value"]),
        (200, &json!("sent to ann")),
        "{again:?}"
    );
    let other = me.run("typescript", &CODE.replace("ann", "bob")).await;
    assert_eq!(other.json()["status"], "waiting_approval", "{other:?}");
}
