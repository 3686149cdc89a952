//! Turns the reports of attempts into judgements.

use std::collections::BTreeMap;

use super::ProbeJudgement;
use crate::attempt::{AttemptLine, ReportedOutcome};
use crate::catalogue::Probe;
use crate::stage::ProbeStage;

/// The signal that ends a process whose call a filter kills.
const SIGSYS_DETAIL: &str = "signal 31";
/// The signal of a system-call entry that this kernel does not have.
const SIGSEGV_DETAIL: &str = "signal 11";

const ERRNO_NAMES: [(i32, &str); 22] = [
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (13, "EACCES"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (20, "ENOTDIR"),
    (22, "EINVAL"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (30, "EROFS"),
    (38, "ENOSYS"),
    (88, "ENOTSOCK"),
    (92, "ENOPROTOOPT"),
    (93, "EPROTONOSUPPORT"),
    (95, "EOPNOTSUPP"),
    (97, "EAFNOSUPPORT"),
    (101, "ENETUNREACH"),
    (111, "ECONNREFUSED"),
];

/// The name of an error number.
fn errno_name(number: i32) -> String {
    ERRNO_NAMES
        .iter()
        .find(|(known, _)| *known == number)
        .map_or_else(|| format!("error {number}"), |(_, name)| (*name).to_owned())
}

/// The judgement on one attempt: `Err` if it succeeded or did not report.
pub(crate) fn judge_line(line: &AttemptLine) -> Result<String, String> {
    let said = |more: &str| format!("{}: {more}", line.part);
    match line.outcome {
        ReportedOutcome::Succeeded if line.detail.is_empty() => Err(said("let through")),

        ReportedOutcome::Refused => Ok(line.errno.map_or_else(|| line.detail.clone(), errno_name)),
        ReportedOutcome::WithoutEffect => Ok(line.detail.clone()),
        ReportedOutcome::Killed if line.detail == SIGSYS_DETAIL => Ok("killed".to_owned()),
        ReportedOutcome::Killed if line.id == 63 && line.detail == SIGSEGV_DETAIL => {
            Ok("this kernel has no such door".to_owned())
        }
        ReportedOutcome::Succeeded | ReportedOutcome::Killed | ReportedOutcome::Stuck => Err(said(&line.detail)),
    }
}

/// Judges a probe whose attempts have all reported.
pub(crate) fn judge_lines(probe: &Probe, lines: &[AttemptLine], stage: &ProbeStage) -> ProbeJudgement {
    let own: Vec<&AttemptLine> = lines.iter().filter(|line| line.id == probe.id).collect();
    if own.is_empty() {
        return ProbeJudgement::broken("no attempt was heard of");
    }
    let mut broken = Vec::new();
    let mut held: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in &own {
        match judge_line(line) {
            Err(why) => broken.push(why),
            Ok(how) => held.entry(how).or_default().push(&line.part),
        }
    }
    if !broken.is_empty() {
        return ProbeJudgement::broken(broken.join("; "));
    }
    let mut detail = held
        .iter()
        .map(|(how, parts)| summarize_parts(how, parts))
        .collect::<Vec<_>>()
        .join("; ");
    let told: Vec<&str> = crate::attempt::secrets::READ_SECRETS
        .iter()
        .filter(|(id, _)| *id == probe.id)
        .flat_map(|(_, names)| names.iter().copied())
        .filter(|name| stage.undenied.contains(name))
        .collect();
    if !told.is_empty() {
        detail = format!(
            "{detail}; not named by `fs.deny`, so a mount would show them: {}",
            told.join(", ")
        );
    }
    ProbeJudgement::held(detail)
}

fn summarize_parts(how: &str, parts: &[&str]) -> String {
    match parts {
        [] | [_, _, _, ..] => format!("{how} ({} tries)", parts.len()),
        few => format!("{how} ({})", few.join(", ")),
    }
}
