//! A login at a remote server: OAuth 2.1 with PKCE, the issuer pinned, tokens in the vault as `oauth/<server>`.

mod challenge;
mod client;
mod login;
mod metadata;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use url::Url;

use crate::credential::{CredentialError, Scrubber, Secret};
use crate::http::{HttpError, body};
use crate::keep::lock;
use crate::vault::{Vault, VaultError};

use client::Identity;

pub(crate) use challenge::Challenge;
pub use login::login;

/// Bytes of any answer of an authorization server.
const MOST: usize = 256 * 1024;
/// A token this near to its end is renewed.
const MARGIN: Duration = Duration::from_secs(30);
const WITHIN: Duration = Duration::from_secs(30);

/// Why a login failed or cannot be used; it never holds a token.
#[derive(Debug, thiserror::Error)]
pub enum OAuthError {
    /// There is no login, or it has ended.
    #[error("not logged in")]
    NotLoggedIn,
    /// The server's metadata cannot be had or used.
    #[error("the metadata at `{at}` cannot be used: {detail}")]
    Metadata {
        /// Where.
        at: String,
        /// Why.
        detail: String,
    },
    /// Another issuer than before.
    #[error(
        "the issuer was `{pinned}` and is now `{now}`; `ringfence vault rm {entry}` forgets the login if that is meant"
    )]
    Issuer {
        /// The one of the first login.
        pinned: String,
        /// The one now.
        now: String,
        /// The secret that it is pinned in.
        entry: String,
    },
    /// The authorization server refused.
    #[error("the authorization server refused the {step}: {detail}")]
    Refused {
        /// What was asked of it.
        step: &'static str,
        /// Its words.
        detail: String,
    },
    /// The configured secret of the client cannot be had.
    #[error("`oauth.client_secret`: {0}")]
    Secret(#[source] CredentialError),
    /// The server wants scopes that the login asked for already.
    #[error("the server wants the scopes `{0}`, which the login has asked for and not got")]
    Scopes(String),
    /// What came back to us is not the answer to what we sent.
    #[error("the answer of the browser is not ours: {0}")]
    Answer(&'static str),
    /// Nobody answered.
    #[error("no login within {} s", .0.as_secs())]
    Timeout(Duration),
    /// A request failed.
    #[error("the {step} failed: {detail}")]
    Request {
        /// What was asked.
        step: &'static str,
        /// Why.
        detail: String,
    },
    /// The login cannot be kept.
    #[error("the login cannot be kept or read: {0}; {hint}", hint = .0.hint())]
    Keep(#[from] VaultError),
    /// Another process renews it, and does not end.
    #[error("the lock of the login cannot be had")]
    Lock(#[source] std::io::Error),
}

/// What is kept of a login.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    issuer: String,
    /// The address of the server that the tokens are for.
    server: Url,
    /// The server's own name of itself, letter for letter.
    resource: String,
    token_endpoint: String,
    client: Identity,
    /// What was asked for.
    scopes: Vec<String>,
    /// What the server wants besides.
    #[serde(default)]
    wanted: Vec<String>,
    access: String,
    refresh: Option<String>,
    /// Seconds since 1970.
    expires: Option<u64>,
}

impl Kept {
    /// Good for a while yet.
    fn is_good(&self) -> bool {
        let soon = now() + MARGIN.as_secs();
        self.expires.is_none_or(|expires| expires > soon)
    }
}

/// What a token endpoint answers.
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: String,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// A server's tokens: read when needed, renewed one at a time.
pub(crate) struct Tokens {
    vault: Vault,
    entry: String,
    server: Url,
    renewing: tokio::sync::Mutex<()>,
    /// Keeps them out of what the server says.
    scrubber: Scrubber,
}

impl Tokens {
    pub(crate) fn new(vault: &Vault, name: &str, server: &Url, scrubber: Scrubber) -> Tokens {
        Tokens {
            vault: vault.clone(),
            entry: entry(name),
            server: server.clone(),
            renewing: tokio::sync::Mutex::new(()),
            scrubber,
        }
    }

    /// A token that is good for a while yet.
    pub(crate) async fn access(&self, client: &reqwest::Client) -> Result<Secret, OAuthError> {
        let _one = self.renewing.lock().await;
        let kept = self.kept()?;
        if kept.is_good() {
            return Ok(Secret::new(kept.access));
        }
        // A token can be renewed once: whoever shares the data folder waits, and finds the new one.
        let _alone = self.alone().await?;
        let kept = self.kept()?;
        if kept.is_good() {
            return Ok(Secret::new(kept.access));
        }
        let Some(refresh) = &kept.refresh else {
            return Err(OAuthError::NotLoggedIn);
        };
        let form = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.as_str()),
            ("resource", kept.resource.as_str()),
        ];
        let granted = grant(client, &kept.token_endpoint, &kept.client, form, "refresh").await?;
        let renewed = Kept {
            access: granted.access_token.clone(),
            refresh: granted.refresh_token.or(kept.refresh),
            expires: granted.expires_in.map(|seconds| now().saturating_add(seconds)),
            ..kept
        };
        write(&self.vault, &self.entry, &renewed)?;
        self.hide(&renewed);
        Ok(Secret::new(granted.access_token))
    }

    fn kept(&self) -> Result<Kept, OAuthError> {
        let kept = read(&self.vault, &self.entry)?;
        let kept = kept.filter(|kept| kept.server == self.server);
        let kept = kept.ok_or(OAuthError::NotLoggedIn)?;
        self.hide(&kept);
        Ok(kept)
    }

    /// Before the server is told of them: one that echoes its access token gives nothing away.
    fn hide(&self, kept: &Kept) {
        let tokens = std::iter::once(&kept.access).chain(&kept.refresh);
        self.scrubber.learn(tokens.map(String::as_str));
    }

    async fn alone(&self) -> Result<std::fs::File, OAuthError> {
        let path = self.vault.path().with_extension("renewing");
        let locked = tokio::task::spawn_blocking(move || lock(&path)).await;
        locked
            .map_err(std::io::Error::other)
            .and_then(|locked| locked)
            .map_err(OAuthError::Lock)
    }

    /// Notes what the server wants besides, for the next login; an error when no login would help.
    pub(crate) async fn want(&self, challenge: &Challenge) -> Result<(), OAuthError> {
        let _one = self.renewing.lock().await;
        let Some(mut kept) = read(&self.vault, &self.entry)?.filter(|kept| kept.server == self.server) else {
            return Ok(());
        };
        let new = challenge.scopes.iter().filter(|scope| !kept.scopes.contains(scope));
        let new: Vec<String> = new.cloned().collect();
        if new.is_empty() {
            let scopes = challenge.scopes.join(" ");
            return Err(OAuthError::Scopes(
                scopes.chars().filter(|c| !c.is_control()).take(200).collect(),
            ));
        }
        kept.wanted = new;
        write(&self.vault, &self.entry, &kept)
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// What the login of a server is called in the vault. A server's name may hold what a secret's may not.
fn entry(server: &str) -> String {
    use std::fmt::Write as _;
    let mut name = String::from("oauth/");
    for byte in server.bytes() {
        if byte.is_ascii_alphanumeric() || b"_-".contains(&byte) {
            name.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(name, ".{byte:02x}");
        }
    }
    name
}

/// A login that cannot be read must not lose its pinned issuer: it is an error, not an absence.
fn read(vault: &Vault, entry: &str) -> Result<Option<Kept>, OAuthError> {
    let Some(text) = vault.get(entry)? else { return Ok(None) };
    let damaged = |error: serde_json::Error| VaultError::Damaged {
        path: vault.path().to_owned(),
        what: format!("`{entry}`: line {}", error.line()),
    };
    Ok(serde_json::from_str(text.reveal()).map(Some).map_err(damaged)?)
}

fn write(vault: &Vault, entry: &str, kept: &Kept) -> Result<(), OAuthError> {
    let text = serde_json::to_string(kept).map_err(|_| VaultError::Length)?;
    Ok(vault.set(entry, &Secret::new(text))?)
}

/// Asks a token endpoint.
async fn grant(
    client: &reqwest::Client,
    endpoint: &str,
    identity: &Identity,
    mut form: Vec<(&str, &str)>,
    step: &'static str,
) -> Result<Granted, OAuthError> {
    let authorization = identity.sign(&mut form);
    let form: String = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(form)
        .finish();
    let mut request = client
        .post(endpoint)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "application/json")
        .body(form)
        .timeout(WITHIN);
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let response = request
        .send()
        .await
        .map_err(|error| failed(step, &HttpError::Request(error.without_url())))?;
    let status = response.status();
    let text = body(response, MOST).await.map_err(|error| failed(step, &error))?;
    if !status.is_success() {
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }
        let detail = serde_json::from_slice::<Refusal>(&text).map(|refusal| refusal.error.chars().take(80).collect());
        let detail: String = detail.unwrap_or_else(|_| status.to_string());
        return Err(if step == "refresh" && detail == "invalid_grant" {
            OAuthError::NotLoggedIn
        } else {
            OAuthError::Refused { step, detail }
        });
    }
    let granted: Granted = serde_json::from_slice(&text).map_err(|_| OAuthError::Refused {
        step,
        detail: "its answer is no token".to_owned(),
    })?;
    if !granted.token_type.eq_ignore_ascii_case("bearer") || granted.access_token.is_empty() {
        return Err(OAuthError::Refused {
            step,
            detail: "its token is no bearer token".to_owned(),
        });
    }
    Ok(granted)
}

fn failed(step: &'static str, error: &HttpError) -> OAuthError {
    OAuthError::Request {
        step,
        detail: crate::talk::said(error),
    }
}
