//! `session replay`: runs past executions again, offline, and reports the differences.

use std::process::ExitCode;

use ringfence_engine::{Engine, Reader, ReplayError, Replayed, ReplayedCall};
use ringfence_journal::{ExecutionId, SessionId};
use ringfence_policy::Policy;
use ringfence_store::{Executions, IdKind};

use crate::args::Replay;
use crate::commands::{ids, no_session, run};
use crate::fault::{Fault, NOT_HELD, chain};
use crate::print::{Printer, Style, count, escape};
use crate::settings::config::Config;
use crate::settings::servers::Chosen;
use crate::settings::{Settings, rules};

/// The session or execution that the id on the command line means.
enum Meant {
    Session(SessionId),
    Execution(ExecutionId),
}

pub(crate) async fn replay(args: &Replay, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let against = match &args.against {
        Some(path) => {
            let policy = rules::named(path).and_then(|draft| rules::alone(&draft));
            Some(policy.map_err(|fault| fault.exit(NOT_HELD))?)
        }
        None => None,
    };
    settings.journal_home().map_err(|fault| fault.exit(NOT_HELD))?;
    let interrupt = run::listen()?;
    // A replay calls nothing, so no tool server is configured or started.
    let engine = run::open(&Config::default(), Chosen::default(), settings, &interrupt).await?;
    let reader = if args.json { Reader::Printed } else { Reader::Owner };
    let replayed = tokio::select! {
        replayed = all(&engine, &args.id, against.as_ref(), reader) => replayed,
        () = interrupt.requested() => {
            engine.cancel_all();
            Err(run::cancelled())
        }
    };
    run::leave(engine).await;
    let replayed = replayed?;
    if args.json {
        printer.json(&replayed)?;
    } else {
        for one in &replayed {
            match one {
                Tried::Replayed(one) => printer.data(&words(one, printer))?,
                Tried::Not { execution_id, error } => printer.data(&not(*execution_id, error, printer))?,
            }
        }
    }
    Ok(if replayed.iter().all(Tried::is_as_it_was) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_HELD)
    })
}

fn meant(text: &str) -> Result<Meant, Fault> {
    if let Ok(id) = text.parse() {
        return Ok(Meant::Session(id));
    }
    text.parse().map(Meant::Execution).map_err(|_| {
        Fault::ours("session.id", format!("`{text}` is no id of a session or an execution"))
            .hint("`ringfence session list` and `session show ID` show them")
            .exit(NOT_HELD)
    })
}

/// The outcome of one execution in a replay.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Tried {
    Replayed(Box<Replayed>),
    /// The execution cannot be run again.
    Not {
        execution_id: ExecutionId,
        error: Reason,
    },
}

/// The reason why an execution cannot be run again.
#[derive(serde::Serialize)]
struct Reason {
    code: &'static str,
    message: String,
    hint: Option<&'static str>,
    /// Whether the execution has no recording, which is normal for everything but code.
    #[serde(skip)]
    is_unkept: bool,
}

impl Tried {
    fn is_as_it_was(&self) -> bool {
        match self {
            Tried::Replayed(one) => one.same,
            Tried::Not { error, .. } => error.is_unkept,
        }
    }
}

/// Replays one execution, or all of a session; a failure does not stop the replay of the others.
async fn all(engine: &Engine, id: &str, against: Option<&Policy>, reader: Reader) -> Result<Vec<Tried>, Fault> {
    let id = ids::whole(engine.store(), id, &[IdKind::Session, IdKind::Execution]).await?;
    let meant = &meant(&id)?;
    let session = match meant {
        Meant::Execution(id) => {
            let replayed = engine.replay(*id, against, reader).await?;
            return Ok(vec![Tried::Replayed(Box::new(replayed))]);
        }
        Meant::Session(session) => *session,
    };
    let store = engine.store();
    if store.session(session).await?.is_none() {
        return Err(no_session(session));
    }
    let which = Executions {
        session: Some(session),
        ..Executions::default()
    };
    let mut executions = store.executions_of(which).await?;
    executions.reverse();
    let mut tried = Vec::new();
    let mut unkept = None;
    for execution in executions {
        let error = match engine.replay(execution.id, against, reader).await {
            Ok(one) => {
                tried.push(Tried::Replayed(Box::new(one)));
                continue;
            }
            Err(error) => error,
        };
        tried.push(Tried::Not {
            execution_id: execution.id,
            error: Reason {
                code: error.code(),
                message: chain(&error),
                hint: error.hint(),
                is_unkept: matches!(error, ReplayError::Unkept(_)),
            },
        });
        if matches!(error, ReplayError::Unkept(_)) {
            unkept = Some(error);
        }
    }
    let is_unkept = |one: &Tried| matches!(one, Tried::Not { error, .. } if error.is_unkept);
    match unkept {
        Some(error) if tried.iter().all(is_unkept) => Err(error.into()),
        _ => Ok(tried),
    }
}

fn not(id: ExecutionId, error: &Reason, printer: &Printer) -> String {
    let word = printer.paint("not run again", Style::Warn);
    let mut lines = vec![format!("{id}  {word}  ({})", escape::text(&error.message))];
    lines.extend(error.hint.map(|hint| format!("  hint: {hint}")));
    lines.push(String::new());
    lines.join("\n")
}

fn words(one: &Replayed, printer: &Printer) -> String {
    let result = if one.same {
        printer.paint("same", Style::Good)
    } else {
        printer.paint("differs", Style::Bad)
    };
    let calls = count(one.calls.len() as u64, "call");
    let mut lines = vec![format!("{}  {result}  ({calls}, nothing was called)", one.execution_id)];
    for difference in &one.differences {
        let text = |side: &Option<String>| side.as_deref().map_or_else(|| "nothing".to_owned(), escape::text);
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
    lines.extend(one.calls.iter().filter_map(|call| decided(call, printer)));
    lines.push(String::new());
    lines.join("\n")
}

/// The line with the decision of another policy on a call; `None` without `--against`.
fn decided(call: &ReplayedCall, printer: &Printer) -> Option<String> {
    let decided = call.against.as_ref()?;
    let then = call.outcome.unwrap_or("no answer");
    let tool = escape::text(&call.tool);
    if let Some(argument) = &decided.depends_on {
        let (word, argument) = (printer.paint("?    ", Style::Warn), escape::text(argument));
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

impl From<ReplayError> for Fault {
    fn from(error: ReplayError) -> Fault {
        let fault = match error {
            ReplayError::Run(error) => return error.into(),
            ReplayError::Unkept(_) | ReplayError::Unfinished(_) | ReplayError::Spoiled { .. } => {
                Fault::ours(error.code(), error.to_string()).exit(NOT_HELD)
            }
        };
        match error.hint() {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    }
}
