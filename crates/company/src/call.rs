//! The company itself: runs a tool by name with arguments and returns its answer.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use thiserror::Error;

use crate::store::CompanyStore;
use crate::tool::{self, CompanyTool, ToolOperation};
use crate::{params, read, write};

/// An example company with a memory of its own.
#[derive(Debug)]
pub struct Company {
    store: Mutex<CompanyStore>,
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompanyCallError {
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
    Refused(#[from] CompanyFault),
}

/// A fault of a call that the caller can correct, with a message for that caller.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompanyFault {
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
            store: Mutex::new(CompanyStore::new()),
        }
    }

    /// Runs one call; the answer fits the output schema of the tool.
    pub fn call(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, CompanyCallError> {
        let tool = tool::find_tool(name).ok_or_else(|| unknown_tool(name))?;
        let params = tool.params();
        let given = params::check_arguments(&tool.name, &params, arguments)?;
        // A call that panicked leaves no half-written row: rows are replaced as a whole.
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(answer_call(&mut store, tool, &given)?)
    }
}

fn answer_call(
    store: &mut CompanyStore,
    tool: &'static CompanyTool,
    given: &[params::CheckedArgument],
) -> Result<Value, CompanyFault> {
    let entity = tool.entity;
    if let Some(at) = crate::spec::entity_position(entity.many) {
        store.load_table(at);
    }
    match tool.op {
        ToolOperation::List | ToolOperation::Under(_) => read::list_records(store, tool, given),
        ToolOperation::Get => read::get_record(store, entity, given),
        ToolOperation::Search => read::search_records(store, tool, given),
        ToolOperation::Count => Ok(read::count_records(store, entity, given)),
        ToolOperation::Export => Ok(read::export_records(store, entity, given)),
        ToolOperation::Create => write::create_record(store, entity, given),
        ToolOperation::Update => write::update_record(store, entity, given),
        ToolOperation::Delete => write::delete_record(store, entity, given),
        ToolOperation::Act(act) => write::run_action(store, entity, act, given),
    }
}

fn unknown_tool(name: &str) -> CompanyCallError {
    let name: String = name.chars().take(120).collect();
    let near = tool::all_tools()
        .iter()
        .map(|tool| (strsim::jaro_winkler(&tool.name, &name), &tool.name));
    let near = near.filter(|(like, _)| *like > 0.85).max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = near
        .map(|(_, name)| format!("; did you mean `{name}`?"))
        .unwrap_or_default();
    CompanyCallError::UnknownTool { name, hint }
}

#[cfg(test)]
mod tests;
