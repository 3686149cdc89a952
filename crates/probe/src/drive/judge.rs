//! Turns the reports of attempts into judgements.

use std::collections::BTreeMap;

use super::Judged;
use crate::attempt::{Heard, Line};
use crate::catalogue::Probe;
use crate::stage::Stage;

/// The signal that ends a process whose call a filter kills.
const BAD_CALL: &str = "signal 31";
/// The signal of a system-call entry that this kernel does not have.
const NO_DOOR: &str = "signal 11";

const NAMES: [(i32, &str); 22] = [
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
fn errno(number: i32) -> String {
    NAMES
        .iter()
        .find(|(known, _)| *known == number)
        .map_or_else(|| format!("error {number}"), |(_, name)| (*name).to_owned())
}

/// The judgement on one attempt: `Err` if it succeeded or did not report.
pub(crate) fn judge(line: &Line) -> Result<String, String> {
    let said = |more: &str| format!("{}: {more}", line.part);
    match line.outcome {
        Heard::Succeeded if line.detail.is_empty() => Err(said("let through")),

        Heard::Refused => Ok(line.errno.map_or_else(|| line.detail.clone(), errno)),
        Heard::WithoutEffect => Ok(line.detail.clone()),
        Heard::Killed if line.detail == BAD_CALL => Ok("killed".to_owned()),
        Heard::Killed if line.id == 63 && line.detail == NO_DOOR => Ok("this kernel has no such door".to_owned()),
        Heard::Succeeded | Heard::Killed | Heard::Stuck => Err(said(&line.detail)),
    }
}

/// Judges a probe whose attempts have all reported.
pub(crate) fn lines(probe: &Probe, lines: &[Line], stage: &Stage) -> Judged {
    let own: Vec<&Line> = lines.iter().filter(|line| line.id == probe.id).collect();
    if own.is_empty() {
        return Judged::broken("no attempt was heard of");
    }
    let mut broken = Vec::new();
    let mut held: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in &own {
        match judge(line) {
            Err(why) => broken.push(why),
            Ok(how) => held.entry(how).or_default().push(&line.part),
        }
    }
    if !broken.is_empty() {
        return Judged::broken(broken.join("; "));
    }
    let mut detail = held
        .iter()
        .map(|(how, parts)| summary(how, parts))
        .collect::<Vec<_>>()
        .join("; ");
    let told: Vec<&str> = crate::attempt::secrets::READ
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
    Judged::held(detail)
}

fn summary(how: &str, parts: &[&str]) -> String {
    match parts {
        [] | [_, _, _, ..] => format!("{how} ({} tries)", parts.len()),
        few => format!("{how} ({})", few.join(", ")),
    }
}
