//! Standing rules: answers that a person gave once for all later calls, in their own file `rules.yaml`. Ringfence writes the
//! file, and a person may edit it.
//!
//! A standing rule answers a question of the policy's own rules, and nothing else: it never beats a deny, and it does not affect
//! the ceilings above the policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decide::RuleEffect;
use crate::diff::{ChangeDirection, ChangeTopic, PolicyChange};
use crate::draft::{DocumentVersion, nullable};
use crate::parse::{MAX_DOCUMENT_BYTES, ParseError, escape_for_yaml, parse_document};
use crate::pattern::{ToolName, ToolPattern};
use crate::tools::{ArgumentCondition, meets_conditions};

/// The most rules in one file.
const MAX_RULES: usize = 1_000;
/// The beginning of a new file.
const FILE_HEADER: &str = "# Answers given for good with `ringfence approvals approve --always`. A rule answers what the policy asks a\n\
                    # person for; it never beats a deny or the operator's ceiling. Remove a line to be asked again.\n\
                    version: 1\nrules:\n";

/// A rule that answers a question for all later calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StandingRule {
    /// Tools that may be called without asking again.
    pub allow: ToolPattern,
    /// Conditions by argument name; an absent argument does not match.
    #[serde(
        default,
        rename = "where",
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "deserialize_conditions"
    )]
    pub when: BTreeMap<String, ArgumentCondition>,
    /// The call has no other arguments than those that `where` names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only: bool,
    /// When the answer was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The person who gave the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

fn deserialize_conditions<'de, D>(deserializer: D) -> Result<BTreeMap<String, ArgumentCondition>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let when: BTreeMap<String, ArgumentCondition> = nullable(deserializer)?;
    if when.values().any(ArgumentCondition::is_empty) {
        Err(serde::de::Error::custom(crate::tools::NO_OPERATOR))
    } else {
        Ok(when)
    }
}

impl StandingRule {
    /// A rule for one tool; `when` is the JSON form of the rule's `where`.
    pub fn new(tool: &ToolName, when: Option<&Value>) -> Result<Self, ParseError> {
        let mut rule = serde_json::json!({ "allow": tool.as_str() });
        if let Some(when) = when {
            rule["where"] = when.clone();
        }
        parse_document(&rule.to_string(), "where")
    }

    /// The same rule, limited to calls without other arguments.
    #[must_use]
    pub fn with_exact_arguments(mut self) -> Self {
        self.only = true;
        self
    }

    /// The same rule with the time and the author of the answer.
    #[must_use]
    pub fn with_origin(mut self, since: impl Into<String>, by: impl Into<String>) -> Self {
        (self.since, self.by) = (Some(since.into()), Some(by.into()));
        self
    }

    /// Whether the rule answers this call.
    pub fn answers(&self, name: &ToolName, args: &Value) -> bool {
        self.is_about(name, args) && meets_conditions(&self.when, args, RuleEffect::Allow)
    }

    /// Whether the rule may answer a call of this tool with these argument names, whatever the values.
    pub(crate) fn is_about(&self, name: &ToolName, args: &Value) -> bool {
        let known = |args: &serde_json::Map<String, Value>| args.keys().all(|name| self.when.contains_key(name));
        let fits = !self.only || args.as_object().is_some_and(known);
        fits && self.allow.matches(name)
    }

    fn is_same_rule(&self, other: &Self) -> bool {
        self.allow == other.allow && self.when == other.when && self.only == other.only
    }

    /// The rule as one line of the file.
    fn to_line(&self) -> String {
        // A struct of texts and JSON values always serializes.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("  - {}\n", escape_for_yaml(&json))
    }

    /// The rule for people, without `since` and `by`.
    fn describe(&self) -> String {
        let plain = Self {
            since: None,
            by: None,
            ..self.clone()
        };
        serde_json::to_string(&plain).unwrap_or_default()
    }
}

/// The rules of one `rules.yaml`, in its order. They are shared, because every call that they may answer compares them.
#[derive(Debug, Clone, Default)]
pub struct StandingRules(Arc<Vec<StandingRule>>);

impl PartialEq for StandingRules {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

/// `rules.yaml`: the standing rules of one data folder.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Ringfence standing answers")]
struct StandingRulesDocument {
    /// The version of the file format, 1.
    version: DocumentVersion,
    /// The standing rules, in any order.
    #[serde(default, deserialize_with = "nullable")]
    rules: Vec<StandingRule>,
}

impl StandingRules {
    /// The file's name in the data folder, and the prefix of each rule's address.
    pub const FILE: &str = "rules.yaml";

    /// Parses a file; an empty file has no rules.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let document: StandingRulesDocument = parse_document(text, Self::FILE)?;
        if document.rules.len() > MAX_RULES {
            let message = format!("there are {} rules, the most is {MAX_RULES}", document.rules.len());
            return Err(
                ParseError::for_document(Self::FILE, message).with_hint("a pattern such as `mail.*` replaces several")
            );
        }
        Ok(Self(Arc::new(document.rules)))
    }

    /// The rules in the order of the file.
    pub fn rules(&self) -> &[StandingRule] {
        &self.0
    }

    /// Appends a rule to the text of a file. Order and comments stay if the file has the layout that this program writes;
    /// otherwise the file is written anew. A rule that exists already changes nothing.
    pub fn append(text: &str, rule: &StandingRule) -> Result<String, ParseError> {
        let mut after = Self::parse(text)?;
        if after.0.iter().any(|known| known.is_same_rule(rule)) {
            return Ok(text.to_owned());
        }
        Arc::make_mut(&mut after.0).push(rule.clone());
        let mut appended = if text.trim().is_empty() {
            FILE_HEADER.to_owned()
        } else {
            text.to_owned()
        };
        if !appended.ends_with('\n') {
            appended.push('\n');
        }
        appended.push_str(&rule.to_line());
        if Self::parse(&appended).ok().as_ref() != Some(&after) {
            appended = after.to_text();
        }
        if appended.len() > MAX_DOCUMENT_BYTES {
            let message = format!(
                "the file would have {} bytes, the most is {MAX_DOCUMENT_BYTES}",
                appended.len()
            );
            return Err(
                ParseError::for_document(Self::FILE, message).with_hint("remove rules that are no longer needed")
            );
        }
        // The text is returned only if it parses to the intended rules.
        let read = Self::parse(&appended)?;
        if read == after {
            Ok(appended)
        } else {
            Err(ParseError::for_document(
                Self::FILE,
                "the rule cannot be written".to_owned(),
            ))
        }
    }

    fn to_text(&self) -> String {
        let lines = self.0.iter().map(StandingRule::to_line);
        std::iter::once(FILE_HEADER.to_owned()).chain(lines).collect()
    }

    /// The changes from these rules to others, as sentences.
    pub fn diff(&self, after: &Self) -> Vec<PolicyChange> {
        let missing = |rules: &Self, rule: &StandingRule| !rules.0.iter().any(|known| known.is_same_rule(rule));
        let change = |rule: &StandingRule, new: bool| {
            let words = rule.describe();
            let sentence = if new {
                format!("new standing answer: {words} is no longer asked for")
            } else {
                format!("a standing answer is gone: {words} is asked for again")
            };
            PolicyChange {
                key: format!("{}[{words}]", Self::FILE),
                before: (!new).then(|| words.clone()),
                after: new.then(|| words.clone()),
                topic: ChangeTopic::Tool,
                sentence,
                direction: if new {
                    ChangeDirection::Weaker
                } else {
                    ChangeDirection::Stricter
                },
            }
        };
        let added = after.0.iter().filter(|rule| missing(self, rule));
        let gone = self.0.iter().filter(|rule| missing(after, rule));
        added
            .map(|rule| change(rule, true))
            .chain(gone.map(|rule| change(rule, false)))
            .collect()
    }

    /// Whether a rule answers every call of a tool.
    pub(crate) fn answers_all(&self, name: &ToolName) -> bool {
        let mut rules = self.0.iter().filter(|rule| rule.allow.matches(name));
        rules.any(|rule| rule.when.is_empty() && !rule.only)
    }

    /// Whether a rule may answer some call of a tool.
    pub(crate) fn answers_some(&self, name: &ToolName) -> bool {
        self.0.iter().any(|rule| rule.allow.matches(name))
    }

    /// The address of the first rule that answers a call.
    pub(crate) fn answering_rule(&self, name: &ToolName, args: &Value) -> Option<String> {
        let index = self.0.iter().position(|rule| rule.answers(name, args))?;
        Some(rule_address(index))
    }
}

/// The address of the rule at an index.
pub(crate) fn rule_address(index: usize) -> String {
    format!("{}[{index}]", StandingRules::FILE)
}

/// The JSON Schema (2020-12) of `rules.yaml`.
pub fn standing_rules_schema() -> Value {
    let mut schema = schemars::schema_for!(StandingRulesDocument);
    schema.insert("$id".to_owned(), "urn:ringfence:rules:1".into());
    schema.to_value()
}

#[cfg(test)]
mod tests;
