//! `ringfence approvals`: lists pending approval requests and answers them. An answer needs no server: the process that
//! owns the execution learns of it from the store.

use std::process::ExitCode;

use ringfence_engine::approvals::{self, AnswerError, AnswerReceipt, ApprovalQuery, ApprovalState, ApprovalView};
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia, AskReason, ContentHash};
use ringfence_store::{IdKind, Store};
use serde_json::json;

use super::{ids, open_store, run};
use crate::args::{AnswerArgs, ApprovalsCommand, ApprovalsList, ApprovalsShow, ApproveArgs, DenyArgs, GrantScope};
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::{Printer, Style, distance_text, escape, moment};
use crate::settings::CliSettings;

mod always;

/// Runs the subcommand of `approvals`.
pub(crate) async fn dispatch(
    command: ApprovalsCommand,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    match command {
        ApprovalsCommand::List(list) => self::list_approvals(&list, settings, printer).await,
        ApprovalsCommand::Show(shown) => show_approval(&shown, settings, printer).await,
        ApprovalsCommand::Approve(approve) => self::approve_call(approve, settings, printer).await,
        ApprovalsCommand::Deny(deny) => self::deny_call(deny, settings, printer).await,
    }
}

async fn list_approvals(list: &ApprovalsList, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let found = match open_store(settings).await {
        Err(fault) if fault.code == "store.none" => Vec::new(),
        Err(fault) => return Err(fault),
        Ok(store) => {
            let session = match list.session.as_deref() {
                Some(text) => Some(ids::resolve_session_id(&store, text).await?),
                None => None,
            };
            let which = ApprovalQuery {
                session,
                state: (!list.all).then_some(ApprovalState::Pending),
                limit: Some(list.limit),
                ..ApprovalQuery::default()
            };
            let found = approvals::list_approvals(&store, which).await;
            store.close_for_exit().await;
            found?
        }
    };
    if list.json {
        printer.print_json(&found)?;
    } else if found.is_empty() {
        printer.notice(if list.all {
            "nobody was ever asked"
        } else {
            "nothing waits for a person"
        });
    } else {
        printer.print_line(&format!(
            "{:<28}  {:<14}  {:>7}  {:<28}  {:<28}  PROGRAM",
            "ID", "STATE", "AGE", "TOOL", "SESSION"
        ))?;
        for one in &found {
            printer.print_line(&approval_row(one, printer))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn approval_row(one: &ApprovalView, printer: &Printer) -> String {
    let (state, style) = match one.state {
        ApprovalState::Pending => (time_left(one), Style::Warn),
        ApprovalState::Approved => ("approved".to_owned(), Style::Good),
        ApprovalState::Denied => ("denied".to_owned(), Style::Bad),
        ApprovalState::Expired => ("expired".to_owned(), Style::Faint),
        ApprovalState::Withdrawn => ("withdrawn".to_owned(), Style::Faint),
    };
    let state = printer.paint(&format!("{state:<14}"), style);
    format!(
        "{}  {state}  {:>7}  {:<28}  {}  {}",
        one.id,
        distance_text(one.asked),
        one_line(&one.tool),
        one.session_id,
        program_label(one)
    )
}

/// The label of the requesting program: its name, which anybody can choose, and the first 8 digits of its code's digest.
fn program_label(one: &ApprovalView) -> String {
    let code = one.code.as_ref().and_then(|code| code.get(..8));
    let code = code.map_or_else(String::new, |code| format!(" {code}"));
    format!("{}{code}", one_line(&one.program))
}

/// The time until the request expires, as text for a list.
fn time_left(one: &ApprovalView) -> String {
    format!("{} left", distance_text(one.expires))
}

/// Escapes text of other parties and puts it on one line.
fn one_line(text: &str) -> String {
    escape::escape_text(text).replace(['\n', '\r', '\t'], " ")
}

async fn show_approval(args: &ApprovalsShow, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let store = open_store(settings).await?;
    let id = find_approval_id(&store, &args.id).await?;
    let found = approvals::find_approval_with_code(&store, id).await;
    store.close_for_exit().await;
    let found = found?.ok_or_else(|| CliFault::from(AnswerError::Unknown(id)))?;
    if args.json {
        printer.print_json(&found)?;
    } else {
        printer.print_escaped(&approval_text(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn approval_text(one: &ApprovalView) -> String {
    let arguments = serde_json::to_string_pretty(&one.arguments).unwrap_or_else(|_| one.arguments.to_string());
    let arguments = escape::escape_json(&arguments).replace('\n', "\n  ");
    let mut lines = vec![
        format!("question   {}", one.id),
        format!("state      {}", state_text(one)),
        format!("tool       {}", one_line(&one.tool)),
        format!("arguments\n  {arguments}"),
        format!("rule       {} ({})", one_line(&one.rule), reason_text(one.why)),
        format!("program    {}, call {}", one_line(&one.program), one.number),
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
        let text = escape::escape_text(&source.text);
        lines.extend(text.lines().map(|line| format!("  | {line}")));
        lines.extend(source.is_cut.then(|| "  (cut: there is more of it)".to_owned()));
    }
    if let Some(note) = one.answer.as_ref().and_then(|said| said.note.as_ref()) {
        lines.push(format!("note       {}", one_line(note)));
    }
    if one.state == ApprovalState::Pending {
        let digest = one.shown.get(..DIGEST_CHARS).unwrap_or(&one.shown);
        lines.push(String::new());
        lines.push(format!("ringfence approvals approve {} --shown {digest}", one.id));
        lines.push(format!("ringfence approvals deny {} --shown {digest}", one.id));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// How many hex digits of a digest identify what was shown.
const DIGEST_CHARS: usize = 16;

fn state_text(one: &ApprovalView) -> String {
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
            via_text(said.via),
            said.at
        ),
        None if one.state == ApprovalState::Pending => format!("pending, {}", time_left(one)),
        None => one.state.name().to_owned(),
    }
}

fn reason_text(why: AskReason) -> &'static str {
    match why {
        AskReason::Rule => "a person must approve",
        AskReason::Drift => "the tool is not what it was when it was pinned",
        AskReason::Unknown => {
            "it was under way when its process died: nobody knows whether it was done; a yes makes it again"
        }
    }
}

fn via_text(via: ApprovalVia) -> &'static str {
    match via {
        ApprovalVia::Cli => "command line",
        ApprovalVia::Api => "API",
        ApprovalVia::Client => "client",
    }
}

async fn approve_call(args: ApproveArgs, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    if args.always {
        return always::approve_always(args, settings, printer).await;
    }
    let scope = match args.scope {
        GrantScope::Once => ApprovalScope::Once,
        GrantScope::Session => ApprovalScope::Session,
    };
    answer_call(&args.id, args.say, Some(scope), settings, printer).await
}

async fn deny_call(args: DenyArgs, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    answer_call(&args.id, args.say, None, settings, printer).await
}

/// Answers a request: `scope` is how long an approval holds, `None` denies.
async fn answer_call(
    id: &str,
    say: AnswerArgs,
    scope: Option<ApprovalScope>,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let store = open_store(settings).await?;
    let id = find_approval_id(&store, id).await?;
    let settled = answer_in_store(&store, id, &say, scope).await;
    store.close_for_exit().await;
    print_receipt(&settled?, &say, printer)
}

/// Prints the receipt of an answer, as text or JSON.
fn print_receipt(settled: &AnswerReceipt, say: &AnswerArgs, printer: &Printer) -> Result<ExitCode, CliFault> {
    if say.json {
        printer.print_json(&json!({ "approval": settled.approval, "again": settled.already_answered }))?;
    } else {
        printer.print_line(&receipt_text(settled, printer))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn answer_in_store(
    store: &Store,
    id: ApprovalId,
    say: &AnswerArgs,
    scope: Option<ApprovalScope>,
) -> Result<AnswerReceipt, CliFault> {
    let say = new_answer(store, id, say, scope).await?;
    Ok(approvals::answer_approval(store, id, say).await?)
}

/// Builds the answer of the user who runs this program.
async fn new_answer(
    store: &Store,
    id: ApprovalId,
    say: &AnswerArgs,
    scope: Option<ApprovalScope>,
) -> Result<approvals::AnswerSubmission, CliFault> {
    let shown = match &say.shown {
        None => None,
        Some(digest) => Some(full_digest(store, id, digest).await?),
    };
    Ok(approvals::AnswerSubmission {
        approve: scope.is_some(),
        scope: scope.unwrap_or(ApprovalScope::Once),
        shown,
        by: run::local_principal(),
        via: ApprovalVia::Cli,
        note: say.note.clone(),
    })
}

/// Resolves a digest that was given whole or by its beginning.
async fn full_digest(store: &Store, id: ApprovalId, digest: &str) -> Result<ContentHash, CliFault> {
    if let Ok(whole) = digest.parse() {
        return Ok(whole);
    }
    let is_one = digest.len() >= DIGEST_CHARS && digest.chars().all(|c| c.is_ascii_hexdigit());
    if !is_one {
        let message = format!("`{digest}` is no digest of what was shown");
        return Err(CliFault::internal("approval.digest", message)
            .with_hint("`ringfence approvals show ID` prints it")
            .with_exit(EXIT_CHECK_FAILED));
    }
    let found = approvals::find_approval(store, id)
        .await?
        .ok_or(AnswerError::Unknown(id))?;
    let begins = found.shown.starts_with(&digest.to_ascii_lowercase());
    let whole = found.shown.parse().ok().filter(|_| begins);
    whole.ok_or_else(|| AnswerError::Changed(id).into())
}

fn receipt_text(settled: &AnswerReceipt, printer: &Printer) -> String {
    let one = &settled.approval;
    let (word, style) = match &one.answer {
        Some(said) if said.approve => (format!("approved ({})", said.scope.name()), Style::Good),
        _ => ("denied".to_owned(), Style::Bad),
    };
    let again = if settled.already_answered { "  (as before)" } else { "" };
    format!(
        "{}  {}  {}{again}",
        one.id,
        printer.paint(&word, style),
        one_line(&one.tool)
    )
}

async fn find_approval_id(store: &Store, text: &str) -> Result<ApprovalId, CliFault> {
    let whole = ids::resolve_id(store, text, &[IdKind::Approval]).await?;
    whole.parse().map_err(|error: ringfence_journal::IdError| {
        CliFault::internal("approval.id", format!("`{text}` is {error}"))
            .with_hint("`ringfence approvals list` shows the ids")
            .with_exit(EXIT_CHECK_FAILED)
    })
}

impl From<AnswerError> for CliFault {
    fn from(error: AnswerError) -> CliFault {
        let fault = match &error {
            AnswerError::ViaNotAllowed(_) => {
                CliFault::refused(error.code(), error.to_string()).with_rule("approvals.by")
            }
            AnswerError::Ceiling(rule) => CliFault::refused(error.code(), error.to_string()).with_rule(rule.clone()),
            AnswerError::Read(_) | AnswerError::Record(_) | AnswerError::File(_) | AnswerError::RuleNotWritten(_) => {
                CliFault::internal(error.code(), error.to_string())
            }
            AnswerError::Unknown(_)
            | AnswerError::Conflict(_)
            | AnswerError::Expired(_)
            | AnswerError::Withdrawn(_)
            | AnswerError::Ended(_)
            | AnswerError::OnlyOnce(_)
            | AnswerError::Rule(_)
            | AnswerError::Busy
            | AnswerError::Changed(_) => {
                CliFault::internal(error.code(), error.to_string()).with_exit(EXIT_CHECK_FAILED)
            }
        };
        match error.hint() {
            Some(hint) => fault.with_hint(hint),
            None => fault,
        }
    }
}
