//! Static evaluation of one tool, before any call: whether a person is asked, how often the tool may be called, and how personal
//! data is treated. Arguments and history are unknown, so results that depend on them say so.

use std::fmt;

use crate::data::{PiiInside, PiiMode};
use crate::decide::{Rule, RuleSet, Verdict};
use crate::pattern::ToolName;
use crate::policy::Policy;
use crate::tools::{Hints, LimitOf, ToolRule};
use crate::units::Rate;

/// The static evaluation of one tool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Outlook {
    /// Whether a person is asked.
    pub approval: Approval,
    /// Every rate that may apply to a call.
    pub rates: Vec<RateAhead>,
    /// How personal data is treated; `None` if it passes unchanged.
    pub pii: Option<PiiAhead>,
}

/// Whether a person is asked before a call that is not denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// No call asks a person.
    Never,
    /// The arguments or earlier calls decide: the rules that ask.
    Sometimes(Vec<RuleAhead>),
    /// Every call asks a person.
    Always,
}

/// A rule and the condition on which it applies.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleAhead {
    /// The address of the rule.
    pub rule: Rule,
    /// The condition in words, such as ``where `path` ``; empty for a rule that applies to every call.
    pub when: String,
}

/// A rate that may apply, and the calls that it counts together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateAhead {
    /// The most calls in one window.
    pub rate: Rate,
    /// The calls that the rate counts together.
    pub of: RateOf,
}

/// The scope of a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateOf {
    /// The calls that a rule matches.
    Rule(RuleAhead),
    /// The calls that a key of `tools.limits` counts together.
    Limit(LimitOf),
}

/// How personal data is treated in the arguments and results of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PiiAhead {
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
    pub fn outlook(&self, name: &ToolName, hints: Hints) -> Outlook {
        Outlook {
            approval: self.approval_ahead(name, hints),
            rates: self.rates_ahead(name, hints),
            pii: self.pii_ahead(name),
        }
    }

    /// A person is asked if any rule set asks. Standing rules replace the questions of the policy's own rules.
    fn approval_ahead(&self, name: &ToolName, hints: Hints) -> Approval {
        let mut some = Vec::new();
        for (index, layer) in self.layers().iter().enumerate() {
            let own = index == 0;
            if own && self.standing().answers_all(name) {
                continue;
            }
            match layer.approval_ahead(name, hints) {
                Ahead::Always(rules) if own && self.standing().answers_some(name) => some.extend(rules),
                Ahead::Always(_) => return Approval::Always,
                Ahead::Sometimes(rules) => some.extend(rules),
            }
        }
        if some.is_empty() {
            Approval::Never
        } else {
            Approval::Sometimes(some)
        }
    }

    fn rates_ahead(&self, name: &ToolName, hints: Hints) -> Vec<RateAhead> {
        let rules = self.layers().iter().flat_map(|layer| layer.about(name, hints));
        let rules = rules.filter_map(|(ahead, rule)| {
            let of = RateOf::Rule(ahead);
            Some(RateAhead { rate: rule.rate?, of })
        });
        let limits = self.tool_limits().into_iter().map(|(of, _, rate)| RateAhead {
            rate,
            of: RateOf::Limit(of),
        });
        rules.chain(limits).collect()
    }

    fn pii_ahead(&self, name: &ToolName) -> Option<PiiAhead> {
        let rules = self.data_rules();
        let own = rules.own.iter().map(|own| own.name.clone());
        let kinds: Vec<String> = rules
            .kinds
            .iter()
            .map(|kind| kind.word().to_owned())
            .chain(own)
            .collect();
        // A skill returns data that was treated when the skill received it.
        if rules.pii == PiiMode::Off || kinds.is_empty() || name.is_skill() {
            return None;
        }
        Some(PiiAhead {
            mode: rules.pii,
            inside: rules.inside,
            kinds,
            revealed: rules.pii == PiiMode::Alias && rules.reveals(name),
        })
    }
}

/// The questions of one rule set, with the rules that ask. `Sometimes` without a rule means never.
enum Ahead {
    Always(Vec<RuleAhead>),
    Sometimes(Vec<RuleAhead>),
}

impl RuleSet {
    /// Every rule that may match a call of this tool.
    fn about(&self, name: &ToolName, hints: Hints) -> impl Iterator<Item = (RuleAhead, &ToolRule)> {
        let rules = self.draft.tools.iter().flat_map(|tools| tools.rules.iter().enumerate());
        rules
            .filter(move |(_, rule)| rule.is_about(name, hints))
            .map(|(index, rule)| {
                let ahead = RuleAhead {
                    rule: Rule::new(format!("{}tools.rules[{index}]", self.prefix)),
                    when: when(rule),
                };
                (ahead, rule)
            })
    }

    fn approval_ahead(&self, name: &ToolName, hints: Hints) -> Ahead {
        let about: Vec<(RuleAhead, &ToolRule)> = self.about(name, hints).collect();
        let any = |verdict| about.iter().any(|(_, rule)| rule.verdict == verdict);
        let always = |verdict| {
            let mut rules = about.iter().filter(|(_, rule)| rule.verdict == verdict);
            rules.any(|(ahead, _)| ahead.when.is_empty())
        };
        // The default cannot apply if a rule matches every call.
        let default = match self.draft.tools.as_ref().and_then(|tools| tools.default) {
            _ if always(Verdict::Allow) || always(Verdict::Ask) => None,
            _ if name.is_skill() => Some(Verdict::Allow),
            default => default,
        };
        let unasked = !always(Verdict::Ask) && (any(Verdict::Allow) || default == Some(Verdict::Allow));
        let asking = about.iter().filter(|(_, rule)| rule.verdict == Verdict::Ask);
        let mut asking: Vec<RuleAhead> = asking.map(|(ahead, _)| ahead.clone()).collect();
        if default == Some(Verdict::Ask) {
            asking.push(RuleAhead {
                rule: Rule::new(format!("{}tools.default", self.prefix)),
                when: String::new(),
            });
        }
        if unasked || asking.is_empty() {
            Ahead::Sometimes(asking)
        } else {
            Ahead::Always(asking)
        }
    }
}

/// The condition of a rule in words.
fn when(rule: &ToolRule) -> String {
    let names: Vec<String> = rule.when.keys().map(|name| format!("`{name}`")).collect();
    let names = (!names.is_empty()).then(|| format!("where {}", names.join(", ")));
    let after = rule.after.as_ref().map(|pattern| format!("after `{pattern}`"));
    let parts: Vec<String> = names.into_iter().chain(after).collect();
    parts.join(" ")
}

impl fmt::Display for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("not required"),
            Self::Always => f.write_str("required"),
            Self::Sometimes(rules) => {
                let rules: Vec<String> = rules.iter().map(RuleAhead::to_string).collect();
                write!(f, "may be required: {}", rules.join("; "))
            }
        }
    }
}

impl fmt::Display for RuleAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when.as_str() {
            "" => write!(f, "{}", self.rule),
            when => write!(f, "{} {when}", self.rule),
        }
    }
}

impl fmt::Display for RateAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, of } = self;
        match of {
            RateOf::Rule(rule) if rule.when.is_empty() => write!(f, "{rate}"),
            RateOf::Rule(rule) => write!(f, "{rate} for some calls: {rule}"),
            RateOf::Limit(LimitOf::Tool) => write!(f, "{rate} for this tool"),
            RateOf::Limit(LimitOf::Server) => write!(f, "{rate} for all tools of its server"),
            RateOf::Limit(LimitOf::Session) => write!(f, "{rate} for all tools"),
            RateOf::Limit(LimitOf::Tenant) => write!(f, "{rate} for all tools in all sessions"),
        }
    }
}

impl fmt::Display for PiiAhead {
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
