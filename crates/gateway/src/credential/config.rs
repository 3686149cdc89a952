//! The `credentials` section of the configuration: which secret, from where, and for whom.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use http::HeaderName;
use http::header::AUTHORIZATION;
use ringfence_policy::{HostRequest, HostRule, Scheme};
use serde_json::{Map, Value};

use super::{CredentialError, CredentialSource, EnvironmentLookup};

/// Most credentials in the section.
const MAX_CREDENTIALS: usize = 1_000;
const ENTRY_KEYS: [&str; 3] = ["name", "from", "for"];
const MAX_NAME_BYTES: usize = 128;

/// Variables that have a meaning for the sandbox itself.
const RESERVED_VARIABLES: [&str; 5] = ["PATH", "HOME", "TMPDIR", "RINGFENCE", "LD_PRELOAD"];

/// The credentials that the operator configured.
#[derive(Debug, Clone, Default)]
pub struct Credentials(Vec<Credential>);

/// One secret and the places that use it.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The name of the credential; in a sandbox, also of the variable that holds its stand-in.
    pub name: String,
    /// Where its value is read from.
    pub from: CredentialSource,
    /// Tool servers that receive the credential.
    pub servers: Vec<ServerUse>,
    /// Requests that receive the credential.
    pub hosts: Vec<HostUse>,
}

/// A tool server that receives a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUse {
    /// Configured name of the server.
    pub server: String,
    /// The header that carries the value as it is. `None` means `Authorization: Bearer …`, or the environment
    /// variable of a program.
    pub header: Option<HeaderName>,
}

/// Requests that receive a credential where they carry its stand-in.
#[derive(Debug, Clone)]
pub struct HostUse {
    rule: HostRule,
    /// The header that may carry the credential.
    pub header: HeaderName,
}

impl HostUse {
    /// Whether this request receives the credential.
    pub(crate) fn matches(&self, request: &HostRequest) -> bool {
        // An unknown method or path never matches a rule that names one.
        (self.rule.methods.is_none() || request.method.is_some())
            && (self.rule.paths.is_none() || request.path.is_some())
            && self.rule.allows(request)
    }
}

/// Everything that is wrong with the section.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct CredentialsError(pub Vec<String>);

impl Credentials {
    /// Parses the section; relative files are below `base`.
    pub fn from_section(value: &Value, base: &Path) -> Result<Credentials, CredentialsError> {
        let Value::Array(entries) = value else {
            return Err(CredentialsError(vec![
                "`credentials` must be a list of `{ name, from, for }`".to_owned(),
            ]));
        };
        if entries.len() > MAX_CREDENTIALS {
            return Err(CredentialsError(vec![format!(
                "more than {MAX_CREDENTIALS} credentials"
            )]));
        }
        let (mut all, mut wrong, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (index, entry) in entries.iter().enumerate() {
            match Credential::parse(entry, base) {
                Ok(credential) if !names.insert(credential.name.clone()) => {
                    wrong.push(format!("`credentials[{index}]`: `{}` is there twice", credential.name));
                }
                Ok(credential) => all.push(credential),
                Err(why) => wrong.extend(why.into_iter().map(|why| format!("`credentials[{index}]`: {why}"))),
            }
        }
        if wrong.is_empty() {
            Ok(Credentials(all))
        } else {
            Err(CredentialsError(wrong))
        }
    }

    /// Iterates over all credentials, in the order of the section.
    pub fn iter(&self) -> std::slice::Iter<'_, Credential> {
        self.0.iter()
    }

    /// Returns the credentials for requests that are known to be missing without reading a secret, each with the
    /// reason.
    pub fn missing<'a>(
        &'a self,
        environment: &'a EnvironmentLookup,
    ) -> impl Iterator<Item = (&'a str, CredentialError)> {
        self.for_hosts()
            .filter_map(|credential| Some((credential.name.as_str(), credential.from.missing(environment)?)))
    }

    /// Returns the credentials that requests can receive.
    pub(crate) fn for_hosts(&self) -> impl Iterator<Item = &Credential> {
        self.0.iter().filter(|credential| !credential.hosts.is_empty())
    }
}

impl<'a> IntoIterator for &'a Credentials {
    type Item = &'a Credential;
    type IntoIter = std::slice::Iter<'a, Credential>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Credential {
    fn parse(entry: &Value, base: &Path) -> Result<Credential, Vec<String>> {
        let Value::Object(keys) = entry else {
            return Err(vec!["must be `{ name, from, for }`".to_owned()]);
        };
        let mut wrong: Vec<String> = unknown_keys(keys, &ENTRY_KEYS).collect();
        let name = keys.get("name").and_then(Value::as_str).unwrap_or_default();
        if !is_variable(name) {
            wrong.push("`name` is letters, digits and `_`, as a variable is called".to_owned());
        } else if RESERVED_VARIABLES.contains(&name) || name.to_ascii_lowercase().ends_with("_proxy") {
            wrong.push(format!("`{name}` means something else in a sandbox"));
        }
        let from = match keys
            .get("from")
            .and_then(Value::as_str)
            .map(|text| CredentialSource::parse(text, base))
        {
            Some(from) if !matches!(from, CredentialSource::Text(_)) => Some(from),
            // The error does not repeat the text: it may be the secret itself.
            _ => {
                wrong.push(
                    "`from` is `env:NAME`, `file:PATH`, `keyring:NAME` or `vault:NAME`, never the secret itself"
                        .to_owned(),
                );
                None
            }
        };
        let (mut servers, mut hosts) = (Vec::new(), Vec::new());
        match keys.get("for") {
            Some(Value::Array(uses)) if !uses.is_empty() => {
                for (index, one) in uses.iter().enumerate() {
                    match CredentialUse::parse(one) {
                        Ok(CredentialUse::Server(server)) => servers.push(server),
                        Ok(CredentialUse::Host(host)) => hosts.push(*host),
                        Err(why) => wrong.push(format!("`for[{index}]`: {why}")),
                    }
                }
            }
            _ => wrong.push("`for` is a list of `{ tool }` or `{ host, methods, paths, header }`".to_owned()),
        }
        match from {
            Some(from) if wrong.is_empty() => Ok(Credential {
                name: name.to_owned(),
                from,
                servers,
                hosts,
            }),
            _ => Err(wrong),
        }
    }
}

enum CredentialUse {
    Server(ServerUse),
    Host(Box<HostUse>),
}

impl CredentialUse {
    fn parse(value: &Value) -> Result<CredentialUse, String> {
        let Value::Object(keys) = value else {
            return Err("must be `{ tool }` or `{ host }`".to_owned());
        };
        let header = match keys.get("header") {
            None => None,
            Some(Value::String(name)) => {
                Some(HeaderName::try_from(name.as_str()).map_err(|_| "`header` cannot be a header's name".to_owned())?)
            }
            Some(_) => return Err("`header` must be a text".to_owned()),
        };
        match (keys.get("tool"), keys.contains_key("host")) {
            (Some(tool), false) => {
                if let Some(wrong) = unknown_keys(keys, &["tool", "header"]).next() {
                    return Err(wrong);
                }
                let pattern = tool.as_str().unwrap_or_default();
                match pattern.split_once('.') {
                    Some((server, "*" | "**")) if !server.is_empty() && !server.contains('*') => {
                        let server = server.to_owned();
                        Ok(CredentialUse::Server(ServerUse { server, header }))
                    }
                    _ => Err("a server gets a credential as a whole: write `tool: \"SERVER.*\"`".to_owned()),
                }
            }
            (None, true) => {
                let mut rule = keys.clone();
                rule.shift_remove("header");
                let rule: HostRule = serde_json::from_value(Value::Object(rule)).map_err(|error| error.to_string())?;
                if rule.scheme == Some(Scheme::Http) {
                    return Err("a credential never goes over plain http".to_owned());
                }
                let header = header.unwrap_or(AUTHORIZATION);
                Ok(CredentialUse::Host(Box::new(HostUse { rule, header })))
            }
            _ => Err("needs one of `tool` and `host`".to_owned()),
        }
    }
}

fn is_variable(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.len() <= MAX_NAME_BYTES && name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

fn unknown_keys<'a>(keys: &'a Map<String, Value>, known: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    keys.keys().filter(|key| !known.contains(&key.as_str())).map(|key| {
        let hint = crate::servers::entry::nearest_known(key, known).map(|near| format!("; did you mean `{near}`?"));
        format!("unknown key `{}`{}", ClippedKey(key), hint.unwrap_or_default())
    })
}

/// A key from the configuration, clipped for error messages.
struct ClippedKey<'a>(&'a str);

impl fmt::Display for ClippedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .chars()
            .take(80)
            .try_for_each(|c| write!(f, "{}", c.escape_debug()))
    }
}

#[cfg(test)]
mod tests;
