//! A login at a remote server: OAuth 2.1 with PKCE, the issuer pinned, tokens in a file of their owner alone.
//!
//! Until the vault exists the tokens lie in `oauth/<server>.json` below the data folder, readable by its owner only.

mod challenge;
mod client;
mod login;
mod metadata;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use url::Url;

use crate::credential::{CredentialError, Secret};
use crate::http::{HttpError, body};
use crate::keep::{read_bounded, replace};

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
    #[error("the issuer was `{pinned}` and is now `{now}`; delete the login in `{}` if that is meant", file.display())]
    Issuer {
        /// The one of the first login.
        pinned: String,
        /// The one now.
        now: String,
        /// Where it is pinned.
        file: PathBuf,
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
    #[error("cannot keep the login in `{}`", path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
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
    file: PathBuf,
    server: Url,
    renewing: tokio::sync::Mutex<()>,
}

impl Tokens {
    pub(crate) fn new(home: &Path, name: &str, server: &Url) -> Tokens {
        Tokens {
            file: file(home, name),
            server: server.clone(),
            renewing: tokio::sync::Mutex::new(()),
        }
    }

    /// A token that is good for a while yet.
    pub(crate) async fn access(&self, client: &reqwest::Client) -> Result<Secret, OAuthError> {
        let _one = self.renewing.lock().await;
        let kept = read(&self.file)?.ok_or(OAuthError::NotLoggedIn)?;
        if kept.server != self.server {
            return Err(OAuthError::NotLoggedIn);
        }
        let soon = now() + MARGIN.as_secs();
        if kept.expires.is_none_or(|expires| expires > soon) {
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
        write(&self.file, &renewed)?;
        Ok(Secret::new(granted.access_token))
    }

    /// Notes what the server wants besides, for the next login; an error when no login would help.
    pub(crate) async fn want(&self, challenge: &Challenge) -> Result<(), OAuthError> {
        let _one = self.renewing.lock().await;
        let Some(mut kept) = read(&self.file)?.filter(|kept| kept.server == self.server) else {
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
        write(&self.file, &kept)
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

fn file(home: &Path, server: &str) -> PathBuf {
    home.join("oauth").join(format!("{server}.json"))
}

fn read(path: &Path) -> Result<Option<Kept>, OAuthError> {
    let keep = |source| OAuthError::Keep {
        path: path.to_owned(),
        source,
    };
    match read_bounded(path, MOST as u64) {
        // A login that cannot be read must not lose its pinned issuer: it is an error, not an absence.
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| keep(error.into())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(keep(source)),
    }
}

fn write(path: &Path, kept: &Kept) -> Result<(), OAuthError> {
    serde_json::to_vec(kept)
        .map_err(std::io::Error::from)
        .and_then(|text| replace(path, &text))
        .map_err(|source| OAuthError::Keep {
            path: path.to_owned(),
            source,
        })
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
