//! The same attempts by code on an engine: what a JavaScript or Python program can reach.

use ringfence_sandbox::{ExecutionTask, JobLanguage, RunProgram, Verdict};

use super::{ProbeError, ProbeRunner};
use crate::attempt::{AttemptLine, ReportedOutcome};

/// Names that would be a way out of the engine, and a file outside. The script prints one word for each thing that exists.
const JAVASCRIPT: &str = r#"
const there = [];
const names = ["XMLHttpRequest", "WebSocket", "process", "require", "Deno", "Bun", "Worker", "std", "os"];
for (const name of names) {
  if (globalThis[name] !== undefined) there.push(["89", name]);
}
try { await fetch("http://127.0.0.1/"); there.push(["89", "fetch"]); } catch (error) {}
for (const path of ["CANARY", "../CANARY", "../../../../../../CANARY", "/proc/1/environ"]) {
  try { files.read(path); there.push(["1", path]); } catch (error) {}
}
for (const name of ["fs", "node:fs", "child_process", "net", "os", "std"]) {
  try { await import(name); there.push(["84", name]); } catch (error) {}
}
there
"#;

const PYTHON: &str = r#"
import os, json
there = []
def tries(number, name, act):
    try:
        act()
        there.append([number, name])
    except BaseException as error:
        pass
def dial():
    import socket
    socket.socket(socket.AF_INET, socket.SOCK_STREAM)
def local():
    import socket
    socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect("SOCKET")
def spawn():
    import subprocess
    subprocess.run(["/bin/true"], check=True)
def fork():
    if os.fork() == 0:
        os._exit(0)
def become():
    os.execv("/bin/true", ["true"])
def call():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno())
def environment():
    known = set(json.loads('KNOWN')) | {"PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "LC_CTYPE"}
    if not set(os.environ) - known:
        raise OSError()
tries("89", "socket", dial)
tries("143", "unix socket", local)
tries("84", "subprocess", spawn)
tries("72", "fork", fork)
tries("84", "exec", become)
tries("58", "unshare", call)
tries("1", "canary", lambda: open("CANARY").read())
tries("34", "environment", environment)
there
"#;

/// The findings of code, as reports like those of the other attempts. A machine without Python has only JavaScript.
pub(crate) async fn run_code_attempts(drive: &ProbeRunner<'_>) -> Result<Vec<AttemptLine>, ProbeError> {
    let fill = |source: &str| {
        let known = serde_json::to_string(&drive.stage.targets.env).unwrap_or_default();
        source
            .replace("CANARY", &drive.stage.targets.canary)
            .replace("SOCKET", &drive.stage.targets.socket)
            .replace("KNOWN", &known)
    };
    let mut all = try_code(
        drive,
        JobLanguage::JavaScript,
        "JavaScript",
        &fill(JAVASCRIPT),
        &[1, 84, 89],
    )
    .await?;
    match try_code(
        drive,
        JobLanguage::Python,
        "Python",
        &fill(PYTHON),
        &[1, 34, 58, 72, 84, 89, 143],
    )
    .await
    {
        Err(ProbeError::Run(ringfence_sandbox::ExecutionError::NoPython)) => {}
        other => all.extend(other?),
    }
    Ok(all)
}

async fn try_code(
    drive: &ProbeRunner<'_>,
    language: JobLanguage,
    name: &str,
    source: &str,
    ids: &[u16],
) -> Result<Vec<AttemptLine>, ProbeError> {
    let file_name = if language == JobLanguage::Python {
        "probe.py"
    } else {
        "probe.js"
    };
    let kind = RunProgram::Code {
        language,
        file_name: file_name.to_owned(),
        source: source.to_owned(),
    };
    let shot = drive.run_task(&[], ExecutionTask::new(kind)).await?;
    let found: Option<Vec<(String, String)>> = serde_json::from_slice(&shot.ended.value).ok();
    let said = |id: u16| -> (ReportedOutcome, String) {
        let Some(found) = found.as_ref().filter(|_| shot.ended.verdict == Verdict::Finished) else {
            return (
                ReportedOutcome::Stuck,
                format!(
                    "the program did not come to its end: {:?} {:?}",
                    shot.ended.verdict, shot.ended.outcome
                ),
            );
        };
        let own: Vec<&str> = found
            .iter()
            .filter(|(of, _)| *of == id.to_string())
            .map(|(_, what)| what.as_str())
            .collect();
        if own.is_empty() {
            (ReportedOutcome::WithoutEffect, "nothing in reach".to_owned())
        } else {
            (ReportedOutcome::Succeeded, own.join(", "))
        }
    };
    let line = |id: &u16| {
        let (outcome, detail) = said(*id);
        AttemptLine {
            id: *id,
            part: name.to_owned(),
            outcome,
            errno: None,
            detail,
        }
    };
    Ok(ids.iter().map(line).collect())
}
