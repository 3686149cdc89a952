//! Tools that become tasks for clients that offer them.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult,
    ErrorData, InputRequest,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::Value;

use super::from_json;
use super::input_required::{form_field, form_request, require_input};

/// Calls the tool if this module has it; `None` otherwise.
pub(super) fn call(
    tasks: &TaskManager,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Option<CallToolResponse>, ErrorData> {
    let job = match request.name.as_ref() {
        "slow_compute" => FixtureTask::Slow(task_duration(request)),
        "failing_job" => FixtureTask::Failing,
        "protocol_error_job" => FixtureTask::Breaking,
        "confirm_delete" => FixtureTask::Asking(vec!["confirm"]),
        "multi_input" => FixtureTask::Asking(vec!["first", "second"]),
        "test_tool_with_task" => {
            let Some(name) = form_field(request.input_responses.as_ref(), "user_name", "name").and_then(Value::as_str)
            else {
                let question = ("user_name", form_request("What is your name?", "name", "string"));
                return Ok(Some(require_input(&[question], None)?.into()));
            };
            FixtureTask::Greeting(name.to_owned())
        }
        _ => return Ok(None),
    };
    let offers_tasks = context
        .client_capabilities()
        .is_some_and(|client| client.supports_tasks());
    if !offers_tasks {
        if matches!(job, FixtureTask::Slow(_)) {
            return Ok(Some(text_result("computed").into()));
        }
        let needed = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(needed));
    }
    let task = tasks.spawn(TaskOptions::new(), |task| Box::pin(job.run(task)));
    Ok(Some(CreateTaskResult::new(task).into()))
}

fn task_duration(request: &CallToolRequestParams) -> Duration {
    let given = request.arguments.as_ref().and_then(|given| given.get("seconds"));
    let seconds = given.and_then(Value::as_f64).unwrap_or(0.0);
    Duration::try_from_secs_f64(seconds)
        .unwrap_or_default()
        .min(Duration::from_mins(2))
}

/// The behaviour of a task.
enum FixtureTask {
    Slow(Duration),
    Failing,
    Breaking,
    Asking(Vec<&'static str>),
    Greeting(String),
}

impl FixtureTask {
    async fn run(self, task: TaskContext) -> Result<CallToolResult, TaskExit> {
        match self {
            FixtureTask::Slow(length) => {
                tokio::select! {
                    () = tokio::time::sleep(length) => Ok(text_result("computed")),
                    () = task.cancelled() => Err(TaskExit::Cancelled),
                }
            }
            FixtureTask::Failing => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(CallToolResult::error(vec![ContentBlock::text("the job failed")]))
            }
            FixtureTask::Breaking => Err(TaskExit::Error(ErrorData::internal_error("the job broke", None))),
            FixtureTask::Asking(keys) => {
                let asked = keys.into_iter().map(|key| {
                    let task = task.clone();
                    tokio::spawn(async move {
                        let question: InputRequest = from_json(form_request("Are you sure?", "confirm", "boolean"))?;
                        task.request_input(key, question).await
                    })
                });
                let asked: Vec<_> = asked.collect();
                for answer in asked {
                    answer
                        .await
                        .map_err(|error| ErrorData::internal_error(error.to_string(), None))??;
                }
                Ok(text_result("every question is answered"))
            }
            FixtureTask::Greeting(name) => Ok(text_result(&format!("Hello, {name}!"))),
        }
    }
}

fn text_result(says: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(says)])
}
