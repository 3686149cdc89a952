//! Authentication by the bearer of an access token, and authorization by its scope.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, StatusCode};
use ringfence_engine::Engine;
use ringfence_engine::storage::AccessScope;
use ringfence_journal::{Principal, TokenId};
use serde_json::{Value, json};

use super::problem::HttpProblem;

/// The path of the metadata that tells clients how to authenticate.
pub(crate) const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";
/// The path of approval requests.
const APPROVALS_PATH: &str = "/api/v1/approvals";
/// The least time between two records of the last use of an access token.
const LAST_USE_INTERVAL: Duration = Duration::from_mins(1);

/// How clients authenticate themselves.
#[derive(Debug, Clone)]
pub enum ClientAuth {
    /// Clients need an access token.
    Tokens {
        /// The URL by which clients know this server; `None` if it is the one that they request.
        resource: Option<String>,
        /// The authorization servers that issue access tokens to clients without one.
        issuers: Vec<String>,
    },
    /// Clients need no token: everybody who can connect is this principal. Only for a listener on loopback.
    Off(Principal),
}

/// The authenticated sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) scope: AccessScope,
}

impl Caller {
    /// Whether it may see what belongs to `owner`: an agent sees its own, other scopes see everything.
    pub(crate) fn may_see(&self, owner: Principal) -> bool {
        self.visible_principal().is_none_or(|only| only == owner)
    }

    /// The only principal whose resources it may see; `None` means all.
    pub(crate) fn visible_principal(&self) -> Option<Principal> {
        (self.scope == AccessScope::Agent).then_some(self.principal)
    }
}

/// Authenticates requests and checks their scopes.
#[derive(Debug)]
pub(crate) struct Authenticator {
    auth: ClientAuth,
    engine: Arc<Engine>,
    last_recorded: Mutex<HashMap<TokenId, Instant>>,
}

impl Authenticator {
    pub(crate) fn new(auth: ClientAuth, engine: Arc<Engine>) -> Authenticator {
        Authenticator {
            auth,
            engine,
            last_recorded: Mutex::new(HashMap::new()),
        }
    }

    /// Authenticates the sender of these headers.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<Caller, HttpProblem> {
        if let ClientAuth::Off(principal) = &self.auth {
            return Ok(Caller {
                principal: *principal,
                scope: AccessScope::Operator,
            });
        }
        let Some(shown) = bearer_token(headers)? else {
            let problem = HttpProblem::new(StatusCode::UNAUTHORIZED, "auth.missing", "an access token is needed");
            return Err(self.with_challenge(problem, headers, ""));
        };
        let found = self.engine.store().access_tokens().find_by_secret(shown);
        let found = found.map_err(|error| HttpProblem::internal("store.read", &error))?;
        let Some(token) = found else {
            let message = "the access token is unknown or revoked";
            let problem = HttpProblem::new(StatusCode::UNAUTHORIZED, "auth.invalid", message);
            return Err(self.with_challenge(problem, headers, "error=\"invalid_token\", "));
        };
        self.record_use(token.id);
        Ok(Caller {
            principal: Principal::Token(token.id),
            scope: token.scope,
        })
    }

    /// Whether an authenticated caller still has access.
    pub(crate) fn is_still_allowed(&self, caller: Caller) -> bool {
        match caller.principal {
            Principal::Local(_) => true,
            Principal::Token(id) => match self.engine.store().access_tokens().get(id) {
                Ok(token) => token.is_some_and(|token| token.revoked.is_none()),
                Err(error) => {
                    tracing::error!(%error, "cannot tell whether an access token is still good; its stream ends");
                    false
                }
            },
        }
    }

    /// Refuses a caller whose scope does not permit this request.
    pub(crate) fn require_scope(
        &self,
        caller: Caller,
        need: RequiredAccess,
        headers: &HeaderMap,
    ) -> Result<(), HttpProblem> {
        let Some(least) = need.missing_scope(caller.scope) else {
            return Ok(());
        };
        let message = format!("an access token of scope `{}` may not do this", caller.scope);
        let problem = HttpProblem::new(StatusCode::FORBIDDEN, "auth.scope", message)
            .with_rule("auth.scope")
            .with_hint(format!("use one of scope `{least}`"));
        let error = format!("error=\"insufficient_scope\", scope=\"{least}\", ");
        Err(challenge_problem(problem, &self.base_url(headers), &error))
    }

    fn with_challenge(&self, problem: HttpProblem, headers: &HeaderMap, error: &str) -> HttpProblem {
        let problem = problem.with_hint(
            "send `Authorization: Bearer …` with an access token; the operator makes one with `ringfence token create`",
        );
        challenge_problem(problem, &self.base_url(headers), error)
    }

    /// The protected-resource metadata (RFC 9728).
    pub(crate) fn resource_metadata(&self, headers: &HeaderMap) -> Value {
        let base = self.base_url(headers);
        let mut metadata = json!({
            "resource": format!("{base}/mcp"),
            "resource_name": "Ringfence",
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["viewer", "agent", "operator"],
        });
        if let ClientAuth::Tokens { issuers, .. } = &self.auth
            && !issuers.is_empty()
        {
            metadata["authorization_servers"] = json!(issuers);
        }
        metadata
    }

    /// The URL of this server: the configured one, otherwise the requested host, which was checked before.
    fn base_url(&self, headers: &HeaderMap) -> String {
        if let ClientAuth::Tokens {
            resource: Some(url), ..
        } = &self.auth
        {
            return url.trim_end_matches('/').to_owned();
        }
        let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
        format!("http://{}", host.unwrap_or("localhost"))
    }

    /// Records the use of an access token at intervals, without delaying the request.
    fn record_use(&self, id: TokenId) {
        let now = Instant::now();
        {
            let mut noted = self.last_recorded.lock().unwrap_or_else(PoisonError::into_inner);
            if noted
                .get(&id)
                .is_some_and(|at| now.duration_since(*at) < LAST_USE_INTERVAL)
            {
                return;
            }
            noted.insert(id, now);
        }
        let engine = Arc::clone(&self.engine);
        tokio::spawn(async move {
            if let Err(error) = engine.store().access_tokens().note_use(id).await {
                tracing::warn!(%error, token = %id, "the last use of an access token was not noted");
            }
        });
    }
}

fn challenge_problem(problem: HttpProblem, base: &str, error: &str) -> HttpProblem {
    problem.with_challenge(&format!(
        "Bearer {error}resource_metadata=\"{base}{METADATA_PATH}/mcp\""
    ))
}

/// The bearer token in these headers, of which there may be only one.
fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, HttpProblem> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = all.next() else { return Ok(None) };
    let form = || {
        HttpProblem::new(
            StatusCode::BAD_REQUEST,
            "auth.form",
            "the `Authorization` header is not a bearer token",
        )
        .with_hint("send one header `Authorization: Bearer …`")
    };
    if all.next().is_some() {
        return Err(form());
    }
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or_else(form)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(Some(token.trim()))
    } else {
        Err(form())
    }
}

/// The access that a request requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequiredAccess {
    /// No access: the response has no information on any principal.
    Nothing,
    /// Read access to sessions and runs.
    Read,
    /// Access that begins or changes runs.
    Run,
    /// Access to the metrics of the whole server.
    Metrics,
    /// Access to decisions about other principals.
    Administer,
}

impl RequiredAccess {
    /// The access that a request to this route requires. Of the routes without an entry here, those that read below `/api/v1/`
    /// require read access, and all others require access to run programs.
    pub(crate) fn for_route(method: &Method, route: &str) -> RequiredAccess {
        match route {
            "/healthz" => RequiredAccess::Nothing,
            _ if route.starts_with(METADATA_PATH) => RequiredAccess::Nothing,
            "/metrics" => RequiredAccess::Metrics,
            "/api/v1/sessions/{id}/policy" => RequiredAccess::Administer,
            // An agent learns of its pending requests through its own runs. The inbox shows what would be sent, with real values
            // where others have aliases, so it is only for those who answer.
            _ if route == APPROVALS_PATH
                || route
                    .strip_prefix(APPROVALS_PATH)
                    .is_some_and(|rest| rest.starts_with('/')) =>
            {
                RequiredAccess::Administer
            }
            _ if route.starts_with("/api/v1/") && matches!(*method, Method::GET | Method::HEAD) => RequiredAccess::Read,
            _ => RequiredAccess::Run,
        }
    }

    /// The least scope that would suffice; `None` if this one does.
    fn missing_scope(self, scope: AccessScope) -> Option<AccessScope> {
        let (may, least): (&[AccessScope], _) = match self {
            RequiredAccess::Nothing | RequiredAccess::Read => return None,
            RequiredAccess::Run => (&[AccessScope::Agent, AccessScope::Operator], AccessScope::Agent),
            RequiredAccess::Metrics => (&[AccessScope::Viewer, AccessScope::Operator], AccessScope::Viewer),
            RequiredAccess::Administer => (&[AccessScope::Operator], AccessScope::Operator),
        };
        (!may.contains(&scope)).then_some(least)
    }
}

#[cfg(test)]
mod tests;
