//! `ringfence approvals`: lists pending approval requests and answers them. An answer needs no server: the process that
//! owns the execution learns of it from the store.

use std::process::ExitCode;

use ringfence_engine::approvals::{self, AnswerError, ApprovalState, Approvals, Settled, Shown};
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia, AskReason, Hash};
use ringfence_store::{IdKind, Store};
use serde_json::json;

use super::{ids, run, store};
use crate::args::{ApprovalsCommand, ApprovalsList, ApprovalsShow, Approve, Deny, For, Say};
use crate::fault::{Fault, NOT_HELD};
use crate::print::{Printer, Style, escape, moment, span};
use crate::settings::Settings;

mod always;

/// Runs the subcommand of `approvals`.
pub(crate) async fn start(
    command: ApprovalsCommand,
    settings: &Settings,
    printer: &Printer,
) -> Result<ExitCode, Fault> {
    match command {
        ApprovalsCommand::List(list) => self::list(&list, settings, printer).await,
        ApprovalsCommand::Show(shown) => show(&shown, settings, printer).await,
        ApprovalsCommand::Approve(approve) => self::approve(approve, settings, printer).await,
        ApprovalsCommand::Deny(deny) => self::deny(deny, settings, printer).await,
    }
}

async fn list(list: &ApprovalsList, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let found = match store(settings).await {
        Err(fault) if fault.code == "store.none" => Vec::new(),
        Err(fault) => return Err(fault),
        Ok(store) => {
            let session = match list.session.as_deref() {
                Some(text) => Some(ids::session(&store, text).await?),
                None => None,
            };
            let which = Approvals {
                session,
                state: (!list.all).then_some(ApprovalState::Pending),
                limit: Some(list.limit),
                ..Approvals::default()
            };
            let found = approvals::list(&store, which).await;
            store.leave().await;
            found?
        }
    };
    if list.json {
        printer.json(&found)?;
    } else if found.is_empty() {
        printer.notice(if list.all {
            "nobody was ever asked"
        } else {
            "nothing waits for a person"
        });
    } else {
        printer.line(&format!(
            "{:<28}  {:<14}  {:>7}  {:<28}  {:<28}  PROGRAM",
            "ID", "STATE", "AGE", "TOOL", "SESSION"
        ))?;
        for one in &found {
            printer.line(&row(one, printer))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(one: &Shown, printer: &Printer) -> String {
    let (state, style) = match one.state {
        ApprovalState::Pending => (left(one), Style::Warn),
        ApprovalState::Approved => ("approved".to_owned(), Style::Good),
        ApprovalState::Denied => ("denied".to_owned(), Style::Bad),
        ApprovalState::Expired => ("expired".to_owned(), Style::Faint),
        ApprovalState::Withdrawn => ("withdrawn".to_owned(), Style::Faint),
    };
    let state = printer.paint(&format!("{state:<14}"), style);
    format!(
        "{}  {state}  {:>7}  {:<28}  {}  {}",
        one.id,
        span(one.asked),
        line(&one.tool),
        one.session_id,
        program(one)
    )
}

/// The label of the requesting program: its name, which anybody can choose, and the first 8 digits of its code's digest.
fn program(one: &Shown) -> String {
    let code = one.code.as_ref().and_then(|code| code.get(..8));
    let code = code.map_or_else(String::new, |code| format!(" {code}"));
    format!("{}{code}", line(&one.program))
}

/// The time until the request expires, as text for a list.
fn left(one: &Shown) -> String {
    format!("{} left", span(one.expires))
}

/// Escapes text of other parties and puts it on one line.
fn line(text: &str) -> String {
    escape::text(text).replace(['\n', '\r', '\t'], " ")
}

async fn show(args: &ApprovalsShow, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let store = store(settings).await?;
    let id = approval_id(&store, &args.id).await?;
    let found = approvals::look(&store, id).await;
    store.leave().await;
    let found = found?.ok_or_else(|| Fault::from(AnswerError::Unknown(id)))?;
    if args.json {
        printer.json(&found)?;
    } else {
        printer.data(&words(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn words(one: &Shown) -> String {
    let arguments = serde_json::to_string_pretty(&one.arguments).unwrap_or_else(|_| one.arguments.to_string());
    let arguments = escape::json(&arguments).replace('\n', "\n  ");
    let mut lines = vec![
        format!("question   {}", one.id),
        format!("state      {}", standing(one)),
        format!("tool       {}", line(&one.tool)),
        format!("arguments\n  {arguments}"),
        format!("rule       {} ({})", line(&one.rule), reason(one.why)),
        format!("program    {}, call {}", line(&one.program), one.number),
        format!("session    {} of {}", one.session_id, one.principal),
        format!("execution  {}", one.execution_id),
        format!("asked      {}", moment(one.asked)),
        format!("expires    {}: no answer means no", moment(one.expires)),
        format!("shown      {}", one.shown),
    ];
    if let Some(code) = &one.code {
        lines.push(format!("code       {code}"));
    }
    if let Some(source) = &one.source {
        let text = escape::text(&source.text);
        lines.extend(text.lines().map(|line| format!("  | {line}")));
        lines.extend(source.is_cut.then(|| "  (cut: there is more of it)".to_owned()));
    }
    if let Some(note) = one.answer.as_ref().and_then(|said| said.note.as_ref()) {
        lines.push(format!("note       {}", line(note)));
    }
    if one.state == ApprovalState::Pending {
        let digest = one.shown.get(..DIGITS).unwrap_or(&one.shown);
        lines.push(String::new());
        lines.push(format!("ringfence approvals approve {} --shown {digest}", one.id));
        lines.push(format!("ringfence approvals deny {} --shown {digest}", one.id));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// How many hex digits of a digest identify what was shown.
const DIGITS: usize = 16;

fn standing(one: &Shown) -> String {
    match &one.answer {
        Some(said) => format!(
            "{}{} by {} ({}) at {}",
            one.state.name(),
            if said.approve {
                format!(" ({})", said.scope.name())
            } else {
                String::new()
            },
            said.by,
            via(said.via),
            said.at
        ),
        None if one.state == ApprovalState::Pending => format!("pending, {}", left(one)),
        None => one.state.name().to_owned(),
    }
}

fn reason(why: AskReason) -> &'static str {
    match why {
        AskReason::Rule => "a person must approve",
        AskReason::Drift => "the tool is not what it was when it was pinned",
        AskReason::Unknown => {
            "it was under way when its process died: nobody knows whether it was done; a yes makes it again"
        }
    }
}

fn via(via: ApprovalVia) -> &'static str {
    match via {
        ApprovalVia::Cli => "command line",
        ApprovalVia::Api => "API",
        ApprovalVia::Client => "client",
    }
}

async fn approve(args: Approve, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    if args.always {
        return always::approve(args, settings, printer).await;
    }
    let scope = match args.scope {
        For::Once => ApprovalScope::Once,
        For::Session => ApprovalScope::Session,
    };
    answer(&args.id, args.say, Some(scope), settings, printer).await
}

async fn deny(args: Deny, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    answer(&args.id, args.say, None, settings, printer).await
}

/// Answers a request: `scope` is how long an approval holds, `None` denies.
async fn answer(
    id: &str,
    say: Say,
    scope: Option<ApprovalScope>,
    settings: &Settings,
    printer: &Printer,
) -> Result<ExitCode, Fault> {
    let store = store(settings).await?;
    let id = approval_id(&store, id).await?;
    let settled = answer_in(&store, id, &say, scope).await;
    store.leave().await;
    tell(&settled?, &say, printer)
}

/// Prints the receipt of an answer, as text or JSON.
fn tell(settled: &Settled, say: &Say, printer: &Printer) -> Result<ExitCode, Fault> {
    if say.json {
        printer.json(&json!({ "approval": settled.approval, "again": settled.again }))?;
    } else {
        printer.line(&said(settled, printer))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn answer_in(store: &Store, id: ApprovalId, say: &Say, scope: Option<ApprovalScope>) -> Result<Settled, Fault> {
    let say = made(store, id, say, scope).await?;
    Ok(approvals::answer(store, id, say).await?)
}

/// Builds the answer of the user who runs this program.
async fn made(store: &Store, id: ApprovalId, say: &Say, scope: Option<ApprovalScope>) -> Result<approvals::Say, Fault> {
    let shown = match &say.shown {
        None => None,
        Some(digest) => Some(what_was_shown(store, id, digest).await?),
    };
    Ok(approvals::Say {
        approve: scope.is_some(),
        scope: scope.unwrap_or(ApprovalScope::Once),
        shown,
        by: run::principal(),
        via: ApprovalVia::Cli,
        note: say.note.clone(),
    })
}

/// Resolves a digest that was given whole or by its beginning.
async fn what_was_shown(store: &Store, id: ApprovalId, digest: &str) -> Result<Hash, Fault> {
    if let Ok(whole) = digest.parse() {
        return Ok(whole);
    }
    let is_one = digest.len() >= DIGITS && digest.chars().all(|c| c.is_ascii_hexdigit());
    if !is_one {
        let message = format!("`{digest}` is no digest of what was shown");
        return Err(Fault::ours("approval.digest", message)
            .hint("`ringfence approvals show ID` prints it")
            .exit(NOT_HELD));
    }
    let found = approvals::show(store, id).await?.ok_or(AnswerError::Unknown(id))?;
    let begins = found.shown.starts_with(&digest.to_ascii_lowercase());
    let whole = found.shown.parse().ok().filter(|_| begins);
    whole.ok_or_else(|| AnswerError::Changed(id).into())
}

fn said(settled: &Settled, printer: &Printer) -> String {
    let one = &settled.approval;
    let (word, style) = match &one.answer {
        Some(said) if said.approve => (format!("approved ({})", said.scope.name()), Style::Good),
        _ => ("denied".to_owned(), Style::Bad),
    };
    let again = if settled.again { "  (as before)" } else { "" };
    format!(
        "{}  {}  {}{again}",
        one.id,
        printer.paint(&word, style),
        line(&one.tool)
    )
}

async fn approval_id(store: &Store, text: &str) -> Result<ApprovalId, Fault> {
    let whole = ids::whole(store, text, &[IdKind::Approval]).await?;
    whole.parse().map_err(|error: ringfence_journal::IdError| {
        Fault::ours("approval.id", format!("`{text}` is {error}"))
            .hint("`ringfence approvals list` shows the ids")
            .exit(NOT_HELD)
    })
}

impl From<AnswerError> for Fault {
    fn from(error: AnswerError) -> Fault {
        let fault = match &error {
            AnswerError::Way(_) => Fault::refused(error.code(), error.to_string()).rule("approvals.by"),
            AnswerError::Ceiling(rule) => Fault::refused(error.code(), error.to_string()).rule(rule.clone()),
            AnswerError::Read(_) | AnswerError::Record(_) | AnswerError::File(_) | AnswerError::Unplaced(_) => {
                Fault::ours(error.code(), error.to_string())
            }
            AnswerError::Unknown(_)
            | AnswerError::Conflict(_)
            | AnswerError::Expired(_)
            | AnswerError::Withdrawn(_)
            | AnswerError::Ended(_)
            | AnswerError::Once(_)
            | AnswerError::Rule(_)
            | AnswerError::Busy
            | AnswerError::Changed(_) => Fault::ours(error.code(), error.to_string()).exit(NOT_HELD),
        };
        match error.hint() {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    }
}
