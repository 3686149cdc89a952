//! What a policy hides, ready to be looked with.

use ringfence_hygiene::{Check, Detector, Hints, Kinds, Names, Own, OwnError, Secrets, Settings};
use ringfence_policy::{
    DataRules, OwnCheck, OwnKind, PiiInside, PiiKind, PiiMode, PiiNames, Policy, Secrets as SecretRule, ToolName,
};
use serde_json::Value;

use super::ScreenError;

/// What a policy hides.
#[derive(Debug)]
pub struct Sight {
    rules: DataRules,
    /// Personal data and secrets.
    all: Detector,
    /// Secrets only.
    secrets: Detector,
}

/// What happens to what is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing is looked for.
    Open,
    /// It is blacked out for good.
    Redact,
    /// It is noted for whoever may not see it, and stays; secrets are blacked out.
    Note,
    /// Aliases take its place; secrets are blacked out.
    Alias,
    /// All of it is held back for the sake of personal data.
    Block,
}

/// Who sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The program in the sandbox.
    Inside,
    /// A model.
    Outside,
    /// A person, by a form that a model may read too.
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

    /// What a policy hides.
    pub fn of(policy: &Policy) -> Result<Sight, ScreenError> {
        Ok(Sight::new(policy.data_rules())?)
    }

    /// What is hidden where no policy says anything.
    pub fn usual() -> Result<Sight, ScreenError> {
        Ok(Sight::new(DataRules::unwritten())?)
    }

    /// What a model may be told of a past call's arguments, without the session's aliases: none where programs had real values, else
    /// all but those with something to hide.
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

    /// What holds for data.
    pub fn rules(&self) -> &DataRules {
        &self.rules
    }

    /// What happens to what is found, and what is looked for.
    pub(super) fn way(&self, side: Side) -> (Way, &Detector) {
        match (self.rules.pii, self.rules.inside, side) {
            (PiiMode::Off, _, _) => self.only_secrets(),
            (PiiMode::Alias, PiiInside::Real, Side::Inside) => (Way::Note, &self.all),
            (PiiMode::Alias, _, _) => (Way::Alias, &self.all),
            (PiiMode::Block, _, Side::Form) => (Way::Redact, &self.all),
            (PiiMode::Block, _, _) => (Way::Block, &self.all),
        }
    }

    /// Whether the keys of a value are personal data themselves, so that nothing may be learnt from them.
    pub(crate) fn tells_in_keys(&self, value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| self.tells_in_keys(item)),
            Value::Object(members) => members.iter().any(|(key, member)| {
                !self.all.find_value(key, None).is_empty() || key.contains('‹') || self.tells_in_keys(member)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    /// The same where personal data stays as it is.
    pub(super) fn only_secrets(&self) -> (Way, &Detector) {
        let way = match self.rules.secrets {
            SecretRule::Redact => Way::Redact,
            SecretRule::Off => Way::Open,
        };
        (way, &self.secrets)
    }

    /// Whether aliases stand for anything.
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
