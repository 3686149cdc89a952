//! Lists of servers, and of the names of their tools.

use std::collections::BTreeMap;

use serde::Serialize;
use thiserror::Error;

use crate::catalog::Entry;
use crate::cursor::{BadCursor, Place};
use crate::describe::nearest;
use crate::said;
use crate::tool::Tool;
use crate::view::{Part, View, cost};
use crate::words::words;

/// The most names of one page.
const PAGE: usize = 200;
/// The most domains that are listed for a server.
const DOMAINS: usize = 20;

/// The reason why a list is not available.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListError {
    /// There is no such server, or none of its tools is visible.
    #[error("no server `{server}`{}", suggest(.nearest))]
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

fn suggest(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    format!("; nearest: `{}`", nearest.join("`, `"))
}

/// A page of servers or tool names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
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

impl View<'_> {
    /// Lists the servers, or the tool names of a server, of one of its domains, or of a domain in all servers.
    pub fn list(&self, server: Option<&str>, domain: Option<&str>, cursor: Option<&str>) -> Result<Listed, ListError> {
        if server.is_some() || domain.is_some() {
            return self.tools(server, domain, PAGE, cursor);
        }
        let servers = self.servers();
        let place = self.place("servers", None, None);
        let from = place.read(cursor)?;
        let mut listed = self.listed(&place, from, PAGE, servers.len());
        listed.servers = servers.into_iter().skip(from).take(PAGE).collect();
        listed.tokens = cost(&listed);
        Ok(listed)
    }

    /// Lists at most `limit` tool names: all, those of a server, of a domain, or of both.
    pub fn tools(
        &self,
        server: Option<&str>,
        domain: Option<&str>,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Listed, ListError> {
        let place = self.place("tools", server, domain);
        let from = place.read(cursor)?;
        let names = self.names_of(server, domain)?;
        let mut listed = self.listed(&place, from, limit, names.len());
        listed.tools = names.into_iter().skip(from).take(limit).collect();
        listed.tokens = cost(&listed);
        Ok(listed)
    }

    /// The query that the cursors of a list are bound to.
    fn place(&self, of: &str, server: Option<&str>, domain: Option<&str>) -> Place {
        Place::new("list", self.fingerprint())
            .and(of)
            .and(if server.is_some() { "one" } else { "all" })
            .and(server.unwrap_or_default())
            .and(if domain.is_some() { "one" } else { "all" })
            .and(domain.unwrap_or_default())
    }

    /// An empty page with the cursor of the next one.
    fn listed(&self, place: &Place, from: usize, limit: usize, total: usize) -> Listed {
        let next = from.saturating_add(limit);
        Listed {
            servers: Vec::new(),
            tools: Vec::new(),
            total,
            cursor: (next < total).then(|| place.write(next)),
            hidden_by_policy: self.hidden,
            tokens: 0,
        }
    }

    fn servers(&self) -> Vec<ListedServer> {
        let shown = |(part, entry): (&Part<'_>, &Entry)| {
            let tools: Vec<&Tool> = part.of_server(entry).collect();
            (!tools.is_empty()).then(|| ListedServer {
                server: entry.server.clone(),
                tools: tools.len(),
                server_says: said::summary(&entry.description),
                domains: domains(&tools),
            })
        };
        self.entries().filter_map(shown).collect()
    }

    fn names_of(&self, server: Option<&str>, domain: Option<&str>) -> Result<Vec<String>, ListError> {
        let seen: Vec<_> = self
            .entries()
            .filter(|(part, entry)| part.of_server(entry).next().is_some())
            .collect();
        let wanted: Vec<_> = match server {
            None => seen,
            Some(name) => {
                let one = seen
                    .iter()
                    .find(|(_, entry)| entry.server == name || entry.ident == name);
                vec![*one.ok_or_else(|| ListError::UnknownServer {
                    server: said::summary(name),
                    nearest: nearest(name, seen.iter().map(|(_, entry)| entry.server.as_str())),
                })?]
            }
        };
        let tools = wanted.into_iter().flat_map(|(part, entry)| part.of_server(entry));
        let named = tools.filter(|tool| domain.is_none_or(|domain| is_of(tool, domain)));
        Ok(named.map(|tool| tool.name.as_str().to_owned()).collect())
    }
}

/// The domains of a tool: the tags of its server, otherwise the first word of its name.
fn domains_of(tool: &Tool) -> Vec<String> {
    let tags: Vec<String> = tool
        .definition
        .tags
        .iter()
        .take(DOMAINS)
        .map(|tag| said::summary(tag))
        .collect();
    if !tags.is_empty() {
        return tags;
    }
    let mut first = None;
    words(tool.short(), |word| {
        first.get_or_insert_with(|| word.to_owned());
    });
    first.into_iter().collect()
}

fn is_of(tool: &Tool, domain: &str) -> bool {
    domains_of(tool).iter().any(|one| one.eq_ignore_ascii_case(domain))
}

fn domains(tools: &[&Tool]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for domain in tools.iter().flat_map(|tool| domains_of(tool)) {
        *counts.entry(domain).or_default() += 1;
    }
    let mut domains: Vec<(String, usize)> = counts.into_iter().collect();
    domains.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    domains.into_iter().take(DOMAINS).map(|(domain, _)| domain).collect()
}

#[cfg(test)]
mod tests;
