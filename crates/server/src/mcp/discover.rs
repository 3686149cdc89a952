//! `search_tools`, `list_tools` and `describe_tools`: queries of the catalog, as far as the policy shows it.

use std::sync::Arc;

use ringfence_engine::ErrorReport;
use ringfence_journal::Principal;
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::fault::Fault;
use super::{Shared, answer, tools};

/// The kind of query to the catalog.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question {
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
pub(super) async fn ask(
    shared: &Shared,
    who: Principal,
    question: Question,
    given: Option<JsonObject>,
) -> Result<CallToolResult, Fault> {
    let (body, session) = match question {
        Question::Search => search(given)?,
        Question::List => (Value::Object(Arguments::new(given, tools::LIST_TAKES)?.rest()), None),
        Question::Describe => describe(given)?,
    };
    let session = session
        .map(|called| shared.engine.open_session_called(who, &called))
        .transpose()?;
    #[expect(
        clippy::default_trait_access,
        reason = "the language of signatures is the catalog's to name"
    )]
    let discover = shared
        .engine
        .discover(who, session, Arc::clone(&shared.options.policy), Default::default());
    let body = body.to_string();
    let answered = match question {
        Question::Search => discover.search(&body).await,
        Question::List => discover.list(&body).await,
        Question::Describe => discover.describe(&body).await,
    };
    let answered = answered.map_err(Fault::from)?;
    let object = serde_json::from_str(&answered).map_err(|error| Fault {
        code: "tool.result".to_owned(),
        message: error.to_string(),
        hint: None,
        rule: None,
    })?;
    Ok(answer::tools(object))
}

/// The query, and the session whose skills it includes.
fn search(given: Option<JsonObject>) -> Result<(Value, Option<String>), Fault> {
    let mut given = Arguments::new(given, tools::SEARCH_TAKES)?;
    let mut intents = given.texts("intents")?.unwrap_or_default();
    intents.extend(given.texts("query")?.unwrap_or_default());
    let mut body = json!({ "intents": intents });
    put(&mut body, "task", given.text("task")?);
    put(&mut body, "detail", given.one_of("detail", DETAILS)?);
    put(&mut body, "language", given.one_of("language", LANGUAGES)?);
    put(&mut body, "limit", given.count("limit")?);
    put(&mut body, "cursor", given.text("cursor")?);
    Ok((body, given.session()?))
}

fn describe(given: Option<JsonObject>) -> Result<(Value, Option<String>), Fault> {
    let mut given = Arguments::new(given, tools::DESCRIBE_TAKES)?;
    let Some(names) = given.texts("tools")?.filter(|names| !names.is_empty()) else {
        return Err(Fault::new(
            "arguments.missing",
            "`tools` is missing",
            "name tools, such as {\"tools\":[\"github.list_issues\"]}; search_tools finds names",
        ));
    };
    let mut body = json!({ "tools": names });
    put(&mut body, "detail", given.one_of("detail", DETAILS)?);
    put(&mut body, "language", given.one_of("language", LANGUAGES)?);
    Ok((body, given.session()?))
}

fn put(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body[name] = value.into();
    }
}

impl From<ErrorReport> for Fault {
    fn from(report: ErrorReport) -> Fault {
        Fault {
            code: report.code,
            message: report.message,
            hint: report.hint,
            rule: report.rule,
        }
    }
}
