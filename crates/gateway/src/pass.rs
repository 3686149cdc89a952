//! The pass of one execution: the only path of its tool calls.
//!
//! A tool that the policy hides by name counts as unknown. Then come the schema, the rules, approval by a person
//! where a rule requires it, the pin, the rates and the number of calls, the journal record, and the server. The
//! program gets the same refusal for a hidden tool as for a missing one. A call that is in the execution's call log
//! is answered from there, and none of this happens again.

mod clear;
mod count;
mod ends;
mod fetch;
mod past;
mod rate;
mod screened;
mod tally;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ringfence_journal::{
    CallOutcome, Entry, Event, ExecutionId, Hash, KeepingRecorder, Kind, RecordError, ServerPlace, SessionId, Text,
};
use ringfence_policy::Policy;
use tokio::sync::watch;

use crate::desk::Desk;
use crate::gateway::Gateway;
use crate::own::Own;
use crate::refusal::{Refusal, Told};
use crate::screen::Screen;
use crate::tape::{AnswerParts, Answered, Asking, Diverged, FETCH, Known, Tape, What};
use crate::tree::TreeMemory;
use clear::{Cleared, Halt, Standing};
pub use count::Waiting;
use count::{Counted, Waits};
pub(crate) use ends::Ends;
use ends::{Kept, Writes};
pub use past::{Past, Tenants};
pub(crate) use tally::RefusalTally;
use tally::{CallCount, CallTally};
pub use tally::{CallsMade, MoreCalls};

/// Most time for one call if the policy sets no limit.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Most calls of one execution if the policy sets no limit.
const MAX_CALLS: u32 = 1000;

/// Memory for the arguments of one execution's calls in flight; further calls wait.
const MAX_ARGUMENTS: usize = 64 << 20;

/// Most bytes of the name of an unknown server or tool that the journal records.
const LONGEST_NAME: usize = 128;

/// The parts that a pass is built from.
#[derive(Debug)]
pub struct Terms<R> {
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
    pub past: Arc<Past>,
    /// The call log of the execution: earlier calls to replay, and new ones to keep.
    pub tape: Arc<Tape>,
    /// Asks people to approve calls.
    pub desk: Desk,
    /// Redacts personal data and secrets for the session.
    pub screen: Arc<Screen>,
}

/// Checks, records and forwards the tool calls of one execution.
#[derive(Debug)]
pub struct Pass<R> {
    gateway: Arc<Gateway>,
    policy: RwLock<Arc<Policy>>,
    recorder: R,
    session: SessionId,
    execution: ExecutionId,
    past: Arc<Past>,
    tape: Arc<Tape>,
    desk: Desk,
    screen: Arc<Screen>,
    own: Option<Own>,
    made: Mutex<CallTally>,
    refusals: Mutex<RefusalTally>,
    /// Whether the journal has the first refusal for too many calls.
    said_beyond: AtomicBool,
    calls: Arc<CallCount>,
    ends: Ends<R, Kept>,
    waits: Waits,
    trees: TreeMemory,
    leaving: watch::Sender<Option<Leaving>>,
    finished: watch::Sender<bool>,
}

/// How the program that makes the calls went away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// The execution is cancelled; nobody needs its answers.
    Cancelled,
    /// The execution is suspended until a person has answered.
    Released,
}

/// A completed call, as reported to callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
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
pub enum Stopped {
    /// The call is refused or failed; the program gets this error.
    Refused(Told),
    /// An event could not be recorded, so the call did not happen, and no further call may.
    Unrecorded(RecordError),
    /// The program is replayed and does not repeat its calls.
    Diverged(Diverged),
    /// The program gave up its sandbox while the call waited for approval; the approval request stays open.
    Released,
}

impl<R: KeepingRecorder + Clone + 'static> Pass<R> {
    /// Creates the pass of one execution.
    pub fn new(terms: Terms<R>) -> Pass<R> {
        Pass {
            gateway: terms.gateway,
            policy: RwLock::new(terms.policy),
            ends: Ends::new(terms.recorder.clone()),
            recorder: terms.recorder,
            session: terms.session,
            execution: terms.execution,
            calls: terms.past.calls_of(terms.execution, terms.parent),
            past: terms.past,
            tape: terms.tape,
            desk: terms.desk,
            screen: terms.screen,
            own: None,
            made: Mutex::default(),
            refusals: Mutex::default(),
            said_beyond: AtomicBool::new(false),
            waits: Waits::default(),
            trees: TreeMemory::new(MAX_ARGUMENTS),
            leaving: watch::Sender::new(None),
            finished: watch::Sender::new(false),
        }
    }

    /// Adds a built-in server to the configured ones.
    #[must_use]
    pub fn with_own(self, own: Own) -> Pass<R> {
        Pass { own: Some(own), ..self }
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the policy: new calls, and calls that a person approves, are checked against the new one.
    pub fn change(&self, policy: Arc<Policy>) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// Sets the generation of the policy: session grants given under another generation are dropped.
    pub fn ruled(&self, generation: u64) {
        self.past.ruled(generation);
    }

    /// Watches the calls without an answer, and how many of them await approval.
    pub fn waiting(&self) -> watch::Receiver<Waiting> {
        self.waits.watch()
    }

    /// Returns the call log of the execution.
    pub fn tape(&self) -> &Tape {
        &self.tape
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
    ) -> Result<String, Stopped> {
        self.tape.heard(trace);
        let _open = self.waits.add(Counted::Open);
        if let Some(error) = self.ends.failed() {
            return Err(Stopped::Unrecorded(error));
        }
        let asking = Asking {
            number,
            what: What::Tool { server, tool },
            name: None,
            hints: None,
            body,
        };
        let standing = match self.known(&asking).await? {
            Known::Answered(answered) => return self.again(number, answered, body),
            Known::New => Standing::new(),
            Known::Asked(question) => Standing::asked(question),
            Known::Unknown(question) => Standing::unknown(question),
        };
        self.live(asking, standing).await
    }

    /// Looks a call up in the call log. A logged call counts but never exceeds the limit: the current policy does not
    /// undo what happened.
    async fn known(&self, asking: &Asking<'_>) -> Result<Known<'_>, Stopped> {
        let made = self.calls.next_call();
        if made > self.max_calls() && !self.tape.has(asking.number) {
            return Err(self.beyond(made, asking).await);
        }
        let known = self.tape.find(asking.number, asking.what, asking.body);
        known.map_err(Stopped::Diverged)
    }

    /// Replays the answer that the program got before.
    fn again(&self, number: u32, answered: &Answered, body: &str) -> Result<String, Stopped> {
        let answer = answered.answer.clone();
        self.made().add(Made {
            number,
            tool: self.tape.named(number).unwrap_or_default(),
            outcome: answered.outcome,
            rule: answered.rule.clone(),
            forbidden: answered.forbidden,
            duration: answered.duration,
            bytes_in: body.len() as u64,
            bytes_out: answer.as_ref().map_or(0, |text| text.len() as u64),
        });
        answer.map_err(Stopped::Refused)
    }

    async fn live(&self, asking: Asking<'_>, mut standing: Standing) -> Result<String, Stopped> {
        let cleared = self.clear(&asking, &mut standing).await;
        if let Err(Halt::Stopped(stopped)) = cleared {
            return Err(stopped);
        }
        // The call is settled without the answer that it waited for.
        if let Some(question) = standing.question {
            Box::pin(self.desk.withdraw(question))
                .await
                .map_err(Stopped::Unrecorded)?;
        }
        let asking = Asking {
            hints: standing.hints,
            ..asking
        };
        match cleared {
            Ok(cleared) => self.forward(asking, cleared).await,
            Err(Halt::Stopped(stopped)) => Err(stopped),
            Err(Halt::Refused(refusal)) => {
                let refusal = Box::pin(self.said(refusal)).await?;
                if standing.unknown {
                    return Err(self.stays_unknown(&asking, refusal));
                }
                Err(Box::pin(self.refuse(&asking, refusal)).await)
            }
        }
    }

    async fn forward(&self, asking: Asking<'_>, cleared: Cleared) -> Result<String, Stopped> {
        let Cleared {
            tool,
            arguments,
            memory,
            rule,
            new_server,
            revealed,
        } = cleared;
        let asking = Asking {
            name: Some(tool.name.as_str()),
            ..asking
        };
        if new_server {
            let place = self.gateway.place(tool.server());
            Box::pin(self.used(tool.server(), place)).await?;
        }
        let started = Kind::CallStarted {
            number: u64::from(asking.number),
            tool: Text::clean(tool.name.as_str()),
            rule: Text::clean(&rule),
            arguments: Hash::of(asking.body.as_bytes()),
            bytes: asking.body.len() as u64,
        };
        self.note_revealed(asking.number, &revealed);
        self.record_after_ends(started, self.tape.started(&asking)).await?;
        let begun = Instant::now();
        let timeout = self
            .policy()
            .tools()
            .call_timeout
            .map_or(CALL_TIMEOUT, ringfence_policy::Period::get);
        let answered = if let (Some(own), Some(server)) = (tool.own(), &self.own) {
            let answered = server.call(own, arguments, self.needless()).await;
            answered.and_then(|text| {
                let read = serde_json::from_str(&text);
                read.map_err(|error| (CallOutcome::Broken, Refusal::new("tool.result", error.to_string())))
            })
        } else {
            tokio::select! {
                answered = self.gateway.forward(&tool, arguments, timeout) => answered,
                () = self.cancelled() => Err((CallOutcome::Unknown, Refusal::left(tool.name.as_str()))),
            }
        };
        // The arguments are sent, and nothing holds them any more.
        drop(memory);
        let answered = self.screened(asking.number, (&tool, revealed), answered).await?;
        self.ended(&asking, &rule, begun.elapsed(), &answered);
        answered.map_err(|(_, told)| Stopped::Refused(told))
    }

    /// Answers a call that was in flight when its process died and is not repeated.
    fn stays_unknown(&self, asking: &Asking<'_>, refusal: Refusal) -> Stopped {
        let name = self.tape.named(asking.number).unwrap_or_else(|| words(asking.what));
        let told = Told::from(refusal.of_unknown(&name));
        let asking = Asking {
            name: Some(&name),
            ..*asking
        };
        let answered = Err((CallOutcome::Unknown, told.clone()));
        self.ended(&asking, clear::UNKNOWN, Duration::ZERO, &answered);
        Stopped::Refused(told)
    }

    async fn used(&self, server: &str, place: ServerPlace) -> Result<(), Stopped> {
        let used = Kind::ServerUsed {
            server: Text::clean(server),
            place,
        };
        self.record(used).await
    }

    async fn refuse(&self, asking: &Asking<'_>, refusal: Refusal) -> Stopped {
        let tool = clipped(words(asking.what));
        let decided = refusal.hiding_rule().or(refusal.rule.as_deref()).unwrap_or_default();
        let (named, code) = (name(asking.what), refusal.code);
        let is_listed = self.refusals().add(&named, code, decided);
        let refused = is_listed.then(|| Kind::CallRefused {
            number: u64::from(asking.number),
            tool: Text::clean(&named),
            code: Text::clean(code),
            rule: Text::clean(decided),
        });
        let forbidden = refusal.is_the_policys();
        let told = Told::from(refusal);
        let kept = AnswerParts {
            outcome: CallOutcome::Refused,
            forbidden,
            duration: Duration::ZERO,
            rule: told.rule.as_deref(),
            answer: Err(&told),
        };
        let entries = self.tape.settled(asking, &kept);
        self.made().add(Made {
            number: asking.number,
            tool,
            outcome: CallOutcome::Refused,
            rule: told.rule.clone(),
            forbidden,
            duration: Duration::ZERO,
            bytes_in: asking.body.len() as u64,
            bytes_out: 0,
        });
        let Some(refused) = refused else {
            if self.refusals().hold(entries) {
                self.say_refusals();
            }
            return Stopped::Refused(told);
        };
        match self.record_after_ends(refused, entries).await {
            Ok(()) => Stopped::Refused(told),
            Err(stopped) => stopped,
        }
    }

    /// Returns how many calls an execution may make, refused ones included.
    fn max_calls(&self) -> u64 {
        u64::from(self.policy().tools().max_calls.unwrap_or(MAX_CALLS))
    }

    /// Refuses a call beyond the limit: the first one is recorded, later ones are only counted. None of them is
    /// checked.
    async fn beyond(&self, made: u64, asking: &Asking<'_>) -> Stopped {
        let most = self.max_calls();
        let refusal = Refusal::too_many_calls(most);
        // After a replay with more calls than the limit, the first new call does not have the next number.
        let is_first = made == most.saturating_add(1) || self.tape.known() > 0;
        if is_first && !self.said_beyond.swap(true, Ordering::Relaxed) {
            return Box::pin(self.refuse(asking, refusal)).await;
        }
        self.made().count_refused("tools.max_calls");
        Stopped::Refused(Told::from(refusal))
    }

    /// Counts a lookup of tools; refuses it beyond the limit on calls.
    pub fn look_up(&self) -> Result<(), Stopped> {
        let most = self.max_calls();
        if self.calls.next_lookup() <= most {
            return Ok(());
        }
        Err(Stopped::Refused(Told::from(Refusal::too_many_calls(most))))
    }

    /// Queues events for refusals that no event reports yet.
    fn say_refusals(&self) {
        for (kind, entries) in self.refusals().take("call_refused") {
            let event = Event::host(self.session, Some(self.execution), kind);
            self.ends.add(Kept(event, entries));
        }
    }

    fn refusals(&self) -> MutexGuard<'_, RefusalTally> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues the end of a call. The answer does not wait for its record; the end of the execution does.
    fn ended(
        &self,
        asking: &Asking<'_>,
        rule: &str,
        duration: Duration,
        answered: &Result<String, (CallOutcome, Told)>,
    ) {
        let (outcome, error) = match answered {
            Ok(_) => (CallOutcome::Ok, None),
            Err((outcome, told)) => (*outcome, Some(Text::clean(&told.code))),
        };
        let text = answered.as_ref().ok();
        let (name, bytes) = (
            asking.name.unwrap_or_default(),
            text.map_or(0, |text| text.len() as u64),
        );
        let kind = Kind::CallEnded {
            number: u64::from(asking.number),
            tool: Text::clean(name),
            outcome,
            error,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            result: text.map(|text| Hash::of(text.as_bytes())),
            bytes,
        };
        self.made().add(Made {
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
        let entries = self.tape.ended(asking.number, &kept);
        self.say_refusals();
        let event = Event::host(self.session, Some(self.execution), kind);
        self.ends.add(Kept(event, Vec::from_iter(entries)));
    }

    /// Writes the pending end events and this event in one commit.
    async fn record_after_ends(&self, kind: Kind, entries: Vec<Entry>) -> Result<(), Stopped> {
        self.say_refusals();
        let event = Event::host(self.session, Some(self.execution), kind);
        let (ends, written) = tokio::join!(self.ends.write(), self.recorder.put(Kept(event, entries)));
        ends.and(written).map_err(Stopped::Unrecorded)
    }

    async fn record(&self, kind: Kind) -> Result<(), Stopped> {
        let event = Event::host(self.session, Some(self.execution), kind);
        self.recorder.record(event).await.map(drop).map_err(Stopped::Unrecorded)
    }

    /// Cancels the calls in flight: the program that made them is gone.
    pub fn cancel(&self) {
        self.leaving.send_replace(Some(Leaving::Cancelled));
    }

    /// Releases the calls that await approval: the program gave up its sandbox, and is run again when there is an
    /// answer. Calls in flight are completed.
    pub fn release(&self) {
        self.leaving
            .send_if_modified(|leaving| leaving.is_none() && leaving.replace(Leaving::Released).is_none());
    }

    /// Ends calls of the built-in server: the program has finished and needs no answers. Calls of other servers are
    /// completed.
    pub fn finish(&self) {
        self.finished.send_replace(true);
    }

    /// Waits until nobody needs the answer of a built-in call.
    async fn needless(&self) {
        tokio::select! {
            () = self.cancelled() => {}
            () = self.ended_by_itself() => {}
        }
    }

    async fn ended_by_itself(&self) {
        // This pass owns the sender, so waiting cannot fail.
        let _ = self.finished.subscribe().wait_for(|finished| *finished).await;
    }

    async fn cancelled(&self) {
        while self.left().await != Leaving::Cancelled {
            let mut leaving = self.leaving.subscribe();
            // This pass owns the sender, so waiting cannot fail.
            let _ = leaving.wait_for(|leaving| *leaving == Some(Leaving::Cancelled)).await;
        }
    }

    /// Waits until the program goes away.
    async fn left(&self) -> Leaving {
        let mut leaving = self.leaving.subscribe();
        let left = leaving.wait_for(Option::is_some).await.ok().and_then(|left| *left);
        match left {
            Some(left) => left,
            None => std::future::pending().await,
        }
    }

    /// Waits until every end event is written, and returns the calls that were made.
    pub async fn close(&self) -> Result<CallsMade, RecordError> {
        self.say_refusals();
        self.ends.write_all().await?;
        Ok(self.made().finish())
    }

    fn made(&self) -> MutexGuard<'_, CallTally> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clips a name that the program made up to a bounded length.
fn clipped(mut name: String) -> String {
    if let Some((end, _)) = name.char_indices().nth(2 * LONGEST_NAME) {
        name.truncate(end);
    }
    name
}

/// Returns the call's name as the program wrote it.
fn words(what: What<&str>) -> String {
    match what {
        What::Tool { server, tool } => format!("{server}.{tool}"),
        What::Fetch => FETCH.to_owned(),
        What::Search | What::Describe | What::List => String::new(),
    }
}

/// Returns the call's name for the journal: words that do not look like names are replaced.
fn name(what: What<&str>) -> String {
    let looks_so = |word: &str| {
        let starts = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        starts && word.len() <= LONGEST_NAME && word.bytes().all(plain)
    };
    let shown = |word| if looks_so(word) { word } else { "unknown" };
    match what {
        What::Tool { server, tool } => format!("{}.{}", shown(server), shown(tool)),
        What::Fetch => FETCH.to_owned(),
        What::Search | What::Describe | What::List => String::new(),
    }
}
