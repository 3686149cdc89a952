//! Secrets: how a value is written, how it is resolved, and how it is kept out of every text.

mod config;
mod keyring;
mod mask;
mod stand_in;

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use ringfence_catalog::ServerListing;
use zeroize::Zeroizing;

use crate::vault::Vault;
pub use config::{Credential, Credentials, CredentialsError, HostUse, ServerUse};
pub(crate) use mask::StreamMask;
pub(crate) use stand_in::{StandInMisuse, StandIns};

/// Resolves `env:NAME` and `${NAME}`: maps a name to its value. Only the program knows its environment.
pub type EnvironmentLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Most bytes of one secret.
const MAX_SECRET_BYTES: u64 = 64 * 1024;
/// The scrubber does not look for shorter values: they would match everywhere.
const MIN_SCRUBBED_BYTES: usize = 6;
/// Most access tokens that the scrubber looks for, in all written forms: those of the last few renewals.
const MAX_TOKEN_FORMS: usize = 48;
/// Most bytes of one text for users.
const MAX_TEXT_BYTES: usize = 2_048;
const REDACTED: &str = "[redacted]";

/// A secret value: `Debug` and errors do not show it, and it is overwritten when dropped.
#[derive(Clone)]
pub struct SecretString(Zeroizing<String>);

impl SecretString {
    /// Wraps a value as a secret.
    pub fn new(value: impl Into<String>) -> SecretString {
        SecretString(Zeroizing::new(value.into()))
    }

    /// Returns the value, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// A value as the operator wrote it: a text that may contain `${NAME}`, or the place to read the value from.
#[derive(Clone)]
pub enum CredentialSource {
    /// The value itself; `${NAME}` and `${NAME:-otherwise}` in it are expanded.
    Text(SecretString),
    /// The environment variable of `env:NAME`.
    Env(String),
    /// The file of `file:PATH`; its final line end is removed.
    File(PathBuf),
    /// The vault entry of `vault:NAME`.
    Vault(String),
    /// The system keyring entry of `keyring:NAME`.
    Keyring(String),
    /// Another value behind a prefix, as in `Bearer …`.
    Prefixed(&'static str, Box<CredentialSource>),
}

impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialSource::Text(_) => f.write_str(REDACTED),
            CredentialSource::Env(name) => write!(f, "env:{name}"),
            CredentialSource::File(path) => write!(f, "file:{}", path.display()),
            CredentialSource::Vault(name) => write!(f, "vault:{name}"),
            CredentialSource::Keyring(name) => write!(f, "keyring:{name}"),
            CredentialSource::Prefixed(word, written) => write!(f, "{word} {written:?}"),
        }
    }
}

/// Why a value cannot be resolved; the error never holds the value.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CredentialError {
    /// The environment variable is not set.
    #[error("the variable `{0}` is not set")]
    Unset(String),
    /// The file cannot be read.
    #[error("cannot read `{}`: {kind}", path.display())]
    Unreadable {
        /// The path of the file, as configured.
        path: PathBuf,
        /// The error that the system reported.
        kind: std::io::ErrorKind,
    },
    /// The file is not a text, or is too long.
    #[error("`{}` is not a text of at most 64 KiB", .0.display())]
    Unfit(PathBuf),
    /// The vault has no secret of this name.
    #[error("the vault has no secret `{0}`; set it with `ringfence vault set {0}`")]
    NotInVault(String),
    /// The vault cannot be opened or read; the text says why.
    #[error("{0}")]
    Vault(String),
    /// The system keyring has no such secret, or cannot be asked.
    #[error("the system keyring has no `{name}` for us: {why}")]
    Keyring {
        /// The `name` attribute of the secret.
        name: String,
        /// The reason that the keyring reported.
        why: String,
    },
    /// A `${` has no closing brace.
    #[error("`${{` has no closing `}}`")]
    Unclosed,
}

impl CredentialSource {
    /// Parses how a value is written; relative files are below `base`.
    pub fn parse(text: &str, base: &Path) -> CredentialSource {
        if let Some(name) = text.strip_prefix("env:") {
            return CredentialSource::Env(name.to_owned());
        }
        if let Some(path) = text.strip_prefix("file:") {
            return CredentialSource::File(base.join(path));
        }
        if let Some(name) = text.strip_prefix("vault:") {
            return CredentialSource::Vault(name.to_owned());
        }
        if let Some(name) = text.strip_prefix("keyring:") {
            return CredentialSource::Keyring(name.to_owned());
        }
        CredentialSource::Text(SecretString::new(text))
    }

    /// Returns why the value is missing, as far as that can be told without reading a secret.
    pub(crate) fn missing(&self, environment: &EnvironmentLookup) -> Option<CredentialError> {
        match self {
            CredentialSource::Env(name) if environment(name).is_none() => Some(CredentialError::Unset(name.clone())),
            CredentialSource::File(path) => {
                let error = std::fs::metadata(path).err()?;
                Some(CredentialError::Unreadable {
                    path: path.clone(),
                    kind: error.kind(),
                })
            }
            CredentialSource::Prefixed(_, written) => written.missing(environment),
            CredentialSource::Env(_)
            | CredentialSource::Text(_)
            | CredentialSource::Vault(_)
            | CredentialSource::Keyring(_) => None,
        }
    }

    /// Resolves the value now.
    pub fn resolve(&self, environment: &EnvironmentLookup, vault: &Vault) -> Result<SecretString, CredentialError> {
        match self {
            CredentialSource::Text(text) => expand_variables(text.reveal(), environment),
            CredentialSource::Env(name) => environment(name)
                .map(SecretString::new)
                .ok_or_else(|| CredentialError::Unset(name.clone())),
            CredentialSource::File(path) => read_secret_file(path),
            CredentialSource::Vault(name) => match vault.get(name) {
                Ok(found) => found.ok_or_else(|| CredentialError::NotInVault(name.clone())),
                Err(error) => Err(CredentialError::Vault(format!("{error}; {}", error.hint()))),
            },
            CredentialSource::Keyring(name) => keyring::read_keyring_secret(name, environment),
            CredentialSource::Prefixed(word, written) => {
                let secret = written.resolve(environment, vault)?;
                Ok(SecretString::new(format!("{word} {}", secret.reveal())))
            }
        }
    }
}

fn read_secret_file(path: &Path) -> Result<SecretString, CredentialError> {
    let unreadable = |error: std::io::Error| CredentialError::Unreadable {
        path: path.to_owned(),
        kind: error.kind(),
    };
    let mut text = Zeroizing::new(String::new());
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let read = file
        .take(MAX_SECRET_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if read as u64 > MAX_SECRET_BYTES {
        return Err(CredentialError::Unfit(path.to_owned()));
    }
    Ok(SecretString::new(text.trim_end_matches(['\n', '\r'])))
}

/// Expands `${NAME}` and `${NAME:-otherwise}`, as `mcpServers` files of other clients write them.
fn expand_variables(text: &str, environment: &EnvironmentLookup) -> Result<SecretString, CredentialError> {
    let mut filled = Zeroizing::new(String::with_capacity(text.len()));
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inner, after) = after.split_once('}').ok_or(CredentialError::Unclosed)?;
        filled.push_str(before);
        let (name, otherwise) = match inner.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inner, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        let value = environment(name)
            .or_else(|| otherwise.map(str::to_owned))
            .ok_or_else(|| CredentialError::Unset(name.to_owned()))?;
        filled.push_str(&Zeroizing::new(value));
        rest = after;
    }
    filled.push_str(rest);
    Ok(SecretString(filled))
}

/// Removes the secrets of a server from texts before anyone reads them.
#[derive(Clone, Default)]
pub(crate) struct Scrubber {
    values: Vec<Zeroizing<String>>,
    /// Access tokens, which are renewed while the scrubber is in use; all clones share them.
    tokens: Arc<RwLock<VecDeque<Zeroizing<String>>>>,
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrubber({})", self.values.len())
    }
}

/// Returns the forms in which a text may contain a secret: as it is, URL-encoded, and JSON-escaped.
fn written_forms(secret: &str) -> [String; 3] {
    let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let quoted = secret.replace('\\', "\\\\").replace('"', "\\\"");
    [secret.to_owned(), encoded, quoted]
}

impl Scrubber {
    /// Adds a secret: as a whole, word by word (`Bearer …`), and URL-encoded.
    pub(crate) fn add_secret(&mut self, secret: &SecretString) {
        let value = secret.reveal();
        let words = value.split_whitespace().filter(|word| *word != value);
        for form in std::iter::once(value)
            .chain(words)
            .flat_map(written_forms)
            .map(Zeroizing::new)
        {
            if form.len() >= MIN_SCRUBBED_BYTES && !self.values.contains(&form) {
                self.values.push(form);
            }
        }
        // A secret that contains another one comes first.
        self.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// Adds access tokens that are in use from now on. The tokens before them may still be echoed for a while.
    pub(crate) fn add_tokens<'a>(&self, tokens: impl IntoIterator<Item = &'a str>) {
        for token in tokens.into_iter().filter(|token| token.len() >= MIN_SCRUBBED_BYTES) {
            let is_known = self.known_tokens().iter().any(|known| known.as_str() == token);
            if !is_known {
                let mut known = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
                known.extend(written_forms(token).map(Zeroizing::new));
                let old = known.len().saturating_sub(MAX_TOKEN_FORMS);
                known.drain(..old);
            }
        }
    }

    fn known_tokens(&self) -> RwLockReadGuard<'_, VecDeque<Zeroizing<String>>> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the secrets from a text, and leaves the rest unchanged.
    pub(crate) fn scrub(&self, text: &mut String) {
        for value in self.values.iter().chain(self.known_tokens().iter()) {
            if text.contains(value.as_str()) {
                *text = text.replace(value.as_str(), REDACTED);
            }
        }
    }

    /// Whether a text contains a secret.
    fn contains_secret(&self, text: &str) -> bool {
        let is_in = |secret: &Zeroizing<String>| text.contains(secret.as_str());
        self.values.iter().any(is_in) || self.known_tokens().iter().any(is_in)
    }

    /// Removes the secrets from every string of a JSON value, keys included.
    pub(crate) fn scrub_json(&self, value: &mut serde_json::Value) {
        use serde_json::Value;
        match value {
            Value::String(text) => self.scrub(text),
            Value::Array(list) => list.iter_mut().for_each(|one| self.scrub_json(one)),
            Value::Object(fields) => {
                if fields.keys().any(|name| self.contains_secret(name)) {
                    let renamed = std::mem::take(fields).into_iter().map(|(mut name, value)| {
                        self.scrub(&mut name);
                        (name, value)
                    });
                    *fields = renamed.collect();
                }
                fields.values_mut().for_each(|one| self.scrub_json(one));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Removes the secrets from a server's listing. A tool whose name contains a secret is left out.
    pub(crate) fn scrub_listing(&self, listing: &mut ServerListing) {
        if self.is_idle() {
            return;
        }
        self.scrub(&mut listing.description);
        listing.tools.retain(|tool| !self.contains_secret(&tool.name));
        for tool in &mut listing.tools {
            self.scrub(&mut tool.description);
            tool.title.iter_mut().for_each(|title| self.scrub(title));
            tool.tags.iter_mut().for_each(|tag| self.scrub(tag));
            self.scrub_json(&mut tool.input);
            tool.output.iter_mut().for_each(|output| self.scrub_json(output));
        }
    }

    /// Returns the length in bytes of the longest secret to look for.
    pub(crate) fn longest_secret(&self) -> usize {
        let longest = |values: &mut dyn Iterator<Item = &Zeroizing<String>>| values.map(|value| value.len()).max();
        let known = longest(&mut self.known_tokens().iter());
        longest(&mut self.values.iter()).max(known).unwrap_or_default()
    }

    /// Whether there are no secrets to look for.
    pub(crate) fn is_idle(&self) -> bool {
        self.values.is_empty() && self.known_tokens().is_empty()
    }

    /// Returns the text without secrets and control characters, truncated to a bounded length.
    pub(crate) fn clean(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        self.scrub(&mut clean);
        let mut short: String = clean
            .chars()
            .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
            .collect();
        if short.len() > MAX_TEXT_BYTES {
            short.truncate(short.floor_char_boundary(MAX_TEXT_BYTES));
            short.push('…');
        }
        short
    }
}

#[cfg(test)]
mod tests;
