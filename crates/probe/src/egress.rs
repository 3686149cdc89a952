//! Runs the egress probes: in throw-away namespaces, with a fake internet, this very program as a user runs it, and an
//! attacker in its sandbox who attacks the proxy.

mod evidence;
mod naive_proxy;
mod namespace;
mod program_runs;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::attempt::ATTEMPT_ENTRY;
use crate::catalogue::catalogue;
use crate::internet::{Internet, InternetError};
use crate::report::{ProbeFinding, ProbeOutcome};

pub(crate) use namespace::exec_unprivileged;

/// What the attacker runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackSetup {
    /// This program with its sandbox and its proxy, as a user runs it.
    Fenced,
    /// A proxy that judges nothing, without a sandbox: every probe must succeed there.
    Open,
}

impl AttackSetup {
    const fn as_str(self) -> &'static str {
        match self {
            AttackSetup::Fenced => "fenced",
            AttackSetup::Open => "open",
        }
    }
}

/// Why the egress probes could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EgressProbeError {
    /// A temporary folder for the probes could not be made.
    #[error("cannot make a temporary folder for the probes at the door")]
    Folder(#[source] io::Error),
    /// The process that makes the probes could not be started.
    #[error("cannot start the probes at the door")]
    Start(#[source] io::Error),
    /// The process failed; the text is its error.
    #[error("the probes at the door failed: {0}")]
    Failed(String),
}

/// The report of the inner process on one probe.
#[derive(Debug, Serialize, Deserialize)]
struct EgressProbeLine {
    id: u16,
    broken: bool,
    detail: String,
}

/// Makes the egress probes with `program`, which is a whole `ringfence` when it is fenced. Blocks for seconds.
#[expect(
    clippy::disallowed_methods,
    reason = "namespaces are entered by a process of one thread"
)]
pub fn run_egress_probes(program: &Path, field: AttackSetup) -> Result<Vec<ProbeFinding>, EgressProbeError> {
    let folder = tempfile::Builder::new()
        .prefix("ringfence-door-")
        .tempdir()
        .map_err(EgressProbeError::Folder)?;
    let mut command = Command::new(program);
    command
        .args([ATTEMPT_ENTRY, "door", field.as_str()])
        .arg(folder.path())
        .arg(program)
        .stdin(Stdio::null());
    let output = command.output().map_err(EgressProbeError::Start)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let told: Vec<EgressProbeLine> = said
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if !output.status.success() {
        return Err(EgressProbeError::Failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    Ok(catalogue()
        .filter(crate::Probe::is_egress)
        .map(|probe| {
            let told = told.iter().find(|told| told.id == probe.id);
            let broken = told.is_none_or(|told| told.broken);
            ProbeFinding {
                id: probe.id,
                class: probe.class,
                name: probe.name,
                outcome: if broken {
                    ProbeOutcome::Broken
                } else {
                    ProbeOutcome::Held
                },
                by: probe.by.to_owned(),
                detail: told.map_or_else(|| "nothing was heard of it".to_owned(), |told| told.detail.clone()),
            }
        })
        .collect())
}

/// The inner process: makes its namespaces, its internet and the probes, and reports.
pub(crate) fn run_in_namespace(field: &str, folder: &Path, program: &Path) -> io::Result<()> {
    let root = rustix::process::geteuid().is_root();
    namespace::enter_namespaces()?;
    let setting = program_runs::AttackRun::new(folder, program, root)?;
    let internet =
        Internet::open(folder, setting.build_world()).map_err(|error| io::Error::other(error_chain(&error)))?;
    let seen = match field {
        "fenced" => setting.run_fenced()?,
        _ => setting.run_unfenced()?,
    };
    // The last bytes may still be in transit.
    std::thread::sleep(Duration::from_millis(50));
    let mut out = io::stdout().lock();
    for (id, broken, detail) in evidence::judge_evidence(&seen, &internet, &setting) {
        let line = serde_json::to_string(&EgressProbeLine { id, broken, detail })?;
        writeln!(out, "{line}")?;
    }
    out.flush()
}

fn error_chain(error: &InternetError) -> String {
    crate::runner::error_chain(error)
}
