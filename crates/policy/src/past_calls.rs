//! Decides past calls, of which some arguments may be hidden: the records hold aliases in place of personal data.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::decide::{Decision, RuleEffect, RuleRef, RuleSet, strictest};
use crate::pattern::ToolName;
use crate::policy::Policy;
use crate::tools::{ArgumentCondition, CallHistory, ToolHints, ToolRule, meets_conditions};

/// A call that a session made or attempted, as its records have it.
#[derive(Debug, Clone, PartialEq)]
pub struct RedactedCall {
    /// The full name of the tool, `server.tool`.
    pub name: String,
    /// The effects that the tool's server declared.
    pub hints: ToolHints,
    /// The recorded arguments, with aliases in place of personal data.
    pub args: Value,
    /// The names of arguments whose recorded value is not the value that was sent.
    pub hidden: BTreeSet<String>,
    /// Whether the call was made; a refused call is not part of the history of later calls.
    pub made: bool,
}

/// The decision of a policy on a past call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PastCallDecision {
    /// The decision is the same for every hidden value.
    Decided(Decision),
    /// The decision depends on a hidden value.
    Depends {
        /// The argument with the hidden value.
        argument: String,
        /// A rule that has a condition on it.
        rule: RuleRef,
    },
}

/// Whether a rule matches a past call.
enum PartialMatch<'a> {
    No,
    Yes,
    /// The value of this hidden argument decides.
    Perhaps(&'a str),
}

/// The least strict and the strictest decision that are possible.
struct DecisionRange {
    least: Decision,
    most: Decision,
}

impl Policy {
    /// Decides a past call, with the calls before it as history.
    pub fn decide_past_call(&self, call: &RedactedCall, history: &CallHistory) -> PastCallDecision {
        let Ok(name) = call.name.parse::<ToolName>() else {
            return PastCallDecision::Decided(Decision::new(RuleEffect::Deny, "builtin.names"));
        };
        let mut perhaps = Vec::new();
        let mut ranges: Vec<DecisionRange> = Vec::new();
        for layer in self.layers() {
            let mut range = layer.decision_range(&name, call, history, &mut perhaps);
            if ranges.is_empty() {
                self.apply_standing_rules(&name, call, &mut range, &mut perhaps);
            }
            ranges.push(range);
        }
        let least = strictest(ranges.iter().map(|range| range.least.clone()));
        let most = strictest(ranges.iter().map(|range| range.most.clone()));
        match perhaps.into_iter().next() {
            Some((rule, argument)) if least.effect() != most.effect() => PastCallDecision::Depends { argument, rule },
            _ => PastCallDecision::Decided(least),
        }
    }

    /// Replaces a question of the policy's own rules by the decision of a standing rule that matches.
    fn apply_standing_rules(
        &self,
        name: &ToolName,
        call: &RedactedCall,
        range: &mut DecisionRange,
        perhaps: &mut Vec<(RuleRef, String)>,
    ) {
        let asks = |decision: &Decision| decision.effect() == RuleEffect::Ask;
        if !asks(&range.least) && !asks(&range.most) {
            return;
        }
        for (index, rule) in self.standing_rules().rules().iter().enumerate() {
            let known = visible_conditions(&rule.when, &call.hidden);
            let fits = rule.is_about(name, &call.args) && meets_conditions(&known, &call.args, RuleEffect::Allow);
            let allow = Decision::new(RuleEffect::Allow, crate::standing_rules::rule_address(index));
            if !fits {
                continue;
            }
            if asks(&range.least) {
                range.least = allow.clone();
            }
            match hidden_argument(&rule.when, &call.hidden) {
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
    fn decision_range(
        &self,
        name: &ToolName,
        call: &RedactedCall,
        history: &CallHistory,
        perhaps: &mut Vec<(RuleRef, String)>,
    ) -> DecisionRange {
        let (mut certain, mut possible) = (Vec::new(), Vec::new());
        for (address, rule) in self.tool_rules() {
            let decision = Decision::new(rule.verdict, address);
            match rule.matches_partly(name, call, history) {
                PartialMatch::No => {}
                PartialMatch::Yes => certain.push(decision),
                PartialMatch::Perhaps(argument) => {
                    perhaps.push((decision.rule().clone(), argument.to_owned()));
                    possible.push(decision);
                }
            }
        }
        if !certain.is_empty() {
            // Any other matching rule can only make the decision stricter.
            let most = strictest(certain.iter().chain(&possible).cloned());
            let least = strictest(certain);
            return DecisionRange { least, most };
        }
        let default = self.tool_default(name);
        let least = possible.iter().fold(default.clone(), |least, next| {
            if next.effect() < least.effect() {
                next.clone()
            } else {
                least
            }
        });
        let most = strictest(std::iter::once(default).chain(possible));
        DecisionRange { least, most }
    }
}

impl ToolRule {
    fn matches_partly(&self, name: &ToolName, call: &RedactedCall, history: &CallHistory) -> PartialMatch<'_> {
        let known = visible_conditions(&self.when, &call.hidden);
        if !self.is_about(name, call.hints)
            || !self.after_holds(history)
            || !meets_conditions(&known, &call.args, self.verdict)
        {
            return PartialMatch::No;
        }
        hidden_argument(&self.when, &call.hidden).map_or(PartialMatch::Yes, PartialMatch::Perhaps)
    }
}

/// The conditions on arguments that are not hidden.
fn visible_conditions(
    when: &BTreeMap<String, ArgumentCondition>,
    hidden: &BTreeSet<String>,
) -> BTreeMap<String, ArgumentCondition> {
    let known = when.iter().filter(|(argument, _)| !hidden.contains(*argument));
    known
        .map(|(argument, condition)| (argument.clone(), condition.clone()))
        .collect()
}

/// The first hidden argument that has a condition.
fn hidden_argument<'a>(when: &'a BTreeMap<String, ArgumentCondition>, hidden: &BTreeSet<String>) -> Option<&'a str> {
    when.keys()
        .map(String::as_str)
        .find(|argument| hidden.contains(*argument))
}

#[cfg(test)]
mod tests;
