//! Tool discovery for programs, agents and the operator: the same queries get the same answers everywhere.

use std::collections::HashMap;
use std::sync::Arc;

use ringfence_catalog::{Catalog, Described, Detail, Found, Language, Listed, Noted, Notes, Search, Tool, View};
use ringfence_gateway::{Gateway, Known};
use ringfence_policy::{Approval, Policy, SKILLS};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::execution::ErrorReport;
use crate::skills::stock::Stock;
use crate::skills::{Library, Whose};

/// The tools and skills that one policy shows.
#[derive(Debug, Clone)]
pub struct Discover {
    door: Arc<Gateway>,
    library: Library,
    /// The principal and session whose skills are shown too; none shows tools only.
    whose: Option<Whose>,
    policy: Arc<Policy>,
    /// The language of signatures where a query names none.
    language: Language,
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
struct SearchAsk {
    query: Option<String>,
    #[serde(default)]
    intents: Vec<String>,
    task: Option<String>,
    detail: Option<Detail>,
    language: Option<Language>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribeAsk {
    tools: Vec<String>,
    detail: Option<Detail>,
    language: Option<Language>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListAsk {
    server: Option<String>,
    domain: Option<String>,
    cursor: Option<String>,
}

impl Discover {
    pub(crate) fn new(
        door: &Arc<Gateway>,
        library: &Library,
        whose: Option<Whose>,
        policy: Arc<Policy>,
        language: Language,
    ) -> Discover {
        Discover {
            door: Arc::clone(door),
            library: library.clone(),
            whose,
            policy,
            language,
        }
    }

    /// Searches the tools for each intent of a query.
    pub async fn find(&self, search: &Search) -> Result<Found, DiscoverError> {
        self.look(|view| view.search(search).map_err(question)).await
    }

    /// Describes the named tools.
    pub async fn detail(
        &self,
        tools: &[String],
        detail: Detail,
        language: Language,
    ) -> Result<Described, DiscoverError> {
        self.look(|view| view.describe(tools, detail, language).map_err(question))
            .await
    }

    /// Lists the tools, all or those of a server or a domain.
    pub async fn browse(
        &self,
        server: Option<&str>,
        domain: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Listed, DiscoverError> {
        self.look(|view| view.list(server, domain, cursor).map_err(question))
            .await
    }

    async fn look<T>(&self, ask: impl FnOnce(&View<'_>) -> Result<T, DiscoverError>) -> Result<T, DiscoverError> {
        let indexed = self.door.indexed().await;
        let stock = self.stock(indexed.known()).await;
        if stock.is_none() && self.door.upstreams().servers().is_empty() {
            return Err(DiscoverError::NoTools);
        }
        let observed = self.door.learnt().known(indexed.catalog());
        let noted = |tool: &Tool| Noted {
            notes: notes(&self.policy, tool),
            observed: observed.get(tool.name.as_str()),
        };
        let mut view = View::new(indexed.catalog(), &indexed.index, &self.policy);
        if let Some(stock) = &stock {
            view = view.beside(&stock.catalog, stock.index(&indexed.index), &self.policy);
        }
        ask(&view.noting(&noted))
    }

    /// The skill catalog; none where it is empty or cannot be read: the tools are shown all the same.
    async fn stock(&self, known: &Arc<Known>) -> Option<Arc<Stock>> {
        match self.library.stock(self.whose?, known).await {
            Ok(stock) => Some(stock).filter(|stock| !stock.skills.is_empty()),
            Err(error) => {
                tracing::warn!(%error, "skills cannot be looked at");
                None
            }
        }
    }

    /// Answers a `search` of a program or a client: query and answer are JSON.
    pub async fn search(&self, body: &str) -> Result<String, ErrorReport> {
        let mut ask: SearchAsk = read(body, "search")?;
        ask.intents.extend(ask.query.take());
        let search = Search {
            intents: ask.intents,
            task: ask.task,
            detail: ask.detail.unwrap_or_default(),
            language: ask.language.unwrap_or(self.language),
            limit: ask.limit,
            cursor: ask.cursor,
        };
        told(self.find(&search).await)
    }

    /// Answers a `describe` of a program or a client: query and answer are JSON.
    pub async fn describe(&self, body: &str) -> Result<String, ErrorReport> {
        let ask: DescribeAsk = read(body, "describe")?;
        let language = ask.language.unwrap_or(self.language);
        told(
            self.detail(&ask.tools, ask.detail.unwrap_or(Detail::Full), language)
                .await,
        )
    }

    /// Answers a `list` of a program or a client: query and answer are JSON.
    pub async fn list(&self, body: &str) -> Result<String, ErrorReport> {
        let ask: ListAsk = read(body, "list")?;
        told(
            self.browse(ask.server.as_deref(), ask.domain.as_deref(), ask.cursor.as_deref())
                .await,
        )
    }

    /// What a program is type-checked against: the stubs of each server that the source names.
    pub(crate) async fn stubs(&self, language: Language, source: &str) -> Vec<(String, String)> {
        let known = self.door.known().await;
        let observed = self.door.learnt().known(&known.catalog);
        let mut offers = offers(&known.catalog, &self.policy, &observed, |server| {
            source.contains(server)
        });
        let stock = if source.contains(SKILLS) {
            self.stock(&known).await
        } else {
            None
        };
        let unobserved = HashMap::new();
        if let Some(stock) = &stock {
            offers.extend(self::offers(&stock.catalog, &self.policy, &unobserved, |_| true));
        }
        ringfence_catalog::files(&offers, language)
    }
}

/// The tools of the wanted servers, as `policy` offers them.
pub fn offers<'a, S: std::hash::BuildHasher>(
    catalog: &'a Catalog,
    policy: &Policy,
    observed: &'a HashMap<String, Value, S>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<ringfence_catalog::Offer<'a>> {
    let servers = catalog
        .servers()
        .iter()
        .filter(|entry| wanted(&entry.ident) || wanted(&entry.server));
    let tools = servers.flat_map(|entry| catalog.tools().get(entry.tools.clone()).unwrap_or_default());
    tools
        .filter(|tool| policy.shows(&tool.name, tool.hints()))
        .map(|tool| ringfence_catalog::Offer {
            tool,
            notes: notes(policy, tool),
            observed: observed.get(tool.name.as_str()),
        })
        .collect()
}

/// What the policy says of a tool, for the comment in its stub.
pub fn notes(policy: &Policy, tool: &Tool) -> Notes {
    let outlook = policy.outlook(&tool.name, tool.hints());
    Notes {
        approval: (outlook.approval != Approval::Never).then(|| outlook.approval.to_string()),
        rates: outlook.rates.iter().map(ToString::to_string).collect(),
        pii: outlook.pii.map(|pii| pii.to_string()),
    }
}

fn question(error: impl std::error::Error) -> DiscoverError {
    DiscoverError::Question(error.to_string())
}

fn read<T: serde::de::DeserializeOwned>(body: &str, what: &str) -> Result<T, ErrorReport> {
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

fn told(answer: Result<impl Serialize, DiscoverError>) -> Result<String, ErrorReport> {
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
