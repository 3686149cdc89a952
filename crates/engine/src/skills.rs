//! Skills: saved programs, discovered like tools and run like programs, under the rules of their caller.
//!
//! A call of a skill goes to a server of its own, `skills`: it is authorized, counted and recorded like any other call. The answer comes
//! from an execution of its own (see [`nested`]).

pub(crate) mod kept;
pub(crate) mod nested;
mod required;
pub(crate) mod schema;
pub(crate) mod stock;

use std::sync::Arc;

use ringfence_catalog::{Catalog, Definition, Hints, Listing, Tool};
use ringfence_gateway::{Gateway, Refusal, Sight};
use ringfence_journal::{Principal, SessionId};
use ringfence_policy::{Policy, SKILLS};
use ringfence_store::{Skill, SkillBody, SkillError, SkillScope, Skills};
use serde_json::json;

use crate::session::Session;
use stock::Stocks;

/// How deep skills may call each other.
pub(crate) const DEPTH: usize = 4;

/// The principal and session whose skills are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whose {
    pub(crate) principal: Principal,
    /// None leaves out the skills of sessions.
    pub(crate) session: Option<SessionId>,
}

impl Whose {
    /// The skills that a program of this session can use.
    pub(crate) fn of(session: &Session) -> Whose {
        Whose {
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
pub(crate) struct Library {
    skills: Skills,
    door: Arc<Gateway>,
    stocks: Stocks,
    /// The rules that redact the texts of skills.
    sight: Arc<Sight>,
}

impl Library {
    pub(crate) fn new(skills: Skills, door: Arc<Gateway>, sight: Sight) -> Library {
        Library {
            skills,
            door,
            stocks: Stocks::default(),
            sight: Arc::new(sight),
        }
    }

    /// Redacts a skill's texts: they come from its author, and others read them.
    fn told(&self, mut skill: Skill) -> Skill {
        let meta = &mut skill.meta;
        meta.description = self.sight.told(&meta.description);
        for schema in [&mut meta.inputs, &mut meta.outputs] {
            *schema = schema.take().map(|schema| self.sight.told_schema(schema));
        }
        skill
    }

    /// The skill that a program calls, as a tool, if `policy` allows it.
    async fn usable(&self, whose: Whose, word: String, policy: &Arc<Policy>) -> Result<Arc<Tool>, Refusal> {
        let (skill, _) = self.find(whose, word).await?;
        let tool = tool_of(&skill)?;
        self.check(&skill, policy).await?;
        Ok(tool)
    }

    /// Finds the skill that a program calls.
    async fn find(&self, whose: Whose, word: String) -> Result<(Skill, SkillBody), Refusal> {
        let skills = self.skills.clone();
        let wanted = word.clone();
        let found = tokio::task::spawn_blocking(move || skills.find(&whose.scopes(), &wanted, None)).await;
        let found = found.map_err(|error| Refusal::new("skill.failed", error.to_string()))?;
        found.map_err(|error| unread(&error))?.ok_or_else(|| {
            Refusal::new("skill.unknown", format!("there is no skill `{}`", said(&word)))
                .hint("`search(\"what it should do\")` finds skills too; `list(\"skills\")` names all of them")
        })
    }
}

/// A skill as a tool of the server `skills`. Its digest stands for exactly one program: what is approved is what runs.
pub(crate) fn tool_of(skill: &Skill) -> Result<Arc<Tool>, Refusal> {
    let mut definition = definition(skill, None);
    // Version numbers start again after a skill was removed.
    definition.tags.push(skill.digest.to_string());
    let catalog = Catalog::new([listing([definition])]);
    let tool = catalog.tools().first().cloned();
    tool.map(Arc::new)
        .ok_or_else(|| Refusal::new("skill.failed", format!("`{}` is no name of a skill", skill.meta.name)))
}

/// The skills as the listing of a server.
pub(crate) fn listing(tools: impl IntoIterator<Item = Definition>) -> Listing {
    Listing {
        server: SKILLS.to_owned(),
        description: "Programs saved for later; each is called like a tool: `skills.name({…})`.".to_owned(),
        tools: tools.into_iter().collect(),
    }
}

/// The tool definition of a skill, with the reason if it is stale.
pub(crate) fn definition(skill: &Skill, stale: Option<&str>) -> Definition {
    let meta = &skill.meta;
    let description = match stale {
        Some(why) => format!("STALE, cannot be used: {why}. {}", meta.description),
        None => meta.description.clone(),
    };
    Definition {
        name: meta.name.to_string(),
        title: Some(format!("{} (version {})", meta.name, skill.version)),
        description,
        input: meta.inputs.clone().unwrap_or_else(|| json!({ "type": "object" })),
        output: meta.outputs.clone(),
        hints: Hints::default(),
        tags: vec![skill.scope.word().to_owned()],
    }
}

/// A skill name from a program, short enough for a message.
fn said(word: &str) -> String {
    word.chars().filter(|one| !one.is_control()).take(80).collect()
}

fn unread(error: &SkillError) -> Refusal {
    let refusal = Refusal::new(error.code(), error.to_string());
    match error.hint() {
        Some(hint) => refusal.hint(hint),
        None => refusal,
    }
}

#[cfg(test)]
mod tests;
