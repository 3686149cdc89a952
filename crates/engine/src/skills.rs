//! Skills: saved programs, discovered like tools and run like programs, under the rules of their caller.
//!
//! A call of a skill goes to a server of its own, `skills`: it is authorized, counted and recorded like any other call. The answer comes
//! from an execution of its own (see [`nested`]).

pub(crate) mod manage;
pub(crate) mod nested;
mod required;
pub(crate) mod schema;
pub(crate) mod skill_catalog;

use std::sync::Arc;

use ringfence_catalog::{Catalog, ServerHints, ServerListing, Tool, ToolDefinition};
use ringfence_gateway::{Gateway, RedactionRules, RequestRefusal};
use ringfence_journal::{Principal, SessionId};
use ringfence_policy::{Policy, SKILLS_SERVER};
use ringfence_store::{Skill, SkillBody, SkillError, SkillRepository, SkillScope};
use serde_json::json;
use skill_catalog::SkillCatalogs;

use crate::sessions::context::ExecutionContext;

/// How deep skills may call each other.
pub(crate) const MAX_NESTING_DEPTH: usize = 4;

/// The principal and session whose skills are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SkillLookup {
    pub(crate) principal: Principal,
    /// None leaves out the skills of sessions.
    pub(crate) session: Option<SessionId>,
}

impl SkillLookup {
    /// The skills that a program of this session can use.
    pub(crate) fn for_context(session: &ExecutionContext) -> SkillLookup {
        SkillLookup {
            principal: session.principal,
            session: Some(session.id),
        }
    }

    /// The scopes in the order of the lookup: the first skill of a name counts.
    fn scopes(self) -> Vec<SkillScope> {
        let own = self.session.map(SkillScope::Session);
        own.into_iter()
            .chain([SkillScope::User(self.principal), SkillScope::Team])
            .collect()
    }
}

/// The skills of the data folder, and the tools that they need.
#[derive(Debug, Clone)]
pub(crate) struct SkillLibrary {
    skills: SkillRepository,
    gateway: Arc<Gateway>,
    catalogs: SkillCatalogs,
    /// The rules that redact the texts of skills.
    sight: Arc<RedactionRules>,
}

impl SkillLibrary {
    pub(crate) fn new(skills: SkillRepository, gateway: Arc<Gateway>, sight: RedactionRules) -> SkillLibrary {
        SkillLibrary {
            skills,
            gateway,
            catalogs: SkillCatalogs::default(),
            sight: Arc::new(sight),
        }
    }

    /// Redacts a skill's texts: they come from its author, and others read them.
    fn redact_skill(&self, mut skill: Skill) -> Skill {
        let meta = &mut skill.meta;
        meta.description = self.sight.redact_shared_text(&meta.description);
        for schema in [&mut meta.inputs, &mut meta.outputs] {
            *schema = schema.take().map(|schema| self.sight.redact_shared_schema(schema));
        }
        skill
    }

    /// The skill that a program calls, as a tool, if `policy` allows it.
    async fn usable_tool(
        &self,
        whose: SkillLookup,
        word: String,
        policy: &Arc<Policy>,
    ) -> Result<Arc<Tool>, RequestRefusal> {
        let (skill, _) = self.find_skill(whose, word).await?;
        let tool = skill_tool(&skill)?;
        self.check_requirements(&skill, policy).await?;
        Ok(tool)
    }

    /// Finds the skill that a program calls.
    async fn find_skill(&self, whose: SkillLookup, word: String) -> Result<(Skill, SkillBody), RequestRefusal> {
        let skills = self.skills.clone();
        let wanted = word.clone();
        let found = tokio::task::spawn_blocking(move || skills.find(&whose.scopes(), &wanted, None)).await;
        let found = found.map_err(|error| RequestRefusal::new("skill.failed", error.to_string()))?;
        found.map_err(|error| library_refusal(&error))?.ok_or_else(|| {
            RequestRefusal::new("skill.unknown", format!("there is no skill `{}`", shorten(&word)))
                .with_hint("`search(\"what it should do\")` finds skills too; `list(\"skills\")` names all of them")
        })
    }
}

/// A skill as a tool of the server `skills`. Its digest stands for exactly one program: what is approved is what runs.
pub(crate) fn skill_tool(skill: &Skill) -> Result<Arc<Tool>, RequestRefusal> {
    let mut definition = skill_definition(skill, None);
    // Version numbers start again after a skill was removed.
    definition.tags.push(skill.digest.to_string());
    let catalog = Catalog::new([skill_listing([definition])]);
    let tool = catalog.tools().first().cloned();
    tool.map(Arc::new)
        .ok_or_else(|| RequestRefusal::new("skill.failed", format!("`{}` is no name of a skill", skill.meta.name)))
}

/// The skills as the listing of a server.
pub(crate) fn skill_listing(tools: impl IntoIterator<Item = ToolDefinition>) -> ServerListing {
    ServerListing {
        server: SKILLS_SERVER.to_owned(),
        description: "Programs saved for later; each is called like a tool: `skills.name({…})`.".to_owned(),
        tools: tools.into_iter().collect(),
    }
}

/// The tool definition of a skill, with the reason if it is stale.
pub(crate) fn skill_definition(skill: &Skill, stale: Option<&str>) -> ToolDefinition {
    let meta = &skill.meta;
    let description = match stale {
        Some(why) => format!("STALE, cannot be used: {why}. {}", meta.description),
        None => meta.description.clone(),
    };
    ToolDefinition {
        name: meta.name.to_string(),
        title: Some(format!("{} (version {})", meta.name, skill.version)),
        description,
        input: meta.inputs.clone().unwrap_or_else(|| json!({ "type": "object" })),
        output: meta.outputs.clone(),
        hints: ServerHints::default(),
        tags: vec![skill.scope.name().to_owned()],
    }
}

/// A skill name from a program, short enough for a message.
fn shorten(word: &str) -> String {
    word.chars().filter(|one| !one.is_control()).take(80).collect()
}

fn library_refusal(error: &SkillError) -> RequestRefusal {
    let refusal = RequestRefusal::new(error.code(), error.to_string());
    match error.hint() {
        Some(hint) => refusal.with_hint(hint),
        None => refusal,
    }
}

#[cfg(test)]
mod tests;
