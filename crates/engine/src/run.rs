//! The life of one execution, from a request to its result.
//!
//! A policy that cannot be held is refused; everything that happens is written down before it happens; whatever the program
//! does, its sandbox ends, its output is cut to the limit, and the answer says what held each rule.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_journal::{
    By, Enforcement, Event, ExecutionId, FileIn, FileOut, Hash, Kind, Limits, NoEntropy, Output, PolicyRef,
    RecordError, Recorder as _, SessionId, Text, Truncated, Usage, files_out, output_parts,
};
use ringfence_policy::{JournalOutput, Policy, RelPath};
use ringfence_sandbox::{
    Change, CollectError, Collected, Ended, Language, LaunchError, Mechanism, Options, PutError, Sandbox, Spec,
    SpecError, Stop, Task, TaskKind,
};
use ringfence_store::{LeaseError, Opening, Resource};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::execution::{ErrorReport, Execution, FileReport, ViolationReport};
use crate::outcome::{self, Judged};
use crate::refusal::Refusal;
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
}

/// An open session: its policy, and the names of both.
struct Session {
    id: SessionId,
    execution: ExecutionId,
    policy: Policy,
    policy_ref: PolicyRef,
    enforcement: Vec<Enforcement>,
    folders: PathBuf,
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
        session.enforcement = self.native.enforcement(&spec).iter().map(enforcement).collect();
        self.open_session(&session).await?;
        let result = self.run_in(&session, &spec, &mut request, live, &mut stop).await;
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
        self.record(session, started(session, request)).await?;
        let mut kept = Kept::new(live);
        let task = Task {
            kind: task_kind(&request.program),
            args: std::mem::take(&mut request.args),
            stdin: request.stdin.take(),
        };
        let ended = sandbox.run(task, &mut kept, stop).await?;
        let (stdout, stderr) = (kept.stdout, kept.stderr);
        let collected = self
            .take_out(session, &sandbox, &before, request.out.as_deref())
            .await?;
        sandbox.end().await?;
        let execution = result(session, &ended, &collected, (stdout, stderr));
        self.journal_end(session, &ended, &execution).await?;
        Ok(execution)
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
        let spec = Spec::new(&session.policy, &options).map_err(|error| cannot_place(&error))?;
        let soft = self.native.soft_rules(&spec);
        match (request.require_hard, soft.first()) {
            (true, Some(first)) => Err(Refusal {
                code: "policy.soft",
                message: format!("`{}` can only be held by {} here", first.rule, first.by.name()),
                rule: first.rule.to_owned(),
                hint: Some(
                    "run without `--require-hard`, or where control groups can be written: `ringfence doctor`".into(),
                ),
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
        Ok(refused(&session, refusal))
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

    async fn record(&self, session: &Session, kind: Kind) -> Result<(), RunError> {
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
        for violation in &execution.violations {
            let kind = Kind::Violation {
                what: Text::clean(&violation.kind),
                detail: Text::clean(&violation.detail),
                rule: Text::clean(&violation.rule),
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
        let kind = Kind::ExecutionEnded {
            status: execution.status,
            exit_code: Some(execution.exit_code),
            error: execution.error.as_ref().map(|error| Text::clean(&error.code)),
            usage: execution.usage,
            policy: session.policy_ref.digest.clone(),
            truncated: execution.truncated,
            output,
        };
        self.record(session, kind).await
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

fn started(session: &Session, request: &RunCode) -> Kind {
    let (language, program, code) = match &request.program {
        Program::Code {
            language,
            file_name,
            source,
        } => {
            let name = match language {
                Language::TypeScript => "typescript",
                Language::JavaScript => "javascript",
                Language::Python => "python",
                Language::Program => "program",
            };
            (name, file_name, source.clone())
        }
        Program::Shell { file_name, source } => ("shell", file_name, source.clone()),
        Program::Named(name) => (
            "program",
            name,
            [std::slice::from_ref(name), &request.args].concat().join("\0"),
        ),
    };
    let limits = session.policy.limits();
    let milliseconds = |duration: std::time::Duration| u64::try_from(duration.as_millis()).ok();
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    Kind::ExecutionStarted {
        language: Text::clean(language),
        program: Some(Text::clean(program)),
        code: Hash::of(code.as_bytes()),
        bytes: code.len() as u64,
        files: request
            .files
            .iter()
            .map(|file| FileIn {
                path: Text::clean(file.name.as_str()),
                bytes: bytes(&file.from),
            })
            .collect(),
        limits: Limits {
            wall_ms: milliseconds(limits.wall),
            cpu_ms: milliseconds(limits.cpu_time),
            memory_bytes: Some(limits.memory.get()),
            processes: Some(u64::from(limits.processes)),
            open_files: Some(u64::from(limits.open_files)),
            disk_bytes: None,
            output_bytes: Some(limits.output.get()),
        },
    }
}

fn task_kind(program: &Program) -> TaskKind {
    match program.clone() {
        Program::Code {
            language,
            file_name,
            source,
        } => TaskKind::Code {
            language,
            file_name,
            source,
        },
        Program::Shell { file_name, source } => TaskKind::Shell { file_name, source },
        Program::Named(program) => TaskKind::Program { program },
    }
}

fn enforcement(held: &ringfence_sandbox::Enforced) -> Enforcement {
    let by = match held.by {
        Mechanism::Cgroup => By::Cgroup,
        Mechanism::Rlimit => By::Rlimit,
        Mechanism::Namespace => By::Namespace,
        Mechanism::Seccomp => By::Seccomp,
        Mechanism::Landlock => By::Landlock,
        Mechanism::Quota => By::Quota,
        Mechanism::Watch => By::Watch,
    };
    Enforcement {
        rule: Text::clean(held.rule),
        by,
    }
}

/// A host folder that cannot be shown is a matter of the policy that names it.
fn cannot_place(error: &SpecError) -> Refusal {
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    let (rule, hint) = match error {
        SpecError::Python { .. } => (
            "runtimes.python",
            "point `runtimes.python` at an interpreter that exists",
        ),
        SpecError::NoFolder { .. } => ("fs.mounts.quota", "use a quota of at most 256MiB"),
        SpecError::From { .. } | SpecError::Scan(_) => (
            "fs.mounts.from",
            "name a folder that exists and that the sandbox's user may read, or hide the file by `fs.deny`",
        ),
    };
    let message = format!("{error}{cause}");
    Refusal {
        code: "policy.mount",
        message,
        rule: rule.to_owned(),
        hint: Some(hint.to_owned()),
    }
}

fn refused(session: &Session, refusal: Refusal) -> Execution {
    const REFUSED: i32 = 126;
    let error = ErrorReport {
        code: refusal.code.to_owned(),
        message: refusal.message,
        hint: refusal.hint,
        rule: Some(refusal.rule),
    };
    let judged = Judged {
        status: ringfence_journal::Status::Refused,
        exit_code: REFUSED,
        error: Some(error),
        diagnostics: Vec::new(),
    };
    assemble(session, judged)
}

fn assemble(session: &Session, judged: Judged) -> Execution {
    Execution {
        execution_id: session.execution,
        session_id: session.id,
        status: judged.status,
        exit_code: judged.exit_code,
        value: None,
        stdout: String::new(),
        stderr: String::new(),
        error: judged.error,
        diagnostics: judged.diagnostics,
        calls: Vec::new(),
        files: Vec::new(),
        violations: Vec::new(),
        truncated: Truncated::default(),
        usage: Usage::default(),
        tokens: None,
        enforcement: session.enforcement.clone(),
        policy: session.policy_ref.clone(),
    }
}

fn result(session: &Session, ended: &Ended, collected: &Collected, output: (Vec<u8>, Vec<u8>)) -> Execution {
    let mut judged = outcome::judge(ended);
    let has_value = ended.outcome.as_ref().is_some_and(|outcome| outcome.has_value);
    let value = has_value.then(|| serde_json::from_slice::<Box<RawValue>>(&ended.value));
    if let Some(Err(_)) = &value {
        judged = outcome::not_json();
    }
    let (stdout, stderr) = (output.0.len() as u64, output.1.len() as u64);
    let truncated = Truncated {
        stdout: ended.written.0 > stdout,
        stderr: ended.written.1 > stderr,
        value: false,
    };
    let milliseconds = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut violations: Vec<ViolationReport> = ended
        .violations
        .iter()
        .map(|one| ViolationReport {
            kind: one.kind.to_owned(),
            detail: one.detail.clone(),
            rule: one.rule.to_owned(),
        })
        .collect();
    if ended.more_violations > 0 {
        violations.push(ViolationReport {
            kind: "syscall".to_owned(),
            detail: format!("{} more", ended.more_violations),
            rule: "proc.syscalls".to_owned(),
        });
    }
    Execution {
        value: value.and_then(Result::ok),
        stdout: String::from_utf8_lossy(&output.0).into_owned(),
        stderr: String::from_utf8_lossy(&output.1).into_owned(),
        files: collected.files.iter().map(file_report).collect(),
        violations,
        truncated,
        usage: Usage {
            wall_ms: milliseconds(ended.usage.wall),
            cpu_ms: milliseconds(ended.usage.cpu),
            peak_memory_bytes: ended.usage.peak_memory,
            calls: 0,
            egress_bytes: 0,
        },
        ..assemble(session, judged)
    }
}

fn file_report(file: &ringfence_sandbox::FoundFile) -> FileReport {
    let change = match file.change {
        Change::Created => "created",
        Change::Changed => "changed",
    };
    FileReport {
        path: file.path.as_str().to_owned(),
        bytes: file.bytes,
        sha256: file.sha256.clone(),
        change,
    }
}
