//! A tiny authorization server: metadata, registration, consent without a person, tokens with PKCE, refresh.

use std::collections::HashMap;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::http::{BuiltResponse, ReceivedRequest};

#[derive(Default)]
struct IssuedCodes {
    /// PKCE challenges by authorization code.
    codes: HashMap<String, String>,
    number: u32,
}

pub(super) struct TestAuthorizationServer {
    origin: String,
    issued: Mutex<IssuedCodes>,
}

impl TestAuthorizationServer {
    pub(super) fn new(origin: &str) -> TestAuthorizationServer {
        TestAuthorizationServer {
            origin: origin.to_owned(),
            issued: Mutex::default(),
        }
    }

    /// Answers requests to its own endpoints, and refuses requests without a token.
    pub(super) fn respond(&self, request: &ReceivedRequest) -> Option<BuiltResponse> {
        let origin = &self.origin;
        Some(match request.path.as_str() {
            "/mcp" => {
                let bearer = request
                    .headers
                    .get("authorization")
                    .map(String::as_str)
                    .unwrap_or_default();
                if bearer.starts_with("Bearer access-") {
                    return None;
                }
                let challenge =
                    format!("Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"");
                BuiltResponse::new(401).with("WWW-Authenticate", challenge)
            }
            "/.well-known/oauth-protected-resource/mcp" => BuiltResponse::json(
                200,
                &json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["tools"]}),
            ),
            "/.well-known/oauth-authorization-server" => BuiltResponse::json(
                200,
                &json!({"issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
                    "token_endpoint": format!("{origin}/token"), "registration_endpoint": format!("{origin}/register"),
                    "code_challenge_methods_supported": ["S256"], "authorization_response_iss_parameter_supported": true,
                    "response_types_supported": ["code"]}),
            ),
            "/register" => BuiltResponse::json(201, &json!({"client_id": "client-1"})),
            "/authorize" => self.authorize(request),
            "/token" => self.token(request),
            _ => return None,
        })
    }

    fn authorize(&self, request: &ReceivedRequest) -> BuiltResponse {
        let query = parse_form(&request.query);
        let (Some(back), Some(state), Some(challenge)) = (
            query.get("redirect_uri"),
            query.get("state"),
            query.get("code_challenge"),
        ) else {
            return BuiltResponse::new(400);
        };
        if query.get("code_challenge_method").map(String::as_str) != Some("S256") {
            return BuiltResponse::new(400);
        }
        let Ok(mut issued) = self.issued.lock() else {
            return BuiltResponse::new(500);
        };
        issued.number += 1;
        let code = format!("code-{}", issued.number);
        issued.codes.insert(code.clone(), challenge.clone());
        let us = percent_encode(&self.origin);
        BuiltResponse::new(302).with("Location", format!("{back}?code={code}&state={state}&iss={us}"))
    }

    fn token(&self, request: &ReceivedRequest) -> BuiltResponse {
        let query = parse_form(&String::from_utf8_lossy(&request.body));
        let Ok(mut issued) = self.issued.lock() else {
            return BuiltResponse::new(500);
        };
        issued.number += 1;
        let granted = match query.get("grant_type").map(String::as_str) {
            Some("authorization_code") => {
                let challenge = query.get("code").and_then(|code| issued.codes.remove(code));
                let verifier = query.get("code_verifier").cloned().unwrap_or_default();
                let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
                verifier.len() >= 43 && challenge == Some(proof)
            }
            Some("refresh_token") => query
                .get("refresh_token")
                .is_some_and(|token| token.starts_with("refresh-")),
            _ => false,
        };
        if !granted {
            return BuiltResponse::json(400, &json!({"error": "invalid_grant"}));
        }
        let number = issued.number;
        BuiltResponse::json(
            200,
            &json!({"access_token": format!("access-{number:08}"), "refresh_token": format!("refresh-{number:08}"),
                "token_type": "Bearer", "expires_in": 1}),
        )
    }
}

fn parse_form(text: &str) -> HashMap<String, String> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((percent_decode(name), percent_decode(value)))
    };
    text.split('&').filter_map(pair).collect()
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let hex: Vec<u8> = rest.by_ref().take(2).collect();
                let hex = String::from_utf8_lossy(&hex).into_owned();
                bytes.push(u8::from_str_radix(&hex, 16).unwrap_or(b'?'));
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn percent_encode(text: &str) -> String {
    text.replace(':', "%3A").replace('/', "%2F")
}
