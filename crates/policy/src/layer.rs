//! One draft laid over another: scalars and mounts of the same path are replaced; rules, allowlist, denylist and deny globs are
//! added; `env` is merged by key.

use crate::data::{DataDraft, PiiDraft, ReturnDraft};
use crate::draft::{ApprovalsDraft, AuditDraft, Draft, FsDraft, MountDraft, ProcDraft};
use crate::net::{NetDraft, NetLimitsDraft};
use crate::tools::{ToolLimitsDraft, ToolsDraft};

impl Draft {
    /// This draft with `over` laid over it. Examples belong to the file that has them, so only those of `over` remain. The name
    /// is that of `over`, if it has one.
    #[must_use]
    pub fn layer(&self, over: &Self) -> Self {
        let env = match (&self.env, &over.env) {
            (Some(base), Some(over)) => {
                let mut env = base.clone();
                env.extend(over.iter().map(|(name, value)| (name.clone(), value.clone())));
                Some(env)
            }
            (base, over) => over.as_ref().or(base.as_ref()).cloned(),
        };
        Self {
            name: if over.name.is_empty() {
                self.name.clone()
            } else {
                over.name.clone()
            },
            version: over.version.or(self.version),
            fs: merge_options(self.fs.as_ref(), over.fs.as_ref(), merge_fs),
            env,
            net: merge_options(self.net.as_ref(), over.net.as_ref(), merge_net),
            proc: merge_options(self.proc.as_ref(), over.proc.as_ref(), merge_proc),
            tools: merge_options(self.tools.as_ref(), over.tools.as_ref(), merge_tools),
            data: merge_options(self.data.as_ref(), over.data.as_ref(), merge_data),
            approvals: merge_options(self.approvals.as_ref(), over.approvals.as_ref(), merge_approvals),
            audit: merge_options(self.audit.as_ref(), over.audit.as_ref(), merge_audit),
            examples: over.examples.clone(),
        }
    }
}

fn merge_options<T: Clone>(base: Option<&T>, over: Option<&T>, merge: fn(&T, &T) -> T) -> Option<T> {
    match (base, over) {
        (Some(base), Some(over)) => Some(merge(base, over)),
        (base, over) => over.or(base).cloned(),
    }
}

/// Appends the elements that are missing, so that laying a draft over itself changes nothing.
pub(crate) fn append_missing<T: Clone + PartialEq>(base: &[T], more: &[T]) -> Vec<T> {
    let mut all = base.to_vec();
    for item in more {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    all
}

/// Replaces mounts of the same path and keeps the others.
pub(crate) fn merge_mounts(base: &[MountDraft], over: &[MountDraft]) -> Vec<MountDraft> {
    let mut all: Vec<MountDraft> = base
        .iter()
        .map(|mount| {
            over.iter()
                .find(|other| other.path == mount.path)
                .unwrap_or(mount)
                .clone()
        })
        .collect();
    let new = over
        .iter()
        .filter(|mount| !base.iter().any(|other| other.path == mount.path));
    all.extend(new.cloned());
    all
}

fn merge_fs(base: &FsDraft, over: &FsDraft) -> FsDraft {
    FsDraft {
        mounts: merge_mounts(&base.mounts, &over.mounts),
        deny: append_missing(&base.deny, &over.deny),
    }
}

fn merge_net(base: &NetDraft, over: &NetDraft) -> NetDraft {
    NetDraft {
        enabled: over.enabled.or(base.enabled),
        default: over.default.or(base.default),
        presets: append_missing(&base.presets, &over.presets),
        allowlist: append_missing(&base.allowlist, &over.allowlist),
        denylist: append_missing(&base.denylist, &over.denylist),
        inspect: over.inspect.or(base.inspect),
        limits: merge_options(base.limits.as_ref(), over.limits.as_ref(), |base, over| {
            NetLimitsDraft {
                connections: over.connections.or(base.connections),
                rate: over.rate.or(base.rate),
                bytes: over.bytes.or(base.bytes),
            }
        }),
    }
}

fn merge_proc(base: &ProcDraft, over: &ProcDraft) -> ProcDraft {
    ProcDraft {
        cpu_quota: over.cpu_quota.or(base.cpu_quota),
        mem_limit: over.mem_limit.or(base.mem_limit),
        wall_timeout: over.wall_timeout.or(base.wall_timeout),
        cpu_time: over.cpu_time.or(base.cpu_time),
        lifetime: over.lifetime.or(base.lifetime),
        fork_limit: over.fork_limit.or(base.fork_limit),
        open_files: over.open_files.or(base.open_files),
        output: over.output.or(base.output),
        programs: over.programs.or(base.programs),
    }
}

fn merge_tools(base: &ToolsDraft, over: &ToolsDraft) -> ToolsDraft {
    ToolsDraft {
        default: over.default.or(base.default),
        rules: append_missing(&base.rules, &over.rules),
        drift: over.drift.or(base.drift),
        max_calls: over.max_calls.or(base.max_calls),
        call_timeout: over.call_timeout.or(base.call_timeout),
        limits: merge_options(base.limits.as_ref(), over.limits.as_ref(), |base, over| {
            ToolLimitsDraft {
                tenant: over.tenant.or(base.tenant),
                session: over.session.or(base.session),
                server: over.server.or(base.server),
                tool: over.tool.or(base.tool),
            }
        }),
    }
}

fn merge_data(base: &DataDraft, over: &DataDraft) -> DataDraft {
    DataDraft {
        pii: merge_options(base.pii.as_ref(), over.pii.as_ref(), |base, over| PiiDraft {
            mode: over.mode.or(base.mode),
            inside: over.inside.or(base.inside),
            names: over.names.or(base.names),
            kinds: over.kinds.as_ref().or(base.kinds.as_ref()).cloned(),
            reveal_to: append_missing(&base.reveal_to, &over.reveal_to),
            own: append_missing(&base.own, &over.own),
        }),
        secrets: over.secrets.or(base.secrets),
        returned: merge_options(base.returned.as_ref(), over.returned.as_ref(), |base, over| {
            ReturnDraft {
                bytes: over.bytes.or(base.bytes),
                rows: over.rows.or(base.rows),
            }
        }),
    }
}

fn merge_approvals(base: &ApprovalsDraft, over: &ApprovalsDraft) -> ApprovalsDraft {
    ApprovalsDraft {
        timeout: over.timeout.or(base.timeout),
        by: over.by.as_ref().or(base.by.as_ref()).cloned(),
    }
}

fn merge_audit(base: &AuditDraft, over: &AuditDraft) -> AuditDraft {
    AuditDraft {
        durable: over.durable.or(base.durable),
        output: over.output.or(base.output),
        keep: over.keep.or(base.keep),
        session_bytes: over.session_bytes.or(base.session_bytes),
    }
}

#[cfg(test)]
mod tests;
