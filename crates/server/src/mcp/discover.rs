//! `search_tools`, `list_tools` and `describe_tools`: queries of the catalog, as far as the policy shows it.

use std::sync::Arc;

use ringfence_engine::ErrorReport;
use ringfence_journal::Principal;
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::{Value, json};

use super::arguments::CallArguments;
use super::fault::McpFault;
use super::{HandlerState, call_result, tools};

/// The kind of query to the catalog.
#[derive(Debug, Clone, Copy)]
pub(super) enum DiscoveryQuery {
    Search,
    List,
    Describe,
}

const DETAILS: &[(&str, &[&str])] = &[
    ("names", &["name"]),
    ("summary", &["short"]),
    ("signature", &["signatures"]),
    ("full", &["all", "detailed"]),
];
const LANGUAGES: &[(&str, &[&str])] = &[
    ("typescript", &["ts", "javascript", "js"]),
    ("python", &["py"]),
    ("json", &["schema", "jsonschema"]),
];

/// Answers a query with the policy's part of the catalog.
pub(super) async fn answer_discovery(
    shared: &HandlerState,
    who: Principal,
    question: DiscoveryQuery,
    given: Option<JsonObject>,
) -> Result<CallToolResult, McpFault> {
    let (body, session) = match question {
        DiscoveryQuery::Search => search_body(given)?,
        DiscoveryQuery::List => (
            Value::Object(CallArguments::new(given, tools::LIST_ARGUMENTS)?.into_rest()),
            None,
        ),
        DiscoveryQuery::Describe => describe_body(given)?,
    };
    let session = session
        .map(|called| shared.engine.sessions().find_open_session(who, &called))
        .transpose()?;
    #[expect(
        clippy::default_trait_access,
        reason = "the language of signatures is the catalog's to name"
    )]
    let discover = shared
        .engine
        .tools()
        .discover(who, session, Arc::clone(&shared.options.policy), Default::default());
    let body = body.to_string();
    let answered = match question {
        DiscoveryQuery::Search => discover.answer_search(&body).await,
        DiscoveryQuery::List => discover.answer_list(&body).await,
        DiscoveryQuery::Describe => discover.answer_describe(&body).await,
    };
    let answered = answered.map_err(McpFault::from)?;
    let object = serde_json::from_str(&answered).map_err(|error| McpFault {
        code: "tool.result".to_owned(),
        message: error.to_string(),
        hint: None,
        rule: None,
    })?;
    Ok(call_result::tools_result(object))
}

/// The query, and the session whose skills it includes.
fn search_body(given: Option<JsonObject>) -> Result<(Value, Option<String>), McpFault> {
    let mut given = CallArguments::new(given, tools::SEARCH_ARGUMENTS)?;
    let mut intents = given.take_texts("intents")?.unwrap_or_default();
    intents.extend(given.take_texts("query")?.unwrap_or_default());
    let mut body = json!({ "intents": intents });
    insert_some(&mut body, "task", given.take_text("task")?);
    insert_some(&mut body, "detail", given.take_one_of("detail", DETAILS)?);
    insert_some(&mut body, "language", given.take_one_of("language", LANGUAGES)?);
    insert_some(&mut body, "limit", given.take_count("limit")?);
    insert_some(&mut body, "cursor", given.take_text("cursor")?);
    Ok((body, given.take_session()?))
}

fn describe_body(given: Option<JsonObject>) -> Result<(Value, Option<String>), McpFault> {
    let mut given = CallArguments::new(given, tools::DESCRIBE_ARGUMENTS)?;
    let Some(names) = given.take_texts("tools")?.filter(|names| !names.is_empty()) else {
        return Err(McpFault::new(
            "arguments.missing",
            "`tools` is missing",
            "name tools, such as {\"tools\":[\"github.list_issues\"]}; search_tools finds names",
        ));
    };
    let mut body = json!({ "tools": names });
    insert_some(&mut body, "detail", given.take_one_of("detail", DETAILS)?);
    insert_some(&mut body, "language", given.take_one_of("language", LANGUAGES)?);
    Ok((body, given.take_session()?))
}

fn insert_some(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body[name] = value.into();
    }
}

impl From<ErrorReport> for McpFault {
    fn from(report: ErrorReport) -> McpFault {
        McpFault {
            code: report.code,
            message: report.message,
            hint: report.hint,
            rule: report.rule,
        }
    }
}
