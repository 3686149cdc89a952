//! Details of tools by name, at the requested level.

use serde::Serialize;
use thiserror::Error;

use crate::catalog::Catalog;
use crate::detail::{DetailLevel, ToolEntry};
use crate::fields::truncate_bytes;
use crate::language::StubLanguage;
use crate::sanitize;
use crate::terms::{for_each_gram, for_each_word};
use crate::tool::Tool;
use crate::view::{CatalogView, token_cost};

/// The most tools of one answer.
const MAX_TOOLS: usize = 50;
/// The most names that are compared for each unknown tool: a program may call one unknown tool after the other.
const MAX_COMPARED: usize = 1000;
/// The most suggestions for an unknown name.
const MAX_SUGGESTIONS: usize = 3;
/// The least likeness of a suggestion, from 0 to 1.
const MIN_LIKENESS: f32 = 0.3;
/// The most bytes of a name that are compared.
const MAX_NAME_BYTES: usize = 256;

/// The reason why tools cannot be described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DescribeError {
    /// The request has too many names.
    #[error("{given} tools are too many: at most {MAX_TOOLS} in one answer")]
    TooMany {
        /// The number of names that were given.
        given: usize,
    },
}

/// Details of the requested tools, and the names that were not found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDetails {
    /// The tools that exist, in the requested order.
    pub tools: Vec<ToolEntry>,
    /// Names that match no visible tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownToolName>,
    /// The number of tools in the whole catalog that the policy hides.
    pub hidden_by_policy: usize,
    /// The cost of this answer for a model: its JSON without this field, in tokens of `o200k_base`.
    pub tokens: usize,
}

/// A name that matches no tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnknownToolName {
    /// The name as it was given.
    pub name: String,
    /// Similar names, the most similar first.
    pub nearest: Vec<String>,
}

impl CatalogView<'_> {
    /// Describes these tools, named by canonical name, as a program writes them, or in the server's own spelling.
    pub fn describe(
        &self,
        tools: &[String],
        detail: DetailLevel,
        language: StubLanguage,
    ) -> Result<ToolDetails, DescribeError> {
        if tools.len() > MAX_TOOLS {
            return Err(DescribeError::TooMany { given: tools.len() });
        }
        let mut described = ToolDetails {
            tools: Vec::new(),
            unknown: Vec::new(),
            hidden_by_policy: self.hidden,
            tokens: 0,
        };
        for name in tools {
            if let Some(tool) = self.find_tool(name) {
                let shown = ToolEntry::new(tool, detail, language, &self.extras(tool));
                if !described.tools.contains(&shown) {
                    described.tools.push(shown);
                }
            } else {
                described.unknown.push(UnknownToolName {
                    name: sanitize::clean_text(truncate_bytes(name, MAX_NAME_BYTES)),
                    nearest: nearest_names(name, self.names()),
                });
            }
        }
        described.tokens = token_cost(&described);
        Ok(described)
    }

    fn find_tool(&self, name: &str) -> Option<&Tool> {
        let name = name.strip_prefix("tools.").unwrap_or(name);
        let (server, tool) = name.split_once('.')?;
        self.parts.iter().find_map(|part| {
            let place = part.catalog.position(server, tool)?;
            part.is_visible(place)
                .then(|| part.catalog.tools().get(place))
                .flatten()
        })
    }
}

impl Catalog {
    /// The names most similar to a missing tool's name, among those that `shown` accepts: tools of the named server, or of all
    /// servers if there is no such server.
    pub fn nearest_tools(&self, server: &str, tool: &str, shown: impl Fn(&&Tool) -> bool) -> Vec<String> {
        let entry = self
            .servers()
            .iter()
            .find(|entry| entry.server == server || entry.ident == server);
        let tools = entry.map_or(0..self.tools().len(), |entry| entry.tools.clone());
        let tools = self.tools().get(tools).unwrap_or_default().iter();
        let tools = tools.take(MAX_COMPARED).filter(shown);
        let asked = (
            name_grams(truncate_bytes(server, MAX_NAME_BYTES)),
            name_grams(truncate_bytes(tool, MAX_NAME_BYTES)),
        );
        most_alike(tools.map(|tool| {
            let likeness = gram_overlap(&asked.1, &name_grams(tool.short_name()));
            let servers = gram_overlap(&asked.0, &name_grams(tool.server()));
            // The tool's name decides; the server's name only breaks ties.
            let likeness = if likeness < MIN_LIKENESS {
                0.0
            } else {
                likeness + servers
            };
            (likeness, tool.name.as_str())
        }))
    }
}

/// The names most similar to `name`, by shared grams.
pub(crate) fn nearest_names<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let asked = name_grams(truncate_bytes(name, MAX_NAME_BYTES));
    most_alike(names.map(|other| (gram_overlap(&asked, &name_grams(other)), other)))
}

fn most_alike<'a>(names: impl Iterator<Item = (f32, &'a str)>) -> Vec<String> {
    let mut near: Vec<(f32, &str)> = names.filter(|(likeness, _)| *likeness >= MIN_LIKENESS).collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    near.into_iter()
        .take(MAX_SUGGESTIONS)
        .map(|(_, name)| name.to_owned())
        .collect()
}

fn name_grams(name: &str) -> Vec<u64> {
    let mut shape = Vec::new();
    for_each_word(name, |word| for_each_gram(word, |gram| shape.push(gram)));
    shape.sort_unstable();
    shape.dedup();
    shape
}

#[expect(clippy::cast_precision_loss, reason = "a name has few grams")]
fn gram_overlap(one: &[u64], other: &[u64]) -> f32 {
    let both = one.iter().filter(|gram| other.binary_search(gram).is_ok()).count();
    2.0 * both as f32 / (one.len() + other.len()).max(1) as f32
}

#[cfg(test)]
mod tests;
