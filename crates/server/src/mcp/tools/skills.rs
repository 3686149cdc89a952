//! `save_skill` and `list_skills`: saved programs.

use ringfence_engine::{NewSkill, NewSkillScope, SkillLanguage, SkillProgram, SkillView, for_bash};
use rmcp::model::{CallToolResponse, ContentBlock, JsonObject, ToolAnnotations};
use serde_json::{Value, json};

use super::run::LANGUAGES;
use super::schema::{language_schema, objects_schema, result_schema};
use super::{BuiltinTool, ToolCall, ToolLoading, read_only_annotations};
use crate::mcp::arguments::{CallArguments, wrong_argument};
use crate::mcp::fault::McpFault;
use crate::mcp::{call_result, files};

/// The most skills of one page.
const PAGE_LIMIT: usize = 50;

const SCOPES: &[(&str, &[&str])] = &[("user", &["me", "mine"]), ("session", &[])];

pub(super) static SAVE: BuiltinTool = BuiltinTool {
    name: "save_skill",
    alias: None,
    title: "Save a skill",
    description: |_| {
        "Keep a program for later; any program then calls `skills.monthly_report({…})`. \
         TypeScript: `export default async function (input) {…}`; Python: `async def main(month): …`."
            .into()
    },
    input: |programs| {
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "e.g. monthly-report" },
                "description": { "type": "string" },
                "code": { "type": "string" },
                "execution_id": { "type": "string", "description": "instead of code: a run that worked" },
                "language": language_schema(programs),
                "inputs": { "type": "object", "description": "JSON Schema" },
                "outputs": { "type": "object", "description": "JSON Schema" },
                "files": { "type": "object" },
                "scope": { "type": "string", "enum": ["user", "session"] },
                "session_id": { "type": "string" },
            },
            "required": ["name", "description"],
        })
    },
    output: || {
        result_schema(
            json!({ "name": { "type": "string" }, "call": { "type": "string" }, "version": { "type": "integer" } }),
        )
    },
    annotations: || {
        ToolAnnotations::new()
            .read_only(false)
            .destructive(false)
            .idempotent(true)
            .open_world(false)
    },
    loading: ToolLoading::Deferrable,
    answer: |call| Box::pin(save_skill(call)),
};

pub(super) static LIST: BuiltinTool = BuiltinTool {
    name: "list_skills",
    alias: None,
    title: "List skills",
    description: |_| "Saved programs; search_tools finds them too.".into(),
    input: |_| {
        json!({
            "type": "object",
            "properties": {
                "query": { "type": "string" },
                "cursor": { "type": "string" },
                "session_id": { "type": "string" },
            },
        })
    },
    output: || {
        result_schema(
            json!({ "skills": objects_schema(), "total": { "type": "integer" }, "cursor": { "type": "string" } }),
        )
    },
    annotations: read_only_annotations,
    loading: ToolLoading::Deferrable,
    answer: |call| Box::pin(list_skills(call)),
};

/// The schema of a request to save a skill.
pub(crate) fn save_schema() -> Value {
    SAVE.input_schema()
}

/// Handles a call of `save_skill`.
async fn save_skill(call: ToolCall<'_>) -> Result<CallToolResponse, McpFault> {
    let new = parse_new_skill(call.request.arguments)?;
    let saved = call.handler.shared.engine.skills().save(call.who, new).await?;
    let text = format!(
        "saved `{}` version {} ({}); call it with {}(…) in a program",
        saved.name, saved.version, saved.scope, saved.call
    );
    Ok(call_result::complete_result(json!(saved), vec![ContentBlock::text(text)], false).into())
}

/// Parses the arguments of a call into a new skill.
pub(crate) fn parse_new_skill(given: Option<JsonObject>) -> Result<NewSkill, McpFault> {
    let mut given = SAVE.parse_arguments(given)?;
    let name = given.take_required(
        "name",
        "give a name of lower-case letters, digits and hyphens, such as `monthly-report`",
    )?;
    let description = given.take_required("description", "say what it does and when to use it")?;
    let program = parse_program(&mut given)?;
    let session = given.take_session()?;
    let scope = match given.take_one_of("scope", SCOPES)? {
        Some("session") => NewSkillScope::Session(session),
        _ => NewSkillScope::User,
    };
    Ok(NewSkill {
        name,
        description,
        program,
        inputs: parse_schema(&mut given, "inputs")?,
        outputs: parse_schema(&mut given, "outputs")?,
        scope,
    })
}

fn parse_program(given: &mut CallArguments) -> Result<SkillProgram, McpFault> {
    let said = given.take_one_of("language", LANGUAGES)?;
    let is_bash = said == Some("bash");
    let language = said.and_then(|said| {
        if is_bash {
            Some(SkillLanguage::Shell)
        } else {
            SkillLanguage::from_name(said)
        }
    });
    let files = given
        .take_any("files")
        .map(files::parse_files)
        .transpose()?
        .unwrap_or_default();
    match (given.take_text("code")?, given.take_text("execution_id")?) {
        (Some(source), None) => Ok(SkillProgram::Code {
            language: language.ok_or_else(|| {
                let hint = "say `typescript`, `javascript`, `python`, `shell` or `bash`";
                McpFault::new("arguments.missing", "`language` is missing", hint)
            })?,
            // A script is stored as `shell`; its first line selects bash.
            source: if is_bash { for_bash(source) } else { source },
            files,
        }),
        (None, Some(id)) if files.is_empty() => {
            let id = id.parse().map_err(|error| {
                let hint = "use the `execution_id` that sandboxed_code_run returned";
                McpFault::new("arguments.invalid", format!("`execution_id`: {error}"), hint)
            })?;
            Ok(SkillProgram::Run(id))
        }
        (None, Some(_)) => {
            let hint = "a run brings its own files: leave `files` out";
            Err(McpFault::new(
                "arguments.invalid",
                "`files` and `execution_id` exclude each other",
                hint,
            ))
        }
        (Some(_), Some(_)) | (None, None) => {
            let hint = "give the program as `code`, or the `execution_id` of a run that did it, not both";
            Err(McpFault::new(
                "arguments.missing",
                "`code` or `execution_id` is needed",
                hint,
            ))
        }
    }
}

/// Parses a schema, given as an object or as its JSON text.
fn parse_schema(given: &mut CallArguments, name: &str) -> Result<Option<Value>, McpFault> {
    let value = match given.take_any(name) {
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(_) => Value::String(text),
        },
        Some(value) => value,
        None => return Ok(None),
    };
    if value.is_object() {
        return Ok(Some(value));
    }
    Err(wrong_argument(name, "a JSON Schema", &value))
}

/// Handles a call of `list_skills`.
async fn list_skills(call: ToolCall<'_>) -> Result<CallToolResponse, McpFault> {
    let (engine, who) = (&call.handler.shared.engine, call.who);
    let mut given = LIST.parse_arguments(call.request.arguments)?;
    let (query, cursor) = (given.take_text("query")?, given.take_text("cursor")?);
    let session = given.take_session()?;
    let session = session
        .map(|called| engine.sessions().find_open_session(who, &called))
        .transpose()?;
    let all = engine.skills().list(who, session, query.as_deref()).await?;
    let (page, next) = skills_page(&all, cursor.as_deref(), PAGE_LIMIT)?;
    let mut lines: Vec<String> = page
        .iter()
        .map(|skill| {
            let mark = skill.stale.as_ref().map(|why| format!(" (stale: {why})"));
            format!(
                "- {}(…) — {}{}",
                skill.call,
                skill.description,
                mark.unwrap_or_default()
            )
        })
        .collect();
    if lines.is_empty() {
        lines.push(match &query {
            Some(_) => "no skill fits this query; without `query`, list_skills names all".to_owned(),
            None => "no skills; save_skill keeps a program".to_owned(),
        });
    }
    let mut object = json!({ "skills": page, "total": all.len() });
    if let Some(next) = next {
        lines.push(format!("more: cursor {next}"));
        object["cursor"] = next.into();
    }
    Ok(call_result::complete_result(object, vec![ContentBlock::text(lines.join("\n"))], false).into())
}

/// The page of skills after the cursor, and the next cursor.
pub(crate) fn skills_page<'a>(
    all: &'a [SkillView],
    cursor: Option<&str>,
    most: usize,
) -> Result<(&'a [SkillView], Option<String>), McpFault> {
    let from = match cursor {
        None => 0,
        Some(cursor) => {
            let place = all.iter().position(|skill| skill.name.as_str() == cursor);
            place.map(|place| place + 1).ok_or_else(|| {
                let hint = "ask again without a cursor";
                McpFault::new("arguments.invalid", "this cursor is for another list", hint)
            })?
        }
    };
    let rest = all.get(from..).unwrap_or_default();
    let page = rest.get(..most).unwrap_or(rest);
    let more = rest.len() > page.len();
    Ok((page, page.last().filter(|_| more).map(|last| last.name.to_string())))
}

#[cfg(test)]
mod tests;
