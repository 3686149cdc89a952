//! The life of one execution, from a request to its result.
//!
//! A policy that cannot be held is refused; everything that happens is written down before it happens; whatever the program
//! does, its sandbox ends, its output is cut to the limit, and the answer says what held each rule.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ringfence_gateway::{Crossed, Pass};
use ringfence_journal::{Enforcement, ExecutionId, RecordError, SessionId};
use ringfence_policy::Policy;
use ringfence_sandbox::{Collected, Door, Ended, Options, Sandbox, Spec, Stop, Task};

use crate::door::{self, Keeper};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::network::{self, Outside};
use crate::record::note_attempts;
use crate::refusal::Refusal;
use crate::report;
use crate::request::{Input, Out, RunCode, Source};
use crate::rules::Held;
use crate::session::Session;
use crate::words::{Kept, Live};

impl Engine {
    /// Runs `request` to its end in a session of its own, showing output to `live` as it comes.
    pub async fn run(&self, request: RunCode, live: &mut dyn Live) -> Result<Execution, RunError> {
        let ids = (SessionId::generate()?, ExecutionId::generate()?);
        let (_switch, mut stop) = self.switch(ids.0);
        let (principal, policy) = (self.settings.principal, Arc::clone(&request.policy));
        let session = Session::new(ids, principal, policy, self.folders(ids.0));
        self.run_alone(session, request, live, &mut stop).await
    }

    pub(crate) async fn run_alone(
        &self,
        mut session: Session,
        mut request: RunCode,
        live: &mut dyn Live,
        stop: &mut Stop,
    ) -> Result<Execution, RunError> {
        let spec = match self.spec(&session.policy, &session.folders, request.require_hard) {
            Ok(spec) => spec,
            Err(refusal) => return self.refuse(session, refusal).await,
        };
        session.enforcement = self.enforcement(&spec, &session.policy);
        let found = Box::pin(self.type_errors(&session, &request.program)).await;
        if !found.is_empty() {
            self.open_session(&session).await?;
            let execution = self.not_run(&session, &request, found).await?;
            self.close_session((session.id, &session.folders), "done").await?;
            return Ok(execution);
        }
        let mut opened = false;
        let ran = Box::pin(self.in_a_new_place(&session, &spec, &mut request, live, stop, &mut opened)).await;
        if let Err(error) = &ran {
            // A sink refuses what is written already; it will refuse the end too, and said why.
            let refused = matches!(error, RunError::Record(RecordError::Sink { .. }));
            if !opened && !refused {
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

    async fn in_a_new_place(
        &self,
        session: &Session,
        spec: &Arc<Spec>,
        request: &mut RunCode,
        live: &mut dyn Live,
        stop: &mut Stop,
        opened: &mut bool,
    ) -> Result<Execution, RunError> {
        let language = request.program.language();
        if spec.has_folders() {
            self.note_folder(&session.folders)?;
        }
        let mut sandbox = self.place(spec, language, session.principal).await?;
        let before = bring_in(&sandbox, BTreeMap::new(), &request.files)?;
        // Two records, one commit: nothing happens between them.
        let (open, started) = tokio::join!(
            self.open_session(session),
            self.record(session, report::started(session, request))
        );
        open?;
        *opened = true;
        started?;
        let (ended, execution) = self
            .execute(session, &mut sandbox, request, &before, live, stop)
            .await?;
        // The kernel takes the sandbox down, or it is made ready again, while its end is written.
        let written = self.journal_end(session, &ended, &execution, Some("done"));
        let (gone, written) = tokio::join!(self.put_back(sandbox, spec, language, session.principal), written);
        gone?;
        written?;
        Ok(execution)
    }

    /// One execution in a sandbox that stands, after its start was written down and before its end is.
    pub(crate) async fn execute(
        &self,
        session: &Session,
        sandbox: &mut Sandbox,
        request: &mut RunCode,
        before: &BTreeMap<String, String>,
        live: &mut dyn Live,
        stop: &mut Stop,
    ) -> Result<(Ended, Execution), RunError> {
        let (mut kept, attempts) = Kept::new(live);
        let noted = tokio::spawn(note_attempts(
            Arc::clone(&self.store),
            session.id,
            session.execution,
            attempts,
        ));
        let keeper = self.keeper(session, request);
        let (outside, network) = self.outside(session, &request.program)?.unzip();
        let held = Held {
            pass: keeper.as_ref().map(Keeper::pass),
            egress: outside.as_ref().map(Outside::egress),
            draft: session.draft.clone(),
        };
        let _rules = self.under_rules(session, held).await;
        let (door, calls, answers) = Door::new(door::ROOM);
        let task = Task {
            kind: report::task_kind(&request.program),
            args: std::mem::take(&mut request.args),
            stdin: request.stdin.take(),
            door: keeper.is_some().then_some(door),
            wall: request.timeout,
            network,
        };
        let run = sandbox.run(task, &mut kept, stop);
        let (ended, calls, crossed) = match (&keeper, outside) {
            (None, None) => (run.await?, Vec::new(), Crossed::default()),
            (None, Some(outside)) => {
                let (ended, crossed) = Box::pin(outside.run(run)).await?;
                (ended, Vec::new(), crossed)
            }
            // Code has tools and no network.
            (Some(keeper), _) => {
                let ended = keeper.run(run, keeper.attend(calls, answers)).await?;
                (ended, keeper.close().await?, Crossed::default())
            }
        };
        sandbox.settle().await?;
        let (stdout, stderr) = kept.finish();
        // Every attempt is in the journal before the end is.
        noted.await.map_err(RunError::Unnoted)??;
        let collected = self.take_out(session, sandbox, before, &request.out).await?;
        let mut execution = report::result(session, &ended, &collected, &(stdout, stderr));
        report::add_calls(&mut execution, &calls);
        network::add_crossed(&mut execution, &crossed);
        Ok((ended, execution))
    }

    /// Whoever answers the calls of a program that can make any.
    fn keeper(&self, session: &Session, request: &RunCode) -> Option<Keeper> {
        let language = request.program.stubs()?;
        let (gateway, policy) = (Arc::clone(self.gateway()?), Arc::clone(&session.policy));
        let discover = self.discover(Arc::clone(&policy), language);
        let ids = (session.id, session.execution);
        let pass = Pass::new(gateway, policy, Arc::clone(&self.store), ids, Arc::clone(&session.past));
        Some(Keeper::new(Arc::new(pass), discover))
    }

    /// The place that a policy needs, or why it cannot be had.
    pub(crate) fn spec(&self, policy: &Policy, folders: &Path, require_hard: bool) -> Result<Arc<Spec>, Refusal> {
        let front = self.settings.front.as_ref().map(|front| front.policy.digest());
        let is_usual = front == Some(policy.digest()) && !require_hard;
        if let Some(usual) = self.usual.get().filter(|_| is_usual) {
            return Ok(Arc::clone(usual));
        }
        let spec = self.new_spec(policy, folders, require_hard)?;
        Ok(if is_usual && spec.is_lasting() {
            Arc::clone(self.usual.get_or_init(|| spec))
        } else {
            spec
        })
    }

    /// Whether a place is the one of a request that says nothing of its own.
    pub(crate) fn is_usual(&self, spec: &Arc<Spec>) -> bool {
        self.usual.get().is_some_and(|usual| Arc::ptr_eq(usual, spec))
    }

    fn new_spec(&self, policy: &Policy, folders: &Path, require_hard: bool) -> Result<Arc<Spec>, Refusal> {
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
            folders: Some(folders.to_owned()),
        };
        let spec = Spec::new(policy, &options).map_err(|error| report::cannot_place(&error))?;
        let soft = self.native.soft_rules(&spec);
        match (require_hard, soft.first()) {
            (true, Some(first)) => Err(Refusal {
                code: "policy.soft",
                message: format!("`{}` can only be held by {} here", first.rule, first.by.name()),
                rule: first.rule.to_owned(),
                hint: Some(hard_hint(first.rule).to_owned()),
            }),
            _ => Ok(Arc::new(spec)),
        }
    }

    /// What holds each rule.
    pub(crate) fn enforcement(&self, spec: &Spec, policy: &Policy) -> Vec<Enforcement> {
        let by_the_place = self.native.enforcement(spec);
        let tools = self.gateway().map(|_| report::at_the_door("tools"));
        let net = (policy.net().enabled == Some(true)).then(|| report::at_the_door("net"));
        by_the_place
            .iter()
            .map(report::enforcement)
            .chain(tools)
            .chain(net)
            .collect()
    }

    /// What is new in the workspace; written down before it is copied out.
    async fn take_out(
        &self,
        session: &Session,
        sandbox: &Sandbox,
        before: &BTreeMap<String, String>,
        out: &Out,
    ) -> Result<Collected, RunError> {
        let collected = sandbox.collect(before, &session.policy.fs().deny)?;
        let to = match out {
            Out::Folder(to) => to,
            Out::Kept(to) if !collected.files.is_empty() => {
                self.note_folder(to)?;
                to
            }
            Out::Nowhere | Out::Kept(_) => return Ok(collected),
        };
        self.record_files(session, &collected).await?;
        sandbox.copy_out(&collected.files, to)?;
        Ok(collected)
    }
}

/// How a rule that is only watched here could be held hard.
fn hard_hint(rule: &str) -> &'static str {
    if rule == "fs.mounts.quota" {
        "give places at most 256MiB, which are memory with a hard size, or run without `--require-hard`"
    } else {
        "run without `--require-hard`, or where control groups can be written: `ringfence doctor`"
    }
}

/// Copies files in; answers the digests of what is there, to tell later what is new.
pub(crate) fn bring_in(
    sandbox: &Sandbox,
    mut before: BTreeMap<String, String>,
    files: &[Input],
) -> Result<BTreeMap<String, String>, RunError> {
    for file in files {
        let digest = match &file.from {
            Source::Path(path) => sandbox.put(path, &file.name)?,
            Source::Bytes(bytes) => sandbox.put_bytes(bytes, &file.name)?,
        };
        before.insert(file.name.as_str().to_owned(), digest);
    }
    Ok(before)
}
