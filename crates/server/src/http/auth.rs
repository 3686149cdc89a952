//! Who asks: the bearer of an access token, and what its scope lets it do.

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

/// Where clients find how to be let in.
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// Where people are asked.
const APPROVALS: &str = "/api/v1/approvals";
/// How often the last use of one access token is written down.
const NOTE: Duration = Duration::from_mins(1);

/// How clients prove who they are.
#[derive(Debug, Clone)]
pub enum Auth {
    /// By an access token.
    Tokens {
        /// The address under which clients know this server, where it is not the one they ask.
        resource: Option<String>,
        /// Who hands out access tokens to those who come without.
        issuers: Vec<String>,
    },
    /// Not at all: everybody who reaches the door is this principal. Only for a door on loopback.
    Off(Principal),
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) scope: Scope,
}

impl Caller {
    /// Whose sessions it may see: an agent its own, others everybody's.
    pub(crate) fn sees(&self, owner: Principal) -> bool {
        self.view().is_none_or(|only| only == owner)
    }

    /// The principal whose things it is shown; none means everybody's.
    pub(crate) fn view(&self) -> Option<Principal> {
        (self.scope == Scope::Agent).then_some(self.principal)
    }
}

/// Finds out who asks.
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

    /// Who sent these headers.
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

    /// Whether a caller that was let in before still would be.
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

    /// Refuses a caller whose scope is too small for this request.
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

    /// How clients are to be let in (RFC 9728).
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

    /// Our own address: what the operator says, else the name that was asked for, which was checked before.
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

    /// Writes down that an access token was used, now and then, beside the request.
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

/// The one bearer token in these headers.
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

/// What a request needs of the one who sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it says nothing about anybody.
    Nothing,
    /// To look at sessions and runs.
    Look,
    /// To run something.
    Run,
    /// To see how the whole server does.
    Watch,
    /// To say what others may do.
    Rule,
}

impl Need {
    /// What a request to this route needs. A route that nobody thought of needs the most.
    pub(crate) fn of(method: &Method, route: &str) -> Need {
        match route {
            "/healthz" => Need::Nothing,
            _ if route.starts_with(METADATA) => Need::Nothing,
            "/metrics" => Need::Watch,
            "/api/v1/sessions/{id}/policy" => Need::Rule,
            // An agent hears of what waits through its own runs. The inbox shows what would be sent, with real values where others
            // have aliases: it is for those who answer.
            _ if route == APPROVALS || route.strip_prefix(APPROVALS).is_some_and(|rest| rest.starts_with('/')) => {
                Need::Rule
            }
            _ if route.starts_with("/api/v1/") && matches!(*method, Method::GET | Method::HEAD) => Need::Look,
            _ => Need::Run,
        }
    }

    /// The least scope that would do, where this one does not.
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
