//! The company itself: runs a tool by name with arguments and returns its answer.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use thiserror::Error;

use crate::store::Store;
use crate::tool::{self, Op, Tool};
use crate::{param, read, write};

/// An example company with a memory of its own.
#[derive(Debug)]
pub struct Company {
    store: Mutex<Store>,
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// No tool has this name.
    #[error("no tool `{name}`{hint}")]
    UnknownTool {
        /// The requested name, cut to 120 characters.
        name: String,
        /// A suggestion of the nearest name, as half a sentence; empty where none is near.
        hint: String,
    },
    /// The tool exists but cannot do what the call asks.
    #[error(transparent)]
    Refused(#[from] Fault),
}

/// A fault of a call that the caller can correct, with a message for that caller.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// Some arguments are unknown, missing or invalid.
    #[error("{problems}. `{tool}` takes {takes}")]
    Arguments {
        /// All problems, separated by semicolons.
        problems: String,
        /// The name of the called tool.
        tool: String,
        /// The names of the tool's arguments, with the required ones marked.
        takes: String,
    },
    /// No record has this id.
    #[error("no {entity} `{id}`; `list_{many}` lists those there are")]
    NoRecord {
        /// The kind of record, such as `purchase order`.
        entity: String,
        /// The id that no record has.
        id: String,
        /// The plural name of the entity, as its tools use it.
        many: &'static str,
    },
    /// The action requires another state of the record.
    #[error("`{id}` has `{field}` `{now}`; this is possible only while it is `{only}`")]
    NotNow {
        /// The id of the record that the action applies to.
        id: String,
        /// The field whose value prevents the action.
        field: &'static str,
        /// The present value of that field.
        now: String,
        /// The values that would permit the action.
        only: String,
    },
    /// Other records refer to the record, so it cannot be deleted.
    #[error("`{id}` cannot be deleted: {count} {many} refer to it")]
    Linked {
        /// The id of the record that stays.
        id: String,
        /// The number of records that refer to it.
        count: usize,
        /// The plural name of the entity whose records refer to it.
        many: &'static str,
    },
    /// An update changes no field.
    #[error("nothing to change: give at least one field beside `id`")]
    NoChange,
    /// The cursor belongs to another list.
    #[error("`cursor` does not belong to this list: give the `next_cursor` of the same call, with the same arguments")]
    StrangeCursor,
    /// The entity has its maximum number of records.
    #[error("there is no room for another {entity}")]
    Full {
        /// The kind of record that the call would create.
        entity: String,
    },
}

impl Default for Company {
    fn default() -> Self {
        Self::new()
    }
}

impl Company {
    /// Creates the company with its initial records, which are always the same.
    pub fn new() -> Self {
        Self {
            store: Mutex::new(Store::new()),
        }
    }

    /// Runs one call; the answer fits the output schema of the tool.
    pub fn call(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, CallError> {
        let tool = tool::find(name).ok_or_else(|| unknown(name))?;
        let params = tool.params();
        let given = param::check(&tool.name, &params, arguments)?;
        // A call that panicked leaves no half-written row: rows are replaced as a whole.
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
