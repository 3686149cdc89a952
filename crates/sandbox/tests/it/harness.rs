//! Helpers that make sandboxes and run tasks in them.

use std::sync::Arc;

use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_sandbox::{
    Backend, BackendKind, ConcludedExecution, ExecutionTask, JobLanguage, OutputSink, Sandbox, Spec, SpecOptions,
    StandardStream, Stop, TaskKind,
};

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ended: ConcludedExecution,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn value(&self) -> &str {
        std::str::from_utf8(&self.ended.value).unwrap()
    }
}

#[derive(Default)]
pub(crate) struct Kept {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl OutputSink for Kept {
    fn on_output(&mut self, output: StandardStream, bytes: &[u8]) {
        match output {
            StandardStream::Stdout => self.stdout.extend_from_slice(bytes),
            StandardStream::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }
}

pub(crate) fn policy(settings: &[(&str, &str)]) -> Policy {
    let draft = settings
        .iter()
        .fold(Draft::builtin(), |draft, (key, value)| draft.set(key, value).unwrap());
    draft.under(&Ceiling::unlimited()).unwrap()
}

pub(crate) fn spec(settings: &[(&str, &str)]) -> Arc<Spec> {
    Arc::new(Spec::new(&policy(settings), &SpecOptions::default()).unwrap())
}

/// The name of a backend in `RINGFENCE_TEST_BACKEND` that only tests have.
const TEST_PROCESS: &str = "test-process";

/// The kind of backend that the tests of every backend run with.
fn tested_kind() -> BackendKind {
    match std::env::var_os("RINGFENCE_TEST_BACKEND") {
        None => BackendKind::default(),
        Some(name) if name == TEST_PROCESS => BackendKind::TestProcess,
        Some(name) => BackendKind::from_name(name.to_str().unwrap()).unwrap(),
    }
}

/// A backend of the tested kind.
pub(crate) fn backend() -> Backend {
    backend_of(tested_kind())
}

/// A backend of this kind, with a name of its own.
pub(crate) fn backend_of(kind: BackendKind) -> Backend {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Backend::new(kind, &format!("ringfence-test-{}-{number}", std::process::id())).unwrap()
}

pub(crate) async fn run_in(sandbox: &mut Sandbox, task: ExecutionTask) -> Ran {
    let (_switch, stop) = Stop::new();
    follow(sandbox, task, stop).await
}

/// Runs `task` in a new sandbox until it ends or is stopped.
pub(crate) async fn run_until(task: ExecutionTask, settings: &[(&str, &str)], stop: Stop) -> Ran {
    let backend = backend();
    let mut sandbox = backend.launch(&spec(settings)).await.unwrap();
    let ran = follow(&mut sandbox, task, stop).await;
    sandbox.end().await.unwrap();
    ran
}

async fn follow(sandbox: &mut Sandbox, task: ExecutionTask, mut stop: Stop) -> Ran {
    let mut kept = Kept::default();
    let ended = sandbox.run(task, &mut kept, &mut stop).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran {
        ended,
        stdout: text(kept.stdout),
        stderr: text(kept.stderr),
    }
}

pub(crate) async fn run(task: ExecutionTask, settings: &[(&str, &str)]) -> Ran {
    run_on(&backend(), task, settings).await
}

/// Runs `task` in a new sandbox of `backend`.
pub(crate) async fn run_on(backend: &Backend, task: ExecutionTask, settings: &[(&str, &str)]) -> Ran {
    let mut sandbox = backend.launch(&spec(settings)).await.unwrap();
    let ran = run_in(&mut sandbox, task).await;
    sandbox.end().await.unwrap();
    ran
}

pub(crate) fn code(language: JobLanguage, source: &str) -> ExecutionTask {
    let file_name = match language {
        JobLanguage::Python => "main.py",
        JobLanguage::JavaScript => "main.js",
        JobLanguage::TypeScript | JobLanguage::Program => "main.ts",
    };
    let kind = TaskKind::Code {
        language,
        file_name: file_name.to_owned(),
        source: source.to_owned(),
    };
    ExecutionTask {
        kind,
        args: Vec::new(),
        stdin: None,
        call_port: None,
        wall: None,
        network: None,
        replay: None,
    }
}

pub(crate) fn shell(source: &str) -> ExecutionTask {
    ExecutionTask {
        kind: TaskKind::Shell {
            file_name: "script".to_owned(),
            source: source.to_owned(),
        },
        args: Vec::new(),
        stdin: None,
        call_port: None,
        wall: None,
        network: None,
        replay: None,
    }
}

pub(crate) fn program(argv: &[&str]) -> ExecutionTask {
    let (program, rest) = argv.split_first().unwrap();
    ExecutionTask {
        kind: TaskKind::Program {
            program: (*program).to_owned(),
        },
        args: rest.iter().map(|one| (*one).to_owned()).collect(),
        stdin: None,
        call_port: None,
        wall: None,
        network: None,
        replay: None,
    }
}
