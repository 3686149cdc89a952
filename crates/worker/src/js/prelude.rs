//! The names that a program finds besides the language's own, and the native functions behind them.
use std::rc::Rc;

use rquickjs::{Array, Ctx, Exception, Function, Module, Object, Persistent, Result, TypedArray, Value};

use super::{
    calls, emit,
    host::{ConsoleStream, NativeState},
    random, workspace,
};

/// The prefix of our own modules' names, whose frames never show in a stack.
pub(super) const FILE_PREFIX: &str = "ringfence:";

const TICKS_PER_MILLISECOND: u32 = 10;
const _: () = assert!(TICKS_PER_MILLISECOND as u64 * 1000 == ringfence_wire::TICKS_PER_SECOND);

const CORE: &str = include_str!("prelude/core.js");
const PARTS: [(&str, &str); 12] = [
    ("clone", include_str!("prelude/clone.js")),
    ("console", include_str!("prelude/console.js")),
    ("crypto", include_str!("prelude/crypto.js")),
    ("emit", include_str!("prelude/emit.js")),
    ("fetch", include_str!("prelude/fetch.js")),
    ("files", include_str!("prelude/files.js")),
    ("inspect", include_str!("prelude/inspect.js")),
    ("tools", include_str!("prelude/tools.js")),
    ("url", include_str!("prelude/url.js")),
    ("value", include_str!("prelude/value.js")),
    ("weak", include_str!("prelude/weak.js")),
    ("web", include_str!("prelude/web.js")),
];

/// The functions of the prelude that the Rust side calls.
pub(super) struct PreludeHooks {
    warm: Persistent<Function<'static>>,
    fire: Persistent<Function<'static>>,
    text: Persistent<Function<'static>>,
    describe: Persistent<Function<'static>>,
    json: Persistent<Function<'static>>,
    answer: Persistent<Function<'static>>,
    fail: Persistent<Function<'static>>,
    refuse: Persistent<Function<'static>>,
}

impl PreludeHooks {
    /// Compiles the parts that programs use most.
    pub(super) fn warm_up(&self, ctx: &Ctx<'_>) -> Result<()> {
        self.warm.clone().restore(ctx)?.call(())
    }

    /// Calls the function of a timer.
    pub(super) fn fire_timer(&self, ctx: &Ctx<'_>, timer: u32) -> Result<()> {
        self.fire.clone().restore(ctx)?.call((timer,))
    }

    /// Resolves the promise of a call with its result.
    pub(super) fn resolve_call<'js>(&self, ctx: &Ctx<'js>, number: u32, value: Value<'js>) -> Result<()> {
        self.answer.clone().restore(ctx)?.call((number, value))
    }

    /// Rejects the promise of a call whose result could not be read.
    pub(super) fn reject_unreadable<'js>(&self, ctx: &Ctx<'js>, number: u32, thrown: Value<'js>) -> Result<()> {
        self.fail.clone().restore(ctx)?.call((number, thrown))
    }

    /// Rejects the promise of a call that failed, with the message, code, rule, hint and retry time.
    pub(super) fn reject_refused<'js>(&self, ctx: &Ctx<'js>, number: u32, words: [Value<'js>; 5]) -> Result<()> {
        let [message, code, rule, hint, retry] = words;
        self.refuse
            .clone()
            .restore(ctx)?
            .call((number, message, code, rule, hint, retry))
    }

    /// The text of an object's property; a getter that throws counts as absent.
    pub(super) fn text_property<'js>(&self, ctx: &Ctx<'js>, object: &Object<'js>, key: &str) -> Option<String> {
        let found = self
            .text
            .clone()
            .restore(ctx)
            .and_then(|text| text.call::<_, String>((object.clone(), key)));
        if found.is_err() {
            ctx.catch();
        }
        found.ok()
    }

    /// Describes any value as text for people.
    pub(super) fn describe<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> String {
        let shown = self
            .describe
            .clone()
            .restore(ctx)
            .and_then(|describe| describe.call::<_, rquickjs::Coerced<String>>((value,)));
        shown.map_or_else(
            |_| {
                ctx.catch();
                "a value that cannot be shown".to_owned()
            },
            |text| text.0,
        )
    }

    /// The value as JSON text, or `None` for null. Prints a notice for each part that JSON cannot hold as it is.
    pub(super) fn to_json<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> Result<Option<String>> {
        self.json.clone().restore(ctx)?.call((value,))
    }
}

/// Defines the built-in names in a fresh context.
pub(super) fn install(ctx: &Ctx<'_>, host: &Rc<NativeState>) -> Result<PreludeHooks> {
    let native = native_functions(ctx, host)?;
    let hooks: Object<'_> = load(ctx, "core", CORE)?.call((native, ctx.globals()))?;
    let hook = |name: &str| -> Result<Persistent<Function<'static>>> {
        Ok(Persistent::save(ctx, hooks.get::<_, Function<'_>>(name)?))
    };
    Ok(PreludeHooks {
        warm: hook("warm")?,
        fire: hook("fire")?,
        text: hook("text")?,
        describe: hook("describe")?,
        json: hook("json")?,
        answer: hook("answer")?,
        fail: hook("fail")?,
        refuse: hook("refuse")?,
    })
}

/// Defines the global `args`, an array of the job's arguments.
pub(super) fn define_args(ctx: &Ctx<'_>, args: &[String]) -> Result<()> {
    let list = Array::new(ctx.clone())?;
    for (index, arg) in args.iter().enumerate() {
        list.set(index, arg.as_str())?;
    }
    ctx.globals().set("args", list)
}

fn load<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> Result<Function<'js>> {
    let name = format!("{FILE_PREFIX}{name}");
    let (module, _) = Module::declare(ctx.clone(), name, source)?.eval()?;
    module.namespace()?.get("default")
}

#[expect(clippy::needless_pass_by_value, reason = "the engine hands natives owned values")]
fn load_part(ctx: Ctx<'_>, name: String) -> Result<Function<'_>> {
    match PARTS.iter().find(|(known, _)| *known == name) {
        Some((_, source)) => load(&ctx, &name, source),
        None => Err(Exception::throw_message(&ctx, &format!("no such part: `{name}`"))),
    }
}

fn native_functions<'js>(ctx: &Ctx<'js>, host: &Rc<NativeState>) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    native.set("load", Function::new(ctx.clone(), load_part)?)?;
    let printer = Rc::clone(host);
    native.set(
        "print",
        Function::new(ctx.clone(), move |stream: i32, text: String| {
            let stream = if stream == 2 {
                ConsoleStream::Stderr
            } else {
                ConsoleStream::Stdout
            };
            printer.print(stream, &text);
        })?,
    )?;
    let tracer = Rc::clone(host);
    native.set(
        "trace",
        Function::new(ctx.clone(), move |stack: String| tracer.map_stack(&stack).text)?,
    )?;
    let starter = Rc::clone(host);
    native.set(
        "start",
        Function::new(ctx.clone(), move |id: u32, wait: f64| {
            let due = starter.read_clock(1).saturating_add(to_ticks(wait));
            starter.timers.borrow_mut().start(id, due);
        })?,
    )?;
    let stopper = Rc::clone(host);
    native.set(
        "stop",
        Function::new(ctx.clone(), move |id: u32| stopper.timers.borrow_mut().stop(id))?,
    )?;
    let random = Rc::clone(host);
    define_clock(ctx, &native, host)?;
    native.set("random", Function::new(ctx.clone(), move || random.random())?)?;
    native.set("encode", Function::new(ctx.clone(), encode_utf8)?)?;
    native.set("decode", Function::new(ctx.clone(), workspace::decode_text)?)?;
    random::define_crypto(ctx, &native, host)?;
    workspace::define_files(ctx, &native, host)?;
    emit::define_emit(ctx, &native, host)?;
    calls::define_call(ctx, &native, host)?;
    Ok(native)
}

/// Defines the program's clock: `now` in milliseconds, `elapsed` since the program began, and `origin`, when that was.
fn define_clock<'js>(ctx: &Ctx<'js>, native: &Object<'js>, host: &Rc<NativeState>) -> Result<()> {
    let clock = Rc::clone(host);
    let now = Function::new(ctx.clone(), move || {
        to_milliseconds(clock.read_clock(TICKS_PER_MILLISECOND.into())).floor()
    })?;
    native.set("now", now.with_name("now")?)?;
    let clock = Rc::clone(host);
    let elapsed = Function::new(ctx.clone(), move || {
        let now = clock.read_clock(1);
        to_milliseconds(now.saturating_sub(clock.recall.borrow().start()))
    })?;
    native.set("elapsed", elapsed.with_name("now")?)?;
    let clock = Rc::clone(host);
    let origin = Function::new(ctx.clone(), move || to_milliseconds(clock.recall.borrow().start()))?;
    native.set("origin", origin)
}

/// Converts ticks to milliseconds, exactly for a clock that runs for a thousand years.
#[expect(
    clippy::cast_precision_loss,
    reason = "no clock has more ticks than a number holds exactly"
)]
fn to_milliseconds(ticks: u64) -> f64 {
    ticks as f64 / f64::from(TICKS_PER_MILLISECOND)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a wait is between 0 and 25 days, and what is not becomes the nearest of them"
)]
fn to_ticks(milliseconds: f64) -> u64 {
    (milliseconds * f64::from(TICKS_PER_MILLISECOND)).ceil() as u64
}

fn encode_utf8(ctx: Ctx<'_>, text: String) -> Result<TypedArray<'_, u8>> {
    TypedArray::new(ctx, text.into_bytes())
}
