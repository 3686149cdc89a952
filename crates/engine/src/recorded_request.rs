//! The recorded request of an execution, from which it can be run again.

use std::collections::BTreeMap;
use std::time::Duration;

use ringfence_journal::ClientClaims;
use ringfence_sandbox::{JobLanguage, ReplayState, RunProgram};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{InputFile, InputSource};

/// Bytes of the files of one recorded request, in all.
pub(crate) const MAX_FILE_BYTES: u64 = 16 << 20;
const VERSION: u8 = 1;

/// A recorded request, with the inputs that the program cannot derive itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedRequest {
    version: u8,
    language: RecordedLanguage,
    file_name: String,
    source: String,
    pub(crate) args: Vec<String>,
    /// The digest of the policy that it ran under.
    pub(crate) policy: String,
    /// The digest of its session's rules when it began.
    pub(crate) base: String,
    /// The policy draft of the request.
    pub(crate) draft: Option<Value>,
    /// Whether it came through a front door, whose ceiling still applies.
    pub(crate) is_asked: bool,
    pub(crate) require_hard: bool,
    timeout_ms: Option<u64>,
    pub(crate) client: Option<ClientClaims>,
    pub(crate) seed: u64,
    pub(crate) clock: u64,
    /// The files that were in its workspace; their contents follow the text, in this order.
    files: Vec<RecordedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedFile {
    name: String,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordedLanguage {
    TypeScript,
    JavaScript,
    Python,
}

/// Why a request cannot be recorded or run again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordedRequestError {
    /// The program is not code of a repeatable language.
    #[error("only TypeScript, JavaScript and Python can be run again")]
    NoCode,
    /// The files are too large to keep.
    #[error("its files are more than {} MiB", MAX_FILE_BYTES >> 20)]
    Files,
    /// The recorded bytes are damaged, or of another version.
    #[error("what was kept of it cannot be read: {0}")]
    Unreadable(&'static str),
}

/// The settings around a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestSettings<'a> {
    pub(crate) args: &'a [String],
    pub(crate) policy: &'a str,
    pub(crate) base: &'a str,
    pub(crate) is_asked: bool,
    pub(crate) require_hard: bool,
    pub(crate) draft: Option<&'a Value>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) client: Option<&'a ClientClaims>,
}

impl RecordedRequest {
    /// The recorded request of a program that is about to run.
    pub(crate) fn new(
        program: &RunProgram,
        around: RequestSettings<'_>,
        again: &ReplayState,
    ) -> Result<RecordedRequest, RecordedRequestError> {
        let RunProgram::Code {
            language,
            file_name,
            source,
        } = program
        else {
            return Err(RecordedRequestError::NoCode);
        };
        let language = match language {
            JobLanguage::TypeScript => RecordedLanguage::TypeScript,
            JobLanguage::JavaScript => RecordedLanguage::JavaScript,
            JobLanguage::Python => RecordedLanguage::Python,
            JobLanguage::Program => return Err(RecordedRequestError::NoCode),
        };
        Ok(RecordedRequest {
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

    /// Serialises the request, followed by the contents of its files.
    pub(crate) fn into_bytes(mut self, files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, RecordedRequestError> {
        let size: u64 = files.values().map(|content| content.len() as u64).sum();
        if size > MAX_FILE_BYTES {
            return Err(RecordedRequestError::Files);
        }
        self.files = files
            .iter()
            .map(|(name, content)| RecordedFile {
                name: name.clone(),
                bytes: content.len() as u64,
            })
            .collect();
        let text = serde_json::to_vec(&self).map_err(|_| RecordedRequestError::Unreadable("it is not JSON"))?;
        let length = u32::try_from(text.len()).map_err(|_| RecordedRequestError::Unreadable("it is too long"))?;
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(text);
        for content in files.values() {
            bytes.extend_from_slice(content);
        }
        Ok(bytes)
    }

    /// Reads a request back, with the files of its workspace.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(RecordedRequest, Vec<InputFile>), RecordedRequestError> {
        let cut = RecordedRequestError::Unreadable("it was cut short");
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| cut.clone())?;
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let text = rest.get(..length).ok_or_else(|| cut.clone())?;
        let mut contents = rest.get(length..).unwrap_or_default();
        let script: RecordedRequest =
            serde_json::from_slice(text).map_err(|_| RecordedRequestError::Unreadable("it is not what was written"))?;
        if script.version != VERSION {
            return Err(RecordedRequestError::Unreadable("another version wrote it"));
        }
        let mut files = Vec::with_capacity(script.files.len());
        for file in &script.files {
            let size = usize::try_from(file.bytes).unwrap_or(usize::MAX);
            let (content, after) = contents.split_at_checked(size).ok_or_else(|| cut.clone())?;
            contents = after;
            files.push(InputFile {
                from: InputSource::Bytes(content.to_vec()),
                name: file
                    .name
                    .parse()
                    .map_err(|_| RecordedRequestError::Unreadable("a file has no name"))?,
            });
        }
        if contents.is_empty() {
            Ok((script, files))
        } else {
            Err(RecordedRequestError::Unreadable("something follows its end"))
        }
    }

    /// The program that the request runs.
    pub(crate) fn program(&self) -> RunProgram {
        RunProgram::Code {
            language: match self.language {
                RecordedLanguage::TypeScript => JobLanguage::TypeScript,
                RecordedLanguage::JavaScript => JobLanguage::JavaScript,
                RecordedLanguage::Python => JobLanguage::Python,
            },
            file_name: self.file_name.clone(),
            source: self.source.clone(),
        }
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}
