//! The pass of one execution: the only path of its tool calls.
//!
//! A tool that the policy hides by name counts as unknown. Then come the schema, the rules, approval by a person
//! where a rule requires it, the pin, the rates and the number of calls, the journal record, and the server. The
//! program gets the same refusal for a hidden tool as for a missing one. A call that is in the execution's call log
//! is answered from there, and none of this happens again.

mod authorize;
mod end_event_batcher;
mod fetch;
mod rate;
mod redact;
mod refuse;
mod session_history;
mod tally;
mod waiting;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ringfence_journal::{
    CallOutcome, CleanText, ContentHash, Event, EventKind, ExecutionId, RecordError, ReplayEntry, ReplayRecorder,
    ServerPlace, SessionId,
};
use ringfence_policy::Policy;
use tokio::sync::watch;

use crate::approval_port::ApprovalPort;
use crate::builtin_server::BuiltinServer;
use crate::call_log::{
    ActiveCall, AnswerParts, CallKind, CallLog, FETCH_NAME, LoggedAnswer, LoggedState, ReplayDivergence,
};
use crate::gateway::Gateway;
use crate::json_tree::TreeMemory;
use crate::redactor::Redactor;
use crate::refusal::{CallErrorBody, RequestRefusal};
use authorize::{ApprovalProgress, AuthorizeError, AuthorizedCall};
pub(crate) use end_event_batcher::EndEventBatcher;
use end_event_batcher::{EventWithEntries, EventWriter};
pub use session_history::{SessionHistory, Tenants};
pub(crate) use tally::RefusalTally;
use tally::{CallCount, CallTally};
pub use tally::{CallsMade, UnlistedCalls};
pub use waiting::WaitingCalls;
use waiting::{WaitKind, WaitingCounter};

/// Most time for one call if the policy sets no limit.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Most calls of one execution if the policy sets no limit.
const MAX_CALLS: u32 = 1000;

/// Memory for the arguments of one execution's calls in flight; further calls wait.
const MAX_ARGUMENTS_BYTES: usize = 64 << 20;

/// Most bytes of the name of an unknown server or tool that the journal records.
const MAX_NAME_BYTES: usize = 128;

/// The parts that a pass is built from.
#[derive(Debug)]
pub struct PassConfig<R> {
    /// The gateway that all sessions share.
    pub gateway: Arc<Gateway>,
    /// The policy that calls are checked against.
    pub policy: Arc<Policy>,
    /// Records the events of calls in the journal.
    pub recorder: R,
    /// The session that the calls belong to.
    pub session: SessionId,
    /// The execution that makes the calls.
    pub execution: ExecutionId,
    /// The execution that called this one as a skill; the two count their calls together. `None` if no execution
    /// called it.
    pub parent: Option<ExecutionId>,
    /// The history of the session, shared by its executions.
    pub history: Arc<SessionHistory>,
    /// The call log of the execution: earlier calls to replay, and new ones to keep.
    pub call_log: Arc<CallLog>,
    /// Asks people to approve calls.
    pub approvals: ApprovalPort,
    /// Redacts personal data and secrets for the session.
    pub redactor: Arc<Redactor>,
}

/// Checks, records and forwards the tool calls of one execution.
#[derive(Debug)]
pub struct Pass<R> {
    gateway: Arc<Gateway>,
    policy: RwLock<Arc<Policy>>,
    recorder: R,
    session: SessionId,
    execution: ExecutionId,
    history: Arc<SessionHistory>,
    call_log: Arc<CallLog>,
    approvals: ApprovalPort,
    redactor: Arc<Redactor>,
    builtin: Option<BuiltinServer>,
    completed: Mutex<CallTally>,
    refusals: Mutex<RefusalTally>,
    /// Whether the journal has the first refusal for too many calls.
    said_beyond: AtomicBool,
    calls: Arc<CallCount>,
    ends: EndEventBatcher<R, EventWithEntries>,
    waiting: WaitingCounter,
    trees: TreeMemory,
    caller_exit: watch::Sender<Option<CallerExit>>,
    finished: watch::Sender<bool>,
}

/// How the program that makes the calls went away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallerExit {
    /// The execution is cancelled; nobody needs its answers.
    Cancelled,
    /// The execution is suspended until a person has answered.
    Released,
}

/// A completed call, as reported to callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedCall {
    /// The program's number of the call.
    pub number: u32,
    /// The full name of the tool, or the name that the program used.
    pub tool: String,
    /// How the call ended.
    pub outcome: CallOutcome,
    /// The rule that decided the call, if one did.
    pub rule: Option<String>,
    /// Whether the policy refused the call.
    pub forbidden: bool,
    /// How long the call took.
    pub duration: Duration,
    /// Bytes of the arguments, as JSON text.
    pub bytes_in: u64,
    /// Bytes of the result, as JSON text; 0 if there is none.
    pub bytes_out: u64,
}

/// Why a call has no result.
#[derive(Debug)]
pub enum PassError {
    /// The call is refused or failed; the program gets this error.
    Refused(CallErrorBody),
    /// An event could not be recorded, so the call did not happen, and no further call may.
    Unrecorded(RecordError),
    /// The program is replayed and does not repeat its calls.
    Diverged(ReplayDivergence),
    /// The program gave up its sandbox while the call waited for approval; the approval request stays open.
    Released,
}

impl<R: ReplayRecorder + Clone + 'static> Pass<R> {
    /// Creates the pass of one execution.
    pub fn new(terms: PassConfig<R>) -> Pass<R> {
        Pass {
            gateway: terms.gateway,
            policy: RwLock::new(terms.policy),
            ends: EndEventBatcher::new(terms.recorder.clone()),
            recorder: terms.recorder,
            session: terms.session,
            execution: terms.execution,
            calls: terms.history.call_count(terms.execution, terms.parent),
            history: terms.history,
            call_log: terms.call_log,
            approvals: terms.approvals,
            redactor: terms.redactor,
            builtin: None,
            completed: Mutex::default(),
            refusals: Mutex::default(),
            said_beyond: AtomicBool::new(false),
            waiting: WaitingCounter::default(),
            trees: TreeMemory::new(MAX_ARGUMENTS_BYTES),
            caller_exit: watch::Sender::new(None),
            finished: watch::Sender::new(false),
        }
    }

    /// Adds a built-in server to the configured ones.
    #[must_use]
    pub fn with_builtin(self, own: BuiltinServer) -> Pass<R> {
        Pass {
            builtin: Some(own),
            ..self
        }
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the policy: new calls, and calls that a person approves, are checked against the new one.
    pub fn set_policy(&self, policy: Arc<Policy>) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// Sets the generation of the policy: session grants given under another generation are dropped.
    pub fn set_generation(&self, generation: u64) {
        self.history.set_generation(generation);
    }

    /// Watches the calls without an answer, and how many of them await approval.
    pub fn watch_waiting(&self) -> watch::Receiver<WaitingCalls> {
        self.waiting.watch()
    }

    /// Returns the call log of the execution.
    pub fn call_log(&self) -> &CallLog {
        &self.call_log
    }

    /// Calls a tool by the names that the program used. `body` is its arguments as JSON text, `trace` the trace since
    /// the previous call. Returns the result as JSON text.
    pub async fn call(
        &self,
        number: u32,
        server: &str,
        tool: &str,
        body: &str,
        trace: &[u8],
    ) -> Result<String, PassError> {
        self.call_log.append_trace(trace);
        let _open = self.waiting.add(WaitKind::Open);
        if let Some(error) = self.ends.failure() {
            return Err(PassError::Unrecorded(error));
        }
        let asking = ActiveCall {
            number,
            kind: CallKind::Tool { server, tool },
            name: None,
            hints: None,
            body,
        };
        let standing = match self.known(&asking).await? {
            LoggedState::Answered(answered) => return self.replay_answer(number, answered, body),
            LoggedState::New => ApprovalProgress::new(),
            LoggedState::Asked(question) => ApprovalProgress::with_question(question),
            LoggedState::Unknown(question) => ApprovalProgress::with_unknown_effect(question),
        };
        self.authorize_and_forward(asking, standing).await
    }

    /// Looks a call up in the call log. A logged call counts but never exceeds the limit: the current policy does not
    /// undo what happened.
    async fn known(&self, asking: &ActiveCall<'_>) -> Result<LoggedState<'_>, PassError> {
        let made = self.calls.next_call();
        if made > self.max_calls() && !self.call_log.has(asking.number) {
            return Err(self.refuse_beyond_limit(made, asking).await);
        }
        let known = self.call_log.find_call(asking.number, asking.kind, asking.body);
        known.map_err(PassError::Diverged)
    }

    /// Replays the answer that the program got before.
    fn replay_answer(&self, number: u32, answered: &LoggedAnswer, body: &str) -> Result<String, PassError> {
        let answer = answered.answer.clone();
        self.call_tally().add_call(CompletedCall {
            number,
            tool: self.call_log.call_name(number).unwrap_or_default(),
            outcome: answered.outcome,
            rule: answered.rule.clone(),
            forbidden: answered.forbidden,
            duration: answered.duration,
            bytes_in: body.len() as u64,
            bytes_out: answer.as_ref().map_or(0, |text| text.len() as u64),
        });
        answer.map_err(PassError::Refused)
    }

    async fn authorize_and_forward(
        &self,
        asking: ActiveCall<'_>,
        mut standing: ApprovalProgress,
    ) -> Result<String, PassError> {
        let cleared = self.authorize(&asking, &mut standing).await;
        if let Err(AuthorizeError::Stopped(stopped)) = cleared {
            return Err(stopped);
        }
        // The call is settled without the answer that it waited for.
        if let Some(question) = standing.question {
            Box::pin(self.approvals.withdraw(question))
                .await
                .map_err(PassError::Unrecorded)?;
        }
        let asking = ActiveCall {
            hints: standing.hints,
            ..asking
        };
        match cleared {
            Ok(cleared) => self.forward(asking, cleared).await,
            Err(AuthorizeError::Stopped(stopped)) => Err(stopped),
            Err(AuthorizeError::Refused(refusal)) => {
                let refusal = Box::pin(self.redact_refusal(refusal)).await?;
                if standing.is_effect_unknown {
                    return Err(self.refuse_unknown(&asking, refusal));
                }
                Err(Box::pin(self.refuse(&asking, refusal)).await)
            }
        }
    }

    async fn forward(&self, asking: ActiveCall<'_>, cleared: AuthorizedCall) -> Result<String, PassError> {
        let AuthorizedCall {
            tool,
            arguments,
            memory,
            rule,
            new_server,
            revealed,
        } = cleared;
        let asking = ActiveCall {
            name: Some(tool.name.as_str()),
            ..asking
        };
        if new_server {
            let place = self.gateway.server_place(tool.server());
            Box::pin(self.record_server_use(tool.server(), place)).await?;
        }
        let started = EventKind::CallStarted {
            number: u64::from(asking.number),
            tool: CleanText::clean(tool.name.as_str()),
            rule: CleanText::clean(&rule),
            arguments: ContentHash::digest(asking.body.as_bytes()),
            bytes: asking.body.len() as u64,
        };
        self.queue_revealed(asking.number, &revealed);
        self.record_after_ends(started, self.call_log.start_entries(&asking))
            .await?;
        let begun = Instant::now();
        let timeout = self
            .policy()
            .tools()
            .call_timeout
            .map_or(CALL_TIMEOUT, ringfence_policy::Period::get);
        let answered = if let (Some(own), Some(server)) = (tool.builtin(), &self.builtin) {
            let answered = server.call(own, arguments, self.wait_until_unneeded()).await;
            answered.and_then(|text| {
                let read = serde_json::from_str(&text);
                read.map_err(|error| {
                    (
                        CallOutcome::Broken,
                        RequestRefusal::new("tool.result", error.to_string()),
                    )
                })
            })
        } else {
            tokio::select! {
                answered = self.gateway.forward(&tool, arguments, timeout) => answered,
                () = self.wait_until_cancelled() => Err((CallOutcome::Unknown, RequestRefusal::caller_gone(tool.name.as_str()))),
            }
        };
        // The arguments are sent, and nothing holds them any more.
        drop(memory);
        let answered = self.redact_answer(asking.number, &tool, revealed, answered).await?;
        self.queue_end(&asking, &rule, begun.elapsed(), &answered);
        answered.map_err(|(_, told)| PassError::Refused(told))
    }

    /// Answers a call that was in flight when its process died and is not repeated.
    fn refuse_unknown(&self, asking: &ActiveCall<'_>, refusal: RequestRefusal) -> PassError {
        let name = self
            .call_log
            .call_name(asking.number)
            .unwrap_or_else(|| display_name(asking.kind));
        let told = CallErrorBody::from(refusal.with_unknown_effect(&name));
        let asking = ActiveCall {
            name: Some(&name),
            ..*asking
        };
        let answered = Err((CallOutcome::Unknown, told.clone()));
        self.queue_end(&asking, authorize::UNKNOWN_RULE, Duration::ZERO, &answered);
        PassError::Refused(told)
    }

    async fn record_server_use(&self, server: &str, place: ServerPlace) -> Result<(), PassError> {
        let used = EventKind::ServerUsed {
            server: CleanText::clean(server),
            place,
        };
        self.record(used).await
    }

    /// Queues the end of a call. The answer does not wait for its record; the end of the execution does.
    fn queue_end(
        &self,
        asking: &ActiveCall<'_>,
        rule: &str,
        duration: Duration,
        answered: &Result<String, (CallOutcome, CallErrorBody)>,
    ) {
        let (outcome, error) = match answered {
            Ok(_) => (CallOutcome::Ok, None),
            Err((outcome, told)) => (*outcome, Some(CleanText::clean(&told.code))),
        };
        let text = answered.as_ref().ok();
        let (name, bytes) = (
            asking.name.unwrap_or_default(),
            text.map_or(0, |text| text.len() as u64),
        );
        let kind = EventKind::CallEnded {
            number: u64::from(asking.number),
            tool: CleanText::clean(name),
            outcome,
            error,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            result: text.map(|text| ContentHash::digest(text.as_bytes())),
            bytes,
        };
        self.call_tally().add_call(CompletedCall {
            number: asking.number,
            tool: name.to_owned(),
            outcome,
            rule: Some(rule.to_owned()),
            forbidden: false,
            duration,
            bytes_in: asking.body.len() as u64,
            bytes_out: bytes,
        });
        let kept = AnswerParts {
            outcome,
            forbidden: false,
            duration,
            rule: Some(rule),
            answer: answered.as_ref().map(String::as_str).map_err(|(_, told)| told),
        };
        let entries = self.call_log.end_entry(asking.number, &kept);
        self.queue_refusal_counts();
        let event = Event::from_host(self.session, Some(self.execution), kind);
        self.ends.add(EventWithEntries(event, Vec::from_iter(entries)));
    }

    /// Writes the pending end events and this event in one commit.
    async fn record_after_ends(&self, kind: EventKind, entries: Vec<ReplayEntry>) -> Result<(), PassError> {
        self.queue_refusal_counts();
        let event = Event::from_host(self.session, Some(self.execution), kind);
        let (ends, written) = tokio::join!(
            self.ends.flush(),
            self.recorder.write_event(EventWithEntries(event, entries))
        );
        ends.and(written).map_err(PassError::Unrecorded)
    }

    async fn record(&self, kind: EventKind) -> Result<(), PassError> {
        let event = Event::from_host(self.session, Some(self.execution), kind);
        self.recorder
            .record(event)
            .await
            .map(drop)
            .map_err(PassError::Unrecorded)
    }

    /// Cancels the calls in flight: the program that made them is gone.
    pub fn cancel(&self) {
        self.caller_exit.send_replace(Some(CallerExit::Cancelled));
    }

    /// Releases the calls that await approval: the program gave up its sandbox, and is run again when there is an
    /// answer. Calls in flight are completed.
    pub fn release(&self) {
        self.caller_exit
            .send_if_modified(|leaving| leaving.is_none() && leaving.replace(CallerExit::Released).is_none());
    }

    /// Ends calls of the built-in server: the program has finished and needs no answers. Calls of other servers are
    /// completed.
    pub fn finish(&self) {
        self.finished.send_replace(true);
    }

    /// Waits until nobody needs the answer of a built-in call.
    async fn wait_until_unneeded(&self) {
        tokio::select! {
            () = self.wait_until_cancelled() => {}
            () = self.wait_until_finished() => {}
        }
    }

    async fn wait_until_finished(&self) {
        // This pass owns the sender, so waiting cannot fail.
        let _ = self.finished.subscribe().wait_for(|finished| *finished).await;
    }

    async fn wait_until_cancelled(&self) {
        while self.wait_for_exit().await != CallerExit::Cancelled {
            let mut leaving = self.caller_exit.subscribe();
            // This pass owns the sender, so waiting cannot fail.
            let _ = leaving
                .wait_for(|leaving| *leaving == Some(CallerExit::Cancelled))
                .await;
        }
    }

    /// Waits until the program goes away.
    async fn wait_for_exit(&self) -> CallerExit {
        let mut leaving = self.caller_exit.subscribe();
        let left = leaving.wait_for(Option::is_some).await.ok().and_then(|left| *left);
        match left {
            Some(left) => left,
            None => std::future::pending().await,
        }
    }

    /// Waits until every end event is written, and returns the calls that were made.
    pub async fn close(&self) -> Result<CallsMade, RecordError> {
        self.queue_refusal_counts();
        self.ends.flush_all().await?;
        Ok(self.call_tally().finish())
    }

    fn call_tally(&self) -> MutexGuard<'_, CallTally> {
        self.completed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clips a name that the program made up to a bounded length.
fn clip_name(mut name: String) -> String {
    if let Some((end, _)) = name.char_indices().nth(2 * MAX_NAME_BYTES) {
        name.truncate(end);
    }
    name
}

/// Returns the call's name as the program wrote it.
fn display_name(what: CallKind<&str>) -> String {
    match what {
        CallKind::Tool { server, tool } => format!("{server}.{tool}"),
        CallKind::Fetch => FETCH_NAME.to_owned(),
        CallKind::Search | CallKind::Describe | CallKind::List => String::new(),
    }
}

/// Returns the call's name for the journal: words that do not look like names are replaced.
fn journal_name(what: CallKind<&str>) -> String {
    let looks_so = |word: &str| {
        let starts = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        starts && word.len() <= MAX_NAME_BYTES && word.bytes().all(plain)
    };
    let shown = |word| if looks_so(word) { word } else { "unknown" };
    match what {
        CallKind::Tool { server, tool } => format!("{}.{}", shown(server), shown(tool)),
        CallKind::Fetch => FETCH_NAME.to_owned(),
        CallKind::Search | CallKind::Describe | CallKind::List => String::new(),
    }
}
