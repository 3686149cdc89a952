//! Checks programs against the stubs they use, before they run.
//!
//! A checker reads what a program names, so it is as untrusted as the program. It runs in a sandbox of its own, one per
//! language and principal, that holds only the stubs, the checker's own libraries and the program's text. A missing or
//! broken checker blocks no program.
//!
//! This crate does not know tools, sessions or storage.
#![forbid(unsafe_code)]

mod checker_sandbox;
mod diagnostics;
mod frames;
mod resident;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::RelPath;
use ringfence_sandbox::{Backend, BackendLaunchError, JobLanguage};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

pub use checker_sandbox::CheckerSandboxError;
use diagnostics::DiagnosticReport;
use resident::ResidentChecker;
pub use tools::{CheckerTools, InstallAdvice};

/// How long to wait for an answer of a running checker.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a checker may take to start, read its libraries and give its first answer.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The delay after the second failure in a row; each further failure doubles it, up to the maximum below.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_mins(1);
/// The most text, in bytes, of a program and its stubs; beyond it the program is not checked.
const MAX_TEXT_BYTES: usize = 6 << 20;
/// The most bytes of all stub names together: they travel as arguments of the checker's start script.
const MAX_NAME_BYTES: usize = 32 << 10;

/// Why a program was not checked; it runs all the same.
#[derive(Debug, thiserror::Error)]
pub enum TypeCheckError {
    /// No checker is configured or found for this language.
    #[error("there is no type checker for this language")]
    Absent,
    /// The checker failed before and is not tried again yet.
    #[error("the type checker failed and rests for {} s", .left.as_secs() + 1)]
    BackingOff {
        /// The time until the checker is tried again.
        left: Duration,
    },
    /// The checker's program, its libraries or its policy cannot be used.
    #[error(transparent)]
    Sandbox(#[from] CheckerSandboxError),
    /// The sandbox of the checker cannot be launched.
    #[error(transparent)]
    Launch(#[from] BackendLaunchError),
    /// The checker did not answer in time.
    #[error("the type checker gave no answer within {} s", .after.as_secs())]
    TimedOut {
        /// How long the check waited for the answer.
        after: Duration,
    },
    /// The checker ended, or it broke the protocol.
    #[error("the type checker ended")]
    Ended,
    /// The answer is not a diagnostic report.
    #[error("the type checker gave an answer that is none")]
    Answer,
    /// A stub has a path that cannot be used as a file name.
    #[error("`{path}` cannot be the name of a stub")]
    Stub {
        /// The path of the stub as the caller gave it.
        path: String,
    },
    /// The program and its stubs exceed the limits on text or names.
    #[error("the program and its stubs are too long to be checked")]
    TooLong,
}

impl TypeCheckError {
    /// Whether the error is a failure of the checker itself, which delays the next attempt.
    fn counts_as_failure(&self) -> bool {
        match self {
            TypeCheckError::Sandbox(_)
            | TypeCheckError::Launch(_)
            | TypeCheckError::TimedOut { .. }
            | TypeCheckError::Ended
            | TypeCheckError::Answer => true,
            TypeCheckError::Absent
            | TypeCheckError::BackingOff { .. }
            | TypeCheckError::Stub { .. }
            | TypeCheckError::TooLong => false,
        }
    }
}

/// A position in the source and the error at that position.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TypeErrorLocation {
    /// The file name that the caller gave for the program.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The column, counted in characters from 1.
    pub column: u32,
    /// The checker's code for the error, such as `TS2322` or a rule of ty; `error` where it gave none.
    pub code: String,
    /// The message of the checker, without control characters and cut to a maximum length.
    pub message: String,
}

/// The checkers that exist, one per checked language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckerKind {
    TypeScript,
    Python,
}

impl CheckerKind {
    fn name(self) -> &'static str {
        match self {
            CheckerKind::TypeScript => "typescript",
            CheckerKind::Python => "python",
        }
    }

    fn document(self) -> &'static str {
        match self {
            CheckerKind::TypeScript => "program.ts",
            CheckerKind::Python => "program.py",
        }
    }
}

/// The checkers of one principal; each starts with the first program that needs it.
#[derive(Debug)]
pub struct TypeCheck {
    backend: Arc<Backend>,
    typescript: Option<Mutex<CheckerSlot>>,
    python: Option<Mutex<CheckerSlot>>,
}

/// The state of one checker, running or not; a lock around it serialises the requests.
#[derive(Debug)]
struct CheckerSlot {
    kind: CheckerKind,
    program: PathBuf,
    resident: Option<ResidentChecker>,
    failures: u32,
    not_before: Option<Instant>,
}

impl TypeCheck {
    /// Creates the checkers of one principal from `tools`, without starting any.
    pub fn new(backend: Arc<Backend>, tools: CheckerTools) -> TypeCheck {
        let seat = |kind, program: Option<PathBuf>| program.map(|program| Mutex::new(CheckerSlot::new(kind, program)));
        TypeCheck {
            backend,
            typescript: seat(CheckerKind::TypeScript, tools.tsc),
            python: seat(CheckerKind::Python, tools.ty),
        }
    }

    /// Whether programs of `language` are checked.
    pub fn covers(&self, language: JobLanguage) -> bool {
        self.slot(language).is_some()
    }

    fn slot(&self, language: JobLanguage) -> Option<&Mutex<CheckerSlot>> {
        match language {
            JobLanguage::TypeScript => self.typescript.as_ref(),
            JobLanguage::Python => self.python.as_ref(),
            JobLanguage::JavaScript | JobLanguage::Program => None,
        }
    }

    /// Returns the errors of a program against `stubs`, each a relative path and a text; the errors name the program
    /// `file_name`.
    pub async fn check_program(
        &self,
        language: JobLanguage,
        file_name: &str,
        source: &str,
        stubs: &[(String, String)],
    ) -> Result<Vec<TypeErrorLocation>, TypeCheckError> {
        let seat = self.slot(language).ok_or(TypeCheckError::Absent)?;
        let mut seat = seat.lock().await;
        let files = checker_files(seat.kind, source, stubs)?;
        let report = seat.check(&self.backend, &files).await?;
        Ok(report.errors(seat.kind, file_name, source))
    }

    /// Starts the checker of `language` before the first program needs it.
    pub async fn warm(&self, language: JobLanguage, stubs: &[(String, String)]) -> Result<(), TypeCheckError> {
        self.check_program(language, "", "", stubs).await.map(drop)
    }

    /// Ends the checkers and waits until their sandboxes are removed.
    pub async fn end(&self) {
        for seat in [&self.typescript, &self.python].into_iter().flatten() {
            let resident = seat.lock().await.resident.take();
            if let Some(resident) = resident {
                resident.end().await;
            }
        }
    }
}

impl CheckerSlot {
    fn new(kind: CheckerKind, program: PathBuf) -> CheckerSlot {
        CheckerSlot {
            kind,
            program,
            resident: None,
            failures: 0,
            not_before: None,
        }
    }

    async fn check(
        &mut self,
        backend: &Backend,
        files: &BTreeMap<String, String>,
    ) -> Result<DiagnosticReport, TypeCheckError> {
        if let Some(left) = self
            .not_before
            .and_then(|end| end.checked_duration_since(Instant::now()))
            && !left.is_zero()
        {
            return Err(TypeCheckError::BackingOff { left });
        }
        let result = self.try_check(backend, files).await;
        match &result {
            Ok(_) => {
                self.failures = 0;
                self.not_before = None;
            }
            Err(error) if error.counts_as_failure() => {
                if let Some(resident) = self.resident.take() {
                    // The caller does not wait for the end of the sandbox.
                    tokio::spawn(resident.end());
                }
                self.not_before = retry_delay(self.failures).map(|rest| Instant::now() + rest);
                self.failures = self.failures.saturating_add(1);
            }
            Err(_) => {}
        }
        result
    }

    async fn try_check(
        &mut self,
        backend: &Backend,
        files: &BTreeMap<String, String>,
    ) -> Result<DiagnosticReport, TypeCheckError> {
        let names = files_on_disk(self.kind, files);
        let mut patience = ANSWER_TIMEOUT;
        let mut resident = match self.resident.take() {
            Some(resident) if resident.serves(&names) => resident,
            former => {
                patience = START_TIMEOUT;
                let names = names_to_keep(names, former.as_ref());
                if let Some(former) = former {
                    tokio::spawn(former.end());
                }
                let start = ResidentChecker::start(backend, self.kind, &self.program, names);
                let slow = |_| TypeCheckError::TimedOut { after: patience };
                timeout(patience, start).await.map_err(slow)??
            }
        };
        let document = self.kind.document();
        let ask = async {
            resident.sync_files(files).await?;
            resident.diagnostics(document).await
        };
        let answer = timeout(patience, ask).await;
        self.resident = Some(resident);
        let answer = answer.map_err(|_| TypeCheckError::TimedOut { after: patience })??;
        serde_json::from_str(answer.get()).map_err(|_| TypeCheckError::Answer)
    }
}

/// The delay before the next attempt, after `failures` earlier failures in a row; `None` after the first failure.
fn retry_delay(failures: u32) -> Option<Duration> {
    let doubled = FIRST_RETRY_DELAY.saturating_mul(1 << failures.checked_sub(1)?.min(16));
    Some(doubled.min(MAX_RETRY_DELAY))
}

/// The files that the checker sees: the program, its stubs, and for TypeScript an index that references the stubs.
fn checker_files(
    kind: CheckerKind,
    source: &str,
    stubs: &[(String, String)],
) -> Result<BTreeMap<String, String>, TypeCheckError> {
    let all = stubs
        .iter()
        .map(|(_, text)| text.len())
        .sum::<usize>()
        .saturating_add(source.len());
    let names: usize = stubs.iter().map(|(path, _)| path.len() + 1).sum();
    if all > MAX_TEXT_BYTES || names > MAX_NAME_BYTES {
        return Err(TypeCheckError::TooLong);
    }
    let mut files = BTreeMap::from([(kind.document().to_owned(), source.to_owned())]);
    let mut index = String::new();
    for (path, text) in stubs {
        check_name(kind, path)?;
        let name = match kind {
            CheckerKind::TypeScript => {
                let _ = writeln!(index, "/// <reference path=\"./stubs/{path}\" />");
                format!("stubs/{path}")
            }
            CheckerKind::Python => path.clone(),
        };
        files.insert(name, text.clone());
    }
    if kind == CheckerKind::TypeScript {
        files.insert("index.d.ts".to_owned(), index);
    }
    Ok(files)
}

fn check_name(kind: CheckerKind, path: &str) -> Result<(), TypeCheckError> {
    let ending = match kind {
        CheckerKind::TypeScript => ".d.ts",
        CheckerKind::Python => ".pyi",
    };
    let plain = |one: char| one.is_alphanumeric() || "_-./".contains(one);
    let fits = path.parse::<RelPath>().is_ok() && path.chars().all(plain) && path.ends_with(ending);
    // Some program could read a leading dash as an option.
    if fits && !path.starts_with('-') {
        Ok(())
    } else {
        Err(TypeCheckError::Stub { path: path.to_owned() })
    }
}

/// The files that must exist when the checker starts: ty looks for modules on disk, the compiler opens files by name.
fn files_on_disk(kind: CheckerKind, files: &BTreeMap<String, String>) -> BTreeSet<String> {
    match kind {
        CheckerKind::TypeScript => BTreeSet::new(),
        CheckerKind::Python => files.keys().cloned().collect(),
    }
}

/// Keeps names from the former checker while they fit, so that two alternating sets of stubs do not restart it each time.
fn names_to_keep(names: BTreeSet<String>, former: Option<&ResidentChecker>) -> BTreeSet<String> {
    let mut room = MAX_NAME_BYTES.saturating_sub(names.iter().map(|name| name.len() + 1).sum());
    let mut all = names;
    for name in former.into_iter().flat_map(ResidentChecker::on_disk) {
        if !all.contains(name) && room > name.len() {
            room -= name.len() + 1;
            all.insert(name.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests;
