//! A session's right at the door: the one road that every tool call takes.
//!
//! Visible by name, else unknown; then the schema, the rules, a person where they want one, the pin, the rate, the number of calls,
//! the record, the server. What a program is told of a refusal is the same whether a tool is hidden or not there. A call that is
//! on the execution's tape is answered from there, and nothing of this happens again.

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

/// How long one call may take where the policy says nothing.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Calls of one execution where the policy says nothing.
const MAX_CALLS: u32 = 1000;

/// Memory of the arguments of one execution's calls while they are under way; whatever comes then waits.
const MAX_ARGUMENTS: usize = 64 << 20;

/// Bytes of a server's or a tool's name that are written down though there is none of it.
const LONGEST_NAME: usize = 128;

/// What a pass is made of.
#[derive(Debug)]
pub struct Terms<R> {
    /// The door.
    pub gateway: Arc<Gateway>,
    /// What may be called.
    pub policy: Arc<Policy>,
    /// Where calls are written down.
    pub recorder: R,
    /// Whose calls they are.
    pub session: SessionId,
    /// And in which run.
    pub execution: ExecutionId,
    /// The run that called this one as a skill, if one did: their calls are counted together.
    pub parent: Option<ExecutionId>,
    /// What the session has done before.
    pub past: Arc<Past>,
    /// What the execution has done before, and keeps.
    pub tape: Arc<Tape>,
    /// Where calls wait for a person.
    pub desk: Desk,
    /// What stands for the session's personal data.
    pub screen: Arc<Screen>,
}

/// What one execution may do at the door.
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
    /// Whether it was written down that there were too many calls.
    said_beyond: AtomicBool,
    calls: Arc<CallCount>,
    ends: Ends<R, Kept>,
    waits: Waits,
    trees: TreeMemory,
    leaving: watch::Sender<Option<Leaving>>,
    finished: watch::Sender<bool>,
}

/// How the program went away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// For good.
    Cancelled,
    /// Until a person has answered.
    Released,
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
    Refused(Told),
    /// It could not be written down, so it did not happen, and nothing more may.
    Unrecorded(RecordError),
    /// The program is run again and does not repeat itself.
    Diverged(Diverged),
    /// The program gave up its sandbox while the call waited for a person; the question stands.
    Released,
}

impl<R: KeepingRecorder + Clone + 'static> Pass<R> {
    /// The pass of one execution.
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

    /// The same, with a server of our own beside the others.
    #[must_use]
    pub fn with_own(self, own: Own) -> Pass<R> {
        Pass { own: Some(own), ..self }
    }

    /// The rules in force.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other rules in force: calls that come, and those that a person has answered, are judged by them.
    pub fn change(&self, policy: Arc<Policy>) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// The rules in force have this number: forgets what people granted the session under others.
    pub fn ruled(&self, generation: u64) {
        self.past.ruled(generation);
    }

    /// The calls that have no answer yet, and how many of them wait for a person.
    pub fn waiting(&self) -> watch::Receiver<Waiting> {
        self.waits.watch()
    }

    /// What the execution keeps.
    pub fn tape(&self) -> &Tape {
        &self.tape
    }

    /// Calls a tool by the names that a program used; `body` is its arguments as JSON text, `trace` what the program met since
    /// its call before. The answer is JSON text.
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

    /// What is known of a call that is made now. One that was made before counts, and is never one too many: the rules of today do
    /// not take back what happened.
    async fn known(&self, asking: &Asking<'_>) -> Result<Known<'_>, Stopped> {
        let made = self.calls.next_call();
        if made > self.max_calls() && !self.tape.has(asking.number) {
            return Err(self.beyond(made, asking).await);
        }
        let known = self.tape.find(asking.number, asking.what, asking.body);
        known.map_err(Stopped::Diverged)
    }

    /// The answer that the program had before.
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
        // It is settled without the answer that it waited for.
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
        // They were sent, and nobody has them any more.
        drop(memory);
        let answered = self.screened(asking.number, (&tool, revealed), answered).await?;
        self.ended(&asking, &rule, begun.elapsed(), &answered);
        answered.map_err(|(_, told)| Stopped::Refused(told))
    }

    /// A call that was under way when its process died, and is not made again.
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

    /// How many calls an execution may make, refused ones included.
    fn max_calls(&self) -> u64 {
        u64::from(self.policy().tools().max_calls.unwrap_or(MAX_CALLS))
    }

    /// A call beyond the number of them: the first is written down, the others only counted. Nothing is looked at for any.
    async fn beyond(&self, made: u64, asking: &Asking<'_>) -> Stopped {
        let most = self.max_calls();
        let refusal = Refusal::too_many_calls(most);
        // Where calls that were made before are beyond it, the first that is not one of them is no more the next one.
        let is_first = made == most.saturating_add(1) || self.tape.known() > 0;
        if is_first && !self.said_beyond.swap(true, Ordering::Relaxed) {
            return Box::pin(self.refuse(asking, refusal)).await;
        }
        self.made().count_refused("tools.max_calls");
        Stopped::Refused(Told::from(refusal))
    }

    /// Counts a question about tools; refused beyond the number of calls.
    pub fn look_up(&self) -> Result<(), Stopped> {
        let most = self.max_calls();
        if self.calls.next_lookup() <= most {
            return Ok(());
        }
        Err(Stopped::Refused(Told::from(Refusal::too_many_calls(most))))
    }

    /// Puts events for refusals that none says yet behind what waits to be written.
    fn say_refusals(&self) {
        for (kind, entries) in self.refusals().take("call_refused") {
            let event = Event::host(self.session, Some(self.execution), kind);
            self.ends.add(Kept(event, entries));
        }
    }

    fn refusals(&self) -> MutexGuard<'_, RefusalTally> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer does not wait for the record of its end; the execution's does.
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

    /// Writes the ends that wait and this event in one commit.
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

    /// Ends what is under way: the program that asked is gone.
    pub fn cancel(&self) {
        self.leaving.send_replace(Some(Leaving::Cancelled));
    }

    /// Lets go of the calls that wait for a person: the program gave up its sandbox, and is run again when there is an answer.
    /// Calls that are under way are seen out.
    pub fn release(&self) {
        self.leaving
            .send_if_modified(|leaving| leaving.is_none() && leaving.replace(Leaving::Released).is_none());
    }

    /// The program has ended by itself: nobody needs the answers of our own server any more. Calls of others are seen out.
    pub fn finish(&self) {
        self.finished.send_replace(true);
    }

    /// Waits until a call of our own server has nobody to answer.
    async fn needless(&self) {
        tokio::select! {
            () = self.cancelled() => {}
            () = self.ended_by_itself() => {}
        }
    }

    async fn ended_by_itself(&self) {
        // The sender is this pass's own.
        let _ = self.finished.subscribe().wait_for(|finished| *finished).await;
    }

    async fn cancelled(&self) {
        while self.left().await != Leaving::Cancelled {
            let mut leaving = self.leaving.subscribe();
            // The sender is this pass's own.
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

    /// Waits until every end is written; answers the calls that were made.
    pub async fn close(&self) -> Result<CallsMade, RecordError> {
        self.say_refusals();
        self.ends.write_all().await?;
        Ok(self.made().finish())
    }

    fn made(&self) -> MutexGuard<'_, CallTally> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name that a program made up, no longer than a name is.
fn clipped(mut name: String) -> String {
    if let Some((end, _)) = name.char_indices().nth(2 * LONGEST_NAME) {
        name.truncate(end);
    }
    name
}

/// What the program called it.
fn words(what: What<&str>) -> String {
    match what {
        What::Tool { server, tool } => format!("{server}.{tool}"),
        What::Fetch => FETCH.to_owned(),
        What::Search | What::Describe | What::List => String::new(),
    }
}

/// The same for the journal, which has names and nothing else that a program may have put in their place.
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
