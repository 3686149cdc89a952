//! The identity of this program at an authorization server: configured, described by a document, or registered now.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::form_urlencoded::byte_serialize;

use super::metadata::AuthorizationServer;
use super::{MAX_ANSWER_BYTES, OAuthError, REQUEST_TIMEOUT, request_error};
use crate::credential::EnvironmentLookup;
use crate::http::{HttpTransportError, read_body};
use crate::servers::OAuthClient;
use crate::vault::Vault;

const STEP: &str = "registration";

/// How the program authenticates at a token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ClientAuthMethod {
    /// Without a secret; PKCE alone proves that it started the login.
    #[serde(rename = "none")]
    None,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
}

impl ClientAuthMethod {
    /// Returns the best method with a secret that the authorization server accepts.
    fn with_secret(authority: &AuthorizationServer) -> ClientAuthMethod {
        let takes = |name: &str| {
            authority
                .token_endpoint_auth_methods_supported
                .iter()
                .any(|method| method == name)
        };
        if takes("client_secret_post") && !takes("client_secret_basic") {
            ClientAuthMethod::Post
        } else {
            ClientAuthMethod::Basic
        }
    }

    /// Returns the method to register for: one without a secret if possible.
    fn for_registration(authority: &AuthorizationServer) -> ClientAuthMethod {
        let methods = &authority.token_endpoint_auth_methods_supported;
        if methods.is_empty() || methods.iter().any(|method| method == "none") {
            ClientAuthMethod::None
        } else {
            ClientAuthMethod::with_secret(authority)
        }
    }
}

/// A client of one authorization server, never shown to another.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientIdentity {
    pub(super) id: String,
    secret: Option<String>,
    method: ClientAuthMethod,
}

/// Where configured secrets come from.
#[derive(Clone, Copy)]
pub(super) struct SecretSources<'a> {
    pub(super) environment: &'a EnvironmentLookup,
    pub(super) vault: &'a Vault,
}

impl ClientIdentity {
    /// Returns the client to use at this authorization server.
    pub(super) async fn find_or_register(
        client: &reqwest::Client,
        authority: &AuthorizationServer,
        configured: &OAuthClient,
        secrets: SecretSources<'_>,
        back: &str,
    ) -> Result<ClientIdentity, OAuthError> {
        if let Some(id) = &configured.id {
            let secret = configured
                .secret
                .as_ref()
                .map(|secret| secret.resolve(secrets.environment, secrets.vault))
                .transpose();
            let secret = secret.map_err(OAuthError::Secret)?;
            let method = secret
                .as_ref()
                .map_or(ClientAuthMethod::None, |_| ClientAuthMethod::with_secret(authority));
            return Ok(ClientIdentity {
                id: id.clone(),
                secret: secret.map(|secret| secret.reveal().to_owned()),
                method,
            });
        }
        match &configured.document {
            Some(document) if authority.client_id_metadata_document_supported => Ok(ClientIdentity {
                id: document.to_string(),
                secret: None,
                method: ClientAuthMethod::None,
            }),
            _ => register(client, authority, back).await,
        }
    }

    /// Adds client authentication to a token request.
    pub(super) fn authenticate_form<'a>(&'a self, form: &mut Vec<(&'a str, &'a str)>) -> Option<String> {
        match (self.method, &self.secret) {
            (ClientAuthMethod::Basic, Some(secret)) => {
                let part = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", part(&self.id), part(secret));
                return Some(format!("Basic {}", STANDARD.encode(pair)));
            }
            (ClientAuthMethod::Post, Some(secret)) => form.push(("client_secret", secret)),
            _ => {}
        }
        form.push(("client_id", &self.id));
        None
    }
}

/// Registers this program at the authorization server.
async fn register(
    client: &reqwest::Client,
    authority: &AuthorizationServer,
    back: &str,
) -> Result<ClientIdentity, OAuthError> {
    #[derive(Deserialize)]
    struct RegistrationResponse {
        client_id: String,
        #[serde(default)]
        client_secret: Option<String>,
        #[serde(default)]
        token_endpoint_auth_method: Option<ClientAuthMethod>,
    }
    let Some(endpoint) = &authority.registration_endpoint else {
        return Err(OAuthError::Refused {
            step: STEP,
            detail: "it offers none; give the server's entry `oauth: { client_id: … }`".to_owned(),
        });
    };
    let wished = ClientAuthMethod::for_registration(authority);
    let wish = json!({
        "client_name": "Ringfence", "redirect_uris": [back], "token_endpoint_auth_method": wished,
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
        "application_type": "native",
    });
    let request = client
        .post(endpoint.clone())
        .header("content-type", "application/json")
        .body(wish.to_string())
        .timeout(REQUEST_TIMEOUT);
    let response = request
        .send()
        .await
        .map_err(|error| request_error(STEP, &HttpTransportError::Request(error.without_url())))?;
    let status = response.status();
    let text = read_body(response, MAX_ANSWER_BYTES)
        .await
        .map_err(|error| request_error(STEP, &error))?;
    if !status.is_success() {
        let detail = status.to_string();
        return Err(OAuthError::Refused { step: STEP, detail });
    }
    let registered: RegistrationResponse = serde_json::from_slice(&text).map_err(|_| OAuthError::Refused {
        step: STEP,
        detail: "its answer names no client of a kind that is known".to_owned(),
    })?;
    Ok(ClientIdentity {
        id: registered.client_id,
        method: registered.token_endpoint_auth_method.unwrap_or(wished),
        secret: registered.client_secret,
    })
}
