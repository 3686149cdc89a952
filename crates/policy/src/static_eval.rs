//! Static evaluation of one tool, before any call: whether a person is asked, how often the tool may be called, and how personal
//! data is treated. Arguments and history are unknown, so results that depend on them say so.

use std::fmt;

use crate::data::{PiiInside, PiiMode};
use crate::decide::{RuleEffect, RuleRef, RuleSet};
use crate::pattern::ToolName;
use crate::policy::Policy;
use crate::tools::{ToolHints, ToolLimitScope, ToolRule};
use crate::units::Rate;

/// The static evaluation of one tool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StaticEvaluation {
    /// Whether a person is asked.
    pub approval: ApprovalRequirement,
    /// Every rate that may apply to a call.
    pub rates: Vec<ApplicableRate>,
    /// How personal data is treated; `None` if it passes unchanged.
    pub pii: Option<PiiTreatment>,
}

/// Whether a person is asked before a call that is not denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalRequirement {
    /// No call asks a person.
    Never,
    /// The arguments or earlier calls decide: the rules that ask.
    Sometimes(Vec<ConditionalRule>),
    /// Every call asks a person.
    Always,
}

/// A rule and the condition on which it applies.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConditionalRule {
    /// The address of the rule.
    pub rule: RuleRef,
    /// The condition in words, such as ``where `path` ``; empty for a rule that applies to every call.
    pub condition: String,
}

/// A rate that may apply, and the calls that it counts together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplicableRate {
    /// The most calls in one window.
    pub rate: Rate,
    /// The calls that the rate counts together.
    pub scope: RateScope,
}

/// The scope of a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateScope {
    /// The calls that a rule matches.
    Rule(ConditionalRule),
    /// The calls that a key of `tools.limits` counts together.
    Limit(ToolLimitScope),
}

/// How personal data is treated in the arguments and results of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PiiTreatment {
    /// What happens to the data.
    pub mode: PiiMode,
    /// What the program in the sandbox sees of it.
    pub inside: PiiInside,
    /// The kinds that are hidden, custom kinds last.
    pub kinds: Vec<String>,
    /// Whether the tool gets the real values in place of aliases.
    pub revealed: bool,
}

impl Policy {
    /// Evaluates a tool without arguments or history.
    pub fn evaluate_statically(&self, name: &ToolName, hints: ToolHints) -> StaticEvaluation {
        StaticEvaluation {
            approval: self.approval_requirement(name, hints),
            rates: self.applicable_rates(name, hints),
            pii: self.pii_treatment(name),
        }
    }

    /// A person is asked if any rule set asks. Standing rules replace the questions of the policy's own rules.
    fn approval_requirement(&self, name: &ToolName, hints: ToolHints) -> ApprovalRequirement {
        let mut some = Vec::new();
        for (index, layer) in self.layers().iter().enumerate() {
            let own = index == 0;
            if own && self.standing_rules().answers_all(name) {
                continue;
            }
            match layer.approval_requirement(name, hints) {
                RuleSetApproval::Always(rules) if own && self.standing_rules().answers_some(name) => some.extend(rules),
                RuleSetApproval::Always(_) => return ApprovalRequirement::Always,
                RuleSetApproval::Sometimes(rules) => some.extend(rules),
            }
        }
        if some.is_empty() {
            ApprovalRequirement::Never
        } else {
            ApprovalRequirement::Sometimes(some)
        }
    }

    fn applicable_rates(&self, name: &ToolName, hints: ToolHints) -> Vec<ApplicableRate> {
        let rules = self
            .layers()
            .iter()
            .flat_map(|layer| layer.applicable_rules(name, hints));
        let rules = rules.filter_map(|(ahead, rule)| {
            let of = RateScope::Rule(ahead);
            Some(ApplicableRate {
                rate: rule.rate?,
                scope: of,
            })
        });
        let limits = self.tool_limits().into_iter().map(|(of, _, rate)| ApplicableRate {
            rate,
            scope: RateScope::Limit(of),
        });
        rules.chain(limits).collect()
    }

    fn pii_treatment(&self, name: &ToolName) -> Option<PiiTreatment> {
        let rules = self.data_rules();
        let own = rules.own.iter().map(|own| own.name.clone());
        let kinds: Vec<String> = rules
            .kinds
            .iter()
            .map(|kind| kind.as_str().to_owned())
            .chain(own)
            .collect();
        // A skill returns data that was treated when the skill received it.
        if rules.pii == PiiMode::Off || kinds.is_empty() || name.is_skill() {
            return None;
        }
        Some(PiiTreatment {
            mode: rules.pii,
            inside: rules.inside,
            kinds,
            revealed: rules.pii == PiiMode::Alias && rules.reveals(name),
        })
    }
}

/// The questions of one rule set, with the rules that ask. `Sometimes` without a rule means never.
enum RuleSetApproval {
    Always(Vec<ConditionalRule>),
    Sometimes(Vec<ConditionalRule>),
}

impl RuleSet {
    /// Every rule that may match a call of this tool.
    fn applicable_rules(
        &self,
        name: &ToolName,
        hints: ToolHints,
    ) -> impl Iterator<Item = (ConditionalRule, &ToolRule)> {
        let rules = self.draft.tools.iter().flat_map(|tools| tools.rules.iter().enumerate());
        rules
            .filter(move |(_, rule)| rule.is_about(name, hints))
            .map(|(index, rule)| {
                let ahead = ConditionalRule {
                    rule: RuleRef::new(format!("{}tools.rules[{index}]", self.prefix)),
                    condition: condition_text(rule),
                };
                (ahead, rule)
            })
    }

    fn approval_requirement(&self, name: &ToolName, hints: ToolHints) -> RuleSetApproval {
        let about: Vec<(ConditionalRule, &ToolRule)> = self.applicable_rules(name, hints).collect();
        let any = |verdict| about.iter().any(|(_, rule)| rule.verdict == verdict);
        let always = |verdict| {
            let mut rules = about.iter().filter(|(_, rule)| rule.verdict == verdict);
            rules.any(|(ahead, _)| ahead.condition.is_empty())
        };
        // The default cannot apply if a rule matches every call.
        let default = match self.draft.tools.as_ref().and_then(|tools| tools.default) {
            _ if always(RuleEffect::Allow) || always(RuleEffect::Ask) => None,
            _ if name.is_skill() => Some(RuleEffect::Allow),
            default => default,
        };
        let unasked = !always(RuleEffect::Ask) && (any(RuleEffect::Allow) || default == Some(RuleEffect::Allow));
        let asking = about.iter().filter(|(_, rule)| rule.verdict == RuleEffect::Ask);
        let mut asking: Vec<ConditionalRule> = asking.map(|(ahead, _)| ahead.clone()).collect();
        if default == Some(RuleEffect::Ask) {
            asking.push(ConditionalRule {
                rule: RuleRef::new(format!("{}tools.default", self.prefix)),
                condition: String::new(),
            });
        }
        if unasked || asking.is_empty() {
            RuleSetApproval::Sometimes(asking)
        } else {
            RuleSetApproval::Always(asking)
        }
    }
}

/// The condition of a rule in words.
fn condition_text(rule: &ToolRule) -> String {
    let names: Vec<String> = rule.when.keys().map(|name| format!("`{name}`")).collect();
    let names = (!names.is_empty()).then(|| format!("where {}", names.join(", ")));
    let after = rule.after.as_ref().map(|pattern| format!("after `{pattern}`"));
    let parts: Vec<String> = names.into_iter().chain(after).collect();
    parts.join(" ")
}

impl fmt::Display for ApprovalRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("not required"),
            Self::Always => f.write_str("required"),
            Self::Sometimes(rules) => {
                let rules: Vec<String> = rules.iter().map(ConditionalRule::to_string).collect();
                write!(f, "may be required: {}", rules.join("; "))
            }
        }
    }
}

impl fmt::Display for ConditionalRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.condition.as_str() {
            "" => write!(f, "{}", self.rule),
            when => write!(f, "{} {when}", self.rule),
        }
    }
}

impl fmt::Display for ApplicableRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, scope: of } = self;
        match of {
            RateScope::Rule(rule) if rule.condition.is_empty() => write!(f, "{rate}"),
            RateScope::Rule(rule) => write!(f, "{rate} for some calls: {rule}"),
            RateScope::Limit(ToolLimitScope::Tool) => write!(f, "{rate} for this tool"),
            RateScope::Limit(ToolLimitScope::Server) => write!(f, "{rate} for all tools of its server"),
            RateScope::Limit(ToolLimitScope::Session) => write!(f, "{rate} for all tools"),
            RateScope::Limit(ToolLimitScope::Tenant) => write!(f, "{rate} for all tools in all sessions"),
        }
    }
}

impl fmt::Display for PiiTreatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds.join(", ");
        match (self.mode, self.inside) {
            (PiiMode::Off, _) => write!(f, "nothing is hidden"),
            (PiiMode::Alias, PiiInside::Alias) => write!(f, "results have aliases for {kinds}"),
            (PiiMode::Alias, PiiInside::Real) => write!(f, "the program's own result gets aliases for {kinds}"),
            (PiiMode::Block, _) => write!(f, "results with {kinds} are held back"),
        }?;
        if self.revealed {
            f.write_str("; gets the real values of aliases")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
