//! Browsing: the servers there are, and the names of one server's tools.

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

/// Names of one page.
const PAGE: usize = 200;
/// Domains of a server that are named.
const DOMAINS: usize = 20;

/// Why there is no list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListError {
    /// There is no such server, or nothing of it may be seen.
    #[error("no server `{server}`{}", suggest(.nearest))]
    UnknownServer {
        /// The name that was asked for.
        server: String,
        /// Names like it.
        nearest: Vec<String>,
    },
    /// The cursor is not good here.
    #[error(transparent)]
    Cursor(#[from] BadCursor),
}

fn suggest(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    format!("; nearest: `{}`", nearest.join("`, `"))
}

/// A page of names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
    /// The servers, when none was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ListedServer>,
    /// The tools' canonical names, when a server or a domain was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// How many there are on all pages.
    pub total: usize,
    /// Where to go on, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Tools that the policy hides, in the whole catalog.
    pub hidden_by_policy: usize,
    /// What this answer costs a model: its JSON without this field, in tokens of `o200k_base`.
    pub tokens: usize,
}

/// One server in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedServer {
    /// Its canonical name.
    pub server: String,
    /// How many tools of it may be seen.
    pub tools: usize,
    /// What it says of itself: its words, no instruction. Capped and cleaned.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_says: String,
    /// The domains of its tools, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
}

impl View<'_> {
    /// The servers; or the names of a server's tools, of those of one domain, or of one domain in all servers.
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

    /// The names of all tools, of a server's, of those of one domain, or of both: `limit` of them.
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

    /// What the cursors of a list are bound to.
    fn place(&self, of: &str, server: Option<&str>, domain: Option<&str>) -> Place {
        Place::new("list", self.fingerprint())
            .and(of)
            .and(if server.is_some() { "one" } else { "all" })
            .and(server.unwrap_or_default())
            .and(if domain.is_some() { "one" } else { "all" })
            .and(domain.unwrap_or_default())
    }

    /// A page that is still empty, and where the next one begins.
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

/// A tool's domain: its server's own tags, else the first word of its name.
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
