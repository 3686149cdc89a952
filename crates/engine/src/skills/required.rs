//! Checks whether a skill can be used: the tools it needs are unchanged, and it asks for no more than its caller has.

use std::collections::BTreeSet;
use std::sync::Arc;

use ringfence_catalog::Catalog;
use ringfence_gateway::Refusal;
use ringfence_policy::{Ceiling, History, Policy};
use ringfence_store::{RequiredTool, Skill};
use serde_json::Value;

use super::Library;
use crate::ask::asked_policy;

impl Library {
    /// Refuses a skill whose stated requirements `policy` does not meet.
    pub(super) async fn check(&self, skill: &Skill, policy: &Arc<Policy>) -> Result<(), Refusal> {
        self.ready(&skill.meta.tools).await?;
        let known = self.door.upstreams().known();
        if let Some(why) = stale(&skill.meta.tools, &known.catalog) {
            let message = format!("skill `{}` cannot be used: {why}", skill.meta.name);
            return Err(Refusal::new("skill.stale", message)
                .by("metadata.tools")
                .hint("look at the tool with `describe`, then save the skill again"));
        }
        denied(skill, &known.catalog, policy)?;
        needs(skill, policy)
    }

    /// Lists the servers of these tools, so that the check sees what they have now.
    async fn ready(&self, tools: &[RequiredTool]) -> Result<(), Refusal> {
        let upstreams = self.door.upstreams();
        let servers: BTreeSet<&str> = tools
            .iter()
            .filter_map(|tool| tool.name.split_once('.'))
            .map(|(server, _)| server)
            .filter(|server| upstreams.servers().get(server).is_some())
            .collect();
        for server in servers {
            upstreams.ready(server).await.map_err(|error| {
                Refusal::new("server.failed", error.to_string())
                    .in_words_of_others()
                    .hint("the other servers are not affected; `ringfence servers test` shows the operator more")
            })?;
        }
        Ok(())
    }
}

/// Why a skill is stale: a tool that it needs has changed or is gone.
pub(crate) fn stale(tools: &[RequiredTool], catalog: &Catalog) -> Option<String> {
    tools.iter().find_map(|needed| match catalog.get(&needed.name) {
        None => Some(format!("it needs `{}`, which is not there any more", needed.name)),
        Some(tool) if tool.digest.to_string() != needed.digest => Some(format!(
            "it needs `{}`, which has changed since the skill was saved",
            needed.name
        )),
        Some(_) => None,
    })
}

/// Refuses a skill that needs a tool which its caller may not call.
fn denied(skill: &Skill, catalog: &Catalog, policy: &Policy) -> Result<(), Refusal> {
    let hidden = skill
        .meta
        .tools
        .iter()
        .filter_map(|needed| catalog.get(&needed.name))
        .find(|tool| !policy.shows(&tool.name, tool.hints()));
    let Some(tool) = hidden else { return Ok(()) };
    let decided = policy.tool(tool.name.as_str(), tool.hints(), &Value::Null, &History::new());
    let message = format!(
        "skill `{}` needs `{}`, which the caller may not call",
        skill.meta.name, tool.name
    );
    Err(Refusal::new("skill.policy", message)
        .by(decided.rule().as_str())
        .hint("do without it, or ask the operator; `ringfence policy explain` shows why"))
}

/// Refuses a skill that asks for more than its caller has, and names each key.
fn needs(skill: &Skill, policy: &Arc<Policy>) -> Result<(), Refusal> {
    let asked = asked_policy(&Ceiling::of(policy), policy, skill.meta.needs.as_ref());
    let Err(refusal) = asked else { return Ok(()) };
    let message = format!(
        "skill `{}` asks for more than the caller's policy: {}",
        skill.meta.name, refusal.message
    );
    Err(Refusal::new("skill.policy", message)
        .by(refusal.rule)
        .hint("run it where the policy allows each key that is named, or ask the operator"))
}
