//! Python on the host's `CPython`: a zygote that imports the library once, and a forked child per program.
//!
//! This is the Rust side of their conversation: how the zygote is started, what is asked of it, and how a child's frames are
//! read. Everything that comes from a child is hostile: it is capped, parsed and never trusted.
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Read},
    path::Path,
};

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::calls::Answered;

const SCRIPT: &str = concat!(
    include_str!("python/files.py"),
    include_str!("python/tools.py"),
    include_str!("python/program.py"),
    include_str!("python/zygote.py")
);
/// Gives our code a file name of its own, so that tracebacks can leave it out.
const LAUNCHER: &str = r#"import sys;exec(compile(sys.argv.pop(1),"<ringfence>","exec"))"#;
/// The zygote's first packet.
pub const READY: &[u8] = b"ready";
/// The descriptor on which the zygote expects its socket.
pub const CONTROL_DESCRIPTOR: i32 = 3;
/// The largest job frame that a child accepts.
pub const MAX_JOB: usize = 64 << 20;
/// The largest packet in either direction between worker and zygote.
pub const MAX_PACKET: usize = 64 * 1024;
/// Longest text kept of an error.
const MAX_TEXT: usize = 16 * 1024;

/// The arguments that start the zygote, after the interpreter's own path. `filter` is an array of `struct sock_filter` as bytes,
/// installed in every child; the zygote does not start without it.
pub fn arguments(filter: &[u8]) -> Vec<String> {
    let mut hexadecimal = String::with_capacity(filter.len() * 2);
    for byte in filter {
        let written = write!(hexadecimal, "{byte:02x}");
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    }
    ["-I", "-S", "-B", "-X", "utf8", "-c", LAUNCHER, SCRIPT]
        .into_iter()
        .map(str::to_owned)
        .chain([hexadecimal])
        .collect()
}

/// A packet to the zygote. A fork travels with its descriptors: the job's stream, standard output, standard error, then one per
/// cgroup to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A child, with resource limits by their names without `RLIMIT_`, such as `AS`.
    Fork {
        /// Soft and hard limit alike.
        rlimits: BTreeMap<String, u64>,
    },
    /// Waits for a child to end and takes its status.
    Reap {
        /// The child, as the zygote named it.
        pid: i32,
    },
}

impl Request {
    /// The packet's bytes.
    pub fn to_packet(&self) -> Vec<u8> {
        let message = match self {
            Request::Fork { rlimits } => serde_json::json!({ "rlimits": rlimits }),
            Request::Reap { pid } => serde_json::json!({ "reap": pid }),
        };
        message.to_string().into_bytes()
    }
}

/// The zygote's answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The child, numbered in the sandbox's own process space.
    Child {
        /// Always above 1.
        pid: i32,
    },
    /// A child's end: an exit code, or a negative signal number.
    Reaped {
        /// The child.
        pid: i32,
        /// How it ended.
        status: i32,
    },
    /// It could not.
    Refused {
        /// Why.
        message: String,
    },
}

/// Why a message could not be understood.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The stream failed.
    #[error("cannot read from the Python process")]
    Stream(#[source] io::Error),
    /// A frame is larger than allowed.
    #[error("the Python process sent a frame of {size} bytes, more than {cap}")]
    TooLarge {
        /// What it announced.
        size: usize,
        /// What is allowed.
        cap: usize,
    },
    /// The text is not the expected JSON.
    #[error("the Python process sent a message that is not understood")]
    Shape(#[source] serde_json::Error),
    /// The message is JSON, but says nothing sensible.
    #[error("the Python process sent a message without {what}")]
    Missing {
        /// What should be there.
        what: &'static str,
    },
}

#[derive(Deserialize)]
struct RawReply {
    pid: Option<i32>,
    reaped: Option<i32>,
    status: Option<i32>,
    error: Option<String>,
}

impl Reply {
    /// Reads one packet.
    pub fn from_packet(packet: &[u8]) -> Result<Reply, ReadError> {
        let raw: RawReply = serde_json::from_slice(packet).map_err(ReadError::Shape)?;
        match (raw.pid, raw.reaped, raw.status, raw.error) {
            (Some(pid), None, None, None) if pid > 1 => Ok(Reply::Child { pid }),
            (None, Some(pid), Some(status), None) => Ok(Reply::Reaped { pid, status }),
            (None, None, None, Some(message)) => Ok(Reply::Refused { message: cut(message) }),
            _ => Err(ReadError::Missing {
                what: "a child, a status or an error",
            }),
        }
    }
}

/// What a child is told to run.
#[derive(Debug, Clone, Serialize)]
pub struct PythonJob<'a> {
    /// The source text.
    pub source: &'a str,
    /// The name that errors carry.
    pub file_name: &'a str,
    /// What follows the name in `sys.argv`, and `args`.
    pub args: &'a [String],
    /// The whole environment.
    pub env: &'a BTreeMap<String, String>,
    /// The working folder, known to `files` as `/workspace`.
    pub workspace: &'a Path,
    /// Packages, if the folder exists.
    pub deps: &'a Path,
}

/// Why a job cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It holds what JSON cannot, such as a path that is not UTF-8.
    #[error("the job cannot be written as JSON")]
    Write(#[source] serde_json::Error),
    /// It is larger than a child accepts.
    #[error("the job has {size} bytes, more than {MAX_JOB}")]
    TooLarge {
        /// Its size.
        size: usize,
    },
}

impl PythonJob<'_> {
    /// The job as a frame.
    pub fn to_frame(&self) -> Result<Vec<u8>, JobError> {
        let mut frame = vec![0; 4];
        serde_json::to_writer(&mut frame, self).map_err(JobError::Write)?;
        let size = frame.len() - 4;
        let length = u32::try_from(size).ok().filter(|_| size <= MAX_JOB);
        let Some(length) = length else {
            return Err(JobError::TooLarge { size });
        };
        frame[..4].copy_from_slice(&length.to_be_bytes());
        Ok(frame)
    }
}

/// Collects a child's frames from bytes as they come. Holds at most `cap` bytes and what one read adds.
#[derive(Debug)]
pub struct Frames {
    cap: usize,
    held: Vec<u8>,
}

impl Frames {
    /// Frames of at most `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Frames { cap, held: Vec::new() }
    }

    /// Takes bytes in.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next whole frame, if it is there. After an error the stream is of no more use.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        let Some((head, rest)) = self.held.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let size = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
        if size > self.cap {
            return Err(ReadError::TooLarge { size, cap: self.cap });
        }
        if rest.len() < size {
            return Ok(None);
        }
        let frame = rest[..size].to_vec();
        self.held.drain(..4 + size);
        Ok(Some(frame))
    }

    /// Reads until a whole frame is there; nothing if the stream ends first.
    pub fn read_frame(&mut self, stream: &mut impl Read) -> Result<Option<Vec<u8>>, ReadError> {
        let mut chunk = [0; 16 * 1024];
        loop {
            if let Some(frame) = self.next_frame()? {
                return Ok(Some(frame));
            }
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(count) => self.feed(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Stream(error)),
            }
        }
    }
}

/// Whether a child's first frame says that it is confined and waits for its job.
pub fn is_ready(frame: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Ready {
        ready: bool,
    }
    serde_json::from_slice::<Ready>(frame).is_ok_and(|message| message.ready)
}

/// A call as a child sends it.
#[derive(Debug, Deserialize)]
pub struct PythonCall<'a> {
    /// The child's own number for it.
    pub call: u64,
    /// `tool`, `search`, `describe` or `list`.
    #[serde(borrow)]
    pub ask: Cow<'a, str>,
    /// The server, for a tool.
    #[serde(borrow)]
    pub server: Cow<'a, str>,
    /// The tool.
    #[serde(borrow)]
    pub tool: Cow<'a, str>,
    /// The arguments.
    #[serde(borrow)]
    pub body: &'a RawValue,
}

/// What a child says once it has its job.
#[derive(Debug)]
pub enum PythonFrame<'a> {
    /// It wants something of the outside.
    Call(PythonCall<'a>),
    /// It is over.
    Result(PythonResult),
}

impl PythonFrame<'_> {
    /// Reads one.
    pub fn read(frame: &[u8]) -> Result<PythonFrame<'_>, ReadError> {
        if frame.starts_with(b"{\"call\":") {
            serde_json::from_slice(frame)
                .map(PythonFrame::Call)
                .map_err(ReadError::Shape)
        } else {
            PythonResult::from_frame(frame).map(PythonFrame::Result)
        }
    }
}

/// Appends the answer to a child's call as a frame.
pub fn return_frame(number: u64, answer: &Answered, into: &mut Vec<u8>) {
    let start = into.len();
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(format!("{{\"return\":{number},").as_bytes());
    match answer {
        Ok(text) => {
            into.extend_from_slice(b"\"ok\":");
            into.extend_from_slice(text.as_bytes());
        }
        Err(refusal) => {
            let error = serde_json::json!({
                "code": refusal.code.as_str(),
                "message": refusal.message.as_str(),
                "rule": refusal.rule.as_deref(),
                "hint": refusal.hint.as_deref(),
            });
            into.extend_from_slice(b"\"error\":");
            into.extend_from_slice(error.to_string().as_bytes());
        }
    }
    into.push(b'}');
    // A body has at most 16 MiB.
    let length = u32::try_from(into.len() - start - 4).unwrap_or(u32::MAX);
    into[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// An error as Python describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PythonError {
    /// The exception's class.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its text.
    pub message: String,
    /// The program's name, where the place is known.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
    /// The source line.
    pub text: Option<String>,
    /// What a refused call was refused with.
    pub code: Option<String>,
    /// The rule that refused it.
    pub rule: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// How a Python program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PythonResult {
    /// It ran to its end; `None` is a value of null.
    Completed {
        /// The value; known to be JSON.
        value_json: Option<String>,
    },
    /// It raised; the traceback is on its standard error.
    Failed(PythonError),
    /// It never started.
    SyntaxError(PythonError),
    /// It ran, but JSON cannot hold its value.
    NotJson {
        /// What and where.
        error: PythonError,
        /// How to convert it.
        hint: Option<String>,
    },
    /// It imported what is not there.
    ImportRefused {
        /// What was imported, and where.
        error: PythonError,
        /// What is available.
        hint: Option<String>,
    },
    /// It called `sys.exit`.
    Exit {
        /// The exit code.
        code: u8,
    },
}

#[derive(Deserialize)]
struct RawResult {
    kind: Kind,
    #[serde(default)]
    value_json: Option<String>,
    #[serde(default)]
    exit_code: Option<u8>,
    #[serde(default)]
    error: Option<PythonError>,
    #[serde(default)]
    hint: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Completed,
    Failed,
    SyntaxError,
    NotJson,
    ImportRefused,
    Exit,
}

impl PythonResult {
    /// Reads a child's answer.
    pub fn from_frame(frame: &[u8]) -> Result<PythonResult, ReadError> {
        let raw: RawResult = serde_json::from_slice(frame).map_err(ReadError::Shape)?;
        let error = raw
            .error
            .map(PythonError::cut)
            .ok_or(ReadError::Missing { what: "its error" });
        let hint = raw.hint.map(cut);
        Ok(match raw.kind {
            Kind::Completed => {
                if let Some(text) = &raw.value_json {
                    serde_json::from_str::<IgnoredAny>(text).map_err(ReadError::Shape)?;
                }
                PythonResult::Completed {
                    value_json: raw.value_json,
                }
            }
            Kind::Failed => PythonResult::Failed(error?),
            Kind::SyntaxError => PythonResult::SyntaxError(error?),
            Kind::NotJson => PythonResult::NotJson { error: error?, hint },
            Kind::ImportRefused => PythonResult::ImportRefused { error: error?, hint },
            Kind::Exit => {
                let code = raw.exit_code.ok_or(ReadError::Missing { what: "its exit code" })?;
                PythonResult::Exit { code }
            }
        })
    }
}

impl PythonError {
    fn cut(self) -> Self {
        PythonError {
            kind: cut(self.kind),
            message: cut(self.message),
            file: self.file.map(cut),
            text: self.text.map(cut),
            code: self.code.map(cut),
            rule: self.rule.map(cut),
            hint: self.hint.map(cut),
            line: self.line,
            column: self.column,
        }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = text.floor_char_boundary(MAX_TEXT);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
