//! Messages from the host to a child: its one job, the responses to its calls, a wait query, and the cancel.

use serde::{Deserialize, Serialize};

use crate::bounded::{BoundedList, BoundedText};
use crate::call::{CallResponse, MAX_BODY_BYTES};
use crate::codec::{ControlMessage, InvalidMessage};
use crate::stream::SOURCE_CAP;
use crate::trace::TRACE_CAP;

/// The version of this protocol. The host and its worker are built together, so only one is in use at a time.
pub const PROTOCOL_VERSION: u16 = 8;

/// The most bytes of all arguments of a job together.
pub const MAX_ARGUMENTS_BYTES: usize = 48 * 1024;

/// The most arguments that one job may carry.
const MAX_ARGUMENT_COUNT: usize = 4096;

/// The most bytes of certificates that one job may carry.
pub const MAX_TRUST_BYTES: usize = 16 * 1024;

/// The most environment variables that one job may carry.
const MAX_VARIABLE_COUNT: usize = 1024;

/// The arguments of a program.
pub type JobArguments = BoundedList<BoundedText<MAX_ARGUMENTS_BYTES>, MAX_ARGUMENT_COUNT>;

/// A program's whole environment, as pairs of name and value.
pub type JobEnvironment = BoundedList<(BoundedText<255>, BoundedText<MAX_ARGUMENTS_BYTES>), MAX_VARIABLE_COUNT>;

/// A message from the host to the child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToChild {
    /// The one job of this pipe, sent once the child is ready.
    Job(Job),
    /// Stop the job. The host kills the child if this takes too long.
    Cancel,
    /// The response to one of the program's calls.
    Return(CallResponse),
    /// Send [`FromChild::Waits`](crate::FromChild::Waits) when the program next waits, or at once if it waits already.
    Look,
}

impl ControlMessage for ToChild {
    const MAX_LIST_MEMORY: usize = MAX_ARGUMENT_COUNT * size_of::<BoundedText<MAX_ARGUMENTS_BYTES>>()
        + MAX_VARIABLE_COUNT * size_of::<(BoundedText<255>, BoundedText<MAX_ARGUMENTS_BYTES>)>();

    fn check(&self) -> Result<(), InvalidMessage> {
        match self {
            Self::Job(job) => job.check(),
            Self::Cancel | Self::Look => Ok(()),
            Self::Return(answer) => answer.check(),
        }
    }
}

/// What a child can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobLanguage {
    /// TypeScript on the built-in engine.
    TypeScript,
    /// JavaScript on the built-in engine.
    JavaScript,
    /// The host's Python, forked from its zygote.
    Python,
    /// Any executable of the sandbox, or a shell script.
    Program,
}

/// The work of one execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The sender's [`PROTOCOL_VERSION`]; the child refuses any other.
    pub version: u16,
    /// The code, program or script to run.
    pub kind: JobKind,
    /// The working folder of the program.
    pub cwd: BoundedText<4096>,
    /// The program's whole environment; it inherits nothing else.
    pub env: JobEnvironment,
    /// Where its standard input comes from.
    pub stdin: StdinMode,
    /// The proxy to the network, or `None` for no network. TypeScript and JavaScript have none, because their `fetch`
    /// is a call.
    pub network: Option<NetworkProxy>,
}

/// The network of a program: a proxy on the sandbox's own loopback, whose connections become tunnels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkProxy {
    /// The proxy's port on 127.0.0.1.
    pub port: u16,
    /// Certificates, as PEM, that programs trust in addition to the system bundle.
    pub trust: BoundedText<MAX_TRUST_BYTES>,
}

/// The code, program or script that a job runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobKind {
    /// Code on an engine. Its text, its input and then its trace come on [`PipeStream::Source`](crate::PipeStream::Source). The
    /// code is a function of these, of its arguments and of the responses to its calls.
    Code {
        /// The language of the code, which is not [`JobLanguage::Program`].
        language: JobLanguage,
        /// The name of the source in error messages.
        file_name: BoundedText<1024>,
        /// The value of `args` in the program.
        args: JobArguments,
        /// The length of the program text in bytes.
        source_bytes: u64,
        /// The length of the input: JSON text that the program's function is called with. `None` if the program defines no function.
        input_bytes: Option<u64>,
        /// The seed of the program's random numbers.
        seed: u64,
        /// The initial value of the program's clock, in ticks of 100 µs since the Unix epoch.
        clock: u64,
        /// The length of the trace: what reached the program in an earlier run and reaches it again. 0 for the first run.
        trace_bytes: u64,
    },
    /// An executable of the sandbox's file system.
    Program {
        /// The program's name or path, then its arguments.
        argv: JobArguments,
    },
    /// A script for `/bin/sh`, or for bash if its name ends in `.bash` or its first line names bash. Its text comes on
    /// [`PipeStream::Source`](crate::PipeStream::Source).
    Shell {
        /// The value of `$0` in the script.
        file_name: BoundedText<1024>,
        /// The values of `$1` and the following parameters.
        args: JobArguments,
        /// The length of the script in bytes.
        source_bytes: u64,
    },
}

/// What a program reads from its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdinMode {
    /// An empty input, at its end from the start.
    Empty,
    /// The bytes of [`PipeStream::Stdin`](crate::PipeStream::Stdin).
    Stream,
}

impl Job {
    fn check(&self) -> Result<(), InvalidMessage> {
        if self.version != PROTOCOL_VERSION {
            return Err(InvalidMessage::Version { theirs: self.version });
        }
        self.kind.check()?;
        let texts = self.env.iter().flat_map(|(name, value)| [&**name, &**value]);
        if texts.chain([&*self.cwd]).any(has_nul) {
            return Err(InvalidMessage::Nul);
        }
        let is_engine = matches!(
            self.kind,
            JobKind::Code {
                language: JobLanguage::TypeScript | JobLanguage::JavaScript,
                ..
            }
        );
        if self.network.is_some() && is_engine {
            return Err(InvalidMessage::Network);
        }
        if self.env.iter().any(|(name, _)| name.is_empty() || name.contains('=')) {
            return Err(InvalidMessage::EnvironmentName);
        }
        Ok(())
    }
}

impl JobKind {
    /// The length of the trace, which follows the source and the input on their stream; 0 if there is none.
    pub fn trace_bytes(&self) -> u64 {
        match *self {
            Self::Code { trace_bytes, .. } => trace_bytes,
            Self::Shell { .. } | Self::Program { .. } => 0,
        }
    }

    /// The length of the input, which follows the program text on its stream; `None` if there is none.
    pub fn input_bytes(&self) -> Option<u64> {
        match *self {
            Self::Code { input_bytes, .. } => input_bytes,
            Self::Shell { .. } | Self::Program { .. } => None,
        }
    }

    /// The length of the program text, which comes on the source stream; 0 if there is none.
    pub fn source_bytes(&self) -> u64 {
        match *self {
            Self::Code { source_bytes, .. } | Self::Shell { source_bytes, .. } => source_bytes,
            Self::Program { .. } => 0,
        }
    }

    fn check(&self) -> Result<(), InvalidMessage> {
        let (name, arguments) = match self {
            Self::Code {
                language: JobLanguage::Program,
                ..
            } => return Err(InvalidMessage::NoCode),
            Self::Program { argv } => {
                if argv.first().is_none_or(|program| program.is_empty()) {
                    return Err(InvalidMessage::NoProgram);
                }
                ("", argv)
            }
            Self::Code { file_name, args, .. } | Self::Shell { file_name, args, .. } => (&**file_name, args),
        };
        let source = self.source_bytes();
        if source > SOURCE_CAP {
            return Err(InvalidMessage::Source { bytes: source });
        }
        let input = self.input_bytes().unwrap_or_default();
        if input > MAX_BODY_BYTES as u64 {
            return Err(InvalidMessage::Input { bytes: input });
        }
        let trace = self.trace_bytes();
        if trace > TRACE_CAP {
            return Err(InvalidMessage::Trace { bytes: trace });
        }
        let bytes = arguments.iter().map(|argument| argument.len()).sum();
        if bytes > MAX_ARGUMENTS_BYTES {
            return Err(InvalidMessage::Arguments { bytes });
        }
        if has_nul(name) || arguments.iter().any(|argument| has_nul(argument)) {
            return Err(InvalidMessage::Nul);
        }
        Ok(())
    }
}

/// Whether a text has a NUL byte, which would truncate it on its way to a program.
fn has_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

#[cfg(test)]
mod tests;
