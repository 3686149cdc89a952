//! MCP tasks (SEP-2663): each execution is a task, with the execution's id.

use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{Engine, Progress, WaitError};
use ringfence_journal::{ExecutionId, Principal, Status};
use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, ErrorCode, ErrorData, GetTaskResult, JsonObject, Task, TaskPayload,
    TaskStatus, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::current_timestamp;
use serde_json::{Value, json};

use super::fault::Fault;
use super::{answer, form, words};

/// The interval at which a client should poll.
const POLL_MS: u64 = 1_000;

/// A running execution as a task.
pub(super) fn begun(id: ExecutionId) -> CreateTaskResult {
    CreateTaskResult::new(task(id, TaskStatus::Working).with_status_message("the program runs"))
}

fn task(id: ExecutionId, status: TaskStatus) -> Task {
    let now = current_timestamp();
    Task::new(id.to_string(), status, id.created().to_string(), now).with_poll_interval_ms(POLL_MS)
}

/// The state of a task, and its execution if the client may disconnect without ending it: it has ended, or waits for people.
pub(super) async fn get(
    engine: &Arc<Engine>,
    who: Principal,
    task_id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<(GetTaskResult, Option<ExecutionId>), ErrorData> {
    let id = parse(task_id)?;
    let progress = engine
        .wait(who, id, Duration::ZERO)
        .await
        .map_err(|error| unknown(&error))?;
    let mut says = None;
    let (payload, needs_nobody) = match progress {
        Progress::Running(running) => {
            let asked = form::of_task(engine, &running, context).await;
            let input_requests = asked.map_err(|fault| ErrorData::internal_error(fault.message, None))?;
            says = words::waits(&running.approvals);
            let payload = if input_requests.is_empty() {
                TaskPayload::Working
            } else {
                TaskPayload::InputRequired { input_requests }
            };
            (payload, (running.status == Status::WaitingApproval).then_some(id))
        }
        Progress::Ended(Ok(execution)) if execution.status == Status::Cancelled => (TaskPayload::Cancelled, Some(id)),
        Progress::Ended(Ok(execution)) => (over(answer::ended(engine, who, &execution).await), Some(id)),
        Progress::Ended(Err(error)) => (over(Err(Fault::from(error.as_ref()))), Some(id)),
    };
    let mut task = task(id, payload.status());
    task.status_message = says;
    Ok((GetTaskResult::new(DetailedTask::new(task, payload)), needs_nobody))
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

/// Submits a person's answers to the questions of a task.
pub(super) async fn update(engine: &Arc<Engine>, who: Principal, request: &UpdateTaskParams) -> Result<(), ErrorData> {
    let id = parse(&request.task_id)?;
    engine
        .wait(who, id, Duration::ZERO)
        .await
        .map_err(|error| unknown(&error))?;
    form::take(engine, who, id, &request.input_responses)
        .await
        .map_err(|fault| ErrorData::internal_error(fault.message, None))
}

/// Cancels the run of a task.
pub(super) async fn cancel(engine: &Arc<Engine>, who: Principal, task_id: &str) -> Result<(), ErrorData> {
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
        WaitError::Unknown(_)
        | WaitError::Forgotten { .. }
        | WaitError::Elsewhere(_)
        | WaitError::HeldBack(_)
        | WaitError::Spoiled { .. } => ErrorData::invalid_params(error.to_string(), None),
        WaitError::Unread(_) => ErrorData::internal_error(error.to_string(), None),
    }
}
