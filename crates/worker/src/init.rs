//! The first process of a sandbox: takes orders, forks a child per execution, kills, empties, reaps.
//!
//! It never runs a program itself and never reads what one wrote. An order it does not understand, or a host that is gone,
//! ends it, and the kernel ends everything else with it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ringfence_jail::inside::{self, Side};
use ringfence_jail::seccomp::{Filter, Profile};
use ringfence_jail::socket;
use ringfence_jail::template::{Next, Template};
use ringfence_wire::{
    Inbound, Item, Language, Message, Order, Preparation, Reason, Report, VERSION, decode, encode_frame,
};

use crate::child::{self, Born};
use crate::code;
use crate::js::{Engine, EngineError};
use crate::wipe;
use crate::zygote::Zygote;

/// An order that comes at once is not kept waiting.
const WARM_UP_AFTER: Duration = Duration::from_millis(2);

/// More than the largest order with its header.
const ORDER_BYTES: usize = 8 * 1024;

/// An execution that exists.
#[derive(Debug)]
struct Execution {
    number: u32,
    language: Language,
    child: i32,
    /// The Python process beside the child.
    python: Option<i32>,
}

/// The first process.
#[derive(Debug)]
pub struct Init {
    control: OwnedFd,
    /// The engine's filter, compiled once.
    engine_filter: Filter,
    /// Made once, copied into every child by its fork; never runs a program here.
    engine: Option<Engine>,
    warmed: bool,
    zygote: Option<Zygote>,
    execution: Option<Execution>,
}

/// Why the first process ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The socket to the host.
    #[error("cannot talk to the host")]
    Control(#[source] io::Error),
    /// An order that makes no sense.
    #[error("an order of the host makes no sense")]
    Order,
    /// The engine that children inherit.
    #[error("cannot make the engine")]
    Engine(#[source] EngineError),
    /// Making this process safe.
    #[error("cannot settle in")]
    Settle(#[source] io::Error),
}

impl Init {
    /// Is the template until the host is done (`None`), or until this is a copy of it: a first process, confined.
    pub fn born() -> Result<Option<Init>, InitError> {
        let template = Template::settle().map_err(InitError::Settle)?;
        let engine_filter = Filter::of(Profile::Engine);
        let (mut engine, mut warmed, mut copied) = (None, false, false);
        loop {
            // A host that asks at once, for one sandbox perhaps, is not kept waiting: that copy makes its engine itself.
            let patience = if engine.is_some() {
                WARM_UP_AFTER
            } else {
                Duration::ZERO
            };
            let asked = warmed || template.is_asked(patience).map_err(InitError::Settle)?;
            match &engine {
                None if copied || !asked => {
                    engine = Some(code::engine().map_err(InitError::Engine)?);
                    continue;
                }
                Some(engine) if !asked => {
                    Engine::warm_up(engine).map_err(InitError::Engine)?;
                    warmed = true;
                }
                _ => {}
            }
            match template.next().map_err(InitError::Settle)? {
                Next::Template => copied = true,
                Next::Over => return Ok(None),
                Next::First(control) => {
                    inside::reap_automatically();
                    return Ok(Some(Init {
                        control,
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

    /// Takes orders until the host is done.
    pub fn serve(mut self) -> Result<(), InitError> {
        self.report(&Report::Ready { version: VERSION })?;
        if self.engine.is_none() {
            // While the host writes its first order.
            self.engine = Some(code::engine().map_err(InitError::Engine)?);
        }
        let mut packet = vec![0; ORDER_BYTES];
        loop {
            self.warm_up_if_idle()?;
            let (length, descriptors) =
                socket::receive(self.control.as_fd(), &mut packet).map_err(InitError::Control)?;
            if length == 0 {
                return Ok(());
            }
            let answer = match order(packet.get(..length).unwrap_or_default())? {
                Order::Prepare(preparation) => self.prepare(&preparation, descriptors),
                Order::Finish { number } => self.finish(number),
                Order::Wipe => match wipe::writable_places() {
                    Ok(()) => Report::Wiped,
                    Err(error) => Report::WipeFailed { reason: reason(&error) },
                },
                Order::Shutdown => return Ok(()),
            };
            self.report(&answer)?;
        }
    }

    /// What every program gains from is done once nobody waits.
    fn warm_up_if_idle(&mut self) -> Result<(), InitError> {
        if self.warmed || inside::is_readable(self.control.as_fd(), WARM_UP_AFTER).map_err(InitError::Control)? {
            return Ok(());
        }
        self.warmed = true;
        self.engine
            .as_ref()
            .map_or(Ok(()), Engine::warm_up)
            .map_err(InitError::Engine)
    }

    fn report(&self, report: &impl Message) -> Result<(), InitError> {
        let mut frame = Vec::new();
        encode_frame(report, &mut frame).map_err(|_| InitError::Order)?;
        socket::send(self.control.as_fd(), &frame, &[])
            .map(drop)
            .map_err(InitError::Control)
    }

    fn prepare(&mut self, preparation: &Preparation, descriptors: Vec<OwnedFd>) -> Report {
        let number = preparation.number;
        match self.try_prepare(preparation, descriptors) {
            Ok(()) => Report::Prepared { number },
            Err(error) => Report::PrepareFailed {
                number,
                reason: reason(&error),
            },
        }
    }

    /// The first descriptor is the execution's pipe, the others the task files of its control groups.
    fn try_prepare(&mut self, preparation: &Preparation, descriptors: Vec<OwnedFd>) -> Result<(), PrepareError> {
        if self.execution.is_some() {
            return Err(PrepareError::Busy);
        }
        let mut descriptors = descriptors.into_iter();
        let pipe = descriptors.next().ok_or(PrepareError::NoPipe)?;
        let tasks: Vec<OwnedFd> = descriptors.collect();
        let python = match preparation.language {
            Language::Python => {
                if self.zygote.as_mut().is_none_or(|zygote| !zygote.is_alive()) {
                    let profile = if preparation.network {
                        Profile::PythonNetwork
                    } else {
                        Profile::Python
                    };
                    self.zygote = Some(Zygote::start(&preparation.interpreter, &Filter::of(profile))?);
                }
                let zygote = self.zygote.as_mut().ok_or(PrepareError::NoPipe)?;
                Some(zygote.fork(&tasks, preparation.limits)?)
            }
            Language::TypeScript | Language::JavaScript | Language::Program => None,
        };
        let pid = python.as_ref().map(|child| child.pid);
        match inside::fork().map_err(PrepareError::Fork)? {
            Side::Child => {
                // What belongs to the first process is closed here; the child answers to the pipe alone.
                self.zygote = None;
                if inside::adopt_and_close(inside::CONTROL).is_err() {
                    inside::leave(1);
                }
                let engine = self.engine.take();
                let (preparation, engine_filter) = (preparation.clone(), &self.engine_filter);
                child::run(Born {
                    pipe,
                    tasks,
                    engine,
                    python,
                    preparation,
                    engine_filter,
                })
            }
            Side::Parent(child) => {
                let execution = Execution {
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

    fn finish(&mut self, number: u32) -> Report {
        if let Some(execution) = self.execution.take_if(|execution| execution.number == number) {
            self.end(&execution);
        }
        Report::Finished { number }
    }

    fn end(&mut self, execution: &Execution) {
        match execution.language {
            // Anything may have been started: everything goes, a zygote of an earlier execution too.
            Language::Program => {
                self.zygote = None;
                // Nobody there is what is wanted.
                let _ = inside::kill_all_others();
                while inside::wait(-1, inside::Patience::Forever).is_ok() {}
            }
            Language::TypeScript | Language::JavaScript | Language::Python => {
                // These cannot make processes. One that has ended meanwhile is what is wanted.
                let _ = inside::kill(execution.child);
                let _ = inside::wait(execution.child, inside::Patience::Forever);
                if let Some(pid) = execution.python {
                    self.zygote = self.zygote.take().and_then(|zygote| zygote.end(pid));
                }
            }
        }
    }
}

fn order(packet: &[u8]) -> Result<Order, InitError> {
    let mut inbound = Inbound::control_only();
    if inbound.push(packet) != packet.len() {
        return Err(InitError::Order);
    }
    match inbound.next() {
        Ok(Some(Item::Control(bytes))) => decode(bytes).map_err(|_| InitError::Order),
        _ => Err(InitError::Order),
    }
}

/// An error and what caused it, for the host.
fn reason(error: &dyn std::error::Error) -> Reason {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    Reason::cut(&text)
}

/// Why there is no child.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    /// One execution at a time.
    #[error("another execution is still there")]
    Busy,
    /// No descriptor came with the order.
    #[error("the order came without a pipe")]
    NoPipe,
    /// No new process.
    #[error("cannot fork")]
    Fork(#[source] io::Error),
    /// The Python zygote.
    #[error(transparent)]
    Zygote(#[from] crate::zygote::ZygoteError),
}
