//! The life of one execution, from a request to its result.
//!
//! A policy that cannot be held is refused; everything that happens is written down before it happens; whatever the program
//! does, its sandbox ends, its output is cut to the limit, and the answer says what held each rule.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_gateway::Pass;
use ringfence_journal::{
    By, Event, ExecutionId, FileOut, Kind, NoEntropy, Output, PolicyRef, RecordError, Recorder as _, SessionId, Text,
    files_out, output_parts,
};
use ringfence_policy::{JournalOutput, Policy, RelPath};
use ringfence_sandbox::{
    CollectError, Collected, Door, Ended, Language, LaunchError, Options, PutError, Sandbox, Spec, Stop, Task,
};
use ringfence_store::{LeaseError, Opening, Resource};
use tokio::sync::mpsc;

use crate::door::{self, Keeper};
use crate::engine::Engine;
use crate::execution::Execution;
use crate::refusal::Refusal;
use crate::report::{self, Session};
use crate::words::{Kept, Live};

/// A request to run something once, in a session of its own.
#[derive(Debug)]
pub struct RunCode {
    /// The policy in force.
    pub policy: Policy,
    /// What to run.
    pub program: Program,
    /// What it finds as arguments.
    pub args: Vec<String>,
    /// Files to bring in.
    pub files: Vec<Input>,
    /// What it reads, in pieces.
    pub stdin: Option<mpsc::Receiver<Vec<u8>>>,
    /// Where new and changed files go.
    pub out: Option<PathBuf>,
    /// Refuse what is only watched.
    pub require_hard: bool,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Code of a language.
    Code {
        /// Any but [`Language::Program`].
        language: Language,
        /// What errors call it.
        file_name: String,
        /// The source.
        source: String,
    },
    /// A shell script.
    Shell {
        /// Its `$0`.
        file_name: String,
        /// The script.
        source: String,
    },
    /// A program of the sandbox.
    Named(String),
}

impl Program {
    /// The language of the stubs that it calls tools by, if it can call any.
    pub(crate) fn stubs(&self) -> Option<ringfence_catalog::Language> {
        match self {
            Program::Code {
                language: Language::Python,
                ..
            } => Some(ringfence_catalog::Language::Python),
            Program::Code { .. } => Some(ringfence_catalog::Language::TypeScript),
            Program::Shell { .. } | Program::Named(_) => None,
        }
    }
}

/// A file to bring in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Where it is on the host.
    pub from: PathBuf,
    /// What it is called in the workspace.
    pub name: RelPath,
}

/// Why an execution has no result. What the program did wrong is never here.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The journal: without a record nothing happens.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The sandbox.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The execution.
    #[error(transparent)]
    Run(#[from] ringfence_sandbox::RunError),
    /// A file going in.
    #[error(transparent)]
    Put(#[from] PutError),
    /// Files coming out.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// This process's claim.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// An id.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// A call of the program.
    #[error("a call ended without an answer")]
    Unanswered(#[source] tokio::task::JoinError),
    /// What the program tried.
    #[error("what the program tried could not be written down")]
    Unnoted(#[source] tokio::task::JoinError),
}

impl Engine {
    /// Runs `request` to its end, showing output to `live` as it comes.
    pub async fn run(&self, mut request: RunCode, live: &mut dyn Live) -> Result<Execution, RunError> {
        let (id, execution) = (SessionId::generate()?, ExecutionId::generate()?);
        let (_switch, mut stop) = self.switch(id);
        let folders = self.settings.home.join("workspaces").join(id.to_string());
        let policy = request.policy.clone();
        let policy_ref = PolicyRef {
            name: Text::clean(policy.name()),
            digest: Text::clean(policy.digest()),
        };
        let mut session = Session {
            id,
            execution,
            policy,
            policy_ref,
            enforcement: Vec::new(),
            folders,
        };
        let spec = match self.spec(&session, &request) {
            Ok(spec) => spec,
            Err(refusal) => return self.refuse(session, refusal).await,
        };
        session.enforcement = self.native.enforcement(&spec).iter().map(report::enforcement).collect();
        if self.gateway().is_some() {
            session.enforcement.push(report::at_the_door());
        }
        self.open_session(&session).await?;
        let result = match Box::pin(self.type_errors(&session, &request.program)).await {
            found if found.is_empty() => Box::pin(self.run_in(&session, &spec, &mut request, live, &mut stop)).await,
            found => self.not_run(&session, &request, found).await,
        };
        self.close_session(&session, result.as_ref().err()).await?;
        result
    }

    async fn run_in(
        &self,
        session: &Session,
        spec: &Arc<Spec>,
        request: &mut RunCode,
        live: &mut dyn Live,
        stop: &mut Stop,
    ) -> Result<Execution, RunError> {
        let mut sandbox = self.native.launch(spec).await?;
        let before = bring_in(&sandbox, &request.files)?;
        self.record(session, report::started(session, request)).await?;
        let (mut kept, attempts) = Kept::new(live);
        let noted = tokio::spawn(note_attempts(
            Arc::clone(&self.store),
            session.id,
            session.execution,
            attempts,
        ));
        let keeper = self.keeper(session, request);
        let (door, calls, answers) = Door::new(door::ROOM);
        let task = Task {
            kind: report::task_kind(&request.program),
            args: std::mem::take(&mut request.args),
            stdin: request.stdin.take(),
            door: keeper.is_some().then_some(door),
        };
        let (ended, calls) = match &keeper {
            None => (sandbox.run(task, &mut kept, stop).await?, Vec::new()),
            Some(keeper) => {
                let run = sandbox.run(task, &mut kept, stop);
                let ended = keeper.run(run, keeper.attend(calls, answers)).await?;
                (ended, keeper.close().await?)
            }
        };
        sandbox.settle().await?;
        let (stdout, stderr) = kept.finish();
        // Every attempt is in the journal before the end is.
        noted.await.map_err(RunError::Unnoted)??;
        let collected = self
            .take_out(session, &sandbox, &before, request.out.as_deref())
            .await?;
        let mut execution = report::result(session, &ended, &collected, &(stdout, stderr));
        report::add_calls(&mut execution, &calls);
        // The kernel takes the sandbox down while its end is written.
        let (gone, written) = tokio::join!(sandbox.end(), self.journal_end(session, &ended, &execution));
        gone?;
        written?;
        Ok(execution)
    }

    /// Whoever answers the calls of a program that can make any.
    fn keeper(&self, session: &Session, request: &RunCode) -> Option<Keeper> {
        let language = request.program.stubs()?;
        let (gateway, policy) = (Arc::clone(self.gateway()?), Arc::new(session.policy.clone()));
        let discover = self.discover(Arc::clone(&policy), language);
        let pass = Pass::new(gateway, policy, Arc::clone(&self.store), session.id, session.execution);
        Some(Keeper::new(Arc::new(pass), discover))
    }

    /// The place this session needs, or why it cannot be had.
    fn spec(&self, session: &Session, request: &RunCode) -> Result<Arc<Spec>, Refusal> {
        if let Some(unbuilt) = session.policy.unbuilt(&Engine::built()).first() {
            return Err(Refusal {
                code: "policy.unbuilt",
                message: format!("`{}` {}", unbuilt.key, unbuilt.why),
                rule: unbuilt.key.clone(),
                hint: Some(unbuilt.hint.clone()),
            });
        }
        let options = Options {
            python: self.settings.python.clone(),
            folders: Some(session.folders.clone()),
        };
        let spec = Spec::new(&session.policy, &options).map_err(|error| report::cannot_place(&error))?;
        let soft = self.native.soft_rules(&spec);
        match (request.require_hard, soft.first()) {
            (true, Some(first)) => Err(Refusal {
                code: "policy.soft",
                message: format!("`{}` can only be held by {} here", first.rule, first.by.name()),
                rule: first.rule.to_owned(),
                hint: Some(hard_hint(first.rule).to_owned()),
            }),
            _ => Ok(Arc::new(spec)),
        }
    }

    async fn open_session(&self, session: &Session) -> Result<(), RunError> {
        // Noted before it is made, so that a crash in between leaves nothing behind.
        self.lease.note(Resource::Folder {
            path: session.folders.clone(),
        })?;
        let opening = Opening {
            session: session.id,
            principal: self.settings.principal,
            policy: session.policy_ref.clone(),
            policy_json: session.policy.to_json().to_string(),
            backend: Text::clean("native"),
            enforcement: session.enforcement.clone(),
            durable: session.policy.audit().durable,
            uid: None,
        };
        self.store.open_session(&self.lease, opening).await?;
        Ok(())
    }

    async fn refuse(&self, session: Session, refusal: Refusal) -> Result<Execution, RunError> {
        self.open_session(&session).await?;
        let kind = Kind::Refused {
            code: Text::clean(refusal.code),
            rule: Text::clean(&refusal.rule),
            hint: refusal.hint.as_deref().map(Text::clean),
        };
        self.record(&session, kind).await?;
        self.close_session(&session, None).await?;
        Ok(report::refused(&session, refusal))
    }

    async fn close_session(&self, session: &Session, error: Option<&RunError>) -> Result<(), RunError> {
        match std::fs::remove_dir_all(&session.folders) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(folder = %session.folders.display(), %error, "a workspace could not be removed");
            }
            _ => self.lease.forget(&Resource::Folder {
                path: session.folders.clone(),
            })?,
        }
        let reason = error.map_or_else(|| "done".to_owned(), |error| format!("failed: {error}"));
        self.record(
            session,
            Kind::SessionClosed {
                reason: Text::clean(&reason),
            },
        )
        .await
    }

    pub(crate) async fn record(&self, session: &Session, kind: Kind) -> Result<(), RunError> {
        let execution = (!matches!(kind, Kind::SessionClosed { .. })).then_some(session.execution);
        self.store.record(Event::host(session.id, execution, kind)).await?;
        Ok(())
    }

    /// What is new in the workspace; written down before it is copied out.
    async fn take_out(
        &self,
        session: &Session,
        sandbox: &Sandbox,
        before: &BTreeMap<String, String>,
        to: Option<&Path>,
    ) -> Result<Collected, RunError> {
        let collected = sandbox.collect(before, &session.policy.fs().deny)?;
        if let Some(to) = to {
            let files: Vec<FileOut> = collected
                .files
                .iter()
                .map(|file| FileOut {
                    path: Text::clean(file.path.as_str()),
                    bytes: file.bytes,
                    sha256: Text::clean(&file.sha256),
                })
                .collect();
            for kind in files_out(&files) {
                self.record(session, kind).await?;
            }
            sandbox.copy_out(&collected.files, to)?;
        }
        Ok(collected)
    }

    async fn journal_end(&self, session: &Session, ended: &Ended, execution: &Execution) -> Result<(), RunError> {
        if ended.more_violations > 0 {
            let kind = Kind::Violation {
                what: Text::clean("syscall"),
                detail: Text::clean(&format!("{} more", ended.more_violations)),
                rule: Text::clean("proc.syscalls"),
            };
            self.record(session, kind).await?;
        }
        if let ringfence_sandbox::Verdict::Limit(limit) = ended.verdict {
            let by = session
                .enforcement
                .iter()
                .find(|held| held.rule.as_str() == limit.rule())
                .map_or(By::Quota, |held| held.by);
            let kind = Kind::LimitHit {
                code: Text::clean(limit.code()),
                rule: Text::clean(limit.rule()),
                by,
            };
            self.record(session, kind).await?;
        }
        if session.policy.audit().output == JournalOutput::All {
            use ringfence_journal::Stream;
            for (stream, text) in [(Stream::Stdout, &execution.stdout), (Stream::Stderr, &execution.stderr)] {
                for kind in output_parts(stream, text.as_bytes()) {
                    self.record(session, kind).await?;
                }
            }
        }
        let output = (session.policy.audit().output != JournalOutput::None).then(|| Output {
            stdout: Text::clean(&execution.stdout),
            stderr: Text::clean(&execution.stderr),
        });
        self.record(session, report::ended(session, execution, output)).await
    }
}

/// Writes down what a program tries, when it tries it.
async fn note_attempts(
    store: Arc<ringfence_store::Store>,
    session: SessionId,
    execution: ExecutionId,
    mut attempts: mpsc::UnboundedReceiver<ringfence_sandbox::Violation>,
) -> Result<(), RecordError> {
    while let Some(attempt) = attempts.recv().await {
        let kind = Kind::Violation {
            what: Text::clean(attempt.kind),
            detail: Text::clean(&attempt.detail),
            rule: Text::clean(attempt.rule),
        };
        store.record(Event::host(session, Some(execution), kind)).await?;
    }
    Ok(())
}

/// How a rule that is only watched here could be held hard.
fn hard_hint(rule: &str) -> &'static str {
    if rule == "fs.mounts.quota" {
        "give places at most 256MiB, which are memory with a hard size, or run without `--require-hard`"
    } else {
        "run without `--require-hard`, or where control groups can be written: `ringfence doctor`"
    }
}

/// Copies files in; answers their digests, to tell later what is new.
fn bring_in(sandbox: &Sandbox, files: &[Input]) -> Result<BTreeMap<String, String>, RunError> {
    let mut before = BTreeMap::new();
    for file in files {
        before.insert(file.name.as_str().to_owned(), sandbox.put(&file.from, &file.name)?);
    }
    Ok(before)
}
