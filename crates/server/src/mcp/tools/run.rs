//! `sandboxed_code_run` and `wait_run`: start a run, wait for it, and return its state.

use std::collections::HashSet;
use std::time::Duration;

use ringfence_engine::{JobLanguage, OperationError, RunProgram, RunRequest, WaitError};
use ringfence_journal::{ApprovalId, ExecutionId};
use ringfence_policy::AllowedPrograms;
use rmcp::model::{CallToolResponse, JsonObject, ToolAnnotations};
use serde_json::{Value, json};

use super::schema::{execution_schema, language_schema, nullable_schema, property_names};
use super::{BuiltinTool, ToolCall, ToolLoading};
use crate::mcp::arguments::{CallArguments, wrong_argument};
use crate::mcp::elicitation::{self, CallElicitation};
use crate::mcp::fault::McpFault;
use crate::mcp::wait::{self, OnDisconnect, WaitOptions, WaitOutcome};
use crate::mcp::{call_result, client_trace, files, task};

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

/// The possible statuses of a run.
const STATUSES: [&str; 9] = [
    "running",
    "completed",
    "failed",
    "timed_out",
    "killed",
    "cancelled",
    "refused",
    "waiting_approval",
    "lost",
];

pub(super) static RUN: BuiltinTool = BuiltinTool {
    name: "sandboxed_code_run",
    alias: Some("sandboxed_code.run"),
    title: "Run code in a sandbox",
    description: |programs| {
        let shell = match programs {
            AllowedPrograms::All => "; also instead of a shell (language shell)",
            AllowedPrograms::None => "",
        };
        format!(
            "Run a program in a fresh sandbox{shell}. Do many tool calls, loops and filters in one \
             program: only its result comes back.\n{RUN_MORE}"
        )
        .into()
    },
    input: |programs| {
        json!({
            "type": "object",
            "properties": {
                "code": { "type": "string" },
                "language": language_schema(programs),
                "session_id": { "type": "string", "description": "keep /workspace between runs: an id from a result, or any name" },
                "files": { "type": "object", "description": "{name: text} or {name: {base64}}, put into /workspace" },
                "timeout": { "type": "string", "description": "e.g. 30s, waiting included" },
                "sandbox_policy": {
                    "type": "object",
                    "description": "other limits for this run, e.g. {\"proc\":{\"mem_limit\":\"256MiB\"}}; never above the operator's",
                },
            },
            "required": ["code", "language"],
        })
    },
    output: || {
        let mut output = execution_schema();
        output["properties"]["status"]["enum"] = json!(STATUSES);
        output["properties"]["error"]["anyOf"][0]["properties"] = json!({
            "code": { "type": "string" },
            "message": { "type": "string" },
            "hint": nullable_schema("string"),
            "rule": nullable_schema("string"),
        });
        output
    },
    annotations: || {
        ToolAnnotations::new()
            .read_only(false)
            .destructive(true)
            .idempotent(false)
            .open_world(true)
    },
    loading: ToolLoading::Eager,
    answer: |call| Box::pin(call_run(call)),
};

/// The part of the description of runs that does not depend on the allowed programs.
const RUN_MORE: &str = "\
TypeScript: `const all = await tools.github.list_issues({owner: \"o\", repo: \"r\"}); all.filter(i => i.open).length` \
(the last expression is the value; console.log prints).\n\
Python: `from tools import github`, `await github.list_issues(owner=\"o\", repo=\"r\")`; last expression is the value.\n\
No network, no packages, only /workspace and /tmp are writable, unless the policy says more. \
`emit(\"plot.png\")` sends a file out. Returns status, value, stdout, stderr, error, calls, files. \
status running: call wait_run. waiting_approval: a person decides; call wait_run later, do not run again. failed: fix what error.hint says. refused: the policy forbids it, change the plan.";

pub(super) static WAIT: BuiltinTool = BuiltinTool {
    name: "wait_run",
    alias: None,
    title: "Wait for a run",
    description: |_| "Wait for a run that still goes on: its new output, and its result once it ends.".into(),
    input: |_| {
        json!({
            "type": "object",
            "properties": {
                "execution_id": { "type": "string" },
                "wait": { "type": "string", "description": "at most 45s" },
                "cancel": { "type": "boolean", "description": "kill it" },
            },
            "required": ["execution_id"],
        })
    },
    output: execution_schema,
    annotations: || {
        ToolAnnotations::new()
            .read_only(false)
            .destructive(true)
            .idempotent(true)
            .open_world(false)
    },
    loading: ToolLoading::Deferrable,
    answer: |call| Box::pin(call_wait(call)),
};

/// Handles a call of `sandboxed_code_run`.
async fn call_run(mut call: ToolCall<'_>) -> Result<CallToolResponse, McpFault> {
    if let Some(answer) = resume_repeated_call(&call).await {
        return answer;
    }
    let mut ask = run_request_from(RUN.parse_arguments(call.request.arguments.take())?)?;
    ask.trace = Some(client_trace::client_trace(call.context));
    let id = call.handler.shared.engine.runs().begin(call.who, ask).await?;
    call.handler.add_started(id);
    follow_run(&call, id, HashSet::new()).await
}

/// Handles a repeated call with the person's answers. It resumes waiting for its run, and starts none.
async fn resume_repeated_call(call: &ToolCall<'_>) -> Option<Result<CallToolResponse, McpFault>> {
    let repeated = match elicitation::parse_repeated_call(call.request.request_state.as_deref()) {
        Ok(repeated) => repeated?,
        Err(fault) => return Some(Err(fault)),
    };
    let (engine, answers) = (&call.handler.shared.engine, call.request.input_responses.as_ref());
    if let Some(answers) = answers
        && let Err(fault) = elicitation::accept_answers(engine, call.who, repeated.execution, answers).await
    {
        return Some(Err(fault));
    }
    Some(follow_run(call, repeated.execution, repeated.asked).await)
}

/// Waits for an execution that this call started. The response is its result, a task, or its state so far.
async fn follow_run(
    call: &ToolCall<'_>,
    id: ExecutionId,
    asked: HashSet<ApprovalId>,
) -> Result<CallToolResponse, McpFault> {
    let offers_tasks = call
        .context
        .client_capabilities()
        .is_some_and(|client| client.supports_tasks());
    let stay = WaitOptions {
        timeout: if offers_tasks { TASK_AFTER } else { WAIT_TIMEOUT },
        on_disconnect: call.handler.on_disconnect(id),
        known_questions: None,
        is_single_call: false,
        elicitation: CallElicitation::new(call.context, asked),
    };
    match wait::wait_for_execution(call.handler, call.who, id, stay, call.context).await? {
        // The client of a task sees the pending questions when it polls the task.
        WaitOutcome::StillRunning(_) | WaitOutcome::NeedsInput(_) if offers_tasks => Ok(task::created_task(id).into()),
        seen @ (WaitOutcome::StillRunning(_) | WaitOutcome::Ended(_) | WaitOutcome::NeedsInput(_)) => {
            outcome_response(call, seen).await
        }
    }
}

async fn outcome_response(call: &ToolCall<'_>, seen: WaitOutcome) -> Result<CallToolResponse, McpFault> {
    match seen {
        WaitOutcome::Ended(execution) => {
            let result = call_result::ended_result(&call.handler.shared.engine, call.who, &execution).await?;
            Ok(result.into())
        }
        WaitOutcome::StillRunning(running) => Ok(call_result::running_result(running).into()),
        WaitOutcome::NeedsInput(question) => Ok(CallToolResponse::InputRequired(*question)),
    }
}

/// Waits for a running execution, or cancels it.
async fn call_wait(mut call: ToolCall<'_>) -> Result<CallToolResponse, McpFault> {
    if let Some(answer) = resume_repeated_call(&call).await {
        return answer;
    }
    let (engine, who) = (&call.handler.shared.engine, call.who);
    let mut given = WAIT.parse_arguments(call.request.arguments.take())?;
    let text = given.take_required("execution_id", "give the `execution_id` of a run that goes on")?;
    let id: ExecutionId = text.parse().map_err(|error| {
        let hint = "use the `execution_id` that sandboxed_code_run returned";
        McpFault::new("arguments.invalid", format!("`execution_id`: {error}"), hint)
    })?;
    let at_most = given.take_duration("wait")?.unwrap_or(WAIT_TIMEOUT).min(WAIT_TIMEOUT);
    if given.take_flag("cancel")? {
        engine.runs().cancel(who, id).await?;
    }
    let stay = WaitOptions {
        timeout: at_most,
        on_disconnect: OnDisconnect::Detach,
        known_questions: Some(engine.runs().pending_approval_ids(who, id).await?),
        is_single_call: false,
        elicitation: CallElicitation::new(call.context, HashSet::new()),
    };
    let seen = wait::wait_for_execution(call.handler, who, id, stay, call.context).await?;
    outcome_response(&call, seen).await
}

/// The schema of an API request, which also has the inputs of a stored program: the API's clients are programs.
pub(crate) fn api_run_schema() -> Value {
    let mut schema = RUN.input_schema();
    let text = json!({ "type": "string" });
    schema["properties"]["args"] =
        json!({ "type": "array", "items": text, "description": "what the program finds as arguments" });
    schema["properties"]["stdin"] =
        json!({ "type": "string", "description": "what it reads from its standard input; for `shell` and `bash`" });
    schema["properties"]["env"] = json!({
        "type": "object", "additionalProperties": text, "description": "variables, as `env` of `sandbox_policy` has them",
    });
    schema
}

/// Parses the body of an API request.
pub(crate) fn parse_api_run_request(given: JsonObject) -> Result<RunRequest, McpFault> {
    let mut given = CallArguments::new(Some(given), property_names(&api_run_schema()))?;
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
