//! Authentication by the bearer of an access token, and authorization by its scope.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, StatusCode};
use ringfence_engine::Engine;
use ringfence_engine::kept::Scope;
use ringfence_journal::{Principal, TokenId};
use serde_json::{Value, json};

use super::problem::Problem;

/// The path of the metadata that tells clients how to authenticate.
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// The path of approval requests.
const APPROVALS: &str = "/api/v1/approvals";
/// The least time between two records of the last use of an access token.
const NOTE: Duration = Duration::from_mins(1);

/// How clients authenticate themselves.
#[derive(Debug, Clone)]
pub enum Auth {
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
    pub(crate) scope: Scope,
}

impl Caller {
    /// Whether it may see what belongs to `owner`: an agent sees its own, other scopes see everything.
    pub(crate) fn sees(&self, owner: Principal) -> bool {
        self.view().is_none_or(|only| only == owner)
    }

    /// The only principal whose resources it may see; `None` means all.
    pub(crate) fn view(&self) -> Option<Principal> {
        (self.scope == Scope::Agent).then_some(self.principal)
    }
}

/// Authenticates requests and checks their scopes.
#[derive(Debug)]
pub(crate) struct Gate {
    auth: Auth,
    engine: Arc<Engine>,
    noted: Mutex<HashMap<TokenId, Instant>>,
}

impl Gate {
    pub(crate) fn new(auth: Auth, engine: Arc<Engine>) -> Gate {
        Gate {
            auth,
            engine,
            noted: Mutex::new(HashMap::new()),
        }
    }

    /// Authenticates the sender of these headers.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        if let Auth::Off(principal) = &self.auth {
            return Ok(Caller {
                principal: *principal,
                scope: Scope::Operator,
            });
        }
        let Some(shown) = bearer(headers)? else {
            let problem = Problem::new(StatusCode::UNAUTHORIZED, "auth.missing", "an access token is needed");
            return Err(self.challenge(problem, headers, ""));
        };
        let found = self.engine.store().token_of(shown);
        let found = found.map_err(|error| Problem::ours("store.read", &error))?;
        let Some(token) = found else {
            let message = "the access token is unknown or revoked";
            let problem = Problem::new(StatusCode::UNAUTHORIZED, "auth.invalid", message);
            return Err(self.challenge(problem, headers, "error=\"invalid_token\", "));
        };
        self.note(token.id);
        Ok(Caller {
            principal: Principal::Token(token.id),
            scope: token.scope,
        })
    }

    /// Whether an authenticated caller still has access.
    pub(crate) fn still(&self, caller: Caller) -> bool {
        match caller.principal {
            Principal::Local(_) => true,
            Principal::Token(id) => match self.engine.store().token(id) {
                Ok(token) => token.is_some_and(|token| token.revoked.is_none()),
                Err(error) => {
                    tracing::error!(%error, "cannot tell whether an access token is still good; its stream ends");
                    false
                }
            },
        }
    }

    /// Refuses a caller whose scope does not permit this request.
    pub(crate) fn scope(&self, caller: Caller, need: Need, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(least) = need.refuses(caller.scope) else {
            return Ok(());
        };
        let message = format!("an access token of scope `{}` may not do this", caller.scope);
        let problem = Problem::new(StatusCode::FORBIDDEN, "auth.scope", message)
            .rule("auth.scope")
            .hint(format!("use one of scope `{least}`"));
        let error = format!("error=\"insufficient_scope\", scope=\"{least}\", ");
        Err(challenged(problem, &self.base(headers), &error))
    }

    fn challenge(&self, problem: Problem, headers: &HeaderMap, error: &str) -> Problem {
        let problem = problem.hint(
            "send `Authorization: Bearer …` with an access token; the operator makes one with `ringfence token create`",
        );
        challenged(problem, &self.base(headers), error)
    }

    /// The protected-resource metadata (RFC 9728).
    pub(crate) fn metadata(&self, headers: &HeaderMap) -> Value {
        let base = self.base(headers);
        let mut metadata = json!({
            "resource": format!("{base}/mcp"),
            "resource_name": "Ringfence",
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["viewer", "agent", "operator"],
        });
        if let Auth::Tokens { issuers, .. } = &self.auth
            && !issuers.is_empty()
        {
            metadata["authorization_servers"] = json!(issuers);
        }
        metadata
    }

    /// The URL of this server: the configured one, otherwise the requested host, which was checked before.
    fn base(&self, headers: &HeaderMap) -> String {
        if let Auth::Tokens {
            resource: Some(url), ..
        } = &self.auth
        {
            return url.trim_end_matches('/').to_owned();
        }
        let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
        format!("http://{}", host.unwrap_or("localhost"))
    }

    /// Records the use of an access token at intervals, without delaying the request.
    fn note(&self, id: TokenId) {
        let now = Instant::now();
        {
            let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            if noted.get(&id).is_some_and(|at| now.duration_since(*at) < NOTE) {
                return;
            }
            noted.insert(id, now);
        }
        let engine = Arc::clone(&self.engine);
        tokio::spawn(async move {
            if let Err(error) = engine.store().token_used(id).await {
                tracing::warn!(%error, token = %id, "the last use of an access token was not noted");
            }
        });
    }
}

fn challenged(problem: Problem, base: &str, error: &str) -> Problem {
    problem.challenge(&format!("Bearer {error}resource_metadata=\"{base}{METADATA}/mcp\""))
}

/// The bearer token in these headers, of which there may be only one.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = all.next() else { return Ok(None) };
    let form = || {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "auth.form",
            "the `Authorization` header is not a bearer token",
        )
        .hint("send one header `Authorization: Bearer …`")
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
pub(crate) enum Need {
    /// No access: the response has no information on any principal.
    Nothing,
    /// Read access to sessions and runs.
    Look,
    /// Access that begins or changes runs.
    Run,
    /// Access to the metrics of the whole server.
    Watch,
    /// Access to decisions about other principals.
    Rule,
}

impl Need {
    /// The access that a request to this route requires. Of the routes without an entry here, those that read below `/api/v1/`
    /// require read access, and all others require access to run programs.
    pub(crate) fn of(method: &Method, route: &str) -> Need {
        match route {
            "/healthz" => Need::Nothing,
            _ if route.starts_with(METADATA) => Need::Nothing,
            "/metrics" => Need::Watch,
            "/api/v1/sessions/{id}/policy" => Need::Rule,
            // An agent learns of its pending requests through its own runs. The inbox shows what would be sent, with real values
            // where others have aliases, so it is only for those who answer.
            _ if route == APPROVALS || route.strip_prefix(APPROVALS).is_some_and(|rest| rest.starts_with('/')) => {
                Need::Rule
            }
            _ if route.starts_with("/api/v1/") && matches!(*method, Method::GET | Method::HEAD) => Need::Look,
            _ => Need::Run,
        }
    }

    /// The least scope that would suffice; `None` if this one does.
    fn refuses(self, scope: Scope) -> Option<Scope> {
        let (may, least): (&[Scope], _) = match self {
            Need::Nothing | Need::Look => return None,
            Need::Run => (&[Scope::Agent, Scope::Operator], Scope::Agent),
            Need::Watch => (&[Scope::Viewer, Scope::Operator], Scope::Viewer),
            Need::Rule => (&[Scope::Operator], Scope::Operator),
        };
        (!may.contains(&scope)).then_some(least)
    }
}

#[cfg(test)]
mod tests;
