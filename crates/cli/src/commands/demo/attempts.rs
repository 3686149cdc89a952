//! Six programs that try forbidden things, and the evidence that each was blocked.

use std::path::Path;

use ringfence_engine::{Execution, Program};
use ringfence_sandbox::Language;

/// The content of the file on the host.
pub(crate) const SECRET: &str = "the host's secret\n";

/// An address that is reserved for documentation, so no host is disturbed if a connection gets out.
const OUTSIDE: &str = "if command -v bash >/dev/null; then exec bash -c ': </dev/tcp/192.0.2.1/443'; fi\n\
    if command -v python3 >/dev/null; then exec python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 443), 1)'; fi\n\
    [ \"$(wc -l </proc/net/route)\" -gt 1 ] || { echo 'no route: network is unreachable' >&2; exit 1; }";
const FORK_BOMB: &str = "sleep 2 & (while :; do sleep 2 & done); wait";
const HOG: &str = "const hoard: string[] = []; while (true) hoard.push(hoard.length + 'x'.repeat(1 << 20));";

/// A program that tries one forbidden thing.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    /// The rule that must block the attempt.
    pub(crate) rule: &'static str,
    pub(crate) program: Program,
    /// The policy keys that this attempt changes.
    pub(crate) set: &'static [(&'static str, &'static str)],
    sign: Sign,
}

/// The evidence that an attempt was blocked.
#[derive(Debug, Clone, Copy)]
enum Sign {
    /// The program failed, and its output does not contain the secret.
    Failed,
    /// The host recorded a system call that it refused.
    Violation,
    /// The host ended the program with this limit code.
    Limit(&'static str),
}

impl Attempt {
    /// Returns how the attempt was blocked, or `None` if it was not.
    pub(crate) fn blocked(&self, execution: &Execution) -> Option<String> {
        let code = execution.error.as_ref().map_or("", |error| error.code.as_str());
        match self.sign {
            Sign::Failed => {
                let told = execution.stdout.contains(SECRET.trim_end());
                let complaint = execution.stderr.lines().next().unwrap_or_default();
                let complaint = complaint.rsplit(": ").next().unwrap_or(complaint);
                (execution.exit_code != 0 && !told).then(|| complaint.to_lowercase())
            }
            Sign::Violation => {
                let refused = execution.violations.iter().find(|one| one.rule == self.rule)?;
                Some(format!("system call `{}` refused", refused.detail))
            }
            Sign::Limit(expected) => (code == expected).then(|| {
                let after = execution.usage.wall_ms;
                format!("ended after {after} ms, {code}")
            }),
        }
    }
}

/// The six attempts of the demo; `secret` is a file of the host.
pub(crate) fn all(secret: &Path) -> Vec<Attempt> {
    let shell = |source: &str| Program::Shell {
        file_name: "attempt.sh".to_owned(),
        source: source.to_owned(),
    };
    let typescript = |source: &str| Program::Code {
        language: Language::TypeScript,
        file_name: "attempt.ts".to_owned(),
        source: source.to_owned(),
    };
    let read = format!("cat '{}'", secret.display());
    let attempt = |name, rule, program, sign| Attempt {
        name,
        rule,
        program,
        set: &[],
        sign,
    };
    vec![
        attempt("read a secret of this machine", "fs.mounts", shell(&read), Sign::Failed),
        attempt("connect to the outside", "net.enabled", shell(OUTSIDE), Sign::Failed),
        attempt(
            "make namespaces, to mount",
            "proc.syscalls",
            shell("unshare --user --mount true"),
            Sign::Violation,
        ),
        attempt(
            "a fork bomb",
            "proc.fork_limit",
            shell(FORK_BOMB),
            Sign::Limit("limit.processes"),
        ),
        attempt(
            "take all memory",
            "proc.mem_limit",
            typescript(HOG),
            Sign::Limit("limit.memory"),
        ),
        Attempt {
            set: &[("proc.wall_timeout", "300ms")],
            ..attempt(
                "never end",
                "proc.wall_timeout",
                typescript("while (true) {}"),
                Sign::Limit("limit.wall"),
            )
        },
    ]
}
