//! Replays a past execution offline: in a sandbox, with the answers from its call log, calling nothing. The report says where it differs,
//! and what another policy would have decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfence_gateway::{Diverged, Tape, Taped};
use ringfence_journal::{Client, Event, ExecutionId, Recorder as _, SessionId, Text};
use ringfence_policy::{History, Judged, Policy, Verdict};
use ringfence_sandbox::{Again, Answered, Asked, Door, Stop, Task};
use ringfence_store::RecordingState;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::asker::unread;
use crate::door::{self, refusal, strayed, what};
use crate::durable::Outcome;
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::host_work::Wanted;
use crate::recalled::{PastCall, calls_on};
use crate::record::note_all;
use crate::report;
use crate::request::{Reader, RunCode};
use crate::run::bring_in;
use crate::script::Script;
use crate::session::Session;
use crate::words::{Kept, Seen};
use crate::workspace::Disk;

/// The report of a replay.
#[derive(Debug, Serialize)]
pub struct Replayed {
    /// The past execution that was replayed.
    pub execution_id: ExecutionId,
    /// The session of the past execution.
    pub session_id: SessionId,
    /// Whether the replay did the same.
    pub same: bool,
    /// Where the replay did something else.
    pub differences: Vec<Difference>,
    /// The tool calls of the past execution, with the decisions of another policy where one was given.
    pub calls: Vec<ReplayedCall>,
    /// The report of this run.
    #[serde(serialize_with = "report::serialize_answer")]
    pub execution: Execution,
}

/// A difference between the past execution and the replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What differs: `status`, `exit_code`, `error`, `value`, `stdout`, `stderr` or `call`.
    pub what: &'static str,
    /// Its text in the past execution; none where there is none.
    pub before: Option<String>,
    /// Its text in the replay; none where there is none.
    pub now: Option<String>,
}

/// A tool call of the past execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplayedCall {
    /// The number that the program gave it.
    pub number: u32,
    /// The full name of the tool, `server.tool`.
    pub tool: String,
    /// How the call ended: `ok`, `refused` and so on; none where no outcome is known.
    pub outcome: Option<&'static str>,
    /// The rule that decided at the time.
    pub rule: Option<String>,
    /// The decision of the other policy; none where none was given.
    pub against: Option<Decided>,
}

/// The decision of the policy that the call is compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// `allow`, `ask` or `deny`; none where it depends on a hidden value.
    pub verdict: Option<Verdict>,
    /// The rule that decides the call.
    pub rule: String,
    /// Whether the call would have ended otherwise; none where that cannot be told.
    pub differs: Option<bool>,
    /// The argument whose hidden value the decision depends on.
    pub depends_on: Option<String>,
}

/// Why an execution cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// There is no such execution, or it has no recording.
    #[error("nothing is kept of execution `{0}`")]
    Unkept(ExecutionId),
    /// The execution has not ended.
    #[error("execution `{0}` is not over")]
    Unfinished(ExecutionId),
    /// The execution is not repeatable.
    #[error("execution `{id}` cannot be run again: {why}")]
    Spoiled {
        /// The execution that was named.
        id: ExecutionId,
        /// The reason that its recording gives.
        why: String,
    },
    /// The replay itself could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl ReplayError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            ReplayError::Unkept(_) => "replay.unkept",
            ReplayError::Unfinished(_) => "replay.unfinished",
            ReplayError::Spoiled { .. } => "replay.spoiled",
            ReplayError::Run(error) => error.code(),
        }
    }

    /// What to do about it; none where nothing helps.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ReplayError::Unkept(_) => Some(
                "TypeScript, JavaScript and Python are kept, until `session rm`, a week, or the space for it is full",
            ),
            ReplayError::Unfinished(_) => Some("wait for its end, or stop its session"),
            ReplayError::Spoiled { .. } => None,
            ReplayError::Run(error) => error.hint(),
        }
    }
}

impl Engine {
    /// Replays a past execution offline, and compares the outcomes.
    pub async fn replay(
        &self,
        id: ExecutionId,
        against: Option<&Policy>,
        reader: Reader,
    ) -> Result<Replayed, ReplayError> {
        let kept = self.store.recording(id).await;
        let kept = kept.map_err(|error| RunError::from(unread(error)))?;
        let kept = kept.ok_or(ReplayError::Unkept(id))?;
        if let Some(why) = kept.standing.spoiled {
            return Err(ReplayError::Spoiled { id, why });
        }
        let before: Outcome = match kept.outcome.as_deref().map(serde_json::from_slice) {
            Some(Ok(outcome)) if kept.standing.state == RecordingState::Over => outcome,
            _ => return Err(ReplayError::Unfinished(id)),
        };
        let (script, files) = Script::read(&kept.request).map_err(RunError::from)?;
        let (tape, trace) = Tape::read(kept.entries).map_err(RunError::from)?;
        let tape = Arc::new(tape.only());
        let policy = self.restored(&script.policy).await?;
        let request = RunCode {
            args: script.args.clone(),
            files,
            timeout: script.timeout(),
            client: Some(Client {
                name: Some(Text::clean("replay")),
                call: Some(Text::clean(&id.to_string())),
                traceparent: None,
            }),
            policy: Arc::clone(&policy),
            reader,
            ..RunCode::new((*policy).clone(), script.program())
        };
        let again = Again {
            seed: script.seed,
            clock: script.clock,
            trace,
        };
        let (execution, differences) = self.play(request, again, &tape, &before).await?;
        let past = calls_on(&tape, id);
        Ok(Replayed {
            execution_id: id,
            session_id: kept.standing.session,
            same: differences.is_empty(),
            differences,
            calls: calls(&past, &policy, against),
            execution,
        })
    }

    /// Runs a program in a session of its own, with answers from a call log only.
    async fn play(
        &self,
        request: RunCode,
        again: Again,
        tape: &Arc<Tape>,
        then: &Outcome,
    ) -> Result<(Execution, Vec<Difference>), RunError> {
        let reader = request.reader;
        let ids = (SessionId::generate()?, ExecutionId::generate()?);
        let (_switch, mut stop) = self.switch(ids.0);
        let policy = Arc::clone(&request.policy);
        let mut session = Session::new(ids, self.settings.principal, policy, self.folders(ids.0));
        let spec = match self.spec(&session.policy, Disk::passing(&session.folders), false) {
            Ok(spec) => spec,
            Err(refusal) => {
                let execution = self.refuse(session, refusal).await?;
                let differences = compare(then, &Outcome::of(&execution), None);
                return Ok((execution, differences));
            }
        };
        session.enforcement = self.enforcement(&spec, &session.policy);
        let language = request.program.language();
        if spec.has_folders() {
            self.note_folder(&session.folders)?;
        }
        let mut sandbox = self.place(&spec, language, session.principal).await?;
        let before = bring_in(&sandbox, BTreeMap::new(), &request.files)?;
        let started = Event::host(session.id, Some(session.execution), report::started(&session, &request));
        let (open, started) = tokio::join!(self.open_session(&session), self.store.record(started));
        open?;
        started?;
        let (ended, output, diverged) = self
            .played(&session, &mut sandbox, request, again, tape, &mut stop)
            .await?;
        let wanted = Wanted {
            deny: &session.policy.fs().deny,
            emitted: &ended.emitted,
        };
        let (_, mut collected) = self
            .host_work
            .collect(session.principal, &sandbox, &before, wanted)
            .await?;
        collected.skipped = collected.skipped.limits_only();
        let execution = report::result(&session, &ended, &collected, &output);
        let mut differences = compare(then, &Outcome::of(&execution), diverged.as_ref());
        for Difference { before, now, .. } in &mut differences {
            for text in [before, now].into_iter().flatten() {
                *text = self.shown_text(&session, reader, text).await?;
            }
        }
        let (execution, _) = self.shown(&session, &session.policy, reader, execution).await?;
        let (gone, written) = tokio::join!(
            self.put_back(sandbox, &spec, language, session.principal),
            self.record(&session, report::ended(&session, &execution, None))
        );
        gone?;
        written?;
        self.close_session((session.id, &session.folders), "done").await?;
        Ok((execution, differences))
    }

    async fn played(
        &self,
        session: &Session,
        sandbox: &mut ringfence_sandbox::Sandbox,
        request: RunCode,
        again: Again,
        tape: &Arc<Tape>,
        stop: &mut Stop,
    ) -> Result<(ringfence_sandbox::Ended, (Vec<u8>, Vec<u8>), Option<Diverged>), RunError> {
        let mut nobody = ();
        let (mut kept, happened) = Kept::new(&mut nobody, Seen::default(), None);
        let store = Arc::clone(&self.store);
        let noted = tokio::spawn(note_all(store, session.id, session.execution, false, happened));
        let (door, calls, answers, _held) = Door::new(door::ROOM);
        let task = Task {
            kind: report::task_kind(&request.program),
            args: request.args,
            stdin: None,
            door: Some(door),
            wall: request.timeout,
            network: None,
            again: Some(again),
        };
        let run = async { sandbox.run(task, &mut kept, stop).await.map_err(RunError::from) };
        let (ended, diverged) = tokio::try_join!(run, self.recall(session, tape, calls, answers))?;
        sandbox.settle().await?;
        let output = kept.finish();
        noted.await.map_err(RunError::Unnoted)??;
        Ok((ended, output, diverged))
    }

    /// Answers calls from the log until the program makes no more; returns the first call that diverged.
    async fn recall(
        &self,
        session: &Session,
        tape: &Tape,
        mut calls: mpsc::Receiver<Asked>,
        answers: mpsc::Sender<Answered>,
    ) -> Result<Option<Diverged>, RunError> {
        let sight = session.screen.sight(&session.policy).await?;
        let mut first = None;
        while let Some(asked) = calls.recv().await {
            let answer = match tape.answer(asked.number, what(&asked.ask), &asked.body) {
                Ok(Some(answer)) => answer.clone().map_err(refusal),
                Ok(None) => continue,
                Err(diverged) => {
                    let told = strayed(&diverged);
                    first.get_or_insert(diverged);
                    Err(told)
                }
            };
            // Personal data that the program saw is redacted again wherever the program prints it.
            if let Ok(text) = &answer {
                let value = serde_json::from_str(text).unwrap_or_else(|_| serde_json::Value::String(text.clone()));
                session.screen.learn((&self.store, session.id), &sight, value).await?;
            }
            let answered = Answered {
                number: asked.number,
                answer,
            };
            // A program that has ended no longer listens.
            let _ = answers.send(answered).await;
        }
        Ok(first)
    }
}

fn compare(before: &Outcome, now: &Outcome, diverged: Option<&Diverged>) -> Vec<Difference> {
    let text = |value: &dyn ToString| Some(value.to_string());
    let parts = [
        ("status", text(&before.status.name()), text(&now.status.name())),
        ("exit_code", text(&before.exit_code), text(&now.exit_code)),
        ("error", before.error.clone(), now.error.clone()),
        ("value", before.value.clone(), now.value.clone()),
        ("stdout", Some(before.stdout.clone()), Some(now.stdout.clone())),
        ("stderr", Some(before.stderr.clone()), Some(now.stderr.clone())),
    ];
    let call = diverged.map(|diverged| Difference {
        what: "call",
        before: None,
        now: Some(diverged.to_string()),
    });
    let parts = parts.into_iter().filter(|(_, before, now)| before != now);
    let parts = parts.map(|(what, before, now)| Difference { what, before, now });
    call.into_iter().chain(parts).collect()
}

/// Past calls in order, with what a policy says to each after those before it.
fn calls(past: &[(PastCall, &Taped)], then: &Policy, against: Option<&Policy>) -> Vec<ReplayedCall> {
    let mut history = History::default();
    let mut calls = Vec::new();
    for (call, taped) in past {
        let went = taped.answered.as_ref();
        let decided = against.map(|policy| {
            let called = call.called();
            let then = Then {
                verdict: verdict(&then.judge(&called, &history)),
                went: taped.started,
                was_asked: taped.asked,
            };
            then.beside(policy.judge(&called, &history))
        });
        calls.push(ReplayedCall {
            number: call.number,
            outcome: went.map(|answered| answered.outcome.name()),
            rule: went.and_then(|answered| answered.rule.clone()),
            against: decided,
            tool: call.tool.clone(),
        });
        if call.made
            && let Ok(name) = call.tool.parse()
        {
            history.record(name);
        }
    }
    calls
}

fn verdict(judged: &Judged) -> Option<Verdict> {
    match judged {
        Judged::Decided(decision) => Some(decision.verdict()),
        Judged::Depends { .. } => None,
    }
}

/// The decision and outcome of a past call.
struct Then {
    /// What the policy of the time says to the call, where that can be told.
    verdict: Option<Verdict>,
    went: bool,
    was_asked: bool,
}

impl Then {
    fn beside(&self, judged: Judged) -> Decided {
        match judged {
            Judged::Decided(decision) => Decided {
                verdict: Some(decision.verdict()),
                rule: decision.rule().to_string(),
                differs: Some(self.differs(decision.verdict())),
                depends_on: None,
            },
            Judged::Depends { argument, rule } => Decided {
                verdict: None,
                rule: rule.to_string(),
                differs: None,
                depends_on: Some(argument),
            },
        }
    }

    /// Whether the call would have ended otherwise. A call that was allowed and not executed was refused for another reason, which no rule
    /// changes; a call that needs an approval and was executed without one had a grant.
    fn differs(&self, now: Verdict) -> bool {
        match now {
            Verdict::Deny => self.went,
            Verdict::Allow => !self.went && (self.was_asked || self.verdict != Some(Verdict::Allow)),
            Verdict::Ask if self.was_asked => false,
            Verdict::Ask => match self.verdict {
                Some(Verdict::Allow) => self.went,
                then => then != Some(Verdict::Ask),
            },
        }
    }
}

#[cfg(test)]
mod tests;
