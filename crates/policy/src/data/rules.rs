//! The effective rules for data over all layers and ceilings: the strictest value of each key, and all members of each list.

use std::num::NonZeroU32;

use super::{CustomPiiKind, DataDraft, PiiDraft, PiiInside, PiiKind, PiiMode, PiiNames, SecretMode};
use crate::layer::append_missing;
use crate::pattern::{ToolName, ToolPattern};
use crate::policy::Policy;
use crate::units::ByteSize;

/// The effective rules for data on its way in and out of the sandbox.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DataRules {
    /// What happens to personal data.
    pub pii: PiiMode,
    /// What the program in the sandbox sees of personal data.
    pub inside: PiiInside,
    /// How personal names are found.
    pub names: PiiNames,
    /// The built-in kinds that are looked for.
    pub kinds: Vec<PiiKind>,
    /// The operator's custom kinds, looked for whatever `kinds` names.
    pub own: Vec<CustomPiiKind>,
    /// What happens to secrets in everything that comes out.
    pub secrets: SecretMode,
    /// The most bytes of a returned value; `None` means no cap.
    pub bytes: Option<ByteSize>,
    /// The most rows of a returned list; `None` means no cap.
    pub rows: Option<NonZeroU32>,
    /// The `reveal_to` list of each layer; a tool must match all of them.
    reveal_to: Vec<Vec<ToolPattern>>,
}

impl DataRules {
    /// The rules that apply when no layer sets a key.
    pub fn defaults() -> DataRules {
        DataRules {
            pii: PiiMode::Alias,
            inside: PiiInside::Alias,
            names: PiiNames::Keys,
            kinds: PiiKind::DEFAULT.to_vec(),
            own: Vec::new(),
            secrets: SecretMode::Redact,
            bytes: None,
            rows: None,
            reveal_to: Vec::new(),
        }
    }

    /// Whether a tool gets the real values: the policy names it, and so does every ceiling.
    pub fn reveals(&self, tool: &ToolName) -> bool {
        let named = |list: &Vec<ToolPattern>| list.iter().any(|pattern| pattern.matches(tool));
        // A skill never gets them: its author decides what it does with a value.
        !tool.is_skill() && !self.reveal_to.is_empty() && self.reveal_to.iter().all(named)
    }
}

impl Policy {
    /// The effective rules for data. A key that no layer sets takes its strict default.
    pub fn data_rules(&self) -> DataRules {
        let drafts: Vec<&DataDraft> = self
            .layers()
            .iter()
            .filter_map(|layer| layer.draft.data.as_ref())
            .collect();
        let pii: Vec<&PiiDraft> = drafts.iter().filter_map(|data| data.pii.as_ref()).collect();
        let returned = || drafts.iter().filter_map(|data| data.returned.as_ref());
        let kinds = pii.iter().filter_map(|pii| pii.kinds.clone());
        let kinds = kinds.reduce(|all, more| append_missing(&all, &more));
        let own = pii.iter().fold(Vec::new(), |all, pii| append_missing(&all, &pii.own));
        let lists = self.layers().iter().map(|layer| {
            let pii = layer.draft.data.as_ref().and_then(|data| data.pii.as_ref());
            pii.map(|pii| pii.reveal_to.clone()).unwrap_or_default()
        });
        let unwritten = DataRules::defaults();
        DataRules {
            pii: strictest(pii.iter().map(|pii| pii.mode)).unwrap_or(unwritten.pii),
            inside: strictest(pii.iter().map(|pii| pii.inside)).unwrap_or(unwritten.inside),
            names: strictest(pii.iter().map(|pii| pii.names)).unwrap_or(unwritten.names),
            kinds: kinds.unwrap_or(unwritten.kinds),
            own,
            secrets: strictest(drafts.iter().map(|data| data.secrets)).unwrap_or(unwritten.secrets),
            bytes: returned().filter_map(|returned| returned.bytes).min(),
            rows: returned().filter_map(|returned| returned.rows).min(),
            reveal_to: lists.collect(),
        }
    }
}

/// The strictest of the values that are set.
fn strictest<T: Ord>(written: impl Iterator<Item = Option<T>>) -> Option<T> {
    written.flatten().max()
}
