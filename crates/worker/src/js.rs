//! TypeScript and JavaScript on `QuickJS`: one engine, one program, one value.
//!
//! An [`Engine`] is made before the job is known and used once. It has no network, no modules and no processes; the jail around
//! the process is the wall, so nothing here defends against the program, except that it ends with a clear outcome.
mod calls;
mod chance;
mod emit;
mod event_loop;
mod fault;
mod host;
mod imports;
mod nesting;
mod positions;
mod prelude;
mod recall;
mod transpile;
mod workspace;

use std::{cell::RefCell, fmt, path::PathBuf, rc::Rc, time::Instant};

use ringfence_wire::{Ask, Emit};
use rquickjs::module::Evaluated;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Module, Promise, Runtime, Value};

pub use crate::calls::Answered;

pub use self::fault::{Diagnostic, Fault, Position};
use self::{event_loop::Ended, host::Host, prelude::Hooks};

/// What is outside the engine: where a program's words go, and who answers its calls. Each may block until there is room.
pub trait Outside {
    /// Bytes for standard output.
    fn stdout(&mut self, bytes: &[u8]);
    /// Bytes for standard error.
    fn stderr(&mut self, bytes: &[u8]);
    /// Makes a call with JSON text as its arguments; its number, or nothing if they are too long.
    fn call(&mut self, ask: Ask, body: String) -> Option<u32>;
    /// Sends calls that wait for company.
    fn send_calls(&mut self);
    /// The next answer, or nothing when it has not come by then: the time of the program's next timer, which on its own clock
    /// is `due`.
    fn wait_for_answer(&mut self, until: Option<Instant>, due: Option<u64>) -> Option<(u32, Answered)>;
    /// Keeps what reached the program, so that it can be run again: all before a call is made before that call.
    fn trace(&mut self, bytes: &[u8]);
    /// Says that a file is to go out.
    fn emit(&mut self, emit: Emit);
}

/// What the engine itself holds back; the cgroup and the host's clock are the hard limits.
#[derive(Debug, Clone, Copy)]
pub struct EngineLimits {
    /// Bytes of the program's heap; without, only the jail limits it.
    pub memory: Option<usize>,
    /// Bytes of stack for the program; must leave room below the process's own limit.
    pub stack: usize,
}

/// The step of making an engine that failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// `QuickJS` could not be set up.
    #[error("cannot make the JavaScript engine")]
    Create(#[source] rquickjs::Error),
    /// The built-in names could not be defined.
    #[error("cannot load the built-in names: {message}")]
    Prelude {
        /// What the engine said.
        message: String,
    },
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// The source text.
    pub source: &'a str,
    /// TypeScript, else JavaScript. Both are modules, so strict.
    pub typescript: bool,
    /// The name that errors carry.
    pub file_name: &'a str,
    /// What the program finds in `args`.
    pub args: &'a [String],
    /// What the function that it exports is called with, as JSON text; without, its value is what it exports.
    pub input: Option<&'a str>,
    /// What else it depends on.
    pub again: Again<'a>,
}

/// What a program depends on besides its text, its arguments, its files and the answers to its calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Again<'a> {
    /// What `Math.random` is made of.
    pub seed: u64,
    /// What its clock starts with: ticks of 100 µs since the Unix epoch.
    pub clock: u64,
    /// What reached it when it ran before; nothing for the first time.
    pub trace: &'a [u8],
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It ran to its end; `None` is a value of null.
    Completed {
        /// The value as JSON.
        value_json: Option<String>,
    },
    /// It threw, or a promise was rejected and nobody looked.
    Failed(Fault),
    /// It never started.
    SyntaxError(Vec<Diagnostic>),
    /// Its heap reached the engine's limit.
    OutOfMemory,
    /// It asked for a module.
    ImportRefused(Fault),
    /// It ran, but JSON cannot hold its value.
    NotJson(Fault),
    /// It waits for something that can never happen.
    Stuck,
    /// It did something else than its trace says it did before.
    Diverged {
        /// How many calls it had made.
        calls: u32,
    },
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    TypeScript,
    JavaScript,
}

/// A `QuickJS` runtime with one fresh context and the built-in names, waiting for its program.
pub struct Engine {
    context: Context,
    host: Rc<Host>,
    hooks: Hooks,
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine whose `files` are in `/workspace`.
    pub fn new(limits: EngineLimits) -> Result<Engine, EngineError> {
        Engine::with_workspace(limits, PathBuf::from("/workspace"))
    }

    /// An engine whose `files` are in another folder, which programs still know as `/workspace`.
    pub fn with_workspace(limits: EngineLimits, workspace: PathBuf) -> Result<Engine, EngineError> {
        let runtime = Runtime::new().map_err(EngineError::Create)?;
        runtime.set_max_stack_size(limits.stack);
        if let Some(memory) = limits.memory {
            runtime.set_memory_limit(memory);
        }
        let context = Context::full(&runtime).map_err(EngineError::Create)?;
        let host = Rc::new(Host::new(workspace, limits.memory));
        event_loop::watch_rejections(&runtime, &host);
        let hooks = context.with(|ctx| {
            prelude::install(&ctx, &host)
                .catch(&ctx)
                .map_err(|error| EngineError::Prelude {
                    message: error.to_string(),
                })
        })?;
        Ok(Engine { context, host, hooks })
    }

    /// Compiles what is otherwise compiled on first use. Worth its millisecond in a process from which many are forked.
    pub fn warm_up(&self) -> Result<(), EngineError> {
        self.context.with(|ctx| {
            self.hooks.warm(&ctx).catch(&ctx).map_err(|error| EngineError::Prelude {
                message: error.to_string(),
            })
        })
    }

    /// Runs the program to its end, timers included. The engine's memory is left to the end of the process: taking a large
    /// heap apart piece by piece would be time spent for nobody.
    pub fn run(self, program: &Program<'_>, outside: Rc<RefCell<dyn Outside>>) -> Finished {
        let language = if program.typescript {
            Language::TypeScript
        } else {
            Language::JavaScript
        };
        self.host.begin(program, language, outside);
        calls::send_while_busy(self.context.runtime(), &self.host);
        let outcome = match transpile::module(program.source, program.file_name, language) {
            Ok(module) => self.context.with(|ctx| self.run_module(&ctx, program, module)),
            Err(transpile::Refusal::Syntax(found)) => Outcome::SyntaxError(found),
            Err(transpile::Refusal::Import {
                specifier,
                line,
                column,
            }) => {
                let place = Position {
                    file: program.file_name.to_owned(),
                    line,
                    column,
                };
                Outcome::ImportRefused(fault::import_refused(&specifier, Some(place)))
            }
        };
        let outcome = self.repeated(outcome);
        std::mem::forget(self);
        Finished { outcome }
    }

    /// The outcome, if the program did all that its trace says it did before.
    fn repeated(&self, outcome: Outcome) -> Outcome {
        self.host.pass_on_trace();
        let recall = self.host.recall.borrow();
        if recall.has_diverged() || (!recall.is_live() && outcome != Outcome::OutOfMemory) {
            return Outcome::Diverged { calls: recall.made() };
        }
        outcome
    }

    fn run_module(&self, ctx: &Ctx<'_>, program: &Program<'_>, module: String) -> Outcome {
        if let Err(caught) = prelude::define_args(ctx, program.args).catch(ctx) {
            return self.caught(ctx, caught);
        }
        let declared = match Module::declare(ctx.clone(), self.host.file(), module).catch(ctx) {
            Ok(declared) => declared,
            // The transpiler let it pass and the engine does not know it.
            Err(CaughtError::Exception(thrown)) => return fault::not_compiled(ctx, &self.host, &self.hooks, thrown),
            Err(caught) => return self.caught(ctx, caught),
        };
        match declared.eval().catch(ctx) {
            Ok((module, evaluated)) => self
                .finish(ctx, &module, &evaluated, program.input)
                .unwrap_or_else(|ended| match ended {
                    Ended::Threw(thrown) => fault::outcome(ctx, &self.host, &self.hooks, thrown),
                    Ended::Stuck => Outcome::Stuck,
                    Ended::Diverged => Outcome::Diverged {
                        calls: self.host.recall.borrow().made(),
                    },
                }),
            Err(caught) => self.caught(ctx, caught),
        }
    }

    /// Drives a module that has begun until nothing is left to do.
    fn finish<'js>(
        &self,
        ctx: &Ctx<'js>,
        module: &Module<'js, Evaluated>,
        evaluated: &Promise<'js>,
        input: Option<&str>,
    ) -> Result<Outcome, Ended<'js>> {
        event_loop::settle(ctx, &self.host, &self.hooks, evaluated)?;
        let exported = module
            .namespace()
            .and_then(|names| names.get::<_, Value<'js>>("default"));
        let mut value = match exported.catch(ctx) {
            Ok(value) => value,
            Err(caught) => return Ok(self.caught(ctx, caught)),
        };
        if let (Some(input), Some(function)) = (input, value.as_function()) {
            let called = ctx.json_parse(input).and_then(|input| function.call((input,)));
            value = match called.catch(ctx) {
                Ok(value) => value,
                Err(caught) => return Ok(self.caught(ctx, caught)),
            };
        }
        // `main()` as the last line: its promise is what the program means.
        if let Some(promise) = value.as_promise() {
            value = event_loop::settle(ctx, &self.host, &self.hooks, promise)?;
        }
        event_loop::drain(ctx, &self.host, &self.hooks)?;
        Ok(self.to_json(ctx, value))
    }

    fn caught<'js>(&self, ctx: &Ctx<'js>, caught: CaughtError<'js>) -> Outcome {
        match caught {
            CaughtError::Exception(thrown) => {
                fault::outcome(ctx, &self.host, &self.hooks, thrown.into_object().into_value())
            }
            CaughtError::Value(thrown) => fault::outcome(ctx, &self.host, &self.hooks, thrown),
            CaughtError::Error(error) => Outcome::Failed(Fault::plain("EngineError", &error.to_string())),
        }
    }

    fn to_json<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> Outcome {
        if value.is_undefined() || value.is_null() {
            return Outcome::Completed { value_json: None };
        }
        let simple = value.is_number() || value.is_string() || value.is_bool();
        let text = if simple {
            ctx.json_stringify(value)
                .and_then(|text| text.map(|text| text.to_string()).transpose())
        } else {
            self.hooks.json(ctx, value)
        };
        match text.catch(ctx) {
            Ok(value_json) => Outcome::Completed { value_json },
            Err(caught) => fault::unprintable(ctx, &self.host, &self.hooks, caught),
        }
    }
}

#[cfg(test)]
mod tests;
