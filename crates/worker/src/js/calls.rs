//! The engine's side of a program's calls: the native function that makes them, and the conversion of their answers to values.
use std::{cell::RefCell, rc::Rc};

use ringfence_wire::{BoundedText, CallTarget};
use rquickjs::{CatchResultExt, CaughtError, Ctx, Function, Object, Result, Runtime, Value};

use super::{CallAnswer, host::NativeState, prelude::PreludeHooks};

/// Defines the native `call`, which takes the operation, server, tool and arguments. It returns the call's number, 0
/// for a name that is too long for any tool, or -1 for arguments that are too long.
pub(super) fn define_call<'js>(ctx: &Ctx<'js>, native: &Object<'js>, host: &Rc<NativeState>) -> Result<()> {
    let host = Rc::clone(host);
    let call = move |ask: String, server: String, tool: String, body: String| -> i64 {
        let ask = match ask.as_str() {
            "search" => CallTarget::Search,
            "describe" => CallTarget::Describe,
            "list" => CallTarget::List,
            "fetch" => CallTarget::Fetch,
            _ => match (BoundedText::new(server), BoundedText::new(tool)) {
                (Ok(server), Ok(tool)) => CallTarget::Tool { server, tool },
                _ => return 0,
            },
        };
        let number = host.call(ask, body);
        number.map_or(-1, i64::from)
    };
    native.set("call", Function::new(ctx.clone(), call)?)
}

/// Sends batched calls even while the program goes on computing, and interrupts a program that has diverged from its trace.
pub(super) fn send_while_busy(runtime: &Runtime, host: &Rc<NativeState>) {
    let host = Rc::clone(host);
    runtime.set_interrupt_handler(Some(Box::new(move || {
        if let Some(outside) = host.engine_host().map(Rc::as_ref)
            && let Ok(mut outside) = RefCell::try_borrow_mut(outside)
        {
            outside.send_calls();
        }
        host.has_diverged()
    })));
}

/// Waits for the next answer, at most until the program's clock is at `due`.
pub(super) fn next_answer(host: &NativeState, due: Option<u64>) -> Option<(u32, CallAnswer)> {
    if let Some(early) = host.recall.borrow_mut().early_answers.pop_front() {
        return Some(early);
    }
    host.send_trace();
    let until = due.map(|due| host.recall.borrow().instant_at(due));
    host.engine_host()?.borrow_mut().wait_for_answer(until, due)
}

/// Waits for the answer to one call, and keeps the others that come before it.
pub(super) fn answer_to(host: &NativeState, number: u32) -> Option<CallAnswer> {
    let mut recall = host.recall.borrow_mut();
    let early = recall.early_answers.iter().position(|(early, _)| *early == number);
    if let Some((_, answer)) = early.and_then(|place| recall.early_answers.remove(place)) {
        return Some(answer);
    }
    let mut outside = host.engine_host()?.borrow_mut();
    loop {
        match outside.wait_for_answer(None, None)? {
            (found, answer) if found == number => return Some(answer),
            other => recall.early_answers.push_back(other),
        }
    }
}

/// Settles the promise of a call with its answer.
pub(super) fn settle_answer(ctx: &Ctx<'_>, hooks: &PreludeHooks, number: u32, answer: CallAnswer) -> Result<()> {
    match answer {
        Ok(text) => match ctx.json_parse(text).catch(ctx) {
            Ok(value) => hooks.resolve_call(ctx, number, value),
            // Memory may be exhausted, or the text is not JSON.
            Err(CaughtError::Exception(thrown)) => {
                hooks.reject_unreadable(ctx, number, thrown.into_object().into_value())
            }
            Err(CaughtError::Value(thrown)) => hooks.reject_unreadable(ctx, number, thrown),
            Err(CaughtError::Error(error)) => Err(error),
        },
        Err(refusal) => {
            let text = |text: Option<String>| match text {
                Some(text) => rquickjs::String::from_str(ctx.clone(), &text).map(rquickjs::String::into_value),
                None => Ok(Value::new_null(ctx.clone())),
            };
            let words = [
                text(Some(refusal.message.into_string()))?,
                text(Some(refusal.code.into_string()))?,
                text(refusal.rule.map(BoundedText::into_string))?,
                text(refusal.hint.map(BoundedText::into_string))?,
                match refusal.retry_after_ms {
                    Some(wait) => Value::new_number(ctx.clone(), f64::from(wait)),
                    None => Value::new_null(ctx.clone()),
                },
            ];
            hooks.reject_refused(ctx, number, words)
        }
    }
}
