//! Decides past calls, of which some arguments may be hidden: the records hold aliases in place of personal data.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::decide::{Decision, Rule, RuleSet, Verdict, strictest};
use crate::pattern::ToolName;
use crate::policy::Policy;
use crate::tools::{Condition, Hints, History, ToolRule, meets};

/// A call that a session made or attempted, as its records have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// The full name of the tool, `server.tool`.
    pub name: String,
    /// The effects that the tool's server declared.
    pub hints: Hints,
    /// The recorded arguments, with aliases in place of personal data.
    pub args: Value,
    /// The names of arguments whose recorded value is not the value that was sent.
    pub hidden: BTreeSet<String>,
    /// Whether the call was made; a refused call is not part of the history of later calls.
    pub made: bool,
}

/// The decision of a policy on a past call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// The decision is the same for every hidden value.
    Decided(Decision),
    /// The decision depends on a hidden value.
    Depends {
        /// The argument with the hidden value.
        argument: String,
        /// A rule that has a condition on it.
        rule: Rule,
    },
}

/// Whether a rule matches a past call.
enum Matches<'a> {
    No,
    Yes,
    /// The value of this hidden argument decides.
    Perhaps(&'a str),
}

/// The least strict and the strictest decision that are possible.
struct Range {
    least: Decision,
    most: Decision,
}

impl Policy {
    /// Decides a past call, with the calls before it as history.
    pub fn judge(&self, call: &Called, history: &History) -> Judged {
        let Ok(name) = call.name.parse::<ToolName>() else {
            return Judged::Decided(Decision::new(Verdict::Deny, "builtin.names"));
        };
        let mut perhaps = Vec::new();
        let mut ranges: Vec<Range> = Vec::new();
        for layer in self.layers() {
            let mut range = layer.range(&name, call, history, &mut perhaps);
            if ranges.is_empty() {
                self.answer_standing(&name, call, &mut range, &mut perhaps);
            }
            ranges.push(range);
        }
        let least = strictest(ranges.iter().map(|range| range.least.clone()));
        let most = strictest(ranges.iter().map(|range| range.most.clone()));
        match perhaps.into_iter().next() {
            Some((rule, argument)) if least.verdict() != most.verdict() => Judged::Depends { argument, rule },
            _ => Judged::Decided(least),
        }
    }

    /// Replaces a question of the policy's own rules by the decision of a standing rule that matches.
    fn answer_standing(&self, name: &ToolName, call: &Called, range: &mut Range, perhaps: &mut Vec<(Rule, String)>) {
        let asks = |decision: &Decision| decision.verdict() == Verdict::Ask;
        if !asks(&range.least) && !asks(&range.most) {
            return;
        }
        for (index, rule) in self.standing().rules().iter().enumerate() {
            let known = known(&rule.when, &call.hidden);
            let fits = rule.is_about(name, &call.args) && meets(&known, &call.args, Verdict::Allow);
            let allow = Decision::new(Verdict::Allow, crate::standing::address(index));
            if !fits {
                continue;
            }
            if asks(&range.least) {
                range.least = allow.clone();
            }
            match unknown(&rule.when, &call.hidden) {
                Some(argument) => perhaps.push((allow.rule().clone(), argument.to_owned())),
                None if asks(&range.most) => {
                    range.most = allow;
                    return;
                }
                None => return,
            }
        }
    }
}

impl RuleSet {
    fn range(&self, name: &ToolName, call: &Called, history: &History, perhaps: &mut Vec<(Rule, String)>) -> Range {
        let (mut certain, mut possible) = (Vec::new(), Vec::new());
        for (address, rule) in self.tool_rules() {
            let decision = Decision::new(rule.verdict, address);
            match rule.matches_partly(name, call, history) {
                Matches::No => {}
                Matches::Yes => certain.push(decision),
                Matches::Perhaps(argument) => {
                    perhaps.push((decision.rule().clone(), argument.to_owned()));
                    possible.push(decision);
                }
            }
        }
        if !certain.is_empty() {
            // Any other matching rule can only make the decision stricter.
            let most = strictest(certain.iter().chain(&possible).cloned());
            let least = strictest(certain);
            return Range { least, most };
        }
        let default = self.tool_default(name);
        let least = possible.iter().fold(default.clone(), |least, next| {
            if next.verdict() < least.verdict() {
                next.clone()
            } else {
                least
            }
        });
        let most = strictest(std::iter::once(default).chain(possible));
        Range { least, most }
    }
}

impl ToolRule {
    fn matches_partly(&self, name: &ToolName, call: &Called, history: &History) -> Matches<'_> {
        let known = known(&self.when, &call.hidden);
        if !self.is_about(name, call.hints) || !self.is_after(history) || !meets(&known, &call.args, self.verdict) {
            return Matches::No;
        }
        unknown(&self.when, &call.hidden).map_or(Matches::Yes, Matches::Perhaps)
    }
}

/// The conditions on arguments that are not hidden.
fn known(when: &BTreeMap<String, Condition>, hidden: &BTreeSet<String>) -> BTreeMap<String, Condition> {
    let known = when.iter().filter(|(argument, _)| !hidden.contains(*argument));
    known
        .map(|(argument, condition)| (argument.clone(), condition.clone()))
        .collect()
}

/// The first hidden argument that has a condition.
fn unknown<'a>(when: &'a BTreeMap<String, Condition>, hidden: &BTreeSet<String>) -> Option<&'a str> {
    when.keys()
        .map(String::as_str)
        .find(|argument| hidden.contains(*argument))
}

#[cfg(test)]
mod tests;
