//! `save_skill` and `list_skills`: saved programs.

use ringfence_engine::{NewSkill, NewSkillScope, SkillLanguage, SkillProgram, SkillView, for_bash};
use ringfence_journal::Principal;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Value, json};

use super::arguments::{CallArguments, wrong_argument};
use super::fault::McpFault;
use super::run::LANGUAGES;
use super::{HandlerState, call_result, files, tools};

/// The most skills of one page.
const PAGE_LIMIT: usize = 50;

const SCOPES: &[(&str, &[&str])] = &[("user", &["me", "mine"]), ("session", &[])];

/// Handles a call of `save_skill`.
pub(super) async fn save_skill(
    shared: &HandlerState,
    who: Principal,
    given: Option<JsonObject>,
) -> Result<CallToolResult, McpFault> {
    let new = parse_new_skill(given)?;
    let saved = shared.engine.skills().save(who, new).await?;
    let text = format!(
        "saved `{}` version {} ({}); call it with {}(…) in a program",
        saved.name, saved.version, saved.scope, saved.call
    );
    Ok(call_result::complete_result(
        json!(saved),
        vec![ContentBlock::text(text)],
        false,
    ))
}

/// Parses the arguments of a call into a new skill.
pub(crate) fn parse_new_skill(given: Option<JsonObject>) -> Result<NewSkill, McpFault> {
    let mut given = CallArguments::new(given, tools::SAVE_ARGUMENTS)?;
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
pub(super) async fn list_skills(
    shared: &HandlerState,
    who: Principal,
    given: Option<JsonObject>,
) -> Result<CallToolResult, McpFault> {
    let mut given = CallArguments::new(given, tools::LIST_SKILLS_ARGUMENTS)?;
    let (query, cursor) = (given.take_text("query")?, given.take_text("cursor")?);
    let session = given.take_session()?;
    let session = session
        .map(|called| shared.engine.sessions().find_open_session(who, &called))
        .transpose()?;
    let all = shared.engine.skills().list(who, session, query.as_deref()).await?;
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
    Ok(call_result::complete_result(
        object,
        vec![ContentBlock::text(lines.join("\n"))],
        false,
    ))
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
