//! A session's right at the door: the one road that every tool call takes.
//!
//! Visible by name, else unknown; then the schema, the rules, the pin, the rate, the number of calls, the record, the server.
//! What a program is told of a refusal is the same whether a tool is hidden or not there.

mod ends;
mod rate;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ringfence_catalog::Tool;
use ringfence_journal::{
    CallOutcome, Event, ExecutionId, Hash, Kind, RecordError, Recorder, ServerPlace, SessionId, Text,
};
use ringfence_policy::{Decision, History, Policy, Verdict};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::gateway::{Found, Gateway};
use crate::refusal::Refusal;
pub(crate) use ends::Ends;
use rate::Rates;

/// How long one call may take where the policy says nothing.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Calls in one session where the policy says nothing.
const MAX_CALLS: u32 = 1000;

/// What one execution may do at the door.
#[derive(Debug)]
pub struct Pass<R> {
    gateway: Arc<Gateway>,
    policy: RwLock<Arc<Policy>>,
    recorder: R,
    session: SessionId,
    execution: ExecutionId,
    past: Arc<Past>,
    made: Mutex<Vec<Made>>,
    ends: Ends<R>,
    cancelled: watch::Sender<bool>,
}

/// What a session has done at the door: its executions share history, rates and count.
#[derive(Debug, Default)]
pub struct Past(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    history: History,
    rates: Rates,
    calls: u32,
    servers: BTreeSet<String>,
}

impl Past {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call, as it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The program's number of it.
    pub number: u32,
    /// The tool.
    pub tool: String,
    /// How it went.
    pub outcome: CallOutcome,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Whether it was the policy that refused it.
    pub forbidden: bool,
    /// How long it took.
    pub duration: Duration,
    /// Bytes of the arguments.
    pub bytes_in: u64,
    /// Bytes of the result.
    pub bytes_out: u64,
}

/// Why a call has no answer at all.
#[derive(Debug)]
pub enum Stopped {
    /// The program is told.
    Refused(Refusal),
    /// It could not be written down, so it did not happen, and nothing more may.
    Unrecorded(RecordError),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Stopped {
        Stopped::Refused(refusal)
    }
}

/// A call that passed every check but the record.
struct Allowed {
    rule: String,
    /// The server was not used in this session before.
    new_server: bool,
}

impl<R: Recorder + Clone + 'static> Pass<R> {
    /// The pass of one execution in a session with this past.
    pub fn new(
        gateway: Arc<Gateway>,
        policy: Arc<Policy>,
        recorder: R,
        (session, execution): (SessionId, ExecutionId),
        past: Arc<Past>,
    ) -> Pass<R> {
        Pass {
            gateway,
            policy: RwLock::new(policy),
            ends: Ends::new(recorder.clone()),
            recorder,
            session,
            execution,
            past,
            made: Mutex::default(),
            cancelled: watch::Sender::new(false),
        }
    }

    fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other rules in force: calls that come are judged by them.
    pub fn change(&self, policy: Arc<Policy>) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// Calls a tool by the names that a program used; `body` is its arguments as JSON text. The answer is JSON text.
    pub async fn call(&self, number: u32, server: &str, tool: &str, body: &str) -> Result<String, Stopped> {
        if let Some(error) = self.ends.failed() {
            return Err(Stopped::Unrecorded(error));
        }
        match self.checked(server, tool, body).await {
            Ok((tool, arguments, allowed)) => self.forward(number, &tool, arguments, body, allowed).await,
            Err(refusal) => {
                let name = format!("{server}.{tool}");
                Err(self.refuse(number, &name, body.len() as u64, refusal).await)
            }
        }
    }

    /// Everything that can be refused before anything is written or sent.
    async fn checked(
        &self,
        server: &str,
        tool: &str,
        body: &str,
    ) -> Result<(Found, Map<String, Value>, Allowed), Refusal> {
        let tool = self.gateway.tool(&self.policy(), server, tool).await?;
        let arguments: Value = serde_json::from_str(body)
            .map_err(|error| Refusal::new("tool.arguments", format!("the arguments are not JSON: {error}")))?;
        self.gateway.check(&tool, &arguments)?;
        let allowed = self.decide(&tool, &arguments)?;
        let Value::Object(arguments) = arguments else {
            return Err(Refusal::new("tool.arguments", "the arguments are not an object").by("inputSchema"));
        };
        Ok((tool, arguments, allowed))
    }

    /// Rules, pin, rate and number in one step: of two calls at once, the second sees the first.
    fn decide(&self, tool: &Tool, arguments: &Value) -> Result<Allowed, Refusal> {
        let name = tool.name.as_str();
        let policy = self.policy();
        let mut state = self.past.state();
        let rule = match policy.tool(name, arguments, &state.history) {
            Decision::Allow(rule) => rule,
            Decision::Ask(rule) => return Err(Refusal::needs_approval(name, rule.as_str())),
            Decision::Deny(rule) => return Err(Refusal::denied(name, &rule)),
        };
        let most = policy.tools().max_calls.unwrap_or(MAX_CALLS);
        if state.calls >= most {
            return Err(
                Refusal::new("limit.calls", format!("{most} calls were made in this session"))
                    .by("tools.max_calls")
                    .hint("make fewer calls: filter at the tool, or ask for more at once"),
            );
        }
        let rates = policy.rates(&tool.name, arguments, &state.history);
        state.rates.take(&rates, Instant::now()).map_err(|(rule, rate, wait)| {
            Refusal::new("limit.rate", format!("`{name}` may be called {rate} at most"))
                .by(rule.as_str())
                .hint(format!("wait {:.1} s and call again", wait.as_secs_f64()))
        })?;
        state.calls += 1;
        state.history.record(tool.name.clone());
        Ok(Allowed {
            rule: rule.as_str().to_owned(),
            new_server: state.servers.insert(tool.server().to_owned()),
        })
    }

    async fn forward(
        &self,
        number: u32,
        tool: &Tool,
        arguments: Map<String, Value>,
        body: &str,
        allowed: Allowed,
    ) -> Result<String, Stopped> {
        if let Err(refusal) = self.pinned(tool).await? {
            return Err(self
                .refuse(number, tool.name.as_str(), body.len() as u64, refusal)
                .await);
        }
        if allowed.new_server {
            let place = self.gateway.place(tool.server());
            self.used(tool.server(), place).await?;
        }
        let started = Kind::CallStarted {
            number: u64::from(number),
            tool: Text::clean(tool.name.as_str()),
            rule: Text::clean(&allowed.rule),
            arguments: Hash::of(body.as_bytes()),
            bytes: body.len() as u64,
        };
        self.record_after_ends(started).await.map_err(Stopped::Unrecorded)?;
        let begun = Instant::now();
        let timeout = self
            .policy()
            .tools()
            .call_timeout
            .map_or(CALL_TIMEOUT, ringfence_policy::Period::get);
        let answered = tokio::select! {
            answered = self.gateway.forward(tool, arguments, timeout) => answered,
            () = self.cancelled() => Err((
                CallOutcome::Unknown,
                Refusal::new("tool.unknown_effect", format!("the program ended while `{}` was under way", tool.name)),
            )),
        };
        self.ended(
            number,
            tool,
            &allowed.rule,
            body.len() as u64,
            begun.elapsed(),
            &answered,
        );
        answered.map_err(|(_, refusal)| Stopped::Refused(refusal))
    }

    /// A tool is what it was when it was first used, or the policy says what happens.
    async fn pinned(&self, tool: &Tool) -> Result<Result<(), Refusal>, Stopped> {
        let Some(since) = self.gateway.drifted(tool)? else {
            return Ok(Ok(()));
        };
        let drifted = Kind::ToolDrifted {
            tool: Text::clean(tool.name.as_str()),
            found: Text::clean(&tool.digest.to_string()),
            since,
        };
        self.record(drifted).await.map_err(Stopped::Unrecorded)?;
        let changed = || {
            Refusal::new(
                "tool.drift",
                format!("the definition of `{}` changed since it was first used", tool.name),
            )
            .by("tools.drift")
        };
        Ok(match self.policy().tools().drift.unwrap_or(Verdict::Ask) {
            Verdict::Allow => {
                self.gateway.accept(tool)?;
                Ok(())
            }
            Verdict::Ask => Err(changed().hint(format!(
                "the operator looks at it with `ringfence tools show {0}` and accepts it with `ringfence tools accept {0}`",
                tool.name
            ))),
            Verdict::Deny => Err(changed().hint("use another tool")),
        })
    }

    async fn used(&self, server: &str, place: ServerPlace) -> Result<(), Stopped> {
        let used = Kind::ServerUsed {
            server: Text::clean(server),
            place,
        };
        self.record(used).await.map_err(Stopped::Unrecorded)
    }

    async fn refuse(&self, number: u32, tool: &str, bytes_in: u64, refusal: Refusal) -> Stopped {
        let refused = Kind::CallRefused {
            number: u64::from(number),
            tool: Text::clean(tool),
            code: Text::clean(refusal.code),
            rule: Text::clean(
                refusal
                    .hidden_by
                    .as_deref()
                    .or(refusal.rule.as_deref())
                    .unwrap_or_default(),
            ),
        };
        self.made().push(Made {
            number,
            tool: tool.to_owned(),
            outcome: CallOutcome::Refused,
            rule: refusal.rule.clone(),
            forbidden: refusal.is_the_policys(),
            duration: Duration::ZERO,
            bytes_in,
            bytes_out: 0,
        });
        match self.record(refused).await {
            Ok(()) => Stopped::Refused(refusal),
            Err(error) => Stopped::Unrecorded(error),
        }
    }

    /// The answer does not wait for the record of its end; the execution's does.
    fn ended(
        &self,
        number: u32,
        tool: &Tool,
        rule: &str,
        bytes_in: u64,
        duration: Duration,
        answered: &Result<String, (CallOutcome, Refusal)>,
    ) {
        let (outcome, error) = match answered {
            Ok(_) => (CallOutcome::Ok, None),
            Err((outcome, refusal)) => (*outcome, Some(Text::clean(refusal.code))),
        };
        let text = answered.as_ref().ok();
        let bytes = text.map_or(0, |text| text.len() as u64);
        let kind = Kind::CallEnded {
            number: u64::from(number),
            tool: Text::clean(tool.name.as_str()),
            outcome,
            error,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            result: text.map(|text| Hash::of(text.as_bytes())),
            bytes,
        };
        self.made().push(Made {
            number,
            tool: tool.name.as_str().to_owned(),
            outcome,
            rule: Some(rule.to_owned()),
            forbidden: false,
            duration,
            bytes_in,
            bytes_out: bytes,
        });
        self.ends.add(Event::host(self.session, Some(self.execution), kind));
    }

    /// Writes the ends that wait and this event in one commit.
    async fn record_after_ends(&self, kind: Kind) -> Result<(), RecordError> {
        let event = Event::host(self.session, Some(self.execution), kind);
        let (ends, written) = tokio::join!(self.ends.write(), self.recorder.record(event));
        ends?;
        written.map(drop)
    }

    async fn record(&self, kind: Kind) -> Result<(), RecordError> {
        let event = Event::host(self.session, Some(self.execution), kind);
        self.recorder.record(event).await.map(drop)
    }

    /// Ends what is under way: the program that asked is gone.
    pub fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    async fn cancelled(&self) {
        let mut cancelled = self.cancelled.subscribe();
        if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until every end is written; answers the calls that were made, by number.
    pub async fn close(&self) -> Result<Vec<Made>, RecordError> {
        self.ends.write().await?;
        let mut made = std::mem::take(&mut *self.made());
        made.sort_by_key(|call| call.number);
        Ok(made)
    }

    fn made(&self) -> MutexGuard<'_, Vec<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
