//! The differences between two policies, described for people, and whether the sandbox became weaker.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::draft::Draft;
use crate::policy::Policy;
use crate::units::{Bytes, Cpus, Period, Rate};

/// The subject of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Topic {
    /// The reach of a host changed.
    HostReach,
    /// The reach into a private network changed.
    PrivateReach,
    /// A tool rule was added, removed or changed.
    Tool,
    /// A limit was raised or lowered.
    Limit,
    /// A mount was added, removed or changed.
    Mount,
    /// The set of hidden files changed.
    Hidden,
    /// A variable of the environment changed.
    Environment,
    /// The rules for personal data, secrets or returned values changed.
    Data,
    /// The way people are asked changed.
    Approval,
    /// The rules for the journal changed.
    Audit,
}

/// The direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The policy allows more than before.
    Weaker,
    /// The policy allows less than before.
    Stricter,
    /// Neither, or the text of the key does not tell.
    Neutral,
}

/// One key that differs between two policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The dotted key, with the member of a list in brackets.
    pub key: String,
    /// The value before, if there was one.
    pub before: Option<String>,
    /// The value after, if there is one.
    pub after: Option<String>,
    /// The subject of the change.
    pub topic: Topic,
    /// A sentence that describes the change.
    pub sentence: String,
    /// Whether the policy allows more or less than before.
    pub direction: Direction,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.direction {
            Direction::Weaker => "weaker  ",
            Direction::Stricter => "stricter",
            Direction::Neutral => "changed ",
        };
        write!(f, "{mark} {}", self.sentence)
    }
}

impl AsRef<Self> for Draft {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsRef<Draft> for Policy {
    fn as_ref(&self) -> &Draft {
        &self.layers()[0].draft
    }
}

/// Lists the changes from one draft or policy to another, weaker changes first. A draft is compared as it would be in force, laid
/// over the built-in default.
pub fn diff(before: &impl AsRef<Draft>, after: &impl AsRef<Draft>) -> Vec<Change> {
    let (before, after) = (facts(before.as_ref()), facts(after.as_ref()));
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let mut changes: Vec<Change> = keys
        .into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| change(key, before.get(key), after.get(key)))
        .collect();
    changes.sort_by(|a, b| (a.direction, a.topic, &a.key).cmp(&(b.direction, b.topic, &b.key)));
    changes
}

/// Every key of a draft with its plain value. Members of unordered lists (rules, hosts, globs) are part of the key; a mount is
/// identified by its path.
fn facts(draft: &Draft) -> BTreeMap<String, Value> {
    let full = Draft {
        examples: Vec::new(),
        ..Draft::builtin().layer(draft)
    };
    let mut facts = BTreeMap::new();
    if let Ok(mut value) = serde_json::to_value(&full) {
        value.sort_all_objects();
        flatten(String::new(), value, &mut facts);
    }
    facts
}

fn flatten(key: String, value: Value, facts: &mut BTreeMap<String, Value>) {
    match value {
        // A rule or a mount is one value; sections are flattened.
        Value::Object(map) if !key.ends_with(']') => {
            for (name, value) in map {
                let key = if key.is_empty() { name } else { format!("{key}.{name}") };
                flatten(key, value, facts);
            }
        }
        Value::Array(list) => {
            for item in list {
                let name = match item.get("path").and_then(Value::as_str) {
                    Some(path) if key == "fs.mounts" => path.to_owned(),
                    _ if key == "data.pii.own" => own_kind(&item),
                    _ => text(&item),
                };
                facts.insert(format!("{key}[{name}]"), item);
            }
        }
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            facts.insert(key, value);
        }
    }
}

/// A custom kind is identified by its name and expression, because two kinds may share a name.
fn own_kind(item: &Value) -> String {
    let field = |name: &str| item.get(name).map(text).unwrap_or_default();
    format!("{} {}", field("name"), field("pattern"))
}

fn change(key: &str, before: Option<&Value>, after: Option<&Value>) -> Change {
    let topic = topic(key, before.or(after));
    let direction = direction(key, before, after);
    Change {
        key: key.to_owned(),
        before: before.map(text),
        after: after.map(text),
        topic,
        sentence: sentence(key, topic, before, after),
        direction,
    }
}

fn topic(key: &str, value: Option<&Value>) -> Topic {
    let section = key.split(['.', '[']).next().unwrap_or_default();
    match section {
        "fs" if key.starts_with("fs.deny") => Topic::Hidden,
        "fs" => Topic::Mount,
        "net" if key.starts_with("net.limits.") => Topic::Limit,
        "net" if value.is_some_and(|rule| rule.get("addresses").is_some()) => Topic::PrivateReach,
        "net" => Topic::HostReach,
        "proc" => Topic::Limit,
        "tools" if key.starts_with("tools.limits.") => Topic::Limit,
        "tools" => Topic::Tool,
        "data" => Topic::Data,
        "approvals" => Topic::Approval,
        "audit" => Topic::Audit,
        _ => Topic::Environment,
    }
}

/// A value as people read it: strings without quotes, anything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn sentence(key: &str, topic: Topic, before: Option<&Value>, after: Option<&Value>) -> String {
    let shown = after.or(before).map(text).unwrap_or_default();
    let member = key.ends_with(']');
    match (before, after) {
        (Some(before), Some(after)) if topic == Topic::Mount => {
            format!("mount changes from {} to {}", text(before), text(after))
        }
        (Some(before), Some(after)) => {
            format!("`{key}` changes from {} to {}", text(before), text(after))
        }
        (None, Some(_)) if member => match topic {
            Topic::HostReach if key.starts_with("net.denylist") => format!("newly denied: {shown}"),
            Topic::HostReach => format!("new host reach: {shown}"),
            Topic::PrivateReach => format!("new reach into a private network: {shown}"),
            Topic::Tool => format!("new tool rule: {shown}"),
            Topic::Mount => format!("new mount: {shown}"),
            Topic::Hidden => format!("newly hidden: {shown}"),
            Topic::Data if key.starts_with("data.pii.own") => format!("newly looked for: {shown}"),
            Topic::Limit | Topic::Environment | Topic::Data | Topic::Approval | Topic::Audit => {
                format!("`{key}` is new")
            }
        },
        (Some(_), None) if member => format!("`{}` no longer has {shown}", list_of(key)),
        (None, _) => format!("`{key}` is now {shown}"),
        (Some(before), None) => format!("`{key}` is no longer set, it was {}", text(before)),
    }
}

fn list_of(key: &str) -> &str {
    key.split('[').next().unwrap_or(key)
}

fn direction(key: &str, before: Option<&Value>, after: Option<&Value>) -> Direction {
    let list = list_of(key);
    let grants = match list {
        "net.allowlist" | "net.presets" | "data.pii.reveal_to" | "approvals.by" => Some(true),
        "net.denylist" | "fs.deny" | "data.pii.kinds" => Some(false),
        "tools.rules" => Some(before.or(after).is_some_and(|rule| rule.get("deny").is_none())),
        "fs.mounts" => return mount_direction(before, after),
        "data.pii.own" => return own_direction(before, after),
        _ => None,
    };
    if let Some(grants) = grants {
        return moved(grants == after.is_some());
    }
    let (Some(before), Some(after)) = (before, after) else {
        return set_or_unset(key, after.is_some());
    };
    match amounts(key, before, after) {
        Some((before, after)) if before == after => Direction::Neutral,
        Some((before, after)) => moved(after > before),
        None => Direction::Neutral,
    }
}

fn moved(weaker: bool) -> Direction {
    if weaker { Direction::Weaker } else { Direction::Stricter }
}

/// Caps and protections do not apply until they are set.
fn set_or_unset(key: &str, set: bool) -> Direction {
    match key.split('.').next() {
        Some("data") => moved(!set),
        Some("tools" | "approvals") if !key.ends_with("default") => moved(!set),
        _ => Direction::Neutral,
    }
}

/// Both values of a key as numbers on a scale where more is weaker.
fn amounts(key: &str, before: &Value, after: &Value) -> Option<(i128, i128)> {
    Some((amount(key, before)?, amount(key, after)?))
}

fn amount(key: &str, value: &Value) -> Option<i128> {
    let text = text(value);
    let place = |scale: &[&str]| {
        scale
            .iter()
            .position(|word| *word == text)
            .and_then(|place| i128::try_from(place).ok())
    };
    match key {
        "net.enabled" => place(&["false", "true"]),
        "net.inspect" => place(&["all", "needed"]),
        "audit.durable" => place(&["true", "false"]),
        "tools.default" | "tools.drift" | "net.default" => place(&["deny", "ask", "allow"]),
        "data.pii.mode" => place(&["block", "alias", "off"]),
        "data.pii.inside" => place(&["alias", "real"]),
        "data.pii.names" => place(&["dictionary", "keys"]),
        "data.secrets" => place(&["redact", "off"]),
        "proc.programs" => place(&["none", "all"]),
        "proc.cpu_quota" => text.parse().ok().map(|cpus: Cpus| i128::from(cpus.as_millis())),
        key if key == "net.limits.rate" || key.starts_with("tools.limits.") => {
            text.parse().ok().map(|rate: Rate| i128::from(rate.hourly()))
        }
        key if key.starts_with("proc.")
            || key.starts_with("net.limits.")
            || key.starts_with("data.return")
            || key.starts_with("tools.")
            || key == "approvals.timeout"
            || key == "audit.session_bytes" =>
        {
            let number = value.as_i64().map(i128::from);
            let bytes = || text.parse::<Bytes>().ok().map(|bytes| i128::from(bytes.get()));
            let period = || text.parse::<Period>().ok();
            let millis = || period().and_then(|p| i128::try_from(p.get().as_millis()).ok());
            number.or_else(bytes).or_else(millis)
        }
        // A shorter retention keeps fewer records.
        "audit.keep" => {
            let kept = text.parse::<Period>().ok()?;
            i128::try_from(kept.get().as_millis()).ok().map(|kept| -kept)
        }
        _ => None,
    }
}

/// A check finds less than no check.
fn own_direction(before: Option<&Value>, after: Option<&Value>) -> Direction {
    let (Some(before), Some(after)) = (before, after) else {
        return moved(after.is_none());
    };
    match (before.get("check"), after.get("check")) {
        (None, Some(_)) => Direction::Weaker,
        (Some(_), None) => Direction::Stricter,
        _ => Direction::Neutral,
    }
}

/// A mount is weaker when its access, quota or retention grows, or when its host folder changes.
fn mount_direction(before: Option<&Value>, after: Option<&Value>) -> Direction {
    let (Some(before), Some(after)) = (before, after) else {
        return moved(after.is_some());
    };
    let field = |mount: &Value, name: &str| mount.get(name).map(text).unwrap_or_default();
    let quota = |mount: &Value| field(mount, "quota").parse::<Bytes>().map_or(0, Bytes::get);
    let scale = |mount: &Value| {
        let writable = field(mount, "access") == "rw";
        let kept = match (field(mount, "keep") == "true", field(mount, "clean") == "on_complete") {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        (writable, kept, quota(mount))
    };
    let (old, new) = (scale(before), scale(after));
    let from = field(before, "from") != field(after, "from");
    let weaker = from || (new.0 && !old.0) || new.1 > old.1 || new.2 > old.2;
    match weaker {
        true => Direction::Weaker,
        false if new == old => Direction::Neutral,
        false => Direction::Stricter,
    }
}

#[cfg(test)]
mod tests;
