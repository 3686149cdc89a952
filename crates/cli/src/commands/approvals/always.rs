//! `approvals approve --always`: shows the rule and its effect, asks for confirmation, then writes the rule.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use ringfence_engine::standing_rules::{self, RulePreview};
use ringfence_journal::ApprovalScope;
use ringfence_store::Store;
use serde_json::Value;

use super::{find_approval_id, new_answer, print_receipt};
use crate::args::ApproveArgs;
use crate::commands::open_store;
use crate::fault::{CliFault, EXIT_CANCELLED, EXIT_CHECK_FAILED};
use crate::print::{Printer, escape};
use crate::settings::CliSettings;

pub(super) async fn approve_always(
    args: ApproveArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let conditions = args.conditions.as_deref().map(parse_conditions).transpose()?;
    let store = open_store(settings).await?;
    let done = approve_always_in(&store, &args, conditions.as_ref(), printer).await;
    store.close_for_exit().await;
    done
}

async fn approve_always_in(
    store: &Store,
    args: &ApproveArgs,
    conditions: Option<&Value>,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let id = find_approval_id(store, &args.id).await?;
    let home = store.home().to_owned();
    let say = new_answer(store, id, &args.say, Some(ApprovalScope::Always)).await?;
    let preview = standing_rules::preview_rule(store, &home, id, conditions).await?;
    show_preview(&preview, printer);
    if !args.yes {
        confirm(printer)?;
    }
    let settled = standing_rules::answer_always(store, &home, id, say, conditions).await?;
    print_receipt(&settled, &args.say, printer)
}

fn parse_conditions(text: &str) -> Result<Value, CliFault> {
    let wrong = |why: String| {
        CliFault::internal("approval.rule", format!("`--where` {why}"))
            .with_hint("write it as a rule's `where`, such as `{\"to\": {\"equals\": \"ann@example.com\"}}`")
            .with_exit(EXIT_CHECK_FAILED)
    };
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(wrong("is not an object".to_owned())),
        Err(error) => Err(wrong(format!("is not JSON: {error}"))),
    }
}

/// Prints the rule and the changes it causes.
fn show_preview(preview: &RulePreview, printer: &Printer) {
    printer.print_to_stderr(&format!("rule in {}:", preview.file.display()));
    printer.print_to_stderr(&format!("  {}", escape::escape_json(&preview.rule.to_string())));
    for change in &preview.changes {
        printer.print_to_stderr(&format!("  {change}"));
    }
}

/// Asks for confirmation at the terminal; without a terminal the command fails, and `--yes` skips the question.
fn confirm(printer: &Printer) -> Result<(), CliFault> {
    if !io::stdin().is_terminal() {
        return Err(CliFault::internal(
            "approval.unconfirmed",
            "nothing was answered: nobody is there to confirm the rule",
        )
        .with_hint("look at the rule above, then add `--yes`")
        .with_exit(EXIT_CHECK_FAILED));
    }
    printer.print_to_stderr("write this rule and approve? [y/N]");
    let mut line = String::new();
    // A failed read counts as no.
    let read = io::stdin().read_line(&mut line).unwrap_or(0);
    if read > 0 && matches!(line.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(CliFault::internal("cancelled", "nothing was answered").with_exit(EXIT_CANCELLED))
}
