//! The upstream servers that the operator configured: the `servers` section, or an `mcpServers` file.

mod assign_credentials;
pub(crate) mod entry;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_catalog::identifier;
use ringfence_disk::read_bounded;
use ringfence_policy::{SKILLS_SERVER, is_invisible};
use serde_json::Value;
use url::Url;

use crate::connection::openapi::MAX_DOCUMENT_BYTES;
use crate::credential::CredentialSource;

/// Most bytes of a servers file.
pub(crate) const MAX_FILE_BYTES: usize = 1024 * 1024;
/// Most servers in one configuration.
const MAX_SERVERS: usize = 1_000;
/// Most bytes of a server's name.
const MAX_NAME_BYTES: usize = 80;

/// Where the program of a stdio server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdioPlacement {
    /// Outside of any sandbox, as a child process of the gateway.
    Host,
    /// In a sandbox of its own, under this policy.
    Sandbox(String),
}

/// A server whose program speaks MCP on its standard input and output.
#[derive(Debug, Clone)]
pub struct StdioServer {
    /// The program: a path, or a name to find on this process's `PATH`.
    pub command: String,
    /// Command-line arguments of the program.
    pub args: Vec<String>,
    /// Its whole environment, except for `PATH`.
    pub env: BTreeMap<String, CredentialSource>,
    /// The folder it starts in; `None` means the current one.
    pub cwd: Option<PathBuf>,
    /// Whether it runs on the host or in a sandbox.
    pub place: StdioPlacement,
}

/// How requests to a remote server are authorized beyond its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteAuth {
    /// By the configured headers alone.
    Headers,
    /// By a login of the operator.
    OAuth,
}

/// A server that speaks MCP over streamable HTTP.
#[derive(Debug, Clone)]
pub struct RemoteServer {
    /// The MCP endpoint of the server.
    pub url: Url,
    /// Headers that are sent with every request.
    pub headers: BTreeMap<String, CredentialSource>,
    /// How requests are authorized beyond the headers.
    pub auth: RemoteAuth,
    /// The client that this program is at the server's authorization server.
    pub client: OAuthClient,
}

/// A client that is registered at an authorization server; if it is empty, the program registers itself.
#[derive(Debug, Clone, Default)]
pub struct OAuthClient {
    /// The client id, if one was issued.
    pub id: Option<String>,
    /// The client secret, if it has one.
    pub secret: Option<CredentialSource>,
    /// The address of the client's metadata document, for authorization servers that read such documents.
    pub document: Option<Url>,
}

/// The content of an `OpenAPI` document, and the file that it was read from.
#[derive(Clone)]
pub struct DocumentContent {
    /// Path of the local file.
    pub path: PathBuf,
    pub(crate) bytes: Arc<[u8]>,
}

impl fmt::Debug for DocumentContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// Where an `OpenAPI` document is.
#[derive(Debug, Clone)]
pub enum OpenApiDocument {
    /// Path of a local file.
    File(PathBuf),
    /// A local file that was read already, and is not read again.
    Content(DocumentContent),
    /// Address to fetch the document from.
    Url(Url),
}

/// An HTTP interface described by an `OpenAPI` document.
#[derive(Debug, Clone)]
pub struct OpenApiInterface {
    /// Where the document is read from.
    pub document: OpenApiDocument,
    /// Headers that are sent with every request.
    pub headers: BTreeMap<String, CredentialSource>,
}

/// The kind of a server, with its settings.
#[derive(Debug, Clone)]
pub enum ServerKind {
    /// Configured by `command`: a child process that speaks on standard input and output.
    Program(StdioServer),
    /// Configured by `url`: a remote server over streamable HTTP.
    Remote(RemoteServer),
    /// Configured by `openapi`: the operations of a document.
    Interface(OpenApiInterface),
}

/// A server as the operator configured it.
#[derive(Debug, Clone)]
pub struct ConfiguredServer {
    /// The operator's name for the server.
    pub name: String,
    /// The kind of the server, with its settings.
    pub source: ServerKind,
}

/// A notice about a server that a caller may show to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerNotice {
    /// The server runs outside of any sandbox.
    Host {
        /// Configured name of the server.
        server: String,
    },
    /// A key that other clients know has no effect here.
    Ignored {
        /// Configured name of the server.
        server: String,
        /// The key that is ignored.
        key: String,
    },
}

impl ServerNotice {
    /// Returns the configured name of the server.
    pub fn server(&self) -> &str {
        match self {
            ServerNotice::Host { server } | ServerNotice::Ignored { server, .. } => server,
        }
    }
}

impl fmt::Display for ServerNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerNotice::Host { server } => write!(f, "server `{server}` runs on the host, outside of any sandbox"),
            ServerNotice::Ignored { server, key } => write!(f, "server `{server}`: `{key}` has no meaning here"),
        }
    }
}

/// One problem in a servers document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProblem {
    /// The server that the problem is in; `None` if it concerns the whole document.
    pub server: Option<String>,
    /// The problem in words, with the key.
    pub message: String,
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => write!(f, "server `{server}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// All problems in a servers document.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ServersError {
    /// The problems, in the order of the document.
    pub problems: Vec<ServerProblem>,
}

impl ServersError {
    fn single(message: impl Into<String>) -> ServersError {
        let message = message.into();
        ServersError {
            problems: vec![ServerProblem { server: None, message }],
        }
    }
}

/// The configured servers, by name.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    entries: BTreeMap<String, ConfiguredServer>,
    notices: Vec<ServerNotice>,
}

impl Servers {
    /// Parses an `mcpServers` file, JSON or YAML; relative paths in it are below `base`.
    pub fn parse(text: &str, base: &Path) -> Result<Servers, ServersError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(ServersError::single("the servers file is longer than 1 MiB"));
        }
        let document: Value = match serde_json::from_str(text) {
            Ok(document) => document,
            Err(json) if text.trim_start().starts_with('{') => {
                return Err(ServersError::single(format!("not JSON: {json}")));
            }
            Err(_) => serde_saphyr::from_str(text)
                .map_err(|error| ServersError::single(format!("neither JSON nor YAML: {error}")))?,
        };
        let Value::Object(mut keys) = document else {
            return Err(ServersError::single("expected an object with `mcpServers`"));
        };
        let section = keys.remove("mcpServers").or_else(|| keys.remove("servers"));
        let Some(section) = section else {
            return Err(ServersError::single("no `mcpServers` in it"));
        };
        Servers::from_section(&section, base)
    }

    /// Parses the `servers` section of the operator's file, which maps names to entries.
    pub fn from_section(section: &Value, base: &Path) -> Result<Servers, ServersError> {
        let Value::Object(entries) = section else {
            return Err(ServersError::single("`servers` must be names with their entries"));
        };
        if entries.len() > MAX_SERVERS {
            return Err(ServersError::single(format!("more than {MAX_SERVERS} servers")));
        }
        let mut servers = Servers::default();
        let mut problems = Vec::new();
        for (name, entry) in entries {
            let mut reader = entry::EntryParser::new(name, base);
            if let Some(problem) = name_problem(name) {
                reader.report_problem(problem);
            }
            let source = reader.parse_entry(entry);
            problems.append(&mut reader.problems);
            servers.notices.append(&mut reader.notices);
            if let Some(source) = source {
                let name = name.clone();
                servers.entries.insert(name.clone(), ConfiguredServer { name, source });
            }
        }
        if problems.is_empty() {
            Ok(servers)
        } else {
            Err(ServersError { problems })
        }
    }

    /// Merges two sets of servers; a name in both is an error.
    pub fn merge(mut self, other: Servers) -> Result<Servers, ServersError> {
        let mut problems = Vec::new();
        for (name, server) in other.entries {
            match self.entries.entry(name) {
                Entry::Occupied(known) => problems.push(ServerProblem {
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

    /// Reads the documents of all interfaces that are local files, and keeps what was read. `seen` is told of each file and its
    /// content; of a file that cannot be read it is told `None`.
    pub fn read_documents(&mut self, mut seen: impl FnMut(&Path, Option<&[u8]>)) {
        for server in self.entries.values_mut() {
            let ServerKind::Interface(interface) = &mut server.source else {
                continue;
            };
            let OpenApiDocument::File(path) = &interface.document else {
                continue;
            };
            let bytes = read_bounded(path, MAX_DOCUMENT_BYTES as u64).ok();
            seen(path, bytes.as_deref());
            if let Some(bytes) = bytes {
                let (path, bytes) = (path.clone(), bytes.into());
                interface.document = OpenApiDocument::Content(DocumentContent { path, bytes });
            }
        }
    }

    /// Iterates over the servers in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &ConfiguredServer> {
        self.entries.values()
    }

    /// Returns the server of this name.
    pub fn get(&self, name: &str) -> Option<&ConfiguredServer> {
        self.entries.get(name)
    }

    /// Whether no server is configured.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the notices for the operator, servers on the host first.
    pub fn notices(&self) -> Vec<ServerNotice> {
        let outside = |server: &&ConfiguredServer| matches!(&server.source, ServerKind::Program(program) if program.place == StdioPlacement::Host);
        let host = |server: &ConfiguredServer| ServerNotice::Host {
            server: server.name.clone(),
        };
        let mut notices: Vec<ServerNotice> = self.iter().filter(outside).map(host).collect();
        notices.extend(self.notices.iter().cloned());
        notices
    }
}

/// Returns why a name is invalid for a server; `None` if it is valid.
fn name_problem(name: &str) -> Option<String> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || is_invisible(c) || matches!(c, '.' | '*' | '/' | '\\');
    if name.is_empty() {
        return Some("a server needs a name".to_owned());
    }
    if name.len() > MAX_NAME_BYTES {
        return Some(format!("its name is longer than {MAX_NAME_BYTES} bytes"));
    }
    if identifier(name) == SKILLS_SERVER {
        return Some(format!(
            "`{SKILLS_SERVER}` is where saved programs are called: give it another name"
        ));
    }
    name.find(bad)
        .map(|_| "its name has a dot, space, slash, `*` or control character".to_owned())
}

#[cfg(test)]
mod tests;
