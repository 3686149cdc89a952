//! One attempt at an execution: the first, or one that repeats what the execution met before.

use std::sync::Arc;

use ringfence_gateway::{CallLog, CallsMade, Egress, Pass, PassConfig};
use ringfence_journal::OutputHead;
use ringfence_sandbox::{
    CallPort, ConcludedExecution, ExecutionTask, NetworkAccess, ReplayState, Sandbox, Stop, Verdict,
};
use tokio::sync::watch;

use super::Executions;
use super::call_dispatch::{self, CallDispatcher, SuspendState};
use crate::approvals::broker::{ApprovalBroker, ProgramSource};
use crate::error::OperationError;
use crate::host_work::Digests;
use crate::network::{self, ExecutionEgress};
use crate::output::{OutputCapture, OutputObserver, ShownBytes};
use crate::records::record_notes;
use crate::records::recording::OutcomeDigest;
use crate::report::{self, ExecutionReport};
use crate::request::{ExecutionRequest, ResultAudience};
use crate::runs::registry::TrackedRun;
use crate::sessions::context::ExecutionContext;
use crate::sessions::rules::LiveExecution;
use crate::skills::nested::{self, NestedSettings, SkillCallReceiver, SkillRunner};
use crate::tools::stub_language;

/// An execution on its way: what it belongs to, what it is to do, and what it has met so far.
pub(crate) struct ActiveExecution<'a> {
    pub(crate) session: ExecutionContext,
    pub(crate) request: ExecutionRequest,
    pub(crate) attempt: ExecutionAttempt,
    /// Observes the output as it comes.
    pub(crate) observer: &'a mut dyn OutputObserver,
    /// Stops the execution from outside.
    pub(crate) stop: &'a mut Stop,
    /// The run that clients see; none for a command, which waits for no slot.
    pub(crate) run: Option<&'a TrackedRun>,
}

impl<'a> ActiveExecution<'a> {
    /// An execution that has not started, and that no client sees as a run.
    pub(crate) fn new(
        session: ExecutionContext,
        request: ExecutionRequest,
        observer: &'a mut dyn OutputObserver,
        stop: &'a mut Stop,
    ) -> ActiveExecution<'a> {
        ActiveExecution {
            session,
            request,
            attempt: ExecutionAttempt::first_attempt(),
            observer,
            stop,
            run: None,
        }
    }
}

/// Why an execution cannot be repeated if its process ends; unset until that is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnrepeatableReason(watch::Sender<Option<String>>);

impl UnrepeatableReason {
    /// Sets the reason, once; later reasons are dropped.
    pub(crate) fn set(&self, why: &str) {
        self.0.send_if_modified(|known| {
            let is_news = known.is_none();
            known.get_or_insert_with(|| why.to_owned());
            is_news
        });
    }

    /// Subscribes to the reason; one that is set already is seen too.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.0.subscribe()
    }
}

/// What an execution is run with this time.
#[derive(Debug)]
pub(crate) struct ExecutionAttempt {
    /// Seed, clock and trace; none where the execution cannot be repeated.
    pub(crate) replay: Option<ReplayState>,
    /// The log of its calls so far.
    pub(crate) tape: Arc<CallLog>,
    pub(crate) kind: AttemptKind,
    /// Output that was shown in earlier attempts.
    pub(crate) shown: ShownBytes,
    pub(crate) unrepeatable: UnrepeatableReason,
}

/// Which attempt at the execution it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptKind {
    /// Nothing has run before.
    First,
    /// The execution has started and waits to resume.
    Waiting,
    /// The execution has started and resumes.
    Resumed,
}

impl ExecutionAttempt {
    pub(crate) fn first_attempt() -> ExecutionAttempt {
        ExecutionAttempt {
            replay: None,
            tape: Arc::new(CallLog::off()),
            kind: AttemptKind::First,
            shown: ShownBytes::default(),
            unrepeatable: UnrepeatableReason::default(),
        }
    }

    /// Whether the execution is recorded, so that it can be run again.
    pub(crate) fn is_recorded(&self) -> bool {
        self.replay.is_some()
    }

    pub(crate) fn is_first(&self) -> bool {
        self.kind == AttemptKind::First
    }

    /// Whether nothing happened in this attempt yet: a failure until then can be retried.
    pub(crate) fn is_waiting(&self) -> bool {
        self.kind == AttemptKind::Waiting
    }
}

/// An execution that has finished.
#[derive(Debug)]
pub(crate) struct FinishedExecution {
    pub(crate) ended: ConcludedExecution,
    /// What a repeated execution is compared with.
    pub(crate) digest: OutcomeDigest,
    /// The report as its reader sees it.
    pub(crate) report: ExecutionReport,
    /// The output that the journal keeps.
    pub(crate) output: Option<OutputHead>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum AttemptOutcome {
    /// The execution is over.
    Finished(Box<FinishedExecution>),
    /// The execution waits for approvals only, and has released its sandbox.
    Released {
        /// When its next timer is due, in ticks of its clock.
        due: Option<u64>,
        /// The number of calls that it waits for.
        waiting: usize,
        /// How much output was shown.
        seen: ShownBytes,
    },
}

impl Executions {
    /// Executes one attempt in a ready sandbox, after its start was recorded and before its end is.
    pub(crate) async fn execute_attempt(
        &self,
        execution: &mut ActiveExecution<'_>,
        sandbox: &mut Sandbox,
        before: &Arc<Digests>,
    ) -> Result<AttemptOutcome, OperationError> {
        let ActiveExecution {
            session,
            request,
            attempt,
            observer,
            stop,
            run: tracked,
        } = execution;
        let redactor = (request.reader == ResultAudience::Owner).then(|| Arc::clone(&session.redactor));
        let (capture, notes) = OutputCapture::new(&mut **observer, attempt.shown, redactor);
        let mut capture = capture.with_unrepeatable(attempt.unrepeatable.clone());
        let (store, is_recorded) = (Arc::clone(&self.records.store), attempt.is_recorded());
        let recorder = tokio::spawn(record_notes(store, session.id, session.execution, is_recorded, notes));
        let (outside, network) = self.sessions.open_egress(session, &request.program)?.unzip();
        let egress = outside.as_ref().map(ExecutionEgress::egress);
        let (dispatcher, skill_calls) = self.call_dispatcher(session, request, attempt, egress.as_ref()).unzip();
        let dispatcher = dispatcher.map(Arc::new);
        let live = LiveExecution {
            pass: dispatcher.as_ref().map(|dispatcher| dispatcher.pass()),
            egress,
            draft: session.draft.clone(),
        };
        let _rules = self.sessions.register_execution(session, live).await;
        let (port, handler) = CallPort::new(call_dispatch::CALL_QUEUE_CAPACITY);
        let port = dispatcher.is_some().then_some(port);
        let task = execution_task(request, attempt, port, network.flatten());
        let stop_copy = stop.clone();
        let run = sandbox.run(task, &mut capture, stop);
        let (ended, calls, crossed) = match (dispatcher.as_ref().zip(skill_calls), outside) {
            (None, outside) => {
                let (ended, crossed) = Box::pin(network::run_with_egress(outside, run)).await?;
                (ended, CallsMade::default(), crossed)
            }
            (Some((dispatcher, skill_calls)), outside) => {
                let skills = SkillRunner {
                    executions: self,
                    caller: session,
                    settings: NestedSettings::from_request(request),
                };
                let answers = dispatcher.dispatch_calls(handler, *tracked);
                let run = Box::pin(dispatcher.run_program(run, answers, stop_copy));
                let (ended, crossed) = tokio::select! {
                    ended = Box::pin(network::run_with_egress(outside, run)) => ended?,
                    () = skills.run_calls(skill_calls) => return Err(OperationError::Abandoned),
                };
                (ended, dispatcher.finish_calls().await?, crossed)
            }
        };
        sandbox.confirm_finished().await?;
        attempt.tape.append_trace(&ended.trace);
        let (seen, output) = (capture.shown(), capture.into_output());
        // The journal has every violation before it has the end.
        recorder.await.map_err(OperationError::NoteTask)??;
        if let Verdict::Released { due } = ended.verdict {
            let waiting = ended.unanswered.len();
            return Ok(AttemptOutcome::Released { due, waiting, seen });
        }
        let collected = self
            .collect_output_files(session, (&*sandbox, before), request, &ended.emitted)
            .await?;
        let mut report = report::finished_report(session, &ended, &collected, &output);
        report::add_calls(&mut report, &calls);
        network::add_egress_counts(&mut report, &crossed);
        if let Some(diverged) = dispatcher.as_ref().and_then(|dispatcher| dispatcher.diverged()) {
            report::fail_diverged(&mut report, &diverged);
        }
        let policy = dispatcher.map_or_else(|| session.current_policy(), |dispatcher| dispatcher.pass().policy());
        self.finish_redacted(session, &policy, request, (ended, report, &collected))
            .await
    }

    /// The call dispatcher of a program; none where the program cannot make calls.
    fn call_dispatcher(
        &self,
        session: &ExecutionContext,
        request: &ExecutionRequest,
        attempt: &ExecutionAttempt,
        egress: Option<&Arc<Egress>>,
    ) -> Option<(CallDispatcher, SkillCallReceiver)> {
        let language = stub_language(&request.program)?;
        let (gateway, policy) = (Arc::clone(self.tools.gateway()), Arc::clone(&session.policy));
        let discover = self.tools.discover_in(session, language);
        let ids = (session.id, session.execution);
        let asker = ApprovalBroker {
            code: ProgramSource::from_program(&request.program, attempt.is_recorded()),
            ..self.approvals.broker(session, request.program.name())
        };
        let desk = asker.into_approval_port();
        let pass = Pass::new(PassConfig {
            gateway,
            policy,
            recorder: Arc::clone(&self.records.store),
            session: session.id,
            execution: session.execution,
            parent: session.parent,
            history: Arc::clone(&session.history),
            call_log: Arc::clone(&attempt.tape),
            approvals: desk,
            redactor: Arc::clone(&session.redactor),
        });
        let (own, skill_calls) = nested::skill_server(&self.tools.library, session);
        let rest = SuspendState {
            is_recorded: attempt.is_recorded(),
            unrepeatable: attempt.unrepeatable.clone(),
            notifier: self.approvals.notifier.clone(),
        };
        let mut dispatcher = CallDispatcher::new(
            Arc::new(pass.with_builtin(own)),
            discover,
            Arc::clone(&self.records.store),
            ids,
            rest,
        );
        dispatcher.egress = egress.cloned();
        Some((dispatcher, skill_calls))
    }
}

/// The task of one attempt. Standard input goes to the first attempt alone.
fn execution_task(
    request: &mut ExecutionRequest,
    attempt: &ExecutionAttempt,
    call_port: Option<CallPort>,
    network: Option<NetworkAccess>,
) -> ExecutionTask {
    ExecutionTask {
        args: request.args.clone(),
        stdin: request.stdin.take(),
        call_port,
        wall: request.timeout,
        network,
        replay: attempt.replay.clone(),
        ..ExecutionTask::new(request.program.clone())
    }
}
