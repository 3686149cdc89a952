//! Skills: saved programs, found like tools and run like programs, under the rules of whoever calls them.
//!
//! A call of a skill is a call at the door of its own server, `skills`: decided, counted and written down like any other. What
//! answers it is an execution of its own (see [`nested`]).

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

/// How deep skills call each other.
pub(crate) const DEPTH: usize = 4;

/// Whose skills are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whose {
    pub(crate) principal: Principal,
    /// None where no session is meant.
    pub(crate) session: Option<SessionId>,
}

impl Whose {
    /// Those that a program of this session can use.
    pub(crate) fn of(session: &Session) -> Whose {
        Whose {
            principal: session.principal,
            session: Some(session.id),
        }
    }

    /// Where they are looked for: of one name, the first that is found counts.
    fn scopes(self) -> Vec<SkillScope> {
        let own = self.session.map(SkillScope::Session);
        own.into_iter()
            .chain([SkillScope::User(self.principal), SkillScope::Team])
            .collect()
    }
}

/// The skills of this home, and the tools that they need.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    skills: Skills,
    door: Arc<Gateway>,
    stocks: Stocks,
    /// What nobody is told of a skill.
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

    /// A skill as it is shown: whoever wrote it, others read what it says.
    fn told(&self, mut skill: Skill) -> Skill {
        let meta = &mut skill.meta;
        meta.description = self.sight.told(&meta.description);
        for schema in [&mut meta.inputs, &mut meta.outputs] {
            *schema = schema.take().map(|schema| self.sight.told_schema(schema));
        }
        skill
    }

    /// The skill that a program means, as a tool, if it may be used under `policy`.
    async fn usable(&self, whose: Whose, word: String, policy: &Arc<Policy>) -> Result<Arc<Tool>, Refusal> {
        let (skill, _) = self.find(whose, word).await?;
        let tool = tool_of(&skill)?;
        self.check(&skill, policy).await?;
        Ok(tool)
    }

    /// The skill that a program means.
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

/// A skill as a tool of the server `skills`, of whose digest there is one program alone: what is approved is what runs.
pub(crate) fn tool_of(skill: &Skill) -> Result<Arc<Tool>, Refusal> {
    let mut definition = definition(skill, None);
    // Versions are counted anew after a skill was removed.
    definition.tags.push(skill.digest.to_string());
    let catalog = Catalog::new([listing([definition])]);
    let tool = catalog.tools().first().cloned();
    tool.map(Arc::new)
        .ok_or_else(|| Refusal::new("skill.failed", format!("`{}` is no name of a skill", skill.meta.name)))
}

/// Skills as what a server offers.
pub(crate) fn listing(tools: impl IntoIterator<Item = Definition>) -> Listing {
    Listing {
        server: SKILLS.to_owned(),
        description: "Programs saved for later; each is called like a tool: `skills.name({…})`.".to_owned(),
        tools: tools.into_iter().collect(),
    }
}

/// What is said of a skill where tools are shown.
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

/// A program's word, short enough for a message.
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
