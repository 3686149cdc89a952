//! Login metadata: the protected-resource metadata of a server, and the metadata of its authorization server.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::{Challenge, MAX_ANSWER_BYTES, OAuthError, REQUEST_TIMEOUT};
use crate::http::{HttpTransportError, read_body, same_origin};
use crate::servers::entry::is_safe_for_credentials;

#[derive(Deserialize)]
struct ProtectedResource {
    #[serde(rename = "resource")]
    name: String,
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Metadata of an authorization server.
#[derive(Deserialize)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    #[serde(default)]
    pub(super) registration_endpoint: Option<Url>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
}

/// The endpoints for a login at a server.
pub(super) struct LoginEndpoints {
    pub(super) authority: AuthorizationServer,
    /// The server's resource identifier, letter for letter.
    pub(super) resource: String,
    /// The scopes that the server lists.
    pub(super) scopes: Vec<String>,
}

/// Finds the login endpoints of a server, starting at the address in its challenge.
pub(super) async fn find_endpoints(
    client: &reqwest::Client,
    server: &Url,
    challenge: &Challenge,
) -> Result<LoginEndpoints, OAuthError> {
    let unfit = |at: &str, detail: &str| OAuthError::Metadata {
        at: at.chars().take(200).collect(),
        detail: detail.to_owned(),
    };
    let places = match &challenge.metadata {
        None => resource_metadata_urls(server, "oauth-protected-resource"),
        Some(place) => {
            let place = server.join(place).map_err(|error| unfit(place, &error.to_string()))?;
            if !same_origin(&place, server) {
                return Err(unfit(place.as_str(), "it is not of the server's own origin"));
            }
            vec![place]
        }
    };
    let resource: ProtectedResource = fetch_first(client, &places).await?;
    let named = Url::parse(&resource.name).ok();
    let ours = named.is_some_and(|named| {
        named.origin() == server.origin() && server.path().starts_with(named.path().trim_end_matches('/'))
    });
    if !ours {
        return Err(unfit(&resource.name, "it speaks for another resource"));
    }
    let issuer = resource.authorization_servers.first().cloned().unwrap_or_default();
    let place = Url::parse(&issuer).map_err(|error| unfit(&issuer, &error.to_string()))?;
    if !is_safe_for_credentials(&place) {
        return Err(unfit(&issuer, "an issuer must be https"));
    }
    let authority: AuthorizationServer = fetch_first(client, &issuer_metadata_urls(&place)).await?;
    if authority.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
        return Err(unfit(&issuer, "its metadata names another issuer"));
    }
    if !authority
        .code_challenge_methods_supported
        .iter()
        .any(|method| method == "S256")
    {
        return Err(unfit(&issuer, "it does not do PKCE with S256"));
    }
    let endpoints = [Some(&authority.authorization_endpoint), Some(&authority.token_endpoint)];
    let endpoints = endpoints
        .into_iter()
        .chain([authority.registration_endpoint.as_ref()])
        .flatten();
    for endpoint in endpoints {
        if !is_safe_for_credentials(endpoint) {
            return Err(unfit(endpoint.as_str(), "an endpoint must be https"));
        }
    }
    Ok(LoginEndpoints {
        authority,
        resource: resource.name,
        scopes: resource.scopes_supported.into_iter().take(50).collect(),
    })
}

/// Returns the metadata addresses of a server: with its path after the well-known part, then at the root.
fn resource_metadata_urls(server: &Url, kind: &str) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    well_known_urls(
        server,
        &[format!("/.well-known/{kind}{path}"), format!("/.well-known/{kind}")],
    )
}

/// Returns the metadata addresses of an issuer: the root is not used for an issuer with a path.
fn issuer_metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let paths = [
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
        format!("{path}/.well-known/openid-configuration"),
    ];
    well_known_urls(issuer, &paths)
}

fn well_known_urls(base: &Url, paths: &[String]) -> Vec<Url> {
    let mut places = Vec::new();
    for path in paths {
        let mut place = base.clone();
        place.set_path(path);
        place.set_query(None);
        place.set_fragment(None);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

async fn fetch_first<T: DeserializeOwned>(client: &reqwest::Client, places: &[Url]) -> Result<T, OAuthError> {
    let mut last = OAuthError::NotLoggedIn;
    for place in places {
        match fetch_metadata(client, place).await {
            Ok(found) => return Ok(found),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn fetch_metadata<T: DeserializeOwned>(client: &reqwest::Client, place: &Url) -> Result<T, OAuthError> {
    let unfit = |detail: String| OAuthError::Metadata {
        at: place.to_string(),
        detail,
    };
    let request = client
        .get(place.clone())
        .header("accept", "application/json")
        .timeout(REQUEST_TIMEOUT);
    let response = request
        .send()
        .await
        .map_err(|error| unfit(crate::error_text::error_chain(&HttpTransportError::Request(error))))?;
    if !response.status().is_success() {
        return Err(unfit(response.status().to_string()));
    }
    let text = read_body(response, MAX_ANSWER_BYTES)
        .await
        .map_err(|error| unfit(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| unfit(error.to_string()))
}
