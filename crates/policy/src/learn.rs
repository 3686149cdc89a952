//! Learns the smallest policy that allows what a session attempted. An action that no policy should allow is left out, with the
//! reason. The result is checked against all the attempts that it has to allow.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use serde::Serialize;
use serde_json::Value;

use crate::address::AddressKind;
use crate::ceiling::Ceiling;
use crate::decide::{RuleEffect, is_reserved};
use crate::draft::{DocumentVersion, Draft};
use crate::host::{Host, HostPattern};
use crate::net::{HostRequest, HostRule, HttpMethod, NetDraft, Scheme};
use crate::pattern::{ToolName, ToolPattern};
use crate::policy::Policy;
use crate::tools::{CallHistory, ToolHints, ToolRule, ToolsDraft};
use crate::url::UrlPath;

mod arguments;
mod paths;

/// An action that a session attempted, as its journal records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedAttempt {
    /// The host request or the tool call.
    pub tried: AttemptedAction,
    /// The code and the rule of the refusal; `None` if the action was allowed.
    pub refused: Option<(String, String)>,
}

/// The action of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptedAction {
    /// A request to a host outside the sandbox.
    Host {
        /// The scheme of the URL: `https` or `http`.
        scheme: String,
        /// The host name or address that the program requested.
        host: String,
        /// The port that the program connected to.
        port: u16,
        /// The method; `None` if it was not seen.
        method: Option<String>,
        /// The URL's path; `None` if it was not seen.
        path: Option<String>,
        /// The address that was dialled; `None` if none was.
        address: Option<String>,
    },
    /// A call of a tool.
    Tool {
        /// The full name of the tool, `server.tool`.
        name: String,
        /// The arguments; `None` if they are unknown.
        arguments: Option<Value>,
        /// The names of arguments whose recorded value is not the value that was sent.
        hidden: BTreeSet<String>,
    },
}

impl std::fmt::Display for AttemptedAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host {
                scheme,
                host,
                port,
                method,
                path,
                ..
            } => {
                write!(f, "{scheme}://{host}:{port}")?;
                method.iter().chain(path).try_for_each(|part| write!(f, " {part}"))
            }
            Self::Tool { name, .. } => f.write_str(name),
        }
    }
}

/// The result of learning from a session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LearnedDraft {
    /// The smallest policy that allows the actions.
    pub draft: Draft,
    /// The actions that the policy does not allow, and those for which it is not sufficient.
    pub notes: Vec<LearnNote>,
}

/// A remark on one attempted action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct LearnNote {
    /// The attempted action in words, such as `https://example.org:443 GET /`.
    pub tried: String,
    /// Whether the learned policy allows the action.
    pub allowed: bool,
    /// Why the policy does not allow the action, or what else the action needs.
    pub why: String,
}

/// The learned policy does not allow an action that it was learned from: an error of this program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy that was learnt does not allow {tried}: `{rule}`")]
#[non_exhaustive]
pub struct LearnError {
    /// The attempted action in words.
    pub tried: String,
    /// The rule of the learned policy that refuses the action, or the error.
    pub rule: String,
}

/// A host request that a rule can allow.
#[derive(Debug, Clone)]
struct AllowableHost {
    request: HostRequest,
    address: Option<IpAddr>,
}

/// An action that a rule can allow.
enum AllowableAction {
    Host(AllowableHost),
    Tool(ToolName, Option<Value>),
}

/// The arguments of all calls by tool; `None` for a call whose arguments are unknown.
type CallsByTool = BTreeMap<ToolName, Vec<Option<Value>>>;

/// Learns the smallest policy that allows these attempts, except those that no rule should allow.
pub fn learn(attempts: &[ObservedAttempt]) -> Result<LearnedDraft, LearnError> {
    let (mut crossings, mut tools, mut notes) = (Vec::new(), CallsByTool::new(), BTreeSet::new());
    for attempt in attempts {
        let note = |allowed: bool, why: String| LearnNote {
            tried: attempt.tried.to_string(),
            allowed,
            why,
        };
        match rule_would_allow(attempt).and_then(|more| Ok((to_allowable(&attempt.tried)?, more))) {
            Err(why) => drop(notes.insert(note(false, why))),
            Ok((allowable, more)) => {
                notes.extend(more.map(|more| note(true, more)));
                notes.extend(unlearned_part(&attempt.tried).map(|more| note(true, more)));
                match allowable {
                    AllowableAction::Host(crossing) => crossings.push(crossing),
                    AllowableAction::Tool(name, arguments) => tools.entry(name).or_default().push(arguments),
                }
            }
        }
    }
    let draft = build_draft(&crossings, &tools);
    verify_draft(&draft, &crossings, &tools)?;
    let notes = notes.into_iter().collect();
    Ok(LearnedDraft { draft, notes })
}

/// Checks whether an allow rule would have helped. Returns what else the action needs; the error says why no rule helps.
fn rule_would_allow(attempt: &ObservedAttempt) -> Result<Option<String>, String> {
    let Some((code, rule)) = &attempt.refused else {
        return Ok(None);
    };
    let by_default = ["net.enabled", "net.default", "tools.default"];
    let (above, key) = match rule.split_once('.') {
        Some((first, rest)) if first.starts_with("ceiling") => (true, rest),
        _ => (false, rule.as_str()),
    };
    match code.as_str() {
        // A tool that no rule shows is unknown to a program.
        "net.denied" | "policy.denied" | "tool.unknown" if by_default.contains(&key) => {
            let more = "the operator's ceiling refused it; ask the operator to widen it";
            Ok(above.then(|| more.to_owned()))
        }
        "tool.unknown" => Err("there is no such tool".to_owned()),
        "approval.needed" => Err(format!("a person is asked by `{rule}`")),
        "approval.denied" => Err(format!("a person was asked by `{rule}`, and said no")),
        "approval.timeout" | "approval.withdrawn" => Err(format!("a person was asked by `{rule}`, and did not answer")),
        "net.denied" | "policy.denied" if !rule.is_empty() => Err(format!("refused by `{rule}`, and deny beats allow")),
        code if rule.is_empty() => Err(format!("refused with `{code}`: no allow rule helps")),
        code => Err(format!("refused with `{code}` by `{rule}`: no allow rule helps")),
    }
}

/// The arguments with the hidden values replaced by null.
fn without_hidden(arguments: &Value, hidden: &BTreeSet<String>) -> Value {
    let mut seen = arguments.clone();
    for name in hidden {
        if let Some(value) = seen.get_mut(name) {
            *value = Value::Null;
        }
    }
    seen
}

/// The condition that could not be learned from an attempt; `None` if nothing is hidden.
fn unlearned_part(tried: &AttemptedAction) -> Option<String> {
    let hidden = match tried {
        AttemptedAction::Tool { hidden, .. } if !hidden.is_empty() => hidden,
        AttemptedAction::Tool { .. } | AttemptedAction::Host { .. } => return None,
    };
    let names: Vec<String> = hidden.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(" and ");
    Some(format!(
        "a condition on {names}, if there should be one: only aliases for personal data are kept of it"
    ))
}

fn to_allowable(tried: &AttemptedAction) -> Result<AllowableAction, String> {
    let (scheme, host, port, method, path, address) = match tried {
        AttemptedAction::Tool {
            name,
            arguments,
            hidden,
        } => {
            return name
                .parse()
                .map(|name| AllowableAction::Tool(name, arguments.as_ref().map(|all| without_hidden(all, hidden))))
                .map_err(|error: crate::NameError| error.to_string());
        }
        AttemptedAction::Host {
            scheme,
            host,
            port,
            method,
            path,
            address,
        } => (scheme, host, port, method, path, address),
    };
    let scheme = match scheme.as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        other => return Err(format!("`{other}` is neither https nor http")),
    };
    let host: Host = host.parse().map_err(|error: crate::HostError| error.to_string())?;
    if is_reserved(&host) {
        return Err("this name always stays closed: `builtin.hosts`".to_owned());
    }
    let literal = match &host {
        Host::Ip(address) => Some(*address),
        Host::Name(_) => None,
    };
    let dialled = address.as_deref().and_then(parse_ip);
    if let Some(private) = literal
        .into_iter()
        .chain(dialled)
        .find(|ip| AddressKind::classify(*ip) != AddressKind::Public)
    {
        let why = "is not a public address: `builtin.addresses`; a private network needs `addresses` written by hand";
        return Err(format!("`{private}` {why}"));
    }
    let port = NonZeroU16::new(*port).ok_or("port 0 is none")?;
    let method = match method {
        None => None,
        Some(name) => {
            let known = serde_json::from_value(Value::String(name.clone()));
            Some(known.map_err(|_| format!("no rule can name the method `{name}`"))?)
        }
    };
    if path.as_deref().is_some_and(|path| path.contains(['‹', '⟦'])) {
        return Err("its path held personal data or a secret, which no rule repeats: write `paths` by hand".to_owned());
    }
    let path = path.as_deref().map(str::parse::<UrlPath>).transpose();
    let request = HostRequest {
        host,
        scheme,
        port: port.get(),
        method,
        path: path.map_err(|error| error.to_string())?,
    };
    let denied = Draft::builtin().net.unwrap_or_default().denylist;
    if let Some((host, _)) = denied.iter().find_map(|entry| entry.forbids(&request)) {
        return Err(format!("`{host}` is denied by the built-in `net.denylist`"));
    }
    Ok(AllowableAction::Host(AllowableHost {
        request,
        address: dialled,
    }))
}

fn parse_ip(text: &str) -> Option<IpAddr> {
    let socket = |text: &str| text.parse::<SocketAddr>().map(|address| address.ip());
    text.parse().or_else(|_| socket(text)).ok()
}

fn build_draft(crossings: &[AllowableHost], tools: &CallsByTool) -> Draft {
    let allowlist = build_host_rules(crossings);
    let net = (!allowlist.is_empty()).then(|| NetDraft {
        enabled: Some(true),
        allowlist,
        ..NetDraft::default()
    });
    let allow = |(name, calls): (&ToolName, &Vec<Option<Value>>)| {
        let pattern: ToolPattern = name.as_str().parse().ok()?;
        Some(ToolRule {
            verdict: RuleEffect::Allow,
            pattern,
            when: arguments::common_conditions(calls),
            after: None,
            hint: None,
            rate: None,
        })
    };
    let tools = (!tools.is_empty()).then(|| ToolsDraft {
        rules: tools.iter().filter_map(allow).collect(),
        ..ToolsDraft::default()
    });
    Draft {
        version: DocumentVersion::try_from(1).ok(),
        net,
        tools,
        ..Draft::empty()
    }
    .with_name("learnt")
}

/// The requests to one host and port: whether some had no method or path, and the paths of each method.
#[derive(Default)]
struct HostUsage {
    unseen: bool,
    seen: BTreeMap<HttpMethod, BTreeSet<String>>,
}

/// The fewest rules that allow the requests and little else.
fn build_host_rules(crossings: &[AllowableHost]) -> Vec<HostRule> {
    let mut places: BTreeMap<(String, u8, u16), HostUsage> = BTreeMap::new();
    for AllowableHost { request, .. } in crossings {
        // Https sorts before http.
        let plain = u8::from(request.scheme == Scheme::Http);
        let asked = places
            .entry((request.host.to_string(), plain, request.port))
            .or_default();
        match (request.method, &request.path) {
            (Some(method), Some(path)) => {
                asked.seen.entry(method).or_default().insert(path.as_str().to_owned());
            }
            _ => asked.unseen = true,
        }
    }
    // Ports with the same methods and paths share a rule.
    let mut shared: BTreeMap<(String, u8, Option<NarrowRule>), BTreeSet<NonZeroU16>> = BTreeMap::new();
    for ((host, plain, port), asked) in places {
        for narrow in narrow_rules(asked) {
            let ports = shared.entry((host.clone(), plain, narrow)).or_default();
            ports.extend(NonZeroU16::new(port));
        }
    }
    let rule = |((host, plain, narrow), ports): ((String, u8, Option<NarrowRule>), BTreeSet<NonZeroU16>)| {
        let pattern: HostPattern = host.parse().ok()?;
        let scheme = if plain == 1 { Scheme::Http } else { Scheme::Https };
        let usual = ports.iter().all(|port| port.get() == scheme.port());
        let (methods, paths) = narrow.unzip();
        let paths = paths
            .flatten()
            .map(|paths| paths.iter().filter_map(|path| path.parse().ok()).collect());
        Some(HostRule {
            scheme: (scheme == Scheme::Http).then_some(scheme),
            ports: (!usual).then_some(ports),
            methods,
            paths,
            ..HostRule::for_host(pattern)
        })
    };
    shared.into_iter().filter_map(rule).collect()
}

/// The methods of one rule with their paths; `None` allows all paths, because they are too many to name.
type NarrowRule = (BTreeSet<HttpMethod>, Option<Vec<String>>);

/// Makes one rule for each set of paths, so that no method gets the paths of another.
fn narrow_rules(mut asked: HostUsage) -> Vec<Option<NarrowRule>> {
    if asked.unseen {
        return vec![None];
    }
    // GET includes HEAD.
    if let (Some(head), Some(get)) = (asked.seen.get(&HttpMethod::Head), asked.seen.get(&HttpMethod::Get))
        && head.is_subset(get)
    {
        asked.seen.remove(&HttpMethod::Head);
    }
    let mut by_paths: BTreeMap<Option<Vec<String>>, BTreeSet<HttpMethod>> = BTreeMap::new();
    for (method, paths) in asked.seen {
        by_paths
            .entry(paths::generalize_paths(&paths))
            .or_default()
            .insert(method);
    }
    by_paths
        .into_iter()
        .map(|(paths, methods)| Some((methods, paths)))
        .collect()
}

/// Checks that the policy, written to a file and read again, allows every action that it was learned from.
fn verify_draft(draft: &Draft, crossings: &[AllowableHost], tools: &CallsByTool) -> Result<(), LearnError> {
    let fault = |tried: String, rule: String| LearnError { tried, rule };
    let unfit = |error: &dyn std::fmt::Display| fault("anything".to_owned(), error.to_string());
    let text = draft.to_yaml().map_err(|error| unfit(&error))?;
    let read = Draft::parse(&text, &draft.name).map_err(|error| unfit(&error))?;
    let policy: Policy = read.under(&Ceiling::unlimited()).map_err(|error| unfit(&error))?;
    for crossing in crossings {
        let request = &crossing.request;
        let host = policy.decide_host(request);
        let address = crossing.address.map(|address| policy.decide_address(address, request));
        for decision in std::iter::once(host).chain(address) {
            if decision.effect() != RuleEffect::Allow {
                return Err(fault(request.host.to_string(), decision.rule().to_string()));
            }
        }
    }
    let calls = tools
        .iter()
        .flat_map(|(name, calls)| calls.iter().map(move |call| (name, call)));
    for (name, call) in calls {
        let arguments = call.clone().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let decision = policy.decide_tool(name.as_str(), ToolHints::none(), &arguments, &CallHistory::new());
        if decision.effect() != RuleEffect::Allow {
            return Err(fault(name.to_string(), decision.rule().to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
