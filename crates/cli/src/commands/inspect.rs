//! Inspects a fresh sandbox: its variables, mounts and process state come from the kernel, not from what was configured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_policy::Policy;
use ringfence_sandbox::{
    Backend, BackendKind, BackendSupport, ExecutionTask, JobLanguage, OutputSink, RunProgram, Spec, SpecOptions,
    StandardStream, Stop,
};
use serde::Serialize;

use crate::fault::{CliFault, error_chain, launch_fault};
use crate::print::counted;

/// A script that prints the environment, the mounts and the state of its process, each after a header line.
const INSPECT_SCRIPT: &str = "echo @env; env; echo @mounts; cat /proc/self/mountinfo; echo @status; cat /proc/self/status; echo @ns; ls -l /proc/self/ns";

/// The state of a sandbox as observed from inside.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SandboxInspection {
    /// The variables that the policy does not name.
    pub(crate) env: BTreeMap<String, String>,
    /// The mounts that the policy does not name.
    pub(crate) mounts: Vec<MountSummary>,
    /// The mechanism that enforces each rule on this machine.
    pub(crate) enforcement: Vec<EnforcedRule>,
    /// The invariants of every sandbox that were observed in this one.
    pub(crate) always: Vec<String>,
    /// The mechanisms that this machine supports; `None` until the sandbox was inspected.
    #[serde(skip)]
    pub(crate) support: Option<BackendSupport>,
    /// The time from the request until the script has ended.
    #[serde(skip)]
    pub(crate) took: Duration,
}

/// A mount point and its options.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MountSummary {
    pub(crate) path: String,
    pub(crate) how: String,
}

/// A rule and the mechanism that enforces it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EnforcedRule {
    pub(crate) rule: String,
    pub(crate) by: &'static str,
}

#[derive(Default)]
struct CapturedOutput(Vec<u8>);

impl OutputSink for CapturedOutput {
    fn on_output(&mut self, output: StandardStream, bytes: &[u8]) {
        if output == StandardStream::Stdout {
            self.0.extend_from_slice(bytes);
        }
    }
}

/// A sandbox for one inspection, and the folders it uses.
struct InspectionSandbox {
    backend: Backend,
    spec: Arc<Spec>,
    // Holds the writable folders on disk; dropped last.
    _folders: tempfile::TempDir,
}

impl InspectionSandbox {
    fn new(policy: &Policy, python: Option<&Path>) -> Result<InspectionSandbox, CliFault> {
        let backend = Backend::new(
            BackendKind::default(),
            &format!("ringfence-look-{}", std::process::id()),
        )
        .map_err(|error| launch_fault(&error))?;
        let folders = tempfile::tempdir().map_err(|error| CliFault::internal("start.folder", error_chain(&error)))?;
        let options = SpecOptions {
            python: python.map(Path::to_owned),
            folders: Some(folders.path().to_owned()),
            ..SpecOptions::default()
        };
        let spec = Spec::new(policy, &options).map_err(|error| {
            let fault = CliFault::refused("policy.mount", error_chain(&error));
            fault.with_rule(error.rule()).with_hint(error.hint())
        })?;
        Ok(InspectionSandbox {
            backend,
            spec: Arc::new(spec),
            _folders: folders,
        })
    }

    /// Runs `kind` in a fresh sandbox and returns its standard output.
    async fn run(&self, kind: RunProgram) -> Result<String, CliFault> {
        let failed =
            |error: &ringfence_sandbox::ExecutionError| CliFault::internal("sandbox.failed", error_chain(error));
        let mut sandbox = self
            .backend
            .launch(&self.spec)
            .await
            .map_err(|error| launch_fault(&error))?;
        let (_switch, mut stop) = Stop::new();
        let mut heard = CapturedOutput::default();
        let ended = sandbox.run(ExecutionTask::new(kind), &mut heard, &mut stop).await;
        let ended = ended.map_err(|error| failed(&error))?;
        sandbox.end().await.map_err(|error| failed(&error))?;
        match ended.outcome.and_then(|outcome| outcome.error) {
            Some(error) => Err(CliFault::internal("sandbox.failed", error.message.to_string())),
            None => Ok(String::from_utf8_lossy(&heard.0).into_owned()),
        }
    }
}

/// Creates a sandbox with `policy`, inspects it and removes it.
pub(crate) async fn inspect_sandbox(policy: &Policy, python: Option<&Path>) -> Result<SandboxInspection, CliFault> {
    let started = Instant::now();
    let visit = InspectionSandbox::new(policy, python)?;
    let text = visit
        .run(RunProgram::Shell {
            file_name: "look".to_owned(),
            source: INSPECT_SCRIPT.to_owned(),
        })
        .await?;
    let took = started.elapsed();
    let held = visit.backend.enforcement(&visit.spec);
    let enforcement = held
        .iter()
        .map(|held| EnforcedRule {
            rule: held.rule.to_owned(),
            by: held.mechanism.name(),
        })
        .collect();
    Ok(SandboxInspection {
        enforcement,
        support: Some(visit.backend.support()),
        took,
        ..parse_inspection(&text, policy)
    })
}

/// The version of Python in a sandbox of `policy`.
pub(crate) async fn python_version(policy: &Policy, configured: Option<&Path>) -> Result<String, CliFault> {
    let source = "import platform\nprint(platform.python_implementation(), platform.python_version())".to_owned();
    let visit = InspectionSandbox::new(policy, configured)?;
    let kind = RunProgram::Code {
        language: JobLanguage::Python,
        file_name: "version.py".to_owned(),
        source,
    };
    visit.run(kind).await.map(|text| text.trim().to_owned())
}

fn parse_inspection(text: &str, policy: &Policy) -> SandboxInspection {
    let mut parts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut part = "";
    for line in text.lines() {
        match line.strip_prefix('@') {
            Some(name) => part = name,
            None => parts.entry(part).or_default().push(line),
        }
    }
    let lines = |name: &str| parts.get(name).map(Vec::as_slice).unwrap_or_default();
    SandboxInspection {
        env: added_variables(lines("env"), policy),
        mounts: added_mounts(lines("mounts"), policy),
        enforcement: Vec::new(),
        always: invariants_seen(lines("status"), lines("ns")),
        support: None,
        took: Duration::ZERO,
    }
}

fn added_variables(lines: &[&str], policy: &Policy) -> BTreeMap<String, String> {
    // The shell sets these variables itself.
    let ours = |name: &str| !["PWD", "SHLVL", "_", "OLDPWD"].contains(&name) && !policy.env().contains_key(name);
    lines
        .iter()
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| ours(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn added_mounts(lines: &[&str], policy: &Policy) -> Vec<MountSummary> {
    let named: BTreeSet<&str> = policy.fs().mounts.iter().map(|mount| mount.path.as_str()).collect();
    lines
        .iter()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ').skip(4);
            let (path, flags) = (fields.next()?, fields.next()?);
            let kind = after.split(' ').next()?;
            (!named.contains(path)).then(|| MountSummary {
                path: path.to_owned(),
                how: format!("{kind}, {}", flags.replace(',', ", ")),
            })
        })
        .collect()
}

fn invariants_seen(status: &[&str], namespaces: &[&str]) -> Vec<String> {
    let field = |name: &str| {
        status
            .iter()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map_or("?", str::trim)
    };
    // A namespace belongs to the sandbox if the host has another inode number for it.
    let host = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).ok();
    let mut kinds: Vec<&str> = namespaces
        .iter()
        .filter_map(|line| line.rsplit_once("-> "))
        .filter_map(|(_, target)| Some((target, target.split_once(':')?.0)))
        .filter(|(target, kind)| host(kind).is_some_and(|host| host != Path::new(target)))
        .map(|(_, kind)| kind)
        .collect();
    kinds.dedup();
    let filters = field("Seccomp_filters")
        .parse()
        .map_or_else(|_| "a filter".to_owned(), |number| counted(number, "filter"));
    let zero = |name: &str| field(name).trim_start_matches('0').is_empty();
    let none = ["CapEff", "CapPrm", "CapBnd"].into_iter().all(zero);
    vec![
        format!("own namespaces: {}", kinds.join(", ")),
        format!(
            "system calls: only those on the list, {filters} in force; mount, ptrace, bpf, keyctl, io_uring, setns, unshare and the like are refused and written down"
        ),
        format!("capabilities: {}", if none { "none" } else { field("CapEff") }),
        format!(
            "no new privileges: {}",
            if field("NoNewPrivs") == "1" { "yes" } else { "no" }
        ),
        "network: no interface but an empty loopback; the only way out is the pipe to Ringfence".to_owned(),
    ]
}
