//! Decisions of a rule set: an effect and the rule that gave it. The order of rules has no meaning: deny beats ask, ask beats
//! allow, and the strictest effect of several rule sets wins.

use std::fmt;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::address::AddressKind;
use crate::draft::{Draft, FileAccess};
use crate::host::Host;
use crate::net::{HostRequest, NetDraft, TlsInspection};
use crate::path::{GuestPath, RelPath};
use crate::pattern::ToolName;
use crate::tools::{CallHistory, ToolHints, ToolRule};

/// The effect of a rule; later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleEffect {
    /// The action may happen without a question.
    Allow,
    /// A person is asked first.
    Ask,
    /// The action may not happen.
    Deny,
}

impl fmt::Display for RuleEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

/// The address of a rule, such as `tools.rules[3]`, `ceiling.net.denylist[0]`, `tools.default` or `builtin.addresses`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RuleRef(String);

impl RuleRef {
    pub(crate) fn new(address: impl Into<String>) -> Self {
        Self(address.into())
    }

    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An effect and the rule that gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "rule", rename_all = "snake_case")]
pub enum Decision {
    /// The action may happen without a question.
    Allow(RuleRef),
    /// A person is asked first.
    Ask(RuleRef),
    /// The action may not happen.
    Deny(RuleRef),
}

impl Decision {
    pub(crate) fn new(verdict: RuleEffect, rule: impl Into<String>) -> Self {
        let rule = RuleRef::new(rule);
        match verdict {
            RuleEffect::Allow => Self::Allow(rule),
            RuleEffect::Ask => Self::Ask(rule),
            RuleEffect::Deny => Self::Deny(rule),
        }
    }

    /// The effect without its rule.
    pub const fn effect(&self) -> RuleEffect {
        match self {
            Self::Allow(_) => RuleEffect::Allow,
            Self::Ask(_) => RuleEffect::Ask,
            Self::Deny(_) => RuleEffect::Deny,
        }
    }

    /// The rule that gave the effect.
    pub const fn rule(&self) -> &RuleRef {
        match self {
            Self::Allow(rule) | Self::Ask(rule) | Self::Deny(rule) => rule,
        }
    }
}

/// The strictest of some decisions, the first of equals. No decision at all is a denial.
pub(crate) fn strictest(decisions: impl IntoIterator<Item = Decision>) -> Decision {
    decisions
        .into_iter()
        .reduce(|first, next| if next.effect() > first.effect() { next } else { first })
        .unwrap_or_else(|| Decision::new(RuleEffect::Deny, "builtin.empty"))
}

/// Host names that lead to the host itself or to a cloud's metadata service, whatever they resolve to.
const RESERVED_HOSTS: [&str; 5] = [
    "localhost",
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
];

pub(crate) fn is_reserved(host: &Host) -> bool {
    match host {
        Host::Name(name) => {
            let name = name.as_str();
            RESERVED_HOSTS.contains(&name) || name.ends_with(".localhost")
        }
        Host::Ip(_) => false,
    }
}

/// A complete rule set: the policy's own, or that of a ceiling above it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RuleSet {
    /// The prefix of rule addresses: empty for the policy's own rules, otherwise `ceiling.`, `ceiling2.` and so on.
    pub(crate) prefix: String,
    /// The draft with every key set that the built-in default has.
    pub(crate) draft: Draft,
}

impl RuleSet {
    fn full_key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    fn decision_at(&self, verdict: RuleEffect, key: &str) -> Decision {
        Decision::new(verdict, self.full_key(key))
    }

    /// The decisions of every rule that matches the call, or the default if none does.
    pub(crate) fn decide_tool(
        &self,
        name: &ToolName,
        hints: ToolHints,
        args: &Value,
        history: &CallHistory,
    ) -> Vec<Decision> {
        let rules = self.draft.tools.iter().flat_map(|tools| tools.rules.iter().enumerate());
        let matching: Vec<Decision> = rules
            .filter(|(_, rule)| rule.matches(name, hints, args, history))
            .map(|(index, rule)| self.decision_at(rule.verdict, &format!("tools.rules[{index}]")))
            .collect();
        if matching.is_empty() {
            return vec![self.tool_default(name)];
        }
        matching
    }

    /// The decision on a call that no rule matches. Skills are allowed, because each of their own calls is decided.
    pub(crate) fn tool_default(&self, name: &ToolName) -> Decision {
        if name.is_skill() {
            return Decision::new(RuleEffect::Allow, "builtin.skills");
        }
        let default = self.draft.tools.as_ref().and_then(|tools| tools.default);
        self.decision_at(default.unwrap_or(RuleEffect::Deny), "tools.default")
    }

    /// The rules for tools, with their addresses.
    pub(crate) fn tool_rules(&self) -> impl Iterator<Item = (String, &ToolRule)> {
        let rules = self.draft.tools.iter().flat_map(|tools| tools.rules.iter().enumerate());
        rules.map(|(index, rule)| (self.full_key(&format!("tools.rules[{index}]")), rule))
    }

    /// The decisions of every rule that matches the request, or the default if none does.
    pub(crate) fn decide_host(&self, request: &HostRequest) -> Vec<Decision> {
        let Some(net) = self.draft.net.as_ref().filter(|net| net.enabled == Some(true)) else {
            return vec![self.decision_at(RuleEffect::Deny, "net.enabled")];
        };
        let mut matching = Vec::new();
        if is_reserved(&request.host) {
            matching.push(Decision::new(RuleEffect::Deny, "builtin.hosts"));
        }
        matching.extend(matching_deny_keys(net, request).map(|key| self.decision_at(RuleEffect::Deny, &key)));
        for (key, rule) in allow_rules(net) {
            if rule.allows(request) {
                matching.push(self.decision_at(RuleEffect::Allow, &key));
            }
        }
        if matching.is_empty() {
            let standard = request.port == request.scheme.port();
            let default = net.default.filter(|_| standard).unwrap_or(RuleEffect::Deny);
            matching.push(self.decision_at(default, "net.default"));
        }
        if let Host::Ip(address) = request.host {
            matching.push(self.decide_address(address, request));
        }
        matching
    }

    /// The decision on one address that the request's host resolves to.
    pub(crate) fn decide_address(&self, address: IpAddr, request: &HostRequest) -> Decision {
        let Some(net) = &self.draft.net else {
            return self.decision_at(RuleEffect::Deny, "net.enabled");
        };
        let as_host = HostRequest {
            host: Host::Ip(address),
            ..request.clone()
        };
        if let Some(key) = matching_deny_keys(net, &as_host).next() {
            return self.decision_at(RuleEffect::Deny, &key);
        }
        let kind = AddressKind::classify(address);
        if kind == AddressKind::Public {
            return Decision::new(RuleEffect::Allow, "builtin.addresses");
        }
        let opening = allow_rules(net)
            .find(|(_, rule)| rule.allows(request) && rule.opens_address(address))
            .filter(|_| kind.can_be_opened());
        match opening {
            Some((key, _)) => self.decision_at(RuleEffect::Allow, &format!("{key}.addresses")),
            None => Decision::new(RuleEffect::Deny, "builtin.addresses"),
        }
    }

    /// The decision of the denylist on a name that an allowed host is an alias of.
    pub(crate) fn decide_alias(&self, request: &HostRequest) -> Decision {
        if is_reserved(&request.host) {
            return Decision::new(RuleEffect::Deny, "builtin.hosts");
        }
        match self
            .draft
            .net
            .as_ref()
            .and_then(|net| matching_deny_keys(net, request).next())
        {
            Some(key) => self.decision_at(RuleEffect::Deny, &key),
            None => Decision::new(RuleEffect::Allow, "builtin.hosts"),
        }
    }

    /// Whether a rule for the request's host names methods or paths.
    pub(crate) fn needs_inspection(&self, request: &HostRequest) -> bool {
        self.draft.net.as_ref().is_some_and(|net| {
            net.denylist.iter().any(|entry| entry.needs_inspection(request))
                || allow_rules(net).any(|(_, rule)| rule.needs_inspection(request))
        })
    }

    /// Whether `net.inspect` requires that all TLS is terminated.
    pub(crate) fn terminates_all_tls(&self) -> bool {
        let inspect = self.draft.net.as_ref().and_then(|net| net.inspect);
        inspect == Some(TlsInspection::All)
    }

    /// The decisions on a host file, by its path below a mount.
    pub(crate) fn decide_host_file(&self, path: &RelPath) -> Vec<Decision> {
        let deny = self.draft.fs.iter().flat_map(|fs| &fs.deny);
        // The address names the glob: an index would also count the built-in globs, which are in no file of the reader.
        let mut matching: Vec<Decision> = deny
            .filter(|glob| glob.hides(path))
            .map(|glob| self.decision_at(RuleEffect::Deny, &format!("fs.deny[{glob}]")))
            .collect();
        if matching.is_empty() {
            matching.push(self.decision_at(RuleEffect::Allow, "fs.mounts"));
        }
        matching
    }

    /// The decisions on opening a path in the sandbox with this access.
    pub(crate) fn decide_guest_path(&self, path: &GuestPath, access: FileAccess) -> Vec<Decision> {
        let mounts = self.draft.fs.iter().flat_map(|fs| fs.mounts.iter().enumerate());
        let deepest = mounts
            .filter_map(|(index, mount)| Some((index, mount, path.below(&mount.path)?)))
            .max_by_key(|(_, mount, _)| mount.path.as_str().len());
        let Some((index, mount, rest)) = deepest else {
            return vec![self.decision_at(RuleEffect::Deny, "fs.mounts")];
        };
        let key = format!("fs.mounts[{index}]");
        if access > mount.access {
            return vec![self.decision_at(RuleEffect::Deny, &key)];
        }
        let mut decisions = rest.map(|rest| self.decide_host_file(&rest)).unwrap_or_default();
        decisions.retain(|decision| decision.effect() == RuleEffect::Deny);
        decisions.push(self.decision_at(RuleEffect::Allow, &key));
        decisions
    }
}

/// The keys of the denylist entries that forbid the request, as far as the request is known.
fn matching_deny_keys(net: &NetDraft, request: &HostRequest) -> impl Iterator<Item = String> {
    let entries = net.denylist.iter().enumerate();
    entries.filter_map(|(index, entry)| {
        let (_, part) = entry.forbids(request)?;
        Some(format!("net.denylist[{index}]{part}"))
    })
}

/// The allow rules of a `net` section with their keys, including those of its presets.
pub(crate) fn allow_rules(net: &NetDraft) -> impl Iterator<Item = (String, &crate::net::HostRule)> {
    let own = net.allowlist.iter().enumerate();
    let own = own.map(|(index, rule)| (format!("net.allowlist[{index}]"), rule));
    let presets = net.presets.iter().flat_map(|preset| {
        let rules = preset.rules().iter().enumerate();
        rules.map(move |(index, rule)| (format!("net.presets.{preset}[{index}]"), rule))
    });
    own.chain(presets)
}

#[cfg(test)]
mod tests;
