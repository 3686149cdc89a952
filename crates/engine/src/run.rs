//! The life of one execution, from a request to its result.
//!
//! A policy that cannot be enforced is refused; every event is recorded before it happens; whatever the program does, its sandbox ends, its
//! output is cut to the limit, and the report says what enforces each rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use ringfence_gateway::{CallsMade, Egress, Pass, PassConfig};
use ringfence_journal::{Enforcement, ExecutionId, RecordError, SessionId};
use ringfence_policy::{PiiMode, Policy, SecretMode};
use ringfence_sandbox::{
    CallPort, CollectedFiles, ConcludedExecution, EmittedFile, ExecutionTask, ExistingFileAction, NetworkAccess,
    Sandbox, SkipReason, Spec, SpecOptions, Verdict,
};

use crate::approval_broker::{ApprovalBroker, ProgramSource};
use crate::attempt::{AttemptKind, AttemptOutcome, ExecutionAttempt, FinishedExecution, RunContext};
use crate::call_dispatch::{self, CallChannels, CallDispatcher, SuspendState};
use crate::durable::{OutcomeDigest, RetryBackoff, RunPermit};
use crate::engine::Engine;
use crate::error::OperationError;
use crate::execution::ExecutionReport;
use crate::host_work::{CollectFilter, Digests};
use crate::network::{self, ExecutionEgress};
use crate::output::{OutputCapture, OutputObserver};
use crate::record::record_notes;
use crate::refusal::RunRefusal;
use crate::report;
use crate::request::{ExecutionRequest, InputFile, InputSource, OutputDestination, ResultAudience};
use crate::rules::LiveExecution;
use crate::session::ExecutionContext;
use crate::skills::nested::{self, NestedSettings, SkillCallReceiver};
use crate::workspace::{DiskFolders, keeps_files};

impl Engine {
    /// Runs `request` to its end, in a session of its own or in the one that it names, and shows output to `live` as it comes.
    pub fn run<'a>(
        &'a self,
        request: ExecutionRequest,
        live: &'a mut dyn OutputObserver,
    ) -> BoxFuture<'a, Result<ExecutionReport, OperationError>> {
        Box::pin(self.run_once(request, live))
    }

    async fn run_once(
        &self,
        request: ExecutionRequest,
        live: &mut dyn OutputObserver,
    ) -> Result<ExecutionReport, OperationError> {
        if request.session.is_some() || keeps_files(&request.policy) {
            return Box::pin(self.run_in_kept_session(request, live)).await;
        }
        let ids = (SessionId::generate()?, ExecutionId::generate()?);
        let (_switch, stop) = self.cancel_switch(ids.0);
        let mut stop = stop.with_timeout(request.timeout);
        let (principal, policy) = (self.config.principal, Arc::clone(&request.policy));
        let session = ExecutionContext {
            history: Arc::new(self.tenants.new_session(principal)),
            ..ExecutionContext::new(ids, principal, policy, self.scratch_folder(ids.0))
        };
        let stop = &mut stop;
        let mut company = RunContext {
            observer: live,
            stop,
            run: None,
        };
        self.run_in_own_session(session, request, ExecutionAttempt::first_attempt(), &mut company)
            .await
    }

    /// Runs an execution in a session of its own to its end, through as many sandboxes as it takes.
    pub(crate) async fn run_in_own_session(
        &self,
        mut session: ExecutionContext,
        mut request: ExecutionRequest,
        mut attempt: ExecutionAttempt,
        company: &mut RunContext<'_>,
    ) -> Result<ExecutionReport, OperationError> {
        if let Some(refusal) = RunRefusal::check_program(&session.policy, &request.program) {
            return self.refuse_in_own_session(session, refusal).await;
        }
        let spec = match self.sandbox_spec(
            &session.policy,
            DiskFolders::scratch_only(&session.folders),
            request.require_hard,
        ) {
            Ok(spec) => spec,
            Err(refusal) => return self.refuse_in_own_session(session, refusal).await,
        };
        session.enforcement = self.enforcement_list(&spec, &session.policy);
        let found = if attempt.is_first() {
            Box::pin(self.type_errors(&session, &request.program)).await
        } else {
            Vec::new()
        };
        if !found.is_empty() {
            self.open_session(&session).await?;
            let execution = self.refuse_ill_typed(&session, &request, found).await?;
            self.close_session((session.id, &session.folders), "done").await?;
            return Ok(execution);
        }
        let ran = Box::pin(self.run_attempts(&session, &spec, &mut request, &mut attempt, company)).await;
        if let Err(error) = &ran
            && !matches!(error, OperationError::HandedOver)
        {
            // An audit sink that refused the record also refuses the end, and has said why.
            let refused = matches!(error, OperationError::Record(RecordError::Sink { .. }));
            if attempt.is_first() && !refused {
                self.open_session(&session).await?;
            }
            let reason = format!("failed: {error}");
            let closed = self.close_session((session.id, &session.folders), &reason).await;
            if !refused {
                closed?;
            }
        }
        ran
    }

    async fn run_attempts(
        &self,
        session: &ExecutionContext,
        spec: &Arc<Spec>,
        request: &mut ExecutionRequest,
        attempt: &mut ExecutionAttempt,
        company: &mut RunContext<'_>,
    ) -> Result<ExecutionReport, OperationError> {
        let mut tries = RetryBackoff::default();
        loop {
            let turn = match self.acquire_permit(session, spec, attempt, company).await? {
                RunPermit::Granted(turn) => turn,
                RunPermit::NoCapacity(refusal) => return self.refuse_in_own_session(session.clone(), refusal).await,
                RunPermit::Cancelled => {
                    return self
                        .finish_cancelled(session, attempt, company.stop, Some("done"))
                        .await;
                }
            };
            let ran = self
                .run_in_fresh_sandbox(session, spec, request, attempt, company)
                .await;
            drop(turn);
            let ran = match ran {
                Err(error) if attempt.is_waiting() && error.is_transient() => {
                    if self.backoff(session, &mut tries, &error, company).await? {
                        continue;
                    }
                    return self
                        .finish_cancelled(session, attempt, company.stop, Some("done"))
                        .await;
                }
                ran => ran?,
            };
            match ran {
                AttemptOutcome::Finished(over) => return Ok(over.report),
                AttemptOutcome::Released { seen, .. } => match self.wait_until_resumable(session, company).await? {
                    Some((next, files)) => {
                        *attempt = ExecutionAttempt { shown: seen, ..next };
                        // The files are those of the recording, not those that the sandbox had last.
                        request.files = files;
                    }
                    None => {
                        return self
                            .finish_cancelled(session, attempt, company.stop, Some("done"))
                            .await;
                    }
                },
            }
        }
    }

    async fn run_in_fresh_sandbox(
        &self,
        session: &ExecutionContext,
        spec: &Arc<Spec>,
        request: &mut ExecutionRequest,
        attempt: &mut ExecutionAttempt,
        company: &mut RunContext<'_>,
    ) -> Result<AttemptOutcome, OperationError> {
        let language = request.program.language();
        if spec.has_folders() {
            self.lease_folder(&session.folders)?;
            if !attempt.is_first() {
                self.empty_workspace(spec).await?;
            }
        }
        let mut sandbox = self.acquire_sandbox(spec, language, session.principal).await?;
        let before = copy_in(&sandbox, BTreeMap::new(), &request.files)?;
        if attempt.is_first() {
            let nothing = BTreeMap::new();
            // Two records, one commit: nothing happens between them.
            let (open, started) = tokio::join!(
                self.open_session(session),
                self.record_started(session, request, attempt, Ok(&nothing))
            );
            open?;
            attempt.kind = AttemptKind::Resumed;
            started?;
        } else {
            self.record_resumed(session, attempt).await?;
        }
        let ran = self
            .execute_attempt(session, (&mut sandbox, &before), request, attempt, company)
            .await?;
        // The backend ends or resets the sandbox while the end is recorded.
        let back = self.release_sandbox(sandbox, spec, language, session.principal);
        let (gone, written) = match &ran {
            AttemptOutcome::Finished(over) => {
                tokio::join!(back, self.journal_end(session, over, attempt, Some("done")))
            }
            AttemptOutcome::Released { due, waiting, .. } => {
                tokio::join!(back, self.record_suspended(session, attempt, *due, *waiting))
            }
        };
        gone?;
        written?;
        Ok(ran)
    }

    /// Executes one attempt in a ready sandbox, after its start was recorded and before its end is.
    pub(crate) async fn execute_attempt(
        &self,
        session: &ExecutionContext,
        (sandbox, before): (&mut Sandbox, &Arc<Digests>),
        request: &mut ExecutionRequest,
        attempt: &ExecutionAttempt,
        company: &mut RunContext<'_>,
    ) -> Result<AttemptOutcome, OperationError> {
        let own = (request.reader == ResultAudience::Owner).then(|| Arc::clone(&session.redactor));
        let (kept, happened) = OutputCapture::new(company.observer, attempt.shown, own);
        let mut kept = kept.with_unrepeatable(attempt.unrepeatable.clone());
        let (store, is_recorded) = (Arc::clone(&self.store), attempt.is_recorded());
        let noted = tokio::spawn(record_notes(
            store,
            session.id,
            session.execution,
            is_recorded,
            happened,
        ));
        let (outside, network) = self.open_egress(session, &request.program)?.unzip();
        let egress = outside.as_ref().map(ExecutionEgress::egress);
        let (keeper, orders) = self.call_dispatcher(session, request, attempt, egress.as_ref()).unzip();
        let keeper = keeper.map(Arc::new);
        let live = LiveExecution {
            pass: keeper.as_ref().map(|keeper| keeper.pass()),
            egress,
            draft: session.draft.clone(),
        };
        let _rules = self.register_execution(session, live).await;
        let (door, calls, answers, release) = CallPort::new(call_dispatch::CALL_QUEUE_CAPACITY);
        let door = keeper.is_some().then_some(door);
        let task = execution_task(request, attempt, door, network.flatten());
        let (stop, seen_by) = (company.stop.clone(), company.run);
        let run = sandbox.run(task, &mut kept, company.stop);
        let (ended, calls, crossed) = match (keeper.as_ref().zip(orders), outside) {
            (None, outside) => {
                let (ended, crossed) = Box::pin(network::run_with_egress(outside, run)).await?;
                (ended, CallsMade::default(), crossed)
            }
            (Some((keeper, orders)), outside) => {
                let channels = CallChannels {
                    calls,
                    answers,
                    release,
                };
                let nested = NestedSettings::from_request(request);
                let run = Box::pin(keeper.run_program(run, keeper.dispatch_calls(channels, seen_by), stop));
                let (ended, crossed) = tokio::select! {
                    ended = Box::pin(network::run_with_egress(outside, run)) => ended?,
                    () = self.run_skill_calls(session, nested, orders) => return Err(OperationError::Abandoned),
                };
                (ended, keeper.finish_calls().await?, crossed)
            }
        };
        sandbox.confirm_finished().await?;
        attempt.tape.append_trace(&ended.trace);
        let (seen, output) = (kept.shown(), kept.into_output());
        // The journal has every violation before it has the end.
        noted.await.map_err(OperationError::NoteTask)??;
        if let Verdict::Released { due } = ended.verdict {
            let waiting = ended.unanswered.len();
            return Ok(AttemptOutcome::Released { due, waiting, seen });
        }
        let place = (&*sandbox, before);
        let collected = self
            .collect_output_files(session, place, request, &ended.emitted)
            .await?;
        let mut execution = report::finished_report(session, &ended, &collected, &output);
        report::add_calls(&mut execution, &calls);
        network::add_egress_counts(&mut execution, &crossed);
        if let Some(diverged) = keeper.as_ref().and_then(|keeper| keeper.diverged()) {
            report::fail_diverged(&mut execution, &diverged);
        }
        let policy = keeper.map_or_else(|| session.current_policy(), |keeper| keeper.pass().policy());
        self.finish_redacted(session, &policy, request, (ended, execution, &collected))
            .await
    }

    /// The finished execution, as its reader sees it.
    async fn finish_redacted(
        &self,
        session: &ExecutionContext,
        policy: &Policy,
        request: &ExecutionRequest,
        (ended, mut execution, collected): (ConcludedExecution, ExecutionReport, &CollectedFiles),
    ) -> Result<AttemptOutcome, OperationError> {
        if let OutputDestination::Folder { .. } = &request.out {
            execution.left_behind = collected.uncopied_files();
        }
        let outcome = OutcomeDigest::from_report(&execution);
        let (mut execution, output) = self.render_report(session, policy, request.reader, execution).await?;
        if let OutputDestination::Folder { path, .. } = &request.out {
            // Not part of the digest, which describes the program only: a replay has no such folder.
            report::fail_not_overwritten(&mut execution, &collected.skipped, path);
        }
        Ok(AttemptOutcome::Finished(Box::new(FinishedExecution {
            ended,
            digest: outcome,
            report: execution,
            output,
        })))
    }

    /// The call dispatcher of a program; none where the program cannot make calls.
    fn call_dispatcher(
        &self,
        session: &ExecutionContext,
        request: &ExecutionRequest,
        attempt: &ExecutionAttempt,
        egress: Option<&Arc<Egress>>,
    ) -> Option<(CallDispatcher, SkillCallReceiver)> {
        let language = request.program.stub_language()?;
        let (gateway, policy) = (Arc::clone(self.call_gateway()), Arc::clone(&session.policy));
        let discover = self.discover_in(session, language);
        let ids = (session.id, session.execution);
        let asker = ApprovalBroker {
            code: ProgramSource::from_program(&request.program, attempt.is_recorded()),
            ..self.approval_broker(session, request.program.name())
        };
        let desk = asker.into_approval_port();
        let pass = Pass::new(PassConfig {
            gateway,
            policy,
            recorder: Arc::clone(&self.store),
            session: session.id,
            execution: session.execution,
            parent: session.parent,
            history: Arc::clone(&session.history),
            call_log: Arc::clone(&attempt.tape),
            approvals: desk,
            redactor: Arc::clone(&session.redactor),
        });
        let (own, orders) = nested::skill_server(&self.library, session);
        let rest = SuspendState {
            is_recorded: attempt.is_recorded(),
            unrepeatable: attempt.unrepeatable.clone(),
            notifier: self.approval_notifier.clone(),
        };
        let mut keeper = CallDispatcher::new(
            Arc::new(pass.with_builtin(own)),
            discover,
            Arc::clone(&self.store),
            ids,
            rest,
        );
        keeper.egress = egress.cloned();
        Some((keeper, orders))
    }

    /// The sandbox spec that a policy needs, or why there is none.
    pub(crate) fn sandbox_spec(
        &self,
        policy: &Policy,
        disk: DiskFolders<'_>,
        require_hard: bool,
    ) -> Result<Arc<Spec>, RunRefusal> {
        let front = self.config.serve.as_ref().map(|front| front.policy.digest());
        let is_usual = front == Some(policy.digest()) && !require_hard;
        if let Some(usual) = self.default_spec.get().filter(|_| is_usual) {
            return Ok(Arc::clone(usual));
        }
        let spec = self.new_spec(policy, disk, require_hard)?;
        Ok(if is_usual && spec.is_reusable() {
            Arc::clone(self.default_spec.get_or_init(|| spec))
        } else {
            spec
        })
    }

    /// Whether this is the default spec, that of a request without a draft.
    pub(crate) fn is_default_spec(&self, spec: &Arc<Spec>) -> bool {
        self.default_spec.get().is_some_and(|usual| Arc::ptr_eq(usual, spec))
    }

    fn new_spec(&self, policy: &Policy, disk: DiskFolders<'_>, require_hard: bool) -> Result<Arc<Spec>, RunRefusal> {
        if let Some(unbuilt) = policy.unsupported(&Engine::capabilities()).first() {
            return Err(RunRefusal {
                code: "policy.unbuilt",
                message: format!("`{}` {}", unbuilt.key, unbuilt.why),
                rule: unbuilt.key.clone(),
                hint: Some(unbuilt.hint.clone()),
            });
        }
        let options = SpecOptions {
            python: self.config.python.clone(),
            folders: Some(disk.folders.to_owned()),
            kept: disk.kept.map(|kept| kept.folder.clone()),
            user: disk.kept.and_then(|kept| kept.user),
        };
        let spec = Spec::new(policy, &options).map_err(|error| report::spec_refusal(&error))?;
        let soft = self.native.soft_rules(&spec);
        match (require_hard, soft.first()) {
            (true, Some(first)) => Err(RunRefusal {
                code: "policy.soft",
                message: format!("`{}` can only be held by {} here", first.rule, first.mechanism.name()),
                rule: first.rule.to_owned(),
                hint: Some(first.hard_hint().to_owned()),
            }),
            _ => Ok(Arc::new(spec)),
        }
    }

    /// The mechanism that enforces each rule.
    pub(crate) fn enforcement_list(&self, spec: &Spec, policy: &Policy) -> Vec<Enforcement> {
        let by_the_place = self.native.enforcement(spec);
        let tools = self.tool_gateway().map(|_| report::gateway_enforcement("tools"));
        let net = (policy.net().enabled == Some(true)).then(|| report::gateway_enforcement("net"));
        let data = policy.data_rules();
        let pii = (data.pii != PiiMode::Off).then(|| report::gateway_enforcement("data.pii"));
        let secrets = (data.secrets != SecretMode::Off).then(|| report::gateway_enforcement("data.secrets"));
        by_the_place
            .iter()
            .map(report::journal_enforcement)
            .chain(tools)
            .chain(net)
            .chain(pii)
            .chain(secrets)
            .collect()
    }

    /// Collects new and emitted files from the workspace, and records them before they are copied out.
    async fn collect_output_files(
        &self,
        session: &ExecutionContext,
        (sandbox, before): (&Sandbox, &Arc<Digests>),
        request: &ExecutionRequest,
        emitted: &[EmittedFile],
    ) -> Result<CollectedFiles, OperationError> {
        let wanted = CollectFilter {
            deny: &session.policy.fs().deny,
            emitted,
        };
        let who = session.principal;
        let (workspace, mut collected) = match self.host_work.collect_files(who, sandbox, before, wanted).await {
            Ok(found) => found,
            // What the program did and said stands, whatever became of its files.
            Err(OperationError::Collect(error)) => {
                let error = OperationError::Collect(error).chain();
                tracing::warn!(execution = %session.execution, error, "the files of an execution could not be read");
                let collected = CollectedFiles::unread(emitted);
                self.record_withheld(session, report::withheld_violations(&collected))
                    .await?;
                return Ok(collected);
            }
            Err(error) => return Err(error),
        };
        match &request.out {
            OutputDestination::Folder { .. } => {}
            OutputDestination::Artifacts(_) => {
                let by_name = [SkipReason::Name, SkipReason::NotUtf8, SkipReason::Denied];
                collected.skipped = collected.skipped.missed(&by_name);
            }
            OutputDestination::ListOnly => {
                collected.skipped = collected.skipped.missed(&[SkipReason::Name, SkipReason::NotUtf8]);
            }
        }
        self.record_withheld(session, report::withheld_violations(&collected))
            .await?;
        let to = match &request.out {
            OutputDestination::Folder { path, existing } => (path.as_path(), *existing),
            OutputDestination::Artifacts(path) if !collected.files.is_empty() => {
                self.lease_folder(path)?;
                (path.as_path(), ExistingFileAction::Overwrite)
            }
            OutputDestination::ListOnly | OutputDestination::Artifacts(_) => return Ok(collected),
        };
        self.record_files(session, &collected).await?;
        let outcomes = self.host_work.copy_out(who, &workspace, &collected, to).await?;
        let (skipped, written) = collected.drop_uncopied(&outcomes);
        if !skipped.is_empty() {
            self.record_withheld(session, report::left_behind_violations(&skipped, |_| true))
                .await?;
            collected.skipped.add_all(&skipped);
        }
        if request.reader == ResultAudience::Owner {
            self.reveal_files(session, &written, to.0).await?;
        }
        Ok(collected)
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
        kind: report::task_kind(&request.program),
        args: request.args.clone(),
        stdin: request.stdin.take(),
        call_port,
        wall: request.timeout,
        network,
        replay: attempt.replay.clone(),
    }
}

/// Copies files in; returns the digests of what is there, to recognise new files later.
pub(crate) fn copy_in(
    sandbox: &Sandbox,
    mut before: Digests,
    files: &[InputFile],
) -> Result<Arc<Digests>, OperationError> {
    for file in files {
        let digest = match &file.from {
            InputSource::Path(path) => sandbox.put_file(path, &file.name)?,
            InputSource::Bytes(bytes) => sandbox.put_bytes(bytes, &file.name)?,
        };
        before.insert(file.name.as_str().to_owned(), digest);
    }
    Ok(Arc::new(before))
}
