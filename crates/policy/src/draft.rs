//! A policy as somebody wrote it: every key optional, nothing decided yet.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::data::DataDraft;
use crate::decide::Verdict;
use crate::glob::Glob;
use crate::net::NetDraft;
use crate::path::GuestPath;
use crate::tools::ToolsDraft;
use crate::units::{Bytes, Cpus, Period};

/// A wish: a policy file, a request's `sandbox_policy`, a preset, a ceiling as written.
///
/// Only [`Draft::under`] turns it into a [`Policy`](crate::Policy).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Ringfence policy")]
#[non_exhaustive]
pub struct Draft {
    /// What errors, events and `policy show` call it; never part of the file.
    #[serde(skip)]
    pub name: String,
    /// The version of the file's shape, 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Files: what is there, and what is hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs: Option<FsDraft>,
    /// The environment of programs, by name: at most 512 variables, with names of at most 255 bytes, of 32 KiB in all.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "environment")]
    pub env: Option<BTreeMap<String, String>>,
    /// The network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<NetDraft>,
    /// Limits of programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proc: Option<ProcDraft>,
    /// Tools that code may call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsDraft>,
    /// Personal data, secrets, and how much comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataDraft>,
    /// How people are asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<ApprovalsDraft>,
    /// What is written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditDraft>,
    /// Questions with the answer this file must give, checked on load.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub examples: Vec<Example>,
}

impl Draft {
    /// A draft that asks for nothing.
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
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }
}

/// The version of the file's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u64", into = "u64")]
#[schemars(extend("enum" = [1]))]
pub struct Version(#[schemars(range(min = 1, max = 1))] u64);

impl TryFrom<u64> for Version {
    type Error = String;

    fn try_from(version: u64) -> Result<Self, String> {
        match version {
            1 => Ok(Self(1)),
            other => Err(format!("version {other} is not known, this program reads version 1")),
        }
    }
}

impl From<Version> for u64 {
    fn from(version: Version) -> Self {
        version.0
    }
}

/// `fs`: what is there, and what is hidden.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FsDraft {
    /// Places in the sandbox; a mount replaces another of the same path.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "mounts")]
    pub mounts: Vec<MountDraft>,
    /// What is hidden of everything that comes from the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub deny: Vec<Glob>,
}

/// One place in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MountDraft {
    /// Where it is in the sandbox.
    pub path: GuestPath,
    /// Read-only or writable.
    pub access: Access,
    /// The most it may hold; needed for writable places that are not a host folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Bytes>,
    /// Whether it survives sandbox and process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<bool>,
    /// For how long it is kept; 24h unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_for: Option<Period>,
    /// When a kept place is emptied besides; never unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean: Option<Clean>,
    /// The host folder shown there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
}

/// When a kept place is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clean {
    /// Only when its time is over.
    Never,
    /// When an execution ended with status completed.
    OnComplete,
}

/// Read-only or writable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Access {
    /// Read-only.
    #[serde(rename = "ro")]
    Read,
    /// Readable and writable.
    #[serde(rename = "rw")]
    Write,
}

/// `proc`: limits of programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ProcDraft {
    /// Processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<Cpus>,
    /// Memory of all processes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_limit: Option<Bytes>,
    /// Time on the clock that one execution may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_timeout: Option<Period>,
    /// Processor time of one execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Period>,
    /// How long a sandbox may live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Period>,
    /// Processes and threads at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_limit: Option<std::num::NonZeroU32>,
    /// Open files of each process, at least 16: no program starts with fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 16))]
    pub open_files: Option<std::num::NonZeroU32>,
    /// Output kept of each of stdout, stderr and value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Bytes>,
    /// Which programs may run: `all`, or `none` for code on the engines only, without a shell and without `exec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<AllowedPrograms>,
}

/// Which programs may run beside code on the engines; the stricter is the greater.
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
    /// How long a question waits; no answer means no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// Who may answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Vec<Approver>>,
}

/// Who may answer a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    /// A person at Ringfence's own inbox.
    Inbox,
    /// The connected client.
    Client,
}

/// `audit`: what is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AuditDraft {
    /// Whether each event is on disk before the act goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// How much of stdout and stderr is journalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<JournalOutput>,
    /// How long the records of a session are kept after it was last used; signed heads stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Period>,
    /// Bytes of events that one session may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_bytes: Option<Bytes>,
}

/// How much of a program's output is journalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JournalOutput {
    /// Nothing.
    None,
    /// The first 4 KiB, cleaned.
    Head,
    /// Everything that was kept.
    All,
}

/// A question with the answer that the file must give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Example {
    /// A tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The tool's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<BTreeMap<String, serde_json::Value>>,
    /// Tools called before in the same session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// A host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The port; 443 unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The method; GET unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<crate::net::Method>,
    /// The URL's path; `/` unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_path: Option<String>,
    /// A file: absolute in the sandbox, or relative to a mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How the file is opened; `ro` unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// The answer.
    pub expect: Verdict,
}

/// Reads `null` as the type's empty value: a key without a value asks for nothing.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn mounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MountDraft>, D::Error> {
    /// One mount, checked where it stands.
    #[derive(Deserialize)]
    #[serde(try_from = "MountDraft")]
    struct Checked(MountDraft);

    impl TryFrom<MountDraft> for Checked {
        type Error = String;

        fn try_from(mount: MountDraft) -> Result<Self, String> {
            mount.checked().map(Self)
        }
    }

    let checked: Vec<Checked> = nullable(deserializer)?;
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
    /// Refuses what could not be meant or could not be kept.
    fn checked(self) -> Result<Self, String> {
        self.path.clone().mountable().map_err(|error| error.to_string())?;
        let keep = self.keep == Some(true);
        let writable = self.access == Access::Write;
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

fn environment<'de, D>(deserializer: D) -> Result<Option<BTreeMap<String, String>>, D::Error>
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
