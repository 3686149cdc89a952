//! Checks whether a skill can be used: the tools it needs are unchanged, and it asks for no more than its caller has.

use std::collections::BTreeSet;
use std::sync::Arc;

use ringfence_catalog::Catalog;
use ringfence_gateway::RequestRefusal;
use ringfence_policy::{CallHistory, Ceiling, Policy};
use ringfence_store::{RequiredTool, Skill};
use serde_json::Value;

use super::SkillLibrary;
use crate::runs::request::request_policy;

impl SkillLibrary {
    /// Refuses a skill whose stated requirements `policy` does not meet.
    pub(super) async fn check_requirements(&self, skill: &Skill, policy: &Arc<Policy>) -> Result<(), RequestRefusal> {
        self.list_servers(&skill.meta.tools).await?;
        let known = self.gateway.upstreams().snapshot();
        if let Some(why) = stale_reason(&skill.meta.tools, &known.catalog) {
            let message = format!("skill `{}` cannot be used: {why}", skill.meta.name);
            return Err(RequestRefusal::new("skill.stale", message)
                .by_rule("metadata.tools")
                .with_hint("look at the tool with `describe`, then save the skill again"));
        }
        check_tools_allowed(skill, &known.catalog, policy)?;
        check_policy_needs(skill, policy)
    }

    /// Lists the servers of these tools, so that the check sees what they have now.
    async fn list_servers(&self, tools: &[RequiredTool]) -> Result<(), RequestRefusal> {
        let upstreams = self.gateway.upstreams();
        let servers: BTreeSet<&str> = tools
            .iter()
            .filter_map(|tool| tool.name.split_once('.'))
            .map(|(server, _)| server)
            .filter(|server| upstreams.servers().get(server).is_some())
            .collect();
        for server in servers {
            upstreams.ensure_connected(server).await.map_err(|error| {
                RequestRefusal::new("server.failed", error.to_string())
                    .with_foreign_text()
                    .with_hint("the other servers are not affected; `ringfence servers test` shows the operator more")
            })?;
        }
        Ok(())
    }
}

/// Why a skill is stale: a tool that it needs has changed or is gone.
pub(crate) fn stale_reason(tools: &[RequiredTool], catalog: &Catalog) -> Option<String> {
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
fn check_tools_allowed(skill: &Skill, catalog: &Catalog, policy: &Policy) -> Result<(), RequestRefusal> {
    let hidden = skill
        .meta
        .tools
        .iter()
        .filter_map(|needed| catalog.get(&needed.name))
        .find(|tool| !policy.shows_tool(&tool.name, tool.hints()));
    let Some(tool) = hidden else { return Ok(()) };
    let decided = policy.decide_tool(tool.name.as_str(), tool.hints(), &Value::Null, &CallHistory::new());
    let message = format!(
        "skill `{}` needs `{}`, which the caller may not call",
        skill.meta.name, tool.name
    );
    Err(RequestRefusal::new("skill.policy", message)
        .by_rule(decided.rule().as_str())
        .with_hint("do without it, or ask the operator; `ringfence policy explain` shows why"))
}

/// Refuses a skill that asks for more than its caller has, and names each key.
fn check_policy_needs(skill: &Skill, policy: &Arc<Policy>) -> Result<(), RequestRefusal> {
    let asked = request_policy(&Ceiling::from_policy(policy), policy, skill.meta.needs.as_ref());
    let Err(refusal) = asked else { return Ok(()) };
    let message = format!(
        "skill `{}` asks for more than the caller's policy: {}",
        skill.meta.name, refusal.message
    );
    Err(RequestRefusal::new("skill.policy", message)
        .by_rule(refusal.rule)
        .with_hint("run it where the policy allows each key that is named, or ask the operator"))
}
