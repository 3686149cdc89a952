//! MCP tasks (SEP-2663): each execution is a task, with the execution's id.

use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{Engine, RunProgress, WaitError};
use ringfence_journal::{ExecutionId, ExecutionStatus, Principal};
use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, ErrorCode, ErrorData, GetTaskResult, JsonObject, Task, TaskPayload,
    TaskStatus, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::current_timestamp;
use serde_json::{Value, json};

use super::fault::McpFault;
use super::{call_result, elicitation, text};

/// The interval at which a client should poll.
const POLL_MS: u64 = 1_000;

/// A running execution as a task.
pub(super) fn created_task(id: ExecutionId) -> CreateTaskResult {
    CreateTaskResult::new(task_with_status(id, TaskStatus::Working).with_status_message("the program runs"))
}

fn task_with_status(id: ExecutionId, status: TaskStatus) -> Task {
    let now = current_timestamp();
    Task::new(id.to_string(), status, id.created().to_string(), now).with_poll_interval_ms(POLL_MS)
}

/// The state of a task, and its execution if the client may disconnect without ending it: it has ended, or waits for people.
pub(super) async fn get_task(
    engine: &Arc<Engine>,
    who: Principal,
    task_id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<(GetTaskResult, Option<ExecutionId>), ErrorData> {
    let id = parse_task_id(task_id)?;
    let progress = engine
        .runs()
        .wait(who, id, Duration::ZERO)
        .await
        .map_err(|error| unknown_task(&error))?;
    let mut says = None;
    let (payload, needs_nobody) = match progress {
        RunProgress::Running(running) => {
            let asked = elicitation::task_questions(engine, &running, context).await;
            let input_requests = asked.map_err(|fault| ErrorData::internal_error(fault.message, None))?;
            says = text::waiting_text(&running.approvals);
            let payload = if input_requests.is_empty() {
                TaskPayload::Working
            } else {
                TaskPayload::InputRequired { input_requests }
            };
            (
                payload,
                (running.status == ExecutionStatus::WaitingApproval).then_some(id),
            )
        }
        RunProgress::Ended(Ok(execution)) if execution.status == ExecutionStatus::Cancelled => {
            (TaskPayload::Cancelled, Some(id))
        }
        RunProgress::Ended(Ok(execution)) => (
            finished_payload(call_result::ended_result(engine, who, &execution).await),
            Some(id),
        ),
        RunProgress::Ended(Err(error)) => (finished_payload(Err(McpFault::from(error.as_ref()))), Some(id)),
    };
    let mut task = task_with_status(id, payload.status());
    task.status_message = says;
    Ok((GetTaskResult::new(DetailedTask::new(task, payload)), needs_nobody))
}

fn finished_payload(result: Result<CallToolResult, McpFault>) -> TaskPayload {
    match result.map(serde_json::to_value) {
        Ok(Ok(Value::Object(result))) => TaskPayload::Completed { result },
        Ok(_) => failed_payload("the result cannot be written as JSON"),
        Err(fault) => failed_payload(&fault.message),
    }
}

fn failed_payload(message: &str) -> TaskPayload {
    let error = json!({ "code": ErrorCode::INTERNAL_ERROR.0, "message": message });
    let error: JsonObject = error.as_object().cloned().unwrap_or_default();
    TaskPayload::Failed { error }
}

/// Submits a person's answers to the questions of a task.
pub(super) async fn update_task(
    engine: &Arc<Engine>,
    who: Principal,
    request: &UpdateTaskParams,
) -> Result<(), ErrorData> {
    let id = parse_task_id(&request.task_id)?;
    engine
        .runs()
        .wait(who, id, Duration::ZERO)
        .await
        .map_err(|error| unknown_task(&error))?;
    elicitation::accept_answers(engine, who, id, &request.input_responses)
        .await
        .map_err(|fault| ErrorData::internal_error(fault.message, None))
}

/// Cancels the run of a task.
pub(super) async fn cancel_task(engine: &Arc<Engine>, who: Principal, task_id: &str) -> Result<(), ErrorData> {
    let id = parse_task_id(task_id)?;
    engine
        .runs()
        .cancel(who, id)
        .await
        .map_err(|error| unknown_task(&error))
}

fn parse_task_id(task_id: &str) -> Result<ExecutionId, ErrorData> {
    task_id
        .parse()
        .map_err(|_| ErrorData::invalid_params("there is no such task", None))
}

fn unknown_task(error: &WaitError) -> ErrorData {
    match error {
        WaitError::Unknown(_)
        | WaitError::Forgotten { .. }
        | WaitError::Elsewhere(_)
        | WaitError::Withheld(_)
        | WaitError::NotResumable { .. } => ErrorData::invalid_params(error.to_string(), None),
        WaitError::Journal(_) => ErrorData::internal_error(error.to_string(), None),
    }
}
