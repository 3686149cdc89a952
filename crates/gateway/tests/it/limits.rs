//! Tests of rate limits: by tool, server, session, and all sessions of one principal.

use std::sync::Arc;

use ringfence_gateway::{ApprovalPort, PassError, Tenants};
use ringfence_journal::Principal;
use serde_json::json;

use crate::book::Road;
use crate::harness::{bench, entry};

/// Returns the rule that refuses a call, if one does.
async fn full(road: &Road, number: u32, server: &str, tool: &str) -> Option<String> {
    let body = if tool == "echo" { r#"{"text":"hi"}"# } else { "{}" };
    match road
        .pass(ApprovalPort::closed())
        .call(number, server, tool, body, b"")
        .await
    {
        Ok(_) => None,
        Err(PassError::Refused(told)) if told.code == "limit.rate" => {
            assert!(told.retry_after_ms.is_some_and(|wait| wait > 0), "{told:?}");
            told.rule
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_limit_counts_what_it_is_about() {
    let bench = bench(&json!({"one": entry("echo"), "two": entry("echo")}));
    let road = Road::new(
        &bench,
        "tools: { default: allow, limits: { tool: 1/h, server: 2/h, session: 3/h } }",
    );
    let calls = [
        ("one", "echo", None),
        ("one", "echo", Some("tools.limits.tool")),
        ("one", "structured", None),
        ("one", "env", Some("tools.limits.server")),
        ("two", "echo", None),
        ("two", "structured", Some("tools.limits.session")),
    ];
    for (number, (server, tool, rule)) in (1..).zip(calls) {
        let refused = full(&road, number, server, tool).await;
        assert_eq!(refused.as_deref(), rule, "call {number}");
    }
}

#[tokio::test]
async fn sessions_of_one_principal_share_its_limit() {
    let bench = bench(&json!({"one": entry("echo")}));
    let tenants = Tenants::default();
    let road = |uid: u32| {
        let mut road = Road::new(&bench, "tools: { default: allow, limits: { tenant: 2/h } }");
        road.past = Arc::new(tenants.new_session(Principal::Local(uid)));
        road
    };
    let (first, second, other) = (road(1), road(1), road(2));
    assert_eq!(full(&first, 1, "one", "echo").await, None);
    assert_eq!(full(&second, 1, "one", "echo").await, None);
    let rule = Some("tools.limits.tenant".to_owned());
    assert_eq!(full(&first, 2, "one", "echo").await, rule);
    assert_eq!(full(&second, 2, "one", "echo").await, rule);
    assert_eq!(full(&other, 1, "one", "echo").await, None);
}

#[tokio::test]
async fn what_a_server_says_of_its_tool_decides() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(
        &bench,
        "tools: { default: allow, rules: [{ ask: '**', hint: destructive }] }",
    );
    assert_eq!(full(&road, 1, "one", "echo").await, None, "it says that it only reads");
    let silent = road
        .pass(ApprovalPort::closed())
        .call(2, "one", "structured", "{}", b"")
        .await;
    let Err(PassError::Refused(told)) = silent else {
        panic!("{silent:?}")
    };
    assert_eq!(
        (told.code.as_str(), told.rule.as_deref()),
        ("approval.needed", Some("tools.rules[0]"))
    );
}
