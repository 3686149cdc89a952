//! Replays a past execution offline: in a sandbox, with the answers from its call log, calling nothing. The report says where it differs,
//! and what another policy would have decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfence_gateway::{CallLog, LoggedCall, ReplayDivergence};
use ringfence_journal::{CleanText, ClientClaims, Event, ExecutionId, Recorder as _, SessionId};
use ringfence_policy::{CallHistory, PastCallDecision, Policy, RuleEffect};
use ringfence_sandbox::{CallHandler, CallPort, ExecutionTask, ReplayState, Stop, ToolReply};
use ringfence_store::RecordingState;
use serde::Serialize;

use crate::approvals::broker::record_error;
use crate::error::OperationError;
use crate::execution::Executions;
use crate::execution::call_dispatch::{self, call_kind, call_refusal, diverged_refusal};
use crate::execution::sandbox_source::copy_in;
use crate::host_work::CollectFilter;
use crate::output::{OutputCapture, ShownBytes};
use crate::recorded_request::RecordedRequest;
use crate::records::record_notes;
use crate::records::recording::OutcomeDigest;
use crate::redact::ResultRenderer;
use crate::report::{self, ExecutionReport};
use crate::request::{ExecutionRequest, ResultAudience};
use crate::sessions::context::ExecutionContext;
use crate::tools::past_calls::{PastCall, logged_calls};
use crate::workspaces::DiskFolders;

/// The report of a replay.
#[derive(Debug, Serialize)]
pub struct ReplayReport {
    /// The past execution that was replayed.
    pub execution_id: ExecutionId,
    /// The session of the past execution.
    pub session_id: SessionId,
    /// Whether the replay did the same.
    pub same: bool,
    /// Where the replay did something else.
    pub differences: Vec<ReplayDifference>,
    /// The tool calls of the past execution, with the decisions of another policy where one was given.
    pub calls: Vec<ReplayedCall>,
    /// The report of this run.
    #[serde(serialize_with = "report::serialize_answer")]
    pub execution: ExecutionReport,
}

/// A difference between the past execution and the replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplayDifference {
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
    pub against: Option<ComparedDecision>,
}

/// The decision of the policy that the call is compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedDecision {
    /// `allow`, `ask` or `deny`; none where it depends on a hidden value.
    pub verdict: Option<RuleEffect>,
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
    NotRecorded(ExecutionId),
    /// The execution has not ended.
    #[error("execution `{0}` is not over")]
    Unfinished(ExecutionId),
    /// The execution is not repeatable.
    #[error("execution `{id}` cannot be run again: {why}")]
    NotRepeatable {
        /// The execution that was named.
        id: ExecutionId,
        /// The reason that its recording gives.
        why: String,
    },
    /// The replay itself could not be run.
    #[error(transparent)]
    Run(#[from] OperationError),
}

impl ReplayError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            ReplayError::NotRecorded(_) => "replay.unkept",
            ReplayError::Unfinished(_) => "replay.unfinished",
            ReplayError::NotRepeatable { .. } => "replay.spoiled",
            ReplayError::Run(error) => error.code(),
        }
    }

    /// What to do about it; none where nothing helps.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ReplayError::NotRecorded(_) => Some(
                "TypeScript, JavaScript and Python are kept, until `session rm`, a week, or the space for it is full",
            ),
            ReplayError::Unfinished(_) => Some("wait for its end, or stop its session"),
            ReplayError::NotRepeatable { .. } => None,
            ReplayError::Run(error) => error.hint(),
        }
    }
}

/// Replays past executions from their recordings.
pub(crate) struct Replays {
    pub(crate) executions: Arc<Executions>,
}

impl Replays {
    pub(crate) fn new(executions: &Arc<Executions>) -> Replays {
        Replays {
            executions: Arc::clone(executions),
        }
    }

    /// Replays a past execution offline, and compares the outcomes.
    pub(crate) async fn replay(
        &self,
        id: ExecutionId,
        against: Option<&Policy>,
        reader: ResultAudience,
    ) -> Result<ReplayReport, ReplayError> {
        let kept = self.executions.records.store.recording(id).await;
        let kept = kept.map_err(|error| OperationError::from(record_error(error)))?;
        let kept = kept.ok_or(ReplayError::NotRecorded(id))?;
        if let Some(why) = kept.standing.spoiled {
            return Err(ReplayError::NotRepeatable { id, why });
        }
        let before: OutcomeDigest = match kept.outcome.as_deref().map(serde_json::from_slice) {
            Some(Ok(outcome)) if kept.standing.state == RecordingState::Over => outcome,
            _ => return Err(ReplayError::Unfinished(id)),
        };
        let (script, files) = RecordedRequest::from_bytes(&kept.request).map_err(OperationError::from)?;
        let (tape, trace) = CallLog::from_entries(kept.entries).map_err(OperationError::from)?;
        let tape = Arc::new(tape.replay_only());
        let policy = self.executions.records.load_policy(&script.policy).await?;
        let request = ExecutionRequest {
            args: script.args.clone(),
            files,
            timeout: script.timeout(),
            client: Some(ClientClaims {
                name: Some(CleanText::clean("replay")),
                call: Some(CleanText::clean(&id.to_string())),
                traceparent: None,
            }),
            policy: Arc::clone(&policy),
            reader,
            ..ExecutionRequest::new((*policy).clone(), script.program())
        };
        let again = ReplayState {
            seed: script.seed,
            clock: script.clock,
            trace,
        };
        let (execution, differences) = self.replay_program(request, again, &tape, &before).await?;
        let past = logged_calls(&tape, id);
        Ok(ReplayReport {
            execution_id: id,
            session_id: kept.standing.session,
            same: differences.is_empty(),
            differences,
            calls: compare_calls(&past, &policy, against),
            execution,
        })
    }

    /// Runs a program in a session of its own, with answers from a call log only.
    async fn replay_program(
        &self,
        request: ExecutionRequest,
        again: ReplayState,
        tape: &Arc<CallLog>,
        then: &OutcomeDigest,
    ) -> Result<(ExecutionReport, Vec<ReplayDifference>), OperationError> {
        let executions = &*self.executions;
        let Executions {
            records,
            sandboxes,
            renderer,
            ..
        } = executions;
        let reader = request.reader;
        let ids = (SessionId::generate()?, ExecutionId::generate()?);
        let (_switch, mut stop) = executions.cancel_switch(ids.0);
        let policy = Arc::clone(&request.policy);
        let mut session = ExecutionContext::new(ids, executions.config.principal, policy, records.data.scratch(ids.0));
        let spec = match sandboxes.spec(&session.policy, DiskFolders::scratch_only(&session.folders), false) {
            Ok(spec) => spec,
            Err(refusal) => {
                let execution = executions.refuse_in_own_session(session, refusal).await?;
                let differences = compare_outcomes(then, &OutcomeDigest::from_report(&execution), None);
                return Ok((execution, differences));
            }
        };
        session.enforcement = sandboxes.enforcement(&spec, &session.policy);
        let language = request.program.language();
        if spec.has_folders() {
            records.lease_folder(&session.folders)?;
        }
        let mut sandbox = sandboxes.acquire(&spec, language, session.principal).await?;
        let before = copy_in(&sandbox, BTreeMap::new(), &request.files)?;
        let started = Event::from_host(
            session.id,
            Some(session.execution),
            report::started_event(&session, &request),
        );
        let (open, started) = tokio::join!(records.open_session(&session), records.store.record(started));
        open?;
        started?;
        let (ended, output, diverged) = self
            .run_replay(&session, &mut sandbox, request, again, tape, &mut stop)
            .await?;
        let wanted = CollectFilter {
            deny: &session.policy.fs().deny,
            emitted: &ended.emitted,
        };
        let (_, mut collected) = records
            .host_work
            .collect_files(session.principal, &sandbox, &before, wanted)
            .await?;
        collected.skipped = collected.skipped.limits_only();
        let execution = report::finished_report(&session, &ended, &collected, &output);
        let mut differences = compare_outcomes(then, &OutcomeDigest::from_report(&execution), diverged.as_ref());
        render_differences(renderer, &session, reader, &mut differences).await?;
        let (execution, _) = renderer
            .render_report(&session, &session.policy, reader, execution)
            .await?;
        let (gone, written) = tokio::join!(
            sandboxes.release(sandbox, &spec, language, session.principal),
            records.record_event(&session, report::ended_event(&session, &execution, None))
        );
        gone?;
        written?;
        records.close_session((session.id, &session.folders), "done").await?;
        Ok((execution, differences))
    }

    async fn run_replay(
        &self,
        session: &ExecutionContext,
        sandbox: &mut ringfence_sandbox::Sandbox,
        request: ExecutionRequest,
        again: ReplayState,
        tape: &Arc<CallLog>,
        stop: &mut Stop,
    ) -> Result<
        (
            ringfence_sandbox::ConcludedExecution,
            (Vec<u8>, Vec<u8>),
            Option<ReplayDivergence>,
        ),
        OperationError,
    > {
        let mut nobody = ();
        let (mut kept, happened) = OutputCapture::new(&mut nobody, ShownBytes::default(), None);
        let store = Arc::clone(&self.executions.records.store);
        let noted = tokio::spawn(record_notes(store, session.id, session.execution, false, happened));
        let (door, handler) = CallPort::new(call_dispatch::CALL_QUEUE_CAPACITY);
        let task = ExecutionTask {
            args: request.args,
            call_port: Some(door),
            wall: request.timeout,
            replay: Some(again),
            ..ExecutionTask::new(request.program.clone())
        };
        let run = async { sandbox.run(task, &mut kept, stop).await.map_err(OperationError::from) };
        let (ended, diverged) = tokio::try_join!(run, self.answer_from_log(session, tape, handler))?;
        sandbox.confirm_finished().await?;
        let output = kept.into_output();
        noted.await.map_err(OperationError::NoteTask)??;
        Ok((ended, output, diverged))
    }

    /// Answers calls from the log until the program makes no more; returns the first call that diverged.
    async fn answer_from_log(
        &self,
        session: &ExecutionContext,
        tape: &CallLog,
        mut handler: CallHandler,
    ) -> Result<Option<ReplayDivergence>, OperationError> {
        let sight = session.redactor.rules_for(&session.policy).await?;
        let mut first = None;
        while let Some(asked) = handler.calls.recv().await {
            let answer = match tape.lookup_answer(asked.number, call_kind(&asked.ask), &asked.body) {
                Ok(Some(answer)) => answer.clone().map_err(call_refusal),
                Ok(None) => continue,
                Err(diverged) => {
                    let told = diverged_refusal(&diverged);
                    first.get_or_insert(diverged);
                    Err(told)
                }
            };
            // Personal data that the program saw is redacted again wherever the program prints it.
            if let Ok(text) = &answer {
                let value = serde_json::from_str(text).unwrap_or_else(|_| serde_json::Value::String(text.clone()));
                session
                    .redactor
                    .learn_value((&self.executions.records.store, session.id), &sight, value)
                    .await?;
            }
            let answered = ToolReply {
                number: asked.number,
                answer,
            };
            // A program that has ended no longer listens.
            let _ = handler.replies.send(answered).await;
        }
        Ok(first)
    }
}

/// Renders the texts of differences for their reader.
async fn render_differences(
    renderer: &ResultRenderer,
    session: &ExecutionContext,
    reader: ResultAudience,
    differences: &mut [ReplayDifference],
) -> Result<(), OperationError> {
    for ReplayDifference { before, now, .. } in differences {
        for text in [before, now].into_iter().flatten() {
            *text = renderer.render_text(session, reader, text).await?;
        }
    }
    Ok(())
}

fn compare_outcomes(
    before: &OutcomeDigest,
    now: &OutcomeDigest,
    diverged: Option<&ReplayDivergence>,
) -> Vec<ReplayDifference> {
    let text = |value: &dyn ToString| Some(value.to_string());
    let parts = [
        ("status", text(&before.status.name()), text(&now.status.name())),
        ("exit_code", text(&before.exit_code), text(&now.exit_code)),
        ("error", before.error.clone(), now.error.clone()),
        ("value", before.value.clone(), now.value.clone()),
        ("stdout", Some(before.stdout.clone()), Some(now.stdout.clone())),
        ("stderr", Some(before.stderr.clone()), Some(now.stderr.clone())),
    ];
    let call = diverged.map(|diverged| ReplayDifference {
        what: "call",
        before: None,
        now: Some(diverged.to_string()),
    });
    let parts = parts.into_iter().filter(|(_, before, now)| before != now);
    let parts = parts.map(|(what, before, now)| ReplayDifference { what, before, now });
    call.into_iter().chain(parts).collect()
}

/// Past calls in order, with what a policy says to each after those before it.
fn compare_calls(past: &[(PastCall, &LoggedCall)], then: &Policy, against: Option<&Policy>) -> Vec<ReplayedCall> {
    let mut history = CallHistory::default();
    let mut calls = Vec::new();
    for (call, taped) in past {
        let went = taped.answer.as_ref();
        let decided = against.map(|policy| {
            let called = call.to_policy_call();
            let then = OriginalDecision {
                verdict: known_verdict(&then.decide_past_call(&called, &history)),
                executed: taped.started,
                was_asked: taped.asked,
            };
            then.compare_with(policy.decide_past_call(&called, &history))
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

fn known_verdict(judged: &PastCallDecision) -> Option<RuleEffect> {
    match judged {
        PastCallDecision::Decided(decision) => Some(decision.effect()),
        PastCallDecision::Depends { .. } => None,
    }
}

/// The decision and outcome of a past call.
struct OriginalDecision {
    /// What the policy of the time says to the call, where that can be told.
    verdict: Option<RuleEffect>,
    executed: bool,
    was_asked: bool,
}

impl OriginalDecision {
    fn compare_with(&self, judged: PastCallDecision) -> ComparedDecision {
        match judged {
            PastCallDecision::Decided(decision) => ComparedDecision {
                verdict: Some(decision.effect()),
                rule: decision.rule().to_string(),
                differs: Some(self.differs(decision.effect())),
                depends_on: None,
            },
            PastCallDecision::Depends { argument, rule } => ComparedDecision {
                verdict: None,
                rule: rule.to_string(),
                differs: None,
                depends_on: Some(argument),
            },
        }
    }

    /// Whether the call would have ended otherwise. A call that was allowed and not executed was refused for another reason, which no rule
    /// changes; a call that needs an approval and was executed without one had a grant.
    fn differs(&self, now: RuleEffect) -> bool {
        match now {
            RuleEffect::Deny => self.executed,
            RuleEffect::Allow => !self.executed && (self.was_asked || self.verdict != Some(RuleEffect::Allow)),
            RuleEffect::Ask if self.was_asked => false,
            RuleEffect::Ask => match self.verdict {
                Some(RuleEffect::Allow) => self.executed,
                then => then != Some(RuleEffect::Ask),
            },
        }
    }
}

#[cfg(test)]
mod tests;
