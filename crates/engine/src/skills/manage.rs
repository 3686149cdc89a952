//! Skill management for people and clients: save, list, show, remove.

use std::fmt;
use std::sync::Arc;

use ringfence_catalog::{Catalog, CatalogView, Tool, ToolSearch};
use ringfence_journal::{ExecutionId, Principal, SessionId};
use ringfence_policy::{Policy, RelPath};
use ringfence_store::{RequiredTool, Skill, SkillBody, SkillError, SkillLanguage, SkillMeta, SkillName, SkillScope};
use serde::Serialize;
use serde_json::Value;

use super::SkillLookup;
use super::skill_catalog::{CatalogedSkill, SkillCatalog};
use crate::config::EngineConfig;
use crate::promote::{PersonalDataMode, PromoteError, SkillPromotion, has_no_stand_ins, promote_run};
use crate::records::SessionRecords;
use crate::refusal::RunRefusal;
use crate::report::ErrorReport;
use crate::sessions::Sessions;
use crate::sessions::open_session::SessionRef;
use crate::skills::schema::check_schemas;
use crate::tools::Tools;

/// Skills that one search finds at most.
const MAX_SEARCH_RESULTS: usize = 50;

/// A request to save a skill.
#[derive(Debug, Clone)]
pub struct NewSkill {
    /// The name that programs call the skill by.
    pub name: String,
    /// What the skill does and when to use it.
    pub description: String,
    /// The source of the skill, or the run that it comes from.
    pub program: SkillProgram,
    /// The JSON Schema of its input; none: any input.
    pub inputs: Option<Value>,
    /// The JSON Schema of its value; none: the value is not checked.
    pub outputs: Option<Value>,
    /// The user, session or team that gets the skill.
    pub scope: NewSkillScope,
}

/// Where a skill's program comes from.
#[derive(Debug, Clone)]
pub enum SkillProgram {
    /// The request contains the program.
    Code {
        /// The language of the source.
        language: SkillLanguage,
        /// The text of the program.
        source: String,
        /// The files that it needs, by path, with their contents.
        files: Vec<(RelPath, Vec<u8>)>,
    },
    /// A past run, whose program becomes the skill.
    Run(ExecutionId),
}

/// Adds a bash interpreter line to a script without one, so that it is stored as a bash script.
pub fn for_bash(source: String) -> String {
    let first = source.lines().next().unwrap_or_default();
    let says_so = |word: &str| word == "bash" || word.ends_with("/bash");
    if first
        .strip_prefix("#!")
        .is_some_and(|rest| rest.split_whitespace().any(says_so))
    {
        return source;
    }
    format!("#!/usr/bin/env bash\n{source}")
}

/// Who gets a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewSkillScope {
    /// The principal that saves it.
    User,
    /// A session, by its id or name; none: the session of the past run.
    Session(Option<String>),
    /// All principals; operators only.
    Team,
}

/// A skill, as clients see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkillView {
    /// The name that programs call the skill by.
    pub name: SkillName,
    /// The expression by which programs call it.
    pub call: String,
    /// What the skill does and when to use it.
    pub description: String,
    /// The language of its program.
    pub language: SkillLanguage,
    /// `user`, `team` or `session`.
    pub scope: &'static str,
    /// The version, counted from one.
    pub version: u32,
    /// The full names of the tools that it needs.
    pub tools: Vec<String>,
    /// Why it cannot be used; none where it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
    /// The JSON Schema of its input; none: any input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// The JSON Schema of its value; none: the value is not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Value>,
    /// The time at which this version was saved.
    pub saved: String,
}

/// A skill with its program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkillDetail {
    /// The description of the skill.
    #[serde(flatten)]
    pub skill: SkillView,
    /// The text of its program.
    pub source: String,
    /// The paths of the files that it needs.
    pub files: Vec<String>,
}

impl SkillView {
    fn new(stocked: CatalogedSkill, tool: Option<&Tool>) -> SkillView {
        let CatalogedSkill { skill, stale } = stocked;
        let call = tool.map(|tool| format!("{}.{}", tool.program_path(), tool.ident));
        SkillView {
            call: call.unwrap_or_default(),
            scope: skill.scope.name(),
            version: skill.version,
            saved: ringfence_journal::time_text(skill.saved),
            tools: skill.meta.tools.into_iter().map(|tool| tool.name).collect(),
            stale,
            name: skill.meta.name,
            description: skill.meta.description,
            language: skill.meta.language,
            inputs: skill.meta.inputs,
            outputs: skill.meta.outputs,
        }
    }
}

/// The skills that principals save and use.
pub struct Skills {
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) records: Arc<SessionRecords>,
}

impl fmt::Debug for Skills {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Skills").finish_non_exhaustive()
    }
}

impl Skills {
    pub(crate) fn new(tools: &Arc<Tools>, sessions: &Arc<Sessions>) -> Skills {
        Skills {
            config: Arc::clone(&tools.config),
            tools: Arc::clone(tools),
            sessions: Arc::clone(sessions),
            records: Arc::clone(&sessions.records),
        }
    }

    /// Saves a skill of `who`; the tools that its source names, as the front door's policy shows them, are its requirements.
    pub async fn save(&self, who: Principal, new: NewSkill) -> Result<SkillView, ErrorReport> {
        let policy = &self.config.serve.as_ref().ok_or_else(closing_report)?.policy;
        let name = SkillName::parse(&new.name).map_err(|error| skill_error_report(&error))?;
        check_schemas(new.inputs.as_ref(), new.outputs.as_ref())?;
        let scope = self.resolve_skill_scope(who, &new).await?;
        let skill = match new.program {
            SkillProgram::Run(execution) => {
                let promotion = SkillPromotion {
                    scope,
                    name,
                    description: new.description,
                    inputs: new.inputs,
                    outputs: new.outputs,
                    personal: PersonalDataMode::Refuse,
                };
                let promoted = promote_run(&self.records.store, execution, Some(who), promotion).await;
                promoted.map_err(|error| promote_error_report(&error))?.skill
            }
            SkillProgram::Code {
                language,
                source,
                files,
            } => {
                if !has_no_stand_ins(&source) {
                    return Err(promote_error_report(&PromoteError::Aliases));
                }
                let known = self.tools.gateway().catalog_snapshot().await;
                let meta = SkillMeta {
                    tools: named_tools(&source, &known.catalog, policy),
                    policy: Some(policy.digest().to_owned()),
                    inputs: new.inputs,
                    outputs: new.outputs,
                    ..SkillMeta::new(name, new.description, language)
                };
                self.store_skill(scope, meta, SkillBody { source, files }).await?
            }
        };
        self.skill_view(skill).await
    }

    async fn store_skill(&self, scope: SkillScope, meta: SkillMeta, body: SkillBody) -> Result<Skill, ErrorReport> {
        let skills = self.records.store.skills();
        run_blocking(move || skills.save(scope, meta, body)).await
    }

    /// A skill as clients see it, checked against the known tools.
    async fn skill_view(&self, skill: Skill) -> Result<SkillView, ErrorReport> {
        let known = self.tools.gateway().catalog_snapshot().await;
        let tool = super::skill_tool(&skill).map_err(|refusal| ErrorReport {
            code: refusal.code.to_owned(),
            message: refusal.message,
            hint: refusal.hint,
            rule: refusal.rule,
        })?;
        let stale = super::required::stale_reason(&skill.meta.tools, &known.catalog);
        let skill = self.tools.library.redact_skill(skill);
        Ok(SkillView::new(CatalogedSkill { skill, stale }, Some(&tool)))
    }

    /// Resolves the scope of a new skill.
    async fn resolve_skill_scope(&self, who: Principal, new: &NewSkill) -> Result<SkillScope, ErrorReport> {
        match (&new.scope, &new.program) {
            (NewSkillScope::User, _) => Ok(SkillScope::User(who)),
            (NewSkillScope::Team, _) => Ok(SkillScope::Team),
            (NewSkillScope::Session(Some(called)), _) => {
                self.sessions.find_open_session(who, called).map(SkillScope::Session)
            }
            (NewSkillScope::Session(None), SkillProgram::Run(execution)) => {
                let found = self.records.store.execution(*execution).await;
                let found = found.map_err(|error| ErrorReport {
                    code: error.code().to_owned(),
                    message: error.to_string(),
                    hint: None,
                    rule: None,
                })?;
                let found = found.ok_or_else(|| promote_error_report(&PromoteError::NotRecorded(*execution)))?;
                let session = self.sessions.open_session_id(who, &SessionRef::Id(found.session))?;
                Ok(SkillScope::Session(session))
            }
            (NewSkillScope::Session(None), SkillProgram::Code { .. }) => Err(unnamed_session_report()),
        }
    }

    /// Lists the skills that `who` can use, with those of a session if one is named: by name, or best match first for a search.
    pub async fn list(
        &self,
        who: Principal,
        session: Option<SessionId>,
        query: Option<&str>,
    ) -> Result<Vec<SkillView>, ErrorReport> {
        let whose = SkillLookup {
            principal: who,
            session,
        };
        let indexed = self.tools.gateway().searchable_catalog().await;
        let stock = self.tools.library.catalog(whose, indexed.snapshot()).await;
        let stock = stock.map_err(|error| skill_error_report(&error))?;
        for damaged in &stock.damaged {
            tracing::warn!(skill = %damaged.name, version = damaged.version, why = %damaged.why, "a skill is not as it was saved");
        }
        let Some(query) = query.filter(|query| !query.trim().is_empty()) else {
            return Ok(stock.skills.iter().map(|one| cataloged_view(&stock, one)).collect());
        };
        let search = ToolSearch {
            intents: vec![query.to_owned()],
            limit: Some(MAX_SEARCH_RESULTS),
            ..ToolSearch::default()
        };
        if stock.skills.is_empty() {
            return Ok(Vec::new());
        }
        let found = CatalogView::everything(&stock.catalog, stock.index(&indexed.index)).search(&search);
        let found = found.map_err(|error| ErrorReport {
            code: "tool.arguments".to_owned(),
            message: error.to_string(),
            hint: None,
            rule: None,
        })?;
        let slots = found.intents.into_iter().flat_map(|answer| answer.slots);
        let names = slots.flat_map(|hit| std::iter::once(hit.tool.name).chain(hit.alike));
        let skills = names.filter_map(|name| {
            let short = stock.catalog.get(&name)?.short_name().to_owned();
            stock.skills.iter().find(|one| one.skill.meta.name.as_str() == short)
        });
        Ok(skills.map(|one| cataloged_view(&stock, one)).collect())
    }

    /// Finds a skill that `who` can use, with its program.
    pub async fn find(
        &self,
        who: Principal,
        session: Option<SessionId>,
        name: &str,
    ) -> Result<SkillDetail, ErrorReport> {
        let whose = SkillLookup {
            principal: who,
            session,
        };
        let (skills, wanted) = (self.records.store.skills(), name.to_owned());
        let found = run_blocking(move || skills.find(&whose.scopes(), &wanted, None)).await?;
        let (skill, body) = found.ok_or_else(|| unknown_skill_report(name))?;
        Ok(SkillDetail {
            skill: self.skill_view(skill).await?,
            source: self.tools.library.sight.redact_shared_text(&body.source),
            files: body.files.iter().map(|(path, _)| path.as_str().to_owned()).collect(),
        })
    }

    /// Removes a skill of `who`, a session or the team, with all its versions.
    pub async fn remove(&self, who: Principal, scope: &NewSkillScope, name: &str) -> Result<(), ErrorReport> {
        let scope = match scope {
            NewSkillScope::User => SkillScope::User(who),
            NewSkillScope::Team => SkillScope::Team,
            NewSkillScope::Session(Some(called)) => SkillScope::Session(self.sessions.find_open_session(who, called)?),
            NewSkillScope::Session(None) => return Err(unnamed_session_report()),
        };
        let name = SkillName::parse(name).map_err(|error| skill_error_report(&error))?;
        let skills = self.records.store.skills();
        run_blocking(move || skills.remove(scope, &name)).await
    }
}

fn cataloged_view(stock: &Arc<SkillCatalog>, one: &CatalogedSkill) -> SkillView {
    let tool = stock
        .catalog
        .resolve(ringfence_policy::SKILLS_SERVER, one.skill.meta.name.as_str());
    SkillView::new(one.clone(), tool)
}

/// The tools that a source names, as they are now: `server.tool`, or a tool's name where only one server that it names has it.
fn named_tools(source: &str, catalog: &Catalog, policy: &Policy) -> Vec<RequiredTool> {
    let servers = catalog
        .servers()
        .iter()
        .filter(|entry| contains_words(source, &entry.ident));
    let tools: Vec<&Tool> = servers
        .flat_map(|entry| catalog.tools().get(entry.tools.clone()).unwrap_or_default())
        .filter(|tool| policy.shows_tool(&tool.name, tool.hints()) && contains_words(source, &tool.ident))
        .collect();
    let is_meant = |tool: &&&Tool| {
        let direct = contains_words(source, &format!("{}.{}", tool.server_ident, tool.ident));
        let alone = tools.iter().filter(|other| other.ident == tool.ident).count() == 1;
        direct || (alone && contains_words(source, &format!(".{}", tool.ident)))
    };
    let required = |tool: &&Tool| RequiredTool {
        name: tool.name.as_str().to_owned(),
        digest: tool.digest.to_string(),
    };
    tools.iter().filter(is_meant).map(required).collect()
}

/// Whether a text contains these words, not as part of longer ones.
fn contains_words(text: &str, words: &str) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let starts_with_word = is_word(words.as_bytes().first());
    text.match_indices(words).any(|(place, _)| {
        let before = text.as_bytes().get(..place).and_then(<[u8]>::last);
        let after = text.as_bytes().get(place + words.len());
        let goes_on = (starts_with_word && is_word(before)) || is_word(after);
        !goes_on
    })
}

async fn run_blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, SkillError> + Send + 'static,
) -> Result<T, ErrorReport> {
    match tokio::task::spawn_blocking(act).await {
        Ok(done) => done.map_err(|error| skill_error_report(&error)),
        Err(error) => Err(ErrorReport {
            code: "skill.failed".to_owned(),
            message: error.to_string(),
            hint: None,
            rule: None,
        }),
    }
}

fn skill_error_report(error: &SkillError) -> ErrorReport {
    ErrorReport {
        code: error.code().to_owned(),
        message: error.to_string(),
        hint: error.hint().map(str::to_owned),
        rule: None,
    }
}

fn promote_error_report(error: &PromoteError) -> ErrorReport {
    ErrorReport {
        code: error.code().to_owned(),
        message: error.to_string(),
        hint: error.hint().map(str::to_owned),
        rule: None,
    }
}

pub(crate) fn refusal_report(refusal: RunRefusal) -> ErrorReport {
    ErrorReport {
        code: refusal.code.to_owned(),
        message: refusal.message,
        hint: refusal.hint,
        rule: Some(refusal.rule),
    }
}

fn unknown_skill_report(name: &str) -> ErrorReport {
    ErrorReport {
        code: "skill.unknown".to_owned(),
        message: format!("there is no skill `{}`", super::shorten(name)),
        hint: Some("list skills to see their names".to_owned()),
        rule: None,
    }
}

fn closing_report() -> ErrorReport {
    let closed = crate::error::OperationError::Closed;
    ErrorReport {
        code: closed.code().to_owned(),
        message: closed.to_string(),
        hint: closed.hint().map(str::to_owned),
        rule: None,
    }
}

fn unnamed_session_report() -> ErrorReport {
    no_session_report("no session is named")
}

pub(crate) fn no_session_report(why: &str) -> ErrorReport {
    ErrorReport {
        code: "session.unknown".to_owned(),
        message: format!("a skill of a session needs one that stays open: {why}"),
        hint: Some("name the `session_id` of an open session, or save with scope `user`".to_owned()),
        rule: Some("sessions".to_owned()),
    }
}

#[cfg(test)]
mod tests;
