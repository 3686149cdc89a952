//! Renders tools as typed functions, for the author of a program and for a type checker.
//!
//! Text from a server appears only in comments and types: truncated, marked as a quotation, and escaped so that it cannot end
//! them.

mod json;
mod prelude;
mod python;
mod text;
mod typescript;

use ringfence_policy::SKILLS_SERVER;
use serde_json::Value;

use crate::language::StubLanguage;
use crate::schema::SchemaTypes;
use crate::tool::Tool;

pub use prelude::prelude;

/// The remarks of the operator's policy in a tool's comment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StubNotes {
    /// Whether a person must approve, such as `required`; `None` if nobody is asked.
    pub approval: Option<String>,
    /// Limits such as `10/min`.
    pub rates: Vec<String>,
    /// The treatment of personal data, such as `results have aliases for email`.
    pub pii: Option<String>,
}

/// A tool that a program may call.
#[derive(Debug, Clone)]
pub struct OfferedTool<'a> {
    /// The tool in the catalog.
    pub tool: &'a Tool,
    /// The remarks of the policy.
    pub notes: StubNotes,
    /// The result schema that [`crate::observe`] derived; `None` if no result was observed.
    pub observed: Option<&'a Value>,
}

/// Renders one tool with its comment and the types that it needs.
pub fn render_stub(tool: &Tool, language: StubLanguage, notes: &StubNotes, observed: Option<&Value>) -> String {
    let offer = OfferedTool {
        tool,
        notes: notes.clone(),
        observed,
    };
    match language {
        StubLanguage::TypeScript => typescript::render_namespace(std::slice::from_ref(&offer)),
        StubLanguage::Python => python::render_excerpt(&offer),
        StubLanguage::Json => json::render_stub(&offer),
    }
}

/// Renders all these tools as one text, with a namespace or module per server.
pub fn render_stubs(offers: &[OfferedTool<'_>], language: StubLanguage) -> String {
    match language {
        StubLanguage::TypeScript => {
            let skilled = offers.iter().any(|offer| offer.tool.name.is_skill());
            let skills = if skilled {
                typescript::render_skills(offers)
            } else {
                String::new()
            };
            typescript::render_declarations(offers) + &skills
        }
        StubLanguage::Python => {
            let modules = group_by_server(offers).into_iter().map(|server| {
                let header = server
                    .first()
                    .map_or_else(String::new, |offer| python::module_path(offer.tool));
                format!("# {header}\n{}", python::render_module(&server))
            });
            modules.collect::<Vec<_>>().join("\n")
        }
        StubLanguage::Json => json::render_stubs(offers),
    }
}

/// Renders these tools and the [`prelude`] as the files that a type checker reads: a relative path and a text each.
pub fn stub_files(offers: &[OfferedTool<'_>], language: StubLanguage) -> Vec<(String, String)> {
    match language {
        StubLanguage::TypeScript => vec![
            ("ringfence.d.ts".to_owned(), prelude(language).to_owned()),
            ("tools.d.ts".to_owned(), typescript::render_declarations(offers)),
            ("skills.d.ts".to_owned(), typescript::render_skills(offers)),
        ],
        StubLanguage::Python => {
            let servers = group_by_server(offers);
            let mut files = vec![
                ("__builtins__.pyi".to_owned(), prelude(language).to_owned()),
                ("tools/__init__.pyi".to_owned(), python::render_package(&servers)),
            ];
            if !servers.iter().any(|server| is_skills_server(server)) {
                files.push((format!("{SKILLS_SERVER}.pyi"), String::new()));
            }
            files.extend(servers.iter().filter_map(|server| {
                let first = server.first()?;
                Some((python::module_path(first.tool), python::render_module(server)))
            }));
            files
        }
        StubLanguage::Json => vec![("tools.json".to_owned(), json::render_stubs(offers))],
    }
}

/// Renders a tool on one line: name, parameters, result. The result is that of the server's schema, otherwise the observed one
/// with a mark.
pub fn signature(tool: &Tool, language: StubLanguage, observed: Option<&Value>) -> String {
    let is_learnt = tool.definition.output.is_none() && observed.is_some();
    let output = tool.definition.output.as_ref().or(observed);
    let (signature, mark) = match language {
        StubLanguage::TypeScript => (typescript::signature(tool, output), " // result as observed"),
        StubLanguage::Python => (python::signature(tool, output), "  # result as observed"),
        StubLanguage::Json => return json::signature(tool),
    };
    signature + if is_learnt { mark } else { "" }
}

/// Counts the parameters of a tool, those typed as unknown, and those with an unknown part.
pub fn count_untyped(tool: &Tool) -> UntypedCounts {
    let types = SchemaTypes::from_schema(&tool.definition.input);
    let mut count = UntypedCounts::default();
    for field in types.argument_objects().iter().flat_map(|object| &object.fields) {
        count.parameters += 1;
        let shape = types.resolve(&field.shape);
        count.unknown += usize::from(*shape == crate::schema::SchemaShape::Unknown);
        count.partly += usize::from(shape.has_unknown());
    }
    count
}

/// The parameters of a tool whose types are unknown; see [`count_untyped`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UntypedCounts {
    /// The number of all parameters.
    pub parameters: usize,
    /// The number of parameters typed `unknown` or `Any`.
    pub unknown: usize,
    /// The number of parameters with an unknown part, such as a list of anything; wholly unknown ones are included.
    pub partly: usize,
}

/// Groups the offers by server, in the order of the servers' identifiers.
fn group_by_server<'a, 'b>(offers: &'b [OfferedTool<'a>]) -> Vec<Vec<&'b OfferedTool<'a>>> {
    let mut servers: std::collections::BTreeMap<&str, Vec<&OfferedTool<'_>>> = std::collections::BTreeMap::new();
    for offer in offers {
        servers.entry(&offer.tool.server_ident).or_default().push(offer);
    }
    servers.into_values().collect()
}

/// Whether these tools are skills.
fn is_skills_server(server: &[&OfferedTool<'_>]) -> bool {
    server.first().is_some_and(|offer| offer.tool.name.is_skill())
}

/// The tags of a tool: the server's hints, then the remarks of the policy.
fn tool_tags(offer: &OfferedTool<'_>) -> Vec<String> {
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
    let StubNotes { approval, rates, pii } = &offer.notes;
    let noted = [
        ("@approval", approval.as_slice()),
        ("@rate", rates.as_slice()),
        ("@pii", pii.as_slice()),
    ];
    for (name, values) in noted {
        tags.extend(values.iter().map(|value| format!("{name} {}", text::clean_line(value))));
    }
    let unsaid = offer.tool.definition.output.is_none();
    if unsaid && offer.observed.is_some() {
        tags.push("@observed the result's type is learnt from earlier results".to_owned());
    }
    tags
}

/// The types of a tool's result: from the server's schema, otherwise from the observed one.
fn result_types(offer: &OfferedTool<'_>) -> Option<SchemaTypes> {
    offer
        .tool
        .definition
        .output
        .as_ref()
        .or(offer.observed)
        .map(SchemaTypes::from_schema)
}

/// The remark on the parts that the types leave out.
fn elision_note(types: &SchemaTypes) -> Option<String> {
    if types.elided.is_empty() {
        return None;
    }
    let parts: Vec<_> = types.elided.iter().copied().collect();
    Some(format!("Left out of the types: {}.", parts.join("; ")))
}

/// A field's tags and description on one line.
fn field_annotations(words: &crate::schema::SchemaAnnotations, skip: &[&str]) -> String {
    let mut parts = vec![text::quoted_remark(&words.description)];
    for (tag, value) in words.tags.iter().filter(|(tag, _)| !skip.contains(tag)) {
        let value = text::clean_line(value);
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
pub(crate) fn brief_type(types: &SchemaTypes, shape: &crate::schema::SchemaShape) -> String {
    typescript::brief_type(types, shape)
}

/// A field's name as text, quoted if necessary.
pub(crate) fn field_name_text(name: &str) -> String {
    typescript::property_key(name)
}

/// Makes a name different from all taken ones.
fn unique_name(name: String, taken: &mut std::collections::BTreeSet<String>) -> String {
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
