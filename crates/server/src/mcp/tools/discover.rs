//! `search_tools`, `list_tools` and `describe_tools`: queries of the catalog, as far as the policy shows it.

use std::sync::Arc;

use ringfence_engine::ErrorReport;
use rmcp::model::CallToolResponse;
use serde_json::{Value, json};

use super::schema::{result_schema, texts_schema};
use super::{BuiltinTool, ToolCall, ToolLoading, read_only_annotations};
use crate::mcp::arguments::CallArguments;
use crate::mcp::call_result;
use crate::mcp::fault::McpFault;

pub(super) static SEARCH: BuiltinTool = BuiltinTool {
    name: "search_tools",
    alias: None,
    title: "Search tools",
    description: |_| {
        "Find tools by what you want to do, e.g. {\"intents\":[\"list open issues\",\"send an email\"]}. \
         Answers per intent, best first, with names like `github.list_issues` to call inside sandboxed_code_run. \
         Nothing fits: other words, or list_tools."
            .into()
    },
    input: |_| {
        json!({
            "type": "object",
            "properties": {
                "intents": { "type": "array", "items": { "type": "string" }, "description": "one short phrase per step" },
                "query": { "type": "string", "description": "instead of intents: one phrase" },
                "task": { "type": "string", "description": "what it is all for" },
                "detail": detail_schema(),
                "language": stub_language_schema(),
                "limit": { "type": "integer" },
                "cursor": { "type": "string" },
                "session_id": { "type": "string", "description": "its skills too" },
            },
        })
    },
    output: found_schema,
    annotations: read_only_annotations,
    loading: ToolLoading::Eager,
    answer: |call| Box::pin(answer_discovery(call, DiscoveryQuery::Search)),
};

pub(super) static LIST: BuiltinTool = BuiltinTool {
    name: "list_tools",
    alias: None,
    title: "List tools",
    description: |_| "Browse names: servers, then a server's tools.".into(),
    input: |_| {
        json!({
            "type": "object",
            "properties": {
                "server": { "type": "string", "description": "absent: the servers" },
                "domain": { "type": "string", "description": "first word of names, e.g. issues" },
                "cursor": { "type": "string" },
            },
        })
    },
    output: listed_schema,
    annotations: read_only_annotations,
    loading: ToolLoading::Deferrable,
    answer: |call| Box::pin(answer_discovery(call, DiscoveryQuery::List)),
};

pub(super) static DESCRIBE: BuiltinTool = BuiltinTool {
    name: "describe_tools",
    alias: None,
    title: "Describe tools",
    description: |_| "Exact parameter and result types of tools. Read this before writing code that calls them.".into(),
    input: |_| {
        json!({
            "type": "object",
            "properties": {
                "tools": { "type": "array", "items": { "type": "string" }, "description": "e.g. [\"github.list_issues\"]" },
                "detail": detail_schema(),
                "language": stub_language_schema(),
                "session_id": { "type": "string" },
            },
            "required": ["tools"],
        })
    },
    output: described_schema,
    annotations: read_only_annotations,
    loading: ToolLoading::Eager,
    answer: |call| Box::pin(answer_discovery(call, DiscoveryQuery::Describe)),
};

/// The kind of query to the catalog.
#[derive(Debug, Clone, Copy)]
enum DiscoveryQuery {
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

/// A query in the catalog's form.
struct CatalogQuery {
    body: Value,
    /// The session whose skills it includes.
    session: Option<String>,
}

/// Answers a query with the policy's part of the catalog.
async fn answer_discovery(call: ToolCall<'_>, question: DiscoveryQuery) -> Result<CallToolResponse, McpFault> {
    let ToolCall {
        handler, who, request, ..
    } = call;
    let (shared, given) = (&handler.shared, request.arguments);
    let query = match question {
        DiscoveryQuery::Search => search_query(SEARCH.parse_arguments(given)?)?,
        DiscoveryQuery::List => CatalogQuery {
            body: Value::Object(LIST.parse_arguments(given)?.into_rest()),
            session: None,
        },
        DiscoveryQuery::Describe => describe_query(DESCRIBE.parse_arguments(given)?)?,
    };
    let session = query
        .session
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
    let body = query.body.to_string();
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
    Ok(call_result::tools_result(object).into())
}

fn search_query(mut given: CallArguments) -> Result<CatalogQuery, McpFault> {
    let mut intents = given.take_texts("intents")?.unwrap_or_default();
    intents.extend(given.take_texts("query")?.unwrap_or_default());
    let mut body = json!({ "intents": intents });
    insert_some(&mut body, "task", given.take_text("task")?);
    insert_some(&mut body, "detail", given.take_one_of("detail", DETAILS)?);
    insert_some(&mut body, "language", given.take_one_of("language", LANGUAGES)?);
    insert_some(&mut body, "limit", given.take_count("limit")?);
    insert_some(&mut body, "cursor", given.take_text("cursor")?);
    Ok(CatalogQuery {
        body,
        session: given.take_session()?,
    })
}

fn describe_query(mut given: CallArguments) -> Result<CatalogQuery, McpFault> {
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
    Ok(CatalogQuery {
        body,
        session: given.take_session()?,
    })
}

fn insert_some(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body[name] = value.into();
    }
}

fn detail_schema() -> Value {
    json!({ "type": "string", "enum": ["names", "summary", "signature", "full"] })
}

fn stub_language_schema() -> Value {
    json!({ "type": "string", "enum": ["typescript", "python", "json"] })
}

fn tool_item_schema(more: &[(&str, Value)]) -> Value {
    let mut properties = json!({
        "name": { "type": "string" },
        "server_says": { "type": "string" },
        "signature": { "type": "string" },
        "stub": { "type": "string" },
    });
    for (name, schema) in more {
        properties[*name] = schema.clone();
    }
    json!({ "type": "object", "properties": properties })
}

fn found_schema() -> Value {
    let hit = tool_item_schema(&[("alike", texts_schema()), ("score", json!({ "type": "number" }))]);
    let intent = json!({
        "type": "object",
        "properties": {
            "intent": { "type": "string" },
            "slots": { "type": "array", "items": hit },
            "see": { "type": "string" },
        },
    });
    result_schema(json!({
        "intents": { "type": "array", "items": intent },
        "more_from_server": { "type": "object" },
        "cursor": { "type": "string" },
        "hidden_by_policy": { "type": "integer" },
    }))
}

fn listed_schema() -> Value {
    let server = json!({
        "type": "object",
        "properties": {
            "server": { "type": "string" },
            "tools": { "type": "integer" },
            "server_says": { "type": "string" },
            "domains": texts_schema(),
        },
    });
    result_schema(json!({
        "servers": { "type": "array", "items": server },
        "tools": texts_schema(),
        "total": { "type": "integer" },
        "cursor": { "type": "string" },
        "hidden_by_policy": { "type": "integer" },
    }))
}

fn described_schema() -> Value {
    result_schema(json!({
        "tools": { "type": "array", "items": tool_item_schema(&[]) },
        "unknown": { "type": "array", "items": { "type": "object" } },
        "hidden_by_policy": { "type": "integer" },
    }))
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
