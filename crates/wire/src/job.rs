//! What a child is told: its one job, or to stop.

use serde::{Deserialize, Serialize};

use crate::bounded::{List, Text};
use crate::call::{BODY_CAP, Return};
use crate::codec::{Message, Unfit};
use crate::stream::SOURCE_CAP;
use crate::trace::TRACE_CAP;

/// The version of this language. The host and its worker are built together, so there is only one at a time.
pub const VERSION: u16 = 8;

/// The most bytes of all arguments together.
pub const ARGUMENTS_MAX: usize = 48 * 1024;

/// The most arguments.
const ARGUMENT_COUNT: usize = 4096;

/// The most bytes of certificates that come with a job.
pub const TRUST_MAX: usize = 16 * 1024;

/// The most variables.
const VARIABLE_COUNT: usize = 1024;

/// What a program is called with.
pub type Arguments = List<Text<ARGUMENTS_MAX>, ARGUMENT_COUNT>;

/// A program's whole environment: names and values.
pub type Environment = List<(Text<255>, Text<ARGUMENTS_MAX>), VARIABLE_COUNT>;

/// From the host to the child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToChild {
    /// The one job of this pipe.
    Job(Job),
    /// Stop at the next chance. The host kills if this takes too long.
    Cancel,
    /// The answer to one of its calls.
    Return(Return),
    /// Say [`FromChild::Waits`](crate::FromChild::Waits) when the program next waits; at once if it waits already.
    Look,
}

impl Message for ToChild {
    const LISTS: usize = ARGUMENT_COUNT * size_of::<Text<ARGUMENTS_MAX>>()
        + VARIABLE_COUNT * size_of::<(Text<255>, Text<ARGUMENTS_MAX>)>();

    fn check(&self) -> Result<(), Unfit> {
        match self {
            Self::Job(job) => job.check(),
            Self::Cancel | Self::Look => Ok(()),
            Self::Return(answer) => answer.check(),
        }
    }
}

/// What a child can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Language {
    /// TypeScript on the built-in engine.
    TypeScript,
    /// JavaScript on the built-in engine.
    JavaScript,
    /// The host's Python from its zygote.
    Python,
    /// Any program, a shell script too.
    Program,
}

/// One execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// [`VERSION`].
    pub version: u16,
    /// What to run.
    pub kind: JobKind,
    /// The folder it starts in.
    pub cwd: Text<4096>,
    /// Its whole environment.
    pub env: Environment,
    /// What it reads.
    pub stdin: StdinMode,
    /// Its way to the network; not for TypeScript and JavaScript, whose `fetch` is a call.
    pub network: Option<Network>,
}

/// The way to the network: a proxy on the sandbox's own loopback, whose connections become tunnels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Where programs find it on 127.0.0.1.
    pub port: u16,
    /// Certificates, as PEM, that programs are to trust beside the usual ones.
    pub trust: Text<TRUST_MAX>,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobKind {
    /// Code on an engine; its text, its input and then its trace come on [`Stream::Source`](crate::Stream::Source). It is a
    /// function of these, its arguments and the answers it gets.
    Code {
        /// Any but [`Language::Program`].
        language: Language,
        /// What errors call the source.
        file_name: Text<1024>,
        /// What the program finds in `args`.
        args: Arguments,
        /// The length of the program text.
        source_bytes: u64,
        /// The length of the input, JSON text, that the function it defines is called with; `None`: it defines no function.
        input_bytes: Option<u64>,
        /// What its random numbers are made of.
        seed: u64,
        /// What its clock starts with: ticks of 100 µs since the Unix epoch.
        clock: u64,
        /// The length of the trace: what reached it when it ran before, and reaches it again; 0 for the first time.
        trace_bytes: u64,
    },
    /// A program of the sandbox's file system.
    Program {
        /// The program and its arguments.
        argv: Arguments,
    },
    /// A script for `/bin/sh`, or for bash where the end of its name or its first line says so; its text comes on [`Stream::Source`](crate::Stream::Source).
    Shell {
        /// `$0`.
        file_name: Text<1024>,
        /// `$1` and so on.
        args: Arguments,
        /// The length of the script.
        source_bytes: u64,
    },
}

/// What a program reads from its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdinMode {
    /// Nothing: at its end from the start.
    Empty,
    /// What comes on [`Stream::Stdin`](crate::Stream::Stdin).
    Stream,
}

impl Job {
    fn check(&self) -> Result<(), Unfit> {
        if self.version != VERSION {
            return Err(Unfit::Version { theirs: self.version });
        }
        self.kind.check()?;
        let texts = self.env.iter().flat_map(|(name, value)| [&**name, &**value]);
        if texts.chain([&*self.cwd]).any(has_nul) {
            return Err(Unfit::Nul);
        }
        let is_engine = matches!(
            self.kind,
            JobKind::Code {
                language: Language::TypeScript | Language::JavaScript,
                ..
            }
        );
        if self.network.is_some() && is_engine {
            return Err(Unfit::Network);
        }
        if self.env.iter().any(|(name, _)| name.is_empty() || name.contains('=')) {
            return Err(Unfit::EnvironmentName);
        }
        Ok(())
    }
}

impl JobKind {
    /// The bytes of trace that follow the source and the input on their stream.
    pub fn trace_bytes(&self) -> u64 {
        match *self {
            Self::Code { trace_bytes, .. } => trace_bytes,
            Self::Shell { .. } | Self::Program { .. } => 0,
        }
    }

    /// The bytes of input that follow the program text on its stream.
    pub fn input_bytes(&self) -> Option<u64> {
        match *self {
            Self::Code { input_bytes, .. } => input_bytes,
            Self::Shell { .. } | Self::Program { .. } => None,
        }
    }

    /// The bytes of program text that will come on the source stream.
    pub fn source_bytes(&self) -> u64 {
        match *self {
            Self::Code { source_bytes, .. } | Self::Shell { source_bytes, .. } => source_bytes,
            Self::Program { .. } => 0,
        }
    }

    fn check(&self) -> Result<(), Unfit> {
        let (name, arguments) = match self {
            Self::Code {
                language: Language::Program,
                ..
            } => return Err(Unfit::NoCode),
            Self::Program { argv } => {
                if argv.first().is_none_or(|program| program.is_empty()) {
                    return Err(Unfit::NoProgram);
                }
                ("", argv)
            }
            Self::Code { file_name, args, .. } | Self::Shell { file_name, args, .. } => (&**file_name, args),
        };
        let source = self.source_bytes();
        if source > SOURCE_CAP {
            return Err(Unfit::Source { bytes: source });
        }
        let input = self.input_bytes().unwrap_or_default();
        if input > BODY_CAP as u64 {
            return Err(Unfit::Input { bytes: input });
        }
        let trace = self.trace_bytes();
        if trace > TRACE_CAP {
            return Err(Unfit::Trace { bytes: trace });
        }
        let bytes = arguments.iter().map(|argument| argument.len()).sum();
        if bytes > ARGUMENTS_MAX {
            return Err(Unfit::Arguments { bytes });
        }
        if has_nul(name) || arguments.iter().any(|argument| has_nul(argument)) {
            return Err(Unfit::Nul);
        }
        Ok(())
    }
}

/// Such a text would be cut short on its way to a program.
fn has_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

#[cfg(test)]
mod tests;
