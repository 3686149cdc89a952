//! The interactive login: opens a browser, which is redirected to a port of this machine.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::model::ProtocolVersion;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::client::{ClientIdentity, SecretSources};
use super::metadata::{self, AuthorizationServer, LoginEndpoints};
use super::{
    Challenge, OAuthError, REQUEST_TIMEOUT, StoredLogin, read_login, request_error, request_token, unix_now,
    vault_entry, write_login,
};
use crate::credential::EnvironmentLookup;
use crate::http::{HttpTransportError, same_origin_client};
use crate::servers::{ConfiguredServer, ServerKind};
use crate::vault::Vault;

/// How long the user has to log in.
const LOGIN_TIMEOUT: Duration = Duration::from_mins(5);
/// Most bytes of a browser's request to the local port.
const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// Logs in at a server: `open` shows the user the address of the authorization page.
pub async fn login(
    home: &Path,
    server: &ConfiguredServer,
    environment: &EnvironmentLookup,
    open: impl FnOnce(&Url) + Send,
) -> Result<(), OAuthError> {
    let ServerKind::Remote(remote) = &server.source else {
        return Err(OAuthError::Metadata {
            at: server.name.clone(),
            detail: "only a server with `url` has a login".to_owned(),
        });
    };
    let client = same_origin_client().map_err(|error| request_error("login", &error))?;
    let challenge = request_challenge(&client, &remote.url).await?;
    let found = metadata::find_endpoints(&client, &remote.url, &challenge).await?;
    let vault = Vault::in_data_folder(home, environment);
    let name = vault_entry(&server.name);
    let before = read_login(&vault, &name)?.filter(|kept| kept.server == remote.url);
    if let Some(kept) = before.as_ref().filter(|kept| kept.issuer != found.authority.issuer) {
        return Err(OAuthError::Issuer {
            pinned: kept.issuer.clone(),
            now: found.authority.issuer.chars().take(200).collect(),
            entry: name,
        });
    }
    let scopes = requested_scopes(&challenge, &found, before.as_ref());
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let bound = listener.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
    let (listener, address) = bound.map_err(|error| OAuthError::Request {
        step: "login",
        detail: format!("no port can be listened at: {error}"),
    })?;
    let LoginEndpoints {
        authority, resource, ..
    } = found;
    let back = format!("http://{address}/callback");
    let secrets = SecretSources {
        environment,
        vault: &vault,
    };
    let identity = ClientIdentity::find_or_register(&client, &authority, &remote.client, secrets, &back).await?;
    let proof = LoginProof::new()?;
    open(&proof.authorization_page(&authority, &identity, &back, &resource, &scopes));
    let answered = tokio::time::timeout(LOGIN_TIMEOUT, wait_for_code(&listener, &authority, &proof.state)).await;
    let code = answered.map_err(|_| OAuthError::Timeout(LOGIN_TIMEOUT))??;
    let form = vec![
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", back.as_str()),
        ("code_verifier", proof.verifier.as_str()),
        ("resource", resource.as_str()),
    ];
    let granted = request_token(&client, authority.token_endpoint.as_str(), &identity, form, "token").await?;
    let kept = StoredLogin {
        issuer: authority.issuer,
        server: remote.url.clone(),
        resource,
        token_endpoint: authority.token_endpoint.to_string(),
        client: identity,
        scopes,
        wanted: Vec::new(),
        access: granted.access_token,
        refresh: granted.refresh_token,
        expires: granted.expires_in.map(|seconds| unix_now().saturating_add(seconds)),
    };
    write_login(&vault, &name, &kept)
}

/// Returns the scopes to request: those that the server asks for now and has asked for before; otherwise all that it
/// lists.
fn requested_scopes(challenge: &Challenge, found: &LoginEndpoints, before: Option<&StoredLogin>) -> Vec<String> {
    let first = if challenge.scopes.is_empty() {
        &found.scopes
    } else {
        &challenge.scopes
    };
    let mut scopes = first.clone();
    if let Some(kept) = before {
        scopes.extend(kept.scopes.iter().chain(&kept.wanted).cloned());
    }
    // Without this scope some authorization servers issue no refresh token.
    let lasting = found
        .authority
        .scopes_supported
        .iter()
        .filter(|scope| *scope == "offline_access");
    scopes.extend(lasting.take(1).cloned());
    let mut seen = HashSet::new();
    scopes.retain(|scope| seen.insert(scope.clone()));
    scopes
}

/// Proves that the program that ends the login is the one that began it.
struct LoginProof {
    verifier: String,
    state: String,
}

impl LoginProof {
    fn new() -> Result<LoginProof, OAuthError> {
        let (verifier, state) = (random_text()?, random_text()?);
        Ok(LoginProof { verifier, state })
    }

    /// Returns the page that the user opens.
    fn authorization_page(
        &self,
        authority: &AuthorizationServer,
        identity: &ClientIdentity,
        back: &str,
        resource: &str,
        scopes: &[String],
    ) -> Url {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()));
        let mut page = authority.authorization_endpoint.clone();
        page.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &identity.id)
            .append_pair("redirect_uri", back)
            .append_pair("state", &self.state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", resource);
        if !scopes.is_empty() {
            page.query_pairs_mut().append_pair("scope", &scopes.join(" "));
        }
        page
    }
}

/// Returns 256 random bits as text.
fn random_text() -> Result<String, OAuthError> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| OAuthError::Request {
        step: "random number",
        detail: error.to_string(),
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Asks the server without a token: returns its challenge with the metadata address and the required scopes.
async fn request_challenge(client: &reqwest::Client, server: &Url) -> Result<Challenge, OAuthError> {
    let version = ProtocolVersion::V_2026_07_28;
    let me = json!({"name": "ringfence", "version": env!("CARGO_PKG_VERSION")});
    let greeting = json!({
        "jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": me,
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    });
    let request = client
        .post(server.clone())
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", version.as_str())
        .header("mcp-method", "server/discover")
        .body(greeting.to_string())
        .timeout(REQUEST_TIMEOUT);
    let response = request
        .send()
        .await
        .map_err(|error| request_error("first request", &HttpTransportError::Request(error.without_url())))?;
    Ok(Challenge::from_headers(response.headers()))
}

/// Waits for the code that the browser brings; other requests are turned away.
async fn wait_for_code(
    listener: &TcpListener,
    authority: &AuthorizationServer,
    state: &str,
) -> Result<String, OAuthError> {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            continue;
        };
        let request = tokio::time::timeout(REQUEST_TIMEOUT, read_browser_request(&mut stream))
            .await
            .ok()
            .flatten();
        let Some(target) = request.filter(|target| target.path() == "/callback") else {
            write_browser_reply(&mut stream, "404 Not Found", "Not here.").await;
            continue;
        };
        let code = check_redirect(&target, authority, state);
        match &code {
            // Another program on this machine may connect; only a request with the right state counts.
            Err(OAuthError::Answer("another state")) => {
                write_browser_reply(
                    &mut stream,
                    "400 Bad Request",
                    "This is not the login that was started.",
                )
                .await;
                continue;
            }
            Err(_) => {
                write_browser_reply(
                    &mut stream,
                    "400 Bad Request",
                    "The login failed. You can close this window.",
                )
                .await;
            }
            Ok(_) => {
                write_browser_reply(&mut stream, "200 OK", "Logged in. You can close this window.").await;
            }
        }
        return code;
    }
}

fn check_redirect(target: &Url, authority: &AuthorizationServer, state: &str) -> Result<String, OAuthError> {
    let value = |key: &str| {
        let mut pairs = target.query_pairs();
        pairs.find(|(name, _)| name == key).map(|(_, value)| value.into_owned())
    };
    if value("state").as_deref() != Some(state) {
        return Err(OAuthError::Answer("another state"));
    }
    match value("iss") {
        Some(issuer) if issuer != authority.issuer => return Err(OAuthError::Answer("another issuer")),
        None if authority.authorization_response_iss_parameter_supported => {
            return Err(OAuthError::Answer("no issuer"));
        }
        _ => {}
    }
    if let Some(error) = value("error") {
        return Err(OAuthError::Refused {
            step: "login",
            detail: error.chars().filter(|c| !c.is_control()).take(80).collect(),
        });
    }
    value("code").ok_or(OAuthError::Answer("no code"))
}

async fn read_browser_request(stream: &mut TcpStream) -> Option<Url> {
    let mut text = Vec::new();
    let mut buffer = [0u8; 1024];
    while !text.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut buffer).await.ok()?;
        if read == 0 || text.len() + read > MAX_REQUEST_BYTES {
            return None;
        }
        text.extend_from_slice(buffer.get(..read)?);
    }
    let text = String::from_utf8(text).ok()?;
    let target = text.lines().next()?.strip_prefix("GET ")?.split(' ').next()?;
    Url::parse("http://127.0.0.1/").ok()?.join(target).ok()
}

async fn write_browser_reply(stream: &mut TcpStream, status: &str, text: &str) {
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    );
    // A browser that disconnected has delivered its code all the same.
    let _ = stream.write_all(answer.as_bytes()).await;
}
