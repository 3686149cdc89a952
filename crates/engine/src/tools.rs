//! The tools and skills that programs and clients call.

use std::fmt;
use std::sync::Arc;

use ringfence_catalog::{StubLanguage, ToolDefinition};
use ringfence_gateway::{Gateway, ObservedTypes, RedactionRules, ServerCache, Spawner, UpstreamOptions, Upstreams};
use ringfence_journal::{Principal, SessionId};
use ringfence_policy::{Policy, ToolPattern};
use ringfence_sandbox::{JobLanguage, RunProgram};
use ringfence_store::Store;

use crate::config::{EngineConfig, EngineOpenError};
use crate::sandboxed_server::SandboxedServers;
use crate::sessions::context::ExecutionContext;
use crate::skills::{SkillLibrary, SkillLookup};
use crate::tools::discover::ToolDiscovery;

pub(crate) mod discover;
pub(crate) mod past_calls;

/// A tool that clients can call directly.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectTool {
    /// The tool's full name, `server.tool`.
    pub name: String,
    /// The definition that its server gives.
    pub definition: ToolDefinition,
}

/// The tools and skills that programs call.
pub struct Tools {
    pub(crate) config: Arc<EngineConfig>,
    /// The gateway of all calls. It exists without tool servers too: skills are called through it.
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) library: SkillLibrary,
}

impl fmt::Debug for Tools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tools").finish_non_exhaustive()
    }
}

impl Tools {
    /// Opens the gateway to the configured servers, and the skills.
    pub(crate) fn open(
        config: &Arc<EngineConfig>,
        store: &Arc<Store>,
        servers: &Arc<SandboxedServers>,
    ) -> Result<Tools, EngineOpenError> {
        let options = UpstreamOptions {
            spawner: Some(Arc::clone(servers) as Arc<dyn Spawner>),
            ..UpstreamOptions::new(Arc::clone(&config.environment))
        };
        let upstreams = Upstreams::new(config.servers.clone(), ServerCache::new(&config.home), options);
        let gateway = Arc::new(Gateway::new(upstreams, ObservedTypes::open(&config.home)));
        let rules = config
            .serve
            .as_ref()
            .map(|front| RedactionRules::from_policy(&front.policy));
        let rules = rules.unwrap_or_else(RedactionRules::default_rules)?;
        Ok(Tools {
            library: SkillLibrary::new(store.skills(), Arc::clone(&gateway), rules),
            config: Arc::clone(config),
            gateway,
        })
    }

    /// The gateway that all calls of programs go through.
    pub(crate) fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// The gateway; none where no tool servers are configured.
    pub fn tool_gateway(&self) -> Option<&Arc<Gateway>> {
        Some(&self.gateway).filter(|_| !self.config.servers.is_empty())
    }

    /// The tools and skills that `policy` shows to `who`, and to a session if one is named.
    pub fn discover(
        &self,
        who: Principal,
        session: Option<SessionId>,
        policy: Arc<Policy>,
        language: StubLanguage,
    ) -> ToolDiscovery {
        let whose = SkillLookup {
            principal: who,
            session,
        };
        ToolDiscovery::new(&self.gateway, &self.library, Some(whose), policy, language)
    }

    /// The same for a program of a session, under the policy of its execution.
    pub(crate) fn discover_in(&self, session: &ExecutionContext, language: StubLanguage) -> ToolDiscovery {
        let whose = Some(SkillLookup::for_context(session));
        ToolDiscovery::new(
            &self.gateway,
            &self.library,
            whose,
            Arc::clone(&session.policy),
            language,
        )
    }

    /// The tools that match these patterns and that the policy shows.
    pub async fn direct_tools(&self, patterns: &[ToolPattern]) -> Vec<DirectTool> {
        let (Some(gateway), Some(front)) = (self.tool_gateway(), &self.config.serve) else {
            return Vec::new();
        };
        let known = gateway.catalog_snapshot().await;
        let tools = known.catalog.tools().iter();
        let chosen = tools.filter(|tool| patterns.iter().any(|pattern| pattern.matches(&tool.name)));
        chosen
            .filter(|tool| front.policy.shows_tool(&tool.name, tool.hints()))
            .map(|tool| DirectTool {
                name: tool.name.as_str().to_owned(),
                definition: tool.definition.clone(),
            })
            .collect()
    }

    /// Whether calls under a policy can need an approval. Only tools of servers change.
    pub(crate) fn may_need_approval(&self, policy: &Policy) -> bool {
        policy.may_ask() || self.tool_gateway().is_some() && policy.may_ask_for_drift()
    }
}

/// The language of its stubs; none where it cannot call tools.
pub(crate) fn stub_language(program: &RunProgram) -> Option<StubLanguage> {
    match program {
        RunProgram::Code {
            language: JobLanguage::Python,
            ..
        }
        | RunProgram::Function {
            language: JobLanguage::Python,
            ..
        } => Some(StubLanguage::Python),
        RunProgram::Code { .. } | RunProgram::Function { .. } => Some(StubLanguage::TypeScript),
        RunProgram::Shell { .. } | RunProgram::Named(_) => None,
    }
}
