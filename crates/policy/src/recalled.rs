//! What a policy says to a call of the past, of which some arguments may be hidden: aliases are kept where personal data was.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::decide::{Decision, Rule, RuleSet, Verdict, strictest};
use crate::pattern::ToolName;
use crate::policy::Policy;
use crate::tools::{Condition, Hints, History, ToolRule, meets};

/// A call that a session made, or tried to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// The tool's full name.
    pub name: String,
    /// What its server said of it.
    pub hints: Hints,
    /// Its arguments.
    pub args: Value,
    /// Arguments whose values are hidden: what stands there is not what was sent.
    pub hidden: BTreeSet<String>,
    /// Whether it was made: for the calls after it, what was refused was not called.
    pub made: bool,
}

/// What a policy says to a call of the past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// Whatever is hidden, this.
    Decided(Decision),
    /// It depends on a value that is hidden.
    Depends {
        /// The argument that has it.
        argument: String,
        /// A rule that looks at it.
        rule: Rule,
    },
}

/// Whether a rule is about a call.
enum Matches<'a> {
    No,
    Yes,
    /// That depends on this argument.
    Perhaps(&'a str),
}

/// The least and the most strict that an answer can be.
struct Range {
    least: Decision,
    most: Decision,
}

impl Policy {
    /// What it says to a call of the past, after others.
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

    /// A question of the policy's own rules may have a standing answer.
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
            // Whatever else matches makes it stricter.
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

/// The conditions that can be looked at.
fn known(when: &BTreeMap<String, Condition>, hidden: &BTreeSet<String>) -> BTreeMap<String, Condition> {
    let known = when.iter().filter(|(argument, _)| !hidden.contains(*argument));
    known
        .map(|(argument, condition)| (argument.clone(), condition.clone()))
        .collect()
}

/// An argument that is hidden and has a condition.
fn unknown<'a>(when: &'a BTreeMap<String, Condition>, hidden: &BTreeSet<String>) -> Option<&'a str> {
    when.keys()
        .map(String::as_str)
        .find(|argument| hidden.contains(*argument))
}

#[cfg(test)]
mod tests;
