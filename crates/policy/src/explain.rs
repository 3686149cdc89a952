//! Explanations of decisions: the deciding rule, every rule that matched, and what to do next.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::decide::{Decision, RuleEffect, RuleRef, RuleSet, allow_rules, strictest};
use crate::draft::{Draft, FileAccess};
use crate::host::Host;
use crate::measure::serialized_name;
use crate::net::{HostRequest, HostRule, HttpMethod, Scheme};
use crate::node::nearest_name;
use crate::past_calls::{PastCallDecision, RedactedCall};
use crate::path::{GuestPath, RelPath};
use crate::pattern::ToolName;
use crate::policy::Policy;
use crate::tools::{CallHistory, ToolHints};
use crate::url::UrlPath;

/// A query for an explanation, with names and paths as a person writes them.
#[derive(Debug, Clone, PartialEq)]
pub enum ExplainQuery {
    /// Whether a tool may be called.
    Tool {
        /// The full name of the tool, `server.tool`.
        name: String,
        /// The effects that the tool's server declares.
        hints: ToolHints,
        /// The arguments of the call as a JSON object.
        args: Value,
        /// The tools that were called before in the same session.
        after: Vec<String>,
    },
    /// Whether a host may be reached.
    Host {
        /// The host name or address, not yet parsed.
        host: String,
        /// The port; `None` means the default port of the scheme.
        port: Option<u16>,
        /// The scheme of the request, which also gives the default port.
        scheme: Scheme,
        /// The method; `None` if unknown.
        method: Option<HttpMethod>,
        /// The URL path; `None` if unknown.
        path: Option<String>,
    },
    /// Whether a file may be opened: absolute in the sandbox, or relative to a mount.
    Path {
        /// The path, absolute or relative.
        path: String,
        /// The access that is requested.
        access: FileAccess,
    },
    /// The value of a limit, found by its key or by the key's last part.
    Limit {
        /// The key, such as `proc.mem_limit`.
        key: String,
    },
}

/// The answer to a [`ExplainQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The decision; `None` for limits.
    pub decision: Option<Decision>,
    /// The decision as a sentence.
    pub sentence: String,
    /// Every rule that matched, with its effect.
    pub matched: Vec<(RuleRef, RuleEffect)>,
    /// Further facts, such as why a rule with a hint matched.
    pub notes: Vec<String>,
    /// How to get another decision; `None` if nothing needs to change.
    pub next: Option<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        for (rule, verdict) in &self.matched {
            write!(f, "\n  {verdict:<5} {rule}")?;
        }
        for note in &self.notes {
            write!(f, "\nnote: {note}")?;
        }
        match &self.next {
            Some(next) => write!(f, "\nhint: {next}"),
            None => Ok(()),
        }
    }
}

impl Policy {
    /// Explains a decision of this policy.
    pub fn explain(&self, question: &ExplainQuery) -> Explanation {
        match question {
            ExplainQuery::Tool {
                name,
                hints,
                args,
                after,
            } => self.explain_tool(name, *hints, args, after),
            ExplainQuery::Host {
                host,
                port,
                scheme,
                method,
                path,
            } => self.explain_host(host, *port, *scheme, *method, path.as_deref()),
            ExplainQuery::Path { path, access } => self.explain_path(path, *access),
            ExplainQuery::Limit { key } => self.explain_limit(key),
        }
    }

    fn explain_tool(&self, name: &str, hints: ToolHints, args: &Value, after: &[String]) -> Explanation {
        let parsed = match name.parse::<ToolName>() {
            Ok(parsed) => parsed,
            Err(error) => return explain_unreadable("builtin.names", &error),
        };
        let mut history = CallHistory::new();
        for before in after {
            match before.parse() {
                Ok(before) => history.record(before),
                Err(error) => return explain_unreadable("builtin.names", &error),
            }
        }
        self.explain_call(&parsed, hints, args, &history)
    }

    fn explain_call(&self, name: &ToolName, hints: ToolHints, args: &Value, history: &CallHistory) -> Explanation {
        let answers = |layer: &RuleSet| layer.decide_tool(name, hints, args, history);
        let mut matched: Vec<Decision> = self.layers().iter().flat_map(answers).collect();
        let decision = strictest(self.tool_decisions(name, hints, args, history));
        if strictest(answers(&self.layers()[0])).effect() == RuleEffect::Ask
            && let Some(standing) = self.standing_rules().answering_rule(name, args)
        {
            matched.push(Decision::new(RuleEffect::Allow, standing));
        }
        let mut notes = self.hint_notes(hints, &matched);
        if self.data_rules().reveals(name) {
            notes.push("`data.pii.reveal_to` names it: it gets real values in place of aliases".to_owned());
        }
        Explanation {
            notes,
            ..explain_decision(&format!("tool `{name}`"), &matched, decision)
        }
    }

    /// Explains why each rule with a hint matched.
    fn hint_notes(&self, hints: ToolHints, matched: &[Decision]) -> Vec<String> {
        let mut notes = Vec::new();
        for layer in self.layers() {
            let rules = layer
                .draft
                .tools
                .iter()
                .flat_map(|tools| tools.rules.iter().enumerate());
            for (index, rule) in rules {
                let address = format!("{}tools.rules[{index}]", layer.prefix);
                let Some(hint) = rule
                    .hint
                    .filter(|_| matched.iter().any(|one| one.rule().as_str() == address))
                else {
                    continue;
                };
                notes.push(if hints.declares(hint) {
                    format!("`{address}` has `hint: {hint}`, and the tool's server says that it is so")
                } else {
                    format!("`{address}` has `hint: {hint}`, and the tool's server does not say that it is not so")
                });
            }
        }
        notes
    }

    /// Decides the past calls of one tool, each with the calls before it as history. Returns each decision with the index of its
    /// call in `calls`.
    pub fn explain_past_calls(&self, tool: &str, calls: &[RedactedCall]) -> Vec<(usize, PastCallDecision)> {
        let mut history = CallHistory::new();
        let mut explained = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            if call.name == tool {
                explained.push((index, self.decide_past_call(call, &history)));
            }
            if call.made
                && let Ok(name) = call.name.parse()
            {
                history.record(name);
            }
        }
        explained
    }

    fn explain_host(
        &self,
        host: &str,
        port: Option<u16>,
        scheme: Scheme,
        method: Option<HttpMethod>,
        path: Option<&str>,
    ) -> Explanation {
        let parsed = match host.parse::<Host>() {
            Ok(parsed) => parsed,
            Err(error) => return explain_unreadable("builtin.hosts", &error),
        };
        let path = match path.map(str::parse::<UrlPath>).transpose() {
            Ok(path) => path,
            Err(error) => return explain_unreadable("builtin.paths", &error),
        };
        let port = port.unwrap_or(scheme.port());
        let request = HostRequest {
            host: parsed,
            scheme,
            port,
            method,
            path,
        };
        let answers: Vec<Decision> = self
            .layers()
            .iter()
            .flat_map(|layer| layer.decide_host(&request))
            .collect();
        let mut explanation = explain_decisions(&format!("host `{host}` port {port}"), &answers);
        let is_unnamed =
            |decision: &Decision| decision.effect() == RuleEffect::Deny && decision.rule().as_str() == "net.default";
        if explanation.decision.as_ref().is_some_and(is_unnamed) {
            explanation.next = Some(self.rule_that_would_allow(&request));
        }
        if method.is_none()
            && explanation
                .decision
                .as_ref()
                .is_some_and(|d| d.effect() == RuleEffect::Allow)
            && self.needs_inspection(&request)
        {
            explanation.sentence.push_str(", as far as its methods and paths allow");
        }
        explanation
    }

    /// Suggests how to allow a request that no rule matches: what the nearest rule for its host lacks, or a new rule.
    pub fn rule_that_would_allow(&self, request: &HostRequest) -> String {
        let HostRequest { host, scheme, port, .. } = request;
        let net = self.net();
        let about: Vec<_> = allow_rules(net).filter(|(_, rule)| rule.host.matches(host)).collect();
        let allowed = |rule: &HostRule| rule.scheme.unwrap_or(Scheme::Https);
        let written = match (scheme, *port == scheme.port()) {
            (Scheme::Https, true) => format!("`{host}`"),
            (Scheme::Https, false) => format!("`{{ host: \"{host}\", ports: [{port}] }}`"),
            (Scheme::Http, true) => format!("`{{ host: \"{host}\", scheme: http }}`"),
            (Scheme::Http, false) => format!("`{{ host: \"{host}\", scheme: http, ports: [{port}] }}`"),
        };
        let (of_scheme, of_other): (Vec<_>, Vec<_>) = about.into_iter().partition(|(_, rule)| allowed(rule) == *scheme);
        let at_port = of_scheme.iter().find(|(_, rule)| rule.allowed_ports().contains(port));
        if let Some((key, _)) = at_port {
            return format!("`{key}` names this host, and not this method or path: widen it if it is yours");
        }
        if let Some((key, rule)) = of_scheme.first() {
            let ports: Vec<String> = rule.allowed_ports().iter().map(u16::to_string).collect();
            let ports = ports.join(", ");
            return format!(
                "`{key}` allows this host at port {ports} only: use that, or add {written} to `net.allowlist`"
            );
        }
        match of_other.first() {
            Some((key, rule)) => format!(
                "`{key}` allows this host by {} only: ask for it so, or add {written} to `net.allowlist`",
                serialized_name(allowed(rule))
            ),
            None if *scheme == Scheme::Https && *port == scheme.port() => {
                "name the host in `net.allowlist`; a bare host means https on port 443".to_owned()
            }
            None => format!("add {written} to `net.allowlist`: a bare host means https on port 443"),
        }
    }

    fn explain_path(&self, path: &str, access: FileAccess) -> Explanation {
        let answers = if path.starts_with('/') {
            let parsed = path.parse::<GuestPath>();
            parsed.map(|path| self.layers()[0].decide_guest_path(&path, access))
        } else {
            let layers = self.layers().iter();
            path.parse::<RelPath>()
                .map(|path| layers.flat_map(|layer| layer.decide_host_file(&path)).collect())
        };
        match answers {
            Ok(answers) => explain_decisions(&format!("path `{path}`"), &answers),
            Err(error) => explain_unreadable("builtin.paths", &error),
        }
    }

    fn explain_limit(&self, key: &str) -> Explanation {
        let values = self.limit_values();
        let named = |known: &str| known == key || last_part(known) == key;
        let Some((name, value)) = values.iter().find(|(known, _)| named(known)) else {
            let mut known: Vec<&str> = Vec::new();
            for part in values.iter().map(|(known, _)| last_part(known)) {
                known.extend((!known.contains(&part)).then_some(part));
            }
            let next = nearest_name(last_part(key), &known).map(|known| format!("did you mean `{known}`?"));
            return explain_statement(format!("`{key}` is not a limit, known are {}", known.join(", ")), next);
        };
        let above = self
            .layers()
            .get(1)
            .and_then(|layer| serde_json::to_value(&layer.draft).ok());
        let above = above
            .as_ref()
            .and_then(|above| above.pointer(&format!("/{}", name.replace('.', "/"))));
        let most = match above {
            Some(most) => format!(", the ceiling allows {}", plain_text(most)),
            None => String::new(),
        };
        let next = format!("set `{name}` in the policy, or `--set {name}=…`");
        explain_statement(format!("`{name}` is {value}{most}"), Some(next))
    }

    fn limit_values(&self) -> Vec<(&'static str, String)> {
        let period = |duration| {
            crate::units::Period::new(duration)
                .map(|p| p.to_string())
                .unwrap_or_default()
        };
        let limits = self.limits();
        let net = self.net_limits();
        let mut values = vec![
            ("proc.cpu_quota", limits.cpu.to_string()),
            ("proc.mem_limit", limits.memory.to_string()),
            ("proc.wall_timeout", period(limits.wall)),
            ("proc.cpu_time", period(limits.cpu_time)),
            ("proc.lifetime", period(limits.lifetime)),
            ("proc.fork_limit", limits.processes.to_string()),
            ("proc.open_files", limits.open_files.to_string()),
            ("proc.output", limits.output.to_string()),
            ("proc.programs", serialized_name(limits.programs)),
            ("net.limits.connections", net.connections.to_string()),
            ("net.limits.rate", net.rate.to_string()),
            ("net.limits.bytes", net.bytes.to_string()),
        ];
        let data = self.data_rules();
        values.extend(data.bytes.map(|bytes| ("data.return.bytes", bytes.to_string())));
        values.extend(data.rows.map(|rows| ("data.return.rows", rows.to_string())));
        values.extend([
            ("data.pii.mode", serialized_name(data.pii)),
            ("data.pii.inside", serialized_name(data.inside)),
            ("data.pii.names", serialized_name(data.names)),
            ("data.secrets", serialized_name(data.secrets)),
        ]);
        values
    }
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn explain_statement(sentence: String, next: Option<String>) -> Explanation {
    Explanation {
        decision: None,
        sentence,
        matched: Vec::new(),
        notes: Vec::new(),
        next,
    }
}

fn explain_decisions(what: &str, answers: &[Decision]) -> Explanation {
    let decision = strictest(answers.iter().cloned());
    explain_decision(what, answers, decision)
}

fn explain_decision(what: &str, answers: &[Decision], decision: Decision) -> Explanation {
    let matched = answers
        .iter()
        .map(|answer| (answer.rule().clone(), answer.effect()))
        .collect();
    let verb = match decision.effect() {
        RuleEffect::Allow => "is allowed",
        RuleEffect::Ask => "asks a person",
        RuleEffect::Deny => "is denied",
    };
    Explanation {
        sentence: format!("{what} {verb} by `{}`", decision.rule()),
        next: next_step(decision.rule(), decision.effect()),
        decision: Some(decision),
        matched,
        notes: Vec::new(),
    }
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn explain_unreadable(rule: &str, error: &dyn fmt::Display) -> Explanation {
    let decision = Decision::new(RuleEffect::Deny, rule);
    Explanation {
        sentence: format!("denied by `{rule}`: {error}"),
        matched: vec![(decision.rule().clone(), RuleEffect::Deny)],
        decision: Some(decision),
        notes: Vec::new(),
        next: Some("write it in its plain form and ask again".to_owned()),
    }
}

/// Whether a rule is one of the built-in globs, which hide files under every policy.
fn is_builtin_deny(address: &str) -> bool {
    let glob = address.strip_prefix("fs.deny[").and_then(|rest| rest.strip_suffix(']'));
    let builtin = Draft::builtin().fs.unwrap_or_default().deny;
    glob.is_some_and(|glob| builtin.iter().any(|one| one.to_string() == glob))
}

/// Suggests what a person can do about a decision, by the rule that gave it.
fn next_step(rule: &RuleRef, verdict: RuleEffect) -> Option<String> {
    let address = rule.as_str();
    if verdict == RuleEffect::Allow {
        return None;
    }
    if address.starts_with("ceiling") {
        return Some("this is the operator's ceiling; ask the operator to widen it".to_owned());
    }
    if verdict == RuleEffect::Ask {
        return Some("answer it in the inbox: `ringfence approvals list`".to_owned());
    }
    let step = match address {
        "tools.default" => "add a rule such as `{ allow: \"server.tool\" }` to `tools.rules`",
        "net.enabled" => "set `net.enabled: true` and name the host in `net.allowlist`",
        "net.default" => "name the host in `net.allowlist`; a bare host means https on port 443",
        "builtin.addresses" => {
            "a private network needs `addresses: [CIDR]` in the host's rule; loopback, link-local and metadata stay closed"
        }
        "builtin.hosts" => "this name always stays closed",
        "fs.mounts" => "add a mount to `fs.mounts`",
        address if address.starts_with("fs.mounts[") => "set `access: rw` on that mount",
        address if is_builtin_deny(address) => {
            "this entry is built in and cannot be removed; give the program a copy under another name"
        }
        address if address.starts_with("fs.deny") => {
            "remove or narrow that entry of `fs.deny` if it is yours, or give the program a copy under another name"
        }
        address if address.contains("denylist") => {
            "a denylist wins over every allow rule; remove the entry if it is yours"
        }
        _ => "deny beats ask and allow; remove or narrow that rule if it is yours",
    };
    Some(step.to_owned())
}

#[cfg(test)]
mod tests;
