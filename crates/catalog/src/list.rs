//! Lists of servers, and of the names of their tools.

use std::collections::BTreeMap;

use serde::Serialize;
use thiserror::Error;

use crate::catalog::CatalogServer;
use crate::cursor::{BadCursor, CursorScope};
use crate::describe::nearest_names;
use crate::sanitize;
use crate::terms::for_each_word;
use crate::tool::Tool;
use crate::view::{CatalogView, ViewPart, token_cost};

/// The most names of one page.
const PAGE_SIZE: usize = 200;
/// The most domains that are listed for a server.
const MAX_DOMAINS: usize = 20;

/// The reason why a list is not available.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListError {
    /// There is no such server, or none of its tools is visible.
    #[error("no server `{server}`{}", format_suggestions(.nearest))]
    UnknownServer {
        /// The name that was requested.
        server: String,
        /// The server names most similar to it.
        nearest: Vec<String>,
    },
    /// The cursor is not valid for this list.
    #[error(transparent)]
    Cursor(#[from] BadCursor),
}

fn format_suggestions(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    format!("; nearest: `{}`", nearest.join("`, `"))
}

/// A page of servers or tool names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolListPage {
    /// The servers, if no server and no domain was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ListedServer>,
    /// The canonical names of tools, if a server or a domain was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The number of entries on all pages.
    pub total: usize,
    /// The cursor of the next page; `None` on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The number of tools in the whole catalog that the policy hides.
    pub hidden_by_policy: usize,
    /// The cost of this answer for a model: its JSON without this field, in tokens of `o200k_base`.
    pub tokens: usize,
}

/// One server in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedServer {
    /// The canonical name of the server.
    pub server: String,
    /// The number of its tools that are visible.
    pub tools: usize,
    /// The server's description, truncated and cleaned: a quotation, never an instruction.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_says: String,
    /// The domains of its tools, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
}

impl CatalogView<'_> {
    /// Lists the servers, or the tool names of a server, of one of its domains, or of a domain in all servers.
    pub fn list(
        &self,
        server: Option<&str>,
        domain: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<ToolListPage, ListError> {
        if server.is_some() || domain.is_some() {
            return self.list_tools(server, domain, PAGE_SIZE, cursor);
        }
        let servers = self.list_servers();
        let place = self.cursor_scope("servers", None, None);
        let from = place.decode(cursor)?;
        let mut listed = self.empty_page(&place, from, PAGE_SIZE, servers.len());
        listed.servers = servers.into_iter().skip(from).take(PAGE_SIZE).collect();
        listed.tokens = token_cost(&listed);
        Ok(listed)
    }

    /// Lists at most `limit` tool names: all, those of a server, of a domain, or of both.
    pub fn list_tools(
        &self,
        server: Option<&str>,
        domain: Option<&str>,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<ToolListPage, ListError> {
        let place = self.cursor_scope("tools", server, domain);
        let from = place.decode(cursor)?;
        let names = self.matching_names(server, domain)?;
        let mut listed = self.empty_page(&place, from, limit, names.len());
        listed.tools = names.into_iter().skip(from).take(limit).collect();
        listed.tokens = token_cost(&listed);
        Ok(listed)
    }

    /// The query that the cursors of a list are bound to.
    fn cursor_scope(&self, of: &str, server: Option<&str>, domain: Option<&str>) -> CursorScope {
        CursorScope::new("list", self.fingerprint())
            .with_part(of)
            .with_part(if server.is_some() { "one" } else { "all" })
            .with_part(server.unwrap_or_default())
            .with_part(if domain.is_some() { "one" } else { "all" })
            .with_part(domain.unwrap_or_default())
    }

    /// An empty page with the cursor of the next one.
    fn empty_page(&self, place: &CursorScope, from: usize, limit: usize, total: usize) -> ToolListPage {
        let next = from.saturating_add(limit);
        ToolListPage {
            servers: Vec::new(),
            tools: Vec::new(),
            total,
            cursor: (next < total).then(|| place.encode(next)),
            hidden_by_policy: self.hidden,
            tokens: 0,
        }
    }

    fn list_servers(&self) -> Vec<ListedServer> {
        let shown = |(part, entry): (&ViewPart<'_>, &CatalogServer)| {
            let tools: Vec<&Tool> = part.tools_of_server(entry).collect();
            (!tools.is_empty()).then(|| ListedServer {
                server: entry.server.clone(),
                tools: tools.len(),
                server_says: sanitize::summary(&entry.description),
                domains: server_domains(&tools),
            })
        };
        self.servers_with_parts().filter_map(shown).collect()
    }

    fn matching_names(&self, server: Option<&str>, domain: Option<&str>) -> Result<Vec<String>, ListError> {
        let seen: Vec<_> = self
            .servers_with_parts()
            .filter(|(part, entry)| part.tools_of_server(entry).next().is_some())
            .collect();
        let wanted: Vec<_> = match server {
            None => seen,
            Some(name) => {
                let one = seen
                    .iter()
                    .find(|(_, entry)| entry.server == name || entry.ident == name);
                vec![*one.ok_or_else(|| ListError::UnknownServer {
                    server: sanitize::summary(name),
                    nearest: nearest_names(name, seen.iter().map(|(_, entry)| entry.server.as_str())),
                })?]
            }
        };
        let tools = wanted.into_iter().flat_map(|(part, entry)| part.tools_of_server(entry));
        let named = tools.filter(|tool| domain.is_none_or(|domain| is_in_domain(tool, domain)));
        Ok(named.map(|tool| tool.name.as_str().to_owned()).collect())
    }
}

/// The domains of a tool: the tags of its server, otherwise the first word of its name.
fn tool_domains(tool: &Tool) -> Vec<String> {
    let tags: Vec<String> = tool
        .definition
        .tags
        .iter()
        .take(MAX_DOMAINS)
        .map(|tag| sanitize::summary(tag))
        .collect();
    if !tags.is_empty() {
        return tags;
    }
    let mut first = None;
    for_each_word(tool.short_name(), |word| {
        first.get_or_insert_with(|| word.to_owned());
    });
    first.into_iter().collect()
}

fn is_in_domain(tool: &Tool, domain: &str) -> bool {
    tool_domains(tool).iter().any(|one| one.eq_ignore_ascii_case(domain))
}

fn server_domains(tools: &[&Tool]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for domain in tools.iter().flat_map(|tool| tool_domains(tool)) {
        *counts.entry(domain).or_default() += 1;
    }
    let mut domains: Vec<(String, usize)> = counts.into_iter().collect();
    domains.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    domains
        .into_iter()
        .take(MAX_DOMAINS)
        .map(|(domain, _)| domain)
        .collect()
}

#[cfg(test)]
mod tests;
