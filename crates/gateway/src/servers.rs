//! The upstream servers that the operator configured: the `servers` section, or a `mcpServers` file.

pub(crate) mod entry;
mod given;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};

use ringfence_catalog::identifier;
use ringfence_policy::{SKILLS, is_unseen};
use serde_json::Value;
use url::Url;

use crate::credential::Written;

/// Bytes of a servers file.
pub(crate) const MOST: usize = 1024 * 1024;
/// Servers in all.
const MOST_SERVERS: usize = 1_000;
/// Bytes of a server's name.
const NAME: usize = 80;

/// Where a stdio server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Outside of any sandbox, as a process of ours.
    Host,
    /// In a sandbox of its own, under this policy.
    Sandbox(String),
}

/// A program that speaks MCP on its standard input and output.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program: a path, or a name to look up in our own `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment but for `PATH`.
    pub env: BTreeMap<String, Written>,
    /// The folder it starts in.
    pub cwd: Option<PathBuf>,
    /// Where it runs.
    pub place: Place,
}

/// How requests to a remote server are authorised beyond its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    Headers,
    /// By a login of the operator.
    OAuth,
}

/// A server that speaks MCP over streamable HTTP.
#[derive(Debug, Clone)]
pub struct Remote {
    /// Its endpoint.
    pub url: Url,
    /// Headers that go with every request.
    pub headers: BTreeMap<String, Written>,
    /// And what else.
    pub auth: Auth,
    /// Who this program is to its authorization server.
    pub client: OAuthClient,
}

/// A client that an authorization server knows already; nothing given, the program registers itself.
#[derive(Debug, Clone, Default)]
pub struct OAuthClient {
    /// Its id there.
    pub id: Option<String>,
    /// Its secret, if it has one.
    pub secret: Option<Written>,
    /// The address of a document that describes it, where the authorization server reads such.
    pub document: Option<Url>,
}

/// Where an `OpenAPI` document is.
#[derive(Debug, Clone)]
pub enum Document {
    /// In a file.
    File(PathBuf),
    /// At a URL.
    Url(Url),
}

/// An HTTP interface described by an `OpenAPI` document.
#[derive(Debug, Clone)]
pub struct Interface {
    /// The document.
    pub document: Document,
    /// Headers that go with every request.
    pub headers: BTreeMap<String, Written>,
}

/// What kind of server it is.
#[derive(Debug, Clone)]
pub enum Source {
    /// `command`: a child that speaks on standard input and output.
    Program(Program),
    /// `url`: streamable HTTP.
    Remote(Remote),
    /// `openapi`: operations of a document.
    Interface(Interface),
}

/// One server.
#[derive(Debug, Clone)]
pub struct Server {
    /// The operator's name of it.
    pub name: String,
    /// What it is.
    pub source: Source,
}

/// What a caller may want to tell the operator about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// It runs outside of any sandbox.
    Host {
        /// The server.
        server: String,
    },
    /// A key that other clients know has no meaning here.
    Ignored {
        /// The server.
        server: String,
        /// The key.
        key: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Host { server } => write!(f, "server `{server}` runs on the host, outside of any sandbox"),
            Notice::Ignored { server, key } => write!(f, "server `{server}`: `{key}` has no meaning here"),
        }
    }
}

/// One thing that is wrong with a servers document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The server, when it is one's.
    pub server: Option<String>,
    /// What is wrong, naming the key.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => write!(f, "server `{server}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Everything that is wrong with a servers document.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ServersError {
    /// In the order of the document.
    pub problems: Vec<Problem>,
}

impl ServersError {
    fn one(message: impl Into<String>) -> ServersError {
        let message = message.into();
        ServersError {
            problems: vec![Problem { server: None, message }],
        }
    }
}

/// The servers, by name.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    entries: BTreeMap<String, Server>,
    notices: Vec<Notice>,
}

impl Servers {
    /// A `mcpServers` file, JSON or YAML; relative paths in it are below `base`.
    pub fn parse(text: &str, base: &Path) -> Result<Servers, ServersError> {
        if text.len() > MOST {
            return Err(ServersError::one("the servers file is longer than 1 MiB"));
        }
        let document: Value = match serde_json::from_str(text) {
            Ok(document) => document,
            Err(json) if text.trim_start().starts_with('{') => {
                return Err(ServersError::one(format!("not JSON: {json}")));
            }
            Err(_) => serde_saphyr::from_str(text)
                .map_err(|error| ServersError::one(format!("neither JSON nor YAML: {error}")))?,
        };
        let Value::Object(mut keys) = document else {
            return Err(ServersError::one("expected an object with `mcpServers`"));
        };
        let section = keys.remove("mcpServers").or_else(|| keys.remove("servers"));
        let Some(section) = section else {
            return Err(ServersError::one("no `mcpServers` in it"));
        };
        Servers::section(&section, base)
    }

    /// The `servers` section of the operator's file: names to entries.
    pub fn section(section: &Value, base: &Path) -> Result<Servers, ServersError> {
        let Value::Object(entries) = section else {
            return Err(ServersError::one("`servers` must be names with their entries"));
        };
        if entries.len() > MOST_SERVERS {
            return Err(ServersError::one(format!("more than {MOST_SERVERS} servers")));
        }
        let mut servers = Servers::default();
        let mut problems = Vec::new();
        for (name, entry) in entries {
            let mut reader = entry::Reader::new(name, base);
            if let Some(problem) = unfit(name) {
                reader.wrong(problem);
            }
            let source = reader.read(entry);
            problems.append(&mut reader.problems);
            servers.notices.append(&mut reader.notices);
            if let Some(source) = source {
                let name = name.clone();
                servers.entries.insert(name.clone(), Server { name, source });
            }
        }
        if problems.is_empty() {
            Ok(servers)
        } else {
            Err(ServersError { problems })
        }
    }

    /// Both; a name in both is an error.
    pub fn and(mut self, other: Servers) -> Result<Servers, ServersError> {
        let mut problems = Vec::new();
        for (name, server) in other.entries {
            match self.entries.entry(name) {
                Entry::Occupied(known) => problems.push(Problem {
                    server: Some(known.key().clone()),
                    message: "configured twice: in the configuration and in the servers file".to_owned(),
                }),
                Entry::Vacant(free) => _ = free.insert(server),
            }
        }
        self.notices.extend(other.notices);
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(ServersError { problems })
        }
    }

    /// The servers in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Server> {
        self.entries.values()
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&Server> {
        self.entries.get(name)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the operator should know, servers on the host first.
    pub fn notices(&self) -> Vec<Notice> {
        let outside =
            |server: &&Server| matches!(&server.source, Source::Program(program) if program.place == Place::Host);
        let host = |server: &Server| Notice::Host {
            server: server.name.clone(),
        };
        let mut notices: Vec<Notice> = self.iter().filter(outside).map(host).collect();
        notices.extend(self.notices.iter().cloned());
        notices
    }
}

/// Why a name cannot be a server's.
fn unfit(name: &str) -> Option<String> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || is_unseen(c) || matches!(c, '.' | '*' | '/' | '\\');
    if name.is_empty() {
        return Some("a server needs a name".to_owned());
    }
    if name.len() > NAME {
        return Some(format!("its name is longer than {NAME} bytes"));
    }
    if identifier(name) == SKILLS {
        return Some(format!(
            "`{SKILLS}` is where saved programs are called: give it another name"
        ));
    }
    name.find(bad)
        .map(|_| "its name has a dot, space, slash, `*` or control character".to_owned())
}

#[cfg(test)]
mod tests;
