//! `sandboxed_code_run` and `wait_run`: start a run, wait for it, and return its state.

use std::collections::HashSet;
use std::time::Duration;

use ringfence_engine::{Ask, Language, Program, RunError, WaitError};
use ringfence_journal::{ApprovalId, ExecutionId, Principal};
use rmcp::model::{CallToolRequestParams, CallToolResponse, JsonObject};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use super::arguments::{Arguments, wrong};
use super::face::Face;
use super::fault::Fault;
use super::form::{self, Forms};
use super::watch::{self, Leave, Seen, Stay};
use super::{answer, files, task, tools, trace};

/// How long a call waits for its run: clients time out after about a minute.
const STAY: Duration = Duration::from_secs(45);
/// How long a call waits before a client that offers tasks gets one instead of a result.
const SOON: Duration = Duration::from_secs(1);

pub(super) const LANGUAGES: &[(&str, &[&str])] = &[
    ("typescript", &["ts", "tsx"]),
    ("javascript", &["js", "node", "nodejs", "mjs"]),
    ("python", &["py", "python3"]),
    ("shell", &["sh"]),
    ("bash", &[]),
];

/// Handles a call of `sandboxed_code_run`.
pub(super) async fn run(
    face: &Face,
    who: Principal,
    given: Option<JsonObject>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, Fault> {
    let mut ask = ask(given)?;
    ask.trace = Some(trace::of(context));
    let id = face.shared.engine.begin(who, ask).await?;
    face.begun(id);
    follow(face, who, id, HashSet::new(), context).await
}

/// Handles a repeated call with the person's answers. It resumes waiting for its run, and starts none.
pub(super) async fn again(
    face: &Face,
    who: Principal,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, Fault>> {
    let repeated = match form::repeated(request.request_state.as_deref()) {
        Ok(repeated) => repeated?,
        Err(fault) => return Some(Err(fault)),
    };
    let answers = request.input_responses.as_ref();
    if let Some(answers) = answers
        && let Err(fault) = form::take(&face.shared.engine, who, repeated.execution, answers).await
    {
        return Some(Err(fault));
    }
    Some(follow(face, who, repeated.execution, repeated.asked, context).await)
}

/// Waits for an execution that this call started. The response is its result, a task, or its state so far.
async fn follow(
    face: &Face,
    who: Principal,
    id: ExecutionId,
    asked: HashSet<ApprovalId>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, Fault> {
    let offers_tasks = context
        .client_capabilities()
        .is_some_and(|client| client.supports_tasks());
    let stay = Stay {
        at_most: if offers_tasks { SOON } else { STAY },
        leave: face.leave(id),
        known: None,
        is_one_call: false,
        forms: Forms::new(context, asked),
    };
    match watch::watch(face, who, id, stay, context).await? {
        // The client of a task sees the pending questions when it polls the task.
        Seen::GoesOn(_) | Seen::Asks(_) if offers_tasks => Ok(task::begun(id).into()),
        seen @ (Seen::GoesOn(_) | Seen::Ended(_) | Seen::Asks(_)) => shown(face, who, seen).await,
    }
}

async fn shown(face: &Face, who: Principal, seen: Seen) -> Result<CallToolResponse, Fault> {
    match seen {
        Seen::Ended(execution) => Ok(answer::ended(&face.shared.engine, who, &execution).await?.into()),
        Seen::GoesOn(running) => Ok(answer::goes_on(running).into()),
        Seen::Asks(question) => Ok(CallToolResponse::InputRequired(*question)),
    }
}

/// Waits for a running execution, or cancels it.
pub(super) async fn wait(
    face: &Face,
    who: Principal,
    given: Option<JsonObject>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, Fault> {
    let mut given = Arguments::new(given, tools::WAIT_TAKES)?;
    let text = given.needed("execution_id", "give the `execution_id` of a run that goes on")?;
    let id: ExecutionId = text.parse().map_err(|error| {
        let hint = "use the `execution_id` that sandboxed_code_run returned";
        Fault::new("arguments.invalid", format!("`execution_id`: {error}"), hint)
    })?;
    let at_most = given.duration("wait")?.unwrap_or(STAY).min(STAY);
    if given.flag("cancel")? {
        face.shared.engine.cancel(who, id).await?;
    }
    let stay = Stay {
        at_most,
        leave: Leave::Alone,
        known: Some(face.shared.engine.waits_for(who, id).await?),
        is_one_call: false,
        forms: Forms::new(context, HashSet::new()),
    };
    shown(face, who, watch::watch(face, who, id, stay, context).await?).await
}

/// Parses the arguments of a call.
fn ask(given: Option<JsonObject>) -> Result<Ask, Fault> {
    ask_from(Arguments::new(given, tools::RUN_TAKES)?)
}

/// Parses the body of an API request, which also accepts the inputs of a stored program.
pub(crate) fn api_ask(given: JsonObject) -> Result<Ask, Fault> {
    let mut given = Arguments::new(Some(given), tools::API_RUN_TAKES)?;
    let args = given.texts("args")?.unwrap_or_default();
    if args.iter().any(|arg| arg.contains('\0')) {
        let message = "`args`: an argument of a program cannot have a NUL in it";
        return Err(Fault::new(
            "arguments.invalid",
            message,
            "give it in `stdin` or in `files`",
        ));
    }
    let stdin = given.text("stdin")?;
    let env = given.any("env");
    let ask = ask_from(given)?;
    if stdin.is_some() && !matches!(ask.program, Program::Shell { .. }) {
        let hint = "give it in `files` or in `args`, or run it as `shell` or `bash`";
        let message = "`stdin`: only shell programs read a standard input";
        return Err(Fault::new("arguments.invalid", message, hint));
    }
    Ok(Ask {
        args,
        stdin: stdin.map(String::into_bytes),
        draft: with_env(ask.draft, env)?,
        ..ask
    })
}

/// Adds environment variables to the draft, because they are part of the policy.
fn with_env(draft: Option<Value>, env: Option<Value>) -> Result<Option<Value>, Fault> {
    let Some(env) = env else { return Ok(draft) };
    let Value::Object(variables) = env else {
        return Err(wrong("env", "an object of strings", &env));
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

fn ask_from(mut given: Arguments) -> Result<Ask, Fault> {
    let code = given.needed("code", "give the program as one string in `code`")?;
    let language = given.one_of("language", LANGUAGES)?.ok_or_else(|| {
        let hint = "say `typescript`, `javascript`, `python`, `shell` or `bash`";
        Fault::new("arguments.missing", "`language` is missing", hint)
    })?;
    let program = match language {
        "shell" => Program::Shell {
            file_name: "script.sh".to_owned(),
            source: code,
        },
        "bash" => Program::bash("script", code),
        "python" => program(Language::Python, "main.py", code),
        "javascript" => program(Language::JavaScript, "main.js", code),
        _ => program(Language::TypeScript, "main.ts", code),
    };
    Ok(Ask {
        program,
        args: Vec::new(),
        stdin: None,
        files: given.any("files").map(files::read).transpose()?.unwrap_or_default(),
        session: given.session()?,
        draft: draft(given.any("sandbox_policy"))?,
        timeout: given.duration("timeout")?,
        trace: None,
    })
}

fn program(language: Language, file_name: &str, source: String) -> Program {
    Program::Code {
        language,
        file_name: file_name.to_owned(),
        source,
    }
}

/// Parses a draft, given as an object or as its JSON text.
fn draft(given: Option<Value>) -> Result<Option<Value>, Fault> {
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
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(wrong("sandbox_policy", "an object of the policy's shape", &value))
        }
    }
}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Fault {
        Fault::from(&error)
    }
}

impl From<&RunError> for Fault {
    fn from(error: &RunError) -> Fault {
        Fault {
            code: error.code().to_owned(),
            message: error.chain(),
            hint: error.hint().map(str::to_owned),
            rule: None,
        }
    }
}

impl From<WaitError> for Fault {
    fn from(error: WaitError) -> Fault {
        let (code, hint) = match &error {
            WaitError::Unknown(_) => (
                "execution.unknown",
                "use the `execution_id` that sandboxed_code_run returned",
            ),
            WaitError::Forgotten { .. } => ("execution.forgotten", "run the program again"),
            WaitError::Elsewhere(_) => ("execution.elsewhere", "ask the process that began it"),
            WaitError::Spoiled { .. } => ("execution.spoiled", "run the program again"),
            WaitError::HeldBack(_) => ("data.blocked", "return what has no personal data in it"),
            WaitError::Unread(_) => (
                "store.read",
                "try again; if it stays so, the operator must look at the store",
            ),
        };
        Fault::new(code, error.to_string(), hint)
    }
}
