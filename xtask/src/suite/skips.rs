//! Tests that cannot run on a machine say `SKIPPED: reason`; here is which reasons count.

use anyhow::{Result, bail};

const MARK: &str = "SKIPPED: ";

/// The beginning of each reason that a machine may have, and why it is one.
const COUNTS: [(&str, &str); 6] = [
    (
        "cgroup v2 controllers absent",
        "the kernel's other hierarchy has them; a made-up tree stands in",
    ),
    (
        "no writable cgroup",
        "an ordinary user without delegation; limits are then kept another way",
    ),
    ("needs root", "the same test runs in the step as root"),
    ("needs an ordinary user", "the same test runs in the step as one"),
    (
        "no tool data",
        "real schemas are measured where they are; they are no part of the project",
    ),
    ("kernel without Landlock", "the second fence of two; `doctor` says so"),
];

/// The reason on a line, when it is one where a test skipped itself.
pub(super) fn reason(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix(MARK).map(str::trim)
}

/// Fails when a test skipped itself for a reason that does not count.
pub(super) fn judge(lines: &[String]) -> Result<()> {
    let given = lines.iter().filter_map(|line| reason(line));
    let mut unknown: Vec<_> = given
        .filter(|reason| !COUNTS.iter().any(|(known, _)| reason.starts_with(known)))
        .collect();
    unknown.sort_unstable();
    unknown.dedup();
    if !unknown.is_empty() {
        bail!(
            "tests skipped themselves for reasons that do not count: {}",
            unknown.join("; ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
