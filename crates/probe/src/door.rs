//! Runs the egress probes: in throw-away namespaces, with a fake internet, this very program as a user runs it, and an
//! attacker in its sandbox who attacks the proxy.

mod evidence;
mod naive;
mod namespace;
mod shots;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::attempt::ENTRY;
use crate::catalogue::catalogue;
use crate::internet::{Internet, InternetError};
use crate::report::{Finding, Outcome};

pub(crate) use namespace::as_nobody;

/// What the attacker runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// This program with its sandbox and its proxy, as a user runs it.
    Fenced,
    /// A proxy that judges nothing, without a sandbox: every probe must succeed there.
    Open,
}

impl Field {
    const fn word(self) -> &'static str {
        match self {
            Field::Fenced => "fenced",
            Field::Open => "open",
        }
    }
}

/// Why the egress probes could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
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
struct Told {
    id: u16,
    broken: bool,
    detail: String,
}

/// Makes the egress probes with `program`, which is a whole `ringfence` when it is fenced. Blocks for seconds.
#[expect(
    clippy::disallowed_methods,
    reason = "namespaces are entered by a process of one thread"
)]
pub fn door(program: &Path, field: Field) -> Result<Vec<Finding>, DoorError> {
    let folder = tempfile::Builder::new()
        .prefix("ringfence-door-")
        .tempdir()
        .map_err(DoorError::Folder)?;
    let mut command = Command::new(program);
    command
        .args([ENTRY, "door", field.word()])
        .arg(folder.path())
        .arg(program)
        .stdin(Stdio::null());
    let output = command.output().map_err(DoorError::Start)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let told: Vec<Told> = said
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if !output.status.success() {
        return Err(DoorError::Failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    Ok(catalogue()
        .filter(crate::Probe::is_at_door)
        .map(|probe| {
            let told = told.iter().find(|told| told.id == probe.id);
            let broken = told.is_none_or(|told| told.broken);
            Finding {
                id: probe.id,
                class: probe.class,
                name: probe.name,
                outcome: if broken { Outcome::Broken } else { Outcome::Held },
                by: probe.by.to_owned(),
                detail: told.map_or_else(|| "nothing was heard of it".to_owned(), |told| told.detail.clone()),
            }
        })
        .collect())
}

/// The inner process: makes its namespaces, its internet and the probes, and reports.
pub(crate) fn inside(field: &str, folder: &Path, program: &Path) -> io::Result<()> {
    let root = rustix::process::geteuid().is_root();
    namespace::enter()?;
    let setting = shots::Setting::new(folder, program, root)?;
    let internet = Internet::open(folder, setting.world()).map_err(|error| io::Error::other(chain(&error)))?;
    let seen = match field {
        "fenced" => setting.fenced()?,
        _ => setting.open()?,
    };
    // The last bytes may still be in transit.
    std::thread::sleep(Duration::from_millis(50));
    let mut out = io::stdout().lock();
    for (id, broken, detail) in evidence::judge(&seen, &internet, &setting) {
        let line = serde_json::to_string(&Told { id, broken, detail })?;
        writeln!(out, "{line}")?;
    }
    out.flush()
}

fn chain(error: &InternetError) -> String {
    crate::drive::chain(error)
}
