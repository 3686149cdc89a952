//! `save_skill` and `list_skills`: saved programs.

use ringfence_engine::{NewScope, NewSkill, SkillLanguage, SkillProgram, SkillView, for_bash};
use ringfence_journal::Principal;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Value, json};

use super::arguments::{Arguments, wrong};
use super::fault::Fault;
use super::run::LANGUAGES;
use super::{Shared, answer, files, tools};

/// The most skills of one page.
const PAGE: usize = 50;

const SCOPES: &[(&str, &[&str])] = &[("user", &["me", "mine"]), ("session", &[])];

/// Handles a call of `save_skill`.
pub(super) async fn save(shared: &Shared, who: Principal, given: Option<JsonObject>) -> Result<CallToolResult, Fault> {
    let new = wanted(given)?;
    let saved = shared.engine.save_skill(who, new).await?;
    let text = format!(
        "saved `{}` version {} ({}); call it with {}(…) in a program",
        saved.name, saved.version, saved.scope, saved.call
    );
    Ok(answer::complete(json!(saved), vec![ContentBlock::text(text)], false))
}

/// Parses the arguments of a call into a new skill.
pub(crate) fn wanted(given: Option<JsonObject>) -> Result<NewSkill, Fault> {
    let mut given = Arguments::new(given, tools::SAVE_TAKES)?;
    let name = given.needed(
        "name",
        "give a name of lower-case letters, digits and hyphens, such as `monthly-report`",
    )?;
    let description = given.needed("description", "say what it does and when to use it")?;
    let program = program(&mut given)?;
    let session = given.session()?;
    let scope = match given.one_of("scope", SCOPES)? {
        Some("session") => NewScope::Session(session),
        _ => NewScope::User,
    };
    Ok(NewSkill {
        name,
        description,
        program,
        inputs: schema(&mut given, "inputs")?,
        outputs: schema(&mut given, "outputs")?,
        scope,
    })
}

fn program(given: &mut Arguments) -> Result<SkillProgram, Fault> {
    let said = given.one_of("language", LANGUAGES)?;
    let is_bash = said == Some("bash");
    let language = said.and_then(|said| {
        if is_bash {
            Some(SkillLanguage::Shell)
        } else {
            SkillLanguage::named(said)
        }
    });
    let files = given.any("files").map(files::read).transpose()?.unwrap_or_default();
    match (given.text("code")?, given.text("execution_id")?) {
        (Some(source), None) => Ok(SkillProgram::Code {
            language: language.ok_or_else(|| {
                let hint = "say `typescript`, `javascript`, `python`, `shell` or `bash`";
                Fault::new("arguments.missing", "`language` is missing", hint)
            })?,
            // A script is stored as `shell`; its first line selects bash.
            source: if is_bash { for_bash(source) } else { source },
            files,
        }),
        (None, Some(id)) if files.is_empty() => {
            let id = id.parse().map_err(|error| {
                let hint = "use the `execution_id` that sandboxed_code_run returned";
                Fault::new("arguments.invalid", format!("`execution_id`: {error}"), hint)
            })?;
            Ok(SkillProgram::Run(id))
        }
        (None, Some(_)) => {
            let hint = "a run brings its own files: leave `files` out";
            Err(Fault::new(
                "arguments.invalid",
                "`files` and `execution_id` exclude each other",
                hint,
            ))
        }
        (Some(_), Some(_)) | (None, None) => {
            let hint = "give the program as `code`, or the `execution_id` of a run that did it, not both";
            Err(Fault::new(
                "arguments.missing",
                "`code` or `execution_id` is needed",
                hint,
            ))
        }
    }
}

/// Parses a schema, given as an object or as its JSON text.
fn schema(given: &mut Arguments, name: &str) -> Result<Option<Value>, Fault> {
    let value = match given.any(name) {
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
    Err(wrong(name, "a JSON Schema", &value))
}

/// Handles a call of `list_skills`.
pub(super) async fn list(shared: &Shared, who: Principal, given: Option<JsonObject>) -> Result<CallToolResult, Fault> {
    let mut given = Arguments::new(given, tools::LIST_SKILLS_TAKES)?;
    let (query, cursor) = (given.text("query")?, given.text("cursor")?);
    let session = given.session()?;
    let session = session
        .map(|called| shared.engine.open_session_called(who, &called))
        .transpose()?;
    let all = shared.engine.skills(who, session, query.as_deref()).await?;
    let (page, next) = page(&all, cursor.as_deref(), PAGE)?;
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
    Ok(answer::complete(
        object,
        vec![ContentBlock::text(lines.join("\n"))],
        false,
    ))
}

/// The page of skills after the cursor, and the next cursor.
pub(crate) fn page<'a>(
    all: &'a [SkillView],
    cursor: Option<&str>,
    most: usize,
) -> Result<(&'a [SkillView], Option<String>), Fault> {
    let from = match cursor {
        None => 0,
        Some(cursor) => {
            let place = all.iter().position(|skill| skill.name.as_str() == cursor);
            place.map(|place| place + 1).ok_or_else(|| {
                let hint = "ask again without a cursor";
                Fault::new("arguments.invalid", "this cursor is for another list", hint)
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
