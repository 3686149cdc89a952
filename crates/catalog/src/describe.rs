//! Details of tools by name, at the requested level.

use serde::Serialize;
use thiserror::Error;

use crate::catalog::Catalog;
use crate::detail::{Detail, Shown};
use crate::fields::cut;
use crate::language::Language;
use crate::said;
use crate::tool::Tool;
use crate::view::{View, cost};
use crate::words::{grams, words};

/// The most tools of one answer.
const TOOLS: usize = 50;
/// The most names that are compared for each unknown tool: a program may call one unknown tool after the other.
const MAX_COMPARED: usize = 1000;
/// The most suggestions for an unknown name.
const SUGGESTIONS: usize = 3;
/// The least likeness of a suggestion, from 0 to 1.
const NEAR: f32 = 0.3;
/// The most bytes of a name that are compared.
const NAME: usize = 256;

/// The reason why tools cannot be described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DescribeError {
    /// The request has too many names.
    #[error("{given} tools are too many: at most {TOOLS} in one answer")]
    TooMany {
        /// The number of names that were given.
        given: usize,
    },
}

/// Details of the requested tools, and the names that were not found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Described {
    /// The tools that exist, in the requested order.
    pub tools: Vec<Shown>,
    /// Names that match no visible tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Unknown>,
    /// The number of tools in the whole catalog that the policy hides.
    pub hidden_by_policy: usize,
    /// The cost of this answer for a model: its JSON without this field, in tokens of `o200k_base`.
    pub tokens: usize,
}

/// A name that matches no tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// The name as it was given.
    pub name: String,
    /// Similar names, the most similar first.
    pub nearest: Vec<String>,
}

impl View<'_> {
    /// Describes these tools, named by canonical name, as a program writes them, or in the server's own spelling.
    pub fn describe(&self, tools: &[String], detail: Detail, language: Language) -> Result<Described, DescribeError> {
        if tools.len() > TOOLS {
            return Err(DescribeError::TooMany { given: tools.len() });
        }
        let mut described = Described {
            tools: Vec::new(),
            unknown: Vec::new(),
            hidden_by_policy: self.hidden,
            tokens: 0,
        };
        for name in tools {
            if let Some(tool) = self.find(name) {
                let shown = Shown::new(tool, detail, language, &self.noted(tool));
                if !described.tools.contains(&shown) {
                    described.tools.push(shown);
                }
            } else {
                described.unknown.push(Unknown {
                    name: said::full(cut(name, NAME)),
                    nearest: nearest(name, self.names()),
                });
            }
        }
        described.tokens = cost(&described);
        Ok(described)
    }

    fn find(&self, name: &str) -> Option<&Tool> {
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
    pub fn nearest(&self, server: &str, tool: &str, shown: impl Fn(&&Tool) -> bool) -> Vec<String> {
        let entry = self
            .servers()
            .iter()
            .find(|entry| entry.server == server || entry.ident == server);
        let tools = entry.map_or(0..self.tools().len(), |entry| entry.tools.clone());
        let tools = self.tools().get(tools).unwrap_or_default().iter();
        let tools = tools.take(MAX_COMPARED).filter(shown);
        let asked = (shape(cut(server, NAME)), shape(cut(tool, NAME)));
        most_alike(tools.map(|tool| {
            let likeness = overlap(&asked.1, &shape(tool.short()));
            let servers = overlap(&asked.0, &shape(tool.server()));
            // The tool's name decides; the server's name only breaks ties.
            let likeness = if likeness < NEAR { 0.0 } else { likeness + servers };
            (likeness, tool.name.as_str())
        }))
    }
}

/// The names most similar to `name`, by shared grams.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let asked = shape(cut(name, NAME));
    most_alike(names.map(|other| (overlap(&asked, &shape(other)), other)))
}

fn most_alike<'a>(names: impl Iterator<Item = (f32, &'a str)>) -> Vec<String> {
    let mut near: Vec<(f32, &str)> = names.filter(|(likeness, _)| *likeness >= NEAR).collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    near.into_iter()
        .take(SUGGESTIONS)
        .map(|(_, name)| name.to_owned())
        .collect()
}

fn shape(name: &str) -> Vec<u64> {
    let mut shape = Vec::new();
    words(name, |word| grams(word, |gram| shape.push(gram)));
    shape.sort_unstable();
    shape.dedup();
    shape
}

#[expect(clippy::cast_precision_loss, reason = "a name has few grams")]
fn overlap(one: &[u64], other: &[u64]) -> f32 {
    let both = one.iter().filter(|gram| other.binary_search(gram).is_ok()).count();
    2.0 * both as f32 / (one.len() + other.len()).max(1) as f32
}

#[cfg(test)]
mod tests;
