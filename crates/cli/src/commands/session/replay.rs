//! `session replay`: runs past executions again, offline, and reports the differences.

use std::process::ExitCode;

use ringfence_engine::{Engine, ReplayError, ReplayReport, ReplayedCall, ResultAudience};
use ringfence_journal::{ExecutionId, SessionId};
use ringfence_policy::Policy;
use ringfence_store::{ExecutionQuery, IdKind};

use crate::args::SessionReplayArgs;
use crate::commands::{ids, run, session_not_found};
use crate::fault::{CliFault, EXIT_CHECK_FAILED, error_chain};
use crate::print::{Printer, Style, counted, escape};
use crate::settings::config::Config;
use crate::settings::servers::ResolvedServers;
use crate::settings::{CliSettings, policy_layers};

/// The session or execution that the id on the command line means.
enum ReplayTarget {
    Session(SessionId),
    Execution(ExecutionId),
}

pub(crate) async fn replay_session(
    args: &SessionReplayArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let against = match &args.against {
        Some(path) => {
            let policy =
                policy_layers::named_draft(path).and_then(|draft| policy_layers::policy_without_ceiling(&draft));
            Some(policy.map_err(|fault| fault.with_exit(EXIT_CHECK_FAILED))?)
        }
        None => None,
    };
    settings
        .journal_home()
        .map_err(|fault| fault.with_exit(EXIT_CHECK_FAILED))?;
    let interrupt = run::listen_for_signals()?;
    // A replay calls nothing, so no tool server is configured or started.
    let engine = run::open_engine(&Config::default(), ResolvedServers::default(), settings, &interrupt).await?;
    let reader = if args.json {
        ResultAudience::CommandModel
    } else {
        ResultAudience::Owner
    };
    let replayed = tokio::select! {
        replayed = replay_all(&engine, &args.id, against.as_ref(), reader) => replayed,
        () = interrupt.requested() => {
            engine.cancel_all();
            Err(run::cancelled_fault())
        }
    };
    run::shutdown_engine(engine).await;
    let replayed = replayed?;
    if args.json {
        printer.print_json(&replayed)?;
    } else {
        for one in &replayed {
            match one {
                ReplayAttempt::Replayed(one) => printer.print_escaped(&replay_text(one, printer))?,
                ReplayAttempt::Not { execution_id, error } => {
                    printer.print_escaped(&failure_text(*execution_id, error, printer))?;
                }
            }
        }
    }
    Ok(if replayed.iter().all(ReplayAttempt::is_unchanged) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_CHECK_FAILED)
    })
}

fn parse_target(text: &str) -> Result<ReplayTarget, CliFault> {
    if let Ok(id) = text.parse() {
        return Ok(ReplayTarget::Session(id));
    }
    text.parse().map(ReplayTarget::Execution).map_err(|_| {
        CliFault::internal("session.id", format!("`{text}` is no id of a session or an execution"))
            .with_hint("`ringfence session list` and `session show ID` show them")
            .with_exit(EXIT_CHECK_FAILED)
    })
}

/// The outcome of one execution in a replay.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum ReplayAttempt {
    Replayed(Box<ReplayReport>),
    /// The execution cannot be run again.
    Not {
        execution_id: ExecutionId,
        error: ReplayFailure,
    },
}

/// The reason why an execution cannot be run again.
#[derive(serde::Serialize)]
struct ReplayFailure {
    code: &'static str,
    message: String,
    hint: Option<&'static str>,
    /// Whether the execution has no recording, which is normal for everything but code.
    #[serde(skip)]
    is_unkept: bool,
}

impl ReplayAttempt {
    fn is_unchanged(&self) -> bool {
        match self {
            ReplayAttempt::Replayed(one) => one.same,
            ReplayAttempt::Not { error, .. } => error.is_unkept,
        }
    }
}

/// Replays one execution, or all of a session; a failure does not stop the replay of the others.
async fn replay_all(
    engine: &Engine,
    id: &str,
    against: Option<&Policy>,
    reader: ResultAudience,
) -> Result<Vec<ReplayAttempt>, CliFault> {
    let id = ids::resolve_id(engine.store(), id, &[IdKind::Session, IdKind::Execution]).await?;
    let meant = &parse_target(&id)?;
    let session = match meant {
        ReplayTarget::Execution(id) => {
            let replayed = engine.replay(*id, against, reader).await?;
            return Ok(vec![ReplayAttempt::Replayed(Box::new(replayed))]);
        }
        ReplayTarget::Session(session) => *session,
    };
    let store = engine.store();
    if store.session(session).await?.is_none() {
        return Err(session_not_found(session));
    }
    let which = ExecutionQuery {
        session: Some(session),
        ..ExecutionQuery::default()
    };
    let mut executions = store.list_executions(which).await?;
    executions.reverse();
    let mut tried = Vec::new();
    let mut unkept = None;
    for execution in executions {
        let error = match engine.replay(execution.id, against, reader).await {
            Ok(one) => {
                tried.push(ReplayAttempt::Replayed(Box::new(one)));
                continue;
            }
            Err(error) => error,
        };
        tried.push(ReplayAttempt::Not {
            execution_id: execution.id,
            error: ReplayFailure {
                code: error.code(),
                message: error_chain(&error),
                hint: error.hint(),
                is_unkept: matches!(error, ReplayError::NotRecorded(_)),
            },
        });
        if matches!(error, ReplayError::NotRecorded(_)) {
            unkept = Some(error);
        }
    }
    let is_unkept = |one: &ReplayAttempt| matches!(one, ReplayAttempt::Not { error, .. } if error.is_unkept);
    match unkept {
        Some(error) if tried.iter().all(is_unkept) => Err(error.into()),
        _ => Ok(tried),
    }
}

fn failure_text(id: ExecutionId, error: &ReplayFailure, printer: &Printer) -> String {
    let word = printer.paint("not run again", Style::Warn);
    let mut lines = vec![format!("{id}  {word}  ({})", escape::escape_text(&error.message))];
    lines.extend(error.hint.map(|hint| format!("  hint: {hint}")));
    lines.push(String::new());
    lines.join("\n")
}

fn replay_text(one: &ReplayReport, printer: &Printer) -> String {
    let result = if one.same {
        printer.paint("same", Style::Good)
    } else {
        printer.paint("differs", Style::Bad)
    };
    let calls = counted(one.calls.len() as u64, "call");
    let mut lines = vec![format!("{}  {result}  ({calls}, nothing was called)", one.execution_id)];
    for difference in &one.differences {
        let text = |side: &Option<String>| {
            side.as_deref()
                .map_or_else(|| "nothing".to_owned(), escape::escape_text)
        };
        lines.push(match (&difference.before, difference.what) {
            (None, "call") => format!("  {}", text(&difference.now)),
            _ => format!(
                "  {}: {} before, {} now",
                difference.what,
                text(&difference.before),
                text(&difference.now)
            ),
        });
    }
    lines.extend(one.calls.iter().filter_map(|call| decision_text(call, printer)));
    lines.push(String::new());
    lines.join("\n")
}

/// The line with the decision of another policy on a call; `None` without `--against`.
fn decision_text(call: &ReplayedCall, printer: &Printer) -> Option<String> {
    let decided = call.against.as_ref()?;
    let then = call.outcome.unwrap_or("no answer");
    let tool = escape::escape_text(&call.tool);
    if let Some(argument) = &decided.depends_on {
        let (word, argument) = (printer.paint("?    ", Style::Warn), escape::escape_text(argument));
        let rule = &decided.rule;
        return Some(format!(
            "  call {}  {word}  {tool} by `{rule}`: depends on a value that is hidden (`{argument}`) (then: {then})",
            call.number
        ));
    }
    let word = format!("{:<5}", decided.verdict?.to_string());
    let word = if decided.differs == Some(true) {
        printer.paint(&word, Style::Warn)
    } else {
        word
    };
    Some(format!(
        "  call {}  {word}  {tool} by `{}` (then: {then})",
        call.number, decided.rule
    ))
}

impl From<ReplayError> for CliFault {
    fn from(error: ReplayError) -> CliFault {
        let fault = match error {
            ReplayError::Run(error) => return error.into(),
            ReplayError::NotRecorded(_) | ReplayError::Unfinished(_) | ReplayError::NotRepeatable { .. } => {
                CliFault::internal(error.code(), error.to_string()).with_exit(EXIT_CHECK_FAILED)
            }
        };
        match error.hint() {
            Some(hint) => fault.with_hint(hint),
            None => fault,
        }
    }
}
