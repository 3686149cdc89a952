//! Helpers that make sandboxes and run tasks in them.

use std::sync::Arc;

use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_sandbox::{Ended, Language, Native, Options, Output, Sandbox, Spec, Stop, Task, TaskKind, Words};

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ended: Ended,
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

impl Words for Kept {
    fn take(&mut self, output: Output, bytes: &[u8]) {
        match output {
            Output::Stdout => self.stdout.extend_from_slice(bytes),
            Output::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }
}

pub(crate) fn policy(settings: &[(&str, &str)]) -> Policy {
    let draft = settings
        .iter()
        .fold(Draft::builtin(), |draft, (key, value)| draft.set(key, value).unwrap());
    draft.under(&Ceiling::own_word()).unwrap()
}

pub(crate) fn spec(settings: &[(&str, &str)]) -> Arc<Spec> {
    Arc::new(Spec::new(&policy(settings), &Options::default()).unwrap())
}

pub(crate) fn native() -> Native {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Native::new(&format!("ringfence-test-{}-{number}", std::process::id())).unwrap()
}

pub(crate) async fn run_in(sandbox: &mut Sandbox, task: Task) -> Ran {
    let (_switch, stop) = Stop::new();
    follow(sandbox, task, stop).await
}

/// Runs `task` in a new sandbox until it ends or is stopped.
pub(crate) async fn run_until(task: Task, settings: &[(&str, &str)], stop: Stop) -> Ran {
    let native = native();
    let mut sandbox = native.launch(&spec(settings)).await.unwrap();
    let ran = follow(&mut sandbox, task, stop).await;
    sandbox.end().await.unwrap();
    ran
}

async fn follow(sandbox: &mut Sandbox, task: Task, mut stop: Stop) -> Ran {
    let mut kept = Kept::default();
    let ended = sandbox.run(task, &mut kept, &mut stop).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran {
        ended,
        stdout: text(kept.stdout),
        stderr: text(kept.stderr),
    }
}

pub(crate) async fn run(task: Task, settings: &[(&str, &str)]) -> Ran {
    let native = native();
    let mut sandbox = native.launch(&spec(settings)).await.unwrap();
    let ran = run_in(&mut sandbox, task).await;
    sandbox.end().await.unwrap();
    ran
}

pub(crate) fn code(language: Language, source: &str) -> Task {
    let file_name = match language {
        Language::Python => "main.py",
        Language::JavaScript => "main.js",
        Language::TypeScript | Language::Program => "main.ts",
    };
    let kind = TaskKind::Code {
        language,
        file_name: file_name.to_owned(),
        source: source.to_owned(),
    };
    Task {
        kind,
        args: Vec::new(),
        stdin: None,
        door: None,
        wall: None,
        network: None,
        again: None,
    }
}

pub(crate) fn shell(source: &str) -> Task {
    Task {
        kind: TaskKind::Shell {
            file_name: "script".to_owned(),
            source: source.to_owned(),
        },
        args: Vec::new(),
        stdin: None,
        door: None,
        wall: None,
        network: None,
        again: None,
    }
}

pub(crate) fn program(argv: &[&str]) -> Task {
    let (program, rest) = argv.split_first().unwrap();
    Task {
        kind: TaskKind::Program {
            program: (*program).to_owned(),
        },
        args: rest.iter().map(|one| (*one).to_owned()).collect(),
        stdin: None,
        door: None,
        wall: None,
        network: None,
        again: None,
    }
}
