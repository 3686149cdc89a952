//! Logins at remote servers: OAuth 2.1 with PKCE, a pinned issuer, and tokens in the vault as `oauth/<server>`.

mod challenge;
mod client;
mod login;
mod metadata;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfence_disk::FileLock;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::credential::{CredentialError, Scrubber, SecretString};
use crate::http::{HttpTransportError, read_body};
use crate::vault::{Vault, VaultError};

use client::ClientIdentity;

pub(crate) use challenge::Challenge;
pub use login::login;

/// Most bytes of an answer from an authorization server.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// A token is renewed this long before it expires.
const RENEWAL_MARGIN: Duration = Duration::from_secs(30);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a login failed or cannot be used; the error never holds a token.
#[derive(Debug, thiserror::Error)]
pub enum OAuthError {
    /// There is no login, or it has expired.
    #[error("not logged in")]
    NotLoggedIn,
    /// The server's metadata cannot be fetched or used.
    #[error("the metadata at `{at}` cannot be used: {detail}")]
    Metadata {
        /// Address of the metadata document.
        at: String,
        /// The reason that it cannot be used.
        detail: String,
    },
    /// The issuer differs from the pinned one.
    #[error(
        "the issuer was `{pinned}` and is now `{now}`; `ringfence vault rm {entry}` forgets the login if that is meant"
    )]
    Issuer {
        /// The issuer of the first login.
        pinned: String,
        /// The issuer that the metadata names now.
        now: String,
        /// The vault entry that pins the issuer.
        entry: String,
    },
    /// The authorization server refused a request.
    #[error("the authorization server refused the {step}: {detail}")]
    Refused {
        /// The step that was refused.
        step: &'static str,
        /// The error text of the authorization server.
        detail: String,
    },
    /// The configured client secret cannot be resolved.
    #[error("`oauth.client_secret`: {0}")]
    Secret(#[source] CredentialError),
    /// The server requires scopes that the login already requested.
    #[error("the server wants the scopes `{0}`, which the login has asked for and not got")]
    Scopes(String),
    /// The browser's answer does not match the login that was started.
    #[error("the answer of the browser is not ours: {0}")]
    Answer(&'static str),
    /// Nobody completed the login in time.
    #[error("no login within {} s", .0.as_secs())]
    Timeout(Duration),
    /// A request to the authorization server failed.
    #[error("the {step} failed: {detail}")]
    Request {
        /// The step that failed.
        step: &'static str,
        /// The error of the request.
        detail: String,
    },
    /// The login cannot be stored or read.
    #[error("the login cannot be kept or read: {0}; {hint}", hint = .0.hint())]
    Keep(#[from] VaultError),
    /// Another process is renewing the login and does not finish.
    #[error("the lock of the login cannot be had")]
    Lock(#[source] std::io::Error),
}

/// A login as the vault stores it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLogin {
    issuer: String,
    /// The address of the server that the tokens are for.
    server: Url,
    /// The server's resource identifier, letter for letter.
    resource: String,
    token_endpoint: String,
    client: ClientIdentity,
    /// The scopes that were requested.
    scopes: Vec<String>,
    /// Further scopes that the server has asked for.
    #[serde(default)]
    wanted: Vec<String>,
    access: String,
    refresh: Option<String>,
    /// Expiry of the access token in seconds since 1970; `None` if unknown.
    expires: Option<u64>,
}

impl StoredLogin {
    /// Whether the access token stays valid for a while.
    fn is_valid(&self) -> bool {
        let soon = unix_now() + RENEWAL_MARGIN.as_secs();
        self.expires.is_none_or(|expires| expires > soon)
    }
}

/// The answer of a token endpoint.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// A server's tokens: read when needed, renewed by one task at a time.
pub(crate) struct OAuthTokens {
    vault: Vault,
    entry: String,
    server: Url,
    renewing: tokio::sync::Mutex<()>,
    /// Scrubs the tokens from the server's texts.
    scrubber: Scrubber,
}

impl OAuthTokens {
    pub(crate) fn new(vault: &Vault, name: &str, server: &Url, scrubber: Scrubber) -> OAuthTokens {
        OAuthTokens {
            vault: vault.clone(),
            entry: vault_entry(name),
            server: server.clone(),
            renewing: tokio::sync::Mutex::new(()),
            scrubber,
        }
    }

    /// Returns an access token that stays valid for a while, renewed if needed.
    pub(crate) async fn access_token(&self, client: &reqwest::Client) -> Result<SecretString, OAuthError> {
        let _one = self.renewing.lock().await;
        let kept = self.stored_login()?;
        if kept.is_valid() {
            return Ok(SecretString::new(kept.access));
        }
        // A refresh token works once: processes that share the data folder wait here, and find the new token.
        let _alone = self.lock_renewal().await?;
        let kept = self.stored_login()?;
        if kept.is_valid() {
            return Ok(SecretString::new(kept.access));
        }
        let Some(refresh) = &kept.refresh else {
            return Err(OAuthError::NotLoggedIn);
        };
        let form = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.as_str()),
            ("resource", kept.resource.as_str()),
        ];
        let granted = request_token(client, &kept.token_endpoint, &kept.client, form, "refresh").await?;
        let renewed = StoredLogin {
            access: granted.access_token.clone(),
            refresh: granted.refresh_token.or(kept.refresh),
            expires: granted.expires_in.map(|seconds| unix_now().saturating_add(seconds)),
            ..kept
        };
        write_login(&self.vault, &self.entry, &renewed)?;
        self.scrub_tokens(&renewed);
        Ok(SecretString::new(granted.access_token))
    }

    fn stored_login(&self) -> Result<StoredLogin, OAuthError> {
        let kept = read_login(&self.vault, &self.entry)?;
        let kept = kept.filter(|kept| kept.server == self.server);
        let kept = kept.ok_or(OAuthError::NotLoggedIn)?;
        self.scrub_tokens(&kept);
        Ok(kept)
    }

    /// Registers the tokens with the scrubber before the server gets them: a server that echoes its access token
    /// reveals nothing.
    fn scrub_tokens(&self, kept: &StoredLogin) {
        let tokens = std::iter::once(&kept.access).chain(&kept.refresh);
        self.scrubber.add_tokens(tokens.map(String::as_str));
    }

    async fn lock_renewal(&self) -> Result<FileLock, OAuthError> {
        let path = self.vault.path().with_extension("renewing");
        let locked = tokio::task::spawn_blocking(move || FileLock::acquire(&path)).await;
        locked
            .map_err(std::io::Error::other)
            .and_then(|locked| locked)
            .map_err(OAuthError::Lock)
    }

    /// Stores the scopes that the server asks for, for the next login; an error if a login would not help.
    pub(crate) async fn note_wanted_scopes(&self, challenge: &Challenge) -> Result<(), OAuthError> {
        let _one = self.renewing.lock().await;
        let Some(mut kept) = read_login(&self.vault, &self.entry)?.filter(|kept| kept.server == self.server) else {
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
        write_login(&self.vault, &self.entry, &kept)
    }
}

fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// Returns the vault entry of a server's login. A server's name may have characters that an entry's name must not.
fn vault_entry(server: &str) -> String {
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

/// Reads a login. An unreadable one is an error, not a missing one: its pinned issuer must not be lost.
fn read_login(vault: &Vault, entry: &str) -> Result<Option<StoredLogin>, OAuthError> {
    let Some(text) = vault.get(entry)? else { return Ok(None) };
    let damaged = |error: serde_json::Error| VaultError::Damaged {
        path: vault.path().to_owned(),
        what: format!("`{entry}`: line {}", error.line()),
    };
    Ok(serde_json::from_str(text.reveal()).map(Some).map_err(damaged)?)
}

fn write_login(vault: &Vault, entry: &str, kept: &StoredLogin) -> Result<(), OAuthError> {
    let text = serde_json::to_string(kept).map_err(|_| VaultError::Length)?;
    Ok(vault.set(entry, &SecretString::new(text))?)
}

/// Sends a request to a token endpoint.
async fn request_token(
    client: &reqwest::Client,
    endpoint: &str,
    identity: &ClientIdentity,
    mut form: Vec<(&str, &str)>,
    step: &'static str,
) -> Result<TokenResponse, OAuthError> {
    let authorization = identity.authenticate_form(&mut form);
    let form: String = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(form)
        .finish();
    let mut request = client
        .post(endpoint)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "application/json")
        .body(form)
        .timeout(REQUEST_TIMEOUT);
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let response = request
        .send()
        .await
        .map_err(|error| request_error(step, &HttpTransportError::Request(error.without_url())))?;
    let status = response.status();
    let text = read_body(response, MAX_ANSWER_BYTES)
        .await
        .map_err(|error| request_error(step, &error))?;
    if !status.is_success() {
        #[derive(Deserialize)]
        struct TokenErrorBody {
            error: String,
        }
        let detail =
            serde_json::from_slice::<TokenErrorBody>(&text).map(|refusal| refusal.error.chars().take(80).collect());
        let detail: String = detail.unwrap_or_else(|_| status.to_string());
        return Err(if step == "refresh" && detail == "invalid_grant" {
            OAuthError::NotLoggedIn
        } else {
            OAuthError::Refused { step, detail }
        });
    }
    let granted: TokenResponse = serde_json::from_slice(&text).map_err(|_| OAuthError::Refused {
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

fn request_error(step: &'static str, error: &HttpTransportError) -> OAuthError {
    OAuthError::Request {
        step,
        detail: crate::error_text::error_chain(error),
    }
}
