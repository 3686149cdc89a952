//! Programs checked against the stubs they use, before they run.
//!
//! A checker reads what a program names: it is a guest like the program, in a sandbox of its own, one per language and
//! principal, and is given nothing but stubs, its own libraries and the program's text. Absent or broken, it holds nothing up.
//!
//! This crate does not know tools, sessions or storage.
#![forbid(unsafe_code)]

mod found;
mod frames;
mod place;
mod resident;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::RelPath;
use ringfence_sandbox::{Language, LaunchError, Native};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use found::Report;
pub use place::PlaceError;
use resident::Resident;
pub use tools::{Advice, Tools};

/// How long an answer of a checker that stands is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a checker may take to start and read its libraries.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// After a second failure in a row it rests for so long, then twice that, and so on.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_mins(1);
/// More text than this is not checked.
const MOST_TEXT: usize = 6 << 20;
/// The names of stubs, all together: they travel as arguments.
const MOST_NAMES: usize = 32 << 10;

/// Why a program was not checked. It runs all the same.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// There is no checker for this language.
    #[error("there is no type checker for this language")]
    Absent,
    /// It failed before and is not tried again yet.
    #[error("the type checker failed and rests for {} s", .left.as_secs() + 1)]
    Rests {
        /// For how much longer.
        left: Duration,
    },
    /// Its policy or the files it needs.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Its sandbox.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// It did not answer in time.
    #[error("the type checker gave no answer within {} s", .after.as_secs())]
    Slow {
        /// How long it was waited for.
        after: Duration,
    },
    /// It ended, or said what it must not.
    #[error("the type checker ended")]
    Ended,
    /// It answered something else.
    #[error("the type checker gave an answer that is none")]
    Answer,
    /// A stub whose name cannot be a file's.
    #[error("`{path}` cannot be the name of a stub")]
    Stub {
        /// The name.
        path: String,
    },
    /// There is too much to check.
    #[error("the program and its stubs are too long to be checked")]
    TooLong,
}

impl CheckError {
    /// Whether the checker itself is at fault.
    fn counts(&self) -> bool {
        match self {
            CheckError::Place(_)
            | CheckError::Launch(_)
            | CheckError::Slow { .. }
            | CheckError::Ended
            | CheckError::Answer => true,
            CheckError::Absent | CheckError::Rests { .. } | CheckError::Stub { .. } | CheckError::TooLong => false,
        }
    }
}

/// A place in the source and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Location {
    /// The file.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
    /// A stable code.
    pub code: String,
    /// A sentence.
    pub message: String,
}

/// The kinds of checkers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    TypeScript,
    Python,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::TypeScript => "typescript",
            Kind::Python => "python",
        }
    }

    fn document(self) -> &'static str {
        match self {
            Kind::TypeScript => "program.ts",
            Kind::Python => "program.py",
        }
    }
}

/// The checkers of one principal. Nothing is started before the first program comes.
#[derive(Debug)]
pub struct TypeCheck {
    native: Arc<Native>,
    typescript: Option<Mutex<Seat>>,
    python: Option<Mutex<Seat>>,
}

/// Where a checker sits, or will. Questions take turns.
#[derive(Debug)]
struct Seat {
    kind: Kind,
    program: PathBuf,
    resident: Option<Resident>,
    failures: u32,
    not_before: Option<Instant>,
}

impl TypeCheck {
    /// Checkers for one principal alone, made of `tools`.
    pub fn new(native: Arc<Native>, tools: Tools) -> TypeCheck {
        let seat = |kind, program: Option<PathBuf>| program.map(|program| Mutex::new(Seat::new(kind, program)));
        TypeCheck {
            native,
            typescript: seat(Kind::TypeScript, tools.tsc),
            python: seat(Kind::Python, tools.ty),
        }
    }

    /// Whether programs of `language` are checked.
    pub fn covers(&self, language: Language) -> bool {
        self.seat(language).is_some()
    }

    fn seat(&self, language: Language) -> Option<&Mutex<Seat>> {
        match language {
            Language::TypeScript => self.typescript.as_ref(),
            Language::Python => self.python.as_ref(),
            Language::JavaScript | Language::Program => None,
        }
    }

    /// The errors of a program against `stubs` (a relative path and a text each); `file_name` is what they call it.
    pub async fn program(
        &self,
        language: Language,
        file_name: &str,
        source: &str,
        stubs: &[(String, String)],
    ) -> Result<Vec<Location>, CheckError> {
        let seat = self.seat(language).ok_or(CheckError::Absent)?;
        let mut seat = seat.lock().await;
        let files = files(seat.kind, source, stubs)?;
        let report = seat.check(&self.native, &files).await?;
        Ok(report.errors(seat.kind, file_name, source))
    }

    /// Starts the checker of `language` ahead of the first program.
    pub async fn warm(&self, language: Language, stubs: &[(String, String)]) -> Result<(), CheckError> {
        self.program(language, "", "", stubs).await.map(drop)
    }

    /// Ends the checkers and waits until nothing of them is left.
    pub async fn end(&self) {
        for seat in [&self.typescript, &self.python].into_iter().flatten() {
            let resident = seat.lock().await.resident.take();
            if let Some(resident) = resident {
                resident.end().await;
            }
        }
    }
}

impl Seat {
    fn new(kind: Kind, program: PathBuf) -> Seat {
        Seat {
            kind,
            program,
            resident: None,
            failures: 0,
            not_before: None,
        }
    }

    async fn check(&mut self, native: &Native, files: &BTreeMap<String, String>) -> Result<Report, CheckError> {
        if let Some(left) = self
            .not_before
            .and_then(|end| end.checked_duration_since(Instant::now()))
            && !left.is_zero()
        {
            return Err(CheckError::Rests { left });
        }
        let result = self.try_check(native, files).await;
        match &result {
            Ok(_) => {
                self.failures = 0;
                self.not_before = None;
            }
            Err(error) if error.counts() => {
                if let Some(resident) = self.resident.take() {
                    // Its end is nobody's concern who waits for an answer.
                    tokio::spawn(resident.end());
                }
                self.not_before = rest(self.failures).map(|rest| Instant::now() + rest);
                self.failures = self.failures.saturating_add(1);
            }
            Err(_) => {}
        }
        result
    }

    async fn try_check(&mut self, native: &Native, files: &BTreeMap<String, String>) -> Result<Report, CheckError> {
        let names = on_disk(self.kind, files);
        let mut patience = PATIENCE;
        let mut resident = match self.resident.take() {
            Some(resident) if resident.serves(&names) => resident,
            former => {
                patience = START_PATIENCE;
                let names = names_to_keep(names, former.as_ref());
                if let Some(former) = former {
                    tokio::spawn(former.end());
                }
                let start = Resident::start(native, self.kind, &self.program, names);
                let slow = |_| CheckError::Slow { after: patience };
                timeout(patience, start).await.map_err(slow)??
            }
        };
        let document = self.kind.document();
        let ask = async {
            resident.show(files).await?;
            resident.diagnostics(document).await
        };
        let answer = timeout(patience, ask).await;
        self.resident = Some(resident);
        let answer = answer.map_err(|_| CheckError::Slow { after: patience })??;
        serde_json::from_str(answer.get()).map_err(|_| CheckError::Answer)
    }
}

/// How long a checker rests that had failed so many times before.
fn rest(failures: u32) -> Option<Duration> {
    let doubled = FIRST_REST.saturating_mul(1 << failures.checked_sub(1)?.min(16));
    Some(doubled.min(LONGEST_REST))
}

/// What the checker is to see: the program, its stubs, and what makes it look at them.
fn files(kind: Kind, source: &str, stubs: &[(String, String)]) -> Result<BTreeMap<String, String>, CheckError> {
    let all = stubs
        .iter()
        .map(|(_, text)| text.len())
        .sum::<usize>()
        .saturating_add(source.len());
    let names: usize = stubs.iter().map(|(path, _)| path.len() + 1).sum();
    if all > MOST_TEXT || names > MOST_NAMES {
        return Err(CheckError::TooLong);
    }
    let mut files = BTreeMap::from([(kind.document().to_owned(), source.to_owned())]);
    let mut index = String::new();
    for (path, text) in stubs {
        check_name(kind, path)?;
        let name = match kind {
            Kind::TypeScript => {
                let _ = writeln!(index, "/// <reference path=\"./stubs/{path}\" />");
                format!("stubs/{path}")
            }
            Kind::Python => path.clone(),
        };
        files.insert(name, text.clone());
    }
    if kind == Kind::TypeScript {
        files.insert("index.d.ts".to_owned(), index);
    }
    Ok(files)
}

fn check_name(kind: Kind, path: &str) -> Result<(), CheckError> {
    let ending = match kind {
        Kind::TypeScript => ".d.ts",
        Kind::Python => ".pyi",
    };
    let plain = |one: char| one.is_alphanumeric() || "_-./".contains(one);
    let fits = path.parse::<RelPath>().is_ok() && path.chars().all(plain) && path.ends_with(ending);
    // A leading dash would be an option to somebody.
    if fits && !path.starts_with('-') {
        Ok(())
    } else {
        Err(CheckError::Stub { path: path.to_owned() })
    }
}

/// The files that must be there when the checker starts: ty looks for modules on disk, the compiler asks for files by name.
fn on_disk(kind: Kind, files: &BTreeMap<String, String>) -> BTreeSet<String> {
    match kind {
        Kind::TypeScript => BTreeSet::new(),
        Kind::Python => files.keys().cloned().collect(),
    }
}

/// Names that were known before are kept while there is room, so that two kinds of programs do not start it in turns.
fn names_to_keep(names: BTreeSet<String>, former: Option<&Resident>) -> BTreeSet<String> {
    let mut room = MOST_NAMES.saturating_sub(names.iter().map(|name| name.len() + 1).sum());
    let mut all = names;
    for name in former.into_iter().flat_map(Resident::on_disk) {
        if !all.contains(name) && room > name.len() {
            room -= name.len() + 1;
            all.insert(name.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests;
