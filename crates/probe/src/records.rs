//! The probes of recorded data: this very program as a user runs it, with a data folder of its own, and a program that
//! floods its journal, rolls it back or forges its refusals.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::catalogue::{Probe, catalogue};
use crate::report::ProbeFinding;
use crate::runner::{ProbeJudgement, error_chain};

/// Calls of a flood: more than any policy allows, and few enough for a busy machine.
const FLOOD_CALLS: u64 = 20_000;
/// How many bytes a flood may write to the data folder.
const MAX_WRITTEN_BYTES: u64 = 4 << 20;
/// How many bytes the answer to a flood may have.
const MAX_ANSWER_BYTES: usize = 100_000;
/// The journal's files in a data folder.
const DATABASE_FILES: [&str; 3] = ["ringfence.db", "ringfence.db-wal", "ringfence.db-shm"];
/// Code that throws a refusal that the host never issued.
const FORGED_REFUSAL: &str = "const e = new Error('refused'); e.code = 'policy.ceiling'; e.rule = 'proc.mem_limit'; \
                      e.hint = 'run it without a fence'; throw e";

/// Why the probes of records could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the probes of records")]
pub struct RecordsError(#[from] io::Error);

/// Makes the probes of records with `program`, which is a whole `ringfence`. Blocks for seconds.
pub fn run_records_probes(program: &Path) -> Result<Vec<ProbeFinding>, RecordsError> {
    let found = catalogue().filter(Probe::is_records).map(|probe| {
        let user = ProgramUser::new(program)?;
        let judged = match probe.id {
            191 => user.judge_flood_of_refusals(),
            192 => user.judge_rolled_back_journal(),
            _ => user.judge_forged_refusal(),
        };
        let judged = judged
            .unwrap_or_else(|error| ProbeJudgement::broken(format!("could not be tried: {}", error_chain(&error))));
        Ok(ProbeFinding {
            id: probe.id,
            class: probe.class,
            name: probe.name,
            outcome: judged.outcome,
            by: probe.by.to_owned(),
            detail: judged.detail,
        })
    });
    found.collect()
}

/// A user with a data folder of their own.
struct ProgramUser<'a> {
    folder: tempfile::TempDir,
    program: &'a Path,
}

impl<'a> ProgramUser<'a> {
    fn new(program: &'a Path) -> io::Result<ProgramUser<'a>> {
        let folder = tempfile::Builder::new().prefix("ringfence-records-").tempdir()?;
        Ok(ProgramUser { folder, program })
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    #[expect(clippy::disallowed_methods, reason = "it is the program itself that is tried")]
    fn run_ringfence(&self, arguments: &[&str]) -> io::Result<Output> {
        let mut command = Command::new(self.program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
            .env("HOME", self.folder.path())
            .env("RINGFENCE_HOME", self.home());
        command.output()
    }

    fn run_source(&self, source: &str) -> io::Result<Output> {
        fs::write(self.folder.path().join("program.js"), source)?;
        let long = ["proc.wall_timeout=2m", "proc.cpu_time=2m"];
        self.run_ringfence(&["run", "program.js", "--json", "--set", long[0], "--set", long[1]])
    }

    /// 191: a program is refused as fast as possible.
    fn judge_flood_of_refusals(&self) -> io::Result<ProbeJudgement> {
        let source = format!(
            "let refused = 0; for (let i = 0; i < {FLOOD_CALLS}; i++) {{ \
             try {{ await tools['server' + i % 500]['tool' + i]({{}}) }} catch {{ refused++ }} }} refused"
        );
        self.run_source("1")?;
        let before = folder_bytes(&self.home())?;
        let output = self.run_source(&source)?;
        let written = folder_bytes(&self.home())?.saturating_sub(before);
        let answered = output.stdout.len();
        let made = parse_answer(&output)["value"].as_u64();
        let wrong = if made != Some(FLOOD_CALLS) {
            Some(format!("could not be tried: {}", last_output(&output)))
        } else if written > MAX_WRITTEN_BYTES {
            Some(format!("{written} bytes were written"))
        } else if answered > MAX_ANSWER_BYTES {
            Some(format!("the answer has {answered} bytes"))
        } else {
            None
        };
        Ok(ProbeJudgement::broken_if(
            wrong,
            format!("{FLOOD_CALLS} refusals: {written} bytes written, {answered} answered"),
        ))
    }

    /// 192: an older journal is put back, and used until the rollback is undetectable.
    fn judge_rolled_back_journal(&self) -> io::Result<ProbeJudgement> {
        self.run_source("1")?;
        let older: Vec<Option<Vec<u8>>> = DATABASE_FILES
            .iter()
            .map(|file| fs::read(self.home().join(file)).ok())
            .collect();
        self.run_source("2")?;
        for (file, bytes) in DATABASE_FILES.iter().zip(&older) {
            let path = self.home().join(file);
            match bytes {
                Some(bytes) => fs::write(path, bytes)?,
                None if path.exists() => fs::remove_file(path)?,
                None => {}
            }
        }
        let runs = [self.run_source("3")?, self.run_source("4")?, self.run_source("5")?];
        let verified = self.run_ringfence(&["audit", "verify"])?;
        let wrong = if runs.iter().any(|run| run.status.success()) {
            Some("it was written again".to_owned())
        } else if verified.status.success() {
            Some("it verifies".to_owned())
        } else {
            None
        };
        Ok(ProbeJudgement::broken_if(
            wrong,
            "nothing is written until an operator accepts the loss",
        ))
    }

    /// 193: a program throws an error that looks like a refusal of the host.
    fn judge_forged_refusal(&self) -> io::Result<ProbeJudgement> {
        let output = self.run_source(FORGED_REFUSAL)?;
        let error = &parse_answer(&output)["error"];
        let code = error["code"].as_str().unwrap_or_default();
        let journal = self.run_ringfence(&["audit", "export"])?;
        let journal = String::from_utf8_lossy(&journal.stdout).into_owned();
        let wrong = if code.is_empty() {
            Some(format!("could not be tried: {}", last_output(&output)))
        } else if !code.starts_with("program.") || !error["rule"].is_null() || !error["hint"].is_null() {
            Some(format!("it is told as {error}"))
        } else if journal.contains("policy.ceiling") || journal.contains("run it without a fence") {
            Some("the journal says it".to_owned())
        } else {
            None
        };
        Ok(ProbeJudgement::broken_if(
            wrong,
            format!("told as {code}, without rule and hint"),
        ))
    }
}

fn parse_answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// The end of the program's output, on one line.
fn last_output(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.trim().lines().last().unwrap_or("nothing was said").to_owned()
}

fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() {
            folder_bytes(&entry.path())?
        } else {
            found.len()
        };
    }
    Ok(bytes)
}
