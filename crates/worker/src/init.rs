//! The first process of a sandbox: it takes commands, forks a child per execution, kills and reaps it, and empties the writable places.
//!
//! It never runs a program itself and never reads what a program wrote. It ends when it gets a command that it does not
//! understand or when the host is gone, and the kernel then ends every other process in the sandbox.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use ringfence_jail::inside::{self, ForkSide};
use ringfence_jail::seccomp::{Filter, Profile};
use ringfence_jail::template::{Template, TemplateEvent};
use ringfence_wire::{
    ControlMessage, FailureReason, Inbound, InboundItem, JobLanguage, PROTOCOL_VERSION, PrepareCommand, WorkerCommand,
    WorkerReport, decode, encode_frame,
};

use crate::child::{self, ChildSetup};
use crate::code;
use crate::descendants;
use crate::js::{JsEngine, JsEngineError};
use crate::link::HostLink;
use crate::places::SandboxPlaces;
use crate::wipe;
use crate::zygote::PythonZygote;

/// How long the process waits before a warm-up, so that a command that follows at once is not delayed.
const WARM_UP_DELAY: Duration = Duration::from_millis(2);

/// More than the largest command with its header.
const MAX_ORDER_BYTES: usize = 8 * 1024;

/// The execution that is prepared and not finished.
#[derive(Debug)]
struct ActiveExecution {
    number: u32,
    language: JobLanguage,
    child: i32,
    /// The process id of the Python process that the child speaks for.
    python: Option<i32>,
}

/// The first process of a sandbox, which serves one host connection.
#[derive(Debug)]
pub struct InitProcess {
    link: HostLink,
    places: SandboxPlaces,
    /// The engine's filter, which is compiled once.
    engine_filter: Filter,
    /// Made once and copied into every child by the fork; it never runs a program in this process.
    engine: Option<JsEngine>,
    warmed: bool,
    zygote: Option<PythonZygote>,
    execution: Option<ActiveExecution>,
}

/// Why the first process ends with an error.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The socket to the host fails.
    #[error("cannot talk to the host")]
    Control(#[source] io::Error),
    /// The host sends a command that cannot be decoded.
    #[error("an order of the host makes no sense")]
    Order,
    /// The engine that children inherit cannot be made.
    #[error("cannot make the engine")]
    Engine(#[source] JsEngineError),
    /// The process cannot be confined, or the template fails.
    #[error("cannot settle in")]
    Settle(#[source] io::Error),
}

impl InitProcess {
    /// Serves as the template. Returns `None` when the host is done, or the confined first process when this is a copy
    /// of the template.
    pub fn from_template() -> Result<Option<InitProcess>, InitError> {
        let template = Template::start().map_err(InitError::Settle)?;
        let (places, engine_filter) = (SandboxPlaces::default(), Filter::for_profile(Profile::Engine));
        let (mut engine, mut warmed, mut copied) = (None, false, false);
        loop {
            // A host that asks at once, perhaps for a single sandbox, is not delayed: that copy makes its own engine.
            let patience = if engine.is_some() {
                WARM_UP_DELAY
            } else {
                Duration::ZERO
            };
            let asked = warmed || template.has_request(patience).map_err(InitError::Settle)?;
            match &engine {
                None if copied || !asked => {
                    engine = Some(code::new_engine(&places).map_err(InitError::Engine)?);
                    continue;
                }
                Some(engine) if !asked => {
                    JsEngine::warm_up(engine).map_err(InitError::Engine)?;
                    warmed = true;
                }
                _ => {}
            }
            match template.serve_next().map_err(InitError::Settle)? {
                TemplateEvent::Template => copied = true,
                TemplateEvent::Closed => return Ok(None),
                TemplateEvent::FirstProcess(control) => {
                    inside::reap_automatically();
                    return Ok(Some(InitProcess {
                        link: HostLink::Socket(control),
                        places,
                        engine_filter,
                        engine,
                        warmed,
                        zygote: None,
                        execution: None,
                    }));
                }
            }
        }
    }

    /// Becomes the first process of a sandbox that something else has made, with its places and one stream: standard input
    /// and output.
    pub fn from_stream(places: SandboxPlaces) -> Result<InitProcess, InitError> {
        inside::settle().map_err(InitError::Settle)?;
        let link = HostLink::over_standard_streams().map_err(InitError::Settle)?;
        inside::install_filter(&Filter::for_profile(Profile::Program)).map_err(InitError::Settle)?;
        inside::reap_automatically();
        Ok(InitProcess {
            link,
            places,
            engine_filter: Filter::for_profile(Profile::Engine),
            engine: None,
            warmed: false,
            zygote: None,
            execution: None,
        })
    }

    /// Takes commands until the host is done.
    pub fn serve(mut self) -> Result<(), InitError> {
        self.send_report(&WorkerReport::Ready {
            version: PROTOCOL_VERSION,
        })?;
        if self.engine.is_none() {
            // Makes the engine while the host writes its first command.
            self.engine = Some(code::new_engine(&self.places).map_err(InitError::Engine)?);
        }
        let mut packet = vec![0; MAX_ORDER_BYTES];
        loop {
            self.warm_up_if_idle()?;
            let (length, descriptors) = self.link.receive(&mut packet).map_err(InitError::Control)?;
            if length == 0 {
                return Ok(());
            }
            let answer = match parse_order(packet.get(..length).unwrap_or_default())? {
                WorkerCommand::Prepare(preparation) => self.prepare(&preparation, descriptors),
                WorkerCommand::Finish { number } => self.finish(number),
                WorkerCommand::Wipe => match wipe::empty_writable_places(&self.places) {
                    Ok(()) => WorkerReport::Wiped,
                    Err(error) => WorkerReport::WipeFailed {
                        reason: error_reason(&error),
                    },
                },
                WorkerCommand::Shutdown => return Ok(()),
            };
            self.send_report(&answer)?;
        }
    }

    /// Warms the engine up, once, when no command is waiting.
    fn warm_up_if_idle(&mut self) -> Result<(), InitError> {
        if self.warmed || self.link.has_order(WARM_UP_DELAY).map_err(InitError::Control)? {
            return Ok(());
        }
        self.warmed = true;
        self.engine
            .as_ref()
            .map_or(Ok(()), JsEngine::warm_up)
            .map_err(InitError::Engine)
    }

    fn send_report(&mut self, report: &impl ControlMessage) -> Result<(), InitError> {
        let mut frame = Vec::new();
        encode_frame(report, &mut frame).map_err(|_| InitError::Order)?;
        self.link.send(&frame).map_err(InitError::Control)
    }

    fn prepare(&mut self, preparation: &PrepareCommand, descriptors: Vec<OwnedFd>) -> WorkerReport {
        let number = preparation.number;
        match self.try_prepare(preparation, descriptors) {
            Ok(()) => WorkerReport::Prepared { number },
            Err(error) => WorkerReport::PrepareFailed {
                number,
                reason: error_reason(&error),
            },
        }
    }

    /// The first descriptor is the execution's pipe, unless this process relays it; the others are the task files of its
    /// control groups.
    fn try_prepare(&mut self, preparation: &PrepareCommand, descriptors: Vec<OwnedFd>) -> Result<(), PrepareError> {
        if self.execution.is_some() {
            return Err(PrepareError::Busy);
        }
        let mut descriptors = descriptors.into_iter();
        let pipe = match descriptors.next() {
            Some(pipe) => pipe,
            None => self.link.open_pipe(preparation.number).map_err(PrepareError::NoPipe)?,
        };
        let tasks: Vec<OwnedFd> = descriptors.collect();
        let python = match preparation.language {
            JobLanguage::Python => {
                if self.zygote.as_mut().is_none_or(|zygote| !zygote.is_alive()) {
                    let profile = if preparation.network {
                        Profile::PythonNetwork
                    } else {
                        Profile::Python
                    };
                    self.zygote = Some(PythonZygote::start(
                        &preparation.interpreter,
                        &Filter::for_profile(profile),
                    )?);
                }
                let zygote = self.zygote.as_mut().ok_or(PrepareError::NoZygote)?;
                Some(zygote.fork(&tasks, preparation.limits)?)
            }
            JobLanguage::TypeScript | JobLanguage::JavaScript | JobLanguage::Program => None,
        };
        let pid = python.as_ref().map(|child| child.pid);
        match inside::fork().map_err(PrepareError::Fork)? {
            ForkSide::Child => {
                // Closes what belongs to the first process; the child uses the pipe alone.
                self.zygote = None;
                self.link.close();
                let engine = self.engine.take();
                let (preparation, engine_filter) = (preparation.clone(), &self.engine_filter);
                let places = self.places.clone();
                child::run(ChildSetup {
                    pipe,
                    tasks,
                    engine,
                    python,
                    preparation,
                    engine_filter,
                    places,
                })
            }
            ForkSide::Parent(child) => {
                let execution = ActiveExecution {
                    number: preparation.number,
                    language: preparation.language,
                    child,
                    python: pid,
                };
                self.execution = Some(execution);
                Ok(())
            }
        }
    }

    fn finish(&mut self, number: u32) -> WorkerReport {
        if let Some(execution) = self.execution.take_if(|execution| execution.number == number) {
            self.end_execution(&execution);
        }
        WorkerReport::Finished { number }
    }

    fn end_execution(&mut self, execution: &ActiveExecution) {
        match execution.language {
            // A program may have started anything: this ends every other process, a zygote of an earlier execution included.
            JobLanguage::Program => {
                self.zygote = None;
                if inside::is_first_process() {
                    // An error means that there is no other process, which is the goal.
                    let _ = inside::kill_all_others();
                    while inside::wait_for_child(-1, inside::WaitMode::Forever).is_ok() {}
                } else {
                    descendants::kill_descendants();
                }
            }
            JobLanguage::TypeScript | JobLanguage::JavaScript | JobLanguage::Python => {
                // These children cannot make processes. An error means that the child has already ended, which is the goal.
                let _ = inside::kill(execution.child);
                let _ = inside::wait_for_child(execution.child, inside::WaitMode::Forever);
                if let Some(pid) = execution.python {
                    self.zygote = self.zygote.take().and_then(|zygote| zygote.end(pid));
                }
            }
        }
    }
}

fn parse_order(packet: &[u8]) -> Result<WorkerCommand, InitError> {
    let mut inbound = Inbound::control_only();
    if inbound.push(packet) != packet.len() {
        return Err(InitError::Order);
    }
    match inbound.next() {
        Ok(Some(InboundItem::Control(bytes))) => decode(bytes).map_err(|_| InitError::Order),
        _ => Err(InitError::Order),
    }
}

/// The text of an error and of its causes, for the host.
fn error_reason(error: &dyn std::error::Error) -> FailureReason {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    FailureReason::truncated(&text)
}

/// Why the child cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    /// The previous execution is not finished.
    #[error("another execution is still there")]
    Busy,
    /// No descriptor came with the command, and this process makes none.
    #[error("the order came without a pipe")]
    NoPipe(#[source] io::Error),
    /// The zygote is gone although it was started.
    #[error("there is no Python zygote")]
    NoZygote,
    /// The child's process cannot be made.
    #[error("cannot fork")]
    Fork(#[source] io::Error),
    /// The Python zygote cannot start or fork.
    #[error(transparent)]
    Zygote(#[from] crate::zygote::ZygoteError),
}
