//! What a policy asks for and this program cannot do yet. A session with any of it is refused
//! when it opens: a permission or protection is never silently ignored.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::data::{PiiMode, Secrets};
use crate::decide::Verdict;
use crate::draft::{Access, Draft};
use crate::policy::Policy;

/// Something that a policy key needs to be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mechanism {
    /// Egress through the gateway.
    Network,
    /// Tool calls through the gateway.
    Tools,
    /// Questions to people.
    Approvals,
    /// Stand-ins for personal data.
    Aliases,
    /// Secrets blacked out in what comes out.
    SecretRedaction,
    /// A cap on the bytes of what comes back.
    ReturnCaps,
    /// A cap on the rows of what comes back.
    RowCaps,
    /// Writable places that survive the sandbox.
    KeptWorkspace,
    /// Host folders that a program may change.
    WritableHostFolders,
}

impl Mechanism {
    /// The mechanism in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network access",
            Self::Tools => "tool calls",
            Self::Approvals => "approvals",
            Self::Aliases => "aliases for personal data",
            Self::SecretRedaction => "redaction of secrets",
            Self::ReturnCaps => "caps on returned bytes",
            Self::RowCaps => "caps on returned rows",
            Self::KeptWorkspace => "kept workspaces",
            Self::WritableHostFolders => "writable host folders",
        }
    }
}

/// The mechanisms that a program has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built(BTreeSet<Mechanism>);

impl Built {
    /// Files, environment, limits and the journal only.
    pub const fn foundation() -> Self {
        Self(BTreeSet::new())
    }

    /// The same and one mechanism more.
    #[must_use]
    pub fn with(mut self, mechanism: Mechanism) -> Self {
        self.0.insert(mechanism);
        self
    }

    /// Whether a mechanism is there.
    pub fn has(&self, mechanism: Mechanism) -> bool {
        self.0.contains(&mechanism)
    }
}

/// One key whose mechanism is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Unbuilt {
    /// The key.
    pub key: String,
    /// What is missing.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for Unbuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}; hint: {}", self.key, self.why, self.hint)
    }
}

impl Policy {
    /// Every key of this policy whose mechanism is missing. What holds by itself (a denylist
    /// without a network, a cap on calls without tools) is not missing.
    pub fn unbuilt(&self, built: &Built) -> Vec<Unbuilt> {
        self.needs()
            .into_iter()
            .filter(|(_, mechanism, _)| !built.has(*mechanism))
            .map(|(key, mechanism, hint)| Unbuilt {
                key,
                why: format!("needs {}, which this version does not have", mechanism.name()),
                hint: hint.to_owned(),
            })
            .collect()
    }

    fn needs(&self) -> Vec<(String, Mechanism, &'static str)> {
        let mut needs = Vec::new();
        for mount in &self.fs().mounts {
            let key = |part: &str| format!("fs.mounts[{}].{part}", mount.path);
            if mount.keep {
                needs.push((key("keep"), Mechanism::KeptWorkspace, "set `keep: false`"));
            }
            if mount.from.is_some() && mount.access == Access::Write {
                let hint = "set `access: ro` and take files out with `--out`";
                needs.push((key("access"), Mechanism::WritableHostFolders, hint));
            }
        }
        if self.net().enabled == Some(true) {
            let hint = "set `net.enabled: false`";
            needs.push(("net.enabled".to_owned(), Mechanism::Network, hint));
        }
        self.tool_needs(&mut needs);
        self.data_needs(&mut needs);
        // The default's word: where nobody can be asked, no answer means no.
        if self.approvals() != Draft::builtin().approvals.as_ref() {
            needs.push(("approvals".to_owned(), Mechanism::Approvals, "leave the section out"));
        }
        needs
    }

    fn tool_needs(&self, needs: &mut Vec<(String, Mechanism, &'static str)>) {
        let default = self
            .tools()
            .default
            .map(|verdict| ("tools.default".to_owned(), verdict));
        let rules = self.tools().rules.iter().enumerate();
        let rules = rules.map(|(index, rule)| (format!("tools.rules[{index}]"), rule.verdict));
        for (key, verdict) in default.into_iter().chain(rules) {
            // What a person should be asked is refused where nobody can be: that needs no approvals.
            if verdict != Verdict::Deny {
                needs.push((key, Mechanism::Tools, "make it `deny` or leave it out"));
            }
        }
    }

    fn data_needs(&self, needs: &mut Vec<(String, Mechanism, &'static str)>) {
        let Some(data) = self.data() else { return };
        let mut need = |key: &str, mechanism| {
            needs.push((key.to_owned(), mechanism, "leave the key out"));
        };
        if data.pii.as_ref().is_some_and(|pii| pii.mode != Some(PiiMode::Off)) {
            need("data.pii", Mechanism::Aliases);
        }
        if data.secrets == Some(Secrets::Redact) {
            need("data.secrets", Mechanism::SecretRedaction);
        }
        let returned = data.returned.as_ref();
        if returned.is_some_and(|returned| returned.bytes.is_some()) {
            need("data.return.bytes", Mechanism::ReturnCaps);
        }
        if returned.is_some_and(|returned| returned.rows.is_some()) {
            need("data.return.rows", Mechanism::RowCaps);
        }
    }
}

#[cfg(test)]
mod tests;
