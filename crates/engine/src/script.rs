//! What an execution was asked to run, kept so that it can be run again from its beginning.

use std::collections::BTreeMap;
use std::time::Duration;

use ringfence_journal::Client;
use ringfence_sandbox::{Again, Language};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{Input, Program, Source};

/// Files that are kept with it, in all.
pub(crate) const MOST_FILES: u64 = 16 << 20;
const VERSION: u8 = 1;

/// An execution as it was asked for, and what it was given that it cannot know by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    version: u8,
    language: Spoken,
    file_name: String,
    source: String,
    pub(crate) args: Vec<String>,
    /// The policy that it ran under, by digest.
    pub(crate) policy: String,
    /// The rules of its session when it began, by digest.
    pub(crate) base: String,
    /// What the request said of its own policy.
    pub(crate) draft: Option<Value>,
    /// It came through a front door, and stays under what is allowed there.
    pub(crate) is_asked: bool,
    pub(crate) require_hard: bool,
    timeout_ms: Option<u64>,
    pub(crate) client: Option<Client>,
    pub(crate) seed: u64,
    pub(crate) clock: u64,
    /// Everything that was in its workspace; the contents follow the text, in this order.
    files: Vec<File>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Spoken {
    TypeScript,
    JavaScript,
    Python,
}

/// Why something cannot be run again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// It is no code.
    #[error("only TypeScript, JavaScript and Python can be run again")]
    NoCode,
    /// Its files are too much to keep.
    #[error("its files are more than {} MiB", MOST_FILES >> 20)]
    Files,
    /// What was kept is not what was written.
    #[error("what was kept of it cannot be read: {0}")]
    Unreadable(&'static str),
}

/// What surrounds a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) args: &'a [String],
    pub(crate) policy: &'a str,
    pub(crate) base: &'a str,
    pub(crate) is_asked: bool,
    pub(crate) require_hard: bool,
    pub(crate) draft: Option<&'a Value>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) client: Option<&'a Client>,
}

impl Script {
    /// The script of a program that is about to run, with all that is in its workspace.
    pub(crate) fn new(program: &Program, around: Around<'_>, again: &Again) -> Result<Script, ScriptError> {
        let Program::Code {
            language,
            file_name,
            source,
        } = program
        else {
            return Err(ScriptError::NoCode);
        };
        let language = match language {
            Language::TypeScript => Spoken::TypeScript,
            Language::JavaScript => Spoken::JavaScript,
            Language::Python => Spoken::Python,
            Language::Program => return Err(ScriptError::NoCode),
        };
        Ok(Script {
            version: VERSION,
            language,
            file_name: file_name.clone(),
            source: source.clone(),
            args: around.args.to_vec(),
            policy: around.policy.to_owned(),
            base: around.base.to_owned(),
            is_asked: around.is_asked,
            require_hard: around.require_hard,
            draft: around.draft.cloned(),
            timeout_ms: around
                .timeout
                .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            client: around.client.cloned(),
            seed: again.seed,
            clock: again.clock,
            files: Vec::new(),
        })
    }

    /// As bytes, with the contents of its files.
    pub(crate) fn into_bytes(mut self, files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, ScriptError> {
        let size: u64 = files.values().map(|content| content.len() as u64).sum();
        if size > MOST_FILES {
            return Err(ScriptError::Files);
        }
        self.files = files
            .iter()
            .map(|(name, content)| File {
                name: name.clone(),
                bytes: content.len() as u64,
            })
            .collect();
        let text = serde_json::to_vec(&self).map_err(|_| ScriptError::Unreadable("it is not JSON"))?;
        let length = u32::try_from(text.len()).map_err(|_| ScriptError::Unreadable("it is too long"))?;
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(text);
        for content in files.values() {
            bytes.extend_from_slice(content);
        }
        Ok(bytes)
    }

    /// Reads it back; also what was in its workspace.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Script, Vec<Input>), ScriptError> {
        let cut = ScriptError::Unreadable("it was cut short");
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| cut.clone())?;
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let text = rest.get(..length).ok_or_else(|| cut.clone())?;
        let mut contents = rest.get(length..).unwrap_or_default();
        let script: Script =
            serde_json::from_slice(text).map_err(|_| ScriptError::Unreadable("it is not what was written"))?;
        if script.version != VERSION {
            return Err(ScriptError::Unreadable("another version wrote it"));
        }
        let mut files = Vec::with_capacity(script.files.len());
        for file in &script.files {
            let size = usize::try_from(file.bytes).unwrap_or(usize::MAX);
            let (content, after) = contents.split_at_checked(size).ok_or_else(|| cut.clone())?;
            contents = after;
            files.push(Input {
                from: Source::Bytes(content.to_vec()),
                name: file
                    .name
                    .parse()
                    .map_err(|_| ScriptError::Unreadable("a file has no name"))?,
            });
        }
        if contents.is_empty() {
            Ok((script, files))
        } else {
            Err(ScriptError::Unreadable("something follows its end"))
        }
    }

    /// The program.
    pub(crate) fn program(&self) -> Program {
        Program::Code {
            language: match self.language {
                Spoken::TypeScript => Language::TypeScript,
                Spoken::JavaScript => Language::JavaScript,
                Spoken::Python => Language::Python,
            },
            file_name: self.file_name.clone(),
            source: self.source.clone(),
        }
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}
