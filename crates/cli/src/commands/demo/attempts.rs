//! Six programs that try forbidden things, and the evidence that each was blocked.

use std::path::Path;

use ringfence_engine::{ExecutionReport, RunProgram};
use ringfence_sandbox::JobLanguage;

/// The content of the file on the host.
pub(crate) const HOST_SECRET: &str = "the host's secret\n";

/// An address that is reserved for documentation, so no host is disturbed if a connection gets out.
const CONNECT_SCRIPT: &str = "if command -v bash >/dev/null; then exec bash -c ': </dev/tcp/192.0.2.1/443'; fi\n\
    if command -v python3 >/dev/null; then exec python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 443), 1)'; fi\n\
    [ \"$(wc -l </proc/net/route)\" -gt 1 ] || { echo 'no route: network is unreachable' >&2; exit 1; }";
const FORK_BOMB: &str = "sleep 2 & (while :; do sleep 2 & done); wait";
const MEMORY_HOG: &str = "const hoard: string[] = []; while (true) hoard.push(hoard.length + 'x'.repeat(1 << 20));";

/// A program that tries one forbidden thing.
#[derive(Debug, Clone)]
pub(crate) struct DemoAttempt {
    pub(crate) name: &'static str,
    /// The rule that must block the attempt.
    pub(crate) rule: &'static str,
    pub(crate) program: RunProgram,
    /// The policy keys that this attempt changes.
    pub(crate) set: &'static [(&'static str, &'static str)],
    evidence: BlockEvidence,
}

/// The evidence that an attempt was blocked.
#[derive(Debug, Clone, Copy)]
enum BlockEvidence {
    /// The program failed, and its output does not contain the secret.
    Failed,
    /// The host recorded a system call that it refused.
    Violation,
    /// The host ended the program with this limit code.
    Limit(&'static str),
}

impl DemoAttempt {
    /// Returns how the attempt was blocked, or `None` if it was not.
    pub(crate) fn blocked_by(&self, execution: &ExecutionReport) -> Option<String> {
        let code = execution.error.as_ref().map_or("", |error| error.code.as_str());
        match self.evidence {
            BlockEvidence::Failed => {
                let told = execution.stdout.contains(HOST_SECRET.trim_end());
                let complaint = execution.stderr.lines().next().unwrap_or_default();
                let complaint = complaint.rsplit(": ").next().unwrap_or(complaint);
                (execution.exit_code != 0 && !told).then(|| complaint.to_lowercase())
            }
            BlockEvidence::Violation => {
                let refused = execution.violations.iter().find(|one| one.rule == self.rule)?;
                Some(format!("system call `{}` refused", refused.detail))
            }
            BlockEvidence::Limit(expected) => (code == expected).then(|| {
                let after = execution.usage.wall_ms;
                format!("ended after {after} ms, {code}")
            }),
        }
    }
}

/// The six attempts of the demo; `secret` is a file of the host.
pub(crate) fn demo_attempts(secret: &Path) -> Vec<DemoAttempt> {
    let shell = |source: &str| RunProgram::Shell {
        file_name: "attempt.sh".to_owned(),
        source: source.to_owned(),
    };
    let typescript = |source: &str| RunProgram::Code {
        language: JobLanguage::TypeScript,
        file_name: "attempt.ts".to_owned(),
        source: source.to_owned(),
    };
    let read = format!("cat '{}'", secret.display());
    let attempt = |name, rule, program, sign| DemoAttempt {
        name,
        rule,
        program,
        set: &[],
        evidence: sign,
    };
    vec![
        attempt(
            "read a secret of this machine",
            "fs.mounts",
            shell(&read),
            BlockEvidence::Failed,
        ),
        attempt(
            "connect to the outside",
            "net.enabled",
            shell(CONNECT_SCRIPT),
            BlockEvidence::Failed,
        ),
        attempt(
            "make namespaces, to mount",
            "proc.syscalls",
            shell("unshare --user --mount true"),
            BlockEvidence::Violation,
        ),
        attempt(
            "a fork bomb",
            "proc.fork_limit",
            shell(FORK_BOMB),
            BlockEvidence::Limit("limit.processes"),
        ),
        attempt(
            "take all memory",
            "proc.mem_limit",
            typescript(MEMORY_HOG),
            BlockEvidence::Limit("limit.memory"),
        ),
        DemoAttempt {
            set: &[("proc.wall_timeout", "300ms")],
            ..attempt(
                "never end",
                "proc.wall_timeout",
                typescript("while (true) {}"),
                BlockEvidence::Limit("limit.wall"),
            )
        },
    ]
}
