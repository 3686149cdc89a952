//! Renders tools as typed functions, for the author of a program and for a type checker.
//!
//! Text from a server appears only in comments and types: truncated, marked as a quotation, and escaped so that it cannot end
//! them.

mod json;
mod prelude;
mod python;
mod text;
mod typescript;

use ringfence_policy::SKILLS;
use serde_json::Value;

use crate::language::Language;
use crate::schema::Types;
use crate::tool::Tool;

pub use prelude::prelude;

/// The remarks of the operator's policy in a tool's comment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// Whether a person must approve, such as `required`; `None` if nobody is asked.
    pub approval: Option<String>,
    /// Limits such as `10/min`.
    pub rates: Vec<String>,
    /// The treatment of personal data, such as `results have aliases for email`.
    pub pii: Option<String>,
}

/// A tool that a program may call.
#[derive(Debug, Clone)]
pub struct Offer<'a> {
    /// The tool in the catalog.
    pub tool: &'a Tool,
    /// The remarks of the policy.
    pub notes: Notes,
    /// The result schema that [`crate::observe`] derived; `None` if no result was observed.
    pub observed: Option<&'a Value>,
}

/// Renders one tool with its comment and the types that it needs.
pub fn stub(tool: &Tool, language: Language, notes: &Notes, observed: Option<&Value>) -> String {
    let offer = Offer {
        tool,
        notes: notes.clone(),
        observed,
    };
    match language {
        Language::TypeScript => typescript::namespace(std::slice::from_ref(&offer)),
        Language::Python => python::excerpt(&offer),
        Language::Json => json::stub(&offer),
    }
}

/// Renders all these tools as one text, with a namespace or module per server.
pub fn stubs(offers: &[Offer<'_>], language: Language) -> String {
    match language {
        Language::TypeScript => {
            let skilled = offers.iter().any(|offer| offer.tool.name.is_skill());
            let skills = if skilled {
                typescript::skills(offers)
            } else {
                String::new()
            };
            typescript::declarations(offers) + &skills
        }
        Language::Python => {
            let modules = servers(offers).into_iter().map(|server| {
                let header = server
                    .first()
                    .map_or_else(String::new, |offer| python::path(offer.tool));
                format!("# {header}\n{}", python::module(&server))
            });
            modules.collect::<Vec<_>>().join("\n")
        }
        Language::Json => json::stubs(offers),
    }
}

/// Renders these tools and the [`prelude`] as the files that a type checker reads: a relative path and a text each.
pub fn files(offers: &[Offer<'_>], language: Language) -> Vec<(String, String)> {
    match language {
        Language::TypeScript => vec![
            ("ringfence.d.ts".to_owned(), prelude(language).to_owned()),
            ("tools.d.ts".to_owned(), typescript::declarations(offers)),
            ("skills.d.ts".to_owned(), typescript::skills(offers)),
        ],
        Language::Python => {
            let servers = servers(offers);
            let mut files = vec![
                ("__builtins__.pyi".to_owned(), prelude(language).to_owned()),
                ("tools/__init__.pyi".to_owned(), python::package(&servers)),
            ];
            if !servers.iter().any(|server| is_skills(server)) {
                files.push((format!("{SKILLS}.pyi"), String::new()));
            }
            files.extend(servers.iter().filter_map(|server| {
                let first = server.first()?;
                Some((python::path(first.tool), python::module(server)))
            }));
            files
        }
        Language::Json => vec![("tools.json".to_owned(), json::stubs(offers))],
    }
}

/// Renders a tool on one line: name, parameters, result. The result is that of the server's schema, otherwise the observed one
/// with a mark.
pub fn signature(tool: &Tool, language: Language, observed: Option<&Value>) -> String {
    let is_learnt = tool.definition.output.is_none() && observed.is_some();
    let output = tool.definition.output.as_ref().or(observed);
    let (signature, mark) = match language {
        Language::TypeScript => (typescript::signature(tool, output), " // result as observed"),
        Language::Python => (python::signature(tool, output), "  # result as observed"),
        Language::Json => return json::signature(tool),
    };
    signature + if is_learnt { mark } else { "" }
}

/// Counts the parameters of a tool, those typed as unknown, and those with an unknown part.
pub fn vagueness(tool: &Tool) -> Vagueness {
    let types = Types::of(&tool.definition.input);
    let mut count = Vagueness::default();
    for field in types.arguments().iter().flat_map(|object| &object.fields) {
        count.parameters += 1;
        let shape = types.look(&field.shape);
        count.unknown += usize::from(*shape == crate::schema::Shape::Unknown);
        count.partly += usize::from(shape.vague());
    }
    count
}

/// The parameters of a tool whose types are unknown; see [`vagueness`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vagueness {
    /// The number of all parameters.
    pub parameters: usize,
    /// The number of parameters typed `unknown` or `Any`.
    pub unknown: usize,
    /// The number of parameters with an unknown part, such as a list of anything; wholly unknown ones are included.
    pub partly: usize,
}

/// Groups the offers by server, in the order of the servers' identifiers.
fn servers<'a, 'b>(offers: &'b [Offer<'a>]) -> Vec<Vec<&'b Offer<'a>>> {
    let mut servers: std::collections::BTreeMap<&str, Vec<&Offer<'_>>> = std::collections::BTreeMap::new();
    for offer in offers {
        servers.entry(&offer.tool.server_ident).or_default().push(offer);
    }
    servers.into_values().collect()
}

/// Whether these tools are skills.
fn is_skills(server: &[&Offer<'_>]) -> bool {
    server.first().is_some_and(|offer| offer.tool.name.is_skill())
}

/// The tags of a tool: the server's hints, then the remarks of the policy.
fn tags(offer: &Offer<'_>) -> Vec<String> {
    let hints = offer.tool.definition.hints;
    let mut tags = Vec::new();
    let mut tag = |set: bool, name: &str| {
        if set {
            tags.push(name.to_owned());
        }
    };
    tag(hints.read_only == Some(true), "@readonly");
    tag(
        hints.destructive == Some(true) && hints.read_only != Some(true),
        "@destructive",
    );
    tag(
        hints.idempotent == Some(true) && hints.read_only != Some(true),
        "@idempotent",
    );
    let Notes { approval, rates, pii } = &offer.notes;
    let noted = [
        ("@approval", approval.as_slice()),
        ("@rate", rates.as_slice()),
        ("@pii", pii.as_slice()),
    ];
    for (name, values) in noted {
        tags.extend(values.iter().map(|value| format!("{name} {}", text::clean(value))));
    }
    let unsaid = offer.tool.definition.output.is_none();
    if unsaid && offer.observed.is_some() {
        tags.push("@observed the result's type is learnt from earlier results".to_owned());
    }
    tags
}

/// The types of a tool's result: from the server's schema, otherwise from the observed one.
fn result(offer: &Offer<'_>) -> Option<Types> {
    offer.tool.definition.output.as_ref().or(offer.observed).map(Types::of)
}

/// The remark on the parts that the types leave out.
fn elisions(types: &Types) -> Option<String> {
    if types.elided.is_empty() {
        return None;
    }
    let parts: Vec<_> = types.elided.iter().copied().collect();
    Some(format!("Left out of the types: {}.", parts.join("; ")))
}

/// A field's tags and description on one line.
fn field_words(words: &crate::schema::Words, skip: &[&str]) -> String {
    let mut parts = vec![text::remark(&words.description)];
    for (tag, value) in words.tags.iter().filter(|(tag, _)| !skip.contains(tag)) {
        let value = text::clean(value);
        parts.push(if value.is_empty() {
            format!("@{tag}")
        } else {
            format!("@{tag} {value}")
        });
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// A short form of a type in TypeScript.
pub(crate) fn brief(types: &Types, shape: &crate::schema::Shape) -> String {
    typescript::brief(types, shape)
}

/// A field's name as text, quoted if necessary.
pub(crate) fn shown(name: &str) -> String {
    typescript::key(name)
}

/// Makes a name different from all taken ones.
fn unique(name: String, taken: &mut std::collections::BTreeSet<String>) -> String {
    let name = if name.is_empty() { "Type".to_owned() } else { name };
    let mut candidate = name.clone();
    let mut number = 1u32;
    while !taken.insert(candidate.clone()) {
        number += 1;
        candidate = format!("{name}{number}");
    }
    candidate
}

#[cfg(test)]
mod tests;
