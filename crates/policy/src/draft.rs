//! A policy as its author wrote it: every key is optional, and nothing is decided yet.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::data::DataDraft;
use crate::decide::RuleEffect;
use crate::glob::Glob;
use crate::net::NetDraft;
use crate::path::GuestPath;
use crate::tools::ToolsDraft;
use crate::units::{ByteSize, CpuCount, Period};

/// A requested policy: a policy file, a request's `sandbox_policy`, a preset, or a ceiling as written.
///
/// Only [`Draft::under`] turns it into a [`Policy`](crate::Policy).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Ringfence policy")]
#[non_exhaustive]
pub struct Draft {
    /// The name in errors, events and `policy show`; never part of the file.
    #[serde(skip)]
    pub name: String,
    /// The version of the file format, 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<DocumentVersion>,
    /// Files: what is mounted, and what is hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs: Option<FsDraft>,
    /// The environment of programs, by name: at most 512 variables, with names of at most 255 bytes, of 32 KiB in total.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize_environment"
    )]
    pub env: Option<BTreeMap<String, String>>,
    /// Whether there is a network, and which hosts may be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<NetDraft>,
    /// Limits on programs: memory, time, processes, open files and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proc: Option<ProcDraft>,
    /// Tools that code may call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsDraft>,
    /// Personal data, secrets, and how much of a value comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataDraft>,
    /// How people are asked for approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<ApprovalsDraft>,
    /// What the journal records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditDraft>,
    /// Questions with the decision that this file must give, checked on load.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub examples: Vec<PolicyExample>,
}

impl Draft {
    /// A draft that sets no key.
    pub const fn empty() -> Self {
        Self {
            name: String::new(),
            version: None,
            fs: None,
            env: None,
            net: None,
            proc: None,
            tools: None,
            data: None,
            approvals: None,
            audit: None,
            examples: Vec::new(),
        }
    }

    /// The same draft under another name.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }
}

/// The version of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u64", into = "u64")]
#[schemars(extend("enum" = [1]))]
pub struct DocumentVersion(#[schemars(range(min = 1, max = 1))] u64);

impl TryFrom<u64> for DocumentVersion {
    type Error = String;

    fn try_from(version: u64) -> Result<Self, String> {
        match version {
            1 => Ok(Self(1)),
            other => Err(format!("version {other} is not known, this program reads version 1")),
        }
    }
}

impl From<DocumentVersion> for u64 {
    fn from(version: DocumentVersion) -> Self {
        version.0
    }
}

/// `fs`: what is mounted, and what is hidden.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FsDraft {
    /// Mounts in the sandbox; a mount replaces another with the same path.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "deserialize_mounts"
    )]
    pub mounts: Vec<MountDraft>,
    /// Globs of host files that are hidden.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub deny: Vec<Glob>,
}

/// One mount in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MountDraft {
    /// The path of the mount in the sandbox.
    pub path: GuestPath,
    /// Whether programs may write to the mount.
    pub access: FileAccess,
    /// The most it may hold; required for writable mounts that are not a host folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<ByteSize>,
    /// Whether its content outlives sandbox and process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<bool>,
    /// How long its content is kept; 24h unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_for: Option<Period>,
    /// When kept content is removed early; never unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean: Option<MountCleanup>,
    /// The host folder that is shown there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
}

/// When the content of a kept mount is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MountCleanup {
    /// Only when its retention ends.
    Never,
    /// When an execution ends with status completed.
    OnComplete,
}

/// Whether a file or folder may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum FileAccess {
    /// Read-only access, without changes.
    #[serde(rename = "ro")]
    Read,
    /// Access for reading and writing.
    #[serde(rename = "rw")]
    Write,
}

/// `proc`: limits on programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ProcDraft {
    /// How many processors one sandbox may use; fractions are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<CpuCount>,
    /// Memory of all processes of a sandbox together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_limit: Option<ByteSize>,
    /// Wall-clock time of one execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_timeout: Option<Period>,
    /// Processor time of one execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Period>,
    /// The longest life of a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Period>,
    /// Processes and threads that exist at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_limit: Option<std::num::NonZeroU32>,
    /// Open files of each process, at least 16: no program starts with fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 16))]
    pub open_files: Option<std::num::NonZeroU32>,
    /// How much is kept of each of stdout, stderr and value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ByteSize>,
    /// Which programs may run: `all`, or `none` for code on the engines only, without a shell and without `exec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<AllowedPrograms>,
}

/// Which programs may run besides code on the engines; later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AllowedPrograms {
    /// Shell scripts and every program of the sandbox.
    All,
    /// No shell and no program: code on the engines only.
    None,
}

/// `approvals`: how people are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ApprovalsDraft {
    /// How long a request waits for an answer; without an answer it is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// Who may answer requests for approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Vec<Approver>>,
}

/// Who may answer a request for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    /// A person at Ringfence's own inbox.
    Inbox,
    /// The connected client, which asks its user.
    Client,
}

/// `audit`: what the journal records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AuditDraft {
    /// Whether each event is on disk before the action proceeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// How much of stdout and stderr the journal records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<JournalOutput>,
    /// How long the records of a session are kept after its last use; signed heads stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Period>,
    /// The most bytes of events that one session may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_bytes: Option<ByteSize>,
}

/// How much of a program's output the journal records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JournalOutput {
    /// The journal records no output.
    None,
    /// The first 4 KiB, cleaned.
    Head,
    /// All output that is kept of the execution.
    All,
}

/// A question with the decision that the file must give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PolicyExample {
    /// The full name of a tool, such as `mail.send`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The arguments of the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<BTreeMap<String, serde_json::Value>>,
    /// Tools that were called before in the same session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// A host name or an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The port; 443 unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The method; GET unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<crate::net::HttpMethod>,
    /// The URL's path; `/` unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_path: Option<String>,
    /// A file: an absolute path in the sandbox, or a path relative to a mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How the file is opened; `ro` unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<FileAccess>,
    /// The decision that the rules must give.
    pub expect: RuleEffect,
}

/// Reads `null` as the type's empty value: a key without a value sets nothing.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn deserialize_mounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MountDraft>, D::Error> {
    /// A mount that is validated while its element is read, so that an error carries its position.
    #[derive(Deserialize)]
    #[serde(try_from = "MountDraft")]
    struct ValidatedMount(MountDraft);

    impl TryFrom<MountDraft> for ValidatedMount {
        type Error = String;

        fn try_from(mount: MountDraft) -> Result<Self, String> {
            mount.validate().map(Self)
        }
    }

    let checked: Vec<ValidatedMount> = nullable(deserializer)?;
    let mounts: Vec<MountDraft> = checked.into_iter().map(|mount| mount.0).collect();
    let twice = (1..mounts.len()).find(|&index| mounts[..index].iter().any(|mount| mount.path == mounts[index].path));
    match twice {
        Some(index) => {
            let path = &mounts[index].path;
            Err(serde::de::Error::custom(format!("`{path}` is mounted twice")))
        }
        None => Ok(mounts),
    }
}

impl MountDraft {
    /// Refuses contradictory combinations of keys, and mounts that miss a required key.
    fn validate(self) -> Result<Self, String> {
        self.path
            .clone()
            .require_mountable()
            .map_err(|error| error.to_string())?;
        let keep = self.keep == Some(true);
        let writable = self.access == FileAccess::Write;
        let problem = if !writable && self.quota.is_some() {
            "is read-only and can have no `quota`"
        } else if keep && (!writable || self.from.is_some()) {
            "can only be kept if it is writable and not a host folder"
        } else if self.keep_for.is_some() && !keep {
            "has `keep_for` without `keep: true`"
        } else if self.clean.is_some() && !keep {
            "has `clean` without `keep: true`"
        } else if writable && self.from.is_none() && self.quota.is_none() {
            "is writable and needs a `quota`"
        } else if !writable && self.from.is_none() {
            "is read-only and needs `from`, the host folder to show"
        } else {
            return Ok(self);
        };
        Err(format!("`{}` {problem}", self.path))
    }
}

fn deserialize_environment<'de, D>(deserializer: D) -> Result<Option<BTreeMap<String, String>>, D::Error>
where
    D: Deserializer<'de>,
{
    let env: Option<BTreeMap<String, String>> = Option::deserialize(deserializer)?;
    for (name, value) in env.iter().flatten() {
        let mut chars = name.chars();
        let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        let problem = if !first || !chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            "is not a name: letters, digits and `_`, no digit first"
        } else if name.starts_with("RINGFENCE_") {
            "is kept for Ringfence itself"
        } else if value.contains('\0') {
            "has a NUL in its value"
        } else {
            continue;
        };
        let name = name.escape_debug();
        return Err(serde::de::Error::custom(format!("`{name}` {problem}")));
    }
    Ok(env)
}

#[cfg(test)]
mod tests;
