//! TypeScript and JavaScript on `QuickJS`: one engine runs one program and yields one value.
//!
//! An [`JsEngine`] is made before the job is known, and is used once. It has no network, no modules and no processes. The
//! jail around the process is the security boundary, so nothing here defends against the program; a run only has to end
//! with a clear outcome.
mod calls;
mod emit;
mod event_loop;
mod fault;
mod host;
mod imports;
mod nesting;
mod positions;
mod prelude;
mod random;
mod replay;
mod transpile;
mod workspace;

use std::{cell::RefCell, fmt, path::PathBuf, rc::Rc, time::Instant};

use ringfence_wire::{CallTarget, EmittedFile};
use rquickjs::module::Evaluated;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Module, Promise, Runtime, Value};

pub use crate::calls::CallAnswer;

pub use self::fault::{JsFault, ProgramPosition, SyntaxDiagnostic};
use self::{event_loop::LoopExit, host::NativeState, prelude::PreludeHooks};

/// The host of an engine: it takes the program's output and answers its calls. Each function may block until there is capacity.
pub trait EngineHost {
    /// Writes bytes to standard output.
    fn stdout(&mut self, bytes: &[u8]);
    /// Writes bytes to standard error.
    fn stderr(&mut self, bytes: &[u8]);
    /// Makes a call with JSON text as its arguments. Returns its number, or `None` if the arguments are too long.
    fn call(&mut self, ask: CallTarget, body: String) -> Option<u32>;
    /// Sends the calls that are batched.
    fn send_calls(&mut self);
    /// Waits for the next answer, at most to `until`. That is when the program's next timer fires, which on the
    /// program's own clock is `due`.
    fn wait_for_answer(&mut self, until: Option<Instant>, due: Option<u64>) -> Option<(u32, CallAnswer)>;
    /// Records what reached the program, so that it can be run again. The record before a call comes before that call.
    fn trace(&mut self, bytes: &[u8]);
    /// Sends the message that a file is to go out.
    fn emit(&mut self, emit: EmittedFile);
}

/// Limits that the engine itself enforces; the cgroup and the host's clock are the hard limits.
#[derive(Debug, Clone, Copy)]
pub struct JsEngineLimits {
    /// Bytes of the program's heap; with `None` only the jail limits it.
    pub memory: Option<usize>,
    /// Bytes of stack for the program, which must be well below the process's own limit.
    pub stack: usize,
}

/// Why an engine cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum JsEngineError {
    /// The `QuickJS` runtime could not be made.
    #[error("cannot make the JavaScript engine")]
    Create(#[source] rquickjs::Error),
    /// The built-in names could not be defined.
    #[error("cannot load the built-in names: {message}")]
    Prelude {
        /// The message of the engine's exception.
        message: String,
    },
}

/// The program that an engine runs.
#[derive(Debug, Clone, Copy)]
pub struct JsProgram<'a> {
    /// The source text of the program.
    pub source: &'a str,
    /// Whether the source is TypeScript, else JavaScript. Both are modules, so strict.
    pub typescript: bool,
    /// The name of the source in error messages.
    pub file_name: &'a str,
    /// The value of `args` in the program.
    pub args: &'a [String],
    /// The argument of the function that the program exports, as JSON text. With `None` the export is the program's value.
    pub input: Option<&'a str>,
    /// The seed, the clock and the trace of the run.
    pub replay: ReplayInput<'a>,
}

/// What a run depends on besides the program's text, its arguments, its files and the answers to its calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplayInput<'a> {
    /// The seed of `Math.random`.
    pub seed: u64,
    /// The initial value of the program's clock, in ticks of 100 µs since the Unix epoch.
    pub clock: u64,
    /// What reached the program in an earlier run; empty for the first run.
    pub trace: &'a [u8],
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsOutcome {
    /// The program ran to its end.
    Completed {
        /// The value as JSON; `None` for null.
        value_json: Option<String>,
    },
    /// The program threw an exception, or left a rejected promise unhandled.
    Failed(JsFault),
    /// The source could not be parsed or compiled.
    SyntaxError(Vec<SyntaxDiagnostic>),
    /// The program's heap reached the engine's limit.
    OutOfMemory,
    /// The program imports a module that is not available to it.
    ImportRefused(JsFault),
    /// The program ran, but JSON cannot hold its value.
    NotJson(JsFault),
    /// The program waits for something that can never happen.
    Stuck,
    /// The program did something other than its trace says.
    Diverged {
        /// How many calls it had made by then.
        calls: u32,
    },
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedProgram {
    /// How the program ended.
    pub outcome: JsOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptLanguage {
    TypeScript,
    JavaScript,
}

/// A `QuickJS` runtime with a fresh context and the built-in names, which runs one program.
pub struct JsEngine {
    context: Context,
    host: Rc<NativeState>,
    hooks: PreludeHooks,
}

impl fmt::Debug for JsEngine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl JsEngine {
    /// Makes an engine whose `files` are in the folder `workspace`, which programs know as `/workspace`.
    pub fn with_workspace(limits: JsEngineLimits, workspace: PathBuf) -> Result<JsEngine, JsEngineError> {
        let runtime = Runtime::new().map_err(JsEngineError::Create)?;
        runtime.set_max_stack_size(limits.stack);
        if let Some(memory) = limits.memory {
            runtime.set_memory_limit(memory);
        }
        let context = Context::full(&runtime).map_err(JsEngineError::Create)?;
        let host = Rc::new(NativeState::new(workspace, limits.memory));
        event_loop::track_rejections(&runtime, &host);
        let hooks = context.with(|ctx| {
            prelude::install(&ctx, &host)
                .catch(&ctx)
                .map_err(|error| JsEngineError::Prelude {
                    message: error.to_string(),
                })
        })?;
        Ok(JsEngine { context, host, hooks })
    }

    /// Compiles what is otherwise compiled on first use. This takes about a millisecond and pays off in a process that
    /// forks many children.
    pub fn warm_up(&self) -> Result<(), JsEngineError> {
        self.context.with(|ctx| {
            self.hooks
                .warm_up(&ctx)
                .catch(&ctx)
                .map_err(|error| JsEngineError::Prelude {
                    message: error.to_string(),
                })
        })
    }

    /// Runs the program to its end, timers included. The engine's memory is left to the end of the process: freeing a
    /// large heap would only take time.
    pub fn run(self, program: &JsProgram<'_>, outside: Rc<RefCell<dyn EngineHost>>) -> FinishedProgram {
        let language = if program.typescript {
            ScriptLanguage::TypeScript
        } else {
            ScriptLanguage::JavaScript
        };
        self.host.begin(program, language, outside);
        calls::send_while_busy(self.context.runtime(), &self.host);
        let outcome = match transpile::transpile_module(program.source, program.file_name, language) {
            Ok(module) => self.context.with(|ctx| self.run_module(&ctx, program, module)),
            Err(transpile::TranspileError::Syntax(found)) => JsOutcome::SyntaxError(found),
            Err(transpile::TranspileError::Import {
                specifier,
                line,
                column,
            }) => {
                let place = ProgramPosition {
                    file: program.file_name.to_owned(),
                    line,
                    column,
                };
                JsOutcome::ImportRefused(fault::import_refused(&specifier, Some(place)))
            }
        };
        let outcome = self.unless_diverged(outcome);
        std::mem::forget(self);
        FinishedProgram { outcome }
    }

    /// The outcome, unless the program did not do everything that its trace says.
    fn unless_diverged(&self, outcome: JsOutcome) -> JsOutcome {
        self.host.send_trace();
        let recall = self.host.recall.borrow();
        if recall.has_diverged() || (!recall.is_live() && outcome != JsOutcome::OutOfMemory) {
            return JsOutcome::Diverged {
                calls: recall.calls_made(),
            };
        }
        outcome
    }

    fn run_module(&self, ctx: &Ctx<'_>, program: &JsProgram<'_>, module: String) -> JsOutcome {
        if let Err(caught) = prelude::define_args(ctx, program.args).catch(ctx) {
            return self.outcome_of_caught(ctx, caught);
        }
        let declared = match Module::declare(ctx.clone(), self.host.file(), module).catch(ctx) {
            Ok(declared) => declared,
            // The transpiler accepts the source, but the engine does not.
            Err(CaughtError::Exception(thrown)) => {
                return fault::outcome_of_compile_error(ctx, &self.host, &self.hooks, thrown);
            }
            Err(caught) => return self.outcome_of_caught(ctx, caught),
        };
        match declared.eval().catch(ctx) {
            Ok((module, evaluated)) => self
                .run_to_completion(ctx, &module, &evaluated, program.input)
                .unwrap_or_else(|ended| match ended {
                    LoopExit::Threw(thrown) => fault::outcome_of_throw(ctx, &self.host, &self.hooks, thrown),
                    LoopExit::Stuck => JsOutcome::Stuck,
                    LoopExit::Diverged => JsOutcome::Diverged {
                        calls: self.host.recall.borrow().calls_made(),
                    },
                }),
            Err(caught) => self.outcome_of_caught(ctx, caught),
        }
    }

    /// Runs a module that has begun until nothing is left to do.
    fn run_to_completion<'js>(
        &self,
        ctx: &Ctx<'js>,
        module: &Module<'js, Evaluated>,
        evaluated: &Promise<'js>,
        input: Option<&str>,
    ) -> Result<JsOutcome, LoopExit<'js>> {
        event_loop::settle_promise(ctx, &self.host, &self.hooks, evaluated)?;
        let exported = module
            .namespace()
            .and_then(|names| names.get::<_, Value<'js>>("default"));
        let mut value = match exported.catch(ctx) {
            Ok(value) => value,
            Err(caught) => return Ok(self.outcome_of_caught(ctx, caught)),
        };
        if let (Some(input), Some(function)) = (input, value.as_function()) {
            let called = ctx.json_parse(input).and_then(|input| function.call((input,)));
            value = match called.catch(ctx) {
                Ok(value) => value,
                Err(caught) => return Ok(self.outcome_of_caught(ctx, caught)),
            };
        }
        // For a program that ends with `main()`, the value is that of the promise.
        if let Some(promise) = value.as_promise() {
            value = event_loop::settle_promise(ctx, &self.host, &self.hooks, promise)?;
        }
        event_loop::run_to_end(ctx, &self.host, &self.hooks)?;
        Ok(self.to_json(ctx, value))
    }

    fn outcome_of_caught<'js>(&self, ctx: &Ctx<'js>, caught: CaughtError<'js>) -> JsOutcome {
        match caught {
            CaughtError::Exception(thrown) => {
                fault::outcome_of_throw(ctx, &self.host, &self.hooks, thrown.into_object().into_value())
            }
            CaughtError::Value(thrown) => fault::outcome_of_throw(ctx, &self.host, &self.hooks, thrown),
            CaughtError::Error(error) => JsOutcome::Failed(JsFault::plain("EngineError", &error.to_string())),
        }
    }

    fn to_json<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> JsOutcome {
        if value.is_undefined() || value.is_null() {
            return JsOutcome::Completed { value_json: None };
        }
        let simple = value.is_number() || value.is_string() || value.is_bool();
        let text = if simple {
            ctx.json_stringify(value)
                .and_then(|text| text.map(|text| text.to_string()).transpose())
        } else {
            self.hooks.to_json(ctx, value)
        };
        match text.catch(ctx) {
            Ok(value_json) => JsOutcome::Completed { value_json },
            Err(caught) => fault::outcome_of_unserializable(ctx, &self.host, &self.hooks, caught),
        }
    }
}

#[cfg(test)]
mod tests;
