//! `sandboxed_code_run` and `wait_run`: start a run, wait for it, and return its state.

use std::collections::HashSet;
use std::time::Duration;

use ringfence_engine::{JobLanguage, OperationError, RunProgram, RunRequest, WaitError};
use ringfence_journal::{ApprovalId, ExecutionId, Principal};
use rmcp::model::{CallToolRequestParams, CallToolResponse, JsonObject};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use super::arguments::{CallArguments, wrong_argument};
use super::elicitation::{self, CallElicitation};
use super::fault::McpFault;
use super::handler::McpHandler;
use super::wait::{self, OnDisconnect, WaitOptions, WaitOutcome};
use super::{call_result, client_trace, files, task, tools};

/// How long a call waits for its run: clients time out after about a minute.
const WAIT_TIMEOUT: Duration = Duration::from_secs(45);
/// How long a call waits before a client that offers tasks gets one instead of a result.
const TASK_AFTER: Duration = Duration::from_secs(1);

pub(super) const LANGUAGES: &[(&str, &[&str])] = &[
    ("typescript", &["ts", "tsx"]),
    ("javascript", &["js", "node", "nodejs", "mjs"]),
    ("python", &["py", "python3"]),
    ("shell", &["sh"]),
    ("bash", &[]),
];

/// Handles a call of `sandboxed_code_run`.
pub(super) async fn call_run(
    face: &McpHandler,
    who: Principal,
    given: Option<JsonObject>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, McpFault> {
    let mut ask = parse_run_request(given)?;
    ask.trace = Some(client_trace::client_trace(context));
    let id = face.shared.engine.runs().begin(who, ask).await?;
    face.add_started(id);
    follow_run(face, who, id, HashSet::new(), context).await
}

/// Handles a repeated call with the person's answers. It resumes waiting for its run, and starts none.
pub(super) async fn resume_repeated_call(
    face: &McpHandler,
    who: Principal,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, McpFault>> {
    let repeated = match elicitation::parse_repeated_call(request.request_state.as_deref()) {
        Ok(repeated) => repeated?,
        Err(fault) => return Some(Err(fault)),
    };
    let answers = request.input_responses.as_ref();
    if let Some(answers) = answers
        && let Err(fault) = elicitation::accept_answers(&face.shared.engine, who, repeated.execution, answers).await
    {
        return Some(Err(fault));
    }
    Some(follow_run(face, who, repeated.execution, repeated.asked, context).await)
}

/// Waits for an execution that this call started. The response is its result, a task, or its state so far.
async fn follow_run(
    face: &McpHandler,
    who: Principal,
    id: ExecutionId,
    asked: HashSet<ApprovalId>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, McpFault> {
    let offers_tasks = context
        .client_capabilities()
        .is_some_and(|client| client.supports_tasks());
    let stay = WaitOptions {
        timeout: if offers_tasks { TASK_AFTER } else { WAIT_TIMEOUT },
        on_disconnect: face.on_disconnect(id),
        known_questions: None,
        is_single_call: false,
        elicitation: CallElicitation::new(context, asked),
    };
    match wait::wait_for_execution(face, who, id, stay, context).await? {
        // The client of a task sees the pending questions when it polls the task.
        WaitOutcome::StillRunning(_) | WaitOutcome::NeedsInput(_) if offers_tasks => Ok(task::created_task(id).into()),
        seen @ (WaitOutcome::StillRunning(_) | WaitOutcome::Ended(_) | WaitOutcome::NeedsInput(_)) => {
            outcome_response(face, who, seen).await
        }
    }
}

async fn outcome_response(face: &McpHandler, who: Principal, seen: WaitOutcome) -> Result<CallToolResponse, McpFault> {
    match seen {
        WaitOutcome::Ended(execution) => Ok(call_result::ended_result(&face.shared.engine, who, &execution)
            .await?
            .into()),
        WaitOutcome::StillRunning(running) => Ok(call_result::running_result(running).into()),
        WaitOutcome::NeedsInput(question) => Ok(CallToolResponse::InputRequired(*question)),
    }
}

/// Waits for a running execution, or cancels it.
pub(super) async fn call_wait(
    face: &McpHandler,
    who: Principal,
    given: Option<JsonObject>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, McpFault> {
    let mut given = CallArguments::new(given, tools::WAIT_ARGUMENTS)?;
    let text = given.take_required("execution_id", "give the `execution_id` of a run that goes on")?;
    let id: ExecutionId = text.parse().map_err(|error| {
        let hint = "use the `execution_id` that sandboxed_code_run returned";
        McpFault::new("arguments.invalid", format!("`execution_id`: {error}"), hint)
    })?;
    let at_most = given.take_duration("wait")?.unwrap_or(WAIT_TIMEOUT).min(WAIT_TIMEOUT);
    if given.take_flag("cancel")? {
        face.shared.engine.runs().cancel(who, id).await?;
    }
    let stay = WaitOptions {
        timeout: at_most,
        on_disconnect: OnDisconnect::Detach,
        known_questions: Some(face.shared.engine.runs().pending_approval_ids(who, id).await?),
        is_single_call: false,
        elicitation: CallElicitation::new(context, HashSet::new()),
    };
    outcome_response(face, who, wait::wait_for_execution(face, who, id, stay, context).await?).await
}

/// Parses the arguments of a call.
fn parse_run_request(given: Option<JsonObject>) -> Result<RunRequest, McpFault> {
    run_request_from(CallArguments::new(given, tools::RUN_ARGUMENTS)?)
}

/// Parses the body of an API request, which also accepts the inputs of a stored program.
pub(crate) fn parse_api_run_request(given: JsonObject) -> Result<RunRequest, McpFault> {
    let mut given = CallArguments::new(Some(given), tools::API_RUN_ARGUMENTS)?;
    let args = given.take_texts("args")?.unwrap_or_default();
    if args.iter().any(|arg| arg.contains('\0')) {
        let message = "`args`: an argument of a program cannot have a NUL in it";
        return Err(McpFault::new(
            "arguments.invalid",
            message,
            "give it in `stdin` or in `files`",
        ));
    }
    let stdin = given.take_text("stdin")?;
    let env = given.take_any("env");
    let ask = run_request_from(given)?;
    if stdin.is_some() && !matches!(ask.program, RunProgram::Shell { .. }) {
        let hint = "give it in `files` or in `args`, or run it as `shell` or `bash`";
        let message = "`stdin`: only shell programs read a standard input";
        return Err(McpFault::new("arguments.invalid", message, hint));
    }
    Ok(RunRequest {
        args,
        stdin: stdin.map(String::into_bytes),
        draft: with_env(ask.draft, env)?,
        ..ask
    })
}

/// Adds environment variables to the draft, because they are part of the policy.
fn with_env(draft: Option<Value>, env: Option<Value>) -> Result<Option<Value>, McpFault> {
    let Some(env) = env else { return Ok(draft) };
    let Value::Object(variables) = env else {
        return Err(wrong_argument("env", "an object of strings", &env));
    };
    let mut draft = draft.unwrap_or_else(|| Value::Object(JsonObject::new()));
    let Some(fields) = draft.as_object_mut() else {
        return Ok(Some(draft));
    };
    match fields.entry("env").or_insert_with(|| Value::Object(JsonObject::new())) {
        Value::Object(there) => there.extend(variables),
        // The policy reports the error.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
    }
    Ok(Some(draft))
}

fn run_request_from(mut given: CallArguments) -> Result<RunRequest, McpFault> {
    let code = given.take_required("code", "give the program as one string in `code`")?;
    let language = given.take_one_of("language", LANGUAGES)?.ok_or_else(|| {
        let hint = "say `typescript`, `javascript`, `python`, `shell` or `bash`";
        McpFault::new("arguments.missing", "`language` is missing", hint)
    })?;
    let program = match language {
        "shell" => RunProgram::Shell {
            file_name: "script.sh".to_owned(),
            source: code,
        },
        "bash" => RunProgram::bash("script", code),
        "python" => run_program(JobLanguage::Python, "main.py", code),
        "javascript" => run_program(JobLanguage::JavaScript, "main.js", code),
        _ => run_program(JobLanguage::TypeScript, "main.ts", code),
    };
    Ok(RunRequest {
        program,
        args: Vec::new(),
        stdin: None,
        files: given
            .take_any("files")
            .map(files::parse_files)
            .transpose()?
            .unwrap_or_default(),
        session: given.take_session()?,
        draft: parse_draft(given.take_any("sandbox_policy"))?,
        timeout: given.take_duration("timeout")?,
        trace: None,
    })
}

fn run_program(language: JobLanguage, file_name: &str, source: String) -> RunProgram {
    RunProgram::Code {
        language,
        file_name: file_name.to_owned(),
        source,
    }
}

/// Parses a draft, given as an object or as its JSON text.
fn parse_draft(given: Option<Value>) -> Result<Option<Value>, McpFault> {
    let value = match given {
        None => return Ok(None),
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(_) => Value::String(text),
        },
        Some(value) => value,
    };
    match &value {
        Value::Object(map) if map.is_empty() => Ok(None),
        Value::Object(_) => Ok(Some(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Err(wrong_argument(
            "sandbox_policy",
            "an object of the policy's shape",
            &value,
        )),
    }
}

impl From<OperationError> for McpFault {
    fn from(error: OperationError) -> McpFault {
        McpFault::from(&error)
    }
}

impl From<&OperationError> for McpFault {
    fn from(error: &OperationError) -> McpFault {
        McpFault {
            code: error.code().to_owned(),
            message: error.chain(),
            hint: error.hint().map(str::to_owned),
            rule: error.rule(),
        }
    }
}

impl From<WaitError> for McpFault {
    fn from(error: WaitError) -> McpFault {
        let (code, hint) = match &error {
            WaitError::Unknown(_) => (
                "execution.unknown",
                "use the `execution_id` that sandboxed_code_run returned",
            ),
            WaitError::Forgotten { .. } => ("execution.forgotten", "run the program again"),
            WaitError::Elsewhere(_) => ("execution.elsewhere", "ask the process that began it"),
            WaitError::NotResumable { .. } => ("execution.spoiled", "run the program again"),
            WaitError::Withheld(_) => ("data.blocked", "return what has no personal data in it"),
            WaitError::Journal(_) => (
                "store.read",
                "try again; if it stays so, the operator must look at the store",
            ),
        };
        McpFault::new(code, error.to_string(), hint)
    }
}
