//! Skills: programs that are kept with a description, to be found and used again.
//!
//! A skill is a folder with a `SKILL.md` that other programs can read, the program and its files. What is kept is never changed:
//! saving again makes the next version, and what was changed by hand is found by its digest and refused.

mod error;
mod folder;
mod format;
mod keep;
mod name;
mod parcel;
mod parts;
mod quota;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use ringfence_journal::{Hash, Principal, SessionId};
use ringfence_policy::RelPath;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::SkillError;
pub use keep::{Damaged, Skills, Survey};
pub use name::SkillName;
pub use parcel::SkillParcel;
pub use quota::Quota;

/// The most characters of a description.
pub const MAX_DESCRIPTION: usize = 1024;

/// Who has a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkillScope {
    /// One session; it is gone with it.
    Session(SessionId),
    /// One principal, in all sessions.
    User(Principal),
    /// Everybody of this home.
    Team,
}

impl SkillScope {
    /// `session`, `user` or `team`.
    pub fn word(&self) -> &'static str {
        match self {
            SkillScope::Session(_) => "session",
            SkillScope::User(_) => "user",
            SkillScope::Team => "team",
        }
    }

    /// The name of its owner's folder.
    fn owner(&self) -> String {
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
        f.write_str(self.word())
    }
}

/// What a skill's program is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillLanguage {
    /// TypeScript.
    TypeScript,
    /// JavaScript.
    JavaScript,
    /// Python.
    Python,
    /// A shell script.
    Shell,
}

impl SkillLanguage {
    /// All of them.
    pub const ALL: [SkillLanguage; 4] = [
        SkillLanguage::TypeScript,
        SkillLanguage::JavaScript,
        SkillLanguage::Python,
        SkillLanguage::Shell,
    ];

    /// `typescript`, `javascript`, `python` or `shell`.
    pub fn name(self) -> &'static str {
        match self {
            SkillLanguage::TypeScript => "typescript",
            SkillLanguage::JavaScript => "javascript",
            SkillLanguage::Python => "python",
            SkillLanguage::Shell => "shell",
        }
    }

    /// The language of that name.
    pub fn named(name: &str) -> Option<SkillLanguage> {
        SkillLanguage::ALL.into_iter().find(|language| language.name() == name)
    }

    /// The language of a program, by its file's name.
    pub fn of_file(path: &Path) -> Option<SkillLanguage> {
        match path.extension()?.to_str()? {
            "ts" | "mts" => Some(SkillLanguage::TypeScript),
            "js" | "mjs" => Some(SkillLanguage::JavaScript),
            "py" => Some(SkillLanguage::Python),
            "sh" => Some(SkillLanguage::Shell),
            _ => None,
        }
    }

    /// What the program's file is called.
    pub fn program(self) -> &'static str {
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
    /// The digest of its definition.
    pub digest: String,
}

/// What is said of a skill in its `SKILL.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillMeta {
    /// Its name.
    pub name: SkillName,
    /// What it does and when to use it.
    pub description: String,
    /// What its program is written in.
    pub language: SkillLanguage,
    /// The tools it calls.
    pub tools: Vec<RequiredTool>,
    /// The digest of the policy that it was made under.
    pub policy: Option<String>,
    /// The JSON Schema of its input.
    pub inputs: Option<Value>,
    /// The JSON Schema of its value.
    pub outputs: Option<Value>,
    /// The policy draft that it asks for.
    pub needs: Option<Value>,
    /// What else its `SKILL.md` has.
    pub extra: SkillExtra,
}

/// What other programs wrote in a `SKILL.md`; kept as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SkillExtra {
    /// Keys of the front matter, such as `license`.
    pub keys: BTreeMap<String, Value>,
    /// Keys below `metadata`.
    pub metadata: BTreeMap<String, Value>,
    /// The text after the front matter: instructions in Markdown.
    pub text: String,
}

impl SkillMeta {
    /// A skill of which nothing else is known.
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

/// One version of a skill that is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// Who has it.
    pub scope: SkillScope,
    /// What is said of it.
    pub meta: SkillMeta,
    /// Counted from one.
    pub version: u32,
    /// The digest of everything in it.
    pub digest: Hash,
    /// How large it is.
    pub bytes: u64,
    /// When it was saved.
    pub saved: Timestamp,
}

/// What a skill consists of beside its `SKILL.md`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillBody {
    /// The program.
    pub source: String,
    /// The files it needs, by their path in the workspace.
    pub files: Vec<(RelPath, Vec<u8>)>,
}

impl crate::Store {
    /// The skills of this home.
    pub fn skills(&self) -> Skills {
        Skills::open(self.home())
    }
}
