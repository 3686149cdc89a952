//! Tests that cannot run on a machine print `SKIPPED: reason`; this module has the accepted reasons.

use anyhow::{Result, bail};

const SKIP_MARK: &str = "SKIPPED: ";

/// The beginning of each accepted reason, and why it is accepted.
const ACCEPTED_REASONS: [(&str, &str); 6] = [
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

/// The reason on a line where a test skipped itself; none on other lines.
pub(super) fn skip_reason(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix(SKIP_MARK).map(str::trim)
}

/// Fails when a test skipped itself for a reason that is not accepted.
pub(super) fn check_skips(lines: &[String]) -> Result<()> {
    let given = lines.iter().filter_map(|line| skip_reason(line));
    let mut unknown: Vec<_> = given
        .filter(|reason| !ACCEPTED_REASONS.iter().any(|(known, _)| reason.starts_with(known)))
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
