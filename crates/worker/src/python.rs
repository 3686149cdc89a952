//! Python on the host's `CPython`: a zygote that imports the library once, and a forked child per program.
//!
//! This is the Rust side of the protocol with them: how to start the zygote, which requests it takes, and how to read a
//! child's frames. Everything from a child is hostile: it is capped, parsed and never trusted.
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Read},
    path::Path,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::calls::CallAnswer;

use result::truncate_text;
pub use result::{PythonError, PythonResult};

mod result;

const SCRIPT: &str = concat!(
    include_str!("python/files.py"),
    include_str!("python/emit.py"),
    include_str!("python/tape.py"),
    include_str!("python/bridge.py"),
    include_str!("python/tools.py"),
    include_str!("python/value.py"),
    include_str!("python/program.py"),
    include_str!("python/world.py"),
    include_str!("python/zygote.py")
);
/// Removes the working folder from the import path, also in versions that do not know `PYTHONSAFEPATH`, and gives our
/// code its own file name, so that tracebacks can leave it out.
const LAUNCHER: &str = r#"import gc,sys;gc.disable();sys.path[:]=filter(None,sys.path);exec(compile(sys.argv.pop(1),"<ringfence>","exec"))"#;
/// The first packet of the zygote, sent when it is ready for requests.
pub const READY: &[u8] = b"ready";
/// The descriptor on which the zygote expects its socket.
pub const CONTROL_DESCRIPTOR: i32 = 3;
/// The largest job frame that a child accepts, in bytes.
pub const MAX_JOB: usize = 64 << 20;
/// The largest packet in either direction between worker and zygote, in bytes.
pub const MAX_PACKET: usize = 64 * 1024;
/// The zygote's whole environment. The fixed hash seed gives sets the same order in every process, so also when a
/// program is run again. The option `-I` would ignore it, so its other effects are set one by one.
pub const ENVIRONMENT: [(&str, &str); 2] = [("PYTHONHASHSEED", "0"), ("PYTHONSAFEPATH", "1")];

/// The arguments that start the zygote, after the interpreter's own path. `filter` is an array of `struct sock_filter`
/// as bytes, installed in every child; the zygote does not start without it.
pub fn zygote_arguments(filter: &[u8]) -> Vec<String> {
    let mut hexadecimal = String::with_capacity(filter.len() * 2);
    for byte in filter {
        let written = write!(hexadecimal, "{byte:02x}");
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    }
    ["-s", "-S", "-B", "-X", "utf8", "-c", LAUNCHER, SCRIPT]
        .into_iter()
        .map(str::to_owned)
        .chain([hexadecimal])
        .collect()
}

/// A packet to the zygote. A fork request travels with its descriptors: the job's stream, standard output, standard
/// error, then one for each cgroup to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZygoteRequest {
    /// Forks a child that waits for its job.
    Fork {
        /// Resource limits, soft and hard alike, by their names without `RLIMIT_`, such as `AS`.
        rlimits: BTreeMap<String, u64>,
    },
    /// Waits for a child to end and takes its status.
    Reap {
        /// The child's process id, from the reply to the fork.
        pid: i32,
    },
}

impl ZygoteRequest {
    /// Encodes the request as one packet of JSON.
    pub fn to_packet(&self) -> Vec<u8> {
        let message = match self {
            ZygoteRequest::Fork { rlimits } => serde_json::json!({ "rlimits": rlimits }),
            ZygoteRequest::Reap { pid } => serde_json::json!({ "reap": pid }),
        };
        message.to_string().into_bytes()
    }
}

/// The zygote's answer to a [`ZygoteRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZygoteReply {
    /// The zygote has forked a child.
    Child {
        /// The process id in the sandbox's own namespace, always above 1.
        pid: i32,
    },
    /// The zygote has reaped a child.
    Reaped {
        /// The child's process id, from the request.
        pid: i32,
        /// The exit code, or the negative number of the signal that ended the child.
        status: i32,
    },
    /// The zygote could not do what it was asked.
    Refused {
        /// The reason, as the zygote words it.
        message: String,
    },
}

/// Why a message cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum PythonReadError {
    /// The stream from the process cannot be read.
    #[error("cannot read from the Python process")]
    Stream(#[source] io::Error),
    /// The frame is larger than allowed.
    #[error("the Python process sent a frame of {size} bytes, more than {cap}")]
    TooLarge {
        /// The length in the frame's header, in bytes.
        size: usize,
        /// The largest length allowed, in bytes.
        cap: usize,
    },
    /// The text is not the expected JSON.
    #[error("the Python process sent a message that is not understood")]
    Shape(#[source] serde_json::Error),
    /// The message is JSON, but lacks a part.
    #[error("the Python process sent a message without {what}")]
    Missing {
        /// The part that is missing.
        what: &'static str,
    },
}

#[derive(Deserialize)]
struct RawZygoteReply {
    pid: Option<i32>,
    reaped: Option<i32>,
    status: Option<i32>,
    error: Option<String>,
}

impl ZygoteReply {
    /// Decodes a packet from the zygote.
    pub fn from_packet(packet: &[u8]) -> Result<ZygoteReply, PythonReadError> {
        let raw: RawZygoteReply = serde_json::from_slice(packet).map_err(PythonReadError::Shape)?;
        match (raw.pid, raw.reaped, raw.status, raw.error) {
            (Some(pid), None, None, None) if pid > 1 => Ok(ZygoteReply::Child { pid }),
            (None, Some(pid), Some(status), None) => Ok(ZygoteReply::Reaped { pid, status }),
            (None, None, None, Some(message)) => Ok(ZygoteReply::Refused {
                message: truncate_text(message),
            }),
            _ => Err(PythonReadError::Missing {
                what: "a child, a status or an error",
            }),
        }
    }
}

/// The job that a child runs.
#[derive(Debug, Clone, Serialize)]
pub struct PythonJob<'a> {
    /// The source text of the program.
    pub source: &'a str,
    /// The name of the source in error messages.
    pub file_name: &'a str,
    /// The arguments, found in `args` and after the name in `sys.argv`.
    pub args: &'a [String],
    /// The argument of the program's function `main`, an object; `None` if the program defines none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<&'a RawValue>,
    /// The program's whole environment; it inherits nothing else.
    pub env: &'a BTreeMap<String, String>,
    /// The working folder, which `files` knows as `/workspace`.
    pub workspace: &'a Path,
    /// The folder of installed packages, which need not exist.
    pub deps: &'a Path,
    /// The seed of the program's random numbers.
    pub seed: u64,
    /// The initial value of the program's clock, in ticks of 100 µs since the Unix epoch.
    pub clock: u64,
    /// What reached the program in an earlier run; empty for the first run.
    #[serde(serialize_with = "as_base64")]
    pub trace: &'a [u8],
    /// Whether the program has a network.
    pub network: bool,
}

fn as_base64<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
}

/// Why a job cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The job holds what JSON cannot, such as a path that is not UTF-8.
    #[error("the job cannot be written as JSON")]
    Write(#[source] serde_json::Error),
    /// The job is larger than a child accepts.
    #[error("the job has {size} bytes, more than {MAX_JOB}")]
    TooLarge {
        /// The size of the job as JSON, in bytes.
        size: usize,
    },
}

impl PythonJob<'_> {
    /// Encodes the job as a frame: its length, then JSON.
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

/// Assembles a child's frames from the bytes of its stream. Holds at most `cap` bytes and those of one read.
#[derive(Debug)]
pub struct FrameBuffer {
    cap: usize,
    held: Vec<u8>,
}

impl FrameBuffer {
    /// A buffer for frames of at most `cap` bytes.
    pub fn new(cap: usize) -> Self {
        FrameBuffer { cap, held: Vec::new() }
    }

    /// Appends bytes as they come from the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Takes the next whole frame, or `None` until more bytes come. After an error the stream is of no more use.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, PythonReadError> {
        let Some((head, rest)) = self.held.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let size = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
        if size > self.cap {
            return Err(PythonReadError::TooLarge { size, cap: self.cap });
        }
        if rest.len() < size {
            return Ok(None);
        }
        let frame = rest[..size].to_vec();
        self.held.drain(..4 + size);
        Ok(Some(frame))
    }

    /// Reads until a whole frame is there; `None` if the stream ends first.
    pub fn read_frame(&mut self, stream: &mut impl Read) -> Result<Option<Vec<u8>>, PythonReadError> {
        let mut chunk = [0; 16 * 1024];
        loop {
            if let Some(frame) = self.next_frame()? {
                return Ok(Some(frame));
            }
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(count) => self.feed(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(PythonReadError::Stream(error)),
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

/// A call of a Python program, as its process sends it.
#[derive(Debug, Deserialize)]
pub struct PythonCall<'a> {
    /// The process's own number for the call.
    pub call: u64,
    /// The operation: `tool`, `search`, `describe` or `list`.
    #[serde(borrow)]
    pub ask: Cow<'a, str>,
    /// The server's name, for a tool.
    #[serde(borrow)]
    pub server: Cow<'a, str>,
    /// The tool's name on that server.
    #[serde(borrow)]
    pub tool: Cow<'a, str>,
    /// The trace recorded since the previous call.
    #[serde(deserialize_with = "from_base64")]
    pub trace: Vec<u8>,
    /// The arguments as JSON text.
    #[serde(borrow)]
    pub body: &'a RawValue,
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    BASE64_STANDARD
        .decode(text.as_bytes())
        .map_err(serde::de::Error::custom)
}

/// A message from a child other than a call and the result.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PythonRemark {
    /// A piece of the trace, ahead of a call, a wait or the end.
    #[serde(deserialize_with = "from_base64")]
    Trace(Vec<u8>),
    /// The program waits, in answer to a wait query.
    Waits {
        /// How many calls are open.
        open: u32,
        /// When its next timer fires, in ticks of its clock; `None` if it has no timer.
        due: Option<u64>,
    },
    /// The program cannot be run again, for this reason.
    Unrepeatable(String),
    /// A file goes out with the result.
    Emit {
        /// The path below the workspace.
        path: String,
        /// The media type, if the program gives one.
        #[serde(rename = "type")]
        media_type: Option<String>,
    },
}

const REMARK_PREFIXES: [&[u8]; 4] = [b"{\"trace\":", b"{\"waits\":", b"{\"unrepeatable\":", b"{\"emit\":"];

/// A message from a child that has its job.
#[derive(Debug)]
pub enum PythonFrame<'a> {
    /// The program makes a call.
    Call(PythonCall<'a>),
    /// The child reports something about itself or its files.
    Remark(PythonRemark),
    /// The program has ended; no more frames follow.
    Result(PythonResult),
}

impl PythonFrame<'_> {
    /// Decodes a frame, whose first bytes select the kind.
    pub fn read(frame: &[u8]) -> Result<PythonFrame<'_>, PythonReadError> {
        if frame.starts_with(b"{\"call\":") {
            serde_json::from_slice(frame)
                .map(PythonFrame::Call)
                .map_err(PythonReadError::Shape)
        } else if REMARK_PREFIXES.iter().any(|start| frame.starts_with(start)) {
            serde_json::from_slice(frame)
                .map(PythonFrame::Remark)
                .map_err(PythonReadError::Shape)
        } else {
            PythonResult::from_frame(frame).map(PythonFrame::Result)
        }
    }
}

/// Appends a wait query to `into`: the child reports when it next waits.
pub fn wait_query_frame(into: &mut Vec<u8>) {
    const WAIT_QUERY: &[u8] = b"\0\0\0\x0a{\"look\":1}";
    into.extend_from_slice(WAIT_QUERY);
}

/// Appends the answer to a child's call as a frame. `call` is the host's number for it, if there is one.
pub fn append_return_frame(number: u64, call: Option<u32>, answer: &CallAnswer, into: &mut Vec<u8>) {
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
                "retry_after_ms": refusal.retry_after_ms,
                "call": call,
            });
            into.extend_from_slice(b"\"error\":");
            into.extend_from_slice(error.to_string().as_bytes());
        }
    }
    into.push(b'}');
    // A body has at most 16 MiB, so the length fits.
    let length = u32::try_from(into.len() - start - 4).unwrap_or(u32::MAX);
    into[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests;
