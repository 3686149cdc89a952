//! Limits of one client: sizes, times, and the concurrency and rate of a principal's requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use ringfence_journal::Principal;

use super::problem::HttpProblem;

/// The limits of the HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpLimits {
    /// The longest request body, in bytes.
    pub body: usize,
    /// The most bytes of all bodies in memory at the same time.
    pub bodies: usize,
    /// The most connections that are open at the same time.
    pub connections: usize,
    /// The most requests of one principal at the same time, including open streams.
    pub requests: usize,
    /// The most requests of one principal per second; a burst may have twice as many.
    pub rate: u32,
    /// The time for a request's headers, and for a connection without a request.
    pub headers: Duration,
    /// The time for a request's body.
    pub receive: Duration,
    /// The time in which a client must read some bytes of its response.
    pub send: Duration,
    /// The time in which open runs may finish when the server stops.
    pub drain: Duration,
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits {
            body: 4 << 20,
            bodies: 64 << 20,
            connections: 512,
            requests: 256,
            rate: 1000,
            headers: Duration::from_secs(10),
            receive: Duration::from_secs(30),
            send: Duration::from_secs(30),
            drain: Duration::from_secs(30),
        }
    }
}

/// The open requests of a principal, and its remaining rate.
#[derive(Debug)]
struct PrincipalAccount {
    under_way: usize,
    tokens: f64,
    refilled_at: Instant,
}

/// The accounts of all principals.
#[derive(Debug)]
pub(crate) struct PrincipalAccounts {
    requests: usize,
    rate: u32,
    open: Mutex<HashMap<Principal, PrincipalAccount>>,
}

/// The permit of one request, released when it is dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    principal: Principal,
    accounts: Arc<PrincipalAccounts>,
}

impl PrincipalAccounts {
    pub(crate) fn new(limits: &HttpLimits) -> PrincipalAccounts {
        PrincipalAccounts {
            requests: limits.requests,
            rate: limits.rate.max(1),
            open: Mutex::new(HashMap::new()),
        }
    }

    /// Admits a request that arrives now, or returns the reason for its refusal.
    pub(crate) fn admit(self: &Arc<Self>, principal: Principal, now: Instant) -> Result<RequestPermit, HttpProblem> {
        let rate = f64::from(self.rate);
        let most = 2.0 * rate;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let account = open.entry(principal).or_insert(PrincipalAccount {
            under_way: 0,
            tokens: most,
            refilled_at: now,
        });
        let passed = now.saturating_duration_since(account.refilled_at).as_secs_f64();
        account.tokens = (account.tokens + passed * rate).min(most);
        account.refilled_at = now;
        if account.under_way >= self.requests {
            return Err(too_many_problem(
                "http.busy",
                format!("{} requests of this access token are under way", self.requests),
                "wait for some of them to end",
                Duration::from_secs(1),
            )
            .with_rule("listen.limits.requests"));
        }
        if account.tokens < 1.0 {
            let wait = Duration::from_secs_f64((1.0 - account.tokens) / rate);
            return Err(too_many_problem(
                "http.rate",
                format!("this access token asks more than {} times per second", self.rate),
                "ask less often",
                wait,
            )
            .with_rule("listen.limits.rate"));
        }
        account.tokens -= 1.0;
        account.under_way += 1;
        Ok(RequestPermit {
            principal,
            accounts: Arc::clone(self),
        })
    }
}

fn too_many_problem(code: &'static str, message: String, hint: &'static str, wait: Duration) -> HttpProblem {
    HttpProblem::new(StatusCode::TOO_MANY_REQUESTS, code, message)
        .with_hint(hint)
        .with_retry_after(wait)
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let mut open = self.accounts.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = open.get_mut(&self.principal) {
            account.under_way = account.under_way.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
