//! A policy in force: complete, under its ceiling, and the only thing that answers questions.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::data::DataDraft;
use crate::decide::{Decision, Rule, RuleSet, Verdict, strictest};
use crate::draft::{Access, AllowedPrograms, ApprovalsDraft, Clean, Draft, JournalOutput};
use crate::glob::Glob;
use crate::net::{HostRequest, NetDraft, NetLimits};
use crate::path::{GuestPath, RelPath};
use crate::pattern::ToolName;
use crate::standing::StandingRules;
use crate::tools::{Hints, History, LimitOf, ToolLimitsDraft, ToolRule, ToolsDraft};
use crate::units::{Bytes, Cpus, Rate};

/// What a session may do. It can only be made by [`Draft::under`]:
///
/// ```
/// use ringfence_policy::{Ceiling, Draft};
/// let policy = Draft::builtin().under(&Ceiling::own_word()).unwrap();
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
/// let policy = Draft::builtin().under(&Ceiling::own_word()).unwrap();
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
    /// The policy's own rules first, then each ceiling's.
    layers: Vec<RuleSet>,
    fs: Fs,
    env: BTreeMap<String, String>,
    net: NetDraft,
    net_limits: NetLimits,
    limits: Limits,
    tools: ToolsDraft,
    audit: Audit,
    /// Answers given for good; no part of the digest.
    standing: StandingRules,
}

/// Places in the sandbox, and what is hidden of the host's.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Fs {
    /// The places.
    pub mounts: Vec<Mount>,
    /// What is hidden wherever a host folder is shown.
    pub deny: Vec<Glob>,
}

/// One place in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mount {
    /// Where it is in the sandbox.
    pub path: GuestPath,
    /// Read-only or writable.
    pub access: Access,
    /// The most it may hold.
    pub quota: Option<Bytes>,
    /// Whether it survives sandbox and process.
    pub keep: bool,
    /// For how long it is kept.
    pub keep_for: Duration,
    /// When it is emptied besides.
    pub clean: Clean,
    /// The host folder shown there, as written.
    pub from: Option<PathBuf>,
}

/// Limits of programs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Processors.
    pub cpu: Cpus,
    /// Memory of all processes together.
    pub memory: Bytes,
    /// Time on the clock of one execution.
    pub wall: Duration,
    /// Processor time of one execution.
    pub cpu_time: Duration,
    /// How long a sandbox may live.
    pub lifetime: Duration,
    /// Processes and threads at once.
    pub processes: u32,
    /// Open files of each process.
    pub open_files: u32,
    /// Output kept of each stream.
    pub output: Bytes,
    /// Which programs may run beside code on the engines.
    pub programs: AllowedPrograms,
}

/// What is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Whether each event is on disk before the act goes on.
    pub durable: bool,
    /// How much of stdout and stderr is journalled.
    pub output: JournalOutput,
    /// How long the records of a session are kept after it was last used.
    pub keep: Duration,
    /// Bytes of events that one session may write.
    pub session_bytes: Bytes,
}

/// How long a kept place is kept unless written.
const KEEP_FOR: Duration = Duration::from_hours(24);

impl Policy {
    /// Completes a draft that was already checked; `None` if a limit is missing.
    pub(crate) fn assemble(full: Draft, ceilings: &[RuleSet]) -> Option<Self> {
        let fs = Fs {
            mounts: full.fs.iter().flat_map(|fs| &fs.mounts).map(mount).collect(),
            deny: full.fs.iter().flat_map(|fs| &fs.deny).cloned().collect(),
        };
        let audit = full.audit.as_ref()?;
        let audit = Audit {
            durable: audit.durable?,
            output: audit.output?,
            keep: audit.keep?.get(),
            session_bytes: audit.session_bytes?,
        };
        let limits = limits(&full)?;
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
        let (digest, document_bytes) = digest(&layers)?;
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

    /// What the policy is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// About how many bytes of memory it takes: patterns are kept as they are compared, character by character, and some of them twice.
    pub fn memory_bytes(&self) -> usize {
        const BYTES_PER_CHARACTER: usize = 40;
        self.document_bytes.saturating_mul(BYTES_PER_CHARACTER)
    }

    /// The blake3 digest, in hexadecimal, of everything in force, the ceilings' rules included.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Files.
    pub const fn fs(&self) -> &Fs {
        &self.fs
    }

    /// The environment of programs.
    pub const fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// The network.
    pub const fn net(&self) -> &NetDraft {
        &self.net
    }

    /// How much of the network a session may use.
    pub const fn net_limits(&self) -> NetLimits {
        self.net_limits
    }

    /// Limits of programs.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Tools.
    pub const fn tools(&self) -> &ToolsDraft {
        &self.tools
    }

    /// Personal data and secrets, if anything was written about them.
    pub fn data(&self) -> Option<&DataDraft> {
        self.layers[0].draft.data.as_ref()
    }

    /// How people are asked, if anything was written about it.
    pub fn approvals(&self) -> Option<&ApprovalsDraft> {
        self.layers[0].draft.approvals.as_ref()
    }

    /// What is written down.
    pub const fn audit(&self) -> &Audit {
        &self.audit
    }

    /// The complete draft that this policy was made from, without its ceilings.
    pub fn to_draft(&self) -> Draft {
        self.layers[0].draft.clone()
    }

    /// Everything in force: name, digest, the complete policy, and the ceilings above it.
    pub fn to_json(&self) -> Value {
        let ceilings: Vec<&Draft> = self.layers[1..].iter().map(|layer| &layer.draft).collect();
        json!({
            "name": self.name,
            "digest": self.digest,
            "policy": self.layers[0].draft,
            "ceilings": ceilings,
        })
    }

    /// Every host folder that this policy or a ceiling above it shows, as written: what `fs.deny` is relative to.
    pub fn shown_folders(&self) -> impl Iterator<Item = &Path> {
        let drafts = self.layers.iter().filter_map(|layer| layer.draft.fs.as_ref());
        drafts.flat_map(|fs| fs.mounts.iter().filter_map(|mount| mount.from.as_deref()))
    }

    pub(crate) fn layers(&self) -> &[RuleSet] {
        &self.layers
    }

    /// Whether a tool may be called so, given what its server says of it and what was called before.
    pub fn tool(&self, name: &str, hints: Hints, args: &Value, history: &History) -> Decision {
        match name.parse::<ToolName>() {
            Ok(name) => strictest(self.tool_answers(&name, hints, args, history)),
            Err(_) => Decision::new(Verdict::Deny, "builtin.names"),
        }
    }

    /// The answer of each rule set: of the policy's own, a question may have a standing answer.
    pub(crate) fn tool_answers(
        &self,
        name: &ToolName,
        hints: Hints,
        args: &Value,
        history: &History,
    ) -> impl Iterator<Item = Decision> {
        let answers = self
            .layers
            .iter()
            .map(move |layer| strictest(layer.tool(name, hints, args, history)));
        answers.enumerate().map(|(index, answer)| match answer {
            Decision::Ask(_) if index == 0 => match self.standing.answer(name, args) {
                Some(standing) => Decision::new(Verdict::Allow, standing),
                None => answer,
            },
            Decision::Allow(_) | Decision::Ask(_) | Decision::Deny(_) => answer,
        })
    }

    /// The same policy with standing answers: what its own rules ask a person for, they may answer. Name and digest stay: they are
    /// those of the policy, which these rules are no part of.
    #[must_use]
    pub fn with_standing(&self, rules: StandingRules) -> Self {
        Self {
            standing: rules,
            ..self.clone()
        }
    }

    /// The answers that were given for good.
    pub const fn standing(&self) -> &StandingRules {
        &self.standing
    }

    /// Whether any call of this tool could be allowed or asked for: only then it is shown.
    pub fn shows(&self, name: &ToolName, hints: Hints) -> bool {
        self.layers.iter().all(|layer| {
            let tools = layer.draft.tools.as_ref();
            let rules = tools.map(|tools| tools.rules.as_slice()).unwrap_or_default();
            let about = |rule: &&ToolRule| rule.is_about(name, hints);
            let always_denied = rules
                .iter()
                .filter(about)
                .any(|rule| rule.verdict == Verdict::Deny && rule.when.is_empty() && rule.after.is_none());
            let opened = name.is_skill()
                || rules.iter().filter(about).any(|rule| rule.verdict != Verdict::Deny)
                || tools
                    .and_then(|tools| tools.default)
                    .is_some_and(|v| v != Verdict::Deny);
            opened && !always_denied
        })
    }

    /// Whether some call may wait for a person because a rule says so, of the policy or of a ceiling.
    pub fn may_ask(&self) -> bool {
        let mut all = self.layers.iter().filter_map(|layer| layer.draft.tools.as_ref());
        all.any(|tools| tools.verdicts().any(|verdict| verdict == Verdict::Ask))
    }

    /// Whether some call may wait for a person because its tool is another than it was.
    pub fn may_ask_for_drift(&self) -> bool {
        let may_call = self.tools.verdicts().any(|verdict| verdict != Verdict::Deny);
        may_call && self.tools.drift.unwrap_or(Verdict::Ask) == Verdict::Ask
    }

    /// The rates of every rule that is about the call; all of them hold at once.
    pub fn rates(&self, name: &ToolName, hints: Hints, args: &Value, history: &History) -> Vec<(Rule, Rate)> {
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
            Some((Rule::new(format!("{}tools.rules[{index}]", layer.prefix)), rate))
        });
        rated.collect()
    }

    /// The rates under which a call that the rule `by` let go may have counted; its arguments are not known any more. What surely
    /// was not about it is left out: of the rules that are, the strictest decided, and of equals the first.
    pub fn rates_before(&self, name: &ToolName, by: &str) -> Vec<(Rule, Rate)> {
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
            rules.filter_map(move |(index, rule)| Some((Rule::new(address(index)), rule.rate?)))
        });
        rated.collect()
    }

    /// How often tools may be called, whatever the rules say of each; all of them hold at once.
    pub fn tool_limits(&self) -> Vec<(LimitOf, Rule, Rate)> {
        let limits = self.layers.iter().flat_map(|layer| {
            let limits = layer.draft.tools.iter().flat_map(|tools| &tools.limits);
            limits
                .flat_map(ToolLimitsDraft::each)
                .map(|(of, rate)| (&layer.prefix, of, rate))
        });
        limits
            .map(|(prefix, of, rate)| (of, Rule::new(format!("{prefix}tools.limits.{}", of.name())), rate))
            .collect()
    }

    /// Whether a host may be reached so, before its name is resolved.
    pub fn host(&self, request: &HostRequest) -> Decision {
        strictest(self.layers.iter().flat_map(|layer| layer.host(request)))
    }

    /// Whether this address behind the request's host may be dialled. To be asked for every
    /// address that the name resolves to.
    pub fn address(&self, address: IpAddr, request: &HostRequest) -> Decision {
        let host = self.layers.iter().flat_map(|layer| layer.host(request));
        let resolved = self.layers.iter().map(|layer| layer.resolved(address, request));
        strictest(host.chain(resolved))
    }

    /// Whether a name that the request's host is only another name of (`CNAME`) is forbidden by name. What no rule names
    /// is allowed: the question is about the far end of a host that was allowed already.
    pub fn alias(&self, request: &HostRequest) -> Decision {
        strictest(self.layers.iter().map(|layer| layer.alias(request)))
    }

    /// Whether method and path of each request to this host must be seen to decide.
    pub fn inspects(&self, request: &HostRequest) -> bool {
        self.layers.iter().any(|layer| layer.inspects(request))
    }

    /// Whether TLS to this host is ended, so that the requests inside are seen.
    pub fn ends_tls(&self, request: &HostRequest) -> bool {
        self.layers
            .iter()
            .any(|layer| layer.ends_all_tls() || layer.inspects(request))
    }

    /// Whether a host file, relative to the folder that is shown, may be seen.
    pub fn path(&self, path: &str) -> Decision {
        match path.parse::<RelPath>() {
            Ok(path) => strictest(self.layers.iter().flat_map(|layer| layer.file(&path))),
            Err(_) => Decision::new(Verdict::Deny, "builtin.paths"),
        }
    }

    /// Whether a place in the sandbox may be opened so.
    pub fn guest(&self, path: &GuestPath, access: Access) -> Decision {
        strictest(self.layers[0].guest(path, access))
    }
}

fn mount(draft: &crate::draft::MountDraft) -> Mount {
    Mount {
        path: draft.path.clone(),
        access: draft.access,
        quota: draft.quota,
        keep: draft.keep == Some(true),
        keep_for: draft.keep_for.map_or(KEEP_FOR, crate::units::Period::get),
        clean: draft.clean.unwrap_or(Clean::Never),
        from: draft.from.clone(),
    }
}

fn limits(full: &Draft) -> Option<Limits> {
    let proc = full.proc.as_ref()?;
    Some(Limits {
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

/// The digest and the length of all layers. Examples are questions, not rules: they are left out.
fn digest(layers: &[RuleSet]) -> Option<(String, usize)> {
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
