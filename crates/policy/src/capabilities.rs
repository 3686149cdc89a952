//! Capabilities that policies require, and what a program does not support. A session whose policy requires an unsupported
//! capability is refused when it opens: a permission or protection is never silently ignored.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::data::{PiiMode, SecretMode};
use crate::decide::RuleEffect;
use crate::draft::{Draft, FileAccess};
use crate::policy::Policy;

/// A capability that a policy key requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// Network egress through the gateway.
    Network,
    /// Tool calls through the gateway.
    Tools,
    /// Requests for a person's approval.
    Approvals,
    /// Aliases in place of personal data.
    Aliases,
    /// Redaction of secrets in everything that leaves the sandbox.
    SecretRedaction,
    /// A cap on the bytes of a returned value.
    ReturnCaps,
    /// A cap on the rows of a returned value.
    RowCaps,
    /// Writable mounts that outlive the sandbox.
    PersistentMounts,
    /// Host folders that a program may change.
    WritableHostFolders,
}

impl Capability {
    /// The capability as messages name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network access",
            Self::Tools => "tool calls",
            Self::Approvals => "approvals",
            Self::Aliases => "aliases for personal data",
            Self::SecretRedaction => "redaction of secrets",
            Self::ReturnCaps => "caps on returned bytes",
            Self::RowCaps => "caps on returned rows",
            Self::PersistentMounts => "kept workspaces",
            Self::WritableHostFolders => "writable host folders",
        }
    }
}

/// The capabilities that a program supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupportedCapabilities(BTreeSet<Capability>);

impl SupportedCapabilities {
    /// No optional capability: only files, environment, limits and the journal.
    pub const fn foundation() -> Self {
        Self(BTreeSet::new())
    }

    /// Adds one capability to the set.
    #[must_use]
    pub fn with(mut self, mechanism: Capability) -> Self {
        self.0.insert(mechanism);
        self
    }

    /// Whether the program supports a capability.
    pub fn has(&self, mechanism: Capability) -> bool {
        self.0.contains(&mechanism)
    }
}

/// One key that requires an unsupported capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnsupportedKey {
    /// The dotted key of the policy, such as `net.enabled`.
    pub key: String,
    /// The missing capability, in words that follow the key.
    pub why: String,
    /// How to change the policy so that it does not require the capability.
    pub hint: String,
}

impl fmt::Display for UnsupportedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}; hint: {}", self.key, self.why, self.hint)
    }
}

impl Policy {
    /// Lists the keys of this policy that require an unsupported capability. Keys that hold without one (a denylist without a
    /// network, a cap on calls without tools) are not listed.
    pub fn unsupported(&self, built: &SupportedCapabilities) -> Vec<UnsupportedKey> {
        self.required_capabilities()
            .into_iter()
            .filter(|(_, mechanism, _)| !built.has(*mechanism))
            .map(|(key, mechanism, hint)| UnsupportedKey {
                key,
                why: format!("needs {}, which this version does not have", mechanism.name()),
                hint: hint.to_owned(),
            })
            .collect()
    }

    fn required_capabilities(&self) -> Vec<(String, Capability, &'static str)> {
        let mut needs = Vec::new();
        for mount in &self.fs().mounts {
            let key = |part: &str| format!("fs.mounts[{}].{part}", mount.path);
            if mount.keep {
                needs.push((key("keep"), Capability::PersistentMounts, "set `keep: false`"));
            }
            if mount.from.is_some() && mount.access == FileAccess::Write {
                let hint = "set `access: ro` and take files out with `--out`";
                needs.push((key("access"), Capability::WritableHostFolders, hint));
            }
        }
        if self.net().enabled == Some(true) {
            let hint = "set `net.enabled: false`";
            needs.push(("net.enabled".to_owned(), Capability::Network, hint));
        }
        self.tool_capabilities(&mut needs);
        self.data_capabilities(&mut needs);
        // The built-in default needs no support: where nobody can be asked, a request for approval is denied.
        if self.approvals() != Draft::builtin().approvals.as_ref() {
            needs.push(("approvals".to_owned(), Capability::Approvals, "leave the section out"));
        }
        needs
    }

    fn tool_capabilities(&self, needs: &mut Vec<(String, Capability, &'static str)>) {
        let default = self
            .tools()
            .default
            .map(|verdict| ("tools.default".to_owned(), verdict));
        let rules = self.tools().rules.iter().enumerate();
        let rules = rules.map(|(index, rule)| (format!("tools.rules[{index}]"), rule.verdict));
        for (key, verdict) in default.into_iter().chain(rules) {
            // `ask` needs no approvals: where nobody can be asked, the call is denied.
            if verdict != RuleEffect::Deny {
                needs.push((key, Capability::Tools, "make it `deny` or leave it out"));
            }
        }
    }

    fn data_capabilities(&self, needs: &mut Vec<(String, Capability, &'static str)>) {
        let Some(data) = self.data() else { return };
        let mut need = |key: &str, mechanism| {
            needs.push((key.to_owned(), mechanism, "leave the key out"));
        };
        if data.pii.as_ref().is_some_and(|pii| pii.mode != Some(PiiMode::Off)) {
            need("data.pii", Capability::Aliases);
        }
        if data.secrets == Some(SecretMode::Redact) {
            need("data.secrets", Capability::SecretRedaction);
        }
        let returned = data.returned.as_ref();
        if returned.is_some_and(|returned| returned.bytes.is_some()) {
            need("data.return.bytes", Capability::ReturnCaps);
        }
        if returned.is_some_and(|returned| returned.rows.is_some()) {
            need("data.return.rows", Capability::RowCaps);
        }
    }
}

#[cfg(test)]
mod tests;
