//! `approvals approve --always`: shows the rule and its effect, asks for confirmation, then writes the rule.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use ringfence_engine::standing::{self, Preview};
use ringfence_journal::ApprovalScope;
use ringfence_store::Store;
use serde_json::Value;

use super::{approval_id, made, tell};
use crate::args::Approve;
use crate::commands::store;
use crate::fault::{CANCELLED, Fault, NOT_HELD};
use crate::print::{Printer, escape};
use crate::settings::Settings;

pub(super) async fn approve(args: Approve, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let conditions = args.conditions.as_deref().map(conditions).transpose()?;
    let store = store(settings).await?;
    let done = approve_in(&store, &args, conditions.as_ref(), printer).await;
    store.leave().await;
    done
}

async fn approve_in(
    store: &Store,
    args: &Approve,
    conditions: Option<&Value>,
    printer: &Printer,
) -> Result<ExitCode, Fault> {
    let id = approval_id(store, &args.id).await?;
    let home = store.home().to_owned();
    let say = made(store, id, &args.say, Some(ApprovalScope::Always)).await?;
    let preview = standing::preview(store, &home, id, conditions).await?;
    show(&preview, printer);
    if !args.yes {
        ask(printer)?;
    }
    let settled = standing::answer(store, &home, id, say, conditions).await?;
    tell(&settled, &args.say, printer)
}

fn conditions(text: &str) -> Result<Value, Fault> {
    let wrong = |why: String| {
        Fault::ours("approval.rule", format!("`--where` {why}"))
            .hint("write it as a rule's `where`, such as `{\"to\": {\"equals\": \"ann@example.com\"}}`")
            .exit(NOT_HELD)
    };
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(wrong("is not an object".to_owned())),
        Err(error) => Err(wrong(format!("is not JSON: {error}"))),
    }
}

/// Prints the rule and the changes it causes.
fn show(preview: &Preview, printer: &Printer) {
    printer.aside(&format!("rule in {}:", preview.file.display()));
    printer.aside(&format!("  {}", escape::json(&preview.rule.to_string())));
    for change in &preview.changes {
        printer.aside(&format!("  {change}"));
    }
}

/// Asks for confirmation at the terminal; without a terminal the command fails, and `--yes` skips the question.
fn ask(printer: &Printer) -> Result<(), Fault> {
    if !io::stdin().is_terminal() {
        return Err(Fault::ours(
            "approval.unconfirmed",
            "nothing was answered: nobody is there to confirm the rule",
        )
        .hint("look at the rule above, then add `--yes`")
        .exit(NOT_HELD));
    }
    printer.aside("write this rule and approve? [y/N]");
    let mut line = String::new();
    // A failed read counts as no.
    let read = io::stdin().read_line(&mut line).unwrap_or(0);
    if read > 0 && matches!(line.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Fault::ours("cancelled", "nothing was answered").exit(CANCELLED))
}
