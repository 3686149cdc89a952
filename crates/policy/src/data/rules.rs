//! What holds for data once every layer and ceiling has spoken: of each key the strictest word, of lists all members.

use std::num::NonZeroU32;

use super::{DataDraft, OwnKind, PiiDraft, PiiInside, PiiKind, PiiMode, PiiNames, Secrets};
use crate::layer::add;
use crate::pattern::{ToolName, ToolPattern};
use crate::policy::Policy;
use crate::units::Bytes;

/// What happens to data on its way in and out, complete.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DataRules {
    /// What happens to personal data.
    pub pii: PiiMode,
    /// What the program inside sees of it.
    pub inside: PiiInside,
    /// How names of people are found.
    pub names: PiiNames,
    /// The kinds that are looked for.
    pub kinds: Vec<PiiKind>,
    /// The operator's own kinds, looked for whatever `kinds` says.
    pub own: Vec<OwnKind>,
    /// What happens to secrets.
    pub secrets: Secrets,
    /// The most bytes of a value that come back.
    pub bytes: Option<Bytes>,
    /// The most rows of a list that come back.
    pub rows: Option<NonZeroU32>,
    /// The list of each layer; a tool must be in all of them.
    reveal_to: Vec<Vec<ToolPattern>>,
}

impl DataRules {
    /// What holds where nothing is written.
    pub fn unwritten() -> DataRules {
        DataRules {
            pii: PiiMode::Alias,
            inside: PiiInside::Alias,
            names: PiiNames::Keys,
            kinds: PiiKind::UNWRITTEN.to_vec(),
            own: Vec::new(),
            secrets: Secrets::Redact,
            bytes: None,
            rows: None,
            reveal_to: Vec::new(),
        }
    }

    /// Whether a tool gets the real values: the policy names it, and so does every ceiling.
    pub fn reveals(&self, tool: &ToolName) -> bool {
        let named = |list: &Vec<ToolPattern>| list.iter().any(|pattern| pattern.matches(tool));
        // What a skill does with a value is up to whoever wrote it.
        !tool.is_skill() && !self.reveal_to.is_empty() && self.reveal_to.iter().all(named)
    }
}

impl Policy {
    /// What holds for data. Where nothing is written, the stricter word holds.
    pub fn data_rules(&self) -> DataRules {
        let drafts: Vec<&DataDraft> = self
            .layers()
            .iter()
            .filter_map(|layer| layer.draft.data.as_ref())
            .collect();
        let pii: Vec<&PiiDraft> = drafts.iter().filter_map(|data| data.pii.as_ref()).collect();
        let returned = || drafts.iter().filter_map(|data| data.returned.as_ref());
        let kinds = pii.iter().filter_map(|pii| pii.kinds.clone());
        let kinds = kinds.reduce(|all, more| add(&all, &more));
        let own = pii.iter().fold(Vec::new(), |all, pii| add(&all, &pii.own));
        let lists = self.layers().iter().map(|layer| {
            let pii = layer.draft.data.as_ref().and_then(|data| data.pii.as_ref());
            pii.map(|pii| pii.reveal_to.clone()).unwrap_or_default()
        });
        let unwritten = DataRules::unwritten();
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

/// Of all that was written, the last on the scale.
fn strictest<T: Ord>(written: impl Iterator<Item = Option<T>>) -> Option<T> {
    written.flatten().max()
}
