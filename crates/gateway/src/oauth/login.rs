//! The login itself: a browser is opened, and answers to a port of this machine.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::metadata::{self, Authority};
use super::{Kept, MOST, OAuthError, WITHIN, failed, file, grant, now, read, write};
use crate::http::{HttpError, body, client};
use crate::servers::{Server, Source};

/// How long a person has.
const PATIENCE: Duration = Duration::from_mins(5);
/// Bytes of what a browser sends to our port.
const REQUEST: usize = 16 * 1024;

/// Logs in at a server: `open` shows the person the address of the authorization server.
pub async fn login(home: &Path, server: &Server, open: impl FnOnce(&Url) + Send) -> Result<(), OAuthError> {
    let Source::Remote(remote) = &server.source else {
        return Err(OAuthError::Metadata {
            at: server.name.clone(),
            detail: "only a server with `url` has a login".to_owned(),
        });
    };
    let client = client().map_err(|error| failed("login", &error))?;
    let (authority, scopes) = metadata::find(&client, &remote.url).await?;
    let path = file(home, &server.name);
    if let Some(kept) = read(&path)?.filter(|kept| kept.issuer != authority.issuer) {
        return Err(OAuthError::Issuer {
            pinned: kept.issuer,
            now: authority.issuer.chars().take(200).collect(),
            file: path,
        });
    }
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let bound = listener.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
    let (listener, address) = bound.map_err(|source| OAuthError::Keep {
        path: path.clone(),
        source,
    })?;
    let back = format!("http://{address}/callback");
    let client_id = register(&client, &authority, &back).await?;
    let (verifier, state) = (random()?, random()?);
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let mut place = authority.authorization_endpoint.clone();
    place
        .query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client_id)
        .append_pair("redirect_uri", &back)
        .append_pair("state", &state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", remote.url.as_str());
    if !scopes.is_empty() {
        place.query_pairs_mut().append_pair("scope", &scopes.join(" "));
    }
    open(&place);
    let answered = tokio::time::timeout(PATIENCE, answer(&listener, &authority, &state)).await;
    let code = answered.map_err(|_| OAuthError::Timeout(PATIENCE))??;
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", back.as_str()),
        ("client_id", client_id.as_str()),
        ("code_verifier", verifier.as_str()),
        ("resource", remote.url.as_str()),
    ];
    let granted = grant(&client, authority.token_endpoint.as_str(), &form, "token").await?;
    let kept = Kept {
        issuer: authority.issuer,
        resource: remote.url.to_string(),
        token_endpoint: authority.token_endpoint.to_string(),
        client_id,
        access: granted.access_token,
        refresh: granted.refresh_token,
        expires: granted.expires_in.map(|seconds| now().saturating_add(seconds)),
    };
    write(&path, &kept)
}

/// 256 random bits as text.
fn random() -> Result<String, OAuthError> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| OAuthError::Request {
        step: "random number",
        detail: error.to_string(),
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Registers this program, as the authorization server offers.
async fn register(client: &reqwest::Client, authority: &Authority, back: &str) -> Result<String, OAuthError> {
    #[derive(Deserialize)]
    struct Registered {
        client_id: String,
    }
    let step = "registration";
    let Some(endpoint) = &authority.registration_endpoint else {
        return Err(OAuthError::Refused {
            step,
            detail: "it offers none".to_owned(),
        });
    };
    let wish = json!({
        "client_name": "Ringfence", "redirect_uris": [back], "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
        "application_type": "native",
    });
    let request = client
        .post(endpoint.clone())
        .header("content-type", "application/json")
        .body(wish.to_string())
        .timeout(WITHIN);
    let response = request
        .send()
        .await
        .map_err(|error| failed(step, &HttpError::Request(error.without_url())))?;
    let status = response.status();
    let text = body(response, MOST).await.map_err(|error| failed(step, &error))?;
    if !status.is_success() {
        let detail = status.to_string();
        return Err(OAuthError::Refused { step, detail });
    }
    let registered: Registered = serde_json::from_slice(&text).map_err(|_| OAuthError::Refused {
        step,
        detail: "its answer names no client".to_owned(),
    })?;
    Ok(registered.client_id)
}

/// The code that the browser brings; anything else that knocks is turned away.
async fn answer(listener: &TcpListener, authority: &Authority, state: &str) -> Result<String, OAuthError> {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            continue;
        };
        let request = tokio::time::timeout(WITHIN, request(&mut stream)).await.ok().flatten();
        let Some(target) = request.filter(|target| target.path() == "/callback") else {
            reply(&mut stream, "404 Not Found", "Not here.").await;
            continue;
        };
        let code = check(&target, authority, state);
        match &code {
            // Another program of this machine may knock; only the answer with our state counts.
            Err(OAuthError::Answer("another state")) => {
                reply(
                    &mut stream,
                    "400 Bad Request",
                    "This is not the login that was started.",
                )
                .await;
                continue;
            }
            Err(_) => {
                reply(
                    &mut stream,
                    "400 Bad Request",
                    "The login failed. You can close this window.",
                )
                .await;
            }
            Ok(_) => {
                reply(&mut stream, "200 OK", "Logged in. You can close this window.").await;
            }
        }
        return code;
    }
}

fn check(target: &Url, authority: &Authority, state: &str) -> Result<String, OAuthError> {
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

async fn request(stream: &mut TcpStream) -> Option<Url> {
    let mut text = Vec::new();
    let mut buffer = [0u8; 1024];
    while !text.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut buffer).await.ok()?;
        if read == 0 || text.len() + read > REQUEST {
            return None;
        }
        text.extend_from_slice(buffer.get(..read)?);
    }
    let text = String::from_utf8(text).ok()?;
    let target = text.lines().next()?.strip_prefix("GET ")?.split(' ').next()?;
    Url::parse("http://127.0.0.1/").ok()?.join(target).ok()
}

async fn reply(stream: &mut TcpStream, status: &str, text: &str) {
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    );
    // A browser that went away has its code delivered all the same.
    let _ = stream.write_all(answer.as_bytes()).await;
}
