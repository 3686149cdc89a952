//! MCP tasks (SEP-2663): every execution is one, and its id is the task's.

use std::time::Duration;

use ringfence_engine::{Engine, Progress, WaitError};
use ringfence_journal::{ExecutionId, Principal, Status};
use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, ErrorCode, ErrorData, GetTaskResult, JsonObject, Task, TaskPayload,
    TaskStatus,
};
use rmcp::task_manager::current_timestamp;
use serde_json::{Value, json};

use super::answer;
use super::fault::Fault;

/// How often a client should ask.
const POLL_MS: u64 = 1_000;

/// A run that goes on, as a task.
pub(super) fn begun(id: ExecutionId) -> CreateTaskResult {
    CreateTaskResult::new(task(id, TaskStatus::Working).with_status_message("the program runs"))
}

fn task(id: ExecutionId, status: TaskStatus) -> Task {
    let now = current_timestamp();
    Task::new(id.to_string(), status, id.created().to_string(), now).with_poll_interval_ms(POLL_MS)
}

/// Where a task stands, and the execution if it is over.
pub(super) async fn get(
    engine: &Engine,
    who: Principal,
    task_id: &str,
) -> Result<(GetTaskResult, Option<ExecutionId>), ErrorData> {
    let id = parse(task_id)?;
    let progress = engine
        .wait(who, id, Duration::ZERO)
        .await
        .map_err(|error| unknown(&error))?;
    let (payload, is_over) = match progress {
        Progress::Running(_) => (TaskPayload::Working, None),
        Progress::Ended(Ok(execution)) if execution.status == Status::Cancelled => (TaskPayload::Cancelled, Some(id)),
        Progress::Ended(Ok(execution)) => (over(answer::ended(&execution)), Some(id)),
        Progress::Ended(Err(error)) => (over(Err(Fault::from(error.as_ref()))), Some(id)),
    };
    let task = task(id, payload.status());
    Ok((GetTaskResult::new(DetailedTask::new(task, payload)), is_over))
}

fn over(result: Result<CallToolResult, Fault>) -> TaskPayload {
    match result.map(serde_json::to_value) {
        Ok(Ok(Value::Object(result))) => TaskPayload::Completed { result },
        Ok(_) => failed("the result cannot be written as JSON"),
        Err(fault) => failed(&fault.message),
    }
}

fn failed(message: &str) -> TaskPayload {
    let error = json!({ "code": ErrorCode::INTERNAL_ERROR.0, "message": message });
    let error: JsonObject = error.as_object().cloned().unwrap_or_default();
    TaskPayload::Failed { error }
}

/// Kills a task's run.
pub(super) async fn cancel(engine: &Engine, who: Principal, task_id: &str) -> Result<(), ErrorData> {
    let id = parse(task_id)?;
    engine.cancel(who, id).await.map_err(|error| unknown(&error))
}

fn parse(task_id: &str) -> Result<ExecutionId, ErrorData> {
    task_id
        .parse()
        .map_err(|_| ErrorData::invalid_params("there is no such task", None))
}

fn unknown(error: &WaitError) -> ErrorData {
    match error {
        WaitError::Unknown(_) | WaitError::Forgotten { .. } => ErrorData::invalid_params(error.to_string(), None),
        WaitError::Unread(_) => ErrorData::internal_error(error.to_string(), None),
    }
}
