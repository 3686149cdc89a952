//! `tools`: which tools may be called, with what arguments, and after what.

mod hint;
mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decide::RuleEffect;
use crate::draft::nullable;
use crate::host::HostPattern;
use crate::path::GuestPath;
use crate::pattern::{ToolName, ToolPattern};
use crate::text::text_type;
use crate::units::{Period, Rate};
use crate::url::parse_url_host;

pub use hint::{ToolHint, ToolHints};
pub use limits::{ToolLimitScope, ToolLimitsDraft};

/// `tools`: which tools may be called, and how often.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolsDraft {
    /// The effect when no rule matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<RuleEffect>,
    /// Rules; their order has no meaning, deny beats ask beats allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub rules: Vec<ToolRule>,
    /// The effect for a tool whose definition changed since it was pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<RuleEffect>,
    /// The most tool calls in one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// How long one call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_timeout: Option<Period>,
    /// How often tools may be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ToolLimitsDraft>,
}

impl ToolsDraft {
    /// The effects of the default and of every rule.
    pub(crate) fn effects(&self) -> impl Iterator<Item = RuleEffect> {
        self.default
            .into_iter()
            .chain(self.rules.iter().map(|rule| rule.verdict))
    }
}

/// One rule: `{ allow | ask | deny: pattern, where, after, hint, rate }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "ToolRuleDocument", into = "ToolRuleDocument")]
#[schemars(with = "ToolRuleDocument")]
#[non_exhaustive]
pub struct ToolRule {
    /// The effect of the rule.
    pub verdict: RuleEffect,
    /// The tools that the rule matches.
    pub pattern: ToolPattern,
    /// Conditions on arguments, all of which must hold.
    pub when: BTreeMap<String, ArgumentCondition>,
    /// The rule matches only after a call of such a tool in the same session.
    pub after: Option<ToolPattern>,
    /// The rule matches only tools for which their server declares this effect.
    pub hint: Option<ToolHint>,
    /// How often the rule may be used; only for allow and ask.
    pub rate: Option<Rate>,
}

/// One rule for tools; exactly one of `allow`, `ask`, `deny`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ToolRule", extend("oneOf" = [
    {"required": ["allow"]}, {"required": ["ask"]}, {"required": ["deny"]}
]))]
struct ToolRuleDocument {
    /// Tools that may be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allow: Option<ToolPattern>,
    /// Tools whose calls ask a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ask: Option<ToolPattern>,
    /// Tools that may not be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deny: Option<ToolPattern>,
    /// Conditions by argument name; an absent argument does not match.
    #[serde(
        default,
        rename = "where",
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "nullable"
    )]
    when: BTreeMap<String, ArgumentCondition>,
    /// The rule matches only after a call of such a tool in the same session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<ToolPattern>,
    /// The rule matches only tools with this effect. A tool whose server does not declare it counts unless the rule allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<ToolHint>,
    /// How often the rule may be used: that many calls at once, then evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
}

impl TryFrom<ToolRuleDocument> for ToolRule {
    type Error = &'static str;

    fn try_from(rule: ToolRuleDocument) -> Result<Self, &'static str> {
        let (verdict, pattern) = match (rule.allow, rule.ask, rule.deny) {
            (Some(pattern), None, None) => (RuleEffect::Allow, pattern),
            (None, Some(pattern), None) => (RuleEffect::Ask, pattern),
            (None, None, Some(pattern)) => (RuleEffect::Deny, pattern),
            _ => return Err("a rule has exactly one of `allow`, `ask`, `deny`"),
        };
        if rule.when.values().any(ArgumentCondition::is_empty) {
            return Err(NO_OPERATOR);
        }
        if verdict == RuleEffect::Deny && rule.rate.is_some() {
            return Err("a deny rule can have no `rate`");
        }
        Ok(Self {
            verdict,
            pattern,
            when: rule.when,
            after: rule.after,
            hint: rule.hint,
            rate: rule.rate,
        })
    }
}

impl From<ToolRule> for ToolRuleDocument {
    fn from(rule: ToolRule) -> Self {
        let on = |verdict| (rule.verdict == verdict).then(|| rule.pattern.clone());
        Self {
            allow: on(RuleEffect::Allow),
            ask: on(RuleEffect::Ask),
            deny: on(RuleEffect::Deny),
            when: rule.when,
            after: rule.after,
            hint: rule.hint,
            rate: rule.rate,
        }
    }
}

pub(crate) const NO_OPERATOR: &str = "a condition under `where` needs an operator such as `equals`";

impl ToolRule {
    /// Whether the rule matches this call.
    pub fn matches(&self, name: &ToolName, hints: ToolHints, args: &Value, history: &CallHistory) -> bool {
        self.is_about(name, hints) && self.after_holds(history) && meets_conditions(&self.when, args, self.verdict)
    }

    /// Whether a tool that `after` names was called; true without `after`.
    pub(crate) fn after_holds(&self, history: &CallHistory) -> bool {
        self.after.as_ref().is_none_or(|after| history.contains_match(after))
    }

    /// Whether the rule may match some call of this tool.
    pub(crate) fn is_about(&self, name: &ToolName, hints: ToolHints) -> bool {
        self.pattern.matches(name) && self.hint.is_none_or(|hint| hints.satisfies_rule(hint, self.verdict))
    }
}

/// Whether the arguments of a call meet all conditions of a rule with this effect.
pub(crate) fn meets_conditions(when: &BTreeMap<String, ArgumentCondition>, args: &Value, verdict: RuleEffect) -> bool {
    when.iter().all(|(argument, condition)| {
        let value = args.get(argument).filter(|value| !value.is_null());
        value.is_some_and(|value| condition.holds(value, verdict))
    })
}

/// A condition on one argument; all operators that are present must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
#[non_exhaustive]
pub struct ArgumentCondition {
    /// Exactly this JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// One of these values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Value>>,
    /// A path at or below this folder; an ambiguous path is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under: Option<ConditionFolder>,
    /// A host, or a URL on such a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostPattern>,
    /// A number of at most this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<serde_json::Number>,
    /// A text that matches this regular expression from beginning to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<FullMatchRegex>,
}

/// The result of one operator; `Unclear` if it does not apply to the value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConditionResult {
    Yes,
    No,
    Unclear,
}

impl From<bool> for ConditionResult {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

impl ArgumentCondition {
    /// A condition without operators, which no document may have.
    pub(crate) const fn none() -> Self {
        Self {
            equals: None,
            one_of: None,
            under: None,
            host: None,
            max: None,
            matches: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            equals,
            one_of,
            under,
            host,
            max,
            matches,
        } = self;
        equals.is_none() && one_of.is_none() && under.is_none() && host.is_none() && max.is_none() && matches.is_none()
    }

    /// An unclear result never helps an allow rule, and always helps an ask or deny rule. Of a list, all elements must meet the
    /// condition to allow, and any one suffices to ask or deny.
    fn holds(&self, value: &Value, verdict: RuleEffect) -> bool {
        let allow = verdict == RuleEffect::Allow;
        let one = |value: &Value| {
            self.evaluate(value).all(|holds| match holds {
                ConditionResult::Yes => true,
                ConditionResult::No => false,
                ConditionResult::Unclear => !allow,
            })
        };
        let plain = self.evaluate(value).all(|holds| holds == ConditionResult::Yes);
        match value.as_array() {
            _ if plain => true,
            Some(list) if allow => !list.is_empty() && list.iter().all(one),
            Some(list) => list.iter().any(one),
            None => one(value),
        }
    }

    fn evaluate<'a>(&'a self, value: &'a Value) -> impl Iterator<Item = ConditionResult> + 'a {
        let text = |judge: &dyn Fn(&str) -> ConditionResult| value.as_str().map_or(ConditionResult::Unclear, judge);
        let answers = [
            self.equals
                .as_ref()
                .map(|wanted| ConditionResult::from(wanted == value)),
            self.one_of
                .as_ref()
                .map(|wanted| ConditionResult::from(wanted.contains(value))),
            self.under
                .as_ref()
                .map(|folder| text(&|path| folder.contains_path(path))),
            self.host.as_ref().map(|pattern| {
                text(&|host| match parse_url_host(host) {
                    Ok(host) => pattern.matches(&host).into(),
                    Err(_) => ConditionResult::Unclear,
                })
            }),
            self.max.as_ref().map(|most| check_max(value, most)),
            self.matches
                .as_ref()
                .map(|expression| text(&|text| expression.matches(text).into())),
        ];
        answers.into_iter().flatten()
    }
}

fn check_max(value: &Value, most: &serde_json::Number) -> ConditionResult {
    if let (Some(value), Some(most)) = (value.as_i64(), most.as_i64()) {
        return (value <= most).into();
    }
    match (value.as_f64(), most.as_f64()) {
        (Some(value), Some(most)) => (value <= most).into(),
        _ => ConditionResult::Unclear,
    }
}

/// A folder in a condition; a trailing slash is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionFolder(Option<GuestPath>);

impl ConditionFolder {
    fn contains_path(&self, text: &str) -> ConditionResult {
        let path = match text {
            "/" => return self.0.is_none().into(),
            text => text.parse::<GuestPath>(),
        };
        match (path, &self.0) {
            (Err(_), _) => ConditionResult::Unclear,
            (Ok(_), None) => ConditionResult::Yes,
            (Ok(path), Some(folder)) => path.below(folder).is_some().into(),
        }
    }
}

impl FromStr for ConditionFolder {
    type Err = crate::path::PathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "/" => Ok(Self(None)),
            text => text.strip_suffix('/').unwrap_or(text).parse().map(Some).map(Self),
        }
    }
}

impl fmt::Display for ConditionFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(path) => write!(f, "{path}/"),
            None => f.write_str("/"),
        }
    }
}

/// A regular expression that must match the whole text; matching takes linear time.
#[derive(Debug, Clone)]
pub struct FullMatchRegex {
    text: String,
    regex: Regex,
}

impl FullMatchRegex {
    fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl PartialEq for FullMatchRegex {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// A regular expression that does not compile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{text}` is not a regular expression that can be used: {}", last_error_line(.source))]
pub struct FullMatchRegexError {
    /// The expression as it was given.
    text: String,
    source: regex::Error,
}

/// The engine's message has several lines; the last one states the error.
pub(crate) fn last_error_line(error: &regex::Error) -> String {
    let message = error.to_string();
    let last = message.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

impl FromStr for FullMatchRegex {
    type Err = FullMatchRegexError;

    fn from_str(text: &str) -> Result<Self, FullMatchRegexError> {
        // The expression is compiled alone first, so that `a)|(b` cannot break out of the anchors.
        let build = |pattern: &str| {
            let regex = regex::RegexBuilder::new(pattern).size_limit(1 << 18).build();
            regex.map_err(|source| FullMatchRegexError {
                text: text.to_owned(),
                source,
            })
        };
        build(text)?;
        let regex = build(&format!(r"\A(?:{text})\z"))?;
        Ok(Self {
            text: text.to_owned(),
            regex,
        })
    }
}

impl fmt::Display for FullMatchRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The tools that a session has called so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallHistory(BTreeSet<ToolName>);

impl CallHistory {
    /// A history without calls.
    pub const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// Adds the tool of a call.
    pub fn record(&mut self, name: ToolName) {
        self.0.insert(name);
    }

    fn contains_match(&self, pattern: &ToolPattern) -> bool {
        self.0.iter().any(|name| pattern.matches(name))
    }
}

text_type!(
    ConditionFolder,
    "An absolute folder; paths that can be read in two ways never count as below it."
);
text_type!(FullMatchRegex, "A regular expression for the whole text.");

#[cfg(test)]
mod tests;
