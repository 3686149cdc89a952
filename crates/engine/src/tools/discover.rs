//! Tool discovery for programs, agents and the operator: the same queries get the same answers everywhere.

use std::collections::HashMap;
use std::sync::Arc;

use ringfence_catalog::{
    Catalog, CatalogView, DetailLevel, SearchPage, StubLanguage, StubNotes, Tool, ToolDetails, ToolExtras,
    ToolListPage, ToolSearch,
};
use ringfence_gateway::{CatalogSnapshot, Gateway};
use ringfence_policy::{ApprovalRequirement, Policy, SKILLS_SERVER};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::ErrorReport;
use crate::skills::skill_catalog::SkillCatalog;
use crate::skills::{SkillLibrary, SkillLookup};

/// The tools and skills that one policy shows.
#[derive(Debug, Clone)]
pub struct ToolDiscovery {
    gateway: Arc<Gateway>,
    library: SkillLibrary,
    /// The principal and session whose skills are shown too; none shows tools only.
    skill_lookup: Option<SkillLookup>,
    policy: Arc<Policy>,
    /// The language of signatures where a query names none.
    language: StubLanguage,
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// No tool server is configured and no skill is saved.
    #[error("there are no tools: no tool server is configured, and no skill is saved")]
    NoTools,
    /// The query is not valid.
    #[error("{0}")]
    Question(String),
}

/// A search query, as programs write it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolSearchRequest {
    query: Option<String>,
    #[serde(default)]
    intents: Vec<String>,
    task: Option<String>,
    detail: Option<DetailLevel>,
    language: Option<StubLanguage>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolDescribeRequest {
    tools: Vec<String>,
    detail: Option<DetailLevel>,
    language: Option<StubLanguage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolListRequest {
    server: Option<String>,
    domain: Option<String>,
    cursor: Option<String>,
}

impl ToolDiscovery {
    pub(crate) fn new(
        door: &Arc<Gateway>,
        library: &SkillLibrary,
        skill_lookup: Option<SkillLookup>,
        policy: Arc<Policy>,
        language: StubLanguage,
    ) -> ToolDiscovery {
        ToolDiscovery {
            gateway: Arc::clone(door),
            library: library.clone(),
            skill_lookup,
            policy,
            language,
        }
    }

    /// Searches the tools for each intent of a query.
    pub async fn find_tools(&self, search: &ToolSearch) -> Result<SearchPage, DiscoverError> {
        self.with_view(|view| view.search(search).map_err(invalid_query)).await
    }

    /// Describes the named tools.
    pub async fn describe_tools(
        &self,
        tools: &[String],
        detail: DetailLevel,
        language: StubLanguage,
    ) -> Result<ToolDetails, DiscoverError> {
        self.with_view(|view| view.describe(tools, detail, language).map_err(invalid_query))
            .await
    }

    /// Lists the tools, all or those of a server or a domain.
    pub async fn list_tools(
        &self,
        server: Option<&str>,
        domain: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<ToolListPage, DiscoverError> {
        self.with_view(|view| view.list(server, domain, cursor).map_err(invalid_query))
            .await
    }

    async fn with_view<T>(
        &self,
        ask: impl FnOnce(&CatalogView<'_>) -> Result<T, DiscoverError>,
    ) -> Result<T, DiscoverError> {
        let indexed = self.gateway.searchable_catalog().await;
        let stock = self.skill_catalog(indexed.snapshot()).await;
        if stock.is_none() && self.gateway.upstreams().servers().is_empty() {
            return Err(DiscoverError::NoTools);
        }
        let observed = self.gateway.observed_types().schemas_for(indexed.catalog());
        let noted = |tool: &Tool| ToolExtras {
            notes: policy_notes(&self.policy, tool),
            observed: observed.get(tool.name.as_str()),
        };
        let mut view = CatalogView::new(indexed.catalog(), &indexed.index, &self.policy);
        if let Some(stock) = &stock {
            view = view.with_catalog(&stock.catalog, stock.index(&indexed.index), &self.policy);
        }
        ask(&view.with_extras(&noted))
    }

    /// The skill catalog; none where it is empty or cannot be read: the tools are shown all the same.
    async fn skill_catalog(&self, known: &Arc<CatalogSnapshot>) -> Option<Arc<SkillCatalog>> {
        match self.library.catalog(self.skill_lookup?, known).await {
            Ok(stock) => Some(stock).filter(|stock| !stock.skills.is_empty()),
            Err(error) => {
                tracing::warn!(%error, "skills cannot be looked at");
                None
            }
        }
    }

    /// Answers a `search` of a program or a client: query and answer are JSON.
    pub async fn answer_search(&self, body: &str) -> Result<String, ErrorReport> {
        let mut ask: ToolSearchRequest = parse_body(body, "search")?;
        ask.intents.extend(ask.query.take());
        let search = ToolSearch {
            intents: ask.intents,
            task: ask.task,
            detail: ask.detail.unwrap_or_default(),
            language: ask.language.unwrap_or(self.language),
            limit: ask.limit,
            cursor: ask.cursor,
        };
        to_json_answer(self.find_tools(&search).await)
    }

    /// Answers a `describe` of a program or a client: query and answer are JSON.
    pub async fn answer_describe(&self, body: &str) -> Result<String, ErrorReport> {
        let ask: ToolDescribeRequest = parse_body(body, "describe")?;
        let language = ask.language.unwrap_or(self.language);
        to_json_answer(
            self.describe_tools(&ask.tools, ask.detail.unwrap_or(DetailLevel::Full), language)
                .await,
        )
    }

    /// Answers a `list` of a program or a client: query and answer are JSON.
    pub async fn answer_list(&self, body: &str) -> Result<String, ErrorReport> {
        let ask: ToolListRequest = parse_body(body, "list")?;
        to_json_answer(
            self.list_tools(ask.server.as_deref(), ask.domain.as_deref(), ask.cursor.as_deref())
                .await,
        )
    }

    /// What a program is type-checked against: the stubs of each server that the source names.
    pub(crate) async fn program_stubs(&self, language: StubLanguage, source: &str) -> Vec<(String, String)> {
        let known = self.gateway.catalog_snapshot().await;
        let observed = self.gateway.observed_types().schemas_for(&known.catalog);
        let mut offers = tool_offers(&known.catalog, &self.policy, &observed, |server| {
            source.contains(server)
        });
        let stock = if source.contains(SKILLS_SERVER) {
            self.skill_catalog(&known).await
        } else {
            None
        };
        let unobserved = HashMap::new();
        if let Some(stock) = &stock {
            offers.extend(self::tool_offers(&stock.catalog, &self.policy, &unobserved, |_| true));
        }
        ringfence_catalog::stub_files(&offers, language)
    }
}

/// The tools of the wanted servers, as `policy` offers them.
pub fn tool_offers<'a, S: std::hash::BuildHasher>(
    catalog: &'a Catalog,
    policy: &Policy,
    observed: &'a HashMap<String, Value, S>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<ringfence_catalog::OfferedTool<'a>> {
    let servers = catalog
        .servers()
        .iter()
        .filter(|entry| wanted(&entry.ident) || wanted(&entry.server));
    let tools = servers.flat_map(|entry| catalog.tools().get(entry.tools.clone()).unwrap_or_default());
    tools
        .filter(|tool| policy.shows_tool(&tool.name, tool.hints()))
        .map(|tool| ringfence_catalog::OfferedTool {
            tool,
            notes: policy_notes(policy, tool),
            observed: observed.get(tool.name.as_str()),
        })
        .collect()
}

/// What the policy says of a tool, for the comment in its stub.
pub fn policy_notes(policy: &Policy, tool: &Tool) -> StubNotes {
    let outlook = policy.evaluate_statically(&tool.name, tool.hints());
    StubNotes {
        approval: (outlook.approval != ApprovalRequirement::Never).then(|| outlook.approval.to_string()),
        rates: outlook.rates.iter().map(ToString::to_string).collect(),
        pii: outlook.pii.map(|pii| pii.to_string()),
    }
}

fn invalid_query(error: impl std::error::Error) -> DiscoverError {
    DiscoverError::Question(error.to_string())
}

fn parse_body<T: serde::de::DeserializeOwned>(body: &str, what: &str) -> Result<T, ErrorReport> {
    serde_json::from_str(body).map_err(|error| ErrorReport {
        code: "tool.arguments".to_owned(),
        message: format!("`{what}` cannot be asked so: {error}"),
        rule: None,
        hint: Some(
            match what {
                "search" => {
                    "search(\"what should be done\"), or search({ intents: [\"…\"], task, detail, limit, cursor })"
                }
                "describe" => "describe(\"server.tool\"), or describe({ tools: [\"…\"], detail, language })",
                _ => "list(), list(\"server\"), or list({ server, domain, cursor })",
            }
            .to_owned(),
        ),
    })
}

fn to_json_answer(answer: Result<impl Serialize, DiscoverError>) -> Result<String, ErrorReport> {
    let report = |code: &str, message: String| ErrorReport {
        code: code.to_owned(),
        message,
        rule: None,
        hint: None,
    };
    match answer {
        Ok(answer) => serde_json::to_string(&answer).map_err(|error| report("tool.result", error.to_string())),
        Err(error @ DiscoverError::NoTools) => Err(ErrorReport {
            hint: Some("tool servers are named in `ringfence.yaml`".to_owned()),
            ..report("tools.none", error.to_string())
        }),
        Err(error) => Err(report("tool.arguments", error.to_string())),
    }
}
