//! The life of one execution, from a request to its result.
//!
//! A policy that cannot be enforced is refused; every event is recorded before it happens; whatever the program does, its sandbox ends, its
//! output is cut to the limit, and the report says what enforces each rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfence_gateway::{CallsMade, Egress, Pass, Terms};
use ringfence_journal::{Enforcement, ExecutionId, RecordError, SessionId};
use ringfence_policy::{PiiMode, Policy, Secrets};
use ringfence_sandbox::{Collected, Door, Emit, Ended, Existing, Options, Sandbox, SkipReason, Spec, Task, Verdict};

use crate::asker::{Asker, Code};
use crate::attempt::{Attempt, AttemptKind, Company, Over, Ran};
use crate::door::{self, Keeper, Rest, Ways};
use crate::durable::{Outcome, Tries, Turn};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::host_work::{Digests, Wanted};
use crate::network::{self, Outside};
use crate::record::note_all;
use crate::refusal::Refusal;
use crate::report;
use crate::request::{Input, Out, Reader, RunCode, Source};
use crate::rules::Held;
use crate::session::Session;
use crate::skills::nested::{self, Around, Orders};
use crate::words::{Kept, Live};
use crate::workspace::{Disk, keeps};

impl Engine {
    /// Runs `request` to its end, in a session of its own or in the one that it names, and shows output to `live` as it comes.
    pub async fn run(&self, request: RunCode, live: &mut dyn Live) -> Result<Execution, RunError> {
        if request.session.is_some() || keeps(&request.policy) {
            return Box::pin(self.run_kept(request, live)).await;
        }
        let ids = (SessionId::generate()?, ExecutionId::generate()?);
        let (_switch, stop) = self.switch(ids.0);
        let mut stop = stop.within(request.timeout);
        let (principal, policy) = (self.settings.principal, Arc::clone(&request.policy));
        let session = Session {
            past: Arc::new(self.tenants.past(principal)),
            ..Session::new(ids, principal, policy, self.folders(ids.0))
        };
        let stop = &mut stop;
        let mut company = Company { live, stop, run: None };
        self.run_alone(session, request, Attempt::first(), &mut company).await
    }

    /// Runs an execution in a session of its own to its end, through as many sandboxes as it takes.
    pub(crate) async fn run_alone(
        &self,
        mut session: Session,
        mut request: RunCode,
        mut attempt: Attempt,
        company: &mut Company<'_>,
    ) -> Result<Execution, RunError> {
        if let Some(refusal) = Refusal::of_program(&session.policy, &request.program) {
            return self.refuse(session, refusal).await;
        }
        let spec = match self.spec(&session.policy, Disk::passing(&session.folders), request.require_hard) {
            Ok(spec) => spec,
            Err(refusal) => return self.refuse(session, refusal).await,
        };
        session.enforcement = self.enforcement(&spec, &session.policy);
        let found = if attempt.is_first() {
            Box::pin(self.type_errors(&session, &request.program)).await
        } else {
            Vec::new()
        };
        if !found.is_empty() {
            self.open_session(&session).await?;
            let execution = self.not_run(&session, &request, found).await?;
            self.close_session((session.id, &session.folders), "done").await?;
            return Ok(execution);
        }
        let ran = Box::pin(self.attempts(&session, &spec, &mut request, &mut attempt, company)).await;
        if let Err(error) = &ran
            && !matches!(error, RunError::Left)
        {
            // An audit sink that refused the record also refuses the end, and has said why.
            let refused = matches!(error, RunError::Record(RecordError::Sink { .. }));
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

    async fn attempts(
        &self,
        session: &Session,
        spec: &Arc<Spec>,
        request: &mut RunCode,
        attempt: &mut Attempt,
        company: &mut Company<'_>,
    ) -> Result<Execution, RunError> {
        let mut tries = Tries::default();
        loop {
            let turn = match self.turn_of(session, spec, attempt, company).await? {
                Turn::Taken(turn) => turn,
                Turn::Full(refusal) => return self.refuse(session.clone(), refusal).await,
                Turn::Cancelled => return self.given_up(session, attempt, company.stop, Some("done")).await,
            };
            let ran = self.in_a_new_place(session, spec, request, attempt, company).await;
            drop(turn);
            let ran = match ran {
                Err(error) if attempt.is_waiting() && error.may_pass() => {
                    if self.hold_off(session, &mut tries, &error, company).await? {
                        continue;
                    }
                    return self.given_up(session, attempt, company.stop, Some("done")).await;
                }
                ran => ran?,
            };
            match ran {
                Ran::Over(over) => return Ok(over.execution),
                Ran::Released { seen, .. } => match self.until_called(session, company).await? {
                    Some((next, files)) => {
                        *attempt = Attempt { seen, ..next };
                        // The files are those of the recording, not those that the sandbox had last.
                        request.files = files;
                    }
                    None => return self.given_up(session, attempt, company.stop, Some("done")).await,
                },
            }
        }
    }

    async fn in_a_new_place(
        &self,
        session: &Session,
        spec: &Arc<Spec>,
        request: &mut RunCode,
        attempt: &mut Attempt,
        company: &mut Company<'_>,
    ) -> Result<Ran, RunError> {
        let language = request.program.language();
        if spec.has_folders() {
            self.note_folder(&session.folders)?;
            if !attempt.is_first() {
                self.start_over(spec).await?;
            }
        }
        let mut sandbox = self.place(spec, language, session.principal).await?;
        let before = bring_in(&sandbox, BTreeMap::new(), &request.files)?;
        if attempt.is_first() {
            let nothing = BTreeMap::new();
            // Two records, one commit: nothing happens between them.
            let (open, started) = tokio::join!(
                self.open_session(session),
                self.start(session, request, attempt, Ok(&nothing))
            );
            open?;
            attempt.kind = AttemptKind::Next;
            started?;
        } else {
            self.go_on(session, attempt).await?;
        }
        let ran = self
            .execute(session, (&mut sandbox, &before), request, attempt, company)
            .await?;
        // The backend ends or resets the sandbox while the end is recorded.
        let back = self.put_back(sandbox, spec, language, session.principal);
        let (gone, written) = match &ran {
            Ran::Over(over) => tokio::join!(back, self.journal_end(session, over, attempt, Some("done"))),
            Ran::Released { due, waiting, .. } => {
                tokio::join!(back, self.suspend(session, attempt, *due, *waiting))
            }
        };
        gone?;
        written?;
        Ok(ran)
    }

    /// Executes one attempt in a ready sandbox, after its start was recorded and before its end is.
    pub(crate) async fn execute(
        &self,
        session: &Session,
        (sandbox, before): (&mut Sandbox, &Arc<Digests>),
        request: &mut RunCode,
        attempt: &Attempt,
        company: &mut Company<'_>,
    ) -> Result<Ran, RunError> {
        let own = (request.reader == Reader::Owner).then(|| Arc::clone(&session.screen));
        let (kept, happened) = Kept::new(company.live, attempt.seen, own);
        let mut kept = kept.telling(attempt.unrepeatable.clone());
        let noted = tokio::spawn(note_all(
            Arc::clone(&self.store),
            session.id,
            session.execution,
            attempt.is_kept(),
            happened,
        ));
        let (outside, network) = self.outside(session, &request.program)?.unzip();
        let egress = outside.as_ref().map(Outside::egress);
        let (keeper, orders) = self.keeper(session, request, attempt, egress.as_ref()).unzip();
        let keeper = keeper.map(Arc::new);
        let held = Held {
            pass: keeper.as_ref().map(|keeper| keeper.pass()),
            egress,
            draft: session.draft.clone(),
        };
        let _rules = self.under_rules(session, held).await;
        let (door, calls, answers, held) = Door::new(door::ROOM);
        let task = Task {
            kind: report::task_kind(&request.program),
            args: request.args.clone(),
            stdin: request.stdin.take(),
            door: keeper.is_some().then_some(door),
            wall: request.timeout,
            network: network.flatten(),
            again: attempt.again.clone(),
        };
        let (stop, seen_by) = (company.stop.clone(), company.run);
        let run = sandbox.run(task, &mut kept, company.stop);
        let (ended, calls, crossed) = match (keeper.as_ref().zip(orders), outside) {
            (None, outside) => {
                let (ended, crossed) = Box::pin(network::run_beside(outside, run)).await?;
                (ended, CallsMade::default(), crossed)
            }
            (Some((keeper, orders)), outside) => {
                let ways = Ways { calls, answers, held };
                let around = Around::of(request);
                let run = Box::pin(keeper.run(run, keeper.attend(ways, seen_by), stop));
                let (ended, crossed) = tokio::select! {
                    ended = Box::pin(network::run_beside(outside, run)) => ended?,
                    () = self.nest(session, around, orders) => return Err(RunError::Abandoned),
                };
                (ended, keeper.close().await?, crossed)
            }
        };
        sandbox.settle().await?;
        attempt.tape.heard(&ended.trace);
        let seen = kept.seen();
        let (stdout, stderr) = kept.finish();
        // The journal has every violation before it has the end.
        noted.await.map_err(RunError::Unnoted)??;
        if let Verdict::Released { due } = ended.verdict {
            let waiting = ended.unanswered.len();
            return Ok(Ran::Released { due, waiting, seen });
        }
        let place = (&*sandbox, before);
        let collected = self.take_out(session, place, request, &ended.emitted).await?;
        let mut execution = report::result(session, &ended, &collected, &(stdout, stderr));
        report::add_calls(&mut execution, &calls);
        network::add_crossed(&mut execution, &crossed);
        if let Some(diverged) = keeper.as_ref().and_then(|keeper| keeper.diverged()) {
            report::strayed(&mut execution, &diverged);
        }
        let policy = keeper.map_or_else(|| session.policy_now(), |keeper| keeper.pass().policy());
        self.over_as_shown(session, &policy, request, (ended, execution, &collected))
            .await
    }

    /// The finished execution, as its reader sees it.
    async fn over_as_shown(
        &self,
        session: &Session,
        policy: &Policy,
        request: &RunCode,
        (ended, mut execution, collected): (Ended, Execution, &Collected),
    ) -> Result<Ran, RunError> {
        if let Out::Folder { .. } = &request.out {
            execution.left_behind = collected.left_behind();
        }
        let outcome = Outcome::of(&execution);
        let (mut execution, output) = self.shown(session, policy, request.reader, execution).await?;
        if let Out::Folder { path, .. } = &request.out {
            // Not part of the digest, which describes the program only: a replay has no such folder.
            report::fail_not_overwritten(&mut execution, &collected.skipped, path);
        }
        Ok(Ran::Over(Box::new(Over {
            ended,
            outcome,
            execution,
            output,
        })))
    }

    /// The call dispatcher of a program; none where the program cannot make calls.
    fn keeper(
        &self,
        session: &Session,
        request: &RunCode,
        attempt: &Attempt,
        egress: Option<&Arc<Egress>>,
    ) -> Option<(Keeper, Orders)> {
        let language = request.program.stubs()?;
        let (gateway, policy) = (Arc::clone(self.door()), Arc::clone(&session.policy));
        let discover = self.discover_in(session, language);
        let ids = (session.id, session.execution);
        let asker = Asker {
            code: Code::of(&request.program, attempt.is_kept()),
            ..self.asker(session, request.program.name())
        };
        let desk = asker.desk();
        let pass = Pass::new(Terms {
            gateway,
            policy,
            recorder: Arc::clone(&self.store),
            session: session.id,
            execution: session.execution,
            parent: session.parent,
            past: Arc::clone(&session.past),
            tape: Arc::clone(&attempt.tape),
            desk,
            screen: Arc::clone(&session.screen),
        });
        let (own, orders) = nested::server(&self.library, session);
        let rest = Rest {
            is_kept: attempt.is_kept(),
            unrepeatable: attempt.unrepeatable.clone(),
            bells: self.bells.clone(),
        };
        let mut keeper = Keeper::new(
            Arc::new(pass.with_own(own)),
            discover,
            Arc::clone(&self.store),
            ids,
            rest,
        );
        keeper.egress = egress.cloned();
        Some((keeper, orders))
    }

    /// The sandbox spec that a policy needs, or why there is none.
    pub(crate) fn spec(&self, policy: &Policy, disk: Disk<'_>, require_hard: bool) -> Result<Arc<Spec>, Refusal> {
        let front = self.settings.front.as_ref().map(|front| front.policy.digest());
        let is_usual = front == Some(policy.digest()) && !require_hard;
        if let Some(usual) = self.usual.get().filter(|_| is_usual) {
            return Ok(Arc::clone(usual));
        }
        let spec = self.new_spec(policy, disk, require_hard)?;
        Ok(if is_usual && spec.is_lasting() {
            Arc::clone(self.usual.get_or_init(|| spec))
        } else {
            spec
        })
    }

    /// Whether this is the default spec, that of a request without a draft.
    pub(crate) fn is_usual(&self, spec: &Arc<Spec>) -> bool {
        self.usual.get().is_some_and(|usual| Arc::ptr_eq(usual, spec))
    }

    fn new_spec(&self, policy: &Policy, disk: Disk<'_>, require_hard: bool) -> Result<Arc<Spec>, Refusal> {
        if let Some(unbuilt) = policy.unbuilt(&Engine::built()).first() {
            return Err(Refusal {
                code: "policy.unbuilt",
                message: format!("`{}` {}", unbuilt.key, unbuilt.why),
                rule: unbuilt.key.clone(),
                hint: Some(unbuilt.hint.clone()),
            });
        }
        let options = Options {
            python: self.settings.python.clone(),
            folders: Some(disk.folders.to_owned()),
            kept: disk.kept.map(|kept| kept.folder.clone()),
            user: disk.kept.and_then(|kept| kept.user),
        };
        let spec = Spec::new(policy, &options).map_err(|error| report::cannot_place(&error))?;
        let soft = self.native.soft_rules(&spec);
        match (require_hard, soft.first()) {
            (true, Some(first)) => Err(Refusal {
                code: "policy.soft",
                message: format!("`{}` can only be held by {} here", first.rule, first.by.name()),
                rule: first.rule.to_owned(),
                hint: Some(first.hard_hint().to_owned()),
            }),
            _ => Ok(Arc::new(spec)),
        }
    }

    /// The mechanism that enforces each rule.
    pub(crate) fn enforcement(&self, spec: &Spec, policy: &Policy) -> Vec<Enforcement> {
        let by_the_place = self.native.enforcement(spec);
        let tools = self.gateway().map(|_| report::at_the_door("tools"));
        let net = (policy.net().enabled == Some(true)).then(|| report::at_the_door("net"));
        let data = policy.data_rules();
        let pii = (data.pii != PiiMode::Off).then(|| report::at_the_door("data.pii"));
        let secrets = (data.secrets != Secrets::Off).then(|| report::at_the_door("data.secrets"));
        by_the_place
            .iter()
            .map(report::enforcement)
            .chain(tools)
            .chain(net)
            .chain(pii)
            .chain(secrets)
            .collect()
    }

    /// Collects new and emitted files from the workspace, and records them before they are copied out.
    async fn take_out(
        &self,
        session: &Session,
        (sandbox, before): (&Sandbox, &Arc<Digests>),
        request: &RunCode,
        emitted: &[Emit],
    ) -> Result<Collected, RunError> {
        let wanted = Wanted {
            deny: &session.policy.fs().deny,
            emitted,
        };
        let who = session.principal;
        let (workspace, mut collected) = self.host_work.collect(who, sandbox, before, wanted).await?;
        match &request.out {
            Out::Folder { .. } => {}
            Out::Kept(_) => {
                let by_name = [SkipReason::Name, SkipReason::NotUtf8, SkipReason::Denied];
                collected.skipped = collected.skipped.missed(&by_name);
            }
            Out::Nowhere => collected.skipped = collected.skipped.missed(&[SkipReason::Name, SkipReason::NotUtf8]),
        }
        self.record_withheld(session, report::withheld(&collected)).await?;
        let to = match &request.out {
            Out::Folder { path, existing } => (path.as_path(), *existing),
            Out::Kept(path) if !collected.files.is_empty() => {
                self.note_folder(path)?;
                (path.as_path(), Existing::Overwrite)
            }
            Out::Nowhere | Out::Kept(_) => return Ok(collected),
        };
        self.record_files(session, &collected).await?;
        let outcomes = self.host_work.copy_out(who, &workspace, &collected, to).await?;
        let (skipped, written) = collected.drop_uncopied(&outcomes);
        if !skipped.is_empty() {
            self.record_withheld(session, report::left_behind(&skipped, |_| true))
                .await?;
            collected.skipped.add_all(&skipped);
        }
        if request.reader == Reader::Owner {
            self.reveal_files(session, &written, to.0).await?;
        }
        Ok(collected)
    }
}

/// Copies files in; returns the digests of what is there, to recognise new files later.
pub(crate) fn bring_in(sandbox: &Sandbox, mut before: Digests, files: &[Input]) -> Result<Arc<Digests>, RunError> {
    for file in files {
        let digest = match &file.from {
            Source::Path(path) => sandbox.put(path, &file.name)?,
            Source::Bytes(bytes) => sandbox.put_bytes(bytes, &file.name)?,
        };
        before.insert(file.name.as_str().to_owned(), digest);
    }
    Ok(Arc::new(before))
}
