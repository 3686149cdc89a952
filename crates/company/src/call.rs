//! The company itself: takes a tool's name and arguments, gives its answer.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use thiserror::Error;

use crate::store::Store;
use crate::tool::{self, Op, Tool};
use crate::{param, read, write};

/// A small company with its own memory.
#[derive(Debug)]
pub struct Company {
    store: Mutex<Store>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// There is no such tool.
    #[error("no tool `{name}`{hint}")]
    UnknownTool {
        /// What was asked for.
        name: String,
        /// The nearest name, as half a sentence.
        hint: String,
    },
    /// The tool cannot do what was asked.
    #[error(transparent)]
    Refused(#[from] Fault),
}

/// What the company cannot do, in words for whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// Arguments that do not fit.
    #[error("{problems}. `{tool}` takes {takes}")]
    Arguments {
        /// What is wrong, one after the other.
        problems: String,
        /// The tool.
        tool: String,
        /// The names of its arguments.
        takes: String,
    },
    /// An id that stands for nothing.
    #[error("no {entity} `{id}`; `list_{many}` lists those there are")]
    NoRecord {
        /// What was looked for.
        entity: String,
        /// Its id.
        id: String,
        /// What several are called.
        many: &'static str,
    },
    /// An act whose time has not come, or has passed.
    #[error("`{id}` has `{field}` `{now}`; this is possible only while it is `{only}`")]
    NotNow {
        /// The record.
        id: String,
        /// The field that forbids it.
        field: &'static str,
        /// What it holds.
        now: String,
        /// What it would have to hold.
        only: String,
    },
    /// A record that others refer to.
    #[error("`{id}` cannot be deleted: {count} {many} refer to it")]
    Linked {
        /// The record.
        id: String,
        /// How many refer to it.
        count: usize,
        /// What they are.
        many: &'static str,
    },
    /// An update without a change.
    #[error("nothing to change: give at least one field beside `id`")]
    NoChange,
    /// A cursor that belongs to another list.
    #[error("`cursor` does not belong to this list: give the `next_cursor` of the same call, with the same arguments")]
    StrangeCursor,
    /// More records than the example keeps.
    #[error("there is no room for another {entity}")]
    Full {
        /// What was to be created.
        entity: String,
    },
}

impl Default for Company {
    fn default() -> Self {
        Self::new()
    }
}

impl Company {
    /// The company as it is on its first call, always the same.
    pub fn new() -> Self {
        Self {
            store: Mutex::new(Store::new()),
        }
    }

    /// Answers one call; the answer fits the tool's output schema.
    pub fn call(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, CallError> {
        let tool = tool::find(name).ok_or_else(|| unknown(name))?;
        let params = tool.params();
        let given = param::check(&tool.name, &params, arguments)?;
        // A call that panicked left no half-written row: rows are replaced whole.
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(answer(&mut store, tool, &given)?)
    }
}

fn answer(store: &mut Store, tool: &'static Tool, given: &[param::Argument]) -> Result<Value, Fault> {
    let entity = tool.entity;
    if let Some(at) = crate::spec::place(entity.many) {
        store.ready(at);
    }
    match tool.op {
        Op::List | Op::Under(_) => read::list(store, tool, given),
        Op::Get => read::get(store, entity, given),
        Op::Search => read::search(store, tool, given),
        Op::Count => Ok(read::count(store, entity, given)),
        Op::Export => Ok(read::export(store, entity, given)),
        Op::Create => write::create(store, entity, given),
        Op::Update => write::update(store, entity, given),
        Op::Delete => write::delete(store, entity, given),
        Op::Act(act) => write::act(store, entity, act, given),
    }
}

fn unknown(name: &str) -> CallError {
    let name: String = name.chars().take(120).collect();
    let near = tool::all()
        .iter()
        .map(|tool| (strsim::jaro_winkler(&tool.name, &name), &tool.name));
    let near = near.filter(|(like, _)| *like > 0.85).max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = near
        .map(|(_, name)| format!("; did you mean `{name}`?"))
        .unwrap_or_default();
    CallError::UnknownTool { name, hint }
}

#[cfg(test)]
mod tests;
