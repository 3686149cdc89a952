//! All tools of all servers, each with one canonical name and one identifier.

use std::collections::{BTreeSet, HashMap};

use ringfence_policy::{ToolName, is_invisible};

use crate::tool::{DefinitionDigest, ServerListing, Tool, ToolDefinition};

/// The most bytes of a tool's name within its server; the rest of a [`ToolName`] is for the server's name.
const MAX_TOOL_NAME_BYTES: usize = 160;
/// The most bytes of a server's name.
const MAX_SERVER_NAME_BYTES: usize = 80;

/// Words with a meaning in TypeScript, Python or Ringfence, which cannot be plain identifiers in both languages.
const RESERVED: &[&str] = &[
    "False",
    "None",
    "True",
    "and",
    "any",
    "arguments",
    "as",
    "assert",
    "async",
    "await",
    "boolean",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "constructor",
    "continue",
    "debugger",
    "declare",
    "def",
    "default",
    "del",
    "delete",
    "do",
    "elif",
    "else",
    "enum",
    "eval",
    "except",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "global",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "is",
    "lambda",
    "let",
    "match",
    "module",
    "namespace",
    "never",
    "new",
    "nonlocal",
    "not",
    "null",
    "number",
    "object",
    "or",
    "package",
    "pass",
    "print",
    "private",
    "protected",
    "prototype",
    "public",
    "raise",
    "return",
    "static",
    "string",
    "super",
    "switch",
    "symbol",
    "then",
    "this",
    "throw",
    "true",
    "try",
    "type",
    "typeof",
    "undefined",
    "unknown",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// One server of a catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogServer {
    /// The name from the operator's configuration, in canonical form.
    pub server: String,
    /// The name as an identifier of TypeScript and Python.
    pub ident: String,
    /// The server's description of itself.
    pub description: String,
    /// The range of its tools in [`Catalog::tools`].
    pub tools: std::ops::Range<usize>,
}

/// All tools of all servers. Servers and tools are each in the order of their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    servers: Vec<CatalogServer>,
    tools: Vec<Tool>,
    by_name: HashMap<String, usize>,
    by_ident: HashMap<(String, String), usize>,
}

impl Catalog {
    /// Builds a catalog of these servers. Names that collide, or that have no canonical form, get a number.
    pub fn new(listings: impl IntoIterator<Item = ServerListing>) -> Catalog {
        let mut catalog = Catalog::default();
        let mut listings: Vec<ServerListing> = listings.into_iter().collect();
        listings.sort_by(|one, other| one.server.cmp(&other.server));
        let mut taken = BTreeSet::new();
        let names: Vec<String> = listings
            .iter()
            .map(|listing| {
                unique_name(
                    &canonical_name(&listing.server, MAX_SERVER_NAME_BYTES, true),
                    &mut taken,
                )
            })
            .collect();
        for ((listing, ident), server) in listings.into_iter().zip(assign_identifiers(&names)).zip(names) {
            catalog.add_server(server, ident, listing.description, listing.tools);
        }
        catalog
    }

    fn add_server(&mut self, server: String, ident: String, description: String, tools: Vec<ToolDefinition>) {
        let first = self.tools.len();
        // The order by name, then digest, gives the same tools the same names, whatever order they arrive in.
        let mut tools: Vec<(DefinitionDigest, ToolDefinition)> =
            tools.into_iter().map(|tool| (tool.digest(), tool)).collect();
        tools.sort_by_cached_key(|(digest, tool)| (tool.name.clone(), digest.to_string()));
        tools.dedup_by(|(one, _), (other, _)| one == other);
        let mut taken = BTreeSet::new();
        let names: Vec<String> = tools
            .iter()
            .map(|(_, tool)| unique_name(&canonical_name(&tool.name, MAX_TOOL_NAME_BYTES, false), &mut taken))
            .collect();
        for (((digest, definition), own), short) in tools.into_iter().zip(assign_identifiers(&names)).zip(names) {
            let Ok(name) = format!("{server}.{short}").parse::<ToolName>() else {
                continue;
            };
            let place = self.tools.len();
            self.by_name.insert(name.as_str().to_owned(), place);
            self.by_ident.insert((ident.clone(), own.clone()), place);
            self.tools.push(Tool {
                name,
                server_ident: ident.clone(),
                ident: own,
                definition,
                digest,
            });
        }
        self.servers.push(CatalogServer {
            server,
            ident,
            description,
            tools: first..self.tools.len(),
        });
    }

    /// Every server, in the order of names.
    pub fn servers(&self) -> &[CatalogServer] {
        &self.servers
    }

    /// Every tool, grouped by server and in the order of names.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The tool with this canonical name; `None` if there is none.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).and_then(|place| self.tools.get(*place))
    }

    /// Finds the tool that a program refers to: by canonical name, by identifier, or by the server's own spelling.
    pub fn resolve(&self, server: &str, tool: &str) -> Option<&Tool> {
        self.position(server, tool).and_then(|place| self.tools.get(place))
    }

    /// The index in [`Catalog::tools`] of the tool that [`Catalog::resolve`] finds.
    pub fn position(&self, server: &str, tool: &str) -> Option<usize> {
        if let Some(place) = self.by_name.get(&format!("{server}.{tool}")) {
            return Some(*place);
        }
        let entry = self.server(server)?;
        let ident = |tool: &str| self.by_ident.get(&(entry.ident.clone(), tool.to_owned())).copied();
        let spelt = || {
            let tools = self.tools.get(entry.tools.clone())?;
            let place = tools.iter().position(|one| one.definition.name == tool)?;
            Some(entry.tools.start + place)
        };
        self.by_name
            .get(&format!("{}.{tool}", entry.server))
            .copied()
            .or_else(|| ident(tool))
            .or_else(|| ident(&identifier(tool)))
            .or_else(spelt)
    }

    /// Finds the server that a program refers to, by name or identifier.
    pub fn server(&self, server: &str) -> Option<&CatalogServer> {
        let ident = identifier(server);
        let by = |fits: &dyn Fn(&CatalogServer) -> bool| self.servers.iter().find(|entry| fits(entry));
        by(&|entry| entry.server == server)
            .or_else(|| by(&|entry| entry.ident == server))
            .or_else(|| by(&|entry| entry.ident == ident))
    }
}

/// A canonical name, which a policy can contain and which is fully visible: no spaces, control or invisible characters, wildcards
/// or empty parts. A server's name also has no dots.
fn canonical_name(text: &str, most: usize, server: bool) -> String {
    let mut name = String::new();
    for part in text.split('.').filter(|part| !part.is_empty()) {
        if !name.is_empty() {
            name.push(if server { '_' } else { '.' });
        }
        name.extend(part.chars().map(|c| {
            let unfit = c.is_whitespace() || c.is_control() || is_invisible(c) || c == '*';
            if unfit { '_' } else { c }
        }));
    }
    while name.len() > most {
        name.pop();
    }
    while name.ends_with('.') {
        name.pop();
    }
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// An identifier for both languages that resembles the name: ASCII letters, digits and underscores.
pub fn identifier(name: &str) -> String {
    let mut ident: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' })
        .collect();
    if ident.starts_with(|c: char| c.is_ascii_digit()) || ident.is_empty() {
        ident.insert(0, '_');
    }
    // `__proto__` and Python's double-underscore names have special meanings.
    if RESERVED.contains(&ident.as_str()) || ident.starts_with("__") {
        ident.push('_');
    }
    if ident.starts_with("__") {
        ident.insert(0, 'x');
    }
    ident
}

/// Assigns an identifier to each of these names. A name that is an identifier already keeps it, because programs use it as it is.
fn assign_identifiers(names: &[String]) -> Vec<String> {
    let mut taken: BTreeSet<String> = names
        .iter()
        .filter(|name| identifier(name) == **name)
        .cloned()
        .collect();
    names
        .iter()
        .map(|name| match identifier(name) {
            ident if ident == *name => ident,
            ident => unique_name(&ident, &mut taken),
        })
        .collect()
}

fn unique_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let mut candidate = name.to_owned();
    let mut number = 1u32;
    while !taken.insert(candidate.clone()) {
        number += 1;
        candidate = format!("{name}_{number}");
    }
    candidate
}

#[cfg(test)]
mod tests;
