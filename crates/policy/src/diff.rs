//! The differences between two policies, described for people, and whether the sandbox became weaker.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::draft::Draft;
use crate::policy::Policy;
use crate::units::{ByteSize, CpuCount, Period, Rate};

/// The subject of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeTopic {
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
pub enum ChangeDirection {
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
pub struct PolicyChange {
    /// The dotted key, with the member of a list in brackets.
    pub key: String,
    /// The value before, if there was one.
    pub before: Option<String>,
    /// The value after, if there is one.
    pub after: Option<String>,
    /// The subject of the change.
    pub topic: ChangeTopic,
    /// A sentence that describes the change.
    pub sentence: String,
    /// Whether the policy allows more or less than before.
    pub direction: ChangeDirection,
}

impl fmt::Display for PolicyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.direction {
            ChangeDirection::Weaker => "weaker  ",
            ChangeDirection::Stricter => "stricter",
            ChangeDirection::Neutral => "changed ",
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
pub fn diff(before: &impl AsRef<Draft>, after: &impl AsRef<Draft>) -> Vec<PolicyChange> {
    let (before, after) = (flatten_draft(before.as_ref()), flatten_draft(after.as_ref()));
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let mut changes: Vec<PolicyChange> = keys
        .into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| describe_change(key, before.get(key), after.get(key)))
        .collect();
    changes.sort_by(|a, b| (a.direction, a.topic, &a.key).cmp(&(b.direction, b.topic, &b.key)));
    changes
}

/// Every key of a draft with its plain value. Members of unordered lists (rules, hosts, globs) are part of the key; a mount is
/// identified by its path.
fn flatten_draft(draft: &Draft) -> BTreeMap<String, Value> {
    let full = Draft {
        examples: Vec::new(),
        ..Draft::builtin().layer(draft)
    };
    let mut facts = BTreeMap::new();
    if let Ok(mut value) = serde_json::to_value(&full) {
        value.sort_all_objects();
        flatten_value(String::new(), value, &mut facts);
    }
    facts
}

fn flatten_value(key: String, value: Value, facts: &mut BTreeMap<String, Value>) {
    match value {
        // A rule or a mount is one value; sections are flattened.
        Value::Object(map) if !key.ends_with(']') => {
            for (name, value) in map {
                let key = if key.is_empty() { name } else { format!("{key}.{name}") };
                flatten_value(key, value, facts);
            }
        }
        Value::Array(list) => {
            for item in list {
                let name = match item.get("path").and_then(Value::as_str) {
                    Some(path) if key == "fs.mounts" => path.to_owned(),
                    _ if key == "data.pii.own" => custom_kind_key(&item),
                    _ => display_text(&item),
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
fn custom_kind_key(item: &Value) -> String {
    let field = |name: &str| item.get(name).map(display_text).unwrap_or_default();
    format!("{} {}", field("name"), field("pattern"))
}

fn describe_change(key: &str, before: Option<&Value>, after: Option<&Value>) -> PolicyChange {
    let topic = change_topic(key, before.or(after));
    let direction = change_direction(key, before, after);
    PolicyChange {
        key: key.to_owned(),
        before: before.map(display_text),
        after: after.map(display_text),
        topic,
        sentence: change_sentence(key, topic, before, after),
        direction,
    }
}

fn change_topic(key: &str, value: Option<&Value>) -> ChangeTopic {
    let section = key.split(['.', '[']).next().unwrap_or_default();
    match section {
        "fs" if key.starts_with("fs.deny") => ChangeTopic::Hidden,
        "fs" => ChangeTopic::Mount,
        "net" if key.starts_with("net.limits.") => ChangeTopic::Limit,
        "net" if value.is_some_and(|rule| rule.get("addresses").is_some()) => ChangeTopic::PrivateReach,
        "net" => ChangeTopic::HostReach,
        "proc" => ChangeTopic::Limit,
        "tools" if key.starts_with("tools.limits.") => ChangeTopic::Limit,
        "tools" => ChangeTopic::Tool,
        "data" => ChangeTopic::Data,
        "approvals" => ChangeTopic::Approval,
        "audit" => ChangeTopic::Audit,
        _ => ChangeTopic::Environment,
    }
}

/// A value as people read it: strings without quotes, anything else as JSON.
fn display_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn change_sentence(key: &str, topic: ChangeTopic, before: Option<&Value>, after: Option<&Value>) -> String {
    let shown = after.or(before).map(display_text).unwrap_or_default();
    let member = key.ends_with(']');
    match (before, after) {
        (Some(before), Some(after)) if topic == ChangeTopic::Mount => {
            format!("mount changes from {} to {}", display_text(before), display_text(after))
        }
        (Some(before), Some(after)) => {
            format!(
                "`{key}` changes from {} to {}",
                display_text(before),
                display_text(after)
            )
        }
        (None, Some(_)) if member => match topic {
            ChangeTopic::HostReach if key.starts_with("net.denylist") => format!("newly denied: {shown}"),
            ChangeTopic::HostReach => format!("new host reach: {shown}"),
            ChangeTopic::PrivateReach => format!("new reach into a private network: {shown}"),
            ChangeTopic::Tool => format!("new tool rule: {shown}"),
            ChangeTopic::Mount => format!("new mount: {shown}"),
            ChangeTopic::Hidden => format!("newly hidden: {shown}"),
            ChangeTopic::Data if key.starts_with("data.pii.own") => format!("newly looked for: {shown}"),
            ChangeTopic::Limit
            | ChangeTopic::Environment
            | ChangeTopic::Data
            | ChangeTopic::Approval
            | ChangeTopic::Audit => {
                format!("`{key}` is new")
            }
        },
        (Some(_), None) if member => format!("`{}` no longer has {shown}", list_name(key)),
        (None, _) => format!("`{key}` is now {shown}"),
        (Some(before), None) => format!("`{key}` is no longer set, it was {}", display_text(before)),
    }
}

fn list_name(key: &str) -> &str {
    key.split('[').next().unwrap_or(key)
}

fn change_direction(key: &str, before: Option<&Value>, after: Option<&Value>) -> ChangeDirection {
    let list = list_name(key);
    let grants = match list {
        "net.allowlist" | "net.presets" | "data.pii.reveal_to" | "approvals.by" => Some(true),
        "net.denylist" | "fs.deny" | "data.pii.kinds" => Some(false),
        "tools.rules" => Some(before.or(after).is_some_and(|rule| rule.get("deny").is_none())),
        "fs.mounts" => return mount_direction(before, after),
        "data.pii.own" => return custom_kind_direction(before, after),
        _ => None,
    };
    if let Some(grants) = grants {
        return weaker_or_stricter(grants == after.is_some());
    }
    let (Some(before), Some(after)) = (before, after) else {
        return direction_when_set(key, after.is_some());
    };
    match parse_amounts(key, before, after) {
        Some((before, after)) if before == after => ChangeDirection::Neutral,
        Some((before, after)) => weaker_or_stricter(after > before),
        None => ChangeDirection::Neutral,
    }
}

fn weaker_or_stricter(weaker: bool) -> ChangeDirection {
    if weaker {
        ChangeDirection::Weaker
    } else {
        ChangeDirection::Stricter
    }
}

/// Caps and protections do not apply until they are set.
fn direction_when_set(key: &str, set: bool) -> ChangeDirection {
    match key.split('.').next() {
        Some("data") => weaker_or_stricter(!set),
        Some("tools" | "approvals") if !key.ends_with("default") => weaker_or_stricter(!set),
        _ => ChangeDirection::Neutral,
    }
}

/// Both values of a key as numbers on a scale where more is weaker.
fn parse_amounts(key: &str, before: &Value, after: &Value) -> Option<(i128, i128)> {
    Some((parse_amount(key, before)?, parse_amount(key, after)?))
}

fn parse_amount(key: &str, value: &Value) -> Option<i128> {
    let text = display_text(value);
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
        "proc.cpu_quota" => text.parse().ok().map(|cpus: CpuCount| i128::from(cpus.as_millis())),
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
            let bytes = || text.parse::<ByteSize>().ok().map(|bytes| i128::from(bytes.get()));
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
fn custom_kind_direction(before: Option<&Value>, after: Option<&Value>) -> ChangeDirection {
    let (Some(before), Some(after)) = (before, after) else {
        return weaker_or_stricter(after.is_none());
    };
    match (before.get("check"), after.get("check")) {
        (None, Some(_)) => ChangeDirection::Weaker,
        (Some(_), None) => ChangeDirection::Stricter,
        _ => ChangeDirection::Neutral,
    }
}

/// A mount is weaker when its access, quota or retention grows, or when its host folder changes.
fn mount_direction(before: Option<&Value>, after: Option<&Value>) -> ChangeDirection {
    let (Some(before), Some(after)) = (before, after) else {
        return weaker_or_stricter(after.is_some());
    };
    let field = |mount: &Value, name: &str| mount.get(name).map(display_text).unwrap_or_default();
    let quota = |mount: &Value| field(mount, "quota").parse::<ByteSize>().map_or(0, ByteSize::get);
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
        true => ChangeDirection::Weaker,
        false if new == old => ChangeDirection::Neutral,
        false => ChangeDirection::Stricter,
    }
}

#[cfg(test)]
mod tests;
