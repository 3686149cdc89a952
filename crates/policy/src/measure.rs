//! Measures what a draft asks for against a ceiling, key by key.

use std::cmp::Ordering;
use std::fmt::{self, Display};

use crate::ceiling::CeilingExcess;
use crate::data::{DataDraft, PiiDraft, PiiKind, ReturnDraft};
use crate::decide::{RuleEffect, allow_rules};
use crate::draft::{ApprovalsDraft, Approver, AuditDraft, Draft, ProcDraft};
use crate::layer::append_missing;
use crate::net::{HostRule, NetDraft, NetLimitsDraft, Scheme};
use crate::tools::{ToolLimitsDraft, ToolRule, ToolsDraft};
use crate::units::Rate;

/// Collects every key that exceeds the ceiling.
#[derive(Debug, Default)]
pub(crate) struct ExcessCollector {
    pub(crate) excess: Vec<CeilingExcess>,
}

/// Which end of a scale is the stricter one.
#[derive(Clone, Copy)]
enum StricterEnd {
    Less,
    More,
}

impl StricterEnd {
    fn is_exceeded<T: PartialOrd>(self, asked: &T, most: &T) -> bool {
        match self {
            Self::Less => asked > most,
            Self::More => asked < most,
        }
    }
}

/// A rate ordered by permissiveness: a rate that exceeds another in any way is the greater.
#[derive(Clone, Copy, PartialEq)]
struct RateOrder(Rate);

impl PartialOrd for RateOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.0.exceeds(other.0), other.0.exceeds(self.0)) {
            (true, _) => Some(Ordering::Greater),
            (false, true) => Some(Ordering::Less),
            (false, false) => Some(Ordering::Equal),
        }
    }
}

impl Display for RateOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ExcessCollector {
    pub(crate) fn add_excess(&mut self, key: impl Into<String>, asked: &str, allowed: &str) {
        let (asked, allowed) = (asked.to_owned(), allowed.to_owned());
        self.excess.push(CeilingExcess {
            key: key.into(),
            asked,
            allowed,
        });
    }

    /// Returns the requested value, and records an excess if the ceiling forbids it. Without a request, the stricter of default
    /// and ceiling applies.
    fn limit_value<T: PartialOrd + Copy>(
        &mut self,
        key: &str,
        stricter: StricterEnd,
        [asked, default, most]: [Option<T>; 3],
        show: impl Fn(T) -> String,
    ) -> Option<T> {
        match (asked, most) {
            (Some(asked), Some(most)) if stricter.is_exceeded(&asked, &most) => {
                self.add_excess(key, &show(asked), &show(most));
                Some(most)
            }
            (Some(asked), _) => Some(asked),
            (None, Some(most)) => Some(match default {
                Some(default) if !stricter.is_exceeded(&default, &most) => default,
                _ => most,
            }),
            (None, None) => default,
        }
    }

    fn number<T: PartialOrd + Copy + Display>(&mut self, key: &str, values: [Option<T>; 3]) -> Option<T> {
        self.limit_value(key, StricterEnd::Less, values, |value| value.to_string())
    }

    fn limit_mode<T: PartialOrd + Copy + serde::Serialize>(&mut self, key: &str, values: [Option<T>; 3]) -> Option<T> {
        self.limit_value(key, StricterEnd::More, values, serialized_name)
    }

    pub(crate) fn limit_proc(&mut self, asked: &Draft, builtin: &Draft, top: &Draft) -> ProcDraft {
        let of = |draft: &Draft| draft.proc.clone().unwrap_or_default();
        let [a, b, t] = [of(asked), of(builtin), of(top)];
        macro_rules! least {
            ($field:ident) => {
                self.number(
                    concat!("proc.", stringify!($field)),
                    [a.$field, b.$field, t.$field],
                )
            };
        }
        ProcDraft {
            cpu_quota: least!(cpu_quota),
            mem_limit: least!(mem_limit),
            wall_timeout: least!(wall_timeout),
            cpu_time: least!(cpu_time),
            lifetime: least!(lifetime),
            fork_limit: least!(fork_limit),
            open_files: least!(open_files),
            output: least!(output),
            programs: self.limit_mode("proc.programs", [a.programs, b.programs, t.programs]),
        }
    }

    pub(crate) fn limit_net(&mut self, asked: &Draft, full: &Draft, top: &Draft) -> NetDraft {
        let of = |draft: &Draft| draft.net.clone().unwrap_or_default();
        let (asked, full, top) = (of(asked), of(full), of(top));
        if asked.enabled == Some(true) && top.enabled != Some(true) {
            self.add_excess("net.enabled", "true", "false");
        }
        let default = [asked.default, None, Some(top.default.unwrap_or(RuleEffect::Deny))];
        let default = self.limit_mode("net.default", default);
        for (key, rule) in allow_rules(&asked) {
            if !is_rule_covered(rule, &top) {
                let shown = serde_json::to_string(rule).unwrap_or_default();
                self.add_excess(key, &shown, "no rule that contains it");
            }
        }
        // An open default of the ceiling applies only to a draft that requests one.
        let default = asked.default.and(default);
        let limits = Some(self.limit_net_limits(&asked, &top));
        let builtin = Draft::builtin().net.unwrap_or_default();
        let inspect = self.limit_mode("net.inspect", [asked.inspect, builtin.inspect, top.inspect]);
        NetDraft {
            default,
            inspect,
            limits,
            ..full
        }
    }

    fn limit_net_limits(&mut self, asked: &NetDraft, top: &NetDraft) -> NetLimitsDraft {
        let of = |net: &NetDraft| net.limits.clone().unwrap_or_default();
        let builtin = Draft::builtin().net.unwrap_or_default();
        let [a, b, t] = [of(asked), of(&builtin), of(top)];
        let rate = [a.rate, b.rate, t.rate].map(|rate| rate.map(RateOrder));
        NetLimitsDraft {
            connections: self.number("net.limits.connections", [a.connections, b.connections, t.connections]),
            rate: self.number("net.limits.rate", rate).map(|often| often.0),
            bytes: self.number("net.limits.bytes", [a.bytes, b.bytes, t.bytes]),
        }
    }

    pub(crate) fn limit_tools(&mut self, asked: &Draft, full: &Draft, top: &Draft) -> ToolsDraft {
        let of = |draft: &Draft| draft.tools.clone().unwrap_or_default();
        let (asked, full, top) = (of(asked), of(full), of(top));
        let builtin = of(&Draft::builtin());
        let most = top.default.unwrap_or(RuleEffect::Deny);
        let default = [asked.default, full.default, Some(most)];
        let default = self.limit_mode("tools.default", default);
        for (index, rule) in asked.rules.iter().enumerate() {
            self.check_tool_rule(index, rule, &top.rules, most);
        }
        let drift = [asked.drift, None, Some(top.drift.unwrap_or(RuleEffect::Ask))];
        let drift = self.limit_mode("tools.drift", drift);
        ToolsDraft {
            default,
            rules: full.rules,
            drift: drift.filter(|_| asked.drift.or(top.drift).is_some()),
            max_calls: self.number("tools.max_calls", [asked.max_calls, builtin.max_calls, top.max_calls]),
            call_timeout: self.number(
                "tools.call_timeout",
                [asked.call_timeout, builtin.call_timeout, top.call_timeout],
            ),
            limits: self.limit_tool_limits(asked.limits, top.limits),
        }
    }

    fn limit_tool_limits(
        &mut self,
        asked: Option<ToolLimitsDraft>,
        top: Option<ToolLimitsDraft>,
    ) -> Option<ToolLimitsDraft> {
        let (Some(a), Some(t)) = (&asked, &top) else {
            return asked.or(top);
        };
        let mut least = |key: &str, asked: Option<Rate>, most: Option<Rate>| {
            let values = [asked, None, most].map(|rate| rate.map(RateOrder));
            self.number(&format!("tools.limits.{key}"), values).map(|often| often.0)
        };
        Some(ToolLimitsDraft {
            tenant: least("tenant", a.tenant, t.tenant),
            session: least("session", a.session, t.session),
            server: least("server", a.server, t.server),
            tool: least("tool", a.tool, t.tool),
        })
    }

    /// Conditions are not compared: each call is decided by the ceiling's rules as well.
    fn check_tool_rule(&mut self, index: usize, rule: &ToolRule, top: &[ToolRule], default: RuleEffect) {
        if rule.verdict == RuleEffect::Deny {
            return;
        }
        let key = format!("tools.rules[{index}]");
        let asked = format!("{} `{}`", rule.verdict, rule.pattern);
        let containing = |above: &&ToolRule| above.verdict != RuleEffect::Deny && above.pattern.contains(&rule.pattern);
        let above: Vec<&ToolRule> = top.iter().filter(containing).collect();
        if above.is_empty() && default == RuleEffect::Deny {
            return self.add_excess(key, &asked, "no pattern that contains it");
        }
        let Some(rate) = rule.rate else { return };
        let within = |above: &&ToolRule| above.rate.is_none_or(|most| !rate.exceeds(most));
        if !above.is_empty() && !above.iter().any(within) {
            let most = above.iter().find_map(|above| above.rate).map(|rate| rate.to_string());
            self.add_excess(format!("{key}.rate"), &rate.to_string(), &most.unwrap_or_default());
        }
    }

    pub(crate) fn limit_data(&mut self, asked: &Draft, builtin: &Draft, top: &Draft) -> Option<DataDraft> {
        let drafts = [asked, builtin, top];
        if drafts.iter().all(|draft| draft.data.is_none()) {
            return None;
        }
        let [asked, builtin, top] = drafts.map(|draft| draft.data.clone().unwrap_or_default());
        Some(DataDraft {
            pii: self.limit_pii(asked.pii, builtin.pii, top.pii),
            secrets: self.limit_mode("data.secrets", [asked.secrets, builtin.secrets, top.secrets]),
            returned: self.limit_return(asked.returned, builtin.returned, top.returned),
        })
    }

    fn limit_pii(
        &mut self,
        asked: Option<PiiDraft>,
        builtin: Option<PiiDraft>,
        top: Option<PiiDraft>,
    ) -> Option<PiiDraft> {
        let drafts = [asked, builtin, top];
        if drafts.iter().all(Option::is_none) {
            return None;
        }
        let [asked, builtin, top] = drafts.map(Option::unwrap_or_default);
        let kinds = self.limit_pii_kinds(asked.kinds, builtin.kinds, top.kinds);
        for (index, pattern) in asked.reveal_to.iter().enumerate() {
            if !top.reveal_to.iter().any(|above| above.contains(pattern)) {
                let key = format!("data.pii.reveal_to[{index}]");
                self.add_excess(key, &format!("`{pattern}`"), "no pattern that contains it");
            }
        }
        // A request could choose an expression that gives every letter an alias, and any tool that echoes would then reveal them.
        for (index, kind) in asked.own.iter().enumerate() {
            if !top.own.contains(kind) {
                let key = format!("data.pii.own[{index}]");
                self.add_excess(
                    key,
                    &format!("`{}`", kind.name),
                    "only kinds that the ceiling itself has",
                );
            }
        }
        Some(PiiDraft {
            mode: self.limit_mode("data.pii.mode", [asked.mode, builtin.mode, top.mode]),
            inside: self.limit_mode("data.pii.inside", [asked.inside, builtin.inside, top.inside]),
            names: self.limit_mode("data.pii.names", [asked.names, builtin.names, top.names]),
            kinds,
            reveal_to: asked.reveal_to,
            own: append_missing(&top.own, &asked.own),
        })
    }

    /// A request must name every kind of the ceiling. Without a request, the kinds of default and ceiling apply together.
    fn limit_pii_kinds(
        &mut self,
        asked: Option<Vec<PiiKind>>,
        builtin: Option<Vec<PiiKind>>,
        top: Option<Vec<PiiKind>>,
    ) -> Option<Vec<PiiKind>> {
        match (asked, top) {
            (Some(kinds), Some(needed)) if !needed.iter().all(|kind| kinds.contains(kind)) => {
                self.add_excess(
                    "data.pii.kinds",
                    &serialized_name(kinds),
                    &format!("at least {}", serialized_name(&needed)),
                );
                Some(needed)
            }
            (Some(kinds), _) => Some(kinds),
            (None, Some(needed)) => Some(append_missing(&builtin.unwrap_or_default(), &needed)),
            (None, None) => builtin,
        }
    }

    fn limit_return(
        &mut self,
        asked: Option<ReturnDraft>,
        builtin: Option<ReturnDraft>,
        top: Option<ReturnDraft>,
    ) -> Option<ReturnDraft> {
        let drafts = [asked, builtin, top];
        if drafts.iter().all(Option::is_none) {
            return None;
        }
        let [asked, builtin, top] = drafts.map(Option::unwrap_or_default);
        Some(ReturnDraft {
            bytes: self.number("data.return.bytes", [asked.bytes, builtin.bytes, top.bytes]),
            rows: self.number("data.return.rows", [asked.rows, builtin.rows, top.rows]),
        })
    }

    pub(crate) fn limit_approvals(&mut self, asked: &Draft, top: &Draft) -> Option<ApprovalsDraft> {
        if asked.approvals.is_none() && top.approvals.is_none() {
            return None;
        }
        let of = |draft: &Draft| draft.approvals.clone().unwrap_or_default();
        let (asked, top) = (of(asked), of(top));
        let most = top.by.clone().unwrap_or_else(|| vec![Approver::Inbox]);
        for approver in asked.by.iter().flatten().filter(|approver| !most.contains(approver)) {
            self.add_excess("approvals.by", &serialized_name(approver), &serialized_name(&most));
        }
        Some(ApprovalsDraft {
            timeout: self.number("approvals.timeout", [asked.timeout, None, top.timeout]),
            by: asked.by.or(top.by),
        })
    }

    /// The operator decides what the journal records: a request may make it more durable, but never change how much is recorded.
    pub(crate) fn limit_audit(&mut self, asked: &Draft, builtin: &Draft, top: &Draft) -> AuditDraft {
        let of = |draft: &Draft| draft.audit.clone().unwrap_or_default();
        let [asked, builtin, top] = [of(asked), of(builtin), of(top)];
        let durable = [asked.durable, builtin.durable, top.durable];
        let most = top.output.or(builtin.output);
        if let (Some(asked), Some(most)) = (asked.output, most)
            && asked != most
        {
            self.add_excess("audit.output", &serialized_name(asked), &serialized_name(most));
        }
        // A shorter retention would let a request delete its own records; a longer one would fill the operator's disk.
        let keep = top.keep.or(builtin.keep);
        if let (Some(asked), Some(allowed)) = (asked.keep, keep)
            && asked != allowed
        {
            self.add_excess("audit.keep", &asked.to_string(), &allowed.to_string());
        }
        AuditDraft {
            durable: self.limit_mode("audit.durable", durable),
            output: most,
            keep,
            session_bytes: self.number(
                "audit.session_bytes",
                [asked.session_bytes, builtin.session_bytes, top.session_bytes],
            ),
        }
    }
}

/// Whether one allow rule of the ceiling, or its open default, covers a requested rule.
fn is_rule_covered(rule: &HostRule, top: &NetDraft) -> bool {
    let open = top.default.is_some_and(|default| default != RuleEffect::Deny)
        && rule.addresses.is_empty()
        && rule
            .allowed_ports()
            .iter()
            .all(|port| *port == rule.scheme.unwrap_or(Scheme::Https).port());
    open || allow_rules(top).any(|(_, above)| above.contains(rule))
}

/// A value as a policy file writes it.
pub(crate) fn serialized_name<T: serde::Serialize>(value: T) -> String {
    let text = serde_json::to_string(&value).unwrap_or_default();
    text.replace('"', "")
}
