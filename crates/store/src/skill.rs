//! Skills: programs that are saved with a description, to be found and used again.
//!
//! A skill is a folder with a `SKILL.md` that other programs can read, the program and its files. A saved version never changes: saving
//! again creates the next version, and a manual change is detected by its digest and refused.

mod archive;
mod error;
mod folder;
mod format;
mod layout;
mod name;
mod quota;
mod repository;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use ringfence_journal::{ContentHash, Principal, SessionId};
use ringfence_policy::RelPath;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use archive::SkillArchive;
pub use error::SkillError;
pub use name::SkillName;
pub use quota::SkillQuota;
pub use repository::{DamagedSkill, SkillRepository, SkillSurvey};

/// The most characters of a description.
pub const MAX_DESCRIPTION: usize = 1024;

/// The owner of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkillScope {
    /// One session; its skills are removed with it.
    Session(SessionId),
    /// One principal, in all of its sessions.
    User(Principal),
    /// Everybody who uses this data folder.
    Team,
}

impl SkillScope {
    /// The name in messages and paths: `session`, `user` or `team`.
    pub fn name(&self) -> &'static str {
        match self {
            SkillScope::Session(_) => "session",
            SkillScope::User(_) => "user",
            SkillScope::Team => "team",
        }
    }

    /// The name of the owner's folder.
    fn owner_folder(&self) -> String {
        match self {
            SkillScope::Session(id) => id.to_string(),
            SkillScope::User(Principal::Local(uid)) => format!("local-{uid}"),
            SkillScope::User(Principal::Token(id)) => format!("token-{id}"),
            SkillScope::Team => "all".to_owned(),
        }
    }
}

impl fmt::Display for SkillScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The language of a skill's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillLanguage {
    /// TypeScript, in a `.ts` file.
    TypeScript,
    /// JavaScript, in a `.js` file.
    JavaScript,
    /// Python, in a `.py` file.
    Python,
    /// A shell script, in a `.sh` file.
    Shell,
}

impl SkillLanguage {
    /// All languages, in the order in which messages list them.
    pub const ALL: [SkillLanguage; 4] = [
        SkillLanguage::TypeScript,
        SkillLanguage::JavaScript,
        SkillLanguage::Python,
        SkillLanguage::Shell,
    ];

    /// The stored name: `typescript`, `javascript`, `python` or `shell`.
    pub fn name(self) -> &'static str {
        match self {
            SkillLanguage::TypeScript => "typescript",
            SkillLanguage::JavaScript => "javascript",
            SkillLanguage::Python => "python",
            SkillLanguage::Shell => "shell",
        }
    }

    /// The language with this name; `None` for an unknown one.
    pub fn from_name(name: &str) -> Option<SkillLanguage> {
        SkillLanguage::ALL.into_iter().find(|language| language.name() == name)
    }

    /// The language of a program by its file extension; `None` for an unknown one.
    pub fn from_file(path: &Path) -> Option<SkillLanguage> {
        match path.extension()?.to_str()? {
            "ts" | "mts" => Some(SkillLanguage::TypeScript),
            "js" | "mjs" => Some(SkillLanguage::JavaScript),
            "py" => Some(SkillLanguage::Python),
            "sh" => Some(SkillLanguage::Shell),
            _ => None,
        }
    }

    /// The name of the program's file in the skill folder.
    pub fn program_file(self) -> &'static str {
        match self {
            SkillLanguage::TypeScript => "program.ts",
            SkillLanguage::JavaScript => "program.js",
            SkillLanguage::Python => "program.py",
            SkillLanguage::Shell => "program.sh",
        }
    }
}

/// A tool that a skill calls, as it was when the skill was saved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequiredTool {
    /// Its full name, `server.tool`.
    pub name: String,
    /// The digest of its definition at that time.
    pub digest: String,
}

/// The metadata of a skill in its `SKILL.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillMeta {
    /// The name, unique within a scope.
    pub name: SkillName,
    /// What it does and when to use it.
    pub description: String,
    /// The language of its program.
    pub language: SkillLanguage,
    /// The tools that it calls.
    pub tools: Vec<RequiredTool>,
    /// The digest of the policy under which it was created.
    pub policy: Option<String>,
    /// The JSON Schema of its input, if it declares one.
    pub inputs: Option<Value>,
    /// The JSON Schema of its value, if it declares one.
    pub outputs: Option<Value>,
    /// The policy draft that it requests.
    pub needs: Option<Value>,
    /// Everything else in its `SKILL.md`.
    pub extra: SkillExtra,
}

/// Content that other programs wrote into a `SKILL.md`; preserved unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SkillExtra {
    /// Unknown keys of the front matter, such as `license`.
    pub keys: BTreeMap<String, Value>,
    /// Unknown keys below `metadata`.
    pub metadata: BTreeMap<String, Value>,
    /// The text after the front matter: instructions in Markdown.
    pub text: String,
}

impl SkillMeta {
    /// The metadata of a skill without anything optional.
    pub fn new(name: SkillName, description: impl Into<String>, language: SkillLanguage) -> SkillMeta {
        SkillMeta {
            name,
            description: description.into().trim().to_owned(),
            language,
            tools: Vec::new(),
            policy: None,
            inputs: None,
            outputs: None,
            needs: None,
            extra: SkillExtra::default(),
        }
    }
}

/// One saved version of a skill.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// The owner of the skill.
    pub scope: SkillScope,
    /// The metadata from its `SKILL.md`.
    pub meta: SkillMeta,
    /// The number of the version, from 1.
    pub version: u32,
    /// The digest of everything in it.
    pub digest: ContentHash,
    /// Size of all its files in bytes.
    pub bytes: u64,
    /// When the version was saved.
    pub saved: Timestamp,
}

/// The program and files of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillBody {
    /// The text of the program.
    pub source: String,
    /// Its files, by their path in the workspace.
    pub files: Vec<(RelPath, Vec<u8>)>,
}

impl crate::Store {
    /// The skills of this data folder.
    pub fn skills(&self) -> SkillRepository {
        SkillRepository::open(self.home())
    }
}
