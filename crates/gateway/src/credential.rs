//! Secrets: how a value is written, how it is resolved, and how it is kept out of every text.

mod keyring;
mod mask;
mod section;
mod stand_in;

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use ringfence_catalog::Listing;
use zeroize::Zeroizing;

use crate::vault::Vault;
pub(crate) use mask::Mask;
pub use section::{Credential, Credentials, CredentialsError, HostUse, ServerUse};
pub(crate) use stand_in::{Misuse, StandIns};

/// Resolves `env:NAME` and `${NAME}`: maps a name to its value. Only the program knows its environment.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Most bytes of one secret.
const MOST: u64 = 64 * 1024;
/// The scrubber does not look for shorter values: they would match everywhere.
const SHORTEST: usize = 6;
/// Most access tokens that the scrubber looks for, in all written forms: those of the last few renewals.
const TOKENS: usize = 48;
/// Most bytes of one text for users.
const TEXT: usize = 2_048;
const HIDDEN: &str = "[redacted]";

/// A secret value: `Debug` and errors do not show it, and it is overwritten when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a value as a secret.
    pub fn new(value: impl Into<String>) -> Secret {
        Secret(Zeroizing::new(value.into()))
    }

    /// Returns the value, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// A value as the operator wrote it: a text that may contain `${NAME}`, or the place to read the value from.
#[derive(Clone)]
pub enum Written {
    /// The value itself; `${NAME}` and `${NAME:-otherwise}` in it are expanded.
    Text(Secret),
    /// The environment variable of `env:NAME`.
    Env(String),
    /// The file of `file:PATH`; its final line end is removed.
    File(PathBuf),
    /// The vault entry of `vault:NAME`.
    Vault(String),
    /// The system keyring entry of `keyring:NAME`.
    Keyring(String),
    /// Another value behind a prefix, as in `Bearer …`.
    Behind(&'static str, Box<Written>),
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Written::Text(_) => f.write_str(HIDDEN),
            Written::Env(name) => write!(f, "env:{name}"),
            Written::File(path) => write!(f, "file:{}", path.display()),
            Written::Vault(name) => write!(f, "vault:{name}"),
            Written::Keyring(name) => write!(f, "keyring:{name}"),
            Written::Behind(word, written) => write!(f, "{word} {written:?}"),
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

impl Written {
    /// Parses how a value is written; relative files are below `base`.
    pub fn parse(text: &str, base: &Path) -> Written {
        if let Some(name) = text.strip_prefix("env:") {
            return Written::Env(name.to_owned());
        }
        if let Some(path) = text.strip_prefix("file:") {
            return Written::File(base.join(path));
        }
        if let Some(name) = text.strip_prefix("vault:") {
            return Written::Vault(name.to_owned());
        }
        if let Some(name) = text.strip_prefix("keyring:") {
            return Written::Keyring(name.to_owned());
        }
        Written::Text(Secret::new(text))
    }

    /// Returns why the value is missing, as far as that can be told without reading a secret.
    pub(crate) fn missing(&self, environment: &Environment) -> Option<CredentialError> {
        match self {
            Written::Env(name) if environment(name).is_none() => Some(CredentialError::Unset(name.clone())),
            Written::File(path) => {
                let error = std::fs::metadata(path).err()?;
                Some(CredentialError::Unreadable {
                    path: path.clone(),
                    kind: error.kind(),
                })
            }
            Written::Behind(_, written) => written.missing(environment),
            Written::Env(_) | Written::Text(_) | Written::Vault(_) | Written::Keyring(_) => None,
        }
    }

    /// Resolves the value now.
    pub fn resolve(&self, environment: &Environment, vault: &Vault) -> Result<Secret, CredentialError> {
        match self {
            Written::Text(text) => fill(text.reveal(), environment),
            Written::Env(name) => environment(name)
                .map(Secret::new)
                .ok_or_else(|| CredentialError::Unset(name.clone())),
            Written::File(path) => read(path),
            Written::Vault(name) => match vault.get(name) {
                Ok(found) => found.ok_or_else(|| CredentialError::NotInVault(name.clone())),
                Err(error) => Err(CredentialError::Vault(format!("{error}; {}", error.hint()))),
            },
            Written::Keyring(name) => keyring::look_up(name, environment),
            Written::Behind(word, written) => {
                let secret = written.resolve(environment, vault)?;
                Ok(Secret::new(format!("{word} {}", secret.reveal())))
            }
        }
    }
}

fn read(path: &Path) -> Result<Secret, CredentialError> {
    let unreadable = |error: std::io::Error| CredentialError::Unreadable {
        path: path.to_owned(),
        kind: error.kind(),
    };
    let mut text = Zeroizing::new(String::new());
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let read = file.take(MOST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if read as u64 > MOST {
        return Err(CredentialError::Unfit(path.to_owned()));
    }
    Ok(Secret::new(text.trim_end_matches(['\n', '\r'])))
}

/// Expands `${NAME}` and `${NAME:-otherwise}`, as `mcpServers` files of other clients write them.
fn fill(text: &str, environment: &Environment) -> Result<Secret, CredentialError> {
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
    Ok(Secret(filled))
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
fn forms(secret: &str) -> [String; 3] {
    let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let quoted = secret.replace('\\', "\\\\").replace('"', "\\\"");
    [secret.to_owned(), encoded, quoted]
}

impl Scrubber {
    /// Adds a secret: as a whole, word by word (`Bearer …`), and URL-encoded.
    pub(crate) fn add(&mut self, secret: &Secret) {
        let value = secret.reveal();
        let words = value.split_whitespace().filter(|word| *word != value);
        for form in std::iter::once(value).chain(words).flat_map(forms).map(Zeroizing::new) {
            if form.len() >= SHORTEST && !self.values.contains(&form) {
                self.values.push(form);
            }
        }
        // A secret that contains another one comes first.
        self.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// Adds access tokens that are in use from now on. The tokens before them may still be echoed for a while.
    pub(crate) fn learn<'a>(&self, tokens: impl IntoIterator<Item = &'a str>) {
        for token in tokens.into_iter().filter(|token| token.len() >= SHORTEST) {
            let is_known = self.known_tokens().iter().any(|known| known.as_str() == token);
            if !is_known {
                let mut known = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
                known.extend(forms(token).map(Zeroizing::new));
                let old = known.len().saturating_sub(TOKENS);
                known.drain(..old);
            }
        }
    }

    fn known_tokens(&self) -> RwLockReadGuard<'_, VecDeque<Zeroizing<String>>> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the secrets from a text, and leaves the rest unchanged.
    pub(crate) fn hide(&self, text: &mut String) {
        for value in self.values.iter().chain(self.known_tokens().iter()) {
            if text.contains(value.as_str()) {
                *text = text.replace(value.as_str(), HIDDEN);
            }
        }
    }

    /// Whether a text contains a secret.
    fn shows(&self, text: &str) -> bool {
        let is_in = |secret: &Zeroizing<String>| text.contains(secret.as_str());
        self.values.iter().any(is_in) || self.known_tokens().iter().any(is_in)
    }

    /// Removes the secrets from every string of a JSON value, keys included.
    pub(crate) fn hide_in(&self, value: &mut serde_json::Value) {
        use serde_json::Value;
        match value {
            Value::String(text) => self.hide(text),
            Value::Array(list) => list.iter_mut().for_each(|one| self.hide_in(one)),
            Value::Object(fields) => {
                if fields.keys().any(|name| self.shows(name)) {
                    let renamed = std::mem::take(fields).into_iter().map(|(mut name, value)| {
                        self.hide(&mut name);
                        (name, value)
                    });
                    *fields = renamed.collect();
                }
                fields.values_mut().for_each(|one| self.hide_in(one));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Removes the secrets from a server's listing. A tool whose name contains a secret is left out.
    pub(crate) fn hide_in_listing(&self, listing: &mut Listing) {
        if self.is_idle() {
            return;
        }
        self.hide(&mut listing.description);
        listing.tools.retain(|tool| !self.shows(&tool.name));
        for tool in &mut listing.tools {
            self.hide(&mut tool.description);
            tool.title.iter_mut().for_each(|title| self.hide(title));
            tool.tags.iter_mut().for_each(|tag| self.hide(tag));
            self.hide_in(&mut tool.input);
            tool.output.iter_mut().for_each(|output| self.hide_in(output));
        }
    }

    /// Returns the length in bytes of the longest secret to look for.
    pub(crate) fn longest(&self) -> usize {
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
        self.hide(&mut clean);
        let mut short: String = clean
            .chars()
            .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
            .collect();
        if short.len() > TEXT {
            short.truncate(short.floor_char_boundary(TEXT));
            short.push('…');
        }
        short
    }
}

#[cfg(test)]
mod tests;
