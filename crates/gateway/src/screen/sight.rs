//! The redaction rules of a policy, compiled for use.

use ringfence_hygiene::{Check, Detector, Hints, Kinds, Names, Own, OwnError, Secrets, Settings};
use ringfence_policy::{
    DataRules, OwnCheck, OwnKind, PiiInside, PiiKind, PiiMode, PiiNames, Policy, Secrets as SecretRule, ToolName,
};
use serde_json::Value;

use super::ScreenError;

/// The compiled redaction rules of one policy.
#[derive(Debug)]
pub struct Sight {
    rules: DataRules,
    /// Finds personal data and secrets.
    all: Detector,
    /// Finds secrets, and no personal data.
    secrets: Detector,
}

/// What happens to findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing is detected or changed.
    Open,
    /// Findings are removed for good.
    Redact,
    /// Personal data gets aliases but stays visible; secrets are removed.
    Note,
    /// Aliases replace personal data; secrets are removed.
    Alias,
    /// Personal data withholds the whole value; secrets are removed.
    Block,
}

/// The audience of a redacted value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The program in the sandbox.
    Inside,
    /// A model outside of the sandbox.
    Outside,
    /// A person, through a form that a model may read too.
    Form,
}

impl Sight {
    pub(super) fn new(rules: DataRules) -> Result<Sight, OwnError> {
        let secrets = match rules.secrets {
            SecretRule::Redact => Secrets::Redact,
            SecretRule::Off => Secrets::Off,
        };
        let own = rules.own.iter().map(own).collect::<Result<_, _>>()?;
        let kinds = rules.kinds.iter().filter_map(|kind| Kinds::named(word(*kind)));
        let all = Detector::new(&Settings {
            kinds: kinds.fold(Kinds::none(), Kinds::and),
            names: match rules.names {
                PiiNames::Keys => Names::Keys,
                PiiNames::Dictionary => Names::Dictionary,
            },
            secrets,
            own,
        });
        let secrets = Detector::new(&Settings {
            kinds: Kinds::none(),
            names: Names::Keys,
            secrets,
            own: Vec::new(),
        });
        Ok(Sight { rules, all, secrets })
    }

    /// Compiles the rules of a policy.
    pub fn of(policy: &Policy) -> Result<Sight, ScreenError> {
        Ok(Sight::new(policy.data_rules())?)
    }

    /// Compiles the default rules, which hold where no policy says anything.
    pub fn usual() -> Result<Sight, ScreenError> {
        Ok(Sight::new(DataRules::unwritten())?)
    }

    /// Returns the arguments of a past call that a model may see without the session's aliases: `None` if programs
    /// had real values, otherwise all arguments, with null for those that contain findings.
    pub fn tellable(&self, arguments: Value) -> Option<Value> {
        if self.way(Side::Inside).0 == Way::Note {
            return None;
        }
        let Value::Object(arguments) = arguments else {
            return None;
        };
        let told = arguments.into_iter().map(|(key, value)| {
            let hides = self.hides(&key, &value);
            (key, if hides { Value::Null } else { value })
        });
        Some(told.collect())
    }

    fn hides(&self, key: &str, value: &Value) -> bool {
        let alone = serde_json::json!({ key: value });
        let is_marked = |text: &str| text.contains(['‹', '⟦']);
        is_marked(&value.to_string()) || !self.way(Side::Outside).1.find_json(&alone, &Hints::none()).is_empty()
    }

    /// Returns the data rules of the policy.
    pub fn rules(&self) -> &DataRules {
        &self.rules
    }

    /// Returns what happens to findings for this audience, and the detector to use.
    pub(super) fn way(&self, side: Side) -> (Way, &Detector) {
        match (self.rules.pii, self.rules.inside, side) {
            (PiiMode::Off, _, _) => self.only_secrets(),
            (PiiMode::Alias, PiiInside::Real, Side::Inside) => (Way::Note, &self.all),
            (PiiMode::Alias, _, _) => (Way::Alias, &self.all),
            (PiiMode::Block, _, Side::Form) => (Way::Redact, &self.all),
            (PiiMode::Block, _, _) => (Way::Block, &self.all),
        }
    }

    /// Whether keys of a value are personal data themselves, so that no type may be observed from it.
    pub(crate) fn tells_in_keys(&self, value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| self.tells_in_keys(item)),
            Value::Object(members) => members.iter().any(|(key, member)| {
                !self.all.find_value(key, None).is_empty() || key.contains('‹') || self.tells_in_keys(member)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    /// Returns the mode and the detector for secrets alone.
    pub(super) fn only_secrets(&self) -> (Way, &Detector) {
        let way = match self.rules.secrets {
            SecretRule::Redact => Way::Redact,
            SecretRule::Off => Way::Open,
        };
        (way, &self.secrets)
    }

    /// Whether the policy replaces personal data by aliases.
    pub(super) fn has_aliases(&self) -> bool {
        self.rules.pii == PiiMode::Alias
    }

    pub(super) fn reveals(&self, tool: &ToolName) -> bool {
        self.rules.reveals(tool)
    }
}

fn own(kind: &OwnKind) -> Result<Own, OwnError> {
    let check = match kind.check {
        OwnCheck::None => Check::None,
        OwnCheck::Luhn => Check::Luhn,
        OwnCheck::Mod97 => Check::Mod97,
    };
    Own::new(&kind.name, &kind.pattern, check)
}

fn word(kind: PiiKind) -> &'static str {
    match kind {
        PiiKind::Email => "email",
        PiiKind::Phone => "phone",
        PiiKind::Card => "card",
        PiiKind::Iban => "iban",
        PiiKind::Ssn => "ssn",
        PiiKind::Ip => "ip",
        PiiKind::Url => "url",
        PiiKind::Name => "name",
    }
}
