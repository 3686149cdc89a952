//! A policy in force: complete, under its ceiling, and the only type that makes decisions.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::data::DataDraft;
use crate::decide::{Decision, RuleEffect, RuleRef, RuleSet, strictest};
use crate::draft::{AllowedPrograms, ApprovalsDraft, Draft, FileAccess, JournalOutput, MountCleanup};
use crate::glob::Glob;
use crate::net::{HostRequest, NetDraft, NetLimits};
use crate::path::{GuestPath, RelPath};
use crate::pattern::ToolName;
use crate::standing_rules::StandingRules;
use crate::tools::{CallHistory, ToolHints, ToolLimitScope, ToolLimitsDraft, ToolRule, ToolsDraft};
use crate::units::{ByteSize, CpuCount, Rate};

/// What a session may do. It can only be made by [`Draft::under`]:
///
/// ```
/// use ringfence_policy::{Ceiling, Draft};
/// let policy = Draft::builtin().under(&Ceiling::unlimited()).unwrap();
/// assert_eq!(policy.limits().processes, 64);
/// ```
///
/// ```compile_fail,E0277
/// fn needs_default<T: Default>() {}
/// needs_default::<ringfence_policy::Policy>();
/// ```
///
/// ```compile_fail,E0451
/// use ringfence_policy::{Ceiling, Draft, Policy};
/// let policy = Draft::builtin().under(&Ceiling::unlimited()).unwrap();
/// let wider = Policy { name: "mine".into(), ..policy };
/// ```
///
/// ```compile_fail,E0277
/// fn from_text<'de, T: serde::Deserialize<'de>>() {}
/// from_text::<ringfence_policy::Policy>();
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    name: String,
    digest: String,
    document_bytes: usize,
    /// The policy's own rules first, then those of each ceiling.
    layers: Vec<RuleSet>,
    fs: FsPolicy,
    env: BTreeMap<String, String>,
    net: NetDraft,
    net_limits: NetLimits,
    limits: ProgramLimits,
    tools: ToolsDraft,
    audit: AuditPolicy,
    /// The standing rules, which are not part of the digest.
    standing: StandingRules,
}

/// The mounts of the sandbox, and which host files are hidden.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FsPolicy {
    /// The mounts of the sandbox.
    pub mounts: Vec<Mount>,
    /// Globs of host files that are hidden in every mount from the host.
    pub deny: Vec<Glob>,
}

/// One mount in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mount {
    /// The path of the mount in the sandbox.
    pub path: GuestPath,
    /// Whether programs may write to the mount.
    pub access: FileAccess,
    /// The most it may hold; `None` for mounts without a quota.
    pub quota: Option<ByteSize>,
    /// Whether its content outlives sandbox and process.
    pub keep: bool,
    /// How long its content is kept, if `keep` is set.
    pub keep_for: Duration,
    /// When kept content is removed before that time.
    pub clean: MountCleanup,
    /// The host folder that is shown there, as written; `None` if the mount is not a host folder.
    pub from: Option<PathBuf>,
}

/// The limits on programs of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramLimits {
    /// How many processors one sandbox may use.
    pub cpu: CpuCount,
    /// Memory of all processes of a sandbox together.
    pub memory: ByteSize,
    /// Wall-clock time of one execution.
    pub wall: Duration,
    /// Processor time of one execution.
    pub cpu_time: Duration,
    /// The longest life of a sandbox.
    pub lifetime: Duration,
    /// Processes and threads that exist at the same time.
    pub processes: u32,
    /// Open files of each process.
    pub open_files: u32,
    /// How much is kept of each of stdout, stderr and value.
    pub output: ByteSize,
    /// Which programs may run besides code on the engines.
    pub programs: AllowedPrograms,
}

/// What the journal records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditPolicy {
    /// Whether each event is on disk before the action proceeds.
    pub durable: bool,
    /// How much of stdout and stderr the journal records.
    pub output: JournalOutput,
    /// How long the records of a session are kept after its last use.
    pub keep: Duration,
    /// The most bytes of events that one session may write.
    pub session_bytes: ByteSize,
}

/// How long a mount's content is kept if `keep_for` is not written.
const DEFAULT_KEEP_FOR: Duration = Duration::from_hours(24);

impl Policy {
    /// Completes a draft that was already checked; `None` if a limit is missing.
    pub(crate) fn assemble(full: Draft, ceilings: &[RuleSet]) -> Option<Self> {
        let fs = FsPolicy {
            mounts: full.fs.iter().flat_map(|fs| &fs.mounts).map(build_mount).collect(),
            deny: full.fs.iter().flat_map(|fs| &fs.deny).cloned().collect(),
        };
        let audit = full.audit.as_ref()?;
        let audit = AuditPolicy {
            durable: audit.durable?,
            output: audit.output?,
            keep: audit.keep?.get(),
            session_bytes: audit.session_bytes?,
        };
        let limits = build_limits(&full)?;
        let above = ceilings.iter().enumerate().map(|(index, above)| RuleSet {
            prefix: match index {
                0 => "ceiling.".to_owned(),
                index => format!("ceiling{}.", index + 1),
            },
            draft: above.draft.clone(),
        });
        let own = RuleSet {
            prefix: String::new(),
            draft: full,
        };
        let layers: Vec<RuleSet> = std::iter::once(own).chain(above).collect();
        let full = &layers[0].draft;
        let (digest, document_bytes) = digest_layers(&layers)?;
        Some(Self {
            name: full.name.clone(),
            digest,
            document_bytes,
            fs,
            env: full.env.clone().unwrap_or_default(),
            net_limits: full.net.as_ref()?.complete_limits()?,
            net: full.net.clone()?,
            limits,
            tools: full.tools.clone()?,
            audit,
            layers,
            standing: StandingRules::default(),
        })
    }

    /// The name of the policy in errors and events.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The approximate memory in bytes: patterns are stored character by character, some of them twice.
    pub fn memory_bytes(&self) -> usize {
        const BYTES_PER_CHARACTER: usize = 40;
        self.document_bytes.saturating_mul(BYTES_PER_CHARACTER)
    }

    /// The blake3 digest, in hexadecimal, of all rules in force, including those of the ceilings.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The mounts, and which host files are hidden.
    pub const fn fs(&self) -> &FsPolicy {
        &self.fs
    }

    /// The environment of programs.
    pub const fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// The complete `net` section.
    pub const fn net(&self) -> &NetDraft {
        &self.net
    }

    /// How much of the network a session may use.
    pub const fn net_limits(&self) -> NetLimits {
        self.net_limits
    }

    /// The limits on programs of a session.
    pub const fn limits(&self) -> &ProgramLimits {
        &self.limits
    }

    /// The complete `tools` section.
    pub const fn tools(&self) -> &ToolsDraft {
        &self.tools
    }

    /// The `data` section; `None` if the policy has none.
    pub fn data(&self) -> Option<&DataDraft> {
        self.layers[0].draft.data.as_ref()
    }

    /// The `approvals` section; `None` if the policy has none.
    pub fn approvals(&self) -> Option<&ApprovalsDraft> {
        self.layers[0].draft.approvals.as_ref()
    }

    /// What the journal records.
    pub const fn audit(&self) -> &AuditPolicy {
        &self.audit
    }

    /// The complete draft that this policy was made from, without its ceilings.
    pub fn to_draft(&self) -> Draft {
        self.layers[0].draft.clone()
    }

    /// Everything in force as JSON: name, digest, the complete policy, and the ceilings above it.
    pub fn to_json(&self) -> Value {
        let ceilings: Vec<&Draft> = self.layers[1..].iter().map(|layer| &layer.draft).collect();
        json!({
            "name": self.name,
            "digest": self.digest,
            "policy": self.layers[0].draft,
            "ceilings": ceilings,
        })
    }

    /// Every host folder that this policy or a ceiling above it shows, as written. The globs of `fs.deny` are relative to them.
    pub fn shown_folders(&self) -> impl Iterator<Item = &Path> {
        let drafts = self.layers.iter().filter_map(|layer| layer.draft.fs.as_ref());
        drafts.flat_map(|fs| fs.mounts.iter().filter_map(|mount| mount.from.as_deref()))
    }

    pub(crate) fn layers(&self) -> &[RuleSet] {
        &self.layers
    }

    /// Decides a tool call with these arguments, given the effects that its server declares and the tools that were called
    /// before.
    pub fn decide_tool(&self, name: &str, hints: ToolHints, args: &Value, history: &CallHistory) -> Decision {
        match name.parse::<ToolName>() {
            Ok(name) => strictest(self.tool_decisions(&name, hints, args, history)),
            Err(_) => Decision::new(RuleEffect::Deny, "builtin.names"),
        }
    }

    /// The decision of each rule set. A standing rule may replace a question of the policy's own rules.
    pub(crate) fn tool_decisions(
        &self,
        name: &ToolName,
        hints: ToolHints,
        args: &Value,
        history: &CallHistory,
    ) -> impl Iterator<Item = Decision> {
        let answers = self
            .layers
            .iter()
            .map(move |layer| strictest(layer.decide_tool(name, hints, args, history)));
        answers.enumerate().map(|(index, answer)| match answer {
            Decision::Ask(_) if index == 0 => match self.standing.answering_rule(name, args) {
                Some(standing) => Decision::new(RuleEffect::Allow, standing),
                None => answer,
            },
            Decision::Allow(_) | Decision::Ask(_) | Decision::Deny(_) => answer,
        })
    }

    /// The same policy with standing rules, which answer the questions of its own rules. Name and digest stay the same, because
    /// standing rules are not part of the policy.
    #[must_use]
    pub fn with_standing_rules(&self, rules: StandingRules) -> Self {
        Self {
            standing: rules,
            ..self.clone()
        }
    }

    /// The standing rules of this policy.
    pub const fn standing_rules(&self) -> &StandingRules {
        &self.standing
    }

    /// Whether some call of this tool may be allowed or may ask a person: only then is the tool shown.
    pub fn shows_tool(&self, name: &ToolName, hints: ToolHints) -> bool {
        self.layers.iter().all(|layer| {
            let tools = layer.draft.tools.as_ref();
            let rules = tools.map(|tools| tools.rules.as_slice()).unwrap_or_default();
            let about = |rule: &&ToolRule| rule.is_about(name, hints);
            let always_denied = rules
                .iter()
                .filter(about)
                .any(|rule| rule.verdict == RuleEffect::Deny && rule.when.is_empty() && rule.after.is_none());
            let opened = name.is_skill()
                || rules.iter().filter(about).any(|rule| rule.verdict != RuleEffect::Deny)
                || tools
                    .and_then(|tools| tools.default)
                    .is_some_and(|v| v != RuleEffect::Deny);
            opened && !always_denied
        })
    }

    /// Whether a rule of the policy or of a ceiling may ask a person.
    pub fn may_ask(&self) -> bool {
        let mut all = self.layers.iter().filter_map(|layer| layer.draft.tools.as_ref());
        all.any(|tools| tools.effects().any(|verdict| verdict == RuleEffect::Ask))
    }

    /// Whether a call may ask a person because the tool's definition changed.
    pub fn may_ask_for_drift(&self) -> bool {
        let may_call = self.tools.effects().any(|verdict| verdict != RuleEffect::Deny);
        may_call && self.tools.drift.unwrap_or(RuleEffect::Ask) == RuleEffect::Ask
    }

    /// The rates of every rule that matches the call; all of them apply at once.
    pub fn rates(
        &self,
        name: &ToolName,
        hints: ToolHints,
        args: &Value,
        history: &CallHistory,
    ) -> Vec<(RuleRef, Rate)> {
        let rules = self.layers.iter().flat_map(|layer| {
            let rules = layer
                .draft
                .tools
                .iter()
                .flat_map(|tools| tools.rules.iter().enumerate());
            rules.map(move |(index, rule)| (layer, index, rule))
        });
        let rated = rules.filter_map(|(layer, index, rule)| {
            let rate = rule.rate.filter(|_| rule.matches(name, hints, args, history))?;
            Some((RuleRef::new(format!("{}tools.rules[{index}]", layer.prefix)), rate))
        });
        rated.collect()
    }

    /// The rates that may have counted a past call, which the rule `by` allowed and whose arguments are no longer known. A rule
    /// that cannot have matched is left out: the strictest of the matching rules decided, and of equals the first.
    pub fn rates_of_past_call(&self, name: &ToolName, by: &str) -> Vec<(RuleRef, Rate)> {
        let rated = self.layers.iter().flat_map(|layer| {
            let rules = layer
                .draft
                .tools
                .as_ref()
                .map(|tools| tools.rules.as_slice())
                .unwrap_or_default();
            let address = move |index: usize| format!("{}tools.rules[{index}]", layer.prefix);
            let decided = (0..rules.len()).find(|index| address(*index) == by);
            let decided = decided.and_then(|index| Some((rules.get(index)?.verdict, index)));
            let was_about = move |index: usize, rule: &ToolRule| {
                let earlier = |(verdict, place)| rule.verdict > verdict || (rule.verdict == verdict && index < place);
                rule.pattern.matches(name) && !decided.is_some_and(earlier)
            };
            let rules = rules
                .iter()
                .enumerate()
                .filter(move |(index, rule)| was_about(*index, rule));
            rules.filter_map(move |(index, rule)| Some((RuleRef::new(address(index)), rule.rate?)))
        });
        rated.collect()
    }

    /// How often tools may be called, whatever their rules; all limits apply at once.
    pub fn tool_limits(&self) -> Vec<(ToolLimitScope, RuleRef, Rate)> {
        let limits = self.layers.iter().flat_map(|layer| {
            let limits = layer.draft.tools.iter().flat_map(|tools| &tools.limits);
            limits
                .flat_map(ToolLimitsDraft::each)
                .map(|(of, rate)| (&layer.prefix, of, rate))
        });
        limits
            .map(|(prefix, of, rate)| (of, RuleRef::new(format!("{prefix}tools.limits.{}", of.name())), rate))
            .collect()
    }

    /// Decides a request to a host before its name is resolved.
    pub fn decide_host(&self, request: &HostRequest) -> Decision {
        strictest(self.layers.iter().flat_map(|layer| layer.decide_host(request)))
    }

    /// Decides whether this address of the request's host may be dialled. The caller must ask for every address that the name
    /// resolves to.
    pub fn decide_address(&self, address: IpAddr, request: &HostRequest) -> Decision {
        let host = self.layers.iter().flat_map(|layer| layer.decide_host(request));
        let resolved = self.layers.iter().map(|layer| layer.decide_address(address, request));
        strictest(host.chain(resolved))
    }

    /// Decides whether a name that the request's host is an alias of (`CNAME`) is forbidden. A name that no denylist entry
    /// matches is allowed, because the host itself was allowed already.
    pub fn decide_alias(&self, request: &HostRequest) -> Decision {
        strictest(self.layers.iter().map(|layer| layer.decide_alias(request)))
    }

    /// Whether a decision on this host needs the method and path of each request.
    pub fn needs_inspection(&self, request: &HostRequest) -> bool {
        self.layers.iter().any(|layer| layer.needs_inspection(request))
    }

    /// Whether TLS to this host is terminated, so that the requests inside are visible.
    pub fn terminates_tls(&self, request: &HostRequest) -> bool {
        self.layers
            .iter()
            .any(|layer| layer.terminates_all_tls() || layer.needs_inspection(request))
    }

    /// Decides whether a host file may be seen, by its path relative to the folder that is shown.
    pub fn decide_host_file(&self, path: &str) -> Decision {
        match path.parse::<RelPath>() {
            Ok(path) => strictest(self.layers.iter().flat_map(|layer| layer.decide_host_file(&path))),
            Err(_) => Decision::new(RuleEffect::Deny, "builtin.paths"),
        }
    }

    /// Decides whether a path in the sandbox may be opened with this access.
    pub fn decide_guest_path(&self, path: &GuestPath, access: FileAccess) -> Decision {
        strictest(self.layers[0].decide_guest_path(path, access))
    }
}

fn build_mount(draft: &crate::draft::MountDraft) -> Mount {
    Mount {
        path: draft.path.clone(),
        access: draft.access,
        quota: draft.quota,
        keep: draft.keep == Some(true),
        keep_for: draft.keep_for.map_or(DEFAULT_KEEP_FOR, crate::units::Period::get),
        clean: draft.clean.unwrap_or(MountCleanup::Never),
        from: draft.from.clone(),
    }
}

fn build_limits(full: &Draft) -> Option<ProgramLimits> {
    let proc = full.proc.as_ref()?;
    Some(ProgramLimits {
        cpu: proc.cpu_quota?,
        memory: proc.mem_limit?,
        wall: proc.wall_timeout?.get(),
        cpu_time: proc.cpu_time?.get(),
        lifetime: proc.lifetime?.get(),
        processes: proc.fork_limit?.get(),
        open_files: proc.open_files?.get(),
        output: proc.output?,
        programs: proc.programs?,
    })
}

/// The digest and the length in bytes of all layers. Examples are left out, because they are not rules.
fn digest_layers(layers: &[RuleSet]) -> Option<(String, usize)> {
    let rules: Vec<Draft> = layers
        .iter()
        .map(|layer| Draft {
            examples: Vec::new(),
            ..layer.draft.clone()
        })
        .collect();
    let canonical = serde_json_canonicalizer::to_vec(&rules).ok()?;
    Some((blake3::hash(&canonical).to_hex().to_string(), canonical.len()))
}

#[cfg(test)]
mod tests;
