//! The most an operator allows, and the only way from a draft to a policy. Every key that a draft sets is measured; every key
//! that it leaves out takes the stricter of the built-in default and the ceiling.

use std::borrow::Borrow;
use std::fmt;

use serde::Serialize;

use crate::bounds::{self, OutOfBounds};
use crate::decide::RuleSet;
use crate::draft::{Draft, FileAccess, FsDraft, MountCleanup, MountDraft};
use crate::example::FailedExample;
use crate::layer;
use crate::measure::ExcessCollector;
use crate::policy::Policy;

/// The most that a draft may request.
#[derive(Debug, Clone)]
pub struct Ceiling {
    /// The rule sets above the draft, the nearest first; empty for an unlimited ceiling.
    above: Vec<RuleSet>,
}

impl Ceiling {
    /// A ceiling from an operator's draft; keys that it leaves out take the built-in default.
    pub fn from_draft(draft: impl Borrow<Draft>) -> Self {
        let draft = Draft::builtin().layer(draft.borrow());
        Self {
            above: vec![RuleSet {
                prefix: "ceiling.".to_owned(),
                draft,
            }],
        }
    }

    /// Uses a policy in force as the ceiling for requests, together with the ceilings above it.
    pub fn from_policy(policy: &Policy) -> Self {
        Self {
            above: policy.layers().to_vec(),
        }
    }

    /// A ceiling that allows everything, for the explicit policy of the user who runs Ringfence.
    pub const fn unlimited() -> Self {
        Self { above: Vec::new() }
    }
}

/// One key that asks for more than the ceiling allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CeilingExcess {
    /// The dotted key, such as `proc.mem_limit` or `fs.mounts[/deps].quota`.
    pub key: String,
    /// The value that the draft requests, as text.
    pub asked: String,
    /// The most that the ceiling allows, as text.
    pub allowed: String,
}

impl fmt::Display for CeilingExcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` asks for {}, the ceiling allows {}",
            self.key, self.asked, self.allowed
        )
    }
}

/// The reasons why a draft was refused: every key above the ceiling, every key out of bounds and every failed example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DraftRejection {
    /// The draft's name, as its file or its request gives it.
    pub name: String,
    /// The keys that exceed the ceiling.
    pub keys: Vec<CeilingExcess>,
    /// The keys that are out of bounds under every ceiling.
    pub bounds: Vec<OutOfBounds>,
    /// The examples whose decision differs from the expected one.
    pub examples: Vec<FailedExample>,
}

impl fmt::Display for DraftRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.iter().map(ToString::to_string);
        let bounds = self.bounds.iter().map(ToString::to_string);
        let examples = self.examples.iter().map(ToString::to_string);
        let reasons = first_of(keys.chain(bounds).chain(examples), "; ");
        write!(f, "policy `{}` is refused: {reasons}", self.name)
    }
}

impl std::error::Error for DraftRejection {}

/// Keys and reasons that a refusal names; the rest is counted.
const MAX_NAMED: usize = 20;

/// The first items of a list as one text, and how many more there are.
fn first_of(mut items: impl Iterator<Item = String>, separator: &str) -> String {
    let mut named: Vec<String> = items.by_ref().take(MAX_NAMED).collect();
    let more = items.count();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named.join(separator)
}

impl DraftRejection {
    /// The stable error code: `policy.bounds` if every ceiling would refuse the draft, `policy.ceiling` if another one could
    /// allow it.
    pub fn code(&self) -> &'static str {
        if self.keys.is_empty() && !self.bounds.is_empty() {
            "policy.bounds"
        } else {
            "policy.ceiling"
        }
    }

    /// The first refused keys, separated by commas, and how many more there are; `examples` if only examples failed.
    pub fn rule(&self) -> String {
        let keys = self.keys.iter().map(|excess| excess.key.as_str());
        let keys = keys.chain(self.bounds.iter().map(|one| one.key.as_str()));
        let named = first_of(keys.map(str::to_owned), ", ");
        if named.is_empty() { "examples".to_owned() } else { named }
    }

    /// How to change the draft so that it is accepted.
    pub fn hint(&self) -> &str {
        match self.bounds.first() {
            Some(first) if self.keys.is_empty() => &first.hint,
            _ => "ask for less: leave out or lower each key that is named",
        }
    }
}

impl Draft {
    /// Makes a policy of this draft, or reports everything that exceeds the ceiling. Keys that the draft leaves out take the
    /// built-in default, but never more than the ceiling.
    pub fn under(self, ceiling: &Ceiling) -> Result<Policy, DraftRejection> {
        let mut measure = ExcessCollector::default();
        let full = match ceiling.above.first() {
            Some(top) => apply_ceiling(&self, &top.draft, &mut measure),
            None => Self::builtin().layer(&self),
        };
        let bounds = bounds::check_bounds(&full);
        let refused = |keys, examples| DraftRejection {
            name: self.name.clone(),
            keys,
            bounds: bounds.clone(),
            examples,
        };
        // Examples test the file's own rules, whatever the ceiling.
        let failed = crate::example::failed_examples(&Self::builtin().layer(&self));
        if !measure.excess.is_empty() || !bounds.is_empty() || !failed.is_empty() {
            return Err(refused(measure.excess, failed));
        }
        Policy::assemble(full, &ceiling.above).ok_or_else(|| {
            let missing = CeilingExcess {
                key: "proc".to_owned(),
                asked: "an incomplete policy".to_owned(),
                allowed: "one with every limit".to_owned(),
            };
            refused(vec![missing], Vec::new())
        })
    }
}

fn apply_ceiling(asked: &Draft, top: &Draft, measure: &mut ExcessCollector) -> Draft {
    let builtin = Draft::builtin();
    let mut full = builtin.layer(asked);
    full.fs = Some(limit_files(asked, top, measure));
    full.proc = Some(measure.limit_proc(asked, &builtin, top));
    full.net = Some(measure.limit_net(asked, &full, top));
    full.tools = Some(measure.limit_tools(asked, &full, top));
    full.data = measure.limit_data(asked, &builtin, top);
    full.approvals = measure.limit_approvals(asked, top);
    full.audit = Some(measure.limit_audit(asked, &builtin, top));
    full
}

fn limit_files(asked: &Draft, top: &Draft, measure: &mut ExcessCollector) -> FsDraft {
    let empty = FsDraft::default();
    let builtin = Draft::builtin();
    let base = builtin.fs.as_ref().unwrap_or(&empty);
    let asked = asked.fs.as_ref().unwrap_or(&empty);
    let top = top.fs.as_ref().unwrap_or(&empty);
    for mount in &asked.mounts {
        check_mount(mount, &top.mounts, measure);
    }
    let unasked: Vec<MountDraft> = base
        .mounts
        .iter()
        .map(|mount| shrink_to_ceiling(mount, &top.mounts))
        .collect();
    FsDraft {
        mounts: layer::merge_mounts(&unasked, &asked.mounts),
        deny: layer::append_missing(&layer::append_missing(&base.deny, &asked.deny), &top.deny),
    }
}

/// A built-in mount with its quota reduced to that of the ceiling's mount at the same path.
fn shrink_to_ceiling(mount: &MountDraft, top: &[MountDraft]) -> MountDraft {
    let same = |other: &&MountDraft| other.path == mount.path && other.from.is_none();
    let Some(most) = top.iter().find(same) else {
        return mount.clone();
    };
    let quota = match (mount.quota, most.quota) {
        (Some(mine), Some(most)) => Some(mine.min(most)),
        (mine, most) => mine.or(most),
    };
    MountDraft { quota, ..mount.clone() }
}

/// Checks a mount against the ceiling. A host folder must lie in one that the ceiling shows; any other mount must have the path
/// of a mount of the ceiling. Neither may have wider access, a larger quota or longer retention.
fn check_mount(mount: &MountDraft, top: &[MountDraft], measure: &mut ExcessCollector) {
    let key = |part: &str| format!("fs.mounts[{}]{part}", mount.path);
    let own = |most: &&MountDraft| most.path == mount.path && most.from.is_none();
    let most = match &mount.from {
        Some(from) => {
            let holds = |most: &&MountDraft| most.from.as_ref().is_some_and(|m| is_folder_within(from, m));
            top.iter().filter(holds).max_by_key(|most| most.access)
        }
        None => top.iter().find(own),
    };
    let Some(most) = most else {
        return match &mount.from {
            Some(from) => {
                let from = from.display().to_string();
                measure.add_excess(key(".from"), &from, "no folder that holds it");
            }
            None => measure.add_excess(key(""), "a place of its own", "none of that path"),
        };
    };
    check_mount_sizes(mount, most, measure, &key);
}

fn check_mount_sizes(
    mount: &MountDraft,
    most: &MountDraft,
    measure: &mut ExcessCollector,
    key: &dyn Fn(&str) -> String,
) {
    if mount.access > most.access {
        measure.add_excess(key(".access"), "rw", "ro");
    }
    if mount.access == FileAccess::Write {
        match (mount.quota, most.quota) {
            (Some(mine), Some(most)) if mine > most => {
                measure.add_excess(key(".quota"), &mine.to_string(), &most.to_string());
            }
            (None, Some(most)) => measure.add_excess(key(".quota"), "no limit", &most.to_string()),
            _ => {}
        }
    }
    if mount.keep == Some(true) && most.keep != Some(true) {
        measure.add_excess(key(".keep"), "true", "false");
    }
    let day = || "24h".parse().ok();
    let (mine, allowed) = (mount.keep_for.or_else(day), most.keep_for.or_else(day));
    if mount.keep == Some(true)
        && let (Some(mine), Some(allowed)) = (mine, allowed)
        && mine > allowed
    {
        measure.add_excess(key(".keep_for"), &mine.to_string(), &allowed.to_string());
    }
    if mount.keep == Some(true) && most.clean == Some(MountCleanup::OnComplete) && mount.clean != most.clean {
        measure.add_excess(key(".clean"), "never", "on_complete");
    }
}

/// Whether one folder equals another or lies below it, compared as text. A path with `..` never does, because it may lead
/// anywhere.
fn is_folder_within(folder: &std::path::Path, outer: &std::path::Path) -> bool {
    let plain = |path: &std::path::Path| !path.components().any(|part| part == std::path::Component::ParentDir);
    plain(folder) && plain(outer) && folder.starts_with(outer)
}

#[cfg(test)]
mod tests;
