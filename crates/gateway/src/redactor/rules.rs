//! The redaction rules of a policy, compiled for use.

use ringfence_hygiene::{
    AliasOrigin, CustomCheck, CustomKind, CustomKindError, Detector, DetectorConfig, NameDetection, SchemaHints,
    SecretDetection, SensitiveKinds,
};
use ringfence_policy::{
    CustomPiiCheck, CustomPiiKind, DataRules, PiiInside, PiiKind, PiiMode, PiiNames, Policy, SecretMode as SecretRule,
    ToolName,
};
use serde_json::Value;

use super::RedactionError;

/// The compiled redaction rules of one policy.
#[derive(Debug)]
pub struct RedactionRules {
    rules: DataRules,
    /// Finds personal data and secrets.
    all: Detector,
    /// Finds secrets, and no personal data.
    secrets: Detector,
}

/// What happens to findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedactionMode {
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
pub(crate) enum Audience {
    /// The program in the sandbox, which reads what a tool says.
    Inside,
    /// The program in the sandbox, which reads what a skill says: another program, maybe of its own making.
    InsideSkill,
    /// A model outside of the sandbox.
    Outside,
    /// A person, through a form that a model may read too.
    Form,
}

impl RedactionRules {
    pub(super) fn new(rules: DataRules) -> Result<RedactionRules, CustomKindError> {
        let secrets = match rules.secrets {
            SecretRule::Redact => SecretDetection::Redact,
            SecretRule::Off => SecretDetection::Off,
        };
        let own = rules.own.iter().map(custom_kind).collect::<Result<_, _>>()?;
        let kinds = rules
            .kinds
            .iter()
            .filter_map(|kind| SensitiveKinds::from_policy_name(kind_name(*kind)));
        let all = Detector::new(&DetectorConfig {
            kinds: kinds.fold(SensitiveKinds::none(), SensitiveKinds::union),
            names: match rules.names {
                PiiNames::Keys => NameDetection::Keys,
                PiiNames::Dictionary => NameDetection::Dictionary,
            },
            secrets,
            own,
        });
        let secrets = Detector::new(&DetectorConfig {
            kinds: SensitiveKinds::none(),
            names: NameDetection::Keys,
            secrets,
            own: Vec::new(),
        });
        Ok(RedactionRules { rules, all, secrets })
    }

    /// Compiles the rules of a policy.
    pub fn from_policy(policy: &Policy) -> Result<RedactionRules, RedactionError> {
        Ok(RedactionRules::new(policy.data_rules())?)
    }

    /// Compiles the default rules, which hold where no policy says anything.
    pub fn default_rules() -> Result<RedactionRules, RedactionError> {
        Ok(RedactionRules::new(DataRules::defaults())?)
    }

    /// Returns the arguments of a past call that a model may see without the session's aliases: `None` if programs
    /// had real values, otherwise all arguments, with null for those that contain findings.
    pub fn shareable_arguments(&self, arguments: Value) -> Option<Value> {
        if self.mode_for(Audience::Inside).0 == RedactionMode::Note {
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
        is_marked(&value.to_string())
            || !self
                .mode_for(Audience::Outside)
                .1
                .find_json(&alone, &SchemaHints::none())
                .is_empty()
    }

    /// Returns the data rules of the policy.
    pub fn rules(&self) -> &DataRules {
        &self.rules
    }

    /// Returns what happens to findings for this audience, and the detector to use.
    pub(super) fn mode_for(&self, side: Audience) -> (RedactionMode, &Detector) {
        match (self.rules.pii, self.rules.inside, side) {
            (PiiMode::Off, _, _) => self.secrets_only_mode(),
            (PiiMode::Alias, PiiInside::Real, Audience::Inside | Audience::InsideSkill) => {
                (RedactionMode::Note, &self.all)
            }
            (PiiMode::Alias, _, _) => (RedactionMode::Alias, &self.all),
            (PiiMode::Block, _, Audience::Form) => (RedactionMode::Redact, &self.all),
            (PiiMode::Block, _, _) => (RedactionMode::Block, &self.all),
        }
    }

    /// Returns whose aliases this audience is shown. Where the program has no values of answers, what it says itself
    /// has aliases of its own, so that it cannot compare a guess with the alias of an answer.
    pub(super) fn alias_origin(&self, side: Audience) -> AliasOrigin {
        match (self.rules.inside, side) {
            (PiiInside::Alias, Audience::InsideSkill | Audience::Outside | Audience::Form) => AliasOrigin::Program,
            (PiiInside::Alias, Audience::Inside) | (PiiInside::Real, _) => AliasOrigin::Answer,
        }
    }

    /// Whether keys of a value are personal data themselves, so that no type may be observed from it.
    pub(crate) fn has_personal_keys(&self, value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| self.has_personal_keys(item)),
            Value::Object(members) => members.iter().any(|(key, member)| {
                !self.all.find_value(key, None).is_empty() || key.contains('‹') || self.has_personal_keys(member)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    /// Returns the mode and the detector for secrets alone.
    pub(super) fn secrets_only_mode(&self) -> (RedactionMode, &Detector) {
        let way = match self.rules.secrets {
            SecretRule::Redact => RedactionMode::Redact,
            SecretRule::Off => RedactionMode::Open,
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

fn custom_kind(kind: &CustomPiiKind) -> Result<CustomKind, CustomKindError> {
    let check = match kind.check {
        CustomPiiCheck::None => CustomCheck::None,
        CustomPiiCheck::Luhn => CustomCheck::Luhn,
        CustomPiiCheck::Mod97 => CustomCheck::Mod97,
    };
    CustomKind::new(&kind.name, &kind.pattern, check)
}

fn kind_name(kind: PiiKind) -> &'static str {
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
